//! Detects mixed channels: weighted sums of the sent channels.

use core::ops::Range;

use tautline_dsp::align::{NEAR, outwards, padded};
use tautline_dsp::fit::solve;

use super::exact::Both;
use super::fit::{MIN, ROUNDS, STILL, WINDOW, WindowFitter};
use super::pieces::{FrameLine, Piece};
use super::seek::{Coarse, Likely};
use super::sound::Sound;

const WINDOWS: usize = 8;
/// Maximum residual: −30 dB, absolute and relative.
const LEFT_OVER: f64 = 1e-3;
const BETTER: f64 = 0.1;
/// Minimum coefficient: −80 dB. Smaller coefficients count as 0.
const NONE: f64 = 1e-4;
/// For identical or silent channels.
const RIDGE: f64 = 1e-10;
const LINES: usize = 12;

/// Mixing matrix from sent to recorded channels.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelMix {
    /// Indexed by recorded, then sent channel; negative if inverted.
    pub coefficients: Vec<Vec<f64>>,
}

impl ChannelMix {
    pub(super) fn of(&self, sent: &Sound) -> Sound {
        let mixed = |row: &Vec<f64>| {
            let sum = |frame: usize| {
                let parts = row.iter().zip(&sent.channels);
                parts.map(|(part, channel)| part * f64::from(channel[frame])).sum::<f64>() as f32
            };
            (0..sent.frames()).map(sum).collect()
        };
        Sound { channels: self.coefficients.iter().map(mixed).collect(), rate: sent.rate }
    }
}

/// Near the given pieces or at any likely position.
pub(super) fn find(both: Both<'_>, bits: Option<u32>, pieces: &[Piece]) -> Option<ChannelMix> {
    let mut finder = MixFinder { both, fit: WindowFitter::new(both, bits), rendered: Vec::new() };
    let sounding = both.sent.sounding();
    let mut longest: Vec<_> = pieces.iter().collect();
    longest.sort_by_key(|piece| core::cmp::Reverse(piece.received.len()));
    let known = longest.into_iter().take(LINES).map(|piece| {
        (
            piece.received.start,
            FrameLine { at: piece.received.start as f64, place: piece.from, ..piece.line() },
        )
    });
    let known: Vec<_> = known.collect();
    if let Some(mix) = known.into_iter().find_map(|(at, line)| finder.about(at, line)) {
        return Some(mix);
    }
    let coarse = Coarse::new(both.sent, both.received);
    let starts = [sounding.start, sounding.start + sounding.len() / 2];
    let channels = 0..both.sent.channels.len();
    channels.flat_map(|source| starts.map(|from| (source, from))).find_map(|(source, from)| {
        let likely = coarse.find_sent(source, from, sounding.end - from);
        likely.iter().take(2).find_map(|Likely { received, sent, .. }| {
            let line = FrameLine { at: *received as f64, place: *sent as f64, step: 1.0 };
            finder.about(*received, line)
        })
    })
}

struct MixFinder<'a> {
    both: Both<'a>,
    fit: WindowFitter<'a>,
    rendered: Vec<Vec<f32>>,
}

struct FittedMix {
    coefficients: Vec<Vec<f64>>,
    energy: f64,
    rest: f64,
    alone: f64,
}

impl MixFinder<'_> {
    fn about(&mut self, at: usize, near: FrameLine) -> Option<ChannelMix> {
        let sounding = self.both.sent.sounding();
        let frames = self.both.received.frames();
        let end = frames.min(at + (sounding.end as f64 - near.place(at as f64)).max(0.0) as usize);
        let window = |at: usize| at..end.min(at + WINDOW);
        let energy = |at: &usize| self.both.received.energy(&window(*at));
        let starts = (at..end.saturating_sub(MIN)).step_by(WINDOW).take(16 * WINDOWS);
        let first = starts.max_by(|a, b| energy(a).total_cmp(&energy(b)))?;
        let line = self.settle(window(first), near)?;
        let last = first + WINDOWS * WINDOW;
        let fitted = self.mix(first..end.min(last), &line)?;
        let good = fitted.rest <= LEFT_OVER * fitted.energy && fitted.rest <= BETTER * fitted.alone;
        good.then_some(ChannelMix { coefficients: fitted.coefficients })
    }

    /// First whole, then fractional.
    fn settle(&mut self, window: Range<usize>, near: FrameLine) -> Option<FrameLine> {
        let nearest = near.nearest(window.start);
        let whole = outwards(NEAR).filter_map(|away| {
            let place = (window.start as i64 + nearest + away) as f64;
            let line = FrameLine { at: window.start as f64, place, ..near };
            Some((self.mix(window.clone(), &line)?.rest, line))
        });
        let (rest, mut line) = whole.min_by(|one, other| one.0.total_cmp(&other.0))?;
        let exact = line;
        let Both { sent, received } = self.both;
        let channel = received.loudest(window.clone());
        for _ in 0..ROUNDS {
            let row = self.mix(window.clone(), &line)?.coefficients.swap_remove(channel);
            let mixed = |from: i64, out: &mut [f32]| {
                let mut samples = vec![0.0; out.len()];
                out.fill(0.0);
                for (part, channel) in row.iter().zip(&sent.channels) {
                    padded(channel)(from, &mut samples);
                    let parts = out.iter_mut().zip(&samples);
                    parts.for_each(|(out, sample)| *out += *part as f32 * sample);
                }
            };
            let received = &received.channels[channel][window.clone()];
            let moved = self.fit.refined(received, (window.start, &line), 1, mixed)?;
            let further = moved.place - line.place;
            line = moved;
            if further.abs() < STILL {
                break;
            }
        }
        let between = self.mix(window, &line)?.rest;
        Some(if rest <= 1.02 * between { exact } else { line })
    }

    fn render(&mut self, window: &Range<usize>, line: &FrameLine) {
        let count = self.both.sent.channels.len();
        self.rendered.resize(count, Vec::new());
        for source in 0..count {
            let mut all = core::mem::take(&mut self.rendered[source]);
            all.clear();
            for at in window.clone().step_by(WINDOW) {
                let part = at..window.end.min(at + WINDOW);
                all.extend(self.fit.rendered(source, &part, line));
            }
            self.rendered[source] = all;
        }
    }

    fn mix(&mut self, window: Range<usize>, line: &FrameLine) -> Option<FittedMix> {
        self.render(&window, line);
        let sources = &self.rendered;
        let product = |one: &[f32], other: &[f32]| -> f64 {
            one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
        };
        let squares: Vec<Vec<f64>> = sources
            .iter()
            .map(|one| sources.iter().map(|other| product(one, other)).collect())
            .collect();
        let ridge = RIDGE * (0..squares.len()).map(|at| squares[at][at]).sum::<f64>();
        if ridge <= 0.0 {
            return None;
        }
        let mut fitted = FittedMix { coefficients: Vec::new(), energy: 0.0, rest: 0.0, alone: 0.0 };
        for channel in &self.both.received.channels {
            let received = &channel[window.clone()];
            let products: Vec<_> = sources.iter().map(|source| product(source, received)).collect();
            let row = |(at, (square, product)): (usize, (&Vec<f64>, &f64))| {
                let mut row: Vec<_> = square.iter().chain([product]).copied().collect();
                row[at] += ridge;
                row
            };
            let mut rows: Vec<_> = squares.iter().zip(&products).enumerate().map(row).collect();
            if !solve(&mut rows) {
                return None;
            }
            let part = |row: Vec<f64>| row.last().copied().filter(|part| part.abs() >= NONE);
            let row: Vec<_> = rows.into_iter().map(|row| part(row).unwrap_or(0.0)).collect();
            let energy = product(received, received);
            let left = received.iter().enumerate().map(|(at, received)| {
                let parts = row.iter().zip(sources);
                let sum: f64 = parts.map(|(part, source)| part * f64::from(source[at])).sum();
                (f64::from(*received) - sum).powi(2)
            });
            let alone = products.iter().enumerate().map(|(at, product)| {
                energy
                    - if squares[at][at] > 0.0 { product * product / squares[at][at] } else { 0.0 }
            });
            fitted.rest += left.sum::<f64>();
            fitted.alone += alone.fold(energy, f64::min);
            fitted.energy += energy;
            fitted.coefficients.push(row);
        }
        (fitted.energy > 0.0).then_some(fitted)
    }
}
