//! Finds marks in three steps. The signs of 63 chips are compared with the sync. The sync is fitted
//! to a fraction of a frame. The number is read and the whole mark compared. Missed marks are
//! searched below other sound ([`Buried`]).

use std::collections::VecDeque;

use super::buried::{Buried, HOP, MARK_AT, MAX_READ};
use super::readings::{MarkReading, MarkReadings};
use super::spectrum::SIZE;
use super::stretch::{MarkStretch, Thinner};
use super::sync::{REACH, Sync, SyncFit};
use super::track::{MarkTrack, ReceivedMarks};
use super::{CENTRE, CHIP, RunNumber, SPACING, SYNC, SYNC_CHIPS, WORD_BITS, chips_of, crc, wave};
use crate::align::{Similarity, energy};

/// A mark found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundMark {
    /// Number modulo [`NUMBERS`](super::NUMBERS).
    pub number: u32,
    /// Nearest frame, from the first frame pushed.
    pub frame: i64,
    /// Distance from that frame, −0.5 to 0.5.
    pub fraction: f64,
    /// Position error in frames, either way.
    pub uncertainty: f64,
    /// 1 for an exact match, 0 for unrelated sound.
    pub confidence: f64,
    /// Gain relative to full scale; negative if inverted.
    pub gain: f64,
}

impl FoundMark {
    fn stretched(self, stretch: MarkStretch) -> Self {
        let frames = stretch.frames() as f64;
        let alongside = self.fraction * frames;
        Self {
            frame: self.frame * stretch.frames() as i64 + alongside.round() as i64,
            fraction: alongside - alongside.round(),
            uncertainty: self.uncertainty * frames,
            ..self
        }
    }
}

/// Maximum wrong signs among the 63 of a sync. Noise has so few once in 3·10⁷ frames.
pub(super) const MAX_WRONG: u32 = 10;
/// Minimum fit relative to the sync. A wrong number fits at most 0.87.
const WHOLE: f64 = 0.92;
/// Error from 16-bit samples at a gain of 1, in frames.
const HIDDEN: f64 = 1.0 / 32_768.0 / core::f64::consts::FRAC_PI_4;
/// Minimum confidence of a mark that needs no second reading.
const SURE: f64 = 0.9;
const NEEDED: usize = SPACING + REACH + 2;
const KEPT: usize = 4 * SIZE;
const MOVED: usize = SIZE + 2 * SPACING;

/// Finds marks in blocks of any length.
pub struct Finder {
    run: RunNumber,
    stretch: MarkStretch,
    thinner: Thinner,
    sound: Box<[f32]>,
    /// Length, and number of the first frame.
    len: usize,
    first: i64,
    /// By frame modulo [`CHIP`], newest in the highest bit.
    signs: [u64; CHIP],
    candidates: VecDeque<Candidate>,
    sync: Sync,
    buried: Buried,
    track: Option<MarkTrack>,
    own: Option<MarkReading>,
    readings: MarkReadings,
    foreign: u64,
    /// Frames for the next expected mark, and for the next search.
    expected: i64,
    searched: i64,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    start: i64,
    wrong: u32,
}

const MAX_CANDIDATES: usize = 16;

impl Finder {
    /// Creates a finder for run 0.
    pub fn new() -> Self {
        Self::of(RunNumber::default())
    }

    /// Creates a finder for a run.
    pub fn of(run: RunNumber) -> Self {
        Self::stretched(run, MarkStretch::NONE)
    }

    /// Creates a finder for stretched marks.
    pub fn stretched(run: RunNumber, stretch: MarkStretch) -> Self {
        Self {
            run,
            stretch,
            thinner: Thinner::new(stretch),
            sound: vec![0.0; KEPT].into(),
            // Silence before the first frame, at which a mark may begin.
            len: MOVED,
            first: -(MOVED as i64),
            signs: [0; CHIP],
            candidates: VecDeque::with_capacity(MAX_CANDIDATES),
            sync: Sync::new(),
            buried: Buried::new(),
            track: None,
            own: None,
            readings: MarkReadings::new(),
            foreign: 0,
            expected: i64::MAX,
            searched: HOP as i64,
        }
    }

    /// Frames per mark.
    pub fn spacing(&self) -> usize {
        self.stretch.spacing()
    }

    /// Marks of other runs, each confirmed by another.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Takes one channel; passes each completed mark to `found`.
    pub fn push(&mut self, samples: &[f32], mut found: impl FnMut(FoundMark)) {
        for &sample in samples {
            if let Some(sample) = self.thinner.take(sample) {
                self.handle(sample, &mut found);
            }
        }
    }

    fn handle(&mut self, sample: f32, found: &mut impl FnMut(FoundMark)) {
        self.take(sample);
        let now = self.first + self.len as i64;
        if self.candidates.front().is_some_and(|first| now >= first.start + NEEDED as i64)
            && let Some(mark) = self.examine_next()
        {
            found(mark.stretched(self.stretch));
        }
        if now >= self.expected
            && let Some(mark) = self.expect()
        {
            found(mark.stretched(self.stretch));
        }
        if now >= self.searched {
            self.searched = now + HOP as i64;
            self.search();
        }
    }

    fn examine_next(&mut self) -> Option<FoundMark> {
        let Candidate { start, .. } = self.candidates.pop_front()?;
        let (cover, mark) = self.examine(start)?;
        // Signs of one mark fit for several frames.
        self.candidates.retain(|next| next.start > start + REACH as i64);
        let start = mark.frame - CENTRE as i64;
        let reading = MarkReading { start, number: mark.number, cover };
        let place = start as f64 + mark.fraction;
        let received =
            ReceivedMarks { number: mark.number, start: place, gain: mark.gain, is_clear: true };
        let is_sure = mark.confidence >= SURE;
        if cover == self.run.cover() && is_sure {
            return self.reported(received).then_some(mark);
        }
        if self.is_believed(reading, is_sure) {
            self.begin(received);
        }
        None
    }

    fn begin(&mut self, received: ReceivedMarks) {
        if self.track.is_some_and(|track| track.is_held()) {
            return;
        }
        self.track = Some(MarkTrack::before(received));
        self.await_next();
    }

    fn is_believed(&mut self, reading: MarkReading, is_sure: bool) -> bool {
        // Its own marks with wrong bits would count as foreign.
        let is_own = reading.cover == self.run.cover();
        if !is_own && !is_sure && self.own.is_none() {
            return false;
        }
        // A wrong bit makes a foreign mark.
        if self.own.is_some_and(|own| own.explains(&reading, is_sure)) {
            return false;
        }
        let believed = self.readings.add(reading);
        self.foreign += if is_own { 0 } else { believed };
        is_own && believed > 0
    }

    fn reported(&mut self, received: ReceivedMarks) -> bool {
        let start = received.start.round() as i64;
        if self.own.is_some_and(|own| start - own.start < SPACING as i64 / 2) {
            return false;
        }
        self.own = Some(MarkReading { start, number: received.number, cover: self.run.cover() });
        match &mut self.track {
            Some(track) => track.follow(received),
            None => self.track = Some(MarkTrack::new(received)),
        }
        self.await_next();
        true
    }

    fn await_next(&mut self) {
        self.expected = self
            .track
            .map_or(i64::MAX, |track| track.next().1.round() as i64 + (SIZE - MARK_AT) as i64);
    }

    fn expect(&mut self) -> Option<FoundMark> {
        let track = self.track?;
        let (number, start) = track.next();
        let mark = self.look_below(number, start.round() as i64, track.gain);
        if mark.is_none() {
            self.track = track.missed();
            self.await_next();
        }
        mark
    }

    fn look_below(&mut self, number: u32, start: i64, gain: f64) -> Option<FoundMark> {
        let first = usize::try_from(start - MARK_AT as i64 - self.first).ok()?;
        let sound = self.sound[..self.len].get(first..first + SIZE)?;
        let mark = self.buried.mark(sound, chips_of(self.run, number), gain)?;
        let similarity =
            mark.gain.abs() * (MARK_POWER / power(&sound[MARK_AT..][..SPACING])).sqrt();
        let at = (first as i64 + self.first) as f64 + mark.at;
        self.reported(ReceivedMarks { number, start: at, gain: mark.gain, is_clear: false }).then(
            || FoundMark {
                number,
                frame: at.round() as i64 + CENTRE as i64,
                fraction: at - at.round(),
                uncertainty: mark.uncertainty + HIDDEN / mark.gain.abs(),
                confidence: similarity.min(1.0),
                gain: mark.gain,
            },
        )
    }

    fn search(&mut self) {
        if self.track.is_some_and(|track| track.is_clear()) {
            return;
        }
        let mut readings = [None; MAX_READ];
        let mut free = readings.iter_mut();
        let begin = self.len - SIZE;
        self.buried.read(&self.sound[begin..self.len], |reading| {
            if let Some(free) = free.next() {
                *free = Some(reading);
            }
        });
        for read in readings.into_iter().flatten() {
            let start = self.first + (begin + read.at) as i64;
            let (number, cover) = split(read.word);
            let reading = MarkReading { start, number, cover };
            if self.is_believed(reading, false) {
                let start = start as f64;
                self.begin(ReceivedMarks { number, start, gain: read.gain, is_clear: false });
            }
        }
    }

    fn take(&mut self, sample: f32) {
        if self.len == KEPT {
            self.sound.copy_within(KEPT - MOVED.., 0);
            self.first += (KEPT - MOVED) as i64;
            self.len = MOVED;
        }
        self.sound[self.len] = sample;
        let frame = self.first + self.len as i64;
        self.len += 1;
        let signs = &mut self.signs[frame as usize % CHIP];
        *signs = (*signs >> 1) | (u64::from(sample > 0.0) << 63);
        let differ = ((*signs >> 1) ^ SYNC).count_ones();
        let wrong = differ.min(SYNC_CHIPS as u32 - differ);
        if wrong <= MAX_WRONG {
            self.consider(Candidate { start: frame - ((SYNC_CHIPS - 1) * CHIP) as i64, wrong });
        }
    }

    fn consider(&mut self, candidate: Candidate) {
        if let Some(last) = self.candidates.back_mut()
            && candidate.start - last.start < CHIP as i64
        {
            if candidate.wrong < last.wrong {
                *last = candidate;
            }
        } else if self.candidates.len() < MAX_CANDIDATES {
            self.candidates.push_back(candidate);
        }
    }

    /// Returns the cover of the CRC too.
    fn examine(&self, start: i64) -> Option<(u8, FoundMark)> {
        let near = usize::try_from(start - self.first).ok()?.checked_sub(REACH)?;
        let lag = self.sync.best_lag(&self.sound[near..])?;
        let begin = near + lag;
        let SyncFit { at, similarity, uncertainty } = self.sync.place(&self.sound[begin..])?;
        let sign = similarity.signum();
        let (number, cover) = self.number(begin as f64 + at, sign);
        let run = RunNumber::new(u32::from(cover));
        let (confidence, gain) = self.confidence(chips_of(run, number), begin, at);
        let confidence = confidence.abs();
        // Noise forges the CRC of one in 256 damaged numbers.
        if confidence < WHOLE * similarity.abs() {
            return None;
        }
        let mark = FoundMark {
            number,
            frame: self.first + (begin + CENTRE) as i64,
            fraction: at,
            uncertainty: uncertainty + HIDDEN / gain.abs(),
            confidence,
            gain,
        };
        Some((cover, mark))
    }

    fn number(&self, begin: f64, sign: f64) -> (u32, u8) {
        let mut word = 0;
        for bit in 0..WORD_BITS as usize {
            let centre = |half| begin + ((SYNC_CHIPS + 2 * bit + half) * CHIP) as f64;
            let one = (self.between(centre(0)) - self.between(centre(1))) * sign > 0.0;
            word = (word << 1) | u32::from(one);
        }
        split(word)
    }

    fn between(&self, at: f64) -> f64 {
        let index = at.max(0.0) as usize;
        let part = at - index as f64;
        f64::from(self.sound[index]) * (1.0 - part) + f64::from(self.sound[index + 1]) * part
    }

    fn confidence(&self, chips: u128, begin: usize, at: f64) -> (f64, f64) {
        let alike = Similarity::of(
            (1..SPACING)
                .map(|frame| (self.sound[begin + frame], wave(chips, frame as f64 - at) as f32)),
        );
        (alike.correlation(), alike.gain())
    }
}

impl Default for Finder {
    fn default() -> Self {
        Self::new()
    }
}

fn split(word: u32) -> (u32, u8) {
    (word >> 8, word as u8 ^ crc(word >> 8))
}

const MARK_POWER: f64 = 0.69;

fn power(sound: &[f32]) -> f64 {
    (energy(sound) / sound.len() as f64).max(f64::MIN_POSITIVE)
}
