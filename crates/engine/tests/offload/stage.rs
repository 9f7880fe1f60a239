//! A host with an offloaded plugin, compared with a local one.

use std::ops::Range;

use tautline_engine::offload::attendant::Attendant;
use tautline_engine::offload::host_block::HostBlock;
use tautline_engine::offload::offloaded::{Far, Offloaded, OffloadedConfig, RunOutcome, Which};
use tautline_io::clock::now;
use tautline_proto::offload::returns::{Cause, Damage};
use tautline_proto::units::Rate;

use crate::crew::{Crew, DATAGRAM_BYTES, STREAM};
use crate::filter::{CHANNELS, Filter, SET, noise};
use crate::road::{Plan, Road, smooth};

pub(crate) const BLOCK: usize = 64;
pub(crate) const FADE: u64 = 48;

pub(crate) fn config(window: u32) -> OffloadedConfig {
    OffloadedConfig {
        datagram_bytes: DATAGRAM_BYTES,
        ..OffloadedConfig::new(SET, Rate::HZ_48000, window)
    }
}

struct InPlace {
    frames: usize,
    buffers: [Vec<f32>; CHANNELS],
    gain: f32,
    reported: f32,
}

impl HostBlock for InPlace {
    fn frames(&self) -> usize {
        self.frames
    }

    fn input(&mut self, channel: usize, from: usize, samples: &mut [f32]) {
        samples.copy_from_slice(&self.buffers[channel][from..from + samples.len()]);
    }

    fn control(&mut self, _: usize) -> f32 {
        self.gain
    }

    fn output(&mut self, channel: usize, from: usize, samples: &[f32]) {
        // Another channel's input, damaged by output before all inputs are read.
        self.buffers[CHANNELS - 1 - channel][from..from + samples.len()].copy_from_slice(samples);
    }

    fn control_out(&mut self, _: usize, value: f32) {
        self.reported = value;
    }
}

pub(crate) struct Stage {
    pub(crate) offloaded: Offloaded,
    pub(crate) attendant: Attendant,
    pub(crate) ends: Vec<(Road, Crew)>,
    local: Filter,
    wet: [Vec<f32>; CHANNELS],
    dry: [Vec<f32>; CHANNELS],
    received: [Vec<f32>; CHANNELS],
    pub(crate) reported: Vec<f32>,
    event_channel: Vec<f32>,
    pub(crate) run: u64,
    pub(crate) outcome: RunOutcome,
}

impl Stage {
    pub(crate) fn new(config: OffloadedConfig, plans: Vec<Plan>) -> Self {
        let config = OffloadedConfig { spare: plans.len() > 1, ..config };
        let (mut offloaded, attendant) = Offloaded::new(config).unwrap();
        let mut ends = Vec::new();
        for (which, plan) in Which::ALL.into_iter().zip(plans) {
            let crew = Crew::new(None);
            let road = Road::to(crew.address(), DATAGRAM_BYTES, plan);
            let far = Far::new(Box::new(road.clone()), STREAM);
            assert!(offloaded.attach(which, far).is_none());
            ends.push((road, crew));
        }
        let mut stage = Self {
            offloaded,
            attendant,
            ends,
            local: Filter::default(),
            wet: Default::default(),
            dry: Default::default(),
            received: Default::default(),
            reported: Vec::new(),
            event_channel: Vec::new(),
            run: 0,
            outcome: RunOutcome::default(),
        };
        stage.activate();
        stage
    }

    pub(crate) fn smooth(config: OffloadedConfig) -> Self {
        Self::new(config, vec![smooth()])
    }

    pub(crate) fn activate(&mut self) {
        self.offloaded.activate();
        self.local = Filter::default();
        for sound in [&mut self.wet, &mut self.dry, &mut self.received] {
            sound.iter_mut().for_each(Vec::clear);
        }
        self.reported.clear();
        self.event_channel.clear();
        self.run = 0;
    }

    pub(crate) fn rush(&mut self, frames: usize) {
        self.ends.iter().for_each(|(road, _)| road.at_run(self.run));
        let gain = 1.0 + (self.run % 7) as f32 * 0.1;
        let first = self.dry[0].len() as u64;
        let mut block = InPlace { frames, buffers: Default::default(), gain, reported: 0.0 };
        for channel in 0..CHANNELS {
            let samples: Vec<f32> =
                (first..first + frames as u64).map(|frame| noise(channel, frame)).collect();
            self.dry[channel].extend(&samples);
            let mut wet = samples.clone();
            wet.chunks_mut(SET.max_frames as usize)
                .for_each(|part| self.local.channel(channel, gain, part));
            self.wet[channel].extend(&wet);
            block.buffers[channel] = samples;
        }
        self.event_channel.push(self.local.reported());
        self.outcome = self.offloaded.run(&mut block, now());
        for channel in 0..CHANNELS {
            self.received[channel].extend(&block.buffers[CHANNELS - 1 - channel]);
        }
        self.reported.push(block.reported);
        self.run += 1;
    }

    pub(crate) fn kill_worker(&mut self) {
        self.ends[0].1.end();
        self.ends[0].0.begin();
    }

    pub(crate) fn waits_of(&mut self, runs: u64) -> u64 {
        let before = self.offloaded.standing().counters.waits;
        (0..runs).for_each(|_| self.rush(BLOCK));
        self.offloaded.standing().counters.waits - before
    }

    pub(crate) fn settle(&self) {
        self.ends.iter().for_each(|(road, crew)| road.settle(&crew.progress));
    }

    pub(crate) fn go(&mut self, frames: usize) {
        self.rush(frames);
        self.settle();
    }

    pub(crate) fn go_on(&mut self, runs: u64) {
        (0..runs).for_each(|_| self.go(BLOCK));
    }

    fn delay(&self) -> usize {
        self.offloaded.standing().delay as usize
    }

    pub(crate) fn differing(&self) -> Vec<u64> {
        let delay = self.delay();
        let received = self.received[0].len();
        let differs = |frame: &usize| {
            (0..CHANNELS).any(|channel| {
                self.received[channel][frame + delay].to_bits()
                    != self.wet[channel][*frame].to_bits()
            })
        };
        (0..received.saturating_sub(delay)).filter(differs).map(|frame| frame as u64).collect()
    }

    /// Asserts that only these blocks and 1 ms after each differ. Each block must differ, because
    /// concealment never equals the plugin's sound.
    pub(crate) fn assert_damaged(&self, blocks: &[Range<u64>]) {
        let frames = |blocks: &Range<u64>| blocks.start * BLOCK as u64..blocks.end * BLOCK as u64;
        self.assert_differ(&blocks.iter().map(frames).collect::<Vec<_>>());
    }

    pub(crate) fn assert_differ(&self, missing: &[Range<u64>]) {
        let end = self.received[0].len().saturating_sub(self.delay()) as u64;
        for frame in self.differing() {
            let may = |one: &Range<u64>| one.start <= frame && frame < one.end + FADE;
            assert!(missing.iter().any(may), "frame {frame} differs, beside {missing:?}");
        }
        let differing = self.differing();
        for one in missing {
            let count = differing.iter().filter(|frame| one.contains(frame)).count() as u64;
            let expected = one.end.min(end).saturating_sub(one.start);
            assert!(2 * count > expected, "{count} of {one:?} differ");
        }
        let begins =
            |received: &Vec<f32>| received.iter().take(self.delay()).all(|sample| *sample == 0.0);
        let silence = self.received.iter().all(begins);
        assert!(silence, "the initial output is silence");
    }

    /// Returns this activation's ledger without fades, and starts another. Asserts that it lists
    /// every differing frame.
    pub(crate) fn ledger(&mut self) -> Vec<(Range<u64>, Cause)> {
        for _ in 0..12_000 / BLOCK + 2 {
            self.go(BLOCK);
        }
        let differing = self.differing();
        self.activate();
        self.go(BLOCK);
        let mut all: Vec<(Range<u64>, Cause)> = Vec::new();
        while let Some(Damage { from, frames, cause, .. }) = self.attendant.take_damage() {
            let end = from + u64::from(frames);
            match all.last_mut() {
                Some((last, same)) if last.end == from && *same == cause => last.end = end,
                _ => all.push((from..end, cause)),
            }
        }
        if !all.iter().any(|(_, cause)| *cause == Cause::Grown) {
            let is_listed = |frame: &u64| all.iter().any(|(frames, _)| frames.contains(frame));
            assert_eq!(differing.iter().find(|frame| !is_listed(frame)), None, "{all:?}");
        }
        all.retain(|(_, cause)| *cause != Cause::Faded);
        all
    }

    pub(crate) fn missed(&self, window: u64) -> Vec<Range<u64>> {
        let mut missed: Vec<Range<u64>> = Vec::new();
        for block in 0..self.run.saturating_sub(window) {
            if self
                .ends
                .iter()
                .any(|(road, _)| road.arrived(block).is_some_and(|run| run <= block + window))
            {
                continue;
            }
            match missed.last_mut() {
                Some(last) if last.end == block => last.end = block + 1,
                _ => missed.push(block..block + 1),
            }
        }
        missed
    }

    pub(crate) fn assert_controls(&self, window: usize) {
        assert_eq!(
            self.reported[window..],
            self.event_channel[..self.event_channel.len() - window]
        );
    }
}
