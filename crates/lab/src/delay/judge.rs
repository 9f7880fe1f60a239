//! What became of each mark.

use std::collections::VecDeque;

use tautline_dsp::timecode::{NUMBERS, SPACING};
use tautline_engine::watching::distribution::Distribution;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

/// A mark that was played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Played {
    /// Modulo [`NUMBERS`].
    pub number: u32,
    /// Of the device, from its start.
    pub frame: i64,
    /// When it met the DAC, by the device's word.
    pub at: LocalTime,
    /// Of that, either way.
    pub uncertainty: Span,
}

/// A mark that was heard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeardMark {
    /// Modulo [`NUMBERS`].
    pub number: u32,
    /// Of the device, from its start, to a part of a frame.
    pub frame: f64,
    /// When it met the ADC, by the device's word.
    pub at: LocalTime,
    /// Of that and of where the mark is, either way.
    pub uncertainty: Span,
    /// How well the sound fitted the mark: 1 if it was the very same.
    pub confidence: f64,
    /// Of the sound, full scale being 1; negative where the polarity was the other.
    pub gain: f64,
}

/// What became of all of them.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// DAC to ADC.
    pub delay: Distribution,
    /// How far each of these may be from the truth.
    pub uncertainty: Distribution,
    /// Marks that were played in time to be heard.
    pub played: u64,
    /// Of these, those that were not heard.
    pub missed: u64,
    /// Marks that were heard again, or out of order.
    pub repeated: u64,
    /// Frames that the sound lacked between two marks, all together.
    pub dropped_frames: u64,
    /// Frames that it had too many between two marks, all together.
    pub repeated_frames: u64,
    /// How much faster the ear's card ran than the player's, in parts per million, over the whole
    /// run; absent for less than a second.
    pub drift_ppm: Option<f64>,
    /// The least that was found.
    pub least_confidence: Option<f64>,
    /// Of the last mark.
    pub gain: Option<f64>,
}

/// Between two marks, heard and played, frames may differ by less than this where none was dropped or
/// repeated.
const SLIP: f64 = 0.5;
/// How much of what two neighbouring marks say of the drift is believed.
const BELIEF: f64 = 0.05;
/// Cards that differ by more are no cards.
const MOST_DRIFT: f64 = 1000e-6;

/// Decides. Marks are to be told in order, each played one before it is told as heard.
pub struct Judge {
    rate: Rate,
    /// Marks played before this do not count.
    from: LocalTime,
    /// The marks that were played and may still be heard, each by its number without wrap-around.
    waiting: VecDeque<(u64, Played)>,
    /// The number of the newest.
    newest: u64,
    first: Option<(Played, HeardMark)>,
    last: Option<(u64, Played, HeardMark)>,
    /// Frames heard for each played, less one, as it was lately.
    drift: f64,
    outcome: Outcome,
}

impl Judge {
    /// Marks played before `from` do not count.
    pub fn new(rate: Rate, from: LocalTime) -> Self {
        Self {
            rate,
            from,
            waiting: VecDeque::new(),
            newest: 0,
            first: None,
            last: None,
            drift: 0.0,
            outcome: Outcome::default(),
        }
    }

    /// A mark was played.
    pub fn played(&mut self, mark: Played) {
        let numbers = u64::from(NUMBERS);
        self.newest += (u64::from(mark.number) + numbers - self.newest % numbers) % numbers;
        if mark.at >= self.from {
            self.waiting.push_back((self.newest, mark));
        }
    }

    /// A mark was heard.
    pub fn heard(&mut self, heard: HeardMark) {
        let Some((index, played)) = self.which(heard.number) else { return };
        if let Some((last, ..)) = self.last
            && index <= last
        {
            self.outcome.repeated += 1;
            return;
        }
        let outcome = &mut self.outcome;
        outcome.delay.record(heard.at - played.at);
        outcome.uncertainty.record(heard.uncertainty + played.uncertainty);
        let least = outcome.least_confidence.map_or(heard.confidence, |c| c.min(heard.confidence));
        outcome.least_confidence = Some(least);
        outcome.gain = Some(heard.gain);
        self.follow(played, heard);
        self.first.get_or_insert((played, heard));
        self.last = Some((index, played, heard));
    }

    /// The newest mark with this number, if it counts.
    fn which(&self, number: u32) -> Option<(u64, Played)> {
        let numbers = u64::from(NUMBERS);
        let behind = (self.newest + numbers - u64::from(number)) % numbers;
        let index = self.newest.checked_sub(behind)?;
        let place = self.waiting.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.waiting.get(place).copied()
    }

    /// Holds the frames between two marks as heard against those as played.
    fn follow(&mut self, played: Played, heard: HeardMark) {
        let Some((_, played_last, heard_last)) = self.last else { return };
        let meant = (played.frame - played_last.frame) as f64;
        let slip = heard.frame - heard_last.frame - meant;
        let beyond = slip - meant * self.drift;
        if beyond.abs() > SLIP {
            let frames = beyond.abs().round() as u64;
            if beyond < 0.0 {
                self.outcome.dropped_frames += frames;
            } else {
                self.outcome.repeated_frames += frames;
            }
        } else if meant > 0.0 {
            let drift = self.drift + (slip / meant - self.drift) * BELIEF;
            self.drift = drift.clamp(-MOST_DRIFT, MOST_DRIFT);
        }
    }

    /// Nothing more was heard after `end`.
    pub fn finish(mut self, end: LocalTime) -> Outcome {
        let delay = self.last.map_or(Span::ZERO, |(_, played, heard)| heard.at - played.at);
        // A mark is found when the whole of it was heard, and some of the next.
        let tail = self.rate.span_of(Frames::from_len(SPACING));
        let in_time = |(_, mark): &&(u64, Played)| mark.at + delay + tail <= end;
        let found = self.outcome.delay.count();
        self.outcome.played = (self.waiting.iter().filter(in_time).count() as u64).max(found);
        self.outcome.missed = self.outcome.played - found;
        self.outcome.drift_ppm = self.first.zip(self.last).and_then(|(first, last)| {
            let meant = (last.1.frame - first.0.frame) as f64;
            let ratio = (last.2.frame - first.1.frame) / meant - 1.0;
            (meant >= f64::from(self.rate.hertz())).then_some(ratio * 1e6)
        });
        self.outcome
    }
}
