//! `taut page --talk`: the space bar begins and ends pages.

use std::io::{Read as _, stdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tautline_io::clock::now;
use tautline_io::terminal::TerminalKeys;
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};

use crate::failure::Failure;
use crate::screen;
use crate::voice::Voice;

const STEP: Duration = Duration::from_millis(10);

/// Runs `page` from a press of the space bar until its release or the next press, again and again.
/// Returns the last result.
pub(super) fn talk(
    voice: Voice,
    stop: &Stop,
    page: impl Fn(&Stop) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let failed = |why| Failure::running(format!("reading the keyboard: {why}"));
    let keys = TerminalKeys::of_standard_input().map_err(failed)?;
    let Some(_keys) = keys else {
        return Err(Failure::usage(
            "--talk needs a terminal as standard input\nhint: run it in the foreground of a terminal, or without --talk",
        ));
    };
    let presses = presses()?;
    voice.notify("space: speak while held, or until the next press; q: quit");
    let (mut key, mut last) = (TalkKey::default(), Ok(()));
    while !stop.is_requested() {
        pressed(&presses, &mut key, stop);
        if !key.is_on(now()) {
            continue;
        }
        let ends = stop.part();
        let paged = std::thread::scope(|scope| {
            let paging = scope.spawn(|| page(&ends));
            while !paging.is_finished() {
                pressed(&presses, &mut key, stop);
                if !key.is_on(now()) {
                    ends.request();
                }
            }
            paging.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        // After a page that ended early, the user must press again.
        key = TalkKey::default();
        while presses.try_recv().is_ok() {}
        last = paged.map_err(|failure| {
            screen::complain(&failure);
            failure.already_shown()
        });
    }
    last
}

fn presses() -> Result<Receiver<u8>, Failure> {
    let (sender, presses) = channel();
    let read = move || {
        for key in stdin().lock().bytes().map_while(Result::ok) {
            if sender.send(key).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("taut-keys".to_owned()).spawn(read);
    started.map_err(|error| Failure::running(format!("starting a thread: {error}")))?;
    Ok(presses)
}

/// Waits briefly for a key. A closed terminal ends the program.
fn pressed(presses: &Receiver<u8>, key: &mut TalkKey, stop: &Stop) {
    match presses.recv_timeout(STEP) {
        Ok(b' ') => key.press(now()),
        Ok(b'q') | Err(RecvTimeoutError::Disconnected) => stop.request(),
        Ok(_) | Err(RecvTimeoutError::Timeout) => {}
    }
}

/// State of the space bar. A terminal reports no release, but repeats a held key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TalkKey {
    #[default]
    Off,
    /// Pressed once: the page lasts until the next press.
    On,
    /// Held: the page lasts until the terminal no longer repeats the key.
    Held(LocalTime),
}

impl TalkKey {
    /// Longer than the repeat interval of a held key, which is 25 to 100 ms.
    pub(super) const RELEASED: Span = Span::from_millis(200);

    pub(super) fn press(&mut self, now: LocalTime) {
        *self = match self {
            Self::Off => Self::On,
            Self::On | Self::Held(_) => Self::Held(now),
        };
    }

    pub(super) fn is_on(&mut self, now: LocalTime) -> bool {
        if let Self::Held(newest) = *self
            && now >= newest + Self::RELEASED
        {
            *self = Self::Off;
        }
        *self != Self::Off
    }
}
