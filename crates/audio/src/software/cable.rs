//! Connects virtual cards by name, via shared memory. A capturing card takes the frames that met
//! the player's DAC when its own meet its ADC, minus the cable's delay. No card waits; missing
//! frames are silence.

mod hearing;
mod ring;
#[cfg(test)]
mod tests;

use core::fmt;
use core::str::FromStr;

pub(crate) use hearing::HearingEnd;
use ring::{CableRing, RingLayout};
use tautline_io::shm::{Hold, Lock, SharedError, SharedFile};
use tautline_proto::card_clock::CardClock;
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::time::{Frames, Span};

const PLUGGING: Lock = Lock(0);
const TIMEOUT: Span = Span::from_secs(2);
const USED: Lock = Lock(1);
const PLAYED: Lock = Lock(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CableName(String);

impl CableName {
    const LONGEST: usize = 32;
}

impl FromStr for CableName {
    type Err = ();

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Playing,
    Hearing,
}

struct CablePlug {
    ring: CableRing,
    file: SharedFile,
}

impl CablePlug {
    fn new(name: &CableName, end: End, settings: &Settings) -> Result<Self, DeviceError> {
        let layout = RingLayout::new(settings);
        let refused = |answer: String, hint: &str| error(name, answer, hint);
        let buffer = settings.period.count().saturating_mul(settings.periods.into());
        if buffer > layout.longest_buffer() {
            let maximum = layout.longest_buffer();
            let answer =
                format!("a buffer of {buffer} frames exceeds the cable's maximum of {maximum}");
            return Err(refused(answer, "use shorter or fewer periods"));
        }
        let cannot = |why: SharedError| {
            let why = why.to_string();
            let (answer, hint) = why.split_once("\nhint: ").unwrap_or((&why, "try again"));
            refused(answer.to_owned(), hint)
        };
        let file = loop {
            let file = SharedFile::open(&layout.file_name(name)).map_err(cannot)?;
            file.lock(PLUGGING, Hold::Alone, TIMEOUT).map_err(cannot)?;
            if file.is_there() {
                break file;
            }
        };
        let is_new = file.try_lock(USED, Hold::Alone).map_err(cannot)?;
        if is_new {
            file.renew(layout.bytes()).map_err(cannot)?;
        }
        file.lock(USED, Hold::Shared, TIMEOUT).map_err(cannot)?;
        let ring = CableRing::map(&file, layout, is_new).map_err(cannot)?.map_err(|found| {
            let answer = format!("it carries {found}, not {layout}");
            refused(answer, "use the same rate and channels at both ends, or another name")
        })?;
        if end == End::Playing && !file.try_lock(PLAYED, Hold::Alone).map_err(cannot)? {
            let hint =
                "use another name, stop the other card, or capture from the cable with --input";
            return Err(refused("another card plays on it".to_owned(), hint));
        }
        file.lock(PLUGGING, Hold::Free, TIMEOUT).map_err(cannot)?;
        Ok(Self { ring, file })
    }
}

impl Drop for CablePlug {
    fn drop(&mut self) {
        let alone = self.file.lock(PLUGGING, Hold::Alone, TIMEOUT).is_ok();
        if alone && matches!(self.file.try_lock(USED, Hold::Alone), Ok(true)) {
            self.file.remove();
        }
    }
}

fn error(name: &CableName, answer: String, hint: &str) -> DeviceError {
    DeviceError { tried: format!("virtual:?cable={name}"), answer, hint: hint.to_owned() }
}

pub(crate) struct PlayingEnd {
    plug: CablePlug,
    channels: i64,
    next: i64,
}

impl PlayingEnd {
    pub(crate) fn new(name: &CableName, settings: &Settings) -> Result<Self, DeviceError> {
        let plug = CablePlug::new(name, End::Playing, settings)?;
        Ok(Self { plug, channels: settings.channels.count() as i64, next: 0 })
    }

    pub(crate) fn begin(&mut self, clock: &CardClock) {
        self.next = 0;
        self.plug.ring.begin(clock);
    }

    pub(crate) fn play(&mut self, samples: &[f32]) {
        self.plug.ring.write(self.next, samples);
        self.next += samples.len() as i64 / self.channels;
    }

    pub(crate) fn play_silence(&mut self, frames: Frames) {
        if frames > Frames::ZERO {
            self.plug.ring.write_silence(self.next, frames.count());
            self.next += frames.count();
        }
    }
}
