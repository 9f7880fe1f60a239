//! Two workers with the same blocks, and hosts faster than real time.

use crate::offload::datagram::Flags;
use crate::offload::master::BlockAnswer;
use crate::offload::master::choose_answer;
use crate::offload::pace::{HeldUp, RunPace};
use crate::time::{LocalTime, Span};
use crate::units::Rate;

fn answer(arrived: i64, dirty: bool) -> BlockAnswer<'static> {
    let flags = if dirty { Flags::DIRTY } else { Flags::NONE };
    BlockAnswer {
        bytes: &[],
        position: 0,
        frames: 64,
        flags,
        latency: 0,
        arrived: LocalTime::from_nanos(arrived),
    }
}

#[test]
fn first_clean_answer_is_played_else_a_dirty_one() {
    let chosen = |answers: &[(usize, BlockAnswer<'static>)]| {
        let chosen = choose_answer(answers.iter().copied())?;
        Some((chosen.worker, chosen.clean))
    };
    let (early, late) = (answer(1, false), answer(2, false));
    let (dirty_early, dirty_late) = (answer(1, true), answer(2, true));
    assert_eq!(chosen(&[]), None);
    assert_eq!(chosen(&[(0, late), (1, early)]), Some((1, true)));
    let skipped = BlockAnswer { flags: Flags::DIRTY.with(Flags::SKIPPED), ..early };
    assert_eq!(chosen(&[(0, skipped), (1, dirty_late)]), Some((1, false)));
    assert_eq!(chosen(&[(0, skipped)]), Some((0, false)));
    assert_eq!(chosen(&[(0, dirty_early), (1, late)]), Some((1, true)));
    assert_eq!(chosen(&[(1, dirty_late), (0, dirty_early)]), Some((0, false)));
    assert_eq!(chosen(&[(1, dirty_late)]), Some((1, false)));
    assert_eq!(chosen(&[(1, early), (0, early)]), Some((0, true)));
}

struct Runs {
    pace: RunPace,
    now: LocalTime,
    in_vain: Span,
}

impl Runs {
    fn new() -> Self {
        let pace = RunPace::new(Rate::new(48_000).unwrap());
        Self { pace, now: LocalTime::ZERO, in_vain: Span::ZERO }
    }

    /// Runs of 480 frames (10 ms), one per `every`.
    fn run(&mut self, count: u32, every: Span, waited: Span) -> bool {
        for _ in 0..count {
            self.now += every;
            self.pace.observe(480, self.now, HeldUp { span: waited, in_vain: self.in_vain });
        }
        self.pace.is_faster()
    }
}

#[test]
fn a_host_in_real_time_is_never_taken_for_a_render() {
    let mut runs = Runs::new();
    assert!(!runs.run(6000, Span::from_millis(10), Span::ZERO));
    assert!(!runs.run(1, Span::from_millis(200), Span::ZERO));
    assert!(!runs.run(20, Span::from_micros(50), Span::ZERO));
    assert!(!runs.run(100, Span::from_millis(10), Span::ZERO));
    // Catches up fully.
    for (stall, runs_behind) in [(900, 89), (8000, 799)] {
        assert!(!runs.run(1, Span::from_millis(stall), Span::ZERO));
        assert!(!runs.run(runs_behind, Span::from_micros(50), Span::ZERO), "after {stall} ms");
        assert!(!runs.run(100, Span::from_millis(10), Span::ZERO));
    }
    assert!(!runs.run(1, Span::from_millis(900), Span::ZERO));
    assert!(!runs.run(178, Span::from_millis(5), Span::ZERO));
    assert!(!runs.run(1, Span::from_secs(60), Span::ZERO));
    assert!(!runs.run(100, Span::from_millis(10), Span::ZERO));
}

#[test]
fn a_card_that_is_fast_never_makes_a_host_a_render() {
    let mut runs = Runs::new();
    // 500 ppm for three hours: five seconds ahead.
    for _ in 0..1_080_000 {
        assert!(!runs.run(1, Span::from_micros(9_995), Span::ZERO), "at {:?}", runs.now);
    }
}

#[test]
fn render_and_its_end_are_detected_within_a_second() {
    let mut runs = Runs::new();
    runs.run(1000, Span::from_millis(10), Span::ZERO);
    assert!(runs.run(60, Span::from_millis(1), Span::ZERO));
    // Waiting slows it down: still a render.
    assert!(runs.run(1000, Span::from_millis(20), Span::from_millis(19)));
    assert!(!runs.run(60, Span::from_millis(10), Span::ZERO));
}

#[test]
fn rendering_host_waits_only_while_it_is_ahead() {
    let mut runs = Runs::new();
    assert_eq!(runs.pace.timeout(), Span::ZERO);
    // 27 runs are 267 ms ahead, perhaps filling buffers.
    assert!(runs.run(28, Span::from_micros(100), Span::ZERO));
    let timeout = runs.pace.timeout();
    assert!((Span::from_millis(200)..Span::from_millis(220)).contains(&timeout), "{timeout}");
    runs.in_vain = timeout;
    runs.run(1, runs.in_vain, runs.in_vain);
    assert!(runs.pace.timeout() < Span::from_millis(11), "{}", runs.pace.timeout());
    runs.in_vain = Span::ZERO;
    assert!(runs.run(1000, Span::from_micros(100), Span::ZERO));
    assert!(runs.pace.timeout() > Span::from_secs(8), "{}", runs.pace.timeout());
    // Answers take three times as long as their sound.
    assert!(runs.run(1000, Span::from_millis(30), Span::from_millis(29)));
    assert!(runs.pace.timeout() > Span::from_secs(16), "{}", runs.pace.timeout());
}

#[test]
fn lagging_host_does_not_hide_an_offline_render() {
    let mut runs = Runs::new();
    // Loses half a minute in all.
    assert!(!runs.run(60_000, Span::from_micros(10_500), Span::ZERO));
    assert!(runs.run(60, Span::from_millis(1), Span::ZERO));
}

#[test]
fn new_activation_keeps_earlier_findings() {
    let mut runs = Runs::new();
    assert!(runs.run(100, Span::from_millis(1), Span::ZERO));
    runs.pace.begin();
    runs.now += Span::from_secs(10);
    assert!(runs.run(10, Span::from_millis(1), Span::ZERO));
}
