//! Effect of network noise on sound, compared with no noise.

use core::fmt;

use serde_json::Value;

use crate::report::ReportRow;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoiseEffect {
    /// All frames arrived, and the verdict is the same.
    None,
    /// Frames were lost only with noise.
    Lost { dropouts: u64, frames: u64 },
    /// No frame was lost, but the verdict differs.
    Changed,
    /// Frames were lost without noise too, or a measurement is missing.
    Unknown,
}

#[derive(Clone, Copy)]
struct Judged<'a> {
    verdict: &'a str,
    dropouts: u64,
    frames: u64,
}

impl<'a> Judged<'a> {
    fn of(row: &'a ReportRow) -> Option<Self> {
        let value = |key: &str| row.figures.iter().find(|figure| figure.key == key);
        let count = |key: &str| value(key).and_then(|figure| figure.value.as_u64());
        Some(Self {
            verdict: value("verdict").and_then(|figure| figure.value.as_str())?,
            dropouts: count("dropouts")?,
            frames: count("dropout_frames")?,
        })
    }

    fn is_whole(self) -> bool {
        matches!(self.verdict, "identical" | "all_there")
    }
}

impl NoiseEffect {
    pub(super) fn of(silent: &ReportRow, noisy: &ReportRow) -> Self {
        let (Some(silent), Some(noisy)) = (Judged::of(silent), Judged::of(noisy)) else {
            return Self::Unknown;
        };
        match noisy {
            _ if noisy.is_whole() && noisy.verdict == silent.verdict => Self::None,
            _ if !silent.is_whole() => Self::Unknown,
            Judged { dropouts: 0, .. } => Self::Changed,
            Judged { dropouts, frames, .. } => Self::Lost { dropouts, frames },
        }
    }

    pub(super) fn add_to(self, row: &mut ReportRow) {
        let word = match self {
            Self::None => "none",
            Self::Lost { .. } => "lost",
            Self::Changed => "changed",
            Self::Unknown => "unknown",
        };
        row.add("noise_effect", "effect of noise", Value::from(word));
    }
}

impl fmt::Display for NoiseEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("the sound is the same as without noise"),
            Self::Lost { dropouts, frames } => {
                write!(f, "{frames} frames are lost in {dropouts} dropouts, and none without noise")
            }
            Self::Changed => {
                f.write_str("no frame is lost, but the sound differs from that without noise")
            }
            Self::Unknown => f.write_str(
                "the effect of noise is unknown: without noise the sound is not known to be whole",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(verdict: &str, dropouts: u64, frames: u64) -> ReportRow {
        let mut row = ReportRow::named("l24");
        row.add("verdict", "verdict", verdict);
        row.add("dropouts", "dropouts", dropouts);
        row.add("dropout_frames", "frames in them", frames);
        row
    }

    #[test]
    fn sound_that_is_whole_both_times_has_no_effect_of_noise() {
        for verdict in ["identical", "all_there"] {
            let whole = row(verdict, 0, 0);
            assert_eq!(NoiseEffect::of(&whole, &whole), NoiseEffect::None);
        }
    }

    #[test]
    fn frames_lost_only_with_noise_are_its_effect() {
        let whole = row("identical", 0, 0);
        let lost = NoiseEffect::Lost { dropouts: 2, frames: 96 };
        assert_eq!(NoiseEffect::of(&whole, &row("differs", 2, 96)), lost);
        for verdict in ["all_there", "differs"] {
            assert_eq!(NoiseEffect::of(&whole, &row(verdict, 0, 0)), NoiseEffect::Changed);
        }
    }

    #[test]
    fn without_whole_sound_in_silence_the_effect_is_unknown() {
        let silent = row("differs", 1, 48);
        assert_eq!(NoiseEffect::of(&silent, &row("differs", 3, 480)), NoiseEffect::Unknown);
        assert_eq!(NoiseEffect::of(&silent, &row("identical", 0, 0)), NoiseEffect::Unknown);
        let whole = row("identical", 0, 0);
        let invalid = ReportRow::invalid("l24", "no privilege");
        assert_eq!(NoiseEffect::of(&invalid, &whole), NoiseEffect::Unknown);
        assert_eq!(NoiseEffect::of(&whole, &invalid), NoiseEffect::Unknown);
    }

    #[test]
    fn effects_are_words_in_the_row() {
        let effects = [
            (NoiseEffect::None, "none"),
            (NoiseEffect::Lost { dropouts: 1, frames: 48 }, "lost"),
            (NoiseEffect::Changed, "changed"),
            (NoiseEffect::Unknown, "unknown"),
        ];
        for (effect, word) in effects {
            let mut row = ReportRow::named("l24");
            effect.add_to(&mut row);
            assert_eq!(row.figures[0].value, word);
        }
    }
}
