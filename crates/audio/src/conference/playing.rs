use std::sync::Arc;
use std::sync::atomic::Ordering;

use tautline_dsp::sum::{add, bound};
use tautline_io::thread::realtime;
use tautline_proto::device::{Cycle, Direction, Flow, Process};

use super::SharedState;
use super::bus::BusWriter;
use crate::toolbox::part::PieceTimes;

pub(super) struct SharedPlayback {
    state: Arc<SharedState>,
    bus: Option<BusWriter>,
    block: Box<[f32]>,
    seated: Box<[bool]>,
}

impl SharedPlayback {
    pub(super) fn new(state: Arc<SharedState>, bus: Option<BusWriter>) -> Self {
        let settings = state.settings.playback;
        let block = vec![0.0; settings.channels.samples_in(settings.period).max(1)].into();
        let seated = vec![false; state.seats.len()].into();
        Self { state, bus, block, seated }
    }

    fn play(&mut self, out: &mut [f32], times: PieceTimes) {
        out.fill(0.0);
        if let Some(bus) = &mut self.bus
            && !bus.begin(out.len(), times)
        {
            self.state.missed.fetch_add(1, Ordering::Relaxed);
        }
        let block = &mut self.block[..out.len()];
        for (index, (seat, seated)) in self.state.seats.iter().zip(&mut self.seated).enumerate() {
            let Some(held) = seat.playback.hold(seated) else { continue };
            block.fill(0.0);
            held.call(times, Direction::Playback, block);
            bound(block);
            add(out, block);
            if let Some(bus) = &mut self.bus {
                bus.write(index, block);
            }
        }
        if let Some(bus) = &mut self.bus {
            bus.end();
        }
    }
}

impl Process for SharedPlayback {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _realtime = realtime::scope();
        let times = PieceTimes::of(cycle, &cycle.playback);
        let settings = self.state.settings.playback;
        times.in_periods(settings, cycle.playback.samples, |out, times| self.play(out, times));
        Flow::Continue
    }

    fn finish(&mut self) {
        self.state.over.playback.store(true, Ordering::Release);
    }
}

impl Drop for SharedPlayback {
    fn drop(&mut self) {
        self.finish();
    }
}
