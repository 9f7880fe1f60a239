//! How long sound takes from the one converter to the other, by the sound and by when the cards
//! started, which count their own frames from there: no stamp is in it, neither the sender's nor one
//! that the receiver's ledger has seen.

use std::path::Path;

use tautline_audio::FileReader;
use tautline_dsp::timecode::{Finder, Marker, SPACING};
use tautline_proto::device::{Cycle, Flow, Process};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

/// Samples per frame at both ends.
const CHANNELS: usize = 2;

/// The card captures time marks, from its first frame on.
struct Marks {
    process: Box<dyn Process>,
    marker: Marker,
    /// What is wrong about when the card says that it captured them.
    stamped: Span,
}

impl Process for Marks {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let side = &mut cycle.capture;
        // What the card lost went by all the same.
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

/// Time marks, of which the card says that it captured them so much later than it did.
pub(crate) fn stamped(process: Box<dyn Process>, stamped: Span) -> Box<dyn Process> {
    Box::new(Marks { process, marker: Marker::new(), stamped })
}

/// The frame after its own first at which a mark is.
fn centre() -> i64 {
    let mut at = 0;
    Marker::new().fill(1, &mut [0.0; SPACING], |placed| at = placed.frame);
    at as i64
}

/// From converter to converter, of each mark that is whole in what the playing card recorded from its
/// start on. Both cards run as the host does.
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
