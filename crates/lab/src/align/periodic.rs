//! Delay of a window of periodic sound, from an onset, ending or envelope.

use core::ops::Range;

use tautline_dsp::align::rivals::{
    ASIDE, Beyond, CLEAR, Candidate, Choice, Contest, Correlation, FittedLags, Pair, choose,
    repeats,
};
use tautline_dsp::align::{Similarity, energy};

use super::correlation::Lag;
use super::fitting::DelayFitter;

/// Minimum autocorrelation of a repeating window (−3 dB), and of a purely periodic window (rest −10
/// dB).
pub(super) const REPEATS: f64 = core::f64::consts::FRAC_1_SQRT_2;
pub(super) const PERIODIC: f64 = 0.95;
/// Number of compared parts, and the minimum evenness of a steady run.
const PARTS: usize = 8;
const STEADY: f64 = 0.9;
/// Frames at the ends of a recording where interpolation is inexact.
const EDGE: f64 = 64.0;
/// Interpolation residual, −100 dB.
const FLOOR: f64 = 1e-10;
const CANDIDATES: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Periodic {
    Proven(Lag),
    /// Delays a period apart match equally.
    Ambiguous {
        /// The nearest to 0 first.
        delays: Vec<f64>,
        inverted: Option<f64>,
        period: f64,
    },
}

pub(super) struct PeriodicWindow<'a> {
    pub(super) first: &'a [f32],
    pub(super) window: Range<usize>,
    pub(super) region: &'a [f32],
    pub(super) recorded: Range<usize>,
    pub(super) max_delay: usize,
}

impl PeriodicWindow<'_> {
    /// `None` if the autocorrelation stays below `alike`, or the second tap lacks the sound.
    pub(super) fn settle(&self, fitter: &mut DelayFitter, alike: f64) -> Option<Periodic> {
        let Self { first, window, max_delay, .. } = self;
        let around =
            window.start.saturating_sub(2 * max_delay)..first.len().min(window.end + 2 * max_delay);
        let sent = &first[around.clone()];
        let part = window.start - around.start..window.end - around.start;
        let own = repeats(sent, &part, 2 * max_delay, alike);
        let later = own.iter().filter(|one| one.similarity > 0.0 && one.lag > 0.5);
        let own_period = later.map(|one| one.lag).min_by(f64::total_cmp);
        if own.len() < 2 {
            return None;
        }
        let received = self.region.get(self.recorded.clone())?;
        let lag = (window.start + self.recorded.start) as i64 - (*max_delay + around.start) as i64;
        let pair = Pair { received, sent, gain: 1.0 };
        let reach = *max_delay as i64;
        let lags = lag - reach..lag + reach + 1;
        let found = Correlation::of(&[pair], lags, Beyond::Unknown).candidates();
        let all: Vec<_> = found.into_iter().filter(|one| one.similarity.abs() >= REPEATS).collect();
        let delay = |one: &Candidate| lag as f64 - one.lag;
        let mut explained = Explained { received, sent, fitter, known: FittedLags::default() };
        // Steady sound does not distinguish periods.
        let is_steady = evenness(sent).min(evenness(received)) > STEADY;
        let Choice { candidate, period } = if is_steady {
            let upright = all.iter().filter(|one| one.similarity > 0.0);
            let period = own_period.filter(|_| upright.clone().count() > 1);
            let candidate = *upright.min_by(|a, b| delay(a).abs().total_cmp(&delay(b).abs()))?;
            Choice { candidate, period }
        } else {
            choose(&all, lag as f64, |one, other| explained.lead(one, other))?
        };
        let Some(period) = period else {
            let rest = all.iter().filter(|one| one.lag != candidate.lag);
            let second = rest.map(|one| one.similarity.abs()).fold(1e-9, f64::max);
            let confidence_db = 20.0 * (candidate.similarity.abs() / second).log10();
            return Some(Periodic::Proven(Lag { frames: delay(&candidate), confidence_db }));
        };
        let (mut same, other): (Vec<_>, Vec<_>) =
            all.iter().partition(|one| one.similarity * candidate.similarity > 0.0);
        let away = |one: &Candidate| (one.lag - candidate.lag).abs();
        same.sort_by(|a, b| away(a).total_cmp(&away(b)));
        same.truncate(2 * CANDIDATES);
        same.retain(|one| is_steady || explained.lead(&candidate, one) < CLEAR);
        same.truncate(CANDIDATES);
        let delays = same.iter().map(delay).collect();
        let inverted = other.first().map(delay);
        Some(Periodic::Ambiguous { delays, inverted, period })
    }
}

pub(super) fn evenness(samples: &[f32]) -> f64 {
    let energies = samples.chunks_exact((samples.len() / PARTS).max(1)).map(energy);
    let (minimum, max_delay) = energies
        .fold((f64::INFINITY, 0.0_f64), |(minimum, max_delay), one| {
            (minimum.min(one), max_delay.max(one))
        });
    minimum / max_delay
}

struct Explained<'a> {
    received: &'a [f32],
    sent: &'a [f32],
    fitter: &'a mut DelayFitter,
    known: FittedLags,
}

impl Explained<'_> {
    /// Evidence in standard deviations. Frames known for only one candidate can only contradict it.
    fn lead(&mut self, one: &Candidate, other: &Candidate) -> f64 {
        let fitted = [one, other].map(|one| self.fitted(one));
        let known = fitted.map(|(lag, _)| self.frames(&[lag]));
        let [first, second] = [0, 1].map(|at| self.along(fitted[at].0, &known[at]));
        let both = known[0].start.max(known[1].start)..known[0].end.min(known[1].end);
        if both.is_empty() {
            return 0.0;
        }
        let within = |at: usize| both.start - known[at].start..both.end - known[at].start;
        let (received, one) = (&self.received[both.clone()], &first[within(0)]);
        let mut contest = Contest::default();
        let (alike, count) = (Similarity::between(received, one), both.len() as f64);
        let floor = FLOOR * alike.energy() / count;
        contest.add(received, (one, fitted[0].1), (&second[within(1)], fitted[1].1), floor);
        let noise = ((alike.rest(fitted[0].1) / count).max(floor), count);
        for (at, along) in [first, second].iter().enumerate() {
            let Range { start, end } = known[at];
            for alone in [start..both.start, both.end..end] {
                let there = &along[alone.start - start..alone.end - start];
                let alike = Similarity::between(&self.received[alone.clone()], there);
                let left = alike.rest(fitted[at].1);
                contest.add_alone(at == 0, left, alone.len() as f64, noise);
            }
        }
        contest.deviations()
    }

    fn fitted(&mut self, one: &Candidate) -> (f64, f64) {
        let frames = self.frames(&[one.lag - ASIDE, one.lag + ASIDE]);
        let (received, mut known) = (self.received, core::mem::take(&mut self.known));
        let fitted = known.of(one, |lag| {
            Similarity::between(&received[frames.clone()], &self.along(lag, &frames))
        });
        self.known = known;
        fitted
    }

    fn frames(&self, lags: &[f64]) -> Range<usize> {
        let [received, sent] = [self.received.len() as f64, self.sent.len() as f64];
        let from = lags.iter().map(|lag| EDGE - lag).fold(0.0, f64::max);
        let to = lags.iter().map(|lag| sent - EDGE - lag).fold(received, f64::min);
        let (from, to) = (from.ceil() as usize, to.floor().max(0.0) as usize);
        from.min(to)..to
    }

    fn along(&mut self, lag: f64, frames: &Range<usize>) -> Vec<f32> {
        let mut along = vec![0.0; frames.len()];
        self.fitter.take(self.sent, frames.start as f64 + lag, 0.0, &mut along);
        along
    }
}
