use tautline_proto::time::{LocalTime, Span};

use super::search::{CapacityFinding, CapacitySearch, CapacitySteps, CapacityTry};
use super::*;

const PERIOD: Span = Span::from_micros(2188);

fn steps() -> CapacitySteps {
    let micros = Span::from_micros;
    CapacitySteps { step: micros(100), fine: micros(10), maximum: PERIOD, tries: 2 }
}

fn searched(find: impl FnMut(CapacityTry) -> CapacityFinding) -> (Vec<CapacityTry>, Option<Span>) {
    let (mut search, mut all, mut find) = (CapacitySearch::new(steps()), Vec::new(), find);
    while let Some(attempt) = search.next() {
        all.push(attempt);
        assert!(all.len() < 80, "{all:?}");
        search.tried(find(attempt));
    }
    (all, search.held())
}

fn if_no_more_than(capacity: Span) -> impl FnMut(CapacityTry) -> CapacityFinding {
    move |attempt| match attempt.cost <= capacity {
        true => CapacityFinding::Whole,
        false => CapacityFinding::Missed,
    }
}

#[test]
fn all_invalid_worker_rows_give_the_first_reason() {
    let invalid = |why: &str| Some(why.to_owned());
    assert_eq!(unanswered(vec![invalid("first"), invalid("second")]), invalid("first"));
    assert_eq!(unanswered(vec![invalid("first"), None]), None);
    assert_eq!(unanswered(Vec::new()), None, "the plugin here alone");
}

#[test]
fn greatest_passing_cost_is_found_to_precision_and_held() {
    for micros in (0..=2188).step_by(7) {
        let capacity = Span::from_micros(micros);
        let (tried, held) = searched(if_no_more_than(capacity));
        let held = held.unwrap();
        assert!(held <= capacity && capacity - held <= steps().fine, "{held} of {capacity}");
        assert_eq!(tried.last(), Some(&CapacityTry { cost: held, held: true }));
        assert_eq!(tried[0], CapacityTry { cost: Span::ZERO, held: false }, "idle first");
    }
}

#[test]
fn costs_climb_by_steps_and_never_beyond_the_period() {
    let (tried, held) = searched(if_no_more_than(PERIOD));
    let costs: Vec<i64> = tried.iter().map(|attempt| attempt.cost.as_nanos() / 1000).collect();
    assert_eq!(costs[..4], [0, 100, 200, 300]);
    assert_eq!((costs[costs.len() - 2], held), (2188, Some(PERIOD)));
}

#[test]
fn one_miss_by_chance_is_tried_again_and_two_are_not() {
    let mut runs = 0;
    let once = |attempt: CapacityTry| {
        runs += u32::from(attempt.cost == Span::from_micros(300));
        match attempt.cost == Span::from_micros(300) && runs == 1 {
            true => CapacityFinding::Missed,
            false => if_no_more_than(Span::from_micros(1500))(attempt),
        }
    };
    assert_eq!(searched(once).1, Some(Span::from_micros(1500)));
    let twice = searched(if_no_more_than(Span::from_micros(250))).0;
    let at = |micros| twice.iter().filter(|a| a.cost == Span::from_micros(micros)).count();
    assert_eq!((at(200), at(300)), (1, 2));
}

#[test]
fn failed_holds_retry_lower_and_end() {
    let capacity = Span::from_micros(1000);
    let (tried, held) = searched(|attempt| {
        let maximum = if attempt.held { capacity - Span::from_micros(35) } else { capacity };
        if_no_more_than(maximum)(attempt)
    });
    let holds: Vec<i64> =
        tried.iter().filter(|a| a.held).map(|a| a.cost.as_nanos() / 1000).collect();
    // Below 970, the search is precise to 10 µs.
    assert_eq!(holds, [1000, 990, 970, 930, 950, 960]);
    assert_eq!(held, Some(Span::from_micros(960)));
    let (tried, held) = searched(|attempt| match attempt.held {
        true => CapacityFinding::Missed,
        false => if_no_more_than(capacity)(attempt),
    });
    assert_eq!((tried.iter().filter(|a| a.held).count(), held), (6, None));
}

#[test]
fn the_cost_that_was_too_much_lies_above_the_last_that_was_held() {
    let (mut search, mut held) = (CapacitySearch::new(steps()), Vec::new());
    while let Some(attempt) = search.next() {
        let goes = !attempt.held && attempt.cost <= Span::from_millis(1);
        held.extend(attempt.held.then_some(attempt.cost));
        search.tried(if goes { CapacityFinding::Whole } else { CapacityFinding::Missed });
    }
    let [.., before, last] = held[..] else { panic!("{held:?}") };
    assert!(before > last, "{held:?}");
    assert_eq!((search.held(), search.bad()), (None, Some(before)));
}

#[test]
fn misses_at_zero_cost_or_invalid_runs_end_the_search() {
    let (tried, held) = searched(|_| CapacityFinding::Missed);
    assert_eq!((tried.len(), held), (2, None));
    let (tried, held) = searched(|_| CapacityFinding::Invalid);
    assert_eq!((tried.len(), held), (2, None));
}

#[derive(Clone, Copy)]
struct SimulatedWorker {
    window: i64,
    wait: Span,
    way: Span,
    seldom: Option<(i64, Span)>,
}

impl SimulatedWorker {
    /// Each block begins after its arrival and the one before.
    fn carries(&self, cost: Span, blocks: i64) -> bool {
        let mut free = LocalTime::ZERO;
        (0..blocks).all(|number| {
            let sent = LocalTime::ZERO + PERIOD.times(number);
            let late = self.seldom.filter(|(every, _)| number % every == every - 1);
            free = free.max(sent + self.way + late.map_or(Span::ZERO, |(_, late)| late)) + cost;
            free + self.way <= sent + PERIOD.times(self.window) + self.wait
        })
    }

    fn capacity(&self, (tried, held): (i64, i64)) -> Option<Span> {
        searched(|attempt| {
            let blocks = if attempt.held { held } else { tried };
            match self.carries(attempt.cost, blocks) {
                true => CapacityFinding::Whole,
                false => CapacityFinding::Missed,
            }
        })
        .1
    }
}

#[test]
fn simulated_workers_have_the_capacity_of_window_and_delay() {
    let micros = Span::from_micros;
    let worker = SimulatedWorker { window: 1, wait: Span::ZERO, way: micros(60), seldom: None };
    let blocks = (200, 4000);
    let near = |found: Option<Span>, known: Span| {
        let found = found.unwrap();
        assert!(found <= known && known - found <= steps().fine, "{found} of {known}");
    };
    near(worker.capacity(blocks), PERIOD - micros(120));
    near(SimulatedWorker { wait: micros(50), ..worker }.capacity(blocks), PERIOD - micros(70));
    near(
        SimulatedWorker { window: 0, wait: PERIOD, ..worker }.capacity(blocks),
        PERIOD - micros(120),
    );
    near(SimulatedWorker { window: 2, ..worker }.capacity(blocks), PERIOD);
    // 30 µs once in a thousand blocks: tries miss it, holds find it.
    let seldom = SimulatedWorker { seldom: Some((1000, micros(30))), ..worker };
    let found = seldom.capacity(blocks).unwrap();
    assert!(seldom.carries(found, 4000) && PERIOD - found <= micros(120 + 30 + 10), "{found}");
}
