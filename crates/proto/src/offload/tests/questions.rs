//! Requests of a worker.

use super::road::{Fate, OneWay, Recursive, Road, STREAM, master_config, sound, worker_config};
use crate::offload::datagram::{DatagramKind, Flags, HEAD_BYTES, Head, MIN_DATAGRAM_BYTES};
use crate::offload::inbound::{Handled, PluginState};
use crate::offload::master::MasterConfig;
use crate::offload::outbound::OutboundBlocks;
use crate::offload::worker::{Worker, WorkerConfig};
use crate::time::{LocalTime, Span};

fn with_losses(count: u64, lost: &[u64], worker: WorkerConfig) -> Road {
    let mut road = Road::new(master_config(64), worker);
    let fates = (0..count).map(|at| if lost.contains(&at) { Fate::Lost } else { Fate::Arrives });
    road.there = OneWay::new(fates.collect());
    (0..count).for_each(|_| {
        road.hand_out(64);
    });
    let mut room = [0; 600];
    while let Some(len) = road.master.poll(&mut room) {
        road.there.carry(&room[..len], |datagram| {
            road.worker.handle(datagram, road.now);
        });
    }
    road
}

fn requests(worker: &mut Worker, now: LocalTime) -> Vec<(u64, u64)> {
    let mut room = [0; MIN_DATAGRAM_BYTES];
    let mut requested = Vec::new();
    while let Some(len) = worker.poll_ask(now, &mut room) {
        let (head, body) = Head::read(&room[..len]).unwrap();
        assert_eq!((head.kind, len), (DatagramKind::Request, HEAD_BYTES + 16));
        let number = |at: usize| u64::from_be_bytes(body[at..at + 8].try_into().unwrap());
        requested.push((number(0), number(8)));
    }
    requested
}

#[test]
fn each_gap_is_requested_immediately_and_once() {
    let mut road = with_losses(10, &[2, 5, 6], worker_config(None));
    assert_eq!(requests(&mut road.worker, road.now), [(2, 3), (5, 7)]);
    assert_eq!(requests(&mut road.worker, road.now + Span::from_millis(4)), []);
}

#[test]
fn unanswered_request_is_retried_with_backoff() {
    let mut road = with_losses(3, &[1], worker_config(None));
    let mut now = road.now;
    assert_eq!(requests(&mut road.worker, now), [(1, 2)]);
    let mut waits = Vec::new();
    for _ in 0..6 {
        let deadline = road.worker.deadline();
        assert_eq!(requests(&mut road.worker, deadline - Span::from_nanos(1)), []);
        assert_eq!(requests(&mut road.worker, deadline), [(1, 2)]);
        waits.push((deadline - now).as_nanos() / 1_000_000);
        now = deadline;
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160]);
}

#[test]
fn nothing_is_requested_while_nothing_is_missing() {
    let mut road = with_losses(10, &[], worker_config(None));
    assert_eq!(requests(&mut road.worker, road.now), []);
    assert!(road.worker.deadline().is_never());
}

#[test]
fn lost_last_part_is_requested_when_nothing_follows() {
    let mut road = Road::new(master_config(8), worker_config(None));
    road.there = OneWay::new(vec![Fate::Arrives, Fate::Lost]);
    road.hand_out(256);
    road.carry();
    assert!(road.turns.is_empty());
    assert_eq!(road.worker.deadline(), road.now + Span::from_millis(5));
    road.pass(Span::from_millis(5));
    road.carry();
    assert!(road.is_true(0));
}

#[test]
fn late_worker_gets_the_whole_epoch() {
    let mut road = Road::new(master_config(64), worker_config(None));
    let late = core::mem::replace(&mut road.worker, Worker::new(worker_config(None)).unwrap());
    (0..40).for_each(|_| {
        road.hand_out(64);
    });
    road.carry();
    (road.worker, road.plugin) = (late, Recursive::default());
    road.turns.clear();
    for _ in 0..12 {
        road.hand_out(64);
        road.carry();
        road.pass(Span::from_micros(1333));
    }
    assert!(road.turns[0].restart && road.turns.iter().all(|turn| turn.clean));
    assert_eq!(road.turns.len(), 52);
    assert!((0..52).all(|block| road.is_true(block)));
}

#[test]
fn too_late_worker_gets_kept_blocks_and_is_dirty() {
    let config = MasterConfig { hold: 64, ..master_config(10) };
    let mut road = Road::new(config, worker_config(None));
    road.there = OneWay::new(vec![Fate::Lost; 30]);
    (0..30).for_each(|_| {
        road.hand_out(64);
        road.carry();
    });
    // Only a few are replayed with each.
    (0..2).for_each(|_| {
        road.hand_out(64);
        road.carry();
    });
    let ran: Vec<u64> = road.turns.iter().map(|turn| turn.block).collect();
    assert_eq!(ran, (21..=31).collect::<Vec<_>>());
    assert!(road.turns[0].restart && road.turns.iter().all(|turn| !turn.clean));
    assert_eq!(road.worker.state(), PluginState::Dirty(0));
    assert_eq!(road.worker.counters().there.gone, 0, "none after the first that ran");
    assert!(!road.answer(30).unwrap().1);
}

#[test]
fn retransmissions_leave_after_new_blocks_a_few_at_a_time() {
    let mut road = Road::new(master_config(256), worker_config(None));
    road.there = OneWay::new(vec![Fate::Lost; 200]);
    (0..200).for_each(|_| {
        road.hand_out(64);
    });
    let mut room = [0; 600];
    while road.master.poll(&mut room).is_some() {}
    let mut request = [0; HEAD_BYTES + 16];
    request[HEAD_BYTES + 8..].copy_from_slice(&200u64.to_be_bytes());
    let head = Head::alongside(DatagramKind::Request, super::road::STREAM, road.master.epoch(), 0);
    head.write(request.first_chunk_mut().unwrap());
    let handled = road.master.handle(&request, road.now);
    assert_eq!(handled, Handled::Request { from: 0, until: 200 });
    let mut left = |road: &mut Road| {
        let mut left = Vec::new();
        while let Some(len) = road.master.poll(&mut room) {
            left.push(Head::read(&room[..len]).unwrap().0.block);
        }
        left
    };
    let maximum = u64::from(OutboundBlocks::REPLAYS);
    assert_eq!(left(&mut road), (0..maximum).collect::<Vec<_>>());
    road.hand_out(64);
    let expected: Vec<u64> = core::iter::once(200).chain(maximum..2 * maximum).collect();
    assert_eq!(left(&mut road), expected);
}

#[test]
fn too_late_successor_gets_only_the_last_blocks() {
    for (handed_out, first) in [(64_u64, 0), (200, 200 - OutboundBlocks::CAUGHT_UP)] {
        let mut road = Road::new(master_config(64), worker_config(None));
        let mut room = [0; 600];
        (0..handed_out).for_each(|_| {
            road.hand_out(64);
            while road.master.poll(&mut room).is_some() {}
        });
        road.master.retarget(9);
        let mut request = [0; HEAD_BYTES + 16];
        request[HEAD_BYTES + 8..].copy_from_slice(&handed_out.to_be_bytes());
        let head = Head::alongside(DatagramKind::Request, 9, road.master.epoch(), 0);
        head.write(request.first_chunk_mut().unwrap());
        road.master.handle(&request, road.now);
        let mut left = Vec::new();
        while let Some(len) = road.master.poll(&mut room) {
            let head = Head::read(&room[..len]).unwrap().0;
            match head.kind {
                DatagramKind::Gone => assert_eq!(head.block, first, "of {handed_out}"),
                _ => left.push(head.block),
            }
        }
        let end = handed_out.min(first + u64::from(OutboundBlocks::REPLAYS));
        assert_eq!(left, (first..end).collect::<Vec<_>>(), "of {handed_out}");
    }
}

#[test]
fn restarted_worker_answers_in_time_after_four_blocks() {
    let config = || MasterConfig { hold: 256, ..master_config(256) };
    let worker = || WorkerConfig { history: 256, hold: 256, ..worker_config(None) };
    for (blocks, is_dirty) in [(250, false), (1000, true)] {
        let mut road = Road::new(config(), worker());
        (0..blocks).for_each(|_| {
            road.hand_out(64);
            road.carry();
            road.master.release(road.master.next());
        });
        // The next process serves the same stream.
        (road.worker, road.plugin) = (Worker::new(worker()).unwrap(), Recursive::default());
        for _ in 0..4 {
            road.hand_out(64);
            road.carry();
            road.pass(Span::from_micros(1333));
        }
        let last = road.turns.last().map(|turn| (turn.block, turn.clean));
        assert_eq!(last, Some((blocks + 3, !is_dirty)), "of {blocks}");
    }
}

#[test]
fn lost_answer_is_sent_again_on_request() {
    let mut road = Road::new(master_config(8), worker_config(None));
    road.back = OneWay::new(vec![Fate::Lost]);
    road.hand_out(64);
    road.carry();
    assert!(road.answer(0).is_none());
    road.master.insist(0);
    road.carry();
    assert!(road.is_true(0));
    assert_eq!(road.turns.len(), 1);
}

#[test]
fn new_epoch_resets_the_plugin_and_drops_old_blocks() {
    let mut road = Road::new(master_config(8), worker_config(None));
    road.there = OneWay::new(vec![Fate::Later(2)]);
    road.hand_out(64);
    road.carry();
    road.master.begin();
    road.truth.clear();
    road.hand_out(64);
    road.carry();
    road.hand_out(64);
    road.carry();
    let began: Vec<(u32, u64, bool)> =
        road.turns.iter().map(|turn| (turn.epoch, turn.block, turn.restart)).collect();
    assert_eq!(began, [(2, 0, true), (2, 1, false)]);
    assert_eq!(road.worker.counters().there.old, 1);
}

#[test]
fn requested_block_still_arriving_is_requested_again() {
    let master = MasterConfig { set: sound(512), ..master_config(8) };
    let worker = WorkerConfig { set: sound(512), ..worker_config(None) };
    let mut road = Road::new(master, worker);
    road.hand_out(512);
    let mut parts = Vec::new();
    let mut room = [0; 600];
    while let Some(len) = road.master.poll(&mut room) {
        parts.push(room[..len].to_vec());
    }
    assert_eq!(parts.len(), 4);
    road.worker.handle(&parts[0], road.now);
    road.pass(Span::from_millis(5));
    assert_eq!(requests(&mut road.worker, road.now), [(0, 1)]);
    road.worker.handle(&parts[1], road.now);
    assert_eq!(requests(&mut road.worker, road.now), []);
    // The requested block is lost too.
    road.pass(Span::from_millis(40));
    assert_eq!(requests(&mut road.worker, road.now), [(0, 1)]);
}

#[test]
fn of_long_blocks_fewer_are_replayed_at_a_time_but_two() {
    let mut left = Vec::new();
    for frames in [256, 8_000, 20_000, 60_000] {
        let config = MasterConfig { set: sound(65_536), datagram_bytes: 9000, ..master_config(80) };
        let mut road = Road::new(config, worker_config(None));
        let mut room = vec![0; 9000];
        for block in 0..80 {
            road.master.room(frames).unwrap();
            assert_eq!(road.master.commit(Flags::NONE), block);
        }
        while road.master.poll(&mut room).is_some() {}
        (0..80).for_each(|block| road.master.insist(block));
        let mut blocks = std::collections::BTreeSet::new();
        while let Some(len) = road.master.poll(&mut room) {
            blocks.insert(Head::read(&room[..len]).unwrap().0.block);
        }
        left.push(blocks.len());
    }
    // 256 KiB: 64 blocks of 1 kB, eight of 32 kB, three of 80 kB, one of 240 kB.
    assert_eq!(left, [64, 8, 3, 2]);
}

#[test]
fn a_number_that_no_other_is_near_to_moves_nothing() {
    let mut road = Road::new(master_config(64), worker_config(None));
    let hand_out = |road: &mut Road, count: u64| {
        (0..count).for_each(|_| {
            road.hand_out(64);
            road.carry();
        });
    };
    hand_out(&mut road, 10);
    let epoch = road.master.epoch();
    let far = (1 << 40) - 1;
    let mut room = [0; 600];
    for (kind, handled) in
        [(DatagramKind::Block, Handled::Early), (DatagramKind::Gone, Handled::Gone(far))]
    {
        let head = Head::alongside(kind, STREAM, epoch, far);
        let len = head.with_body(&far.to_be_bytes(), &mut room).unwrap();
        assert_eq!(road.worker.handle(&room[..len], LocalTime::ZERO), handled);
    }
    assert_eq!(road.worker.behind(), 0);
    hand_out(&mut road, 10);
    assert_eq!(road.worker.counters().there.gone, 0);
    assert!((0..20).all(|block| road.is_true(block)));
}

#[test]
fn request_for_a_forgotten_block_is_not_answered() {
    let mut road = Road::new(master_config(2), worker_config(None));
    (0..9).for_each(|_| {
        road.hand_out(64);
    });
    let mut room = [0; 600];
    while road.master.poll(&mut room).is_some() {}
    (0..6).for_each(|block| road.master.insist(block));
    road.master.insist(u64::MAX - 1);
    assert_eq!(road.master.poll(&mut room), None);
}
