//! Label file of a recording (Audacity): begin and end in seconds and cause of each glitch,
//! tab-separated.

use core::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tautline_io::output::{OutputFile, write_hint};
use tautline_proto::device::Settings;
use tautline_proto::time::LocalTime;
use tautline_proto::units::Rate;

use crate::receive_engine::mixer::{AffectedFrames, LabelMark};
use crate::receive_engine::stream::ReceivedStream;

/// Maximum labels: a loss every 10 ms for a quarter of an hour. The rest is only counted.
const MAX: usize = 100_000;
const LOOKED_AT: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Hole { late: bool, concealed: bool },
    Xrun,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Label {
    frames: (i64, i64),
    what: What,
    stream: usize,
    cause: (LocalTime, LocalTime),
    stalled: bool,
}

pub(crate) struct Labels {
    path: PathBuf,
    rate: Rate,
    lead: i64,
    begun: Option<LocalTime>,
    labels: Vec<Label>,
    names: Vec<(usize, String)>,
    first: Option<usize>,
    several: bool,
    unjudged: Vec<usize>,
    unreported: u64,
}

impl Labels {
    pub(crate) fn new(path: &Path, device: &Settings) -> Self {
        let lead = device.period.count() * (i64::from(device.periods) - 1);
        Self {
            path: path.to_owned(),
            rate: device.rate,
            lead,
            begun: None,
            labels: Vec::new(),
            names: Vec::new(),
            first: None,
            several: false,
            unjudged: Vec::new(),
            unreported: 0,
        }
    }

    pub(crate) fn take(&mut self, (stream, name): (usize, &str), mark: LabelMark) {
        self.several |= *self.first.get_or_insert(stream) != stream;
        let spoils = !matches!(mark, LabelMark::Begin(_));
        if spoils && !self.names.iter().rev().any(|(known, _)| *known == stream) {
            self.names.push((stream, name.to_owned()));
        }
        match mark {
            LabelMark::Begin(meets) => _ = self.begun.get_or_insert(meets),
            LabelMark::Hole { damaged, concealed, since } => {
                let what = What::Hole { late: false, concealed };
                self.add(stream, what, damaged, since);
            }
            LabelMark::Xrun { damaged, since } => {
                // After an earlier xrun, the recording begins with its silence.
                self.begun.get_or_insert(damaged.meets);
                self.add(stream, What::Xrun, damaged, since);
            }
            LabelMark::Late(damaged) => self.blame(stream, damaged),
        }
    }

    pub(crate) fn follow(&mut self, stream: &mut ReceivedStream) {
        let Some(marks) = &mut stream.marks else { return };
        while let Ok(mark) = marks.pop() {
            self.take((stream.number, &stream.address), mark);
        }
    }

    pub(crate) fn close(&mut self, stream: &mut ReceivedStream) {
        self.follow(stream);
        self.unreported += stream.statistics.status.map_or(0, |status| status.unmarked);
    }

    fn place(&self, damaged: AffectedFrames) -> Option<(i64, i64)> {
        let first = self.lead + self.rate.frames_nearest(damaged.meets - self.begun?).count();
        Some((first, first + damaged.frames.count()))
    }

    fn add(&mut self, stream: usize, what: What, damaged: AffectedFrames, since: LocalTime) {
        let Some(frames) = self.place(damaged) else { return };
        let mut newest = self.labels.iter_mut().rev().take(LOOKED_AT);
        let own = newest.find(|label| label.stream == stream && label.what != What::Xrun);
        if let Some(last) = own.filter(|last| last.frames.1 == frames.0)
            && let (What::Hole { concealed, .. }, What::Hole { concealed: more, .. }) =
                (&mut last.what, what)
        {
            (last.frames.1, last.cause.1) = (frames.1, damaged.meets);
            *concealed |= more;
        } else if self.labels.len() < MAX {
            let cause = (since, damaged.meets);
            self.unjudged.push(self.labels.len());
            self.labels.push(Label { frames, what, stream, cause, stalled: false });
        } else {
            self.unreported += 1;
        }
    }

    fn blame(&mut self, stream: usize, damaged: AffectedFrames) {
        let Some(frames) = self.place(damaged) else { return };
        for label in self.labels.iter_mut().rev().take(LOOKED_AT) {
            let meet = label.frames.0 < frames.1 && frames.0 < label.frames.1;
            if let What::Hole { late, .. } = &mut label.what {
                *late |= meet && label.stream == stream;
            }
        }
    }

    /// Compares labels that ended by `until` with the stall log, before the log forgets the stalls.
    /// A growing hole delays no other label.
    pub(crate) fn judge(
        &mut self,
        until: LocalTime,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
    ) {
        let labels = &mut self.labels;
        self.unjudged.retain(|place| {
            let label = &mut labels[*place];
            let ended = label.cause.1 <= until;
            if ended {
                label.stalled = stalled(label.cause.0, label.cause.1);
            }
            !ended
        });
    }

    pub(crate) fn finish(
        mut self,
        stalled: impl Fn(LocalTime, LocalTime) -> bool,
    ) -> Option<String> {
        let (text, path) = (self.text(stalled), self.path.display());
        let written =
            OutputFile::create(&self.path).and_then(|mut file| file.write_all(text.as_bytes()));
        match (written, self.unreported) {
            (Err(error), _) => {
                let hint = write_hint(&error, &self.path, "make room, or write them elsewhere");
                Some(format!("the labels {path} are not written: {error}; {hint}"))
            }
            (Ok(()), 0) => None,
            (Ok(()), unreported) => Some(format!(
                "the labels {path} lack {unreported} events that did not fit, but the report counts all of them"
            )),
        }
    }

    /// Labels that overlap a stall blame the host. With several streams, each label names its
    /// stream.
    fn text(&mut self, stalled: impl Fn(LocalTime, LocalTime) -> bool) -> String {
        self.judge(LocalTime::NEVER, stalled);
        self.labels.sort_by_key(|label| label.frames);
        let mut text = String::new();
        for label in &self.labels {
            let seconds = |frame: i64| frame as f64 / f64::from(self.rate.hertz());
            let (begin, end) = (seconds(label.frames.0), seconds(label.frames.1));
            let _ = write!(text, "{begin:.6}\t{end:.6}\t{}", words(label));
            if label.stalled {
                text.push_str(", host stalled");
            }
            let mut names = self.names.iter().filter(|_| self.several);
            if let Some((_, name)) = names.find(|(stream, _)| *stream == label.stream) {
                let _ = write!(text, ", {name}");
            }
            text.push('\n');
        }
        text
    }
}

fn words(label: &Label) -> &'static str {
    match label.what {
        What::Xrun => "xrun",
        What::Hole { late: true, concealed: true } => "late, concealed",
        What::Hole { late: true, concealed: false } => "late",
        What::Hole { late: false, concealed: true } => "lost, concealed",
        What::Hole { late: false, concealed: false } => "lost",
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_proto::time::{Frames, Span};
    use tautline_proto::units::Channels;

    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    fn damaged(millis: i64, frames: i64) -> AffectedFrames {
        AffectedFrames { meets: at(millis), frames: Frames::new(frames) }
    }

    fn hole(millis: i64, frames: i64, concealed: bool) -> LabelMark {
        LabelMark::Hole { damaged: damaged(millis, frames), concealed, since: at(millis - 5) }
    }

    fn written(marks: &[(usize, LabelMark)]) -> String {
        let period = Frames::new(48);
        let device =
            Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods: 3 };
        let mut labels = Labels::new(Path::new("x"), &device);
        let names = ["rtp://a", "rtp://b", "rtp://c"];
        marks.iter().for_each(|(stream, mark)| labels.take((*stream, names[*stream]), *mark));
        let stalled = |from, to| from <= at(2000) && at(2000) <= to;
        labels.text(stalled)
    }

    #[test]
    fn labels_have_the_recorded_position_and_cause() {
        let marks = [
            (0, LabelMark::Begin(at(1000))),
            (0, hole(1010, 48, true)),
            (0, hole(1011, 24, false)),
            (0, hole(1500, 48, false)),
            (0, LabelMark::Late(damaged(1010, 48))),
            (0, hole(2001, 12, true)),
            (0, LabelMark::Xrun { damaged: damaged(3000, 480), since: at(2990) }),
        ];
        let expected = "0.012000\t0.013500\tlate, concealed\n0.502000\t0.503000\tlost\n\
                        1.003000\t1.003250\tlost, concealed, host stalled\n2.002000\t2.012000\txrun\n";
        assert_eq!(written(&marks), expected);
    }

    #[test]
    fn labels_of_several_streams_name_their_stream() {
        let marks =
            [(0, LabelMark::Begin(at(0))), (1, hole(20, 48, false)), (0, hole(10, 48, false))];
        let expected = "0.012000\t0.013000\tlost, rtp://a\n0.022000\t0.023000\tlost, rtp://b\n";
        assert_eq!(written(&marks), expected);
    }

    #[test]
    fn holes_of_several_streams_at_one_place_are_a_label_of_each() {
        let holes = (10..20).flat_map(|ms| [(0, hole(ms, 48, false)), (1, hole(ms, 48, true))]);
        let mut marks = vec![(0, LabelMark::Begin(at(0))), (1, LabelMark::Begin(at(0)))];
        marks.extend(holes);
        let expected =
            "0.012000\t0.022000\tlost, rtp://a\n0.012000\t0.022000\tlost, concealed, rtp://b\n";
        assert_eq!(written(&marks), expected);
    }

    #[test]
    fn ended_hole_is_judged_while_an_earlier_one_grows() {
        let period = Frames::new(48);
        let device =
            Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods: 3 };
        let mut labels = Labels::new(Path::new("x"), &device);
        labels.take((0, "rtp://a"), LabelMark::Begin(at(0)));
        labels.take((1, "rtp://b"), LabelMark::Begin(at(0)));
        for ms in 10..3000 {
            labels.take((0, "rtp://a"), hole(ms, 48, false));
            if ms == 1000 {
                labels.take((1, "rtp://b"), hole(ms, 48, false));
            }
            labels.judge(at(ms - 100), |from, to| from <= at(1000) && at(1000) <= to && ms < 1500);
        }
        let expected = "0.012000\t3.002000\tlost, rtp://a\n\
                        1.002000\t1.003000\tlost, host stalled, rtp://b\n";
        assert_eq!(labels.text(|_, _| false), expected);
    }

    #[test]
    fn a_stream_that_another_followed_keeps_its_name() {
        let marks = [
            (0, LabelMark::Begin(at(0))),
            (0, hole(10, 48, false)),
            (2, LabelMark::Begin(at(15))),
            (2, hole(20, 48, false)),
        ];
        let expected = "0.012000\t0.013000\tlost, rtp://a\n0.022000\t0.023000\tlost, rtp://c\n";
        assert_eq!(written(&marks), expected);
    }

    #[test]
    fn xrun_before_the_first_block_is_labelled_at_its_silence() {
        let marks = [
            (0, LabelMark::Xrun { damaged: damaged(1000, 480), since: at(990) }),
            (0, LabelMark::Begin(at(1010))),
            (0, hole(1020, 48, false)),
        ];
        let expected = "0.002000\t0.012000\txrun\n0.022000\t0.023000\tlost\n";
        assert_eq!(written(&marks), expected);
    }

    #[test]
    fn labels_beyond_the_capacity_are_counted_and_reported() {
        let period = Frames::new(48);
        let device =
            Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods: 2 };
        let path = std::env::temp_dir().join(format!("tautline-labels-{}", std::process::id()));
        let mut labels = Labels::new(&path, &device);
        labels.take((0, "a"), LabelMark::Begin(at(0)));
        (0..MAX as i64 + 7).for_each(|n| labels.take((0, "a"), hole(10 * n, 48, false)));
        assert_eq!((labels.labels.len(), labels.unreported), (MAX, 7));
        let reported = labels.finish(|_, _| false).unwrap();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(lines, MAX);
        snapshot!(reported);
        let gone = Labels::new(Path::new("/dev/null/x"), &device);
        assert!(gone.finish(|_, _| false).unwrap().contains("are not written"));
    }
}
