//! The playout buffer: addressed by media time, so that reordered and duplicate packets cost
//! nothing and holes are explicit.
//!
//! It does not know *when*: [`crate::placement`] does. It is asked for the next frames and gives
//! them, what conceals it where there are none, and the count of those missing.

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

/// What became of a packet that was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// All its frames will be played.
    Whole,
    /// The first `late` frames came after they were due; the rest will be played.
    Partly(Frames),
    /// Every frame came after it was due.
    Late,
    /// Its end lies this far beyond what the buffer can hold.
    Beyond(Frames),
}

/// Holds the frames between their arrival and their turn.
#[derive(Debug)]
pub struct Playout {
    channels: Channels,
    /// Channels that packets hold: all of these, or one that is played on all.
    carried: Channels,
    samples: Box<[f32]>,
    /// One byte for each frame of the ring: [`SOUND`], [`SEAM`] or [`CONCEALED`], or nothing.
    filled: Box<[u8]>,
    mask: usize,
    /// Frames kept behind the cursor.
    history: Frames,
    /// The next frame that will be asked for; before the first pull, the first that may come.
    cursor: Option<MediaTime>,
    /// From the cursor on there is no hole before this frame, wherever it stands: what lies before it
    /// is given out without a look at each frame.
    whole: MediaTime,
    concealer: Concealer,
    /// What had not come of what was given out since this was cleared.
    holes: Holes,
    /// Frames before the cursor that were given out as they lie, and that the concealer is told of once
    /// it needs them: most are never needed.
    passed: usize,
    /// Payloads that are decoded when their turn comes, where there are decoders.
    coded: Option<Box<CodedPlayout>>,
    /// Frames of those missing in whose place a decoder laid what it made of the sound before.
    decoders_concealed: u64,
    /// Whether the next decoded frame that is laid does not follow the one before.
    seam: bool,
    /// Whether it must be told at once, as the frames behind the cursor are fewer than it learns from.
    tells_at_once: bool,
}

const SOUND: u8 = 1;
/// There is what a decoder has for sound that did not come.
const CONCEALED: u8 = 2;
/// There is sound that does not follow the frame before, as another encoder began with it: it is cross-faded.
const SEAM: u8 = 3;

const fn is_sound(kind: u8) -> bool {
    matches!(kind, SOUND | SEAM)
}

impl Playout {
    /// Room for at least `frames` ahead of the cursor, and for a quarter as many behind it: whoever
    /// goes back to play later repeats real sound. Allocates; nothing later does. What lies in
    /// a hole is never played, so it may be NaN: that is written, not merely reserved, and the
    /// memory is there when the first packet comes.
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

    /// Decodes by these what is coded. Allocates; nothing later does.
    pub(crate) fn decode_by(&mut self, rate: Rate, decoders: Vec<Box<dyn Decode>>) {
        self.coded =
            Some(Box::new(CodedPlayout::new(rate, self.channels, self.filled.len(), decoders)));
    }

    pub(crate) fn coded(&self) -> Option<&CodedPlayout> {
        self.coded.as_deref()
    }

    /// The same, to be asked what was decoded.
    pub(crate) fn coded_mut(&mut self) -> Option<&mut CodedPlayout> {
        self.coded.as_deref_mut()
    }

    /// Frames that fit ahead of the cursor.
    pub fn capacity(&self) -> Frames {
        Frames::from_len(self.filled.len()) - self.history
    }

    /// Frames that are kept behind the cursor: going back by no more than these plays them again.
    pub const fn history(&self) -> Frames {
        self.history
    }

    /// The next frame that will be asked for.
    pub const fn cursor(&self) -> Option<MediaTime> {
        self.cursor
    }

    /// Frames from the cursor on that have come without a hole. Walks them: for reports and tests.
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

    /// Puts the frames of `payload` at `first`. Before the cursor is known, the first packet sets
    /// it to a quarter of the room earlier, so that reordering at the very start costs nothing.
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

    /// Packets hold so many channels from now on: one, which is played on all, or as many as there are.
    /// What was placed before was read wrongly: none of it is concealed with.
    pub(crate) fn set_carried(&mut self, carried: Channels) {
        self.carried = if carried == Channels::MONO { carried } else { self.channels };
        self.passed = 0;
        self.concealer.forget();
    }

    /// The same of frames that are to be decoded when their turn comes.
    pub(crate) fn place_coded(
        &mut self,
        first: MediaTime,
        frames: Frames,
        coder: Codec,
        payload: &[u8],
    ) -> Placed {
        let late = match self.late(first, frames) {
            Ok(late) => late,
            Err(placed) => return placed,
        };
        let Some(coded) = self.coded.as_mut().filter(|coded| !coded.is_beyond(first)) else {
            return Placed::Late;
        };
        coded.keep(first, frames, coder, payload);
        if late > Frames::ZERO { Placed::Partly(late) } else { Placed::Whole }
    }

    /// How many of these frames come after their turn, or what becomes of them where there is no place for any.
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

    /// Decodes what is needed for the next frames. Out of the way of those of streams that are not coded.
    #[inline(never)]
    fn decode(&mut self, frames: Frames) {
        let Some(cursor) = self.cursor else { return };
        let Some(mut coded) = self.coded.take() else { return };
        coded.decode_until(cursor, cursor + frames, &mut |first, samples, kind| {
            self.lay_decoded(first, samples, kind);
        });
        self.coded = Some(coded);
    }

    /// Lays decoded frames, but those whose turn is over and those that are there.
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

    /// Lays frames in these slots.
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

    /// The samples of these frames as they lie: the second part goes on where the ring begins anew.
    pub fn samples(&self, first: MediaTime, frames: Frames) -> [&[f32]; 2] {
        let (start, frames) = (self.slot(first), frames.as_len().min(self.filled.len()));
        let (channels, before_wrap) =
            (self.channels.count(), frames.min(self.filled.len() - start));
        let head = &self.samples[start * channels..(start + before_wrap) * channels];
        [head, &self.samples[..(frames - before_wrap) * channels]]
    }

    /// Whether the frame so many after the cursor is there.
    pub fn has(&self, ahead: Frames) -> bool {
        let there = |cursor: MediaTime| {
            let waits = self.coded.as_ref().is_some_and(|coded| coded.reaches(cursor + ahead));
            is_sound(self.filled[self.slot(cursor + ahead)]) || waits
        };
        ahead < self.capacity() && self.cursor.is_some_and(there)
    }

    /// Frames of those missing in whose place the sound before went on, since the beginning.
    pub const fn concealed(&self) -> u64 {
        self.concealer.concealed() + self.decoders_concealed
    }

    /// The source ends: what is missing from now on is its silence and fades in at once.
    pub fn end(&mut self) {
        self.concealer.end();
        self.coded.iter_mut().for_each(|coded| coded.end_source());
    }

    /// Gives the frames from the cursor on and moves it past them. Where there is no sound, it
    /// is concealed; returns how many frames that was.
    pub fn pull(&mut self, out: &mut [f32]) -> Frames {
        if self.pull_whole(out).is_some() {
            return Frames::ZERO;
        }
        // A block may be longer than the buffer: piece by piece no slot is read twice.
        let piece = self.channels.samples_in(self.capacity());
        Frames::from_len(out.chunks_mut(piece).map(|part| self.pull_piece(part)).sum())
    }

    /// What nearly every block is: no hole, nothing to fade, all in one piece. Gives none that is not;
    /// tells which frames it gave.
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

    /// Gives at most as many frames as the buffer holds; returns how many were missing.
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
            self.tell_concealer(self.slot(cursor + frames));
        }
        self.look_ahead(cursor + frames);
        missing
    }

    /// What had not come of what was given out since `Self::clear_holes`.
    pub const fn holes(&self) -> &Holes {
        &self.holes
    }

    /// Forgets them.
    pub(crate) fn clear_holes(&mut self) {
        self.holes.clear();
    }

    /// Finds the next hole, from the cursor on.
    fn look_ahead(&mut self, cursor: MediaTime) {
        self.whole = self.whole.max(cursor);
        let ahead = (self.whole - cursor).as_len();
        let start = self.slot(self.whole);
        let room = self.capacity().as_len().saturating_sub(ahead);
        let filled = &self.filled[start..self.filled.len().min(start + room)];
        self.whole += Frames::from_len(run_of(SOUND, filled));
    }

    /// Reads without wrapping, run by run of present and missing frames, of which the first is `first`.
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
                self.tell_concealer(start + at);
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
                self.tell_concealer(start + at);
                self.concealer.conceal(part);
                self.holes.add(first + Frames::from_len(at), Frames::from_len(run));
                missing += run;
            }
            at += run;
        }
        missing
    }

    /// Tells the concealer of what passed up to this slot, as far back as it learns from.
    fn tell_concealer(&mut self, end: usize) {
        let passed = core::mem::take(&mut self.passed).min(self.concealer.learns_from());
        if passed == 0 {
            return;
        }
        let (channels, begin) = (self.channels.count(), end.wrapping_sub(passed) & self.mask);
        let before_wrap = passed.min(self.filled.len() - begin);
        self.concealer.passed(&self.samples[begin * channels..(begin + before_wrap) * channels]);
        self.concealer.passed(&self.samples[..(passed - before_wrap) * channels]);
    }

    /// Moves the cursor to `next`. Frames that fall out of the history behind it are forgotten; so
    /// are, on the way back, those at the far end for which there is no room any more: they lie in
    /// the same slots.
    pub fn move_to(&mut self, next: MediaTime) {
        if let Some(cursor) = self.cursor.filter(|cursor| *cursor != next) {
            self.tell_concealer(self.slot(cursor));
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

    /// Moves the cursor to `next` with fades: what comes does not follow what was.
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

    /// Forgets every frame and the cursor: another stream begins. It fades over from what was, so
    /// the change makes no click.
    pub fn clear(&mut self) {
        self.cut();
        self.coded.iter_mut().for_each(|coded| coded.clear());
        self.filled.fill(0);
        self.cursor = None;
    }

    fn cut(&mut self) {
        if let Some(cursor) = self.cursor {
            self.tell_concealer(self.slot(cursor));
        }
        self.concealer.cut();
    }

    fn slot(&self, media: MediaTime) -> usize {
        media.as_frames() as usize & self.mask
    }
}

/// How many of the first of `filled` are of this kind. Eight at a time: packets and blocks are
/// nearly always whole.
fn run_of(kind: u8, filled: &[u8]) -> usize {
    let (eights, _) = filled.as_chunks::<8>();
    let whole = eights.iter().take_while(|eight| **eight == [kind; 8]).count() * 8;
    whole + filled[whole..].iter().take_while(|one| **one == kind).count()
}
