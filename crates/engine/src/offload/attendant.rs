//! The ordinary thread's end of an offloaded plugin.

use rtrb::{Consumer, Producer};
use tautline_io::link::LinkCounters;
use tautline_io::thread::memory::ring;
use tautline_proto::offload::master::MasterCounters;
use tautline_proto::offload::returns::Damage;
use tautline_proto::time::Span;

use crate::offload::far::{FAR_ENDS, Far, Which};

/// Margin of a run's answer, reported when its first frame is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slack {
    /// First frame of the run.
    pub position: u64,
    /// Frames of the run.
    pub frames: u32,
    /// Time from the first answer to its deadline, including the permitted wait. `None` without an
    /// answer.
    pub left: Option<Span>,
}

/// Counters of the real-time thread since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffloadedCounters {
    /// Runs of the host.
    pub runs: u64,
    /// Frames of those runs.
    pub frames: u64,
    /// Number of concealed frames.
    pub concealed: u64,
    /// Runs that waited for an answer.
    pub waits: u64,
    /// Total waiting time.
    pub waited: Span,
    /// Runs that were dropped and concealed because too many were in flight.
    pub crowded: u64,
    /// Entries of the damage ledger lost because a ring was full.
    pub damage_overflow: u64,
    /// [`Slack`]s lost because a ring was full.
    pub slack_overflow: u64,
}

/// Status of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndStanding {
    /// Counters of its protocol machine.
    pub machine: MasterCounters,
    /// Counters of its link.
    pub link: LinkCounters,
    /// Whether its last played answer came from a plugin that has processed every block.
    pub clean: bool,
    /// Number of its played answers.
    pub played: u64,
}

/// Status of the real-time thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Number of the activation.
    pub activation: u32,
    /// Frames sent in it.
    pub position: u64,
    /// Frames from an input to its output, without the plugin's own latency.
    pub delay: u32,
    /// Frames from an input to its output, including the plugin's own latency.
    pub latency: u32,
    /// Whether the host runs faster than real time.
    pub offline: bool,
    /// Attached workers, in the order of [`Which::ALL`].
    pub ends: [Option<EndStanding>; FAR_ENDS],
    /// Counters.
    pub counters: OffloadedCounters,
}

/// Capacity for workers to attach, and for detached workers.
const CHANGES: usize = 8;
/// Capacity for lines of the damage ledger, and for [`Slack`]s.
const TOLD: usize = 4096;
/// Capacity for statuses; the newest is enough.
const STANDINGS: usize = 4;

pub(crate) struct Rings {
    pub(crate) changes: Consumer<(Which, Option<Far>)>,
    pub(crate) gone: Producer<Far>,
    pub(crate) damage: Producer<Damage>,
    pub(crate) slack: Producer<Slack>,
    pub(crate) standing: Producer<Standing>,
}

/// Attaches workers during the run and receives the reports of the real-time thread. For one
/// ordinary thread; never blocks another.
pub struct Attendant {
    changes: Producer<(Which, Option<Far>)>,
    gone: Consumer<Far>,
    damage: Consumer<Damage>,
    slack: Consumer<Slack>,
    standing: Consumer<Standing>,
    newest: Standing,
}

pub(crate) fn rings() -> (Rings, Attendant) {
    let (changes_in, changes) = ring(CHANGES);
    let (gone, gone_out) = ring(CHANGES);
    let (damage, damage_out) = ring(TOLD);
    let (slack, slack_out) = ring(TOLD);
    let (standing, standing_out) = ring(STANDINGS);
    let attendant = Attendant {
        changes: changes_in,
        gone: gone_out,
        damage: damage_out,
        slack: slack_out,
        standing: standing_out,
        newest: Standing::default(),
    };
    (Rings { changes, gone, damage, slack, standing }, attendant)
}

impl Attendant {
    /// Attaches a worker from the next run on, and replaces the current one. The new worker
    /// requests the blocks of the activation that it missed. Returns the worker if too many changes
    /// are pending because the host is not running.
    pub fn attach(&mut self, which: Which, far: Far) -> Result<(), Far> {
        if self.changes.is_full() {
            return Err(far);
        }
        // There is room; this was checked above.
        let _ = self.changes.push((which, Some(far)));
        Ok(())
    }

    /// Detaches the worker from the next run on. Returns `false` if too many changes are pending.
    pub fn detach(&mut self, which: Which) -> bool {
        self.changes.push((which, None)).is_ok()
    }

    /// Returns a detached worker, for the caller to drop.
    pub fn take_gone(&mut self) -> Option<Far> {
        self.gone.pop().ok()
    }

    /// Returns the next line of the damage ledger.
    pub fn take_damage(&mut self) -> Option<Damage> {
        self.damage.pop().ok()
    }

    /// Returns the next run's slack.
    pub fn take_slack(&mut self) -> Option<Slack> {
        self.slack.pop().ok()
    }

    /// Returns the latest status. The real-time thread sends one every 10 ms while the host runs.
    pub fn standing(&mut self) -> &Standing {
        while let Ok(standing) = self.standing.pop() {
            self.newest = standing;
        }
        &self.newest
    }
}
