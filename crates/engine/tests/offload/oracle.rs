//! Loss, delay, duplication and reordering damage exactly the predicted frames.

use tautline_engine::offload::offloaded::OffloadedConfig;
use tautline_proto::offload::block::BlockLeg;
use tautline_proto::offload::datagram::{DatagramKind, Flags, Head};
use tautline_proto::offload::returns::{Cause, Replacement};

use crate::road::{Fate, Plan, smooth};
use crate::stage::{BLOCK, Stage, config};

fn first_time(leg: BlockLeg, mut fate: impl FnMut(u64) -> Fate + Send + 'static) -> Plan {
    let mut first = 0;
    Box::new(move |way, head: &Head| {
        let again = head.flags.has(Flags::REPLAY) || head.block < first;
        if way != leg || head.kind != DatagramKind::Block || again {
            return Fate::Goes;
        }
        first = head.block + 1;
        fate(head.block)
    })
}

fn lost(leg: BlockLeg, blocks: core::ops::Range<u64>) -> Plan {
    first_time(leg, move |block| if blocks.contains(&block) { Fate::Lost } else { Fate::Goes })
}

fn frames(blocks: core::ops::Range<u64>) -> core::ops::Range<u64> {
    blocks.start * BLOCK as u64..blocks.end * BLOCK as u64
}

#[test]
fn an_answer_that_is_lost_spoils_its_own_frames() {
    for (window, damaged) in [(1, vec![50..51]), (2, vec![50..51]), (3, vec![])] {
        let mut stage = Stage::new(config(window), vec![lost(BlockLeg::Back, 50..51)]);
        stage.go_on(120);
        assert_eq!(stage.missed(window.into()), damaged, "window {window}: as the road saw it");
        stage.assert_damaged(&damaged);
        let expected: Vec<_> =
            damaged.into_iter().map(|blocks| (frames(blocks), Cause::Late)).collect();
        assert_eq!(stage.ledger(), expected, "window {window}");
    }
}

#[test]
fn lost_block_delays_later_blocks_until_retransmission() {
    for (window, damaged) in [(1, vec![50..52]), (2, vec![50..51]), (3, vec![])] {
        let mut stage = Stage::new(config(window), vec![lost(BlockLeg::There, 50..51)]);
        stage.go_on(120);
        assert_eq!(stage.missed(window.into()), damaged, "window {window}: as the road saw it");
        stage.assert_damaged(&damaged);
    }
}

#[test]
fn a_copy_beside_the_next_block_saves_one_that_is_lost() {
    let config = OffloadedConfig { copies: 1, ..config(2) };
    let mut stage = Stage::new(config, vec![lost(BlockLeg::There, 50..51)]);
    stage.go_on(120);
    stage.assert_damaged(&[]);
    assert_eq!(stage.ledger(), []);
}

#[test]
fn runs_without_frames_are_handed_on_as_the_host_makes_them() {
    let mut stage = Stage::smooth(config(1));
    let blocks = [0, BLOCK, 0, 0, 17, BLOCK, 0];
    blocks.into_iter().for_each(|frames| stage.go(frames));
    stage.go_on(5);
    let worker = stage.offloaded.standing().ends[0].unwrap().machine;
    assert_eq!((worker.there.blocks, worker.back.blocks), (12, 11));
    assert_eq!(stage.offloaded.standing().delay, BLOCK as u32);
    stage.assert_damaged(&[]);
}

#[test]
fn burst_loss_damages_delayed_blocks_but_not_the_state() {
    for (window, damaged) in [(1, 50..56), (2, 50..55)] {
        let mut stage = Stage::new(config(window), vec![lost(BlockLeg::There, 50..55)]);
        stage.go_on(200);
        let damaged = [damaged];
        assert_eq!(stage.missed(window.into()), damaged, "window {window}");
        stage.assert_damaged(&damaged);
    }
}

#[test]
fn answers_in_another_order_or_twice_spoil_nothing() {
    let swapped = |block| if block % 10 == 3 { Fate::Held(block + 2) } else { Fate::Goes };
    let twice = |_| Fate::Twice;
    let plans = [
        first_time(BlockLeg::Back, swapped),
        first_time(BlockLeg::There, swapped),
        first_time(BlockLeg::Back, twice),
        first_time(BlockLeg::There, twice),
    ];
    for plan in plans {
        let mut stage = Stage::new(config(3), vec![plan]);
        stage.go_on(120);
        stage.assert_damaged(&[]);
        assert_eq!(stage.ledger(), []);
    }
}

#[test]
fn late_answers_damage_their_own_frames_as_late() {
    let late = |block| if (50..53).contains(&block) { Fate::Held(block + 4) } else { Fate::Goes };
    let plan: Plan = {
        let mut first = first_time(BlockLeg::Back, late);
        Box::new(move |leg, head| match first(leg, head) {
            Fate::Goes if leg == BlockLeg::Back && head.flags.has(Flags::REPLAY) => Fate::Lost,
            fate => fate,
        })
    };
    let mut stage = Stage::new(config(1), vec![plan]);
    stage.go_on(120);
    stage.assert_damaged(&[50..53]);
    assert_eq!(stage.ledger(), [(frames(50..53), Cause::Late)]);
}

#[test]
fn concealed_blocks_change_no_other_frames() {
    for replacement in
        [Replacement::Matched, Replacement::Dry, Replacement::Conceal, Replacement::LastGood]
    {
        let config = OffloadedConfig { replacement, ..config(1) };
        let mut stage = Stage::new(config, vec![lost(BlockLeg::Back, 50..54)]);
        stage.go_on(120);
        stage.assert_damaged(&[50..54]);
    }
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, percent: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % 100 < percent
    }
}

fn spoils_what_did_not_come(plan: Plan, window: u32, runs: u64) {
    let mut stage = Stage::new(config(window), vec![plan]);
    stage.go_on(runs);
    let missed = stage.missed(window.into());
    assert!(!missed.is_empty(), "the plan lost nothing that mattered");
    stage.assert_damaged(&missed);
    stage.ends[0].0.set_plan(smooth());
    let end = missed.last().map_or(0, |last| frames(last.clone()).end);
    let mut reported: Vec<core::ops::Range<u64>> = Vec::new();
    for (one, _) in stage.ledger().into_iter().filter(|(one, _)| one.start < end) {
        match reported.last_mut() {
            Some(last) if last.end == one.start => last.end = one.end.min(end),
            _ => reported.push(one.start..one.end.min(end)),
        }
    }
    assert_eq!(reported, missed.into_iter().map(frames).collect::<Vec<_>>(), "in the ledger");
}

#[test]
fn five_percent_loss_damages_only_late_blocks() {
    for (window, seed) in [(1, 11), (2, 12), (3, 13)] {
        let mut chance = Chance(seed);
        let plan: Plan = Box::new(move |_, head| {
            let first = head.kind == DatagramKind::Block && !head.flags.has(Flags::REPLAY);
            if first && chance.below(5) { Fate::Lost } else { Fate::Goes }
        });
        spoils_what_did_not_come(plan, window, 1000);
    }
}

#[test]
fn burst_loss_both_ways_conceals_only_late_blocks() {
    for (window, seed) in [(2, 21), (3, 22)] {
        // Requests and retransmissions get lost too, and time out later than these runs.
        // Gilbert-Elliott: one in 50 begins a burst, one in four ends it, three of four are lost.
        let (mut chance, mut bad) = (Chance(seed), false);
        let plan: Plan = Box::new(move |_, _| {
            bad = if bad { !chance.below(25) } else { chance.below(2) };
            if bad && chance.below(75) { Fate::Lost } else { Fate::Goes }
        });
        spoils_what_did_not_come(plan, window, 1000);
    }
}
