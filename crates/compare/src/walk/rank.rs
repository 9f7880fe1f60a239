//! Which of the lines of a periodic sound are worth a close look.

use core::ops::Range;

use tautline_dsp::fit::Likeness;

use crate::rivals::{Candidate, Pair};
use crate::sound::power;

/// Heard frames that count together, or not at all.
pub(super) const SPAN: usize = 256;
/// Sound that is as loud as this part of the loudest, −6 dB, and of which more than this part is left, −3 dB,
/// is other sound.
const LOUD: f64 = 0.25;
const EXPLAINED: f64 = 0.5;
/// Lags of each sign that are ranked by what they leave unexplained.
const RANKED: usize = 8;

/// Scores anew those of each sign that explain most, by what they leave unexplained; and those that
/// steps from the best lead to, twice as far each.
pub(super) fn rank(all: &mut [Candidate], mut unexplained: impl FnMut(&Candidate) -> f64) {
    for sign in [1.0, -1.0] {
        let mut of_sign: Vec<_> =
            (0..all.len()).filter(|at| all[*at].likeness * sign > 0.0).collect();
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

/// The windows of `SPAN` heard frames that say nothing of the lags: loud, and explained by none of them
/// that may, as after a jump of the phase; with those next to them. The best may, that at the line, and
/// the one that puts the middle of the pattern there.
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
    let frames = pairs.iter().map(|pair| pair.heard.len()).max().unwrap_or(0);
    let energy = |window: &Range<usize>| -> f64 {
        pairs.iter().map(|pair| power(&pair.heard[window.clone()])).sum()
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
            let ((lag, sign), mut all) = (whole(one), Sums::default());
            pairs.iter().for_each(|pair| all.add(pair, window, lag));
            all.rest(sign)
        };
        energy > LOUD * loudest
            && !best.iter().copied().chain(there).any(|one| left(one) <= EXPLAINED * energy)
    };
    let other: Vec<_> = windows.iter().map(is_other).collect();
    let is_next = |at: usize| other[at.saturating_sub(1)..other.len().min(at + 2)].contains(&true);
    (0..other.len()).map(is_next).collect()
}

/// Energies of what was heard and of what was sent, and the sum of their products.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    heard: f64,
    sent: f64,
    both: f64,
}

impl Sums {
    /// Adds some heard frames at a whole lag.
    pub(super) fn add(&mut self, pair: &Pair<'_>, window: &Range<usize>, lag: i64) {
        let (gain, from) = (pair.gain, window.start as i64 + lag);
        let heard = &pair.heard[window.clone()];
        let (before, heard) = heard.split_at(usize::try_from(-from).unwrap_or(0).min(heard.len()));
        let sent = pair.sent.get(usize::try_from(from).unwrap_or(0)..).unwrap_or_default();
        let (heard, after) = heard.split_at(heard.len().min(sent.len()));
        let alike = Likeness::between(heard, sent);
        self.heard += alike.energy() + power(before) + power(after);
        if alike.energy_of_other() > 0.0 {
            self.sent += gain * gain * alike.energy_of_other();
            self.both += gain * alike.gain() * alike.energy_of_other();
        }
    }

    /// The best gain of this sign.
    pub(super) fn gain(&self, sign: f64) -> f64 {
        if self.sent > 0.0 { sign * (sign * self.both / self.sent).max(0.0) } else { 0.0 }
    }

    /// What a gain leaves of what was heard.
    pub(super) fn rest(&self, gain: f64) -> f64 {
        self.heard - 2.0 * gain * self.both + gain * gain * self.sent
    }
}
