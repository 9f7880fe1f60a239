use std::sync::Arc;
use std::sync::atomic::Ordering;

use tautline_dsp::sum::bound;
use tautline_io::thread::realtime;
use tautline_proto::device::{Cycle, Direction, Flow, Process, Settings};

use super::strip::Strip;
use super::{CardState, OutputConfig, OutputState};
use crate::toolbox::part::PieceTimes;

/// Process of the card.
pub(super) struct CardOutputs {
    card: Arc<CardState>,
    settings: Settings,
    outputs: Box<[PlayedOutput]>,
    block: Box<[f32]>,
}

struct PlayedOutput {
    state: Arc<OutputState>,
    seated: bool,
    strip: Strip,
    channels: Vec<u16>,
    mono: bool,
}

impl CardOutputs {
    pub(super) fn new(
        card: Arc<CardState>,
        settings: Settings,
        states: impl Iterator<Item = (Arc<OutputState>, OutputConfig)>,
    ) -> Self {
        let output = |(state, config): (Arc<OutputState>, OutputConfig)| PlayedOutput {
            state,
            seated: false,
            strip: Strip::new(config.settings, settings.rate),
            channels: config.channels,
            mono: config.mono,
        };
        let outputs = states.map(output).collect();
        let block = vec![0.0; 2 * settings.period.as_len().max(1)].into();
        Self { card, settings, outputs, block }
    }

    fn play(&mut self, out: &mut [f32], times: PieceTimes) {
        out.fill(0.0);
        let channels = self.settings.channels.count();
        let block = &mut self.block[..2 * (out.len() / channels)];
        for output in &mut self.outputs {
            output.fill(block, times);
            output.write(block, out, channels);
        }
    }
}

impl PlayedOutput {
    fn fill(&mut self, block: &mut [f32], times: PieceTimes) {
        block.fill(0.0);
        if let Some(held) = self.state.seat.hold(&mut self.seated) {
            held.call(times, Direction::Playback, block);
            bound(block);
        }
        self.strip.apply(&self.state.control, block);
    }

    fn write(&self, block: &[f32], out: &mut [f32], card: usize) {
        let frames = block.as_chunks::<2>().0;
        for (number, channel) in
            self.channels.iter().map(|channel| usize::from(*channel)).enumerate()
        {
            for (out, frame) in out.chunks_exact_mut(card).zip(frames) {
                let [left, right] = *frame;
                if let Some(out) = out.get_mut(channel) {
                    *out = if self.mono { (left + right) / 2.0 } else { frame[number % 2] };
                }
            }
        }
    }
}

impl Process for CardOutputs {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _realtime = realtime::scope();
        let times = PieceTimes::of(cycle, &cycle.playback);
        let settings = self.settings;
        times.in_periods(settings, cycle.playback.samples, |out, times| self.play(out, times));
        self.card.periods.fetch_add(1, Ordering::Relaxed);
        Flow::Continue
    }

    fn finish(&mut self) {
        self.card.over.store(true, Ordering::Release);
    }
}

impl Drop for CardOutputs {
    fn drop(&mut self) {
        self.finish();
    }
}
