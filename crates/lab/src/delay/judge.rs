//! What became of each mark.

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
    /// Of the device, from its start.
    pub frame: i64,
    /// When it met the DAC, by the device's word.
    pub at: LocalTime,
    /// Of that, either way.
    pub uncertainty: Span,
    /// The part of it that is the clock's by which it was read here, if its host has another.
    pub clock: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct HeardMark {
    pub number: u32,
    /// Of the device, from its start, to a part of a frame.
    pub frame: f64,
    /// How far that may be from the truth, in frames, either way.
    pub beside: f64,
    /// When it met the ADC, by the device's word.
    #[serde(rename = "at_ns", serialize_with = "at_ns", deserialize_with = "from_at_ns")]
    pub at: LocalTime,
    /// Of that and of where the mark is, either way.
    #[serde(rename = "uncertainty_ns", serialize_with = "ns", deserialize_with = "from_ns")]
    pub uncertainty: Span,
    /// The part of it that is the clock's by which it was read here, if its host has another.
    #[serde(skip)]
    pub clock: Span,
    /// How well the sound fitted the mark: 1 if it was the very same.
    pub confidence: f64,
    /// Of the sound, full scale being 1; negative where the polarity was the other.
    pub gain: f64,
    /// Words of the lowest bits that had come whole by then (`dsp::timecode::bits`).
    pub words: u64,
    /// How far everything else that it may be lies below it, of a sweep.
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
    /// The samples are whole except where a device had an xrun.
    Xruns,
    /// It does something else to their lowest bits: dither, fewer bits, a filter, other sound.
    Other,
}

#[derive(Debug, Clone, Default)]
pub struct Outcome {
    pub delay: Distribution,
    /// The same, each by when its mark was played, as many as there was room for.
    pub delays: Series,
    /// How far each of these may be from the truth.
    pub uncertainty: Distribution,
    /// The parts of that: by the player's device, the ear's, and the place of the mark in what was heard.
    pub parts: [Distribution; 3],
    /// And what both clocks leave unsure by which it was read.
    pub clocks: Distribution,
    /// Marks that were played in time to be heard.
    pub played: u64,
    /// Of these, those that were not heard.
    pub missed: u64,
    /// Marks that were heard again, or out of order.
    pub repeated: u64,
    /// Marks that were heard and never played: another run's, which was taken for this one.
    pub foreign: u64,
    /// Frames that the sound lacked between two marks, all together; of sweeps, fewer than 200 ppm of what
    /// lies between are taken for drift.
    pub dropped_frames: u64,
    /// Frames that it had too many between two marks, all together; as above.
    pub repeated_frames: u64,
    /// How much faster the ear's card ran, in ppm, where nothing was dropped or repeated; absent for less than a second.
    pub drift_ppm: Option<f64>,
    pub least_confidence: Option<f64>,
    pub least_clear_db: Option<f64>,
    pub gain: Option<f64>,
    /// Marks that were heard in the other polarity.
    pub turned: u64,
    pub exactness: Option<Exactness>,
    /// Words of the lowest bits between the first mark and the last that was heard.
    pub words: CameWords,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CameWords {
    pub meant: f64,
    pub came: f64,
}

impl CameWords {
    /// Whether all came; at either end one may be cut.
    fn are_all(self) -> bool {
        self.came >= self.meant - CUT_WORDS
    }

    /// Whether so many xruns explain those that did not: of what the devices skipped, and of what the marks say
    /// is missing or too much, each lost one or two at its edges beside. What changes all samples leaves none.
    pub(super) fn lack_by_xruns(self, xruns: u64, frames: u64) -> bool {
        let lost = frames as f64 / WORD as f64 + WORDS_OF_AN_XRUN * xruns as f64;
        xruns > 0 && self.came >= self.meant / 2.0 && self.came >= self.meant - CUT_WORDS - lost
    }
}

/// Words that are cut, at most: one at either end.
const CUT_WORDS: f64 = 1.5;
/// Words that are cut where an xrun begins and where it ends.
const WORDS_OF_AN_XRUN: f64 = 2.0;
/// Words that a verdict is made of at least.
const FEWEST_WORDS: f64 = 16.0;
/// Where marks fit as well, nothing but the gain or the rate is another.
const CLEAR: f64 = 0.99;
/// What the lowest bits leave unsure of a gain, and what marks leave unsure of a rate.
const SAME_GAIN: f64 = 1e-3;
const SAME_RATE: f64 = 1e-6;
/// Frames between two marks that differ by less are neither dropped nor repeated.
const SLIP: f64 = 0.5;
/// Two cards of 100 ppm each.
pub(super) const MOST_SWEPT_DRIFT: f64 = 200e-6;
/// What is heard may seem to be earlier than it was played, by the word of two devices.
pub(super) const EARLY: Span = Span::from_millis(10);
/// How much of what two neighbouring marks say of the drift is believed.
const BELIEF: f64 = 0.05;
/// Cards that differ by more are no cards.
const MOST_DRIFT: f64 = 1000e-6;

/// Decides. Marks are to be told in order, each played one before it is told as heard.
pub struct Judge {
    rate: Rate,
    /// Marks played before this do not count, nor do those played from the other on.
    from: LocalTime,
    until: LocalTime,
    /// The marks that were played since `from`, in order.
    waiting: VecDeque<DueMark>,
    first: Option<u64>,
    newest: u64,
    last: Option<(u64, Played, HeardMark)>,
    /// Frames heard for each played, less one, as it was lately.
    drift: f64,
    even: Stretches,
    /// Frames from one mark to the next, and how loud they are played.
    spacing: usize,
    peak: f64,
    /// Whether nothing but the instant tells which mark was heard, as of sweeps.
    alike: bool,
    /// By so much a mark may seem to be heard before it was played.
    early: Span,
    first_heard: Option<HeardMark>,
    outcome: Outcome,
}

#[derive(Debug)]
struct DueMark {
    /// Its number without wrap-around.
    number: u64,
    mark: Played,
    heard: bool,
}

/// Frames between marks where none was dropped or repeated between: only there is a difference drift.
#[derive(Debug, Default)]
struct Stretches {
    played: f64,
    /// Heard, more than played.
    more: f64,
}

impl Stretches {
    /// In parts per million, of frames at this rate.
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
            drift: 0.0,
            even: Stretches::default(),
            spacing: SPACING,
            peak: 10_f64.powf(Marker::LEVEL_DB / 20.0),
            alike: false,
            early: EARLY,
            first_heard: None,
            outcome: Outcome::default(),
        }
    }

    /// Marks come this many frames after each other, at this peak.
    pub fn with_marks(mut self, spacing: usize, level_db: f64) -> Self {
        (self.spacing, self.peak) = (spacing, 10_f64.powf(level_db / 20.0));
        self
    }

    /// Marks played later do not count, but must be reported: a sweep that is heard may be one of them.
    pub fn until(mut self, until: LocalTime) -> Self {
        self.until = until;
        self
    }

    pub(super) fn with_sweeps(mut self) -> Self {
        self.alike = true;
        self
    }

    /// What is heard may seem to be earlier than it was played by so much, as two clocks lie between.
    pub(super) fn with_early(mut self, early: Span) -> Self {
        self.early = early;
        self
    }

    pub fn with_room(mut self, most: usize) -> Self {
        self.outcome.delays = Series::with_room(most);
        self
    }

    pub fn played(&mut self, mark: Played) {
        let numbers = u64::from(NUMBERS);
        self.newest += (u64::from(mark.number) + numbers - self.newest % numbers) % numbers;
        self.first.get_or_insert(self.newest);
        if mark.at >= self.from {
            self.waiting.push_back(DueMark { number: self.newest, mark, heard: false });
        }
    }

    pub fn heard(&mut self, mut heard: HeardMark) {
        if self.alike {
            let Some(number) = self.number_at(heard.at) else { return };
            heard.number = number;
        }
        let Some(index) = self.index_of(heard.number) else {
            self.outcome.foreign += 1;
            return;
        };
        let Some(place) = self.counted(index) else { return };
        let played = self.waiting[place].mark;
        if played.at >= self.until {
            return;
        }
        if let Some((last, ..)) = self.last
            && index <= last
        {
            self.outcome.repeated += 1;
            return;
        }
        self.waiting[place].heard = true;
        let outcome = &mut self.outcome;
        outcome.delay.record(heard.at - played.at);
        outcome.delays.push(played.at, heard.at - played.at);
        outcome.uncertainty.record(heard.uncertainty + played.uncertainty);
        let place = part_of_a_frame(self.rate, heard.beside);
        let devices = [played.uncertainty - played.clock, heard.uncertainty - heard.clock - place];
        let parts = [devices[0], devices[1], place];
        outcome.parts.iter_mut().zip(parts).for_each(|(all, part)| all.record(part));
        outcome.clocks.record(played.clock + heard.clock);
        let least = outcome.least_confidence.map_or(heard.confidence, |c| c.min(heard.confidence));
        outcome.least_confidence = Some(least);
        outcome.gain = Some(heard.gain);
        outcome.turned += u64::from(heard.gain < 0.0);
        let clear = [outcome.least_clear_db, heard.clear_db].into_iter().flatten();
        outcome.least_clear_db = clear.reduce(f64::min);
        self.follow(played, heard);
        self.first_heard.get_or_insert(heard);
        self.last = Some((index, played, heard));
    }

    /// The newest counted mark that was played by then.
    fn number_at(&self, heard: LocalTime) -> Option<u32> {
        let played = self.waiting.partition_point(|waiting| waiting.mark.at <= heard + self.early);
        self.waiting.get(played.checked_sub(1)?).map(|waiting| waiting.mark.number)
    }

    /// Which of all marks that were played this is: the newest with this number.
    fn index_of(&self, number: u32) -> Option<u64> {
        let numbers = u64::from(NUMBERS);
        let behind = (self.newest % numbers + numbers - u64::from(number)) % numbers;
        let index = self.newest.checked_sub(behind)?;
        self.first.is_some_and(|first| first <= index).then_some(index)
    }

    /// Where this mark waits, if it was not played too early to count.
    fn counted(&self, index: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&index, |waiting| waiting.number).ok()
    }

    /// Holds the frames between two marks as heard against those as played.
    fn follow(&mut self, played: Played, heard: HeardMark) {
        let Some((_, played_last, heard_last)) = self.last else { return };
        let meant = played.frame.saturating_sub(played_last.frame) as f64;
        let slip = heard.frame - heard_last.frame - meant;
        let beyond = slip - meant * self.drift;
        // Sweeps are so far apart that cards that drift differ by frames, the more so across missed ones.
        let allowed = if self.alike { MOST_SWEPT_DRIFT * meant } else { SLIP };
        // What other sound hides of both places is no slip.
        if beyond.abs() > allowed.max(heard.beside.hypot(heard_last.beside)) {
            let frames = beyond.abs().round() as u64;
            if beyond < 0.0 {
                self.outcome.dropped_frames += frames;
            } else {
                self.outcome.repeated_frames += frames;
            }
        } else if meant > 0.0 {
            self.even.played += meant;
            self.even.more += slip;
            let drift = self.drift + (slip / meant - self.drift) * BELIEF;
            self.drift = drift.clamp(-MOST_DRIFT, MOST_DRIFT);
        }
    }

    /// Nothing more was heard after `end`.
    pub fn finish(mut self, end: LocalTime) -> Outcome {
        let delay = self.last.map_or(Span::ZERO, |(_, played, heard)| heard.at - played.at);
        // A mark is found when the whole of it was heard, and some of the next.
        let spacings = if self.alike { 2 } else { 1 };
        let tail = self.rate.span_of(Frames::from_len(spacings * self.spacing));
        // One that was heard although it was not due makes up for none that was due and missed.
        let is_due = |mark: &Played| mark.at < self.until && mark.at + delay + tail <= end;
        let due = || self.waiting.iter().filter(|waiting| is_due(&waiting.mark));
        self.outcome.played = due().count() as u64;
        self.outcome.missed = due().filter(|waiting| !waiting.heard).count() as u64;
        self.outcome.drift_ppm = self.even.drift_ppm(self.rate);
        self.outcome.words = self.words();
        self.outcome.exactness = self.exactness();
        self.outcome
    }

    fn words(&self) -> CameWords {
        self.first_heard.zip(self.last).map_or(CameWords::default(), |(first, (_, _, last))| {
            let meant = (last.frame - first.frame) / WORD as f64;
            CameWords { meant, came: last.words.saturating_sub(first.words) as f64 }
        })
    }

    /// Between the first mark and the last every word is to have come.
    fn exactness(&self) -> Option<Exactness> {
        let (_, _, last) = self.last.filter(|_| !self.alike)?;
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
