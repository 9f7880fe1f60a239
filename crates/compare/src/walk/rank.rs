//! Ranks the candidate lags of periodic sound, so that few are fitted.

use core::ops::Range;

use tautline_dsp::align::Similarity;

use crate::sound::power;
use tautline_dsp::align::rivals::{Candidate, Pair};

pub(super) const SPAN: usize = 256;
/// −6 dB of the loudest span, if every candidate leaves −3 dB (`EXPLAINED`).
const LOUD: f64 = 0.25;
const EXPLAINED: f64 = 0.5;
/// Lags kept per polarity.
const RANKED: usize = 8;

/// Scores are negated residual energies, in steps of doubling length; all others become −∞.
pub(super) fn rank(all: &mut [Candidate], mut unexplained: impl FnMut(&Candidate) -> f64) {
    for sign in [1.0, -1.0] {
        let mut of_sign: Vec<_> =
            (0..all.len()).filter(|at| all[*at].similarity * sign > 0.0).collect();
        let count = of_sign.len();
        let mut costs: Vec<Option<f64>> = vec![None; count];
        let mut cost = |at: usize| *costs[at].get_or_insert_with(|| unexplained(&all[of_sign[at]]));
        let score = |at: &usize| all[of_sign[*at]].score;
        let mut likely: Vec<_> = (0..count).collect();
        likely.sort_by(|a, b| score(b).total_cmp(&score(a)));
        let own = (0..count)
            .min_by(|a, b| all[of_sign[*a]].lag.abs().total_cmp(&all[of_sign[*b]].lag.abs()));
        let starts = likely.into_iter().take(RANKED).chain(own);
        let Some(mut best) = starts.min_by(|a, b| cost(*a).total_cmp(&cost(*b))) else { continue };
        loop {
            let steps = (0..usize::BITS).map(|bit| 1 << bit).take_while(|step| *step < count);
            let places = steps.flat_map(|step| [best.checked_sub(step), Some(best + step)]);
            let places = places.flatten().filter(|at| *at < count);
            let next = places.min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
            match next.filter(|next| cost(*next) < cost(best)) {
                Some(next) => best = next,
                None => break,
            }
        }
        for (at, cost) in of_sign.drain(..).zip(costs) {
            all[at].score = cost.map_or(f64::NEG_INFINITY, |cost| -cost);
        }
    }
}

/// Spans to ignore: loud and unexplained, as after a phase jump.
pub(super) fn other_sound(
    pairs: &[Pair<'_>],
    all: &[Candidate],
    whole: impl Fn(&Candidate) -> (i64, f64),
    middle: i64,
) -> Vec<bool> {
    let mut best: Vec<_> = all.iter().collect();
    best.sort_by(|a, b| b.score.total_cmp(&a.score));
    best.truncate(RANKED);
    best.extend(all.iter().min_by(|a, b| a.lag.abs().total_cmp(&b.lag.abs())));
    let frames = pairs.iter().map(|pair| pair.received.len()).max().unwrap_or(0);
    let energy = |window: &Range<usize>| -> f64 {
        pairs.iter().map(|pair| power(&pair.received[window.clone()])).sum()
    };
    let windows: Vec<_> =
        (0..frames).step_by(SPAN).map(|from| from..frames.min(from + SPAN)).collect();
    let loudest = windows.iter().map(energy).fold(0.0, f64::max);
    let is_other = |window: &Range<usize>| {
        let energy = energy(window);
        let place = middle - (window.start + window.len() / 2) as i64;
        let after = all.partition_point(|one| whole(one).0 < place);
        let there = all[after.saturating_sub(1)..all.len().min(after + 1)].iter();
        let left = |one: &Candidate| {
            let (lag, sign) = whole(one);
            similarity_at(pairs, window, lag).rest_rounded(sign)
        };
        energy > LOUD * loudest
            && !best.iter().copied().chain(there).any(|one| left(one) <= EXPLAINED * energy)
    };
    let other: Vec<_> = windows.iter().map(is_other).collect();
    let is_next = |at: usize| other[at.saturating_sub(1)..other.len().min(at + 2)].contains(&true);
    (0..other.len()).map(is_next).collect()
}

pub(super) fn similarity_at(pairs: &[Pair<'_>], window: &Range<usize>, lag: i64) -> Similarity {
    let from = window.start as i64 + lag;
    pairs.iter().fold(Similarity::default(), |all, Pair { received, sent, gain }| {
        let received = &received[window.clone()];
        let (before, received) =
            received.split_at(usize::try_from(-from).unwrap_or(0).min(received.len()));
        let sent = sent.get(usize::try_from(from).unwrap_or(0)..).unwrap_or_default();
        let (received, after) = received.split_at(received.len().min(sent.len()));
        let alone = Similarity::alone(power(before) + power(after));
        all.and(&Similarity::between(received, sent).louder(*gain)).and(&alone)
    })
}
