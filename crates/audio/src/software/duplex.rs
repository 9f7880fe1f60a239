//! Both sides of a virtual card: one clock, one wake-up.

use tautline_io::thread::realtime;
use tautline_proto::card_clock::DuplexRing;
use tautline_proto::device::{Cycle, Ended, Flow, Process, Stop};
use tautline_proto::time::Frames;

use super::source::{Filled, SampleSource};
use super::virtual_card::VirtualCard;

impl VirtualCard {
    pub(super) fn play_and_capture(
        &mut self,
        process: &mut dyn Process,
        stop: &Stop,
    ) -> Result<Ended, Ended> {
        let (start, clock) = self.start();
        let channels = self.parts.settings.channels;
        let mut ring = DuplexRing::new(clock, &self.parts.settings);
        {
            let _realtime = realtime::scope();
            self.play_silence(&clock, ring.lead().count(), ring.lead());
        }
        let mut late = Frames::ZERO;
        loop {
            let now = self.wait(start, ring.wakes(), stop)?;
            let _realtime = realtime::scope();
            let (taken, written) = ring.begin(now);
            self.play_silence(&clock, written.frame, written.skipped);
            self.ends.source.skip(channels.count(), taken.skipped);
            let filled = self.ends.source.fill(channels.count(), &mut self.taken);
            if filled == Filled::Over {
                return Ok(Ended::Finished);
            }
            self.block.fill(0.0);
            // Frames that were missed on both sides, and a block that lost its head before them,
            // are one xrun.
            let missed = late.max(written.skipped) > Frames::ZERO;
            let mut cycle = Cycle {
                now,
                capture: taken.side(&mut self.taken),
                playback: written.side(&mut self.block),
                xruns: u32::from(missed) + u32::from(filled == Filled::Starved),
                clock: self.clock,
            };
            let flow = process.process(&mut cycle);
            let done = self.pace.now();
            late = ring.finish(done);
            self.block[..channels.samples_in(late)].fill(0.0);
            self.heard(written.meets, done);
            if let SampleSource::Loopback(cable) = &mut self.ends.source {
                cable.play(written.frame, &self.block);
            }
            if flow == Flow::Finished || filled == Filled::Last || self.is_deserted() {
                return Ok(Ended::Finished);
            }
        }
    }
}
