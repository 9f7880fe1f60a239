//! Candidate lags of one sound in another, and the lag that the sound proves.
//!
//! Periodic sound correlates at every period; only an onset or ending distinguishes these lags.
//! Candidates are compared by the energy that each leaves.

#[cfg(test)]
mod tests;

use core::f64::consts::PI;
use core::ops::Range;

use rustfft::num_complex::Complex;

use super::Similarity;
use super::spectrum::Transform;
use crate::fit::{hills, top, vertex};

/// Lead that proves a candidate, in standard deviations.
pub const CLEAR: f64 = 8.0;
/// Minimum height of a hill: −3 dB of the highest peak.
const HILL: f64 = core::f64::consts::FRAC_1_SQRT_2;
/// Maximum energy of silence relative to the received energy.
const SILENT: f64 = 1e-9;
/// Relative rounding error of sums.
const ROUNDED: f64 = 1e-12;
const TAPS: i64 = 32;
const ROUNDS: usize = 4;
/// Distance on either side of a lag, in frames.
pub const ASIDE: f64 = 1.0 / 16.0;
/// Maximum climbs, and the minimum lead of each.
const CLIMBS: usize = 16;
const BETTER: f64 = 1.0;
/// Share of the best similarity.
const EQUAL: f64 = 0.99;
/// Numbers of compared rivals: the nearest equals, and the best.
const NEAREST: usize = 4;
const BEST: usize = 2;

/// A recorded channel, and the sound that may explain it.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// Samples of the recording.
    pub received: &'a [f32],
    /// Samples of the sound.
    pub sent: &'a [f32],
    /// Factor from the sent to the received sound.
    pub gain: f64,
}

/// Content of the sent sound outside its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// Silence.
    Silence,
    /// Not recorded.
    Unknown,
}

/// A lag at which one sound is like another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Sent frame `t + lag` explains received frame `t`.
    pub lag: f64,
    /// Correlation from −1 to 1; negative for inverted polarity.
    pub similarity: f64,
    /// Explanatory power: highest is best.
    pub score: f64,
}

/// The chosen candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Chosen lag; of equals the nearest to the preferred one.
    pub candidate: Candidate,
    /// Distance to the next lag that fits as well; `None` if no other lag does.
    pub period: Option<f64>,
}

/// Correlation of two sounds by lag, with their energies.
pub struct Correlation {
    /// The data begins earlier, at `first`.
    lags: Range<i64>,
    first: i64,
    products: Vec<f64>,
    received: Vec<f64>,
    sent: Vec<f64>,
}

impl Correlation {
    /// Correlation of all channels together.
    pub fn of(pairs: &[Pair<'_>], lags: Range<i64>, beyond: Beyond) -> Self {
        let all = lags.start - TAPS..lags.end + TAPS;
        let (received, sent) = energies(pairs, &all, beyond);
        Self { lags, first: all.start, products: products(pairs, &all), received, sent }
    }

    /// Peaks within 3 dB of the highest, by ascending lag.
    pub fn candidates(&self) -> Vec<Candidate> {
        let similarity: Vec<_> =
            (0..self.products.len()).map(|at| self.products[at] * self.scale(at)).collect();
        let top = |at: usize| {
            let (lag, similarity) = peak(&similarity, at);
            Candidate { lag: lag + self.first as f64, similarity, score: similarity.abs() }
        };
        let is_inside = |at: &usize| self.lags.contains(&(self.first + *at as i64));
        let minimum =
            HILL * similarity.iter().fold(0.0_f64, |maximum, value| maximum.max(value.abs()));
        let tops = hills(similarity.iter().copied(), minimum).map(|(at, _)| at);
        tops.filter(is_inside).map(top).collect()
    }

    /// Share of the received energy; `None` outside the range.
    pub fn explained(&self, lag: f64, sign: f64) -> Option<f64> {
        let place = lag - self.first as f64;
        let at = usize::try_from(place.round() as i64).ok()?;
        let (received, sent) = (*self.received.get(at)?, self.sent[at]);
        let both = (sign * between(&self.products, place)).max(0.0);
        Some(if received * sent > 0.0 { both * both / (received * sent) } else { 0.0 })
    }

    fn scale(&self, at: usize) -> f64 {
        let (received, sent) = (self.received[at], self.sent[at]);
        if sent > SILENT * received && received > 0.0 {
            (received * sent).sqrt().recip()
        } else {
            0.0
        }
    }
}

/// Lags within `reach` frames, of either polarity. Includes 0.
pub fn repeats(sound: &[f32], part: &Range<usize>, reach: usize, minimum: f64) -> Vec<Candidate> {
    let Some(received) = sound.get(part.clone()) else { return Vec::new() };
    let (at, reach) = (part.start as i64, reach as i64);
    let lags = (at - reach).max(-(received.len() as i64))..(at + reach + 1).min(sound.len() as i64);
    let pair = Pair { received, sent: sound, gain: 1.0 };
    let mut all = Correlation::of(&[pair], lags, Beyond::Silence).candidates();
    all.retain(|one| one.similarity.abs() >= minimum);
    all.iter_mut().for_each(|one| one.lag -= at as f64);
    all
}

fn products(pairs: &[Pair<'_>], lags: &Range<i64>) -> Vec<f64> {
    let width = usize::try_from(lags.end - lags.start).unwrap_or(0);
    let longest = pairs.iter().map(|pair| pair.received.len()).max().unwrap_or(0);
    let chunk = width.min(longest).max(1);
    let mut transform = Transform::new(chunk + width);
    let mut sums = vec![Complex::default(); transform.length() / 2 + 1];
    for Pair { received, sent, gain } in pairs {
        for (number, part) in received.chunks(chunk).enumerate() {
            let from = (number * chunk) as i64 + lags.start;
            let sent = (from..from + (part.len() + width) as i64).map(|at| {
                let sample = usize::try_from(at).ok().and_then(|at| sent.get(at));
                sample.map_or(0.0, |sample| gain * f64::from(*sample))
            });
            let received = part.iter().map(|sample| f64::from(*sample));
            transform
                .spectra(received, sent, |bin, received, sent| sums[bin] += received.conj() * sent);
        }
    }
    let scale = 1.0 / transform.length() as f64;
    transform.samples(&sums).take(width).map(|value| value * scale).collect()
}

/// Energies per lag, over frames known of both.
fn energies(pairs: &[Pair<'_>], lags: &Range<i64>, beyond: Beyond) -> (Vec<f64>, Vec<f64>) {
    let all_of = |samples: &[f32]| MovingEnergy::new(samples).of(0..samples.len() as i64);
    let all_received: f64 = pairs.iter().map(|pair| all_of(pair.received)).sum();
    let all_sent: f64 = pairs.iter().map(|pair| pair.gain.powi(2) * all_of(pair.sent)).sum();
    let mut moving: Vec<_> = pairs
        .iter()
        .map(|pair| (pair, MovingEnergy::new(pair.received), MovingEnergy::new(pair.sent)))
        .collect();
    let of_lag = |lag: i64| {
        let (mut received, mut sent) = (0.0, 0.0);
        for (pair, moving_received, moving_sent) in &mut moving {
            sent += pair.gain.powi(2) * moving_sent.of(lag..lag + pair.received.len() as i64);
            if beyond == Beyond::Unknown {
                received += moving_received.of(-lag..pair.sent.len() as i64 - lag);
            }
        }
        if beyond == Beyond::Silence {
            received = all_received;
        }
        let says = |energy: f64, all: f64| if energy > ROUNDED * all { energy } else { 0.0 };
        (says(received, all_received), says(sent, all_sent))
    };
    lags.clone().map(of_lag).unzip()
}

struct MovingEnergy<'a> {
    samples: &'a [f32],
    range: Range<usize>,
    sum: f64,
}

impl<'a> MovingEnergy<'a> {
    fn new(samples: &'a [f32]) -> Self {
        Self { samples, range: 0..0, sum: 0.0 }
    }

    fn of(&mut self, frames: Range<i64>) -> f64 {
        let clip = |at: i64| usize::try_from(at).unwrap_or(0).min(self.samples.len());
        let (start, end) = (clip(frames.start), clip(frames.end));
        let samples = self.samples;
        let square = |at: usize| f64::from(samples[at]).powi(2);
        while self.range.end < end {
            self.sum += square(self.range.end);
            self.range.end += 1;
        }
        while self.range.start > start {
            self.range.start -= 1;
            self.sum += square(self.range.start);
        }
        while self.range.end > end {
            self.range.end -= 1;
            self.sum -= square(self.range.end);
        }
        while self.range.start < start {
            self.sum -= square(self.range.start);
            self.range.start += 1;
        }
        self.sum.max(0.0)
    }
}

fn peak(values: &[f64], top: usize) -> (f64, f64) {
    let (mut at, mut apart) = (top as f64, 0.5);
    for _ in 0..ROUNDS {
        let [before, here, after] = [-apart, 0.0, apart].map(|off| between(values, at + off));
        let bend = before - 2.0 * here + after;
        if bend * here >= 0.0 {
            break;
        }
        at += apart * vertex([before, here, after]).clamp(-1.0, 1.0);
        apart *= 0.25;
    }
    (at, between(values, at))
}

fn between(values: &[f64], at: f64) -> f64 {
    let whole = at.floor();
    let part = at - whole;
    let value = |tap: i64| values.get(usize::try_from(whole as i64 + tap).ok()?);
    if part == 0.0 {
        return value(0).copied().unwrap_or(0.0);
    }
    let turned = (PI * part).sin();
    let term = |tap: i64| {
        let off = part - tap as f64;
        let sine = if tap % 2 == 0 { turned } else { -turned };
        let window = (0.5 * PI * off / TAPS as f64).cos().powi(2);
        Some(value(tap)? * sine / (PI * off) * window)
    };
    (1 - TAPS..=TAPS).filter_map(term).sum()
}

/// Evidence for one of two explanations of a sound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Contest {
    lead: f64,
    variance: f64,
}

impl Contest {
    /// `floor` is the mean square of noise.
    pub fn add(
        &mut self,
        received: &[f32],
        (one, gain): (&[f32], f64),
        other: (&[f32], f64),
        floor: f64,
    ) {
        for ((received, one), sample) in received.iter().zip(one).zip(other.0) {
            let (one, other) = (gain * f64::from(*one), other.1 * f64::from(*sample));
            let (left, rest) = (f64::from(*received) - one, f64::from(*received) - other);
            self.lead += rest * rest - left * left;
            self.variance += 4.0 * (one - other).powi(2) * (left * left).max(floor);
        }
    }

    /// Adds frames that only one candidate covers. `noise` is the mean square of `known` other
    /// frames.
    pub fn add_alone(&mut self, is_first: bool, left: f64, count: f64, (noise, known): (f64, f64)) {
        let beyond = left - count * noise;
        self.lead += if is_first { -beyond } else { beyond };
        self.variance += 2.0 * noise * noise * count * (1.0 + count / known);
    }

    /// Negative if the second explanation is better.
    pub fn deviations(&self) -> f64 {
        if self.variance > 0.0 { self.lead / self.variance.sqrt() } else { 0.0 }
    }
}

/// Cache of candidates fitted to a fraction of a frame.
#[derive(Debug, Default)]
pub struct FittedLags(Vec<(f64, (f64, f64))>);

impl FittedLags {
    /// Best lag next to a candidate, and its gain.
    pub fn of(&mut self, one: &Candidate, similarity: impl FnMut(f64) -> Similarity) -> (f64, f64) {
        if let Some((_, known)) = self.0.iter().find(|(lag, _)| *lag == one.lag) {
            return *known;
        }
        let sign = one.similarity.signum();
        let alike = [one.lag - ASIDE, one.lag, one.lag + ASIDE].map(similarity);
        let away = ASIDE * top(alike.map(|alike| -alike.rest_rounded(alike.gain_of_sign(sign))));
        let fitted = (one.lag + away, alike[1].gain_of_sign(sign));
        self.0.push((one.lag, fitted));
        fitted
    }
}

/// The candidate without equals, else the equal nearest to `near`. Inverted candidates need a clear
/// lead.
pub fn choose(
    candidates: &[Candidate],
    near: f64,
    mut lead: impl FnMut(&Candidate, &Candidate) -> f64,
) -> Option<Choice> {
    let of = |sign: f64| -> Vec<Candidate> {
        candidates.iter().filter(|one| sign * one.similarity > 0.0).copied().collect()
    };
    let (upright, inverted) = (of(1.0), of(-1.0));
    let (up, down) = (climbed(&upright, &mut lead), climbed(&inverted, &mut lead));
    let (all, best) = match (up, down) {
        (Some(up), Some(down)) => {
            let is_down = lead(&inverted[down], &upright[up]) >= CLEAR;
            if is_down { (inverted, down) } else { (upright, up) }
        }
        (Some(up), None) => (upright, up),
        (None, down) => (inverted, down?),
    };
    let rivals = rivals(&all, best);
    let distance = |at: &usize| (all[*at].lag - all[best].lag).abs();
    let equals = rivals.into_iter().filter(|at| lead(&all[best], &all[*at]) < CLEAR);
    let period = equals.map(|at| distance(&at)).min_by(f64::total_cmp);
    let chosen = if period.is_some() { nearest(&all, best, near, &mut lead) } else { best };
    Some(Choice { candidate: all[chosen], period })
}

fn climbed(
    all: &[Candidate],
    lead: &mut impl FnMut(&Candidate, &Candidate) -> f64,
) -> Option<usize> {
    let mut best = (0..all.len()).max_by(|a, b| all[*a].score.total_cmp(&all[*b].score))?;
    for _ in 0..CLIMBS {
        let neighbors = [best.checked_sub(1), Some(best + 1).filter(|at| *at < all.len())];
        let better = |at: &usize| lead(&all[best], &all[*at]) < -BETTER;
        let Some(next) = neighbors.into_iter().flatten().find(better) else { break };
        best = next;
    }
    Some(best)
}

fn rivals(all: &[Candidate], best: usize) -> Vec<usize> {
    let mut others: Vec<_> = (0..all.len()).filter(|at| *at != best).collect();
    others.sort_by(|a, b| all[*b].score.total_cmp(&all[*a].score));
    let mut rivals: Vec<_> = others.iter().take(BEST).copied().collect();
    let alike = EQUAL * all[best].similarity.abs();
    others.retain(|at| all[*at].similarity.abs() >= alike);
    others.sort_by_key(|at| at.abs_diff(best));
    rivals.extend(others.into_iter().take(NEAREST));
    rivals
}

/// Bisection: distant candidates are less equal.
fn nearest(
    all: &[Candidate],
    best: usize,
    near: f64,
    lead: &mut impl FnMut(&Candidate, &Candidate) -> f64,
) -> usize {
    let away = |at: &usize| (all[*at].lag - near).abs();
    let wanted = (0..all.len()).min_by(|a, b| away(a).total_cmp(&away(b))).unwrap_or(best);
    let mut is_equal = |at: usize| at == best || lead(&all[best], &all[at]) < CLEAR;
    if is_equal(wanted) {
        return wanted;
    }
    let (mut good, mut bad) = (best, wanted);
    while good.abs_diff(bad) > 1 {
        let middle = usize::midpoint(good, bad);
        if is_equal(middle) { good = middle } else { bad = middle }
    }
    good
}
