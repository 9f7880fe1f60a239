//! A cable that joins virtual cards by its name, also those of several processes of one user:
//! what one of them plays, the others hear.
//!
//! The player's frames lie in shared memory, by the player's own count, beside the clock they are
//! counted by. A hearer asks for what met the player's DAC when a frame meets its own ADC, less the
//! cable's delay; by that arithmetic alone the two are joined, and nobody waits for anybody. Sound
//! that was not played, or was not written in time, is silence.

mod hearing;
mod playing;
mod ring;
#[cfg(test)]
mod tests;

use core::fmt;
use core::str::FromStr;

use tautline_io::shared::{Hold, Lock, SharedError, SharedFile};
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::time::Span;

pub(crate) use hearing::HearingEnd;
pub(crate) use playing::PlayingEnd;
use ring::{CableRing, RingLayout};

/// Held for the moments in which somebody plugs in or out.
const PLUGGING: Lock = Lock(0);
/// Plugging takes milliseconds: who is at it for longer was stopped.
const PATIENCE: Span = Span::from_secs(2);
/// Shared by all that are plugged in.
const USED: Lock = Lock(1);
/// Held by the one that plays.
const PLAYED: Lock = Lock(2);

/// The name of a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CableName(String);

impl CableName {
    const LONGEST: usize = 32;
}

impl FromStr for CableName {
    type Err = ();

    /// Letters, digits, `-` and `_`, as it becomes the name of a file.
    fn from_str(given: &str) -> Result<Self, ()> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let good = !given.is_empty() && given.len() <= Self::LONGEST && given.chars().all(fits);
        if good { Ok(Self(given.to_owned())) } else { Err(()) }
    }
}

impl fmt::Display for CableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Playing,
    Hearing,
}

/// A card's hold of a cable: its memory, and the locks that say so.
struct CablePlug {
    ring: CableRing,
    file: SharedFile,
}

impl CablePlug {
    /// Plugs a card that runs like this in. The first makes the cable.
    fn new(name: &CableName, end: End, settings: &Settings) -> Result<Self, DeviceError> {
        let layout = RingLayout::new(settings);
        let refused = |answer: String, mend: &str| error(name, answer, mend);
        let buffer = settings.period.count().saturating_mul(settings.periods.into());
        if buffer > layout.longest_buffer() {
            let most = layout.longest_buffer();
            let answer = format!("a buffer of {buffer} frames is longer than a cable's, {most}");
            return Err(refused(answer, "use smaller periods, or fewer"));
        }
        let cannot = |why: SharedError| {
            let mend = "what a cable carries lies there";
            refused(why.to_string(), mend)
        };
        // Where the last one plugged out, and removed the file, since it was opened, there is another.
        let file = loop {
            let file = SharedFile::open(&layout.file_name(name)).map_err(cannot)?;
            file.lock(PLUGGING, Hold::Alone, PATIENCE).map_err(cannot)?;
            if file.is_there() {
                break file;
            }
        };
        let is_new = file.try_lock(USED, Hold::Alone).map_err(cannot)?;
        if is_new {
            // Left by somebody who was killed, or new: nobody has it mapped.
            file.renew(layout.bytes()).map_err(cannot)?;
        }
        file.lock(USED, Hold::Shared, PATIENCE).map_err(cannot)?;
        let ring = CableRing::map(&file, layout, is_new).map_err(cannot)?.map_err(|found| {
            let answer = format!("it carries {found}, and not {layout}");
            refused(answer, "use the same rate and as many channels at both ends, or another name")
        })?;
        if end == End::Playing && !file.try_lock(PLAYED, Hold::Alone).map_err(cannot)? {
            let mend = "use another name, or end the other; to be heard a cable needs --input";
            return Err(refused("another card plays on it".to_owned(), mend));
        }
        file.lock(PLUGGING, Hold::Free, PATIENCE).map_err(cannot)?;
        Ok(Self { ring, file })
    }
}

impl Drop for CablePlug {
    /// The last one takes the cable away.
    fn drop(&mut self) {
        // Who cannot lock leaves a file behind, which the next one makes anew.
        let alone = self.file.lock(PLUGGING, Hold::Alone, PATIENCE).is_ok();
        if alone && matches!(self.file.try_lock(USED, Hold::Alone), Ok(true)) {
            self.file.remove();
        }
    }
}

fn error(name: &CableName, answer: String, mend: &str) -> DeviceError {
    DeviceError { tried: format!("virtual:?cable={name}"), answer, mend: mend.to_owned() }
}
