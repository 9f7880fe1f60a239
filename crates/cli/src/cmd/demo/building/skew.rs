//! Measures when a chime starts at the cards: a simulated microphone at each card records what the
//! card plays. All recordings are in step.

use std::path::{Path, PathBuf};

use tautline_audio::{DeviceSpec, Extras, OnlyRecorded, RecordedTime, Recording, open, recorded};
use tautline_dsp::align::Similarity;
use tautline_dsp::format::SampleFormat;
use tautline_engine::monitor::run::Running;
use tautline_io::thread::Scheduler;
use tautline_proto::device::{Direction, Settings, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use super::sounds::RATE;
use crate::failure::Failure;

/// One frame. Recordings in step are exact to the frame.
pub(super) const UNCERTAINTY: Span = Span::from_nanos(1_000_000_000 / RATE as i64 + 1);
/// Frames of the chime that are compared.
const COMPARED: usize = RATE / 20;
/// The search for the chime begins and ends this many frames from the expected start.
const REACH: usize = RATE / 20;
/// Minimum correlation. The music plays on, 20 dB lower. A note of the music with the pitch of a
/// chime's note reaches 0.8.
const LIKE: f64 = 0.9;

pub(super) struct Microphone {
    recording: Recording,
    path: PathBuf,
    running: Running,
}

impl Microphone {
    /// Records the card at `cable` from `begins` on.
    pub(super) fn open(
        (cable, channels): (&str, Channels),
        path: &Path,
        begins: LocalTime,
    ) -> Result<Self, Failure> {
        let spec: DeviceSpec = format!("virtual:?cable={cable}").parse()?;
        let settings =
            Settings { rate: Rate::HZ_48000, channels, period: Frames::new(240), periods: 4 };
        let device = open(&spec, Direction::Capture, settings, Extras::default())?.device;
        let (device, mut recording) = recorded(device, Direction::Capture, SampleFormat::L24);
        let path = path.to_owned();
        let _ = std::fs::remove_file(&path);
        recording.begin_in_step(&path, &RecordedTime::at(begins))?;
        let running =
            Running::start(device, Box::new(OnlyRecorded), Scheduler::Fifo(60), &Stop::default())?;
        Ok(Self { recording, path, running })
    }

    /// Returns the recorded channels.
    pub(super) fn end(self) -> Result<Vec<Vec<f32>>, Failure> {
        let Self { recording, path, running } = self;
        running.end()?;
        // Completes the file.
        drop(recording);
        Ok(tautline_ui::read_sound(&path)?.channels)
    }
}

/// Frame at which the chime starts, near the expected frame.
pub(super) fn start_in(received: &[f32], chime: &[f32], expected: usize) -> Option<f64> {
    let chime = chime.get(..COMPARED)?;
    let first = expected.saturating_sub(REACH);
    let like = |at: usize| {
        let part = received.get(at..at + COMPARED)?;
        Some(Similarity::between(part, chime).correlation()).filter(|like| like.is_finite())
    };
    let likes: Vec<f64> = (first..=expected + REACH)
        .map_while(|at| received.get(at).map(|_| like(at).unwrap_or(0.0)))
        .collect();
    let best = (1..likes.len().saturating_sub(1)).max_by(|a, b| likes[*a].total_cmp(&likes[*b]))?;
    let [before, top, after] = [likes[best - 1], likes[best], likes[best + 1]];
    // Vertex of the parabola through the three points.
    let bend = before - 2.0 * top + after;
    let fraction = if bend < 0.0 { 0.5 * (before - after) / bend } else { 0.0 };
    (top >= LIKE).then(|| (first + best) as f64 + fraction.clamp(-0.5, 0.5))
}

/// Differences between each two starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Skew {
    pub(super) pairs: usize,
    pub(super) median: Span,
    pub(super) maximum: Span,
}

impl Skew {
    /// `None` for fewer than two.
    pub(super) fn of(starts: &[Span]) -> Option<Self> {
        let each = starts.iter().enumerate();
        let mut apart: Vec<Span> = each
            .flat_map(|(at, one)| starts[at + 1..].iter().map(|other| (*one - *other).abs()))
            .collect();
        apart.sort_unstable();
        let median = *apart.get(apart.len() / 2)?;
        Some(Self { pairs: apart.len(), median, maximum: *apart.last()? })
    }
}

/// A figure below its uncertainty is only a bound.
pub(super) fn bounded(span: Span) -> String {
    match span < UNCERTAINTY {
        true => format!("below {}us", UNCERTAINTY.as_nanos() / 1000 + 1),
        false => format!("{:.0}us", span.as_micros_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sounds;
    use super::*;

    /// Ducked music with the chime from this frame on.
    fn received(chime: &[f32], start: usize) -> Vec<f32> {
        let music = sounds::music(RATE / 4, 0.0);
        let sample = |(frame, [left, _]): (usize, [f32; 2])| {
            let chime = frame.checked_sub(start).and_then(|at| chime.get(at));
            0.1 * left + chime.map_or(0.0, |sample| 0.5 * sample)
        };
        music.into_iter().enumerate().map(sample).collect()
    }

    #[test]
    fn start_is_found_below_music() {
        let chime = sounds::chime();
        let sound = received(&chime, 40_000);
        for expected in [40_000 - REACH + 1, 40_000, 41_000] {
            let start = start_in(&sound, &chime, expected).unwrap();
            assert!((start - 40_000.0).abs() < 0.1, "{expected}: {start}");
        }
    }

    #[test]
    fn start_elsewhere_is_not_found() {
        let chime = sounds::chime();
        assert_eq!(start_in(&received(&chime, 40_000), &chime, 60_000), None);
        assert_eq!(start_in(&[], &chime, 0), None);
    }

    #[test]
    fn skew_is_of_all_pairs() {
        let starts = [0, 10, 40].map(Span::from_micros);
        let skew = Skew { pairs: 3, median: Span::from_micros(30), maximum: Span::from_micros(40) };
        assert_eq!(Skew::of(&starts), Some(skew));
        assert_eq!(Skew::of(&starts[..1]), None);
        assert_eq!(bounded(Span::from_micros(40)), "40us");
        assert_eq!(bounded(Span::from_micros(4)), "below 21us");
    }
}
