//! What is pressed on the terminal while a call sounds.

use std::cmp::Ordering;
use std::io::Read;
use std::sync::mpsc::{Receiver, channel};

use tautline_io::terminal::TerminalKeys;
use tautline_proto::device::Stop;

use super::asks::CallAsk;
use crate::failure::Failure;

/// What a key asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum PressedKey {
    /// The space bar: talk while muted.
    Talk,
    /// `m`: mute, or unmute.
    Mute,
    /// `q`: hang up.
    HangUp,
    /// `+`, `-`: more latency, or less; `>`, `<`: longer packets, or shorter.
    Change(CallAsk),
}

impl PressedKey {
    const fn of(byte: u8) -> Option<Self> {
        match byte {
            b' ' => Some(Self::Talk),
            b'm' | b'M' => Some(Self::Mute),
            b'q' | b'Q' => Some(Self::HangUp),
            b'+' | b'=' => Some(Self::Change(CallAsk::LatencyBy(1))),
            b'-' => Some(Self::Change(CallAsk::LatencyBy(-1))),
            b'>' | b'.' => Some(Self::Change(CallAsk::PtimeBy(Ordering::Greater))),
            b'<' | b',' => Some(Self::Change(CallAsk::PtimeBy(Ordering::Less))),
            _ => None,
        }
    }
}

/// The keys of the terminal, in the order in which they are pressed. Dropped, the terminal is as it was.
pub(super) struct PressedKeys {
    _terminal: TerminalKeys,
    pressed: Receiver<PressedKey>,
}

impl PressedKeys {
    /// `None` where there is no terminal to press keys at. Nothing waits for the thread that reads them: it may wait for
    /// a key that never comes.
    pub(super) fn listen(stop: Stop) -> Result<Option<Self>, Failure> {
        let failed = |error: std::io::Error| {
            Failure::running(format!(
                "reading keys of the terminal: {error}; redirect standard input from /dev/null"
            ))
        };
        let Some(terminal) = TerminalKeys::of_standard_input().map_err(failed)? else {
            return Ok(None);
        };
        let (presses, pressed) = channel();
        let read = move || {
            // What ends the input ends this, not the call.
            for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
                match PressedKey::of(byte) {
                    Some(PressedKey::HangUp) => stop.request(),
                    Some(key) if presses.send(key).is_err() => return,
                    _ => {}
                }
            }
        };
        let thread = std::thread::Builder::new().name("taut-keys".into()).spawn(read);
        thread.map_err(failed)?;
        Ok(Some(Self { _terminal: terminal, pressed }))
    }

    /// What was pressed since this was asked last.
    pub(super) fn pressed(&self) -> impl Iterator<Item = PressedKey> {
        self.pressed.try_iter()
    }
}
