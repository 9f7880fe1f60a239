//! Frames and control words of a program and a device's thread. Each word has one writer; writes
//! are wait-free. The device's thread limits all values it reads: another process can write
//! anything.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::Arc;

use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};

use crate::shm::{SharedError, SharedFile, SharedMemory};

/// State of the application's audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Mode {
    /// Not started, or dropped.
    Stopped = 0,
    /// Plays or records the audio.
    Running = 1,
    /// Nothing until resumed.
    Paused = 2,
}

/// The application's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// PCM prepares so far. Positions restart at 0 in each.
    pub stint: u64,
    /// Requested mode.
    pub mode: Mode,
}

/// Progress of the device's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceProgress {
    /// Newest stint seen by the device's thread.
    pub stint: u64,
    /// Frames of this stint played, including silence, or recorded.
    pub position: MediaTime,
    /// Card-clock frame of the stint's frame 0, as if never paused. `None` until it runs.
    pub anchor: Option<i64>,
    /// Recording: frames in the ring before this stint.
    pub origin: u64,
}

const NO_ANCHOR: i64 = i64::MIN;

/// Index of a control word. Program and device use separate cache lines.
#[derive(Clone, Copy)]
pub(super) enum BufferWord {
    /// Program: stint × 4 + mode.
    Order = 0,
    /// Program: position after the last frame to play.
    End = 1,
    /// Program: total frames taken.
    Taken = 2,
    /// Program: maximum untaken frames.
    Room = 3,
    /// Program: position for a wake-up.
    Wanted = 4,
    /// Device: number of progress reports. Parity selects the newest slot.
    Reported = 8,
    /// Device: total frames given.
    Given = 9,
    /// Device: nanoseconds from the card's clock to the far end, or back.
    Latency = 10,
    /// Device: time of frame 0 at the converter, nanoseconds.
    Start = 11,
    /// Device: first of four progress words.
    Slot = 16,
    /// Device: the other slot.
    OtherSlot = 24,
}

const LONGS: usize = 32;
/// Maximum samples per buffer: above any program's need, but many buffers fit.
pub const MAX_SAMPLES: usize = 1 << 20;

#[derive(Debug)]
enum BufferMemory {
    Own(Box<[AtomicU64]>, Box<[AtomicU32]>),
    Shared(SharedMemory),
}

/// A buffer between a program and a device's thread.
#[derive(Debug)]
pub struct ProgramBuffer {
    held: BufferMemory,
    pub(super) frames: usize,
    pub(super) channels: usize,
}

impl ProgramBuffer {
    /// Creates a buffer of at least one frame and channel, in this process's memory.
    pub fn new(frames: usize, channels: usize) -> Self {
        let (frames, channels) = (frames.max(1), channels.max(1));
        let longs = (0..LONGS).map(|_| AtomicU64::new(0)).collect();
        let words = (0..frames * channels).map(|_| AtomicU32::new(0)).collect();
        Self { held: BufferMemory::Own(longs, words), frames, channels }.begun()
    }

    pub(super) fn made(
        file: &SharedFile,
        frames: usize,
        channels: usize,
    ) -> Result<Option<Self>, SharedError> {
        let bytes = LONGS * size_of::<u64>() + frames * channels * size_of::<u32>();
        file.renew(bytes as u64)?;
        Ok(Self::there(file, frames, channels)?.map(Self::begun))
    }

    pub(super) fn there(
        file: &SharedFile,
        frames: usize,
        channels: usize,
    ) -> Result<Option<Self>, SharedError> {
        let memory = file.map(LONGS, frames * channels)?;
        Ok(memory.map(|memory| Self { held: BufferMemory::Shared(memory), frames, channels }))
    }

    fn begun(self) -> Self {
        self.word(BufferWord::Room).store(self.frames as u64, Ordering::Relaxed);
        self.word(BufferWord::Wanted).store(i64::MAX as u64, Ordering::Relaxed);
        let start = LocalTime::NEVER.as_nanos() as u64;
        self.word(BufferWord::Start).store(start, Ordering::Relaxed);
        self
    }

    /// Returns the capacity in frames.
    pub const fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the number of channels per frame.
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

    #[cfg(test)]
    pub(super) fn scribble(&self, word: usize, value: u64) {
        self.longs()[word].store(value, Ordering::SeqCst);
    }

    fn slot(&self, reported: u64) -> &[AtomicU64] {
        let first =
            if reported & 1 == 0 { BufferWord::Slot } else { BufferWord::OtherSlot } as usize;
        &self.longs()[first..first + 4]
    }

    /// Sets the request.
    pub fn order(&self, order: Order) {
        self.word(BufferWord::Order).store(order.stint << 2 | order.mode as u64, Ordering::Release);
    }

    /// Returns the current request.
    pub fn ordered(&self) -> Order {
        let word = self.word(BufferWord::Order).load(Ordering::Acquire);
        let mode = match word & 3 {
            1 => Mode::Running,
            2 => Mode::Paused,
            _ => Mode::Stopped,
        };
        Order { stint: word >> 2, mode }
    }

    pub(super) fn stand(&self, count: u64, standing: DeviceProgress) {
        self.note(count, standing);
        self.word(BufferWord::Reported).store(count, Ordering::Release);
    }

    fn note(&self, count: u64, standing: DeviceProgress) {
        // Readers of the following stores also see that this slot is outdated.
        fence(Ordering::Release);
        let anchor = standing.anchor.unwrap_or(NO_ANCHOR) as u64;
        let words = [standing.stint, standing.position.as_frames() as u64, anchor, standing.origin];
        let slot = self.slot(count).iter();
        slot.zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
    }

    /// A consistent copy of the device's progress. Retries only if it advances meanwhile.
    pub fn standing(&self) -> DeviceProgress {
        loop {
            let newest = self.word(BufferWord::Reported).load(Ordering::Acquire);
            let slot = self.slot(newest);
            let word = |at: usize| slot[at].load(Ordering::Relaxed);
            let (stint, position, anchor, origin) =
                (word(0), word(1) as i64, word(2) as i64, word(3));
            fence(Ordering::Acquire);
            if self.word(BufferWord::Reported).load(Ordering::Relaxed) == newest {
                let position = MediaTime::from_frames(position);
                let anchor = (anchor != NO_ANCHOR).then_some(anchor);
                return DeviceProgress { stint, position, anchor, origin };
            }
        }
    }

    /// Sets the latency between the card's clock and the far end.
    pub fn set_latency(&self, latency: Span) {
        self.word(BufferWord::Latency).store(latency.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns the latency set by [`Self::set_latency`].
    pub fn latency(&self) -> Span {
        Span::from_nanos(self.word(BufferWord::Latency).load(Ordering::Relaxed) as i64)
    }

    /// Sets the converter time of the card's frame 0.
    pub fn set_start(&self, start: LocalTime) {
        self.word(BufferWord::Start).store(start.as_nanos() as u64, Ordering::Release);
    }

    /// The time from [`Self::set_start`]; [`LocalTime::NEVER`] before.
    pub fn start(&self) -> LocalTime {
        LocalTime::from_nanos(self.word(BufferWord::Start).load(Ordering::Acquire) as i64)
    }

    /// Requests a wake-up at or past this position.
    pub fn want(&self, position: MediaTime) {
        self.word(BufferWord::Wanted).store(position.as_frames() as u64, Ordering::SeqCst);
    }

    pub(super) fn wanted(&self) -> MediaTime {
        MediaTime::from_frames(self.word(BufferWord::Wanted).load(Ordering::SeqCst) as i64)
    }
}

/// A frame that is written while read has old or new samples, as on a card.
impl ProgramBuffer {
    fn frame(&self, position: MediaTime) -> &[AtomicU32] {
        let at = position.as_frames().rem_euclid(self.frames as i64) as usize * self.channels;
        &self.samples()[at..at + self.channels]
    }

    /// Writes whole frames from this position. Played once [`Self::set_end`] includes them.
    pub fn put(&self, position: MediaTime, samples: &[f32]) {
        for (at, frame) in samples.chunks_exact(self.channels).enumerate() {
            let held = self.frame(position + Frames::from_len(at));
            for (place, sample) in held.iter().zip(frame) {
                place.store(sample.to_bits(), Ordering::Relaxed);
            }
        }
    }

    /// Sets the end of playback.
    pub fn set_end(&self, end: MediaTime) {
        self.word(BufferWord::End).store(end.as_frames() as u64, Ordering::Release);
    }

    /// Copies frames from this position, then silence. Returns the frames copied.
    pub fn copy(&self, position: MediaTime, block: &mut [f32]) -> usize {
        let end = self.word(BufferWord::End).load(Ordering::Acquire) as i64;
        let there = end.saturating_sub(position.as_frames()).max(0);
        let there = (there as u64).min((block.len() / self.channels) as u64) as usize;
        let (received, silent) = block.split_at_mut(there * self.channels);
        for (at, frame) in received.chunks_exact_mut(self.channels).enumerate() {
            let held = self.frame(position + Frames::from_len(at));
            for (sample, place) in frame.iter_mut().zip(held) {
                *sample = f32::from_bits(place.load(Ordering::Relaxed));
            }
        }
        silent.fill(0.0);
        there
    }
}

impl ProgramBuffer {
    fn ringed(&self, count: u64) -> &[AtomicU32] {
        let at = (count % self.frames as u64) as usize * self.channels;
        &self.samples()[at..at + self.channels]
    }

    /// Sets the maximum waiting frames. Further new frames are lost.
    pub fn set_room(&self, frames: usize) {
        self.word(BufferWord::Room).store(frames as u64, Ordering::Relaxed);
    }

    pub(super) fn give(&self, given: u64, block: &[f32]) -> bool {
        let taken = self.word(BufferWord::Taken).load(Ordering::Acquire);
        let room = self.word(BufferWord::Room).load(Ordering::Relaxed).min(self.frames as u64);
        let frames = (block.len() / self.channels) as u64;
        if given.wrapping_sub(taken).saturating_add(frames) > room {
            return false;
        }
        for (count, frame) in (given..).zip(block.chunks_exact(self.channels)) {
            for (place, sample) in self.ringed(count).iter().zip(frame) {
                place.store(sample.to_bits(), Ordering::Relaxed);
            }
        }
        self.word(BufferWord::Given).store(given + frames, Ordering::Release);
        true
    }
}

/// The program's end of a recording buffer.
#[derive(Debug)]
pub struct RecordingEnd {
    buffer: Arc<ProgramBuffer>,
    taken: u64,
}

impl RecordingEnd {
    /// Creates a buffer's only recording end.
    pub fn new(buffer: Arc<ProgramBuffer>) -> Self {
        Self { buffer, taken: 0 }
    }

    /// Returns the number of frames available.
    pub fn frames(&self) -> usize {
        let given = self.buffer.word(BufferWord::Given).load(Ordering::Acquire);
        given.wrapping_sub(self.taken).min(self.buffer.frames as u64) as usize
    }

    /// Takes available whole frames. Returns their number.
    pub fn take(&mut self, samples: &mut [f32]) -> usize {
        let there = self.frames();
        let frames = samples.chunks_exact_mut(self.buffer.channels).take(there);
        let mut count = 0;
        for frame in frames {
            let held = self.buffer.ringed(self.taken.wrapping_add(count));
            for (sample, place) in frame.iter_mut().zip(held) {
                *sample = f32::from_bits(place.load(Ordering::Relaxed));
            }
            count += 1;
        }
        self.taken = self.taken.wrapping_add(count);
        self.buffer.word(BufferWord::Taken).store(self.taken, Ordering::Release);
        count as usize
    }
}

#[cfg(test)]
mod tests {

    use std::sync::Arc;

    use tautline_proto::time::MediaTime;

    use super::*;
    use crate::programs::buffer::ProgramBuffer;

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
                let reported = DeviceProgress { stint: number, position, anchor, origin: number };
                writer.stand(number, reported);
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

    fn copied(track: &ProgramBuffer, position: i64, frames: usize) -> Vec<f32> {
        let mut block = vec![9.0; frames * track.channels];
        track.copy(MediaTime::from_frames(position), &mut block);
        block
    }

    #[test]
    fn frames_lie_at_their_position_and_silence_after_the_end() {
        let track = ProgramBuffer::new(3, 2);
        track.put(MediaTime::from_frames(1), &[1.0, -1.0, 2.0, -2.0, 3.0, -3.0]);
        assert_eq!(copied(&track, 1, 2), [0.0; 4], "not to be played yet");
        track.set_end(MediaTime::from_frames(4));
        assert_eq!(copied(&track, 2, 3), [2.0, -2.0, 3.0, -3.0, 0.0, 0.0]);
        assert_eq!(copied(&track, 9, 1), [0.0; 2]);
    }

    #[test]
    fn rewound_frames_are_replaced_before_playing() {
        let track = ProgramBuffer::new(4, 1);
        track.put(MediaTime::ZERO, &[1.0, 2.0, 3.0, 4.0]);
        track.set_end(MediaTime::from_frames(4));
        track.set_end(MediaTime::from_frames(2));
        assert_eq!(copied(&track, 0, 4), [1.0, 2.0, 0.0, 0.0]);
        track.put(MediaTime::from_frames(2), &[7.0]);
        track.set_end(MediaTime::from_frames(3));
        assert_eq!(copied(&track, 0, 4), [1.0, 2.0, 7.0, 0.0]);
    }
}
