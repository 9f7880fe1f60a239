//! The ordinary thread's end of what a host's real-time thread holds.

use rtrb::{Consumer, Producer};
use tautline_io::link::LinkCounters;
use tautline_io::thread::memory::ring;
use tautline_proto::offload::master::MasterCounters;
use tautline_proto::offload::returns::Damage;
use tautline_proto::time::Span;

use crate::offload::far::{FAR_ENDS, Far, Which};

/// How much time was left when an answer came: told of each run when its first frame is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slack {
    /// The first frame of the run.
    pub position: u64,
    /// Frames of the run.
    pub frames: u32,
    /// From the first answer to when it was needed, the allowed wait included; `None` if none had come.
    pub left: Option<Span>,
}

/// What was counted on the real-time thread. All are totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffloadedCounters {
    /// Runs of the host.
    pub runs: u64,
    /// Frames of those.
    pub frames: u64,
    /// Frames for which something stood in.
    pub stood_in: u64,
    /// Runs that waited for an answer.
    pub waits: u64,
    /// How long they waited, all together.
    pub waited: Span,
    /// Runs that were forgotten before their turn, as there is room for no more under way: what stands in plays for them.
    pub crowded: u64,
    /// Entries of the damage ledger that found the ring to the ordinary thread full.
    pub damage_untold: u64,
    /// [`Slack`]s that did.
    pub slack_untold: u64,
}

/// How a far end stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndStanding {
    /// What its machine counted.
    pub machine: MasterCounters,
    /// What its link counted.
    pub link: LinkCounters,
    /// Whether the last answer of its that was played came from a plugin that has seen every block.
    pub clean: bool,
    /// Answers of its that were played.
    pub played: u64,
}

/// How the real-time thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Which activation.
    pub activation: u32,
    /// Frames handed out in it.
    pub position: u64,
    /// What is played is so many frames behind what was handed out.
    pub delay: u32,
    /// That and the plugin's own.
    pub latency: u32,
    /// Whether the host runs faster than real time.
    pub offline: bool,
    /// The far ends that are attached, in the order of [`Which::ALL`].
    pub ends: [Option<EndStanding>; FAR_ENDS],
    /// What was counted.
    pub counters: OffloadedCounters,
}

/// Far ends that may wait to be attached, and that wait to be taken back.
const CHANGES: usize = 8;
/// Lines of the damage ledger, and slacks, that wait to be heard.
const TOLD: usize = 4096;
/// Standings: the newest says all.
const STANDINGS: usize = 4;

pub(crate) struct Rings {
    /// What is attached in the place of a far end, or that none is.
    pub(crate) changes: Consumer<(Which, Option<Far>)>,
    pub(crate) gone: Producer<Far>,
    pub(crate) damage: Producer<Damage>,
    pub(crate) slack: Producer<Slack>,
    pub(crate) standing: Producer<Standing>,
}

/// Attaches workers while sound plays, and hears how it went: for one ordinary thread, which holds up no other.
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
    /// Attaches a worker in the place of the one that is there, from the next run on: it asks for the blocks of the
    /// activation that it has to have seen. Given back if too many wait already, since the host does not run.
    pub fn attach(&mut self, which: Which, far: Far) -> Result<(), Far> {
        if self.changes.is_full() {
            return Err(far);
        }
        // There is room: asked for above.
        let _ = self.changes.push((which, Some(far)));
        Ok(())
    }

    /// Takes the worker off, from the next run on. False if too many changes wait already.
    pub fn detach(&mut self, which: Which) -> bool {
        self.changes.push((which, None)).is_ok()
    }

    /// A far end that was taken off, to be dropped here.
    pub fn take_gone(&mut self) -> Option<Far> {
        self.gone.pop().ok()
    }

    /// The next line of the damage ledger.
    pub fn take_damage(&mut self) -> Option<Damage> {
        self.damage.pop().ok()
    }

    /// The next run's slack.
    pub fn take_slack(&mut self) -> Option<Slack> {
        self.slack.pop().ok()
    }

    /// How it stands, as the real-time thread told last: every 10 ms of the host's running.
    pub fn standing(&mut self) -> &Standing {
        while let Ok(standing) = self.standing.pop() {
            self.newest = standing;
        }
        &self.newest
    }
}
