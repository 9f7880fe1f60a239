//! A comparison for programs.

use serde::Serialize;

use super::changes::{Difference, Instead};
use super::resampled::ResampledRow;
use super::residue::Residue;
use super::tone::TestTone;
use super::verdict::{Comparison, Delay};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonReport {
    pub schema: u32,
    pub experiment: &'static str,
    pub says: String,
    /// In a word: `identical`, `all_there` (resampled), `differs`, `not_found`, or `ambiguous` if the sound
    /// is periodic and nothing tells its periods apart.
    pub verdict: &'static str,
    pub rate: u32,
    /// Frames that were sent, without the digital silence at both ends.
    pub sent_frames: usize,
    /// Of these, those that were heard at all, and bit for bit.
    pub heard_frames: usize,
    pub identical_frames: usize,
    /// Where the sent sound begins in the heard one; negative where that begins later. Of several possible
    /// frames the nearest to 0.
    pub begins_at_frame: Option<i64>,
    /// How far apart these are, in frames, if the delay is ambiguous.
    pub ambiguous_modulo_frames: Option<f64>,
    /// Frames at its beginning and its end that are missing; unknown if the delay is ambiguous.
    pub missed_first_frames: Option<usize>,
    pub missed_last_frames: Option<usize>,
    /// Which sent channel each heard one holds, and how loud, from some sent frame on.
    pub channels: Vec<ChannelsRow>,
    /// If the sent channels were mixed: of each heard channel, how much of each sent one.
    pub mix: Option<Vec<Vec<f64>>>,
    pub resampled: Vec<ResampledRow>,
    /// What differs in what is alike and on the frames, in dB below it.
    pub rest_db: Option<f64>,
    pub residue: Option<Residue>,
    pub tones: Vec<TestTone>,
    pub dropouts: DropoutsRow,
    /// All that is not one frame after the other.
    pub changes: Vec<ChangeRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChannelsRow {
    pub from_frame: usize,
    /// The sent channel of each, from 0; `null` where it holds nothing of what was sent.
    pub sources: Vec<Option<usize>>,
    /// Negative where it is upside down.
    pub gains: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DropoutsRow {
    pub count: usize,
    pub frames: usize,
    /// Frames of the longest, and where it is.
    pub longest_frames: usize,
    pub longest_at_frame: Option<usize>,
    /// Each, by rising frame of what was sent, with how many, and the time of the first.
    pub all: Vec<DropoutRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DropoutRow {
    pub at_frame: usize,
    pub at_seconds: f64,
    pub frames: usize,
}

/// Something that is not one frame after the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeRow {
    /// `replaced`, `dropped`, `repeated`, `inserted`, or `shifted` if it is known modulo a period only.
    pub kind: &'static str,
    pub at_frame: usize,
    /// How many; of what was inserted none.
    pub frames: usize,
    /// What is in their place: `silence`, `other` or `same`.
    pub by: Option<&'static str>,
    /// How much later what follows is heard, in frames; negative where it is earlier.
    pub later_frames: f64,
    /// The period in frames, if it may be any number of periods more or less.
    pub modulo_frames: Option<f64>,
}

impl Comparison {
    pub fn report(&self) -> ComparisonReport {
        let channels = self.routings.iter().map(|(from, routing)| {
            let both = routing.sources.iter().zip(&routing.gains);
            let sources = both.map(|(source, gain)| (*gain != 0.0).then_some(*source));
            ChannelsRow {
                from_frame: *from,
                sources: sources.collect(),
                gains: routing.gains.clone(),
            }
        });
        let dropouts = self.dropouts();
        let longest = dropouts.iter().max_by_key(|dropout| dropout.frames);
        let (begins_at_frame, ambiguous_modulo_frames) = match self.delay {
            Delay::NotFound => (None, None),
            Delay::Known(begins) => (Some(begins), None),
            Delay::Ambiguous { nearest, period } => (Some(nearest), Some(period)),
        };
        let known = !self.is_ambiguous();
        ComparisonReport {
            schema: 1,
            experiment: "quality",
            says: self.to_string(),
            verdict: match self {
                _ if !self.is_found() => "not_found",
                _ if self.is_open() => "ambiguous",
                _ if self.is_whole() => "identical",
                _ if self.is_all_there() => "all_there",
                _ => "differs",
            },
            rate: self.rate.hertz(),
            sent_frames: self.sounding.len(),
            heard_frames: self.there,
            identical_frames: self.identical,
            begins_at_frame,
            ambiguous_modulo_frames,
            missed_first_frames: known.then_some(self.missed_first),
            missed_last_frames: known.then_some(self.missed_last),
            channels: channels.collect(),
            mix: self.mix.as_ref().map(|mix| mix.coefficients.clone()),
            resampled: self.passages.clone(),
            rest_db: self.rest.map(|rest| -10.0 * rest.max(1e-20).log10()),
            residue: self.residue,
            tones: self.tones.clone(),
            dropouts: DropoutsRow {
                count: dropouts.len(),
                frames: dropouts.iter().map(|dropout| dropout.frames).sum(),
                longest_frames: longest.map_or(0, |longest| longest.frames),
                longest_at_frame: longest.map(|longest| longest.at_frame),
                all: dropouts,
            },
            changes: self.changes.iter().map(change).collect(),
        }
    }

    /// Frames that were sent and not heard, one run after the other.
    pub(super) fn dropouts(&self) -> Vec<DropoutRow> {
        let hertz = f64::from(self.rate.hertz());
        let dropout = |change: &Difference| match *change {
            Difference::Replaced { at, frames, by: Instead::Silence | Instead::Other }
            | Difference::Dropped { at, frames, .. }
                if frames > 0 =>
            {
                Some(DropoutRow { at_frame: at, at_seconds: at as f64 / hertz, frames })
            }
            _ => None,
        };
        self.changes.iter().filter_map(dropout).collect()
    }
}

impl ComparisonReport {
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

fn change(change: &Difference) -> ChangeRow {
    let by = |by: Instead| match by {
        Instead::Silence => "silence",
        Instead::Other => "other",
        Instead::Same => "same",
    };
    let row = |kind, at_frame, frames, later_frames| ChangeRow {
        kind,
        at_frame,
        frames,
        by: None,
        later_frames,
        modulo_frames: None,
    };
    match *change {
        Difference::Replaced { at, frames, by: instead } => {
            ChangeRow { by: Some(by(instead)), ..row("replaced", at, frames, 0.0) }
        }
        Difference::Dropped { at, frames, earlier } => row("dropped", at, frames, -earlier),
        Difference::Repeated { at, frames, later, .. } => row("repeated", at, frames, later),
        Difference::Inserted { at, by: instead, later } => {
            ChangeRow { by: Some(by(instead)), ..row("inserted", at, 0, later) }
        }
        Difference::Shifted { at, later, modulo } => {
            ChangeRow { modulo_frames: Some(modulo), ..row("shifted", at, 0, later) }
        }
    }
}
