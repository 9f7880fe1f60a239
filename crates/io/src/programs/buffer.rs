//! What lies between a program and a device's thread: frames, and a few words about them. Each word has one writer;
//! writing is wait-free.
//!
//! Shared with another process, all of it may say anything at any time. The device's thread reads of it what the
//! program writes, and bounds that; what it has said itself it never reads back.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use tautline_proto::time::{LocalTime, MediaTime, Span};

use crate::shared::{SharedError, SharedFile, SharedMemory};

/// What the device's thread is to do with the application's sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Mode {
    /// Leave it alone: nothing was started, or all was dropped.
    Stopped = 0,
    /// Take from it, or put into it.
    Running = 1,
    /// Leave it as it is for a while.
    Paused = 2,
}

/// What the application wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// The how many-th time the PCM was prepared; positions count from 0 in each.
    pub stint: u64,
    /// What it is to do in that.
    pub mode: Mode,
}

/// How far the device's thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceProgress {
    /// The newest order that it has seen.
    pub stint: u64,
    /// Frames of this stint that it has taken, silence that it put in their place included, or that
    /// it has given.
    pub position: MediaTime,
    /// Frame of the card's clock at which frame 0 of the stint met it, or would have met it if it had
    /// gone on without a pause. Known once it runs.
    pub anchor: Option<i64>,
    /// Of a recorder: frames that were put into the ring before this stint's.
    pub origin: u64,
}

/// Stands for an anchor that is not known.
const NO_ANCHOR: i64 = i64::MIN;

/// A word of a buffer, by its place among the numbers of 64 bits. Those of the program and those of the device's
/// thread lie in cache lines of their own.
#[derive(Clone, Copy)]
pub(super) enum BufferWord {
    /// The program's: stint × 4 + mode.
    Order = 0,
    /// The program's: the position that follows the last frame to be played.
    End = 1,
    /// The program's: frames that it ever took.
    Taken = 2,
    /// The program's: frames that may lie there before it takes any.
    Room = 3,
    /// The program's: the position from which on it is to be woken.
    Wanted = 4,
    /// The device's: how often it told its progress; the newest is in the slot of that number's parity, and the next
    /// goes to the other.
    Told = 8,
    /// The device's: frames that it ever gave.
    Given = 9,
    /// The device's: from the card to the far end, in nanoseconds.
    Latency = 10,
    /// The device's: when its frame 0 met the converter, in nanoseconds.
    Start = 11,
    /// The device's: the first of four words of progress.
    Slot = 16,
    /// The same of the other slot.
    OtherSlot = 24,
}

/// Numbers of 64 bits of a buffer.
const LONGS: usize = 32;
/// Samples of one: more than any program asks for, and memory that a machine has for many.
pub const MOST_SAMPLES: usize = 1 << 20;

#[derive(Debug)]
enum BufferMemory {
    Own(Box<[AtomicU64]>, Box<[AtomicU32]>),
    Shared(SharedMemory),
}

/// What lies between a program and a device's thread.
#[derive(Debug)]
pub struct ProgramBuffer {
    held: BufferMemory,
    pub(super) frames: usize,
    pub(super) channels: usize,
}

impl ProgramBuffer {
    /// Of so many frames of so many channels, one at least, in memory of this process.
    pub fn new(frames: usize, channels: usize) -> Self {
        let (frames, channels) = (frames.max(1), channels.max(1));
        let longs = (0..LONGS).map(|_| AtomicU64::new(0)).collect();
        let words = (0..frames * channels).map(|_| AtomicU32::new(0)).collect();
        Self { held: BufferMemory::Own(longs, words), frames, channels }.begun()
    }

    /// Of as many in this file, which is made as long as they need; every page is there.
    pub(super) fn made(
        file: &SharedFile,
        frames: usize,
        channels: usize,
    ) -> Result<Option<Self>, SharedError> {
        let bytes = LONGS * size_of::<u64>() + frames * channels * size_of::<u32>();
        file.renew(bytes as u64)?;
        Ok(Self::there(file, frames, channels)?.map(Self::begun))
    }

    /// One that somebody made in this file; `None` if it is shorter than that.
    pub(super) fn there(
        file: &SharedFile,
        frames: usize,
        channels: usize,
    ) -> Result<Option<Self>, SharedError> {
        let memory = file.map(LONGS, frames * channels)?;
        Ok(memory.map(|memory| Self { held: BufferMemory::Shared(memory), frames, channels }))
    }

    /// With what is not zero at first.
    fn begun(self) -> Self {
        self.word(BufferWord::Room).store(self.frames as u64, Ordering::Relaxed);
        self.word(BufferWord::Wanted).store(i64::MAX as u64, Ordering::Relaxed);
        let start = LocalTime::NEVER.as_nanos() as u64;
        self.word(BufferWord::Start).store(start, Ordering::Relaxed);
        self
    }

    /// Frames that it holds.
    pub const fn frames(&self) -> usize {
        self.frames
    }

    /// Channels of a frame.
    pub const fn channels(&self) -> usize {
        self.channels
    }

    fn longs(&self) -> &[AtomicU64] {
        match &self.held {
            BufferMemory::Own(longs, _) => longs,
            BufferMemory::Shared(memory) => memory.longs(),
        }
    }

    pub(super) fn samples(&self) -> &[AtomicU32] {
        match &self.held {
            BufferMemory::Own(_, samples) => samples,
            BufferMemory::Shared(memory) => memory.words(),
        }
    }

    pub(super) fn word(&self, place: BufferWord) -> &AtomicU64 {
        &self.longs()[place as usize]
    }

    /// What a program may do that has it mapped.
    #[cfg(test)]
    pub(super) fn scribble(&self, word: usize, value: u64) {
        self.longs()[word].store(value, Ordering::SeqCst);
    }

    fn slot(&self, told: u64) -> &[AtomicU64] {
        let first = if told & 1 == 0 { BufferWord::Slot } else { BufferWord::OtherSlot } as usize;
        &self.longs()[first..first + 4]
    }

    /// Orders.
    pub fn order(&self, order: Order) {
        self.word(BufferWord::Order).store(order.stint << 2 | order.mode as u64, Ordering::Release);
    }

    /// What is ordered.
    pub fn ordered(&self) -> Order {
        let word = self.word(BufferWord::Order).load(Ordering::Acquire);
        let mode = match word & 3 {
            1 => Mode::Running,
            2 => Mode::Paused,
            _ => Mode::Stopped,
        };
        Order { stint: word >> 2, mode }
    }

    /// The device's thread tells how far it is, for the `count`-th time: it counts itself.
    pub(super) fn stand(&self, count: u64, standing: DeviceProgress) {
        self.note(count, standing);
        self.word(BufferWord::Told).store(count, Ordering::Release);
    }

    /// Writes it where nobody reads.
    fn note(&self, count: u64, standing: DeviceProgress) {
        // Who reads any of what follows sees that the slot's own standing is not the newest any more.
        fence(Ordering::Release);
        let anchor = standing.anchor.unwrap_or(NO_ANCHOR) as u64;
        let words = [standing.stint, standing.position.as_frames() as u64, anchor, standing.origin];
        let slot = self.slot(count).iter();
        slot.zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
    }

    /// How far the device's thread is: values that belong together. It never waits for the device's
    /// thread, which an application at a higher priority may keep from its core: it reads again only
    /// if that thread has come a period further meanwhile.
    pub fn standing(&self) -> DeviceProgress {
        loop {
            let newest = self.word(BufferWord::Told).load(Ordering::Acquire);
            let slot = self.slot(newest);
            let word = |at: usize| slot[at].load(Ordering::Relaxed);
            let (stint, position, anchor, origin) =
                (word(0), word(1) as i64, word(2) as i64, word(3));
            fence(Ordering::Acquire);
            if self.word(BufferWord::Told).load(Ordering::Relaxed) == newest {
                let position = MediaTime::from_frames(position);
                let anchor = (anchor != NO_ANCHOR).then_some(anchor);
                return DeviceProgress { stint, position, anchor, origin };
            }
        }
    }

    /// Tells how long it takes from the card's clock to the far end, or from there.
    pub fn set_latency(&self, latency: Span) {
        self.word(BufferWord::Latency).store(latency.as_nanos() as u64, Ordering::Relaxed);
    }

    /// What was told of it.
    pub fn latency(&self) -> Span {
        Span::from_nanos(self.word(BufferWord::Latency).load(Ordering::Relaxed) as i64)
    }

    /// Tells when the card's frame 0 met the converter.
    pub fn set_start(&self, start: LocalTime) {
        self.word(BufferWord::Start).store(start.as_nanos() as u64, Ordering::Release);
    }

    /// What was told of that; [`LocalTime::NEVER`] before.
    pub fn start(&self) -> LocalTime {
        LocalTime::from_nanos(self.word(BufferWord::Start).load(Ordering::Acquire) as i64)
    }

    /// Asks to be woken when the device's thread stands at this position or beyond.
    pub fn want(&self, position: MediaTime) {
        self.word(BufferWord::Wanted).store(position.as_frames() as u64, Ordering::SeqCst);
    }

    /// The position at which the program is to be woken.
    pub(super) fn wanted(&self) -> MediaTime {
        MediaTime::from_frames(self.word(BufferWord::Wanted).load(Ordering::SeqCst) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_order_arrives_whole() {
        let shared = ProgramBuffer::new(1, 1);
        for (stint, mode) in [(1, Mode::Stopped), (7, Mode::Running), (7, Mode::Paused)] {
            let order = Order { stint, mode };
            shared.order(order);
            assert_eq!(shared.ordered(), order);
        }
    }

    #[test]
    fn a_standing_is_read_while_the_next_is_half_written() {
        let shared = ProgramBuffer::new(1, 1);
        for number in 1..5 {
            let standing =
                DeviceProgress { stint: number, anchor: Some(7), ..DeviceProgress::default() };
            shared.stand(number, standing);
            shared.note(number + 1, DeviceProgress { stint: 99, ..standing });
            assert_eq!(shared.standing(), standing);
        }
    }

    #[test]
    fn a_standing_is_never_half_of_one_and_half_of_another() {
        let shared = Arc::new(ProgramBuffer::new(1, 1));
        let writer = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for number in 1..100_000 {
                let anchor = Some(number as i64);
                let position = MediaTime::from_frames(number as i64);
                let told = DeviceProgress { stint: number, position, anchor, origin: number };
                writer.stand(number, told);
            }
        });
        let mut newest = 0;
        while newest < 99_999 {
            let DeviceProgress { stint, position, anchor, origin } = shared.standing();
            let position = position.as_frames();
            let same = position as u64 == stint && origin == stint;
            assert!(
                same && (stint == 0 || anchor == Some(position)),
                "{stint} {position} {origin}"
            );
            assert!(stint >= newest);
            newest = stint;
        }
        thread.join().unwrap();
    }
}
