use super::*;

const RANDOM: Losses = Losses { share: 0.05, burst: 1.0 };
const BURSTS: Losses = Losses { share: 0.2, burst: 3.0 };

/// Measured with 3.6 million packets by `examples/redundancy`.
#[test]
fn predicted_residual_loss_matches_the_measured_one() {
    let measured = [
        (RANDOM, 3, 1, 2.4e-3, 5.1e-4),
        (RANDOM, 10, 1, 2.5e-3, 1.7e-6),
        (BURSTS, 3, 1, 7.2e-2, 1.3e-1),
        (BURSTS, 10, 1, 4.2e-2, 6.7e-2),
        (BURSTS, 10, 3, 7.6e-3, 8.7e-3),
        (BURSTS, 20, 3, 2.2e-3, 1.3e-3),
        (BURSTS, 40, 1, 4.0e-2, 5.8e-3),
        (BURSTS, 40, 3, 2.0e-3, 9.5e-5),
    ];
    for (losses, window, symbols, by_copies, by_code) in measured {
        let copies = left_by_copies(losses, &Layout::copies(symbols, window));
        let code = left_by_code(losses, symbols, window);
        let reported = format!("{losses:?}, {window}, {symbols}: {copies:.1e}, {code:.1e}");
        assert!((0.7..1.4).contains(&(copies / by_copies)), "{reported}");
        assert!((0.5..4.0).contains(&(code / by_code)), "{reported}");
    }
}

#[test]
fn one_symbol_meets_five_percent_within_ten_packets() {
    assert_eq!(fitting(RANDOM, 10, 8), Layout::code(1, 10));
}

#[test]
fn copy_at_the_end_of_the_budget_is_first_against_long_bursts() {
    assert_eq!(fitting(BURSTS, 3, 1), Layout::copies(1, 3));
    assert_eq!(fitting(BURSTS, 40, 1), Layout::code(1, 40));
}

#[test]
fn more_symbols_are_used_only_if_they_repair_more() {
    let few = fitting(BURSTS, 3, 8);
    assert_eq!(few.reaches().len(), 1, "a second copy in a window of three saves one in eight");
    let some = fitting(BURSTS, 10, 8).reaches().len();
    assert!((2..5).contains(&some), "{some}");
    assert_eq!(fitting(Losses::NONE, 10, 8), Layout::NONE);
    assert_eq!(fitting(BURSTS, 0, 8), Layout::NONE);
    assert_eq!(fitting(BURSTS, 10, 0), Layout::NONE);
}

#[test]
fn losses_count_at_once_and_are_forgotten_by_and_by() {
    let (mut sizing, mut tally) = (Sizing::default(), Tally::default());
    let mut now = LocalTime::ZERO;
    let mut report = |sizing: &mut Sizing, missing: u64, runs: u64| {
        now += Span::from_millis(500);
        tally.expected += 500;
        tally.missing += missing;
        tally.runs += runs;
        sizing.observe(now, tally);
    };
    report(&mut sizing, 0, 0);
    report(&mut sizing, 100, 25);
    assert!(sizing.losses().share > 0.1, "{sizing:?}");
    report(&mut sizing, 100, 25);
    report(&mut sizing, 100, 25);
    let Losses { share, burst } = sizing.losses();
    assert!((0.18..0.21).contains(&share) && (3.8..4.1).contains(&burst), "{sizing:?}");
    (0..60).for_each(|_| report(&mut sizing, 0, 0));
    assert!((0.08..0.11).contains(&sizing.losses().share), "half after 30 s: {sizing:?}");
    (0..900).for_each(|_| report(&mut sizing, 0, 0));
    assert!(sizing.losses().is_none(), "{sizing:?}");
}

#[test]
fn restarted_receiver_is_not_lost() {
    let mut sizing = Sizing::default();
    let at = |seconds| LocalTime::ZERO + Span::from_secs(seconds);
    sizing.observe(at(1), Tally { expected: 10_000, missing: 500, runs: 500, beyond: 0 });
    sizing.observe(at(2), Tally { expected: 100, ..Tally::default() });
    sizing.observe(at(3), Tally { expected: 1100, ..Tally::default() });
    assert!(sizing.losses().share <= Losses::UNKNOWN.share, "{sizing:?}");
}
