//! How a stream stands, as its processes told one after the other.

use tautline_api::v1::{PluginPort, StreamPhase, WorkCounters, WorkStreamState};
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use crate::ladspa::abi::{CONTROL, INPUT};
use crate::plan::{ChildStanding, Plan};

/// What is known of a stream.
#[derive(Debug)]
pub(super) struct StreamTold {
    pub(super) state: WorkStreamState,
    /// Its process at the moment, if there is one.
    pub(super) process: Option<u32>,
    /// The process that can take over from it at once, as far as was looked.
    pub(super) standby: Option<u32>,
    /// What the processes before this one counted.
    before: WorkCounters,
    newest: ChildStanding,
    /// When it was told.
    at: LocalTime,
    /// When a datagram had come last.
    pub(super) heard: LocalTime,
    /// Its controls, for a sentence.
    has_controls: bool,
}

impl StreamTold {
    pub(super) fn new(plan: &Plan, plugin: &str, ports: &[PluginPort], udp_port: u16) -> Self {
        let control = (CONTROL | INPUT) as u32;
        Self {
            state: WorkStreamState {
                id: plan.stream,
                plugin: plugin.to_owned(),
                rate: plan.rate,
                most_frames: plan.most_frames,
                udp_port,
                phase: StreamPhase::Starting,
                why: None,
                restarts: 0,
                epoch: 0,
                dirty: false,
                latency_frames: 0,
                core: None,
                share: 0.0,
                counters: WorkCounters::default(),
            },
            process: None,
            standby: None,
            before: WorkCounters::default(),
            newest: ChildStanding::default(),
            at: LocalTime::ZERO,
            heard: now(),
            has_controls: ports.iter().any(|port| port.descriptor & control == control),
        }
    }

    /// A process takes blocks from now on.
    pub(super) fn ready(&mut self, now: LocalTime) {
        (self.newest, self.at) = (ChildStanding::default(), now);
        self.state.phase = StreamPhase::Idle;
    }

    /// What a process told. Returns the share of a core that its plugin took since it told before.
    pub(super) fn take(&mut self, standing: ChildStanding, now: LocalTime) -> f64 {
        let (since, before) = (now - self.at, self.newest);
        let busy = standing.counters.busy_ns.saturating_sub(before.counters.busy_ns);
        if standing.counters.received > before.counters.received {
            self.heard = now;
        }
        let moves = standing.counters.blocks > before.counters.blocks;
        (self.newest, self.at) = (standing, now);
        self.state.phase = if moves { StreamPhase::Running } else { StreamPhase::Idle };
        self.state.epoch = standing.epoch;
        self.state.dirty = standing.dirty;
        self.state.latency_frames = standing.latency;
        self.state.counters = sum(&self.before, &standing.counters);
        if self.has_controls && standing.odd_controls > before.odd_controls {
            self.state.why = Some(format!(
                "in {} blocks a control was no number, or infinite: the plugin got it as it was; look at what sets \
                 the controls at the master",
                standing.odd_controls
            ));
        }
        if since > Span::ZERO { busy as f64 / since.as_nanos() as f64 } else { 0.0 }
    }

    /// A process ended.
    pub(super) fn ended(&mut self, why: String) {
        self.process = None;
        self.before = self.state.counters;
        self.newest = ChildStanding::default();
        self.state.phase = StreamPhase::Restarting;
        self.state.why = Some(why);
    }
}

fn sum(one: &WorkCounters, other: &WorkCounters) -> WorkCounters {
    WorkCounters {
        blocks: one.blocks + other.blocks,
        replayed: one.replayed + other.replayed,
        asked: one.asked + other.asked,
        gone: one.gone + other.gone,
        received: one.received + other.received,
        sent: one.sent + other.sent,
        duplicate: one.duplicate + other.duplicate,
        invalid: one.invalid + other.invalid,
        foreign: one.foreign + other.foreign,
        unopened: one.unopened + other.unopened,
        busy_ns: one.busy_ns + other.busy_ns,
        longest_ns: one.longest_ns.max(other.longest_ns),
    }
}
