//! Latency between converters, from time marks and the cards' start times. Independent of all
//! timestamps.

use std::path::Path;

use tautline_audio::FileReader;
use tautline_dsp::timecode::{Finder, Marker, SPACING};
use tautline_proto::device::{Cycle, Flow, Process};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

const CHANNELS: usize = 2;

struct Marks {
    process: Box<dyn Process>,
    marker: Marker,
    stamped: Span,
}

impl Process for Marks {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let side = &mut cycle.capture;
        for _ in 0..side.skipped.count() {
            self.marker.fill(CHANNELS, &mut [0.0; CHANNELS], |_| {});
        }
        self.marker.fill(CHANNELS, side.samples, |_| {});
        side.meets += self.stamped;
        self.process.process(cycle)
    }

    fn finish(&mut self) {
        self.process.finish();
    }
}

pub(crate) fn stamped(process: Box<dyn Process>, stamped: Span) -> Box<dyn Process> {
    Box::new(Marks { process, marker: Marker::new(), stamped })
}

fn centre() -> i64 {
    let mut at = 0;
    Marker::new().fill(1, &mut [0.0; SPACING], |placed| at = placed.frame);
    at as i64
}

pub(crate) fn delays(record: &Path, (captures, plays): (LocalTime, LocalTime)) -> Vec<Span> {
    let mut reader = FileReader::open(record).unwrap();
    let (mut finder, mut block, mut delays) = (Finder::new(), Vec::new(), Vec::new());
    let (rate, centre) = (Rate::HZ_48000, centre());
    while reader.read(&mut block) {
        let left: Vec<f32> = block.iter().copied().step_by(CHANNELS).collect();
        finder.push(&left, |mark| {
            let frame = i64::from(mark.number) * SPACING as i64 + centre;
            let captured = captures + rate.span_of(Frames::new(frame));
            let part = (mark.fraction * rate.span_of(Frames::new(1)).as_nanos() as f64) as i64;
            let played = plays + rate.span_of(Frames::new(mark.frame)) + Span::from_nanos(part);
            delays.push(played - captured);
        });
    }
    delays.sort_unstable();
    delays
}
