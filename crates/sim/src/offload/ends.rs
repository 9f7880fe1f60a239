use tautline_proto::offload::block::{
    BlockSet, BlockSpec, BlockWay, ByteOrder, Element, Length, get_f32, put_f32,
};
use tautline_proto::offload::master::{Master, MasterConfig};
use tautline_proto::offload::worker::{Worker, WorkerConfig};
use tautline_proto::time::{LocalTime, Span};

use super::{OffloadScenario, WorkerModel, WorkerOutcome};
use crate::clock::TrueTime;
use crate::link::Path;

pub(super) const DATAGRAM_BYTES: usize = 1400;
const STREAM: u32 = 1;

/// No clock error, because nothing depends on readings.
pub(super) const fn local(at: TrueTime) -> LocalTime {
    LocalTime::from_nanos(at.as_nanos())
}

pub(super) struct SimWorker {
    model: WorkerModel,
    config: WorkerConfig,
    worker: Worker,
    plugin: SimPlugin,
    samples: Vec<f32>,
    pub(super) busy: TrueTime,
    deaths: usize,
    pub(super) there: Path,
    pub(super) back: Path,
    pub(super) master: Master,
    pub(super) played: u64,
}

impl SimWorker {
    pub(super) fn new(scenario: &OffloadScenario, index: usize) -> Self {
        let model = scenario.workers[index].clone();
        let max_frames = scenario.runs.iter().copied().max().unwrap_or(1);
        let set = sim_set(max_frames);
        // Neighbouring seeds would draw similar numbers.
        let seed = (scenario.seed * 2 + index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let config = WorkerConfig {
            set: set.clone(),
            stream: STREAM,
            order: ByteOrder::NATIVE,
            datagram_bytes: DATAGRAM_BYTES,
            history: 64,
            copies: scenario.copies,
            hold: 256,
            memory: model.memory,
        };
        let master = MasterConfig {
            set,
            stream: STREAM,
            epoch_seed: 0,
            datagram_bytes: DATAGRAM_BYTES,
            history: scenario.history,
            copies: scenario.copies,
            hold: scenario.history,
        };
        let mut master = Master::new(master).expect("a history of simulated length is kept");
        master.begin();
        Self {
            worker: Worker::new(config.clone()).expect("as many blocks are held"),
            config,
            plugin: SimPlugin::default(),
            samples: vec![0.0; max_frames as usize],
            busy: TrueTime::ZERO,
            deaths: 0,
            there: Path::new(model.there.clone(), seed ^ 0x7468_6572),
            back: Path::new(model.back.clone(), seed ^ 0x6261_636b),
            master,
            played: 0,
            model,
        }
    }

    /// Time at which a packet that arrives at `at` is read. `None` if never.
    pub(super) fn reads(&self, at: TrueTime) -> Option<TrueTime> {
        let within = |(from, to): &&(TrueTime, TrueTime)| (*from..*to).contains(&at);
        if self.model.dead.iter().any(|span| within(&span)) {
            return None;
        }
        Some(self.model.frozen.iter().find(within).map_or(at, |(_, to)| *to))
    }

    pub(super) fn read(&mut self, datagram: &[u8], now: TrueTime) {
        let deaths = self.model.dead.iter().filter(|(_, to)| *to <= now).count();
        if deaths > self.deaths {
            self.deaths = deaths;
            self.worker = Worker::new(self.config.clone()).expect("as before");
            self.plugin = SimPlugin::default();
        }
        self.worker.handle(datagram, local(now));
    }

    /// Runs the next block unless a block is running. Returns its completion time.
    pub(super) fn work(&mut self, now: TrueTime) -> Option<TrueTime> {
        if now < self.busy || self.reads(now) != Some(now) {
            return None;
        }
        let turn = self.worker.next_turn()?;
        if turn.restart {
            self.plugin = SimPlugin::default();
        }
        let samples = &mut self.samples[..turn.frames as usize];
        let (input, output) = self.worker.buffers();
        let (channel, control) = input.split_at(4 * samples.len());
        let mut value = [0.0];
        get_f32(channel, samples, ByteOrder::NATIVE);
        get_f32(control, &mut value, ByteOrder::NATIVE);
        self.plugin.run(samples, value[0]);
        put_f32(output, samples);
        self.worker.finish(0);
        self.busy = now.after(self.model.cost.max(Span::from_nanos(1)));
        Some(self.busy)
    }

    /// Sends all that is due, unless a block is running or the host stalls. Calls `arrives` for
    /// each arrival.
    pub(super) fn send(&mut self, now: TrueTime, mut arrives: impl FnMut(TrueTime, &[u8])) {
        if now < self.busy || self.reads(now) != Some(now) {
            return;
        }
        let mut room = [0; DATAGRAM_BYTES];
        while let Some(len) = self.worker.poll(local(now), &mut room) {
            self.back.carry(len, now, |at| arrives(at, &room[..len]));
        }
    }

    pub(super) fn deadline(&self) -> Option<TrueTime> {
        let deadline = self.worker.deadline();
        (!deadline.is_never()).then(|| TrueTime::from_nanos(deadline.as_nanos()))
    }

    pub(super) fn outcome(&self) -> WorkerOutcome {
        WorkerOutcome {
            state: self.worker.state(),
            counters: self.worker.counters(),
            master: self.master.counters(),
            played: self.played,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SimPlugin {
    last: f32,
}

impl SimPlugin {
    /// Share of a frame that remains in the next one. After 1 s the rest is below 32-bit precision.
    const KEEPS: f32 = 0.9997;

    pub(super) fn run(&mut self, sound: &mut [f32], control: f32) {
        for sample in sound {
            self.last = self.last * Self::KEEPS + *sample * control;
            *sample = self.last;
        }
    }
}

pub(super) fn sim_input(frame: u64) -> f32 {
    let mixed = frame.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    mixed as f32 / (1 << 25) as f32 - 0.25
}

pub(super) fn sim_control(block: u64) -> f32 {
    0.5 + (block % 17) as f32 / 32.0
}

pub(super) fn sim_set(max_frames: u32) -> BlockSet {
    let block = |way, length| BlockSpec { element: Element::F32, way, length };
    let blocks = vec![
        block(BlockWay::ToWorker, Length::PerFrame(1)),
        block(BlockWay::ToWorker, Length::Fixed(1)),
        block(BlockWay::FromWorker, Length::PerFrame(1)),
    ];
    BlockSet::new(blocks, max_frames).expect("a channel is short of every bound")
}
