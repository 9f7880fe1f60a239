//! Without loss, all samples are the plugin's, exactly delayed.

use core::sync::atomic::Ordering;

use tautline_engine::offload::delay::OffloadDelay;
use tautline_engine::offload::offloaded::OffloadedConfig;
use tautline_proto::time::Span;

use crate::crew::OWN_LATENCY;
use crate::stage::{BLOCK, Stage, config};

#[test]
fn remote_plugin_output_is_bit_exact_one_window_later() {
    for window in 1..4 {
        let mut stage = Stage::smooth(config(window));
        stage.go_on(200);
        stage.assert_damaged(&[]);
        stage.assert_controls(window as usize);
        let latency = window * BLOCK as u32 + OWN_LATENCY;
        assert_eq!(stage.offloaded.latency(), latency);
        assert_eq!(stage.ledger(), []);
    }
}

#[test]
fn impossible_plugin_latency_is_not_passed_to_the_host() {
    let mut stage = Stage::smooth(config(1));
    stage.go_on(50);
    let latency = BLOCK as u32 + OWN_LATENCY;
    for nonsense in [u32::MAX, 11 * 192_000] {
        stage.ends[0].1.latency.store(nonsense, Ordering::Relaxed);
        stage.go_on(50);
        assert_eq!(stage.offloaded.latency(), latency);
    }
    stage.ends[0].1.latency.store(500, Ordering::Relaxed);
    stage.go_on(50);
    assert_eq!(stage.offloaded.latency(), BLOCK as u32 + 500);
}

#[test]
fn without_a_window_a_run_waits_for_its_own_answer() {
    let wait = Span::from_secs(20);
    let mut stage = Stage::smooth(OffloadedConfig { wait, ..config(0) });
    stage.ends[0].0.live();
    for _ in 0..100 {
        stage.rush(BLOCK);
    }
    stage.assert_damaged(&[]);
    stage.assert_controls(0);
}

#[test]
fn blocks_of_any_length_come_back_by_the_same_number_of_frames() {
    let delay = OffloadDelay::Frames(300);
    let mut stage = Stage::smooth(OffloadedConfig { delay, ..config(0) });
    for frames in [64, 1, 256, 255, 0, 17, 64, 3, 200, 31, 256, 256, 100].repeat(10) {
        stage.go(frames);
    }
    stage.assert_damaged(&[]);
    assert_eq!(stage.offloaded.standing().delay, 300);
}

#[test]
fn more_runs_in_flight_than_history_lose_no_sample() {
    let delay = OffloadDelay::Frames(100 * BLOCK as u32);
    let mut stage = Stage::smooth(OffloadedConfig { delay, history: 24, ..config(0) });
    stage.go_on(400);
    stage.assert_damaged(&[]);
    assert_eq!(stage.offloaded.standing().counters.crowded, 0);
    stage.kill_worker();
    (0..200).for_each(|_| stage.rush(BLOCK));
    assert!(stage.offloaded.standing().counters.crowded > 0);
}

#[test]
fn a_run_longer_than_agreed_is_taken_in_parts() {
    let delay = OffloadDelay::Frames(1000);
    let mut stage = Stage::smooth(OffloadedConfig { delay, ..config(0) });
    for frames in [1000, 256, 257, 700].repeat(5) {
        stage.go(frames);
    }
    stage.assert_damaged(&[]);
}
