//! An offloaded plugin's end on the ordinary thread.

use rtrb::{Consumer, Producer};
use tautline_io::link::LinkCounters;
use tautline_io::thread::memory::ring;
use tautline_proto::offload::master::MasterCounters;
use tautline_proto::offload::returns::Damage;
use tautline_proto::time::Span;

use crate::offload::far::{FAR_ENDS, Far, Which};

/// Margin of a run's answer, reported at playout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slack {
    /// First frame.
    pub position: u64,
    /// Frames.
    pub frames: u32,
    /// Time from first answer to deadline, including the permitted wait; `None` without an answer.
    pub left: Option<Span>,
}

/// Real-time thread's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffloadedCounters {
    /// Host runs.
    pub runs: u64,
    /// Their frames.
    pub frames: u64,
    /// Concealed frames.
    pub concealed: u64,
    /// Runs with a wait.
    pub waits: u64,
    /// Total wait.
    pub waited: Span,
    /// Runs concealed because too many were in flight.
    pub crowded: u64,
    /// Damage entries lost to a full ring.
    pub damage_overflow: u64,
    /// [`Slack`]s lost to a full ring.
    pub slack_overflow: u64,
}

/// A worker's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndStanding {
    /// Protocol counters.
    pub machine: MasterCounters,
    /// Link counters.
    pub link: LinkCounters,
    /// Whether the last played answer's plugin has processed every block.
    pub clean: bool,
    /// Played answers.
    pub played: u64,
}

/// Real-time thread's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Activation number.
    pub activation: u32,
    /// Frames sent in it.
    pub position: u64,
    /// Frames from input to output, without the plugin's latency.
    pub delay: u32,
    /// Frames from input to output, with the plugin's latency.
    pub latency: u32,
    /// Whether the host is faster than real time.
    pub offline: bool,
    /// Attached workers, ordered as [`Which::ALL`].
    pub ends: [Option<EndStanding>; FAR_ENDS],
    /// Counters.
    pub counters: OffloadedCounters,
}

const CHANGES: usize = 8;
const TOLD: usize = 4096;
const STANDINGS: usize = 4;

pub(crate) struct Rings {
    pub(crate) changes: Consumer<(Which, Option<Far>)>,
    pub(crate) gone: Producer<Far>,
    pub(crate) damage: Producer<Damage>,
    pub(crate) slack: Producer<Slack>,
    pub(crate) standing: Producer<Standing>,
}

/// Attaches workers during a run and receives its reports. For one ordinary thread; never blocks
/// another.
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
    /// Attaches or replaces a worker at the next run. The worker requests blocks that it missed.
    /// Returns the worker if too many changes are pending.
    pub fn attach(&mut self, which: Which, far: Far) -> Result<(), Far> {
        if self.changes.is_full() {
            return Err(far);
        }
        let _ = self.changes.push((which, Some(far)));
        Ok(())
    }

    /// Detaches at the next run; `false` if too many changes are pending.
    pub fn detach(&mut self, which: Which) -> bool {
        self.changes.push((which, None)).is_ok()
    }

    /// Returns a detached worker to drop.
    pub fn take_gone(&mut self) -> Option<Far> {
        self.gone.pop().ok()
    }

    /// Next damage ledger line.
    pub fn take_damage(&mut self) -> Option<Damage> {
        self.damage.pop().ok()
    }

    /// Next run's slack.
    pub fn take_slack(&mut self) -> Option<Slack> {
        self.slack.pop().ok()
    }

    /// Latest status, sent every 10 ms while the host runs.
    pub fn standing(&mut self) -> &Standing {
        while let Ok(standing) = self.standing.pop() {
            self.newest = standing;
        }
        &self.newest
    }
}
