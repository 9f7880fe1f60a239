//! Two workers with the same blocks, and hosts that hurry.

use crate::offload::pace::RunPace;
use crate::offload::pair::{Pair, PairChoice};
use crate::time::{LocalTime, Span};
use crate::units::Rate;

#[test]
fn the_first_clean_answer_is_played_and_a_dirty_one_only_until_then() {
    let mut pair = Pair::new(4);
    assert_eq!(pair.offer(0, 0, true), PairChoice::Play);
    assert_eq!(pair.offer(1, 0, true), PairChoice::Spare);
    assert_eq!(pair.offer(1, 1, false), PairChoice::Play);
    assert_eq!(pair.offer(0, 1, false), PairChoice::Spare);
    assert_eq!(pair.offer(0, 1, true), PairChoice::Instead);
    assert_eq!(pair.offer(1, 1, true), PairChoice::Spare);
    assert_eq!(pair.offer(1, 4, true), PairChoice::Play);
    let tallies = pair.tallies();
    assert_eq!((tallies[0].played, tallies[0].spare), (2, 1));
    assert_eq!((tallies[1].played, tallies[1].spare), (2, 2));
    pair.begin();
    assert_eq!(pair.offer(1, 4, true), PairChoice::Play);
}

struct Runs {
    pace: RunPace,
    now: LocalTime,
}

impl Runs {
    fn new() -> Self {
        Self { pace: RunPace::new(Rate::new(48_000).unwrap()), now: LocalTime::ZERO }
    }

    /// So many runs of 480 frames, which are 10 ms, one each `every`, of which `waited` was our doing.
    fn run(&mut self, count: u32, every: Span, waited: Span) -> bool {
        for _ in 0..count {
            self.now += every;
            self.pace.observe(480, self.now, waited);
        }
        self.pace.is_faster()
    }
}

#[test]
fn a_host_in_real_time_is_never_taken_for_a_render() {
    let mut runs = Runs::new();
    assert!(!runs.run(6000, Span::from_millis(10), Span::ZERO));
    // It stood still for 200 ms, and catches up at once.
    assert!(!runs.run(1, Span::from_millis(200), Span::ZERO));
    assert!(!runs.run(20, Span::from_micros(50), Span::ZERO));
    assert!(!runs.run(100, Span::from_millis(10), Span::ZERO));
    // Its transport stood for a minute.
    assert!(!runs.run(1, Span::from_secs(60), Span::ZERO));
    assert!(!runs.run(100, Span::from_millis(10), Span::ZERO));
}

#[test]
fn a_card_that_is_fast_never_makes_a_host_a_render() {
    let mut runs = Runs::new();
    // 500 ppm, for three hours: five seconds ahead of time.
    for _ in 0..1_080_000 {
        assert!(!runs.run(1, Span::from_micros(9_995), Span::ZERO), "at {:?}", runs.now);
    }
}

#[test]
fn a_render_is_found_out_within_a_second_of_sound_and_so_is_its_end() {
    let mut runs = Runs::new();
    runs.run(1000, Span::from_millis(10), Span::ZERO);
    assert!(runs.run(60, Span::from_millis(1), Span::ZERO));
    // We hold it up: still a render.
    assert!(runs.run(1000, Span::from_millis(20), Span::from_millis(19)));
    assert!(!runs.run(60, Span::from_millis(10), Span::ZERO));
}

#[test]
fn what_a_host_lags_behind_does_not_hide_a_render() {
    let mut runs = Runs::new();
    // Half a millisecond of each run is lost: half a minute in all.
    assert!(!runs.run(60_000, Span::from_micros(10_500), Span::ZERO));
    assert!(runs.run(60, Span::from_millis(1), Span::ZERO));
}

#[test]
fn a_new_activation_knows_what_was_found_out() {
    let mut runs = Runs::new();
    assert!(runs.run(100, Span::from_millis(1), Span::ZERO));
    runs.pace.begin();
    runs.now += Span::from_secs(10);
    assert!(runs.run(10, Span::from_millis(1), Span::ZERO));
}
