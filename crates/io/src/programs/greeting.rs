//! The only message between device process and program. Little-endian.
//!
//! ```text
//! "tautpcm" | version 1 | 0 | rate | channels | period | periods | frames     with two descriptors
//! "tautpcm" | version 1 | 1 | a sentence in UTF-8
//! ```

use tautline_proto::call::message::MAX_REASON;
use tautline_proto::device::Settings;
use tautline_proto::text::printable;
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

use super::buffer::MAX_SAMPLES;

const NAME: &[u8] = b"tautpcm";
const VERSION: u8 = 1;

/// The message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// A device, with its buffer.
    Card {
        /// Settings of the device.
        settings: Settings,
        /// Frames in the buffer.
        frames: usize,
    },
    /// No device, with the reason.
    Refused(String),
}

impl Greeting {
    /// Maximum message size in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Encodes it. Truncates a long reason.
    pub fn written(&self) -> Vec<u8> {
        let mut bytes = [NAME, &[VERSION]].concat();
        match self {
            Self::Card { settings: Settings { rate, channels, period, periods }, frames } => {
                bytes.push(0);
                let period = u32::try_from(period.count()).unwrap_or(u32::MAX);
                let (frames, channels) = (*frames as u32, channels.count() as u32);
                for number in [rate.hertz(), channels, period, *periods, frames] {
                    bytes.extend(number.to_le_bytes());
                }
            }
            Self::Refused(sentence) => {
                bytes.push(1);
                bytes.extend(sentence.bytes().take(Self::MAX_BYTES - bytes.len()));
            }
        }
        bytes
    }

    /// Parses it.
    ///
    /// # Errors
    ///
    /// The reason why it is invalid.
    pub fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let rest = bytes.strip_prefix(NAME).ok_or("it is not taut serve")?;
        let rest = rest.strip_prefix(&[VERSION]).ok_or("it is another version of taut")?;
        match rest.split_first() {
            Some((0, rest)) => Self::card(rest).ok_or("it sent an impossible card description"),
            Some((1, sentence)) => {
                Ok(Self::Refused(printable(&String::from_utf8_lossy(sentence), MAX_REASON)))
            }
            _ => Err("it is another version of taut"),
        }
    }

    fn card(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        let [rate, channels, period, periods, frames] = <[[u8; 4]; 5]>::try_from(numbers).ok()?;
        let settings = Settings {
            rate: Rate::new(u32::from_le_bytes(rate)).ok()?,
            channels: Channels::new(u32::from_le_bytes(channels)).ok()?,
            period: Frames::new(u32::from_le_bytes(period).into()),
            periods: u32::from_le_bytes(periods),
        };
        let frames = u32::from_le_bytes(frames) as usize;
        let samples = frames.checked_mul(settings.channels.count())?;
        let period = settings.period.as_len();
        // The buffer holds two periods besides the card's half.
        let fits = period > 0 && period.checked_mul(4)? <= frames && samples <= MAX_SAMPLES;
        let periods = (1..=1 << 16).contains(&settings.periods);
        (rest.is_empty() && fits && periods).then_some(Self::Card { settings, frames })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Greeting {
        let settings = Settings {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            period: Frames::new(120),
            periods: 2,
        };
        Greeting::Card { settings, frames: 96_000 }
    }

    #[test]
    fn greeting_parses_back() {
        for greeting in [card(), Greeting::Refused("16 programs are attached".to_owned())] {
            assert_eq!(Greeting::read(&greeting.written()), Ok(greeting));
        }
    }

    #[test]
    fn invalid_greeting_is_rejected() {
        let whole = card().written();
        for length in 0..whole.len() {
            assert!(Greeting::read(&whole[..length]).is_err(), "{length} bytes of it");
        }
        assert!(Greeting::read(&[&*whole, &[0]].concat()).is_err(), "a byte more");
        for at in 0..whole.len() {
            for byte in 0..=u8::MAX {
                let mut changed = whole.clone();
                changed[at] = byte;
                if let Ok(Greeting::Card { settings, frames }) = Greeting::read(&changed) {
                    assert!(settings.period.count() > 0 && settings.periods > 0);
                    assert!(frames * settings.channels.count() <= MAX_SAMPLES);
                }
            }
        }
    }
}
