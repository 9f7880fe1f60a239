//! Linear part of the echo path, learned by a partitioned-block frequency-domain Kalman filter (F.
//! Kuech, E. Mabande and G. Enzner, *State-space architecture of the partitioned-block-based
//! acoustic echo controller*, ICASSP 2014).
//!
//! The first block of taps is applied to samples directly, so no sample waits for a block.

use super::transform::{Bins, Transform, convolve};
use crate::vector::widest;

/// Pre-emphasis, so that loud bass does not leak into other bins.
const EMPHASIS: f32 = 0.9;
/// Expected change of the weights per block, as relative energy.
const CHANGES: f32 = 1e-4;
/// Weight of a block's certainty. It is low, because errors of the parts correlate.
const CERTAINTY: f32 = 0.15;
const NOISE_STEP: f32 = 0.15;

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) block: usize,
    pub(super) parts: usize,
    pub(super) longest_delay: usize,
}

pub(super) struct Reference {
    shape: Shape,
    /// The current block is at the end.
    line: Box<[f32]>,
    last: f32,
    /// Newest block first, from `newest` on.
    spectra: Box<[Bins]>,
    newest: usize,
    pub(super) delay: usize,
}

impl Reference {
    pub(super) fn new(shape: Shape) -> Self {
        let Shape { block, parts, longest_delay } = shape;
        Self {
            shape,
            line: vec![0.0; longest_delay + (parts + 3) * block].into(),
            last: 0.0,
            spectra: vec![Bins::new(block + 1); parts].into(),
            newest: 0,
            delay: 0,
        }
    }

    pub(super) fn reach(&self) -> usize {
        self.line.len() + 2 * self.shape.block
    }

    pub(super) fn push(&mut self, at: usize, sample: f32) {
        let place = self.line.len() - self.shape.block + at;
        self.line[place] = sample - EMPHASIS * self.last;
        self.last = sample;
    }

    pub(super) fn next_block(&mut self, transform: &mut Transform) {
        self.newest = (self.newest + self.shape.parts - 1) % self.shape.parts;
        self.transform(0, 0, transform);
        self.line.copy_within(self.shape.block.., 0);
    }

    fn transform(&mut self, part: usize, age: usize, transform: &mut Transform) {
        let Shape { block, parts, .. } = self.shape;
        let end = self.line.len() - self.delay - age - part * block;
        let index = (self.newest + part) % parts;
        transform.forward(&self.line[end - 2 * block..end], &mut self.spectra[index]);
    }

    pub(super) fn set_delay(&mut self, delay: usize, transform: &mut Transform) {
        self.delay = delay.min(self.shape.longest_delay);
        // The spectra cover the time before the current block.
        (0..self.shape.parts).for_each(|part| self.transform(part, self.shape.block, transform));
    }

    fn spectrum(&self, part: usize) -> &Bins {
        &self.spectra[(self.newest + part) % self.shape.parts]
    }

    fn near(&self, at: usize, count: usize) -> &[f32] {
        let start = self.line.len() - 2 * self.shape.block + at - self.delay;
        &self.line[start..start + self.shape.block + count]
    }
}

pub(super) struct Paths {
    shape: Shape,
    weights: Box<[Bins]>,
    variances: Box<[Box<[f32]>]>,
    heads: Box<[Box<[f32]>]>,
    /// Echo in the current block.
    tail: Box<[f32]>,
    /// Current block, and its estimated echo.
    received: Box<[f32]>,
    estimated: Box<[f32]>,
    last: f32,
    echo: f32,
    watch: Watch,
    /// Unfit for learning.
    damaged: bool,
    /// Everything but echo.
    noise: Box<[f32]>,
    error: Bins,
    expected: Box<[f32]>,
    /// `1 / (power of the expected error and of the noise)`.
    whole: Box<[f32]>,
    updated: usize,
    time: Box<[f32]>,
    sum: Bins,
}

impl Paths {
    pub(super) fn new(shape: Shape, loudspeakers: usize) -> Self {
        let Shape { block, parts, .. } = shape;
        let (bins, count) = (block + 1, loudspeakers * parts);
        Self {
            shape,
            weights: vec![Bins::new(bins); count].into(),
            variances: (0..count)
                .map(|index| vec![prior(index % parts, parts); bins].into())
                .collect(),
            heads: vec![vec![0.0; block].into(); loudspeakers].into(),
            tail: vec![0.0; block].into(),
            received: vec![0.0; block].into(),
            estimated: vec![0.0; block].into(),
            watch: Watch::default(),
            damaged: false,
            last: 0.0,
            echo: 0.0,
            noise: vec![0.0; bins].into(),
            error: Bins::new(bins),
            expected: vec![0.0; bins].into(),
            whole: vec![0.0; bins].into(),
            updated: count,
            time: vec![0.0; 2 * block].into(),
            sum: Bins::new(bins),
        }
    }

    /// Share of the prior.
    pub(super) fn doubt(&mut self, share: f32) {
        let parts = self.shape.parts;
        for (index, variances) in self.variances.iter_mut().enumerate() {
            let minimum = share * prior(index % parts, parts);
            variances.iter_mut().for_each(|variance| *variance = variance.max(minimum));
        }
    }

    pub(super) fn estimate(
        &mut self,
        references: &[Reference],
        at: usize,
        captured: &[f32],
        echo: &mut [f32],
    ) {
        let count = captured.len();
        echo.copy_from_slice(&self.tail[at..at + count]);
        for (reference, head) in references.iter().zip(&self.heads) {
            let near = reference.near(at, count);
            widest(
                #[inline(always)]
                |_| convolve(near, head, echo),
            );
        }
        self.estimated[at..at + count].copy_from_slice(echo);
        for (echo, (captured, received)) in
            echo.iter_mut().zip(captured.iter().zip(&mut self.received[at..]))
        {
            *received = captured - EMPHASIS * self.last;
            self.last = *captured;
            self.echo = *echo + EMPHASIS * self.echo;
            if self.echo.abs() < 1e-20 {
                self.echo = 0.0;
            }
            *echo = self.echo;
        }
    }

    pub(super) fn spoil(&mut self) {
        self.damaged = true;
    }

    pub(super) fn newest(&self, from: usize, until: usize) -> (&[f32], &[f32]) {
        (&self.received[from..until], &self.estimated[from..until])
    }

    pub(super) fn watch(&mut self) -> Doubt {
        let doubt = self.watch.judge(&self.received, &self.estimated);
        if doubt == Doubt::Changed {
            self.doubt(1.0);
        }
        doubt
    }

    pub(super) fn moved(&mut self) {
        self.watch = Watch { learned: true, ..Watch::default() };
    }

    pub(super) fn expected(&self) -> impl Iterator<Item = f32> {
        self.expected.iter().copied()
    }

    pub(super) fn next_block(&mut self, references: &[Reference], transform: &mut Transform) {
        let Shape { block, parts, .. } = self.shape;
        self.update(references, transform, self.weights.len());
        let Self { sum, weights, variances, .. } = self;
        sum.clear();
        self.expected.fill(0.0);
        for (index, (weights, variances)) in weights.iter().zip(variances.iter()).enumerate() {
            let spectrum = references[index / parts].spectrum(index % parts);
            widest(
                #[inline(always)]
                |_| {
                    add_product(sum, weights, spectrum);
                    add_power(&mut self.expected, variances, spectrum);
                },
            );
        }
        transform.inverse(sum, &mut self.time);
        self.time[..block].fill(0.0);
        for (time, received) in self.time[block..].iter_mut().zip(&self.received) {
            *time = received - *time;
        }
        transform.forward(&self.time, &mut self.error);
        let rates = self.whole.iter_mut().zip(&mut self.noise).zip(&self.expected);
        for (((whole, noise), expected), power) in rates.zip(self.error.power()) {
            *noise += NOISE_STEP * (power - *noise);
            *whole = 1.0 / (expected + 2.0 * *noise + 1e-9);
        }
        let damaged = core::mem::take(&mut self.damaged);
        let learns = !damaged && !self.watch.holds;
        self.updated = if learns { 0 } else { weights.len() };
        sum.clear();
        for (index, weights) in weights.iter().enumerate() {
            let part = index % parts;
            if part > 0 {
                let spectrum = references[index / parts].spectrum(part - 1);
                widest(
                    #[inline(always)]
                    |_| add_product(sum, weights, spectrum),
                );
            }
        }
        transform.inverse(sum, &mut self.time);
        self.tail.copy_from_slice(&self.time[block..]);
    }

    pub(super) fn update(
        &mut self,
        references: &[Reference],
        transform: &mut Transform,
        until: usize,
    ) {
        let Shape { block, parts, .. } = self.shape;
        while self.updated < until.min(self.weights.len()) {
            let index = self.updated;
            let spectrum = references[index / parts].spectrum(index % parts);
            let (weights, variances) = (&mut self.weights[index], &mut self.variances[index]);
            widest(
                #[inline(always)]
                |_| learn(weights, variances, spectrum, &self.error, &self.whole),
            );
            transform.inverse(weights, &mut self.time);
            self.time[block..].fill(0.0);
            transform.forward(&self.time, weights);
            if index.is_multiple_of(parts) {
                self.heads[index / parts].copy_from_slice(&self.time[..block]);
            }
            self.updated += 1;
        }
    }

    pub(super) fn parts(&self) -> usize {
        self.weights.len()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    Good,
    Jumped,
    Changed,
}

#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    captured: f32,
    left: f32,
    learned: bool,
    /// Keeps the path for a jump search.
    holds: bool,
    adds: u32,
}

impl Watch {
    const STEP: f32 = 0.2;
    /// Blocks until a jump search, and until the room counts as changed.
    const SEARCHES: u32 = 4;
    const CHANGES: u32 = 32;

    fn judge(&mut self, received: &[f32], estimated: &[f32]) -> Doubt {
        let energy =
            |samples: &mut dyn Iterator<Item = f32>| samples.map(|one| one * one).sum::<f32>();
        let captured = energy(&mut received.iter().copied());
        let left =
            energy(&mut received.iter().zip(estimated).map(|(received, echo)| received - echo));
        self.captured += Self::STEP * (captured - self.captured);
        self.left += Self::STEP * (left - self.left);
        self.learned |= self.captured > 10.0 * self.left;
        if self.left > 1.05 * self.captured {
            self.adds += 1;
        } else if self.left < 0.8 * self.captured {
            self.adds = 0;
        }
        self.holds = self.learned && self.adds > 0 && left > captured;
        match self.adds {
            ..Self::SEARCHES => Doubt::Good,
            Self::SEARCHES..Self::CHANGES if self.learned => Doubt::Jumped,
            _ => {
                *self = Self::default();
                Doubt::Changed
            }
        }
    }
}

/// Room sound decays.
fn prior(part: usize, parts: usize) -> f32 {
    let fades = |part: usize| 10_f32.powf(-4.0 * part as f32 / parts as f32);
    fades(part) / (0..parts).map(fades).sum::<f32>()
}

#[inline(always)]
fn add_product(sum: &mut Bins, one: &Bins, other: &Bins) {
    let count = sum.re.len();
    let (sre, sim) = (&mut sum.re[..count], &mut sum.im[..count]);
    let (are, aim) = (&one.re[..count], &one.im[..count]);
    let (bre, bim) = (&other.re[..count], &other.im[..count]);
    for k in 0..count {
        sre[k] += are[k] * bre[k] - aim[k] * bim[k];
        sim[k] += are[k] * bim[k] + aim[k] * bre[k];
    }
}

#[inline(always)]
fn add_power(sum: &mut [f32], variances: &[f32], spectrum: &Bins) {
    let count = sum.len();
    let (variances, re, im) = (&variances[..count], &spectrum.re[..count], &spectrum.im[..count]);
    for k in 0..count {
        sum[k] += variances[k] * (re[k] * re[k] + im[k] * im[k]);
    }
}

#[inline(always)]
fn learn(weights: &mut Bins, variances: &mut [f32], spectrum: &Bins, error: &Bins, whole: &[f32]) {
    let count = variances.len();
    let (wre, wim) = (&mut weights.re[..count], &mut weights.im[..count]);
    let (xre, xim) = (&spectrum.re[..count], &spectrum.im[..count]);
    let (ere, eim) = (&error.re[..count], &error.im[..count]);
    let whole = &whole[..count];
    for k in 0..count {
        let step = variances[k] * whole[k];
        let power = xre[k] * xre[k] + xim[k] * xim[k];
        wre[k] += step * (xre[k] * ere[k] + xim[k] * eim[k]);
        wim[k] += step * (xre[k] * eim[k] - xim[k] * ere[k]);
        let size = wre[k] * wre[k] + wim[k] * wim[k];
        let keeps = (1.0 - CERTAINTY * step * power).max(0.0);
        variances[k] = (1.0 - CHANGES) * keeps * variances[k] + CHANGES * size;
    }
}
