use std::collections::VecDeque;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tautline_dsp::timecode::bits::WORD;
use tautline_dsp::timecode::{Marker, NUMBERS, SPACING};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_report::distribution::Distribution;

use super::part_of_a_frame;
use crate::statistics::Series;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Played {
    pub number: u32,
    pub frame: i64,
    /// DAC time, as reported by the device.
    pub at: LocalTime,
    pub uncertainty: Span,
    /// Share of the remote host's clock in the uncertainty.
    pub clock: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct JudgedMark {
    pub number: u32,
    pub frame: f64,
    pub alongside: f64,
    /// ADC time, as reported by the device.
    #[serde(rename = "at_ns", serialize_with = "at_ns", deserialize_with = "from_at_ns")]
    pub at: LocalTime,
    #[serde(rename = "uncertainty_ns", serialize_with = "ns", deserialize_with = "from_ns")]
    pub uncertainty: Span,
    #[serde(skip)]
    pub clock: Span,
    pub confidence: f64,
    /// Gain: 1 is full scale; negative if inverted.
    pub gain: f64,
    /// Complete low-bit words so far (`dsp::timecode::bits`).
    pub words: u64,
    pub clear_db: Option<f64>,
}

fn at_ns<S: Serializer>(at: &LocalTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_i64(at.as_nanos())
}

fn from_at_ns<'de, D: Deserializer<'de>>(from: D) -> Result<LocalTime, D::Error> {
    i64::deserialize(from).map(LocalTime::from_nanos)
}

fn ns<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_i64(span.as_nanos())
}

fn from_ns<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    i64::deserialize(from).map(Span::from_nanos)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exactness {
    Exact,
    Turned,
    Gain,
    Resampled,
    /// Intact except at xruns.
    Xruns,
    /// Dither, fewer bits, a filter, or other sound changes the lowest bits.
    Other,
}

#[derive(Debug, Clone, Default)]
pub struct Outcome {
    pub delay: Distribution,
    pub delays: Series,
    pub uncertainty: Distribution,
    /// Parts: player's device, recorder's device, position in the sound.
    pub parts: [Distribution; 3],
    pub clocks: Distribution,
    pub played: u64,
    pub missed: u64,
    /// Mark received twice or out of order.
    pub repeated: u64,
    /// Never played: from another run.
    pub foreign: u64,
    /// Mark received with the number of another mark, as after an xrun: off by whole marks, unlike
    /// both neighbours.
    pub misread: u64,
    /// Frames missing between marks. For sweeps, less than 200 ppm is drift.
    pub dropped_frames: u64,
    pub repeated_frames: u64,
    /// Speed of the recorder's card in ppm, without drops and repeats; `None` below 1 s.
    pub drift_ppm: Option<f64>,
    pub min_confidence: Option<f64>,
    pub min_clear_db: Option<f64>,
    pub gain: Option<f64>,
    pub turned: u64,
    pub exactness: Option<Exactness>,
    pub words: MarkWords,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MarkWords {
    pub meant: f64,
    pub arrived: f64,
}

impl MarkWords {
    fn are_all(self) -> bool {
        self.arrived >= self.meant - CUT_WORDS
    }

    /// Whether xruns explain the missing words. A path that changes all samples leaves no words.
    pub(super) fn lack_by_xruns(self, xruns: u64, frames: u64) -> bool {
        let lost = frames as f64 / WORD as f64 + WORDS_OF_AN_XRUN * xruns as f64;
        xruns > 0
            && self.arrived >= self.meant / 2.0
            && self.arrived >= self.meant - CUT_WORDS - lost
    }
}

const CUT_WORDS: f64 = 1.5;
const WORDS_OF_AN_XRUN: f64 = 2.0;
const FEWEST_WORDS: f64 = 16.0;
/// Minimum confidence if only gain or rate differs.
const CLEAR: f64 = 0.99;
const SAME_GAIN: f64 = 1e-3;
const SAME_RATE: f64 = 1e-6;
/// Minimum difference between marks that counts as a slip, in frames.
const SLIP: f64 = 0.5;
/// Maximum drift between sweeps: two cards, 100 ppm each.
pub(super) const MAX_SWEPT_DRIFT: f64 = 200e-6;
/// Maximum time that a mark may seem to precede its playback, because of errors of device times.
pub(super) const EARLY: Span = Span::from_millis(10);
const BELIEF: f64 = 0.05;
/// Maximum drift. No real card exceeds it.
const MAX_DRIFT: f64 = 1000e-6;

/// Decides the outcome of marks. Pass each mark as played before you pass it as received, in order.
pub struct Judge {
    rate: Rate,
    /// Only marks played in `from..until` count.
    from: LocalTime,
    until: LocalTime,
    waiting: VecDeque<DueMark>,
    first: Option<u64>,
    newest: u64,
    last: Option<ReceivedMark>,
    /// Mark that counts if the next mark does not show that its number is wrong.
    newest_received: Option<ReceivedMark>,
    /// Recent received frames per played frame, minus one.
    drift: f64,
    even: Stretches,
    spacing: usize,
    peak: f64,
    /// Whether only time distinguishes the marks, as for sweeps.
    alike: bool,
    /// Marks may seem received this much before playback.
    early: Span,
    first_received: Option<JudgedMark>,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy)]
struct ReceivedMark {
    number: u64,
    place: usize,
    played: Played,
    received: JudgedMark,
}

#[derive(Debug)]
struct DueMark {
    number: u64,
    mark: Played,
    received: bool,
}

#[derive(Debug, Clone, Copy)]
struct MarkSlip {
    /// Frames between both marks, as played.
    meant: f64,
    /// Additional frames between both marks, as received.
    frames: f64,
    /// Value of `frames` without drift.
    beyond: f64,
    allowed: f64,
}

impl MarkSlip {
    fn is_within(&self) -> bool {
        self.beyond.abs() <= self.allowed
    }
}

#[derive(Debug, Default)]
struct Stretches {
    played: f64,
    more: f64,
}

impl Stretches {
    fn drift_ppm(&self, rate: Rate) -> Option<f64> {
        (self.played >= f64::from(rate.hertz())).then(|| self.more / self.played * 1e6)
    }
}

impl Judge {
    pub fn new(rate: Rate, from: LocalTime) -> Self {
        Self {
            rate,
            from,
            until: LocalTime::NEVER,
            waiting: VecDeque::new(),
            first: None,
            newest: 0,
            last: None,
            newest_received: None,
            drift: 0.0,
            even: Stretches::default(),
            spacing: SPACING,
            peak: 10_f64.powf(Marker::LEVEL_DB / 20.0),
            alike: false,
            early: EARLY,
            first_received: None,
            outcome: Outcome::default(),
        }
    }

    pub fn with_marks(mut self, spacing: usize, level_db: f64) -> Self {
        (self.spacing, self.peak) = (spacing, 10_f64.powf(level_db / 20.0));
        self
    }

    /// Later marks do not count but must be passed: a received sweep may be such a mark.
    pub fn until(mut self, until: LocalTime) -> Self {
        self.until = until;
        self
    }

    pub(super) fn with_sweeps(mut self) -> Self {
        self.alike = true;
        self
    }

    pub(super) fn with_early(mut self, early: Span) -> Self {
        self.early = early;
        self
    }

    pub fn with_room(mut self, maximum: usize) -> Self {
        self.outcome.delays = Series::with_room(maximum);
        self
    }

    pub fn played(&mut self, mark: Played) {
        let numbers = u64::from(NUMBERS);
        self.newest += (u64::from(mark.number) + numbers - self.newest % numbers) % numbers;
        self.first.get_or_insert(self.newest);
        if mark.at >= self.from {
            self.waiting.push_back(DueMark { number: self.newest, mark, received: false });
        }
    }

    pub fn received(&mut self, mut received: JudgedMark) {
        if self.alike {
            let Some(number) = self.number_at(received.at) else { return };
            received.number = number;
        }
        let Some(index) = self.index_of(received.number) else {
            self.outcome.foreign += 1;
            return;
        };
        let Some(place) = self.counted(index) else { return };
        let played = self.waiting[place].mark;
        if played.at >= self.until {
            return;
        }
        let mark = ReceivedMark { number: index, place, played, received };
        if let Some(before) = self.newest_received {
            if self.off_by_marks(&before) && self.slip(&mark).is_some_and(|slip| slip.is_within()) {
                self.outcome.misread += 1;
            } else if index <= before.number {
                self.outcome.repeated += 1;
                return;
            } else {
                self.count(before);
            }
        }
        self.newest_received = Some(mark);
    }

    fn count(&mut self, mark: ReceivedMark) {
        let ReceivedMark { place, played, received, .. } = mark;
        self.waiting[place].received = true;
        let outcome = &mut self.outcome;
        outcome.delay.record(received.at - played.at);
        outcome.delays.push(played.at, received.at - played.at);
        outcome.uncertainty.record(received.uncertainty + played.uncertainty);
        let place = part_of_a_frame(self.rate, received.alongside);
        let devices =
            [played.uncertainty - played.clock, received.uncertainty - received.clock - place];
        let parts = [devices[0], devices[1], place];
        outcome.parts.iter_mut().zip(parts).for_each(|(all, part)| all.record(part));
        outcome.clocks.record(played.clock + received.clock);
        let minimum =
            outcome.min_confidence.map_or(received.confidence, |c| c.min(received.confidence));
        outcome.min_confidence = Some(minimum);
        outcome.gain = Some(received.gain);
        outcome.turned += u64::from(received.gain < 0.0);
        let clear = [outcome.min_clear_db, received.clear_db].into_iter().flatten();
        outcome.min_clear_db = clear.reduce(f64::min);
        self.follow(&mark);
        self.first_received.get_or_insert(received);
        self.last = Some(mark);
    }

    fn number_at(&self, received: LocalTime) -> Option<u32> {
        let played =
            self.waiting.partition_point(|waiting| waiting.mark.at <= received + self.early);
        self.waiting.get(played.checked_sub(1)?).map(|waiting| waiting.mark.number)
    }

    fn index_of(&self, number: u32) -> Option<u64> {
        let numbers = u64::from(NUMBERS);
        let behind = (self.newest % numbers + numbers - u64::from(number)) % numbers;
        let index = self.newest.checked_sub(behind)?;
        self.first.is_some_and(|first| first <= index).then_some(index)
    }

    fn counted(&self, index: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&index, |waiting| waiting.number).ok()
    }

    /// Frames that were repeated (or dropped, if negative) since the last counted mark; `None` if
    /// no mark was counted.
    fn slip(&self, mark: &ReceivedMark) -> Option<MarkSlip> {
        let last = self.last.as_ref().filter(|last| last.number < mark.number)?;
        let meant = mark.played.frame.saturating_sub(last.played.frame) as f64;
        let frames = mark.received.frame - last.received.frame - meant;
        // Sweeps are far apart: drift amounts to frames.
        let allowed = if self.alike { MAX_SWEPT_DRIFT * meant } else { SLIP };
        let allowed = allowed.max(mark.received.alongside.hypot(last.received.alongside));
        Some(MarkSlip { meant, frames, beyond: frames - meant * self.drift, allowed })
    }

    /// Whether the mark seems to have slipped by whole marks, as with the number of a neighbour.
    fn off_by_marks(&self, mark: &ReceivedMark) -> bool {
        let spacing = self.spacing as f64;
        self.slip(mark).filter(|slip| !self.alike && !slip.is_within()).is_some_and(|slip| {
            let marks = (slip.beyond / spacing).round();
            marks != 0.0 && (slip.beyond - marks * spacing).abs() <= slip.allowed
        })
    }

    fn follow(&mut self, mark: &ReceivedMark) {
        let Some(slip) = self.slip(mark) else { return };
        let MarkSlip { meant, frames, beyond, .. } = slip;
        if !slip.is_within() {
            let frames = beyond.abs().round() as u64;
            if beyond < 0.0 {
                self.outcome.dropped_frames += frames;
            } else {
                self.outcome.repeated_frames += frames;
            }
        } else if meant > 0.0 {
            self.even.played += meant;
            self.even.more += frames;
            let drift = self.drift + (frames / meant - self.drift) * BELIEF;
            self.drift = drift.clamp(-MAX_DRIFT, MAX_DRIFT);
        }
    }

    pub fn finish(mut self, end: LocalTime) -> Outcome {
        match self.newest_received.take() {
            Some(mark) if self.off_by_marks(&mark) => self.outcome.misread += 1,
            Some(mark) => self.count(mark),
            None => {}
        }
        let last = self.last.as_ref();
        let delay = last.map_or(Span::ZERO, |mark| mark.received.at - mark.played.at);
        // A mark is found only after part of the next mark was received.
        let spacings = if self.alike { 2 } else { 1 };
        let tail = self.rate.span_of(Frames::from_len(spacings * self.spacing));
        // An early mark must not offset a missed mark.
        let is_due = |mark: &Played| mark.at < self.until && mark.at + delay + tail <= end;
        let due = || self.waiting.iter().filter(|waiting| is_due(&waiting.mark));
        self.outcome.played = due().count() as u64;
        self.outcome.missed = due().filter(|waiting| !waiting.received).count() as u64;
        self.outcome.drift_ppm = self.even.drift_ppm(self.rate);
        self.outcome.words = self.words();
        self.outcome.exactness = self.exactness();
        self.outcome
    }

    fn words(&self) -> MarkWords {
        self.first_received.zip(self.last).map_or(MarkWords::default(), |(first, last)| {
            let last = last.received;
            let meant = (last.frame - first.frame) / WORD as f64;
            MarkWords { meant, arrived: last.words.saturating_sub(first.words) as f64 }
        })
    }

    fn exactness(&self) -> Option<Exactness> {
        let last = self.last.filter(|_| !self.alike)?.received;
        let gain = last.gain.abs() / self.peak;
        let words = self.outcome.words;
        Some(if words.meant < FEWEST_WORDS {
            return None;
        } else if !words.are_all() {
            let drift = self.even.played.max(1.0).recip() * self.even.more;
            match () {
                () if last.confidence < CLEAR => Exactness::Other,
                () if drift.abs() > SAME_RATE => Exactness::Resampled,
                () if (gain - 1.0).abs() > SAME_GAIN => Exactness::Gain,
                () => Exactness::Other,
            }
        } else if last.gain < 0.0 {
            Exactness::Turned
        } else {
            Exactness::Exact
        })
    }
}
