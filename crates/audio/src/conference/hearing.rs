use std::sync::Arc;
use std::sync::atomic::Ordering;

use tautline_dsp::gain::{Gain, Volume};
use tautline_dsp::sum::add;
use tautline_io::thread::realtime;
use tautline_proto::device::{Cycle, Direction, Flow, Process};
use tautline_proto::time::Span;

use super::SharedState;
use super::bus::BusReader;
use super::steered::SteeredReader;
use crate::toolbox::part::PieceTimes;

const MUTES_IN: Span = Span::from_millis(10);

pub(super) struct SharedCapture {
    state: Arc<SharedState>,
    others: Option<SteeredReader>,
    own: Box<[f32]>,
    volume: Volume,
    block: Box<[f32]>,
    seated: Box<[bool]>,
    count: usize,
}

impl SharedCapture {
    pub(super) fn new(state: Arc<SharedState>, bus: Option<BusReader>) -> Self {
        let (settings, parts) = (state.settings.capture, state.seats.len());
        let block: Box<[f32]> =
            vec![0.0; settings.channels.samples_in(settings.period).max(1)].into();
        let gain = gain(state.muted.load(Ordering::Relaxed));
        let volume = Volume::over(gain, settings.rate.frames_within(MUTES_IN).as_len());
        let others = bus.map(|bus| SteeredReader::new(bus, settings, parts));
        let (own, seated) = (block.clone(), vec![false; parts].into());
        Self { state, others, own, volume, block, seated, count: 0 }
    }

    fn give(&mut self, captured: &[f32], times: PieceTimes) {
        let samples = captured.len();
        let channels = self.state.settings.capture.channels;
        if let Some(others) = &mut self.others {
            let (count, seated) = (self.count, &self.seated);
            // A part never receives itself. All parts receive a part that only plays.
            let is_received = |part: usize| count > usize::from(seated.get(part) == Some(&true));
            let news = others.read(channels.frames_in(samples).as_len(), times, is_received);
            self.state.realigned.fetch_add(u64::from(news.realigned), Ordering::Relaxed);
            self.state.missed.fetch_add(u64::from(news.missed), Ordering::Relaxed);
        }
        self.count = 0;
        let own = &mut self.own[..samples];
        own.copy_from_slice(captured);
        let gain = gain(self.state.muted.load(Ordering::Relaxed));
        self.volume.apply(gain, channels.count(), own);
        let block = &mut self.block[..samples];
        for (index, (seat, seated)) in self.state.seats.iter().zip(&mut self.seated).enumerate() {
            let Some(held) = seat.capture.hold(seated) else { continue };
            self.count += 1;
            block.copy_from_slice(own);
            if let Some(others) = &self.others {
                let each = (0..self.state.seats.len()).filter(|other| *other != index);
                each.filter_map(|other| others.block(other, samples))
                    .for_each(|other| add(block, other));
            }
            held.call(times, Direction::Capture, block);
        }
    }
}

const fn gain(muted: bool) -> Gain {
    if muted { Gain::SILENCE } else { Gain::UNITY }
}

impl Process for SharedCapture {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _realtime = realtime::scope();
        let times = PieceTimes::of(cycle, &cycle.capture);
        let settings = self.state.settings.capture;
        times.in_periods(settings, cycle.capture.samples, |piece, times| self.give(piece, times));
        Flow::Continue
    }

    fn finish(&mut self) {
        self.state.over.capture.store(true, Ordering::Release);
    }
}

impl Drop for SharedCapture {
    fn drop(&mut self) {
        self.finish();
    }
}
