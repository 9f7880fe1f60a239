//! How long a host waits for answers.

use tautline_engine::offload::offloaded::{Far, Offloaded, OffloadedConfig, Which};
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::offload::block::BlockLeg;
use tautline_proto::offload::datagram::Flags;
use tautline_proto::time::Span;
use tautline_trial::{Lack, skipped};

use crate::crew::{Crew, DATAGRAM_BYTES, STREAM};
use crate::road::{Fate, Road, smooth};
use crate::stage::{BLOCK, Stage, config};

#[test]
fn awaited_block_is_sent_again_if_its_last_part_was_lost() {
    // Lost block or answer; without later blocks, no request follows.
    let plan = |leg, head: &tautline_proto::offload::datagram::Head| {
        let is_again = head.flags.has(Flags::REPLAY);
        match (leg, head.block) {
            (BlockLeg::There, 10) | (BlockLeg::Back, 20) if !is_again => Fate::Lost,
            _ => Fate::Goes,
        }
    };
    let wait = Span::from_secs(20);
    let mut stage = Stage::new(OffloadedConfig { wait, ..config(0) }, vec![Box::new(plan)]);
    stage.ends[0].0.live();
    (0..40).for_each(|_| stage.rush(BLOCK));
    let waited = stage.offloaded.standing().counters.waited;
    assert!(waited < wait, "{waited}");
    stage.assert_damaged(&[]);
}

#[test]
fn worker_stops_waiting_after_the_blocks_turn() {
    let plan = |leg, head: &tautline_proto::offload::datagram::Head| match leg {
        BlockLeg::Back if (50..62).contains(&head.block) => Fate::Lost,
        _ => Fate::Goes,
    };
    let config = OffloadedConfig { wait: Span::from_millis(2), ..config(1) };
    let mut stage = Stage::new(config, vec![Box::new(plan)]);
    let mut waited_in = Vec::new();
    for run in 0..150 {
        let before = stage.offloaded.standing().counters.waits;
        stage.go(BLOCK);
        waited_in.extend((stage.offloaded.standing().counters.waits > before).then_some(run));
    }
    // Each is due a run later, so a silent worker gets eight waits. Runs that got no core do not
    // wait.
    assert!((1..=8).contains(&waited_in.len()), "{waited_in:?}");
    assert!(waited_in.iter().all(|run| (51..63).contains(run)), "{waited_in:?}");
    stage.assert_damaged(&[50..62]);
}

#[test]
fn render_waits_once_for_a_dead_worker_until_it_sends_again() {
    let wait_offline = Span::from_millis(5);
    let mut stage = Stage::smooth(OffloadedConfig { wait_offline, ..config(1) });
    stage.go_on(50);
    stage.kill_worker();
    let waits_of_ten = |stage: &mut Stage| {
        let before = stage.offloaded.standing().counters.waits;
        for _ in 0..10 {
            stage.offloaded.allow_wait(wait_offline);
            stage.rush(BLOCK);
        }
        stage.offloaded.standing().counters.waits - before
    };
    assert_eq!(waits_of_ten(&mut stage), 1);
    stage.ends[0].1.begin();
    stage.settle();
    stage.go_on(60);
    assert!(stage.offloaded.standing().ends[0].unwrap().clean);
    stage.kill_worker();
    assert!(waits_of_ten(&mut stage) >= 1);
}

#[test]
fn silent_worker_is_not_awaited_until_it_sends_again() {
    let wait = Span::from_millis(1);
    let mut stage = Stage::smooth(OffloadedConfig { wait, ..config(1) });
    stage.go_on(50);
    stage.kill_worker();
    assert_eq!(stage.waits_of(50), 8, "of 50 runs");
    stage.ends[0].1.begin();
    stage.settle();
    stage.go_on(60);
    let standing = stage.offloaded.standing();
    assert!(standing.ends[0].unwrap().clean, "{standing:?}");
    stage.kill_worker();
    let waits = stage.waits_of(50);
    assert!((8..25).contains(&waits), "{waits} of 50 runs waited");
}

#[test]
fn patient_host_waits_after_any_number_of_failures() {
    let mut stage = Stage::smooth(config(1));
    stage.go_on(50);
    stage.kill_worker();
    let before = stage.offloaded.standing().counters.waits;
    for _ in 0..30 {
        stage.offloaded.allow_wait(Span::from_millis(5));
        stage.rush(BLOCK);
    }
    let waits = stage.offloaded.standing().counters.waits - before;
    assert!(waits >= 16, "{waits} of 30 runs waited");
}

fn waits_of_a_hurry() -> (u64, bool) {
    let mut stage =
        Stage::smooth(OffloadedConfig { wait_offline: Span::from_millis(5), ..config(1) });
    stage.go_on(50);
    stage.kill_worker();
    let waits = stage.waits_of(1000);
    (waits, stage.outcome.offline)
}

#[test]
fn real_time_thread_never_waits_however_fast_it_runs() {
    let on = |scheduler| {
        let (thread, granted) = spawn("host", scheduler, 0, waits_of_a_hurry).unwrap();
        (thread.join().unwrap(), granted)
    };
    let ((waits, hurried), _) = on(Scheduler::Other);
    assert!(waits > 0 && hurried, "{waits} waits of a render");
    let ((waits, hurried), granted) = on(Scheduler::Fifo(10));
    if !granted.is_granted() {
        return skipped(Lack::Privilege, &granted.to_string());
    }
    assert_eq!((waits, hurried), (0, true));
}

#[test]
fn render_continues_with_a_replacement_worker() {
    let wait_offline = Span::from_secs(20);
    let config = OffloadedConfig { wait_offline, ..config(1) };
    let mut stage = Stage::smooth(config);
    let run = |stage: &mut Stage| {
        stage.offloaded.allow_wait(wait_offline);
        stage.rush(BLOCK);
    };
    stage.ends[0].0.live();
    (0..50).for_each(|_| run(&mut stage));
    stage.kill_worker();
    let (_, other) = Offloaded::new(config).unwrap();
    let mut attendant = core::mem::replace(&mut stage.attendant, other);
    let left_over = stage.ends[0].1.left_over();
    let crew = Crew::new(None);
    let road = Road::to(crew.address(), DATAGRAM_BYTES, smooth());
    road.live();
    let far = Far::new(Box::new(road.clone()), STREAM);
    let comes = std::thread::spawn(move || {
        left_over.await_insisting();
        assert!(attendant.detach(Which::Worker));
        while attendant.take_gone().is_none() {
            std::thread::yield_now();
        }
        assert!(attendant.attach(Which::Worker, far).is_ok());
    });
    (0..50).for_each(|_| run(&mut stage));
    comes.join().unwrap();
    stage.ends.push((road, crew));
    let waited = stage.offloaded.standing().counters.waited;
    assert!(waited < wait_offline, "{waited}");
    stage.assert_damaged(&[]);
}
