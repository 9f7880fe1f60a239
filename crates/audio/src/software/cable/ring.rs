//! A cable's last second of frames, numbered by the player. One writer, any readers, no waiting
//! (seqlock: H.-J. Boehm, *Can seqlocks get along with programming language memory models?*, MSPC
//! 2012). The writer announces a range, writes, and reports it; readers check afterwards. Invalid
//! contents read as an impossible clock, or as sound.

use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

use tautline_io::shm::{SharedError, SharedFile, SharedMemory};
use tautline_proto::card_clock::CardClock;
use tautline_proto::device::Settings;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::{Channels, Ppm, Rate};

use super::CableName;

const MAGIC: u64 = u64::from_le_bytes(*b"tautline");
/// Version of the layout. The file's name contains it, to separate versions.
const VERSION: u64 = 1;
/// Maximum rate error (`ppm=`), in 10^-12.
const MAX_ERROR: i64 = 100_000_000_000;

#[derive(Clone, Copy)]
enum At {
    Magic,
    Version,
    Rate,
    Channels,
    /// Odd while the clock changes.
    Epoch,
    /// Start in nanoseconds; error in 10^-12.
    Start,
    Error,
    /// Ends of the ranges being written and written, in player frames.
    Writing,
    Written,
    Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RingLayout {
    rate: Rate,
    channels: Channels,
}

impl fmt::Display for RingLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} channels at {}", self.channels.count(), self.rate)
    }
}

impl RingLayout {
    pub(super) const LONGEST_DELAY: Span = Span::from_millis(500);

    pub(super) fn new(settings: &Settings) -> Self {
        Self { rate: settings.rate, channels: settings.channels }
    }

    fn frames(self) -> i64 {
        i64::from((self.rate.hertz() + self.rate.hertz() / 4).next_power_of_two())
    }

    pub(super) fn longest_buffer(self) -> i64 {
        i64::from(self.rate.hertz() / 4)
    }

    pub(super) fn file_name(self, name: &CableName) -> String {
        format!("tautline-cable{VERSION}-{name}")
    }

    fn samples(self) -> usize {
        self.channels.count() * self.frames() as usize
    }

    pub(super) fn bytes(self) -> u64 {
        (At::Count as usize * size_of::<u64>() + self.samples() * size_of::<f32>()) as u64
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Playing {
    epoch: u64,
    pub(super) clock: CardClock,
    pub(super) written: i64,
}

pub(super) struct CableRing {
    memory: SharedMemory,
    layout: RingLayout,
}

impl CableRing {
    pub(super) fn map(
        file: &SharedFile,
        layout: RingLayout,
        is_new: bool,
    ) -> Result<Result<Self, String>, SharedError> {
        let Some(head) = file.map(At::Count as usize, 0)? else {
            return Ok(Err("an unknown layout".to_owned()));
        };
        let head = head.longs();
        let (rate, channels) = (layout.rate.hertz(), layout.channels.count());
        if is_new {
            head[At::Magic as usize].store(MAGIC, Relaxed);
            head[At::Version as usize].store(VERSION, Relaxed);
            head[At::Rate as usize].store(rate.into(), Relaxed);
            head[At::Channels as usize].store(channels as u64, Relaxed);
        }
        let [magic, version, found_rate, found_channels] =
            [At::Magic, At::Version, At::Rate, At::Channels]
                .map(|place| head[place as usize].load(Relaxed));
        if (magic, version) != (MAGIC, VERSION) {
            return Ok(Err("an unknown layout".to_owned()));
        }
        if (found_rate, found_channels) != (u64::from(rate), channels as u64) {
            return Ok(Err(format!("{found_channels} channels at {found_rate} Hz")));
        }
        Ok(match file.map(At::Count as usize, layout.samples())? {
            Some(memory) => Ok(Self { memory, layout }),
            None => Err("a truncated layout".to_owned()),
        })
    }

    fn at(&self, place: At) -> &AtomicU64 {
        &self.memory.longs()[place as usize]
    }

    fn frame(&self, frame: i64) -> &[AtomicU32] {
        let channels = self.layout.channels.count();
        let at = frame.rem_euclid(self.layout.frames()) as usize * channels;
        &self.memory.words()[at..at + channels]
    }

    fn held(&self) -> i64 {
        self.layout.frames()
    }

    pub(super) fn begin(&self, clock: &CardClock) {
        // A killed player left an odd epoch.
        let changing = self.at(At::Epoch).load(Relaxed) | 1;
        self.at(At::Epoch).store(changing, Relaxed);
        fence(Release);
        self.at(At::Start).store(clock.start().as_nanos().cast_unsigned(), Relaxed);
        self.at(At::Error).store(clock.error().as_millionths().cast_unsigned(), Relaxed);
        self.at(At::Writing).store(0, Relaxed);
        self.at(At::Written).store(0, Relaxed);
        self.at(At::Epoch).store(changing.wrapping_add(1), Release);
    }

    /// Writes the player's next frames, from `first`. Real-time safe.
    pub(super) fn write(&self, first: i64, samples: &[f32]) {
        let channels = self.layout.channels.count();
        self.write_each(first, samples.chunks_exact(channels));
    }

    pub(super) fn write_silence(&self, first: i64, frames: i64) {
        const SILENCE: [f32; Channels::MAX as usize] = [0.0; Channels::MAX as usize];
        let end = first + frames;
        let first = first.max(end - self.held());
        let silence = &SILENCE[..self.layout.channels.count()];
        self.write_each(first, std::iter::repeat_n(silence, (end - first).max(0) as usize));
    }

    fn write_each<'a>(&self, first: i64, frames: impl ExactSizeIterator<Item = &'a [f32]>) {
        let end = (first + frames.len() as i64).cast_unsigned();
        self.at(At::Writing).store(end, Relaxed);
        fence(Release);
        for (samples, frame) in frames.zip(first..) {
            for (sample, place) in samples.iter().zip(self.frame(frame)) {
                place.store(sample.to_bits(), Relaxed);
            }
        }
        self.at(At::Written).store(end, Release);
    }

    pub(super) fn playing(&self) -> Option<Playing> {
        let epoch = self.at(At::Epoch).load(Acquire);
        let [start, error] =
            [At::Start, At::Error].map(|place| self.at(place).load(Relaxed).cast_signed());
        let written = self.at(At::Written).load(Acquire).cast_signed();
        let possible = epoch != 0
            && epoch.is_multiple_of(2)
            && (-MAX_ERROR..=MAX_ERROR).contains(&error)
            && self.is_still(epoch);
        let clock = || {
            let start = LocalTime::from_nanos(start);
            CardClock::new(start, self.layout.rate, Ppm::from_millionths(error))
        };
        possible.then(|| Playing { epoch, clock: clock(), written })
    }

    /// Reads frames; unplayed ones are silence. Real-time safe. Check with [`CableRing::was_kept`]
    /// afterwards.
    pub(super) fn read(&self, playing: &Playing, first: i64, out: &mut [f32]) {
        let frames = out.chunks_exact_mut(self.layout.channels.count());
        for (index, samples) in (0..).zip(frames) {
            let frame = first.saturating_add(index);
            if !(0..playing.written).contains(&frame) {
                samples.fill(0.0);
                continue;
            }
            for (sample, place) in samples.iter_mut().zip(self.frame(frame)) {
                *sample = f32::from_bits(place.load(Relaxed));
            }
        }
    }

    /// Whether frames from `first` were not overwritten meanwhile. Real-time safe.
    pub(super) fn was_kept(&self, playing: &Playing, first: i64) -> bool {
        fence(Acquire);
        let writing = self.at(At::Writing).load(Relaxed).cast_signed();
        self.is_still(playing.epoch) && first >= writing.saturating_sub(self.held())
    }

    fn is_still(&self, epoch: u64) -> bool {
        fence(Acquire);
        self.at(At::Epoch).load(Relaxed) == epoch
    }
}
