//! Workers run every block once, in order, with any losses.

use proptest::prelude::*;

use super::road::{Fate, MAX_FRAMES, OneWay, Road, fates, master_config, worker_config};
use crate::offload::inbound::PluginState;
use crate::offload::master::MasterConfig;
use crate::offload::worker::WorkerConfig;
use crate::time::Span;

const PERIOD: Span = Span::from_micros(1333);

fn frames() -> impl Strategy<Value = Vec<u32>> {
    let odd = prop_oneof![Just(64u32), Just(0), 1..=MAX_FRAMES];
    proptest::collection::vec(odd, 1..60)
}

proptest! {
    #[test]
    fn every_block_runs_once_in_order_after_any_loss(
        frames in frames(),
        there in fates(),
        back in fates(),
        copies in 0u8..3,
        hold in prop_oneof![Just(4usize), Just(32)],
    ) {
        let master = MasterConfig { copies, ..master_config(128) };
        let worker = WorkerConfig { hold, copies, history: 128, ..worker_config(None) };
        let mut road = Road::new(master, worker);
        road.there = OneWay::new(there);
        road.back = OneWay::new(back);
        for frames in &frames {
            road.hand_out(*frames);
            road.carry();
            road.pass(PERIOD);
        }
        // A loss shows only with a later block.
        let last = road.hand_out(1);
        while !(road.there.is_good() && road.back.is_good()) {
            road.master.insist(last);
            road.carry();
            road.pass(PERIOD);
        }
        for _ in 0..50 {
            road.master.insist(last);
            road.carry();
            road.pass(Span::from_millis(50));
        }
        let handed_out = road.master.next();
        let ran: Vec<u64> = road.turns.iter().map(|turn| turn.block).collect();
        prop_assert_eq!(ran, (0..handed_out).collect::<Vec<_>>());
        prop_assert!(road.turns.iter().all(|turn| turn.clean && turn.restart == (turn.block == 0)));
        prop_assert_eq!(road.worker.state(), PluginState::Clean);
        for block in 0..handed_out {
            road.master.insist(block);
            road.carry();
            prop_assert!(road.is_true(block), "block {}", block);
        }
        prop_assert_eq!(road.master.counters().back.invalid, 0);
        prop_assert_eq!(road.worker.counters().there.invalid, 0);
    }

    #[test]
    fn lost_history_makes_only_later_blocks_dirty(
        frames in frames(),
        there in fates(),
        history in 1usize..6,
    ) {
        let mut road = Road::new(
            MasterConfig { hold: 512, ..master_config(history) },
            worker_config(None),
        );
        road.there = OneWay::new(there);
        for frames in frames.iter().chain([&64; 20]) {
            let block = road.hand_out(*frames);
            road.carry();
            road.pass(PERIOD);
            if let Some((_, clean)) = road.answer(block) {
                prop_assert!(!clean || road.is_true(block));
            }
        }
        let mut clean = true;
        let mut next = 0;
        for turn in &road.turns {
            prop_assert!(turn.block >= next);
            clean &= turn.block == next;
            prop_assert_eq!(turn.clean, clean);
            next = turn.block + 1;
        }
        let since = road.turns.iter().scan(0, |next, turn| {
            let expected = core::mem::replace(next, turn.position + u64::from(turn.frames));
            Some((turn, expected))
        });
        let since = since.into_iter().find(|(turn, _)| !turn.clean).map(|(_, since)| since);
        if let Some(since) = since {
            prop_assert_eq!(road.worker.state(), PluginState::Dirty(since));
        }
    }

    #[test]
    fn a_plugin_of_known_memory_is_clean_once_it_has_seen_as_much(
        frames in frames(),
        there in fates(),
        memory in 0u64..400,
    ) {
        let mut road = Road::new(
            MasterConfig { hold: 512, ..master_config(2) },
            worker_config(Some(memory)),
        );
        road.there = OneWay::new(there);
        for frames in frames.iter().chain([&64; 20]) {
            road.hand_out(*frames);
            road.carry();
            road.pass(PERIOD);
        }
        let (mut next, mut seen) = (0, u64::MAX / 2);
        for turn in &road.turns {
            if turn.block != next {
                seen = 0;
            }
            prop_assert_eq!(turn.clean, seen >= memory);
            seen += u64::from(turn.frames);
            next = turn.block + 1;
        }
    }
}

#[test]
fn block_is_complete_when_each_part_has_arrived() {
    let mut road = Road::new(
        MasterConfig { set: super::road::sound(4096), ..master_config(16) },
        WorkerConfig { set: super::road::sound(4096), ..worker_config(None) },
    );
    let fates = (0..60).map(|at| if at % 3 == 1 { Fate::Lost } else { Fate::Later(1) });
    road.there = OneWay::new(fates.collect());
    road.hand_out(4096);
    road.carry();
    road.hand_out(4096);
    for _ in 0..40 {
        road.carry();
        road.pass(Span::from_millis(50));
    }
    assert!(road.is_true(0) && road.is_true(1));
    // 16 388 bytes in parts of at most 560.
    assert_eq!(road.worker.counters().back.datagrams % 30, 0);
    assert!(road.there.carried >= 60);
}
