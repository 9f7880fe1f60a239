//! Playout buffer, addressed by media time. Returns frames in order; conceals and counts missing
//! frames.

mod coded;

use core::ops::Range;

use tautline_dsp::conceal::Concealer;
use tautline_dsp::format::{self, SampleFormat};

use crate::codec::{Codec, Decode};
use crate::holes::Holes;
use crate::time::{Frames, MediaTime};
use crate::units::{Channels, Rate};

pub(crate) use coded::CodedPlayout;
use coded::Decoded;

/// Outcome of placing a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// All frames are in time.
    Whole,
    /// This many first frames are late.
    Partly(Frames),
    /// All frames are late.
    Late,
    /// The end exceeds the capacity by this much.
    Beyond(Frames),
}

/// Frames from arrival until playout.
#[derive(Debug)]
pub struct Playout {
    channels: Channels,
    carried: Channels,
    samples: Box<[f32]>,
    /// [`SOUND`], [`SEAM`], [`CONCEALED`], or 0 (missing) for each frame.
    filled: Box<[u8]>,
    mask: usize,
    history: Frames,
    /// Before the first pull, the earliest frame accepted.
    cursor: Option<MediaTime>,
    /// No frame from the cursor to here is missing.
    whole: MediaTime,
    concealer: Concealer,
    holes: Holes,
    /// Copied frames that the concealer does not know yet.
    passed: usize,
    coded: Option<Box<CodedPlayout>>,
    decoders_concealed: u64,
    seam: bool,
    /// Fewer frames are kept than the concealer learns from.
    tells_at_once: bool,
}

const SOUND: u8 = 1;
/// Missing frame, concealed by a decoder.
const CONCEALED: u8 = 2;
/// First frame of another encoder; playout cross-fades to it.
const SEAM: u8 = 3;

const fn is_sound(kind: u8) -> bool {
    matches!(kind, SOUND | SEAM)
}

impl Playout {
    /// Room for `frames` ahead of the cursor, and a quarter of that behind. Only this function
    /// allocates. The NaN values make the memory resident and are never played.
    pub fn new(rate: Rate, channels: Channels, frames: Frames) -> Self {
        let frames = Frames::new(frames.count().max(4));
        let ring = (frames.as_len() + frames.as_len() / 4).next_power_of_two();
        let history = Frames::from_len(ring) - frames;
        let concealer = Concealer::new(channels.count(), rate.hertz());
        Self {
            channels,
            carried: channels,
            samples: vec![f32::NAN; ring * channels.count()].into(),
            filled: vec![0; ring].into(),
            mask: ring - 1,
            history,
            cursor: None,
            whole: MediaTime::ZERO,
            tells_at_once: history.as_len() < concealer.learns_from(),
            concealer,
            holes: Holes::default(),
            passed: 0,
            coded: None,
            decoders_concealed: 0,
            seam: false,
        }
    }

    pub(crate) fn decode_by(&mut self, rate: Rate, decoders: Vec<Box<dyn Decode>>) {
        self.coded =
            Some(Box::new(CodedPlayout::new(rate, self.channels, self.filled.len(), decoders)));
    }

    pub(crate) fn coded(&self) -> Option<&CodedPlayout> {
        self.coded.as_deref()
    }

    pub(crate) fn coded_mut(&mut self) -> Option<&mut CodedPlayout> {
        self.coded.as_deref_mut()
    }

    /// Frames ahead of the cursor.
    pub fn capacity(&self) -> Frames {
        Frames::from_len(self.filled.len()) - self.history
    }

    /// Frames kept behind the cursor, to be played again.
    pub const fn history(&self) -> Frames {
        self.history
    }

    /// Next frame.
    pub const fn cursor(&self) -> Option<MediaTime> {
        self.cursor
    }

    /// Frames from the cursor without a gap, in linear time.
    pub fn ready(&self) -> Frames {
        let Some(cursor) = self.cursor else { return Frames::ZERO };
        if let Some(coded) = &self.coded
            && coded.end() > cursor
        {
            return coded.end() - cursor;
        }
        let held = (0..self.capacity().count())
            .take_while(|ahead| is_sound(self.filled[self.slot(cursor + Frames::new(*ahead))]))
            .count();
        Frames::from_len(held)
    }

    /// Places `payload` at `first`. The first cursor is a quarter of the capacity earlier, for
    /// reordering.
    pub fn place(&mut self, first: MediaTime, coding: SampleFormat, payload: &[u8]) -> Placed {
        let frame_bytes = coding.bytes() * self.carried.count();
        let frames = Frames::from_len(payload.len() / frame_bytes);
        let late = match self.late(first, frames) {
            Ok(late) => late,
            Err(placed) => return placed,
        };
        let (from, coming) = (first + late, frames - late);
        self.write(from, coming.as_len(), coding, &payload[late.as_len() * frame_bytes..]);
        if late > Frames::ZERO { Placed::Partly(late) } else { Placed::Whole }
    }

    /// Sets whether packets have all channels, or a single channel that plays on all. Resets the
    /// concealer: earlier sound was decoded wrongly.
    pub(crate) fn set_carried(&mut self, carried: Channels) {
        self.carried = if carried == Channels::MONO { carried } else { self.channels };
        self.passed = 0;
        self.concealer.forget();
    }

    pub(crate) fn place_coded(
        &mut self,
        first: MediaTime,
        frames: Frames,
        codec: Codec,
        payload: &[u8],
    ) -> Placed {
        let late = match self.late(first, frames) {
            Ok(late) => late,
            Err(placed) => return placed,
        };
        let Some(coded) = self.coded.as_mut().filter(|coded| !coded.is_beyond(first)) else {
            return Placed::Late;
        };
        coded.keep(first, frames, codec, payload);
        if late > Frames::ZERO { Placed::Partly(late) } else { Placed::Whole }
    }

    /// Number of late frames, or the outcome if no frame can be placed.
    #[inline]
    fn late(&mut self, first: MediaTime, frames: Frames) -> Result<Frames, Placed> {
        let cursor = match self.cursor {
            Some(cursor) => cursor,
            None => self.begin(first - Frames::new(self.capacity().count() / 4)),
        };
        let excess = (first + frames) - (cursor + self.capacity());
        if excess > Frames::ZERO {
            return Err(Placed::Beyond(excess));
        }
        let late = (cursor - first).max(Frames::ZERO);
        if late >= frames { Err(Placed::Late) } else { Ok(late) }
    }

    /// Not inlined: most streams are uncompressed.
    #[inline(never)]
    fn decode(&mut self, frames: Frames) {
        let Some(cursor) = self.cursor else { return };
        let Some(mut coded) = self.coded.take() else { return };
        coded.decode_until(cursor, cursor + frames, &mut |first, samples, kind| {
            self.lay_decoded(first, samples, kind);
        });
        self.coded = Some(coded);
    }

    fn lay_decoded(&mut self, first: MediaTime, samples: &[f32], kind: Decoded) {
        let (channels, Some(cursor)) = (self.channels.count(), self.cursor) else { return };
        let room = cursor..cursor + self.capacity();
        self.seam |= kind == Decoded::Seam;
        let kind = if kind == Decoded::Concealed { CONCEALED } else { SOUND };
        let mut end = first + self.channels.frames_in(samples.len());
        for (ahead, frame) in samples.chunks_exact(channels).enumerate() {
            let media = first + Frames::from_len(ahead);
            let slot = self.slot(media);
            if room.contains(&media) && !is_sound(self.filled[slot]) {
                self.samples[slot * channels..(slot + 1) * channels].copy_from_slice(frame);
                self.filled[slot] = kind;
                if kind == SOUND && core::mem::take(&mut self.seam) {
                    self.filled[slot] = SEAM;
                    end = media;
                }
            }
        }
        if kind == SOUND && first <= self.whole {
            self.whole = self.whole.max(end);
        }
    }

    fn begin(&mut self, cursor: MediaTime) -> MediaTime {
        (self.cursor, self.whole) = (Some(cursor), cursor);
        cursor
    }

    fn write(&mut self, first: MediaTime, frames: usize, coding: SampleFormat, payload: &[u8]) {
        let start = self.slot(first);
        let before_wrap = self.filled.len() - start;
        if frames <= before_wrap {
            self.lay(start..start + frames, coding, payload);
        } else {
            let (head, tail) =
                payload.split_at(before_wrap * coding.bytes() * self.carried.count());
            self.lay(start..start + before_wrap, coding, head);
            self.lay(0..frames - before_wrap, coding, tail);
        }
        if self.coded.as_mut().is_some_and(|coded| coded.take_seam()) {
            self.filled[start] = SEAM;
            self.whole = self.whole.min(first);
        } else if first <= self.whole {
            self.whole = self.whole.max(first + Frames::from_len(frames));
        }
    }

    fn lay(&mut self, slots: Range<usize>, coding: SampleFormat, payload: &[u8]) {
        let channels = self.channels.count();
        let samples = &mut self.samples[slots.start * channels..slots.end * channels];
        if self.carried == self.channels {
            format::decode(coding, payload, samples);
        } else {
            format::decode_to_all(coding, payload, samples, channels);
        }
        self.filled[slots].fill(SOUND);
    }

    /// Samples in place; the second part follows the wrap.
    pub fn samples(&self, first: MediaTime, frames: Frames) -> [&[f32]; 2] {
        let (start, frames) = (self.slot(first), frames.as_len().min(self.filled.len()));
        let (channels, before_wrap) =
            (self.channels.count(), frames.min(self.filled.len() - start));
        let head = &self.samples[start * channels..(start + before_wrap) * channels];
        [head, &self.samples[..(frames - before_wrap) * channels]]
    }

    /// Whether the frame `ahead` of the cursor is present.
    pub fn has(&self, ahead: Frames) -> bool {
        let there = |cursor: MediaTime| {
            let waits = self.coded.as_ref().is_some_and(|coded| coded.reaches(cursor + ahead));
            is_sound(self.filled[self.slot(cursor + ahead)]) || waits
        };
        ahead < self.capacity() && self.cursor.is_some_and(there)
    }

    /// Missing frames concealed since the start.
    pub const fn concealed(&self) -> u64 {
        self.concealer.concealed() + self.decoders_concealed
    }

    /// Ends the source. Missing frames become silence immediately.
    pub fn end(&mut self) {
        self.concealer.end();
        self.coded.iter_mut().for_each(|coded| coded.end_source());
    }

    /// Returns frames from the cursor, and the number of those concealed.
    pub fn pull(&mut self, out: &mut [f32]) -> Frames {
        if self.pull_whole(out).is_some() {
            return Frames::ZERO;
        }
        // No slot may be read twice.
        let piece = self.channels.samples_in(self.capacity());
        Frames::from_len(out.chunks_mut(piece).map(|part| self.pull_piece(part)).sum())
    }

    /// Fast path: no gap, no fade, contiguous. `None` if it does not apply.
    #[inline]
    pub(crate) fn pull_whole(&mut self, out: &mut [f32]) -> Option<Range<MediaTime>> {
        let (cursor, frames) = (self.cursor?, self.channels.frames_in(out.len()));
        if self.coded.is_some() {
            self.decode(frames);
        }
        let (next, from) = (cursor + frames, self.slot(cursor) * self.channels.count());
        if next > self.whole || !self.concealer.is_transparent() || self.tells_at_once {
            return None;
        }
        out.copy_from_slice(self.samples.get(from..from + out.len())?);
        self.passed += frames.as_len();
        self.advance(cursor, next);
        Some(cursor..next)
    }

    fn pull_piece(&mut self, out: &mut [f32]) -> usize {
        let frames = self.channels.frames_in(out.len());
        let Some(cursor) = self.cursor else {
            self.concealer.conceal(out);
            return frames.as_len();
        };
        let channels = self.channels.count();
        let start = self.slot(cursor);
        let before_wrap = frames.as_len().min(self.filled.len() - start);
        let (head, tail) = out.split_at_mut(before_wrap * channels);
        let mut missing = self.read(start, cursor, head);
        if !tail.is_empty() {
            missing += self.read(0, cursor + Frames::from_len(before_wrap), tail);
        }
        self.advance(cursor, cursor + frames);
        if self.tells_at_once {
            self.update_concealer(self.slot(cursor + frames));
        }
        self.look_ahead(cursor + frames);
        missing
    }

    /// Missing frames since `Self::clear_holes`.
    pub const fn holes(&self) -> &Holes {
        &self.holes
    }

    pub(crate) fn clear_holes(&mut self) {
        self.holes.clear();
    }

    fn look_ahead(&mut self, cursor: MediaTime) {
        self.whole = self.whole.max(cursor);
        let ahead = (self.whole - cursor).as_len();
        let start = self.slot(self.whole);
        let room = self.capacity().as_len().saturating_sub(ahead);
        let filled = &self.filled[start..self.filled.len().min(start + room)];
        self.whole += Frames::from_len(run_of(SOUND, filled));
    }

    /// In runs of equal state, without wrapping.
    fn read(&mut self, start: usize, first: MediaTime, out: &mut [f32]) -> usize {
        let channels = self.channels.count();
        let frames = out.len() / channels;
        let (mut at, mut missing) = (0, 0);
        while at < frames {
            let filled = &self.filled[start + at..start + frames];
            let kind = filled[0];
            let run = run_of(kind, filled);
            let part = &mut out[at * channels..(at + run) * channels];
            if kind == SEAM {
                self.update_concealer(start + at);
                self.concealer.cut();
            }
            if kind == CONCEALED {
                self.decoders_concealed += run as u64;
                self.holes.add(first + Frames::from_len(at), Frames::from_len(run));
                missing += run;
            }
            if kind != 0 {
                let from = (start + at) * channels;
                part.copy_from_slice(&self.samples[from..from + run * channels]);
                if self.concealer.is_transparent() {
                    self.passed += run;
                } else {
                    self.concealer.sound(part);
                }
            } else {
                self.update_concealer(start + at);
                self.concealer.conceal(part);
                self.holes.add(first + Frames::from_len(at), Frames::from_len(run));
                missing += run;
            }
            at += run;
        }
        missing
    }

    fn update_concealer(&mut self, end: usize) {
        let passed = core::mem::take(&mut self.passed).min(self.concealer.learns_from());
        if passed == 0 {
            return;
        }
        let (channels, begin) = (self.channels.count(), end.wrapping_sub(passed) & self.mask);
        let before_wrap = passed.min(self.filled.len() - begin);
        self.concealer.passed(&self.samples[begin * channels..(begin + before_wrap) * channels]);
        self.concealer.passed(&self.samples[..(passed - before_wrap) * channels]);
    }

    /// Moves the cursor; drops frames that leave the buffer.
    pub fn move_to(&mut self, next: MediaTime) {
        if let Some(cursor) = self.cursor.filter(|cursor| *cursor != next) {
            self.update_concealer(self.slot(cursor));
            if let Some(coded) = &mut self.coded
                && cursor - next > self.history
            {
                coded.rewind();
            }
            self.advance(cursor, next);
            self.whole = next;
        }
        if self.cursor.is_none() {
            self.begin(next);
        }
    }

    #[inline]
    fn advance(&mut self, cursor: MediaTime, next: MediaTime) {
        let moved = (next - cursor).count().unsigned_abs() as usize;
        if moved >= self.filled.len() {
            self.filled.fill(0);
        } else {
            self.forget(cursor.min(next) - self.history, moved);
        }
        self.cursor = Some(next);
    }

    /// Moves the cursor with fades.
    pub fn jump_to(&mut self, next: MediaTime) {
        self.cut();
        self.move_to(next);
    }

    fn forget(&mut self, from: MediaTime, frames: usize) {
        let start = self.slot(from);
        let before_wrap = frames.min(self.filled.len() - start);
        self.filled[start..start + before_wrap].fill(0);
        if before_wrap < frames {
            self.filled[..frames - before_wrap].fill(0);
        }
    }

    /// Drops everything with a fade, for another stream.
    pub fn clear(&mut self) {
        self.cut();
        self.coded.iter_mut().for_each(|coded| coded.clear());
        self.filled.fill(0);
        self.cursor = None;
    }

    fn cut(&mut self) {
        if let Some(cursor) = self.cursor {
            self.update_concealer(self.slot(cursor));
        }
        self.concealer.cut();
    }

    fn slot(&self, media: MediaTime) -> usize {
        media.as_frames() as usize & self.mask
    }
}

/// Eight at a time, because packets are usually complete.
fn run_of(kind: u8, filled: &[u8]) -> usize {
    let (eights, _) = filled.as_chunks::<8>();
    let whole = eights.iter().take_while(|eight| **eight == [kind; 8]).count() * 8;
    whole + filled[whole..].iter().take_while(|one| **one == kind).count()
}
