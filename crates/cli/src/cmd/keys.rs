use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tautline_io::terminal::TerminalKeys;
use tautline_proto::device::Stop;

use crate::failure::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pressed<K> {
    End,
    Key(K),
}

/// Dropping it restores the terminal.
pub(super) struct PressedKeys<K> {
    _terminal: TerminalKeys,
    pressed: Receiver<K>,
}

impl<K: Send + 'static> PressedKeys<K> {
    /// `None` without a terminal. The reading thread is detached, because it may wait for a key
    /// forever.
    pub(super) fn listen(
        stop: Stop,
        of: fn(u8) -> Option<Pressed<K>>,
    ) -> Result<Option<Self>, Failure> {
        let failed = |error: std::io::Error| {
            Failure::running(format!(
                "reading keys of the terminal: {error}\nhint: redirect standard input from /dev/null"
            ))
        };
        let Some(terminal) = TerminalKeys::of_standard_input().map_err(failed)? else {
            return Ok(None);
        };
        let (presses, pressed) = channel();
        let read = move || {
            // The end of the input does not end the calls.
            for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
                let reported = match of(byte) {
                    Some(Pressed::Key(key)) => presses.send(key),
                    Some(Pressed::End) => {
                        stop.request();
                        Ok(())
                    }
                    None => Ok(()),
                };
                if reported.is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("taut-keys".into()).spawn(read);
        thread.map_err(failed)?;
        Ok(Some(Self { _terminal: terminal, pressed }))
    }

    pub(super) fn wait(&self, timeout: Duration) -> Option<K> {
        match self.pressed.recv_timeout(timeout) {
            Ok(key) => Some(key),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(timeout);
                None
            }
        }
    }

    pub(super) fn pressed(&self) -> impl Iterator<Item = K> {
        self.pressed.try_iter()
    }
}
