//! Machine-readable form of a comparison.

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
    /// `identical`, `all_there` (resampled), `differs`, `not_found`, or `ambiguous` (periodic
    /// sound).
    pub verdict: &'static str,
    pub rate: u32,
    /// Sent frames, without digital silence at both ends.
    pub sent_frames: usize,
    /// Frames recorded in any form, and bit for bit.
    pub received_frames: usize,
    pub identical_frames: usize,
    /// Start of the sound in the recording; if ambiguous, the candidate closest to 0.
    pub begins_at_frame: Option<i64>,
    /// Period, if the delay is ambiguous.
    pub ambiguous_modulo_frames: Option<f64>,
    /// Frames missing at either end; unknown if the delay is ambiguous.
    pub missed_first_frames: Option<usize>,
    pub missed_last_frames: Option<usize>,
    /// Routing from some sent frame on.
    pub channels: Vec<ChannelsRow>,
    /// Per recorded channel, the gain of each sent one.
    pub mix: Option<Vec<Vec<f64>>>,
    pub resampled: Vec<ResampledRow>,
    /// Residual of frame-aligned matching sound, in dB.
    pub rest_db: Option<f64>,
    pub residue: Option<Residue>,
    pub tones: Vec<TestTone>,
    pub dropouts: DropoutsRow,
    pub changes: Vec<ChangeRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChannelsRow {
    pub from_frame: usize,
    /// Sent channel of each, from 0; `null` if unrelated.
    pub sources: Vec<Option<usize>>,
    /// Negative if inverted.
    pub gains: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DropoutsRow {
    pub count: usize,
    pub frames: usize,
    /// Length and position of the longest.
    pub longest_frames: usize,
    pub longest_at_frame: Option<usize>,
    /// All by ascending sent frame.
    pub all: Vec<DropoutRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DropoutRow {
    pub at_frame: usize,
    pub at_seconds: f64,
    pub frames: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeRow {
    /// `replaced`, `dropped`, `repeated`, `inserted`, or `shifted` if ambiguous by a period.
    pub kind: &'static str,
    pub at_frame: usize,
    /// Number of sent frames; 0 for `inserted`.
    pub frames: usize,
    /// `silence`, `other` or `same`.
    pub by: Option<&'static str>,
    /// Delay of the following sound; negative if earlier.
    pub later_frames: f64,
    /// Period, if the delay is ambiguous by its multiples.
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
            schema: 2,
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
            received_frames: self.there,
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
