//! Workers that stop, die, restart, start late, and replace each other.

use tautline_engine::offload::offloaded::{Far, Offloaded, OffloadedConfig, Which};
use tautline_io::thread::float_mode::FloatMode;
use tautline_proto::offload::returns::Cause;

use crate::crew::{Crew, DATAGRAM_BYTES, STREAM};
use crate::road::{Road, smooth};
use crate::stage::{BLOCK, Stage, config};

#[test]
fn stalled_worker_damages_only_blocks_due_meanwhile() {
    let mut stage = Stage::smooth(config(1));
    stage.go_on(50);
    let held = stage.ends[0].1.hold_of();
    let standing = Crew::hold(&held);
    (0..10).for_each(|_| stage.rush(BLOCK));
    drop(standing);
    stage.settle();
    stage.go_on(60);
    stage.assert_damaged(&[50..59]);
    let frames = 50 * BLOCK as u64..59 * BLOCK as u64;
    assert_eq!(stage.ledger(), [(frames, Cause::Late)]);
}

#[test]
fn restarted_worker_gets_missed_blocks_and_recovers() {
    let mut stage = Stage::smooth(config(1));
    stage.go_on(50);
    stage.kill_worker();
    (0..10).for_each(|_| stage.rush(BLOCK));
    stage.ends[0].1.begin();
    stage.settle();
    stage.go_on(60);
    let missed = stage.missed(1);
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert!(missed[0].start == 50 && missed[0].end < 80, "{missed:?}");
    stage.assert_damaged(&missed);
}

#[test]
fn worker_restarted_beyond_the_history_is_logged_as_dirty() {
    let config = OffloadedConfig { history: 32, ..config(1) };
    let mut stage = Stage::smooth(config);
    stage.go_on(100);
    stage.kill_worker();
    stage.rush(BLOCK);
    stage.ends[0].1.begin();
    stage.settle();
    stage.go_on(60);
    assert!(!stage.offloaded.standing().ends[0].unwrap().clean);
    let differing = stage.differing();
    assert!(differing.iter().all(|frame| *frame >= 100 * BLOCK as u64));
    stage.activate();
    stage.go_on(50);
    stage.assert_damaged(&[]);
    assert!(stage.offloaded.standing().ends[0].unwrap().clean);
    let ledger = stage.ledger();
    assert!(ledger.iter().any(|(_, cause)| *cause == Cause::Dirty), "{ledger:?}");
}

#[test]
fn killing_one_of_two_workers_changes_no_sample() {
    for killed in [0, 1] {
        let mut stage = Stage::new(config(1), vec![smooth(), smooth()]);
        stage.go_on(50);
        stage.ends[killed].1.end();
        let (road, _) = stage.ends.remove(killed);
        stage.go_on(50);
        stage.assert_damaged(&[]);
        assert_eq!(stage.ledger(), []);
        assert!(road.arrived(10).is_some(), "both had the same to do");
    }
}

#[test]
fn killing_one_of_two_workers_mid_block_changes_no_sample() {
    for killed in [0, 1] {
        let mut stage = Stage::new(config(1), vec![smooth(), smooth()]);
        stage.go_on(50);
        stage.rush(BLOCK);
        stage.ends[killed].1.end();
        stage.ends.remove(killed);
        stage.settle();
        stage.go_on(50);
        stage.assert_damaged(&[]);
        assert_eq!(stage.ledger(), []);
    }
}

#[test]
fn worker_attached_late_plays_as_if_always_attached() {
    let mut stage = Stage::new(config(1), Vec::new());
    (0..20).for_each(|_| stage.rush(BLOCK));
    let crew = Crew::new(None);
    let road = Road::to(crew.address(), DATAGRAM_BYTES, smooth());
    let far = Far::new(Box::new(road.clone()), STREAM);
    assert!(stage.attendant.attach(Which::Worker, far).is_ok());
    stage.ends.push((road, crew));
    stage.go_on(60);
    let missed = stage.missed(1);
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert!(missed[0].start == 0 && missed[0].end < 40, "{missed:?}");
    stage.assert_damaged(&missed);
    let ledger = stage.ledger();
    assert_eq!(ledger[0].1, Cause::NoWorker);
}

#[test]
fn detached_worker_is_returned_and_its_runs_play_dry() {
    let mut stage = Stage::smooth(config(1));
    stage.go_on(20);
    assert!(stage.attendant.take_gone().is_none());
    assert!(stage.attendant.detach(Which::Worker));
    stage.rush(BLOCK);
    let gone = stage.attendant.take_gone();
    assert_eq!(gone.map(|far| far.stream), Some(STREAM));
    (0..20).for_each(|_| stage.rush(BLOCK));
    let standing = stage.offloaded.standing();
    assert!(standing.ends[0].is_none());
    assert_eq!(stage.outcome.concealed, BLOCK as u32);
}

#[test]
fn unrequested_spare_has_no_place() {
    let (mut offloaded, _attendant) = Offloaded::new(config(1)).unwrap();
    let crew = Crew::new(None);
    let road = Road::to(crew.address(), DATAGRAM_BYTES, smooth());
    let back = offloaded.attach(Which::Spare, Far::new(Box::new(road), STREAM));
    assert!(back.is_some());
}

#[test]
fn a_new_activation_begins_with_a_plugin_that_was_reset() {
    let mut stage = Stage::smooth(config(2));
    for runs in [30, 1, 40] {
        stage.go_on(runs);
        stage.assert_damaged(&[]);
        stage.activate();
    }
}

#[test]
fn a_worker_computes_in_the_float_mode_of_the_hosts_thread() {
    let Some(before) = FloatMode::current() else { return };
    let flushing = FloatMode { flush_to_zero: true, denormals_are_zero: true };
    let mut stage = Stage::smooth(config(1));
    stage.go_on(3);
    {
        let _mode = flushing.set();
        stage.go_on(3);
    }
    stage.go_on(3);
    let seen = stage.ends[0].1.modes.lock().unwrap().clone();
    assert_eq!(seen, [before, flushing, before]);
}

#[test]
fn longer_blocks_grow_the_window_once_and_are_logged() {
    let mut stage = Stage::smooth(config(1));
    stage.go_on(40);
    stage.go(2 * BLOCK);
    let grown = stage.offloaded.standing().delay;
    assert_eq!(grown, 2 * BLOCK as u32);
    stage.go_on(40);
    assert_eq!(stage.offloaded.standing().delay, grown);
    let ledger = stage.ledger();
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    assert_eq!(ledger[0].1, Cause::Grown);
    assert_eq!(ledger[0].0.end - ledger[0].0.start, BLOCK as u64);
}

#[test]
fn damage_at_the_end_of_a_render_is_reported_by_finish() {
    let mut stage = Stage::smooth(config(1));
    stage.go_on(20);
    stage.kill_worker();
    (0..5).for_each(|_| stage.rush(BLOCK));
    assert!(stage.attendant.take_damage().is_none(), "it might still come late");
    stage.offloaded.finish();
    let damage = stage.attendant.take_damage().unwrap();
    assert_eq!((damage.from, damage.frames), (20 * BLOCK as u64, 4 * BLOCK as u32));
}
