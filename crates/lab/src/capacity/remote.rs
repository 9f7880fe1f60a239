//! A plugin on each machine: a call hands out the blocks one after the other, like a rack.

use tautline_engine::offload::attendant::Attendant;
use tautline_engine::offload::host_block::HostBlock;
use tautline_engine::offload::offloaded::{Far, Offloaded, OffloadedConfig, Which};
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use super::grid::CapacityPoint;
use super::master::{CapacityCycle, CapacityWork, MasterLog, Passing, PeriodCycle};

/// Remembered runs: more than any window.
const REMEMBERED: usize = 64;

struct RemotePlugin {
    offloaded: Offloaded,
    attendant: Attendant,
    began: [LocalTime; REMEMBERED],
    runs: u64,
}

pub(super) struct RemoteCycle {
    plugins: Vec<RemotePlugin>,
    block: CostlyBlock,
    point: CapacityPoint,
}

impl RemoteCycle {
    pub(super) fn new(
        point: &CapacityPoint,
        (work, config): (CapacityWork, OffloadedConfig),
        ends: Vec<Far>,
    ) -> Result<Self, String> {
        let plugin = |far: Far| {
            let (mut offloaded, attendant) =
                Offloaded::new(config).map_err(|error| error.to_string())?;
            offloaded.attach(Which::Worker, far);
            Ok(RemotePlugin { offloaded, attendant, began: [LocalTime::ZERO; REMEMBERED], runs: 0 })
        };
        let plugins = ends.into_iter().map(plugin).collect::<Result<_, String>>()?;
        let block = CostlyBlock { frames: point.period as usize, controls: work.controls() };
        Ok(Self { plugins, block, point: *point })
    }
}

impl PeriodCycle for RemoteCycle {
    fn blocks(&self) -> usize {
        self.plugins.len()
    }

    fn run(&mut self, due: LocalTime, log: &mut MasterLog) {
        let Self { plugins, block, point } = self;
        for plugin in plugins {
            plugin.run(due, (block, point), log);
        }
    }
}

impl CapacityCycle for RemoteCycle {
    fn begin(&mut self, passing: Passing) {
        self.block.controls.begin(passing);
        for plugin in &mut self.plugins {
            plugin.offloaded.activate();
            while plugin.attendant.take_slack().is_some() {}
            plugin.runs = 0;
        }
    }
}

impl RemotePlugin {
    fn run(
        &mut self,
        due: LocalTime,
        (block, point): (&mut CostlyBlock, &CapacityPoint),
        log: &mut MasterLog,
    ) {
        let began = now();
        let place = |run: u64| (run % REMEMBERED as u64) as usize;
        self.began[place(self.runs)] = began;
        self.runs += 1;
        let outcome = self.offloaded.run(block, began);
        let period = point.period_span();
        if outcome.concealed > 0 {
            log.miss(due - period.times(i64::from(point.window)), now());
        }
        let needed = began + point.wait_at_max();
        while let Some(slack) = self.attendant.take_slack() {
            let Some(left) = slack.left else { continue };
            let sent = self.began[place(slack.position / u64::from(point.period.max(1)))];
            log.slack.push(due, left);
            log.exchanges.push(due, needed - left - sent);
        }
        while self.attendant.take_damage().is_some() {}
    }
}

struct CostlyBlock {
    frames: usize,
    controls: CostControls,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CostControls {
    work: CapacityWork,
    values: [f32; Self::MAX],
    count: usize,
}

impl CostControls {
    const MAX: usize = 4;

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    fn begin(&mut self, Passing { cost, real }: Passing) {
        let micros = |cost: Span| cost.as_micros_f64() as f32;
        let timed = if real { 0.0 } else { 1.0 };
        let half = micros(cost.half());
        self.values = match self.work {
            CapacityWork::Fixed => [micros(cost), timed, 0.0, 0.0],
            CapacityWork::Random => [half, timed, half, 0.0],
            CapacityWork::Burst => [half, timed, half, ONE_IN],
            CapacityWork::Cache => [micros(cost), timed, KIBIBYTES, 0.0],
        };
    }
}

const ONE_IN: f32 = 100.0;
/// Memory of the test plugin: more than a core's caches hold.
const KIBIBYTES: f32 = 16_384.0;

impl CapacityWork {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Fixed => "waste_time",
            Self::Random => "waste_random",
            Self::Burst => "waste_burst",
            Self::Cache => "waste_cache",
        }
    }

    pub(super) const fn controls(self) -> CostControls {
        let count = if matches!(self, Self::Burst) { 4 } else { 3 };
        CostControls { work: self, values: [0.0; CostControls::MAX], count }
    }
}

impl HostBlock for CostlyBlock {
    fn frames(&self) -> usize {
        self.frames
    }

    fn input(&mut self, _channel: usize, _from: usize, samples: &mut [f32]) {
        samples.fill(0.5);
    }

    fn control(&mut self, index: usize) -> f32 {
        self.controls.values.get(index).copied().unwrap_or(0.0)
    }

    fn output(&mut self, _channel: usize, _from: usize, _samples: &[f32]) {}

    fn control_out(&mut self, _index: usize, _value: f32) {}
}
