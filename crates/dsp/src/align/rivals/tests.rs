use core::f64::consts::TAU;

use super::*;

fn sine(period: f64, onset: f64, frames: usize) -> Vec<f32> {
    let sample = |at: f64| if at < 0.0 { 0.0 } else { (TAU * at / period).sin() as f32 };
    (0..frames).map(|at| sample(at as f64 - onset)).collect()
}

fn correlation(received: &[f32], sent: &[f32], lags: Range<i64>, beyond: Beyond) -> Correlation {
    Correlation::of(&[Pair { received, sent, gain: 0.5 }], lags, beyond)
}

#[test]
fn candidates_lie_half_a_period_apart_with_both_polarities() {
    let (received, sent) = (sine(70.4, 40.25, 2000), sine(70.4, 0.0, 4000));
    let all = correlation(&received, &sent, 0..400, Beyond::Silence).candidates();
    assert!(all.len() >= 10, "{all:?}");
    for (index, two) in all.windows(2).enumerate() {
        let apart = two[1].lag - two[0].lag;
        assert!((apart - 35.2).abs() < 0.02, "{index}: {all:?}");
        assert!(two[0].similarity * two[1].similarity < 0.0, "{index}: {all:?}");
    }
    // Lag −40.25 plus half periods.
    let halves = (all[0].lag + 40.25) / 35.2;
    assert!((halves - halves.round()).abs() < 1e-3, "{all:?}");
}

#[test]
fn onset_explains_most_at_its_own_lag() {
    let (received, sent) = (sine(70.4, 540.0, 4000), sine(70.4, 500.0, 4000));
    let found = correlation(&received, &sent, -500..500, Beyond::Silence);
    let at = |lag: f64, sign: f64| found.explained(lag, sign).unwrap();
    assert!((at(-40.0, 1.0) - 1.0).abs() < 1e-6);
    for lag in [-40.0 - 70.4, -40.0 + 70.4] {
        assert!(at(lag, 1.0) < 0.99, "{lag}: {}", at(lag, 1.0));
    }
    assert_eq!(at(-40.0, -1.0), 0.0, "inverted");
    assert_eq!(found.explained(600.0, 1.0), None, "beyond the range");
}

#[test]
fn sound_beyond_its_samples_is_silent_or_unknown() {
    let (received, sent) = (sine(70.4, 0.0, 2000), sine(70.4, 0.0, 2000));
    for (beyond, similarity) in [(Beyond::Silence, 0.7_f64.sqrt()), (Beyond::Unknown, 1.0)] {
        let all = correlation(&received, &sent, -620..-580, beyond).candidates();
        let [one] = all[..] else { panic!("{beyond:?}: {all:?}") };
        assert!((one.similarity.abs() - similarity).abs() < 0.01, "{beyond:?}: {all:?}");
    }
}

#[test]
fn repeats_of_a_part_include_itself() {
    let sound = sine(70.4, 0.0, 4000);
    let all = repeats(&sound, &(1000..2000), 150, 0.9);
    let lags: Vec<_> = all.iter().map(|one| (one.lag / 35.2).round() as i64).collect();
    assert_eq!(lags, [-4, -3, -2, -1, 0, 1, 2, 3, 4], "{all:?}");
    assert!(all.iter().all(|one| one.similarity.abs() > 0.9999), "{all:?}");
}

#[test]
fn contest_counts_the_lead_in_deviations_of_the_noise() {
    // 100 frames that only the first explains, noise 40 dB lower: 100 / (2 × 10 × 0.01).
    let one = [1.0_f32; 100];
    let received: Vec<_> = (0..100).map(|at| if at % 2 == 0 { 1.01_f32 } else { 0.99 }).collect();
    let mut contest = Contest::default();
    contest.add(&received, (&one, 1.0), (&one, 0.0), 1e-10);
    assert!((contest.deviations() - 500.0).abs() < 0.1, "{contest:?}");
    let mut equal = Contest::default();
    equal.add(&received, (&one, 1.0), (&one, 1.0), 1e-10);
    assert_eq!(equal.deviations(), 0.0);
}

fn ladder() -> Vec<Candidate> {
    let one = |at: i32| Candidate {
        lag: 5.0 * f64::from(at),
        similarity: if at % 2 == 0 { 1.0 } else { -1.0 },
        score: -f64::from(at.abs()),
    };
    (-20..=20).map(one).collect()
}

#[test]
fn choice_is_proven_ambiguous_or_nearest_among_equals() {
    let choose = |near: f64, lead: &dyn Fn(&Candidate, &Candidate) -> f64| {
        let Choice { candidate, period } = choose(&ladder(), near, lead).unwrap();
        (candidate.lag, period)
    };
    let cost = |lag: f64, from: f64, to: f64| (from - lag).max(lag - to).max(0.0);
    let within = |from: f64, to: f64| {
        move |one: &Candidate, other: &Candidate| {
            10.0 * (cost(other.lag, from, to) - cost(one.lag, from, to))
        }
    };
    assert_eq!(choose(30.0, &within(0.0, 0.0)), (0.0, None));
    assert_eq!(choose(0.0, &within(40.0, 40.0)), (40.0, None));
    assert_eq!(choose(-70.0, &|_, _| 0.0), (-70.0, Some(10.0)));
    assert_eq!(choose(-70.0, &within(-40.0, 40.0)), (-40.0, Some(10.0)));
    assert_eq!(choose(15.0, &within(-40.0, 40.0)), (10.0, Some(10.0)));
}

#[test]
fn inverted_candidate_must_lead_clearly() {
    for (lead, is_inverted) in [(0.5 * CLEAR, false), (2.0 * CLEAR, true)] {
        let chosen = choose(&ladder(), 0.0, |one, other| {
            let cost = |one: &Candidate| if one.lag == 5.0 { 0.0 } else { lead };
            let aside = |one: &Candidate| (one.lag - 5.0).abs();
            cost(other) - cost(one) + CLEAR * (aside(other) - aside(one)) * 1e-9
        });
        assert_eq!(chosen.unwrap().candidate.similarity < 0.0, is_inverted, "{lead}");
    }
}
