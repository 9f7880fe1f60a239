//! Attributes missed blocks to stalls of the host or to us. Pure.

use tautline_io::thread::stall::Stall;
use tautline_proto::time::Span;

use super::master::{MasterLog, MissedBlock};
use super::search::CapacitySearch;
use crate::resources::Record;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BlockMisses {
    pub(super) due: u64,
    pub(super) missed: u64,
    pub(super) in_freeze: u64,
    /// Blocks due during the backlog of a stall.
    pub(super) after_freeze: u64,
    /// Misses that a stall of one core explains. They still count as ours.
    pub(super) of_a_core: u64,
}

impl BlockMisses {
    pub(super) fn otherwise(&self) -> u64 {
        self.missed - self.in_freeze - self.after_freeze
    }

    /// Whether stalls of the host explain half of the blocks: too few remain to show that a cost
    /// can be held.
    pub(super) fn are_the_hosts(&self) -> bool {
        2 * (self.in_freeze + self.after_freeze) >= self.due
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockPace {
    pub(super) cost: Span,
    pub(super) period: Span,
}

impl BlockPace {
    /// The master skips blocks meanwhile, so the backlog is at most a period; each block's spare
    /// time reduces it.
    fn catches_up_in(self, frozen: Span) -> Span {
        let behind = frozen.min(self.period).as_nanos();
        let gained = (self.period - self.cost).as_nanos().max(1);
        let maximum = self.period.as_nanos().saturating_mul(MAX_BLOCKS);
        let nanos = i128::from(behind) * i128::from(self.period.as_nanos()) / i128::from(gained);
        Span::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX).min(maximum))
    }
}

/// Maximum catch-up time after a stall, in periods. A worker that is 99 % busy needs 100.
const MAX_BLOCKS: i64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Explains {
    Overlaps,
    /// The stall's backlog may still exist.
    Follows,
}

fn explains(block: &MissedBlock, stalls: &[Stall], pace: BlockPace) -> Option<Explains> {
    let overlaps = |stall: &Stall| stall.from <= block.until && block.from <= stall.to;
    let follows = |stall: &Stall| {
        let caught_up = stall.to + pace.catches_up_in(stall.length()) + pace.period;
        stall.to < block.from && block.from <= caught_up
    };
    if stalls.iter().any(overlaps) {
        return Some(Explains::Overlaps);
    }
    stalls.iter().any(follows).then_some(Explains::Follows)
}

pub(super) fn judged(
    due: u64,
    missed: &[MissedBlock],
    [by_all, by_one]: [&[Stall]; 2],
    pace: BlockPace,
) -> BlockMisses {
    let mut found = BlockMisses { due, missed: missed.len() as u64, ..BlockMisses::default() };
    for block in missed {
        match explains(block, by_all, pace) {
            Some(Explains::Overlaps) => found.in_freeze += 1,
            Some(Explains::Follows) => found.after_freeze += 1,
            None if explains(block, by_one, pace).is_some() => found.of_a_core += 1,
            None => {}
        }
    }
    found
}

pub(super) struct TrySeen {
    pub(super) cost: Span,
    pub(super) log: MasterLog,
    pub(super) misses: BlockMisses,
    pub(super) record: Record,
}

/// Tolerated share of missed blocks in a try, as other programs may cause them. The hold detects
/// rarer misses.
pub(super) const TOO_MUCH: f64 = 0.02;

pub(super) struct PointFound {
    pub(super) idle: TrySeen,
    /// The greatest cost that passed its hold, or the cost of the last hold.
    pub(super) held: TrySeen,
    pub(super) beyond: Option<BothDetectors>,
    pub(super) search: CapacitySearch,
}

/// Our misses (without the host's misses), and a JACK server's xruns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BothDetectors {
    pub(super) missed: u64,
    pub(super) jack_xruns: Option<u32>,
}

impl BothDetectors {
    pub(super) fn of(seen: &TrySeen) -> Self {
        Self { missed: seen.misses.otherwise(), jack_xruns: seen.log.jack_xruns }
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::LocalTime;

    use super::*;

    fn at(micros: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_micros(micros)
    }

    fn block(from: i64) -> MissedBlock {
        MissedBlock { from: at(from), until: at(from + 2000) }
    }

    fn of(blocks: &[i64], cost: i64) -> BlockMisses {
        let missed: Vec<_> = blocks.iter().map(|from| block(*from)).collect();
        let by_all = [Stall { from: at(10_000), to: at(13_000) }];
        let pace = BlockPace { cost: Span::from_micros(cost), period: Span::from_micros(2000) };
        judged(100, &missed, [&by_all, &[]], pace)
    }

    #[test]
    fn block_in_flight_during_a_stall_counts_as_the_hosts() {
        let found = of(&[5000, 9000, 12_000], 0);
        assert_eq!((found.missed, found.in_freeze, found.otherwise()), (3, 2, 1));
    }

    #[test]
    fn try_is_the_hosts_if_stalls_explain_half_of_it() {
        let tried = |in_freeze, after_freeze| {
            BlockMisses { due: 20, missed: 20, in_freeze, after_freeze, of_a_core: 0 }
                .are_the_hosts()
        };
        assert!(tried(20, 0) && tried(5, 5) && !tried(5, 4) && !tried(0, 0));
    }

    #[test]
    fn backlog_after_a_stall_is_the_hosts_until_caught_up() {
        // Half busy: a backlog of one period lasts two periods; one more block may be in flight.
        let found = of(&[18_000, 20_000], 1000);
        assert_eq!((found.after_freeze, found.otherwise()), (1, 1));
        let found = of(&[18_000, 20_000, 54_000, 56_000], 1900);
        assert_eq!((found.after_freeze, found.otherwise()), (3, 1));
        // A worker that is always busy never catches up, but gets no further excuse.
        let found = of(&[100_000, 220_000], 2000);
        assert_eq!((found.after_freeze, found.otherwise()), (1, 1));
    }

    #[test]
    fn without_a_stall_every_miss_is_ours() {
        let pace = BlockPace { cost: Span::ZERO, period: Span::from_millis(2) };
        let found = judged(10, &[block(1000)], [&[], &[]], pace);
        assert_eq!((found.due, found.otherwise()), (10, 1));
    }

    #[test]
    fn stall_of_one_core_is_reported_and_excuses_nothing() {
        let pace = BlockPace { cost: Span::ZERO, period: Span::from_millis(2) };
        let by_one = [Stall { from: at(1500), to: at(4000) }];
        let found = judged(10, &[block(1000), block(20_000)], [&[], &by_one], pace);
        assert_eq!((found.of_a_core, found.otherwise()), (1, 2));
    }
}
