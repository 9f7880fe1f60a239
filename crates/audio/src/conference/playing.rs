use std::sync::Arc;
use std::sync::atomic::Ordering;

use tautline_dsp::sum::{add, bound};
use tautline_io::thread::realtime;
use tautline_proto::device::{Cycle, Direction, Flow, Process};

use super::SharedState;
use super::bus::BusWriter;
use super::bus::PieceTimes;

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
            let seat = &seat.playback;
            let held = if seat.finished.load(Ordering::Relaxed) { None } else { seat.seat.hold() };
            let before = core::mem::replace(seated, held.is_some());
            let Some(mut held) = held else { continue };
            let Some(process) = held.process() else { continue };
            block.fill(0.0);
            let times = if before { times } else { times.at_first() };
            let flow = times.call(process, Direction::Playback, block);
            if flow == Flow::Finished {
                seat.finished.store(true, Ordering::Release);
            }
            drop(held);
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
        let mut times = PieceTimes::of(cycle, &cycle.playback);
        let settings = self.state.settings.playback;
        let longest = self.block.len();
        for out in cycle.playback.samples.chunks_mut(longest) {
            self.play(out, times);
            times = times.after(settings.rate.span_of(settings.channels.frames_in(out.len())));
        }
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
