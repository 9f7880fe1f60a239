//! Fits resampled, scaled, inverted or requantised sound, window by window.

mod acquire;

use core::ops::Range;

use tautline_dsp::align::{LineFitter, Similarity, padded};
use tautline_dsp::resample::Quality;

use super::exact::Both;
use super::pieces::{BLOCK, ChannelRouting, FrameLine, GainRange};
use super::sound::power;

/// Frames of a window: 21 ms at 48 kHz.
pub(super) const WINDOW: usize = 1024;
/// Minimum frames for an own position. Shorter windows take it from the previous line.
pub(super) const MIN: usize = 256;
/// Maximum residual of a window: −20 dB.
const LEFT_OVER: f64 = 1e-2;
/// Maximum residual relative to the window's mean: −10 dB.
const BLOCK_LEFT_OVER: f64 = 1e-1;
const CLEAN: f64 = 1e-6;
/// Silence: −100 dBFS.
pub(super) const QUIET: f64 = 1e-10;
/// Mean squares of the noise.
const NOISE_OF_BLOCK: f64 = 4.0;
const NOISE_OF_WINDOW: f64 = 2.0;
/// Minimum energy to measure the gain, 12 dB, and the position, 20 dB.
const ABOVE_NOISE: f64 = 16.0;
const FITTED_ABOVE_NOISE: f64 = 100.0;
/// Maximum relative residual at which whole frames are preferred. Noise causes 0.3 %.
const AS_GOOD: f64 = 1.02;
/// Maximum relative residual at which the expected line is kept despite a jump. Low frequencies
/// hardly determine fractions of a frame.
const NEARLY_AS_GOOD: f64 = 1.1;
/// Rounds, and the change in frames that stops them.
pub(super) const ROUNDS: usize = 6;
pub(super) const STILL: f64 = 1e-4;
/// Maximum distance from the expected position.
const JUMP: f64 = 0.3;
const TRUST: f64 = 0.1;
const SAME_GAIN: f64 = 0.12;
/// Minimum power of a click: 8 times (18 dB) the RMS residual. One noise sample in 10^15 exceeds
/// it.
const CLICK: f64 = 64.0;
/// Minimum power of a click relative to the peak nearby: a quarter (−12 dB). At a drum hit, a
/// resampler's residual is smaller.
const CLICK_OF_PEAK: f64 = 1.0 / 16.0;

#[derive(Debug, Clone)]
pub(super) struct Fitted {
    pub(super) line: FrameLine,
    pub(super) energy: f64,
    pub(super) rest: f64,
    pub(super) volumes: Vec<Option<GainRange>>,
}

pub(super) struct WindowFitter<'a> {
    both: Both<'a>,
    /// Requantisation to the recording's bits, with dither.
    floor: f64,
    /// Taken from the best window since the last seed.
    noise: f64,
    fitter: LineFitter,
}

impl<'a> WindowFitter<'a> {
    pub(super) fn new(both: Both<'a>, bits: Option<u32>) -> Self {
        let fitter = LineFitter::new(Quality::default(), WINDOW);
        let floor = bits.map_or(0.0, |bits| 0.25_f64.powi(bits as i32 - 1));
        Self { both, floor, noise: 0.0, fitter }
    }

    pub(super) fn floor(&self) -> f64 {
        self.floor
    }

    pub(super) fn forget_noise(&mut self) {
        self.noise = 0.0;
    }

    fn learn_noise(&mut self, fitted: &Fitted, routing: &ChannelRouting, count: usize) {
        let live = routing.gains.iter().filter(|gain| **gain != 0.0).count().max(1);
        self.noise = self.noise.min(fitted.rest / (live * count) as f64);
    }

    pub(super) fn rendered(
        &mut self,
        source: usize,
        window: &Range<usize>,
        line: &FrameLine,
    ) -> &[f32] {
        let sent = padded(&self.both.sent.channels[source]);
        self.fitter.read(line.along(window.start), window.len(), sent)
    }

    fn similarity(
        &mut self,
        (channel, source): (usize, usize),
        window: &Range<usize>,
        line: &FrameLine,
    ) -> Similarity {
        let Both { sent, received } = self.both;
        let received = &received.channels[channel][window.clone()];
        self.fitter.similarity(received, line.along(window.start), padded(&sent.channels[source]))
    }

    pub(super) fn refined(
        &mut self,
        received: &[f32],
        near: (usize, &FrameLine),
        rounds: usize,
        sound: impl Fn(i64, &mut [f32]),
    ) -> Option<FrameLine> {
        let (at, line) = near;
        let along = self.fitter.refine(received, line.along(at), (rounds, STILL), sound)?;
        Some(FrameLine::of(along, at))
    }

    /// Fits up to a window near `line`.
    pub(super) fn window(
        &mut self,
        window: &Range<usize>,
        line: &FrameLine,
        routing: &ChannelRouting,
    ) -> Option<Fitted> {
        let count = window.len();
        let channel = self.loudest(window, routing);
        let energy = power(&self.both.received.channels[channel][window.clone()]);
        let quiet = QUIET + 100.0 * self.floor + FITTED_ABOVE_NOISE * self.noise;
        let says = count >= MIN && energy > quiet * count as f64;
        let kept = line.offset().filter(|_| says).and_then(|_| {
            let fitted = self.holds(window, line, routing)?;
            (fitted.rest <= CLEAN * fitted.energy).then_some(fitted)
        });
        match (says, kept) {
            (_, Some(kept)) => {
                self.learn_noise(&kept, routing, count);
                Some(kept)
            }
            (false, None) => self.holds(window, line, routing),
            (true, None) => {
                let fitted = self.best(window, line, channel, routing)?;
                let centre = centre(&self.both.received.channels[channel], window);
                let off = fitted.place(centre) - line.place(centre);
                let held = self.holds(window, &fitted, routing)?;
                if off.abs() > JUMP {
                    let stayed = self.holds(window, line, routing)?;
                    return (stayed.rest <= NEARLY_AS_GOOD * held.rest).then_some(stayed);
                }
                self.learn_noise(&held, routing, count);
                let away = centre - line.at;
                let step = match fitted.offset() {
                    Some(_) => 1.0,
                    // One window determines the drift poorly.
                    None => {
                        line.step + TRUST * (off / away.abs().max(count as f64)) * away.signum()
                    }
                };
                let steered = FrameLine { at: centre, place: fitted.place(centre), step };
                Some(Fitted { line: steered, ..held })
            }
        }
    }

    /// Fractional, whole-frame if as good, or the given one.
    fn best(
        &mut self,
        window: &Range<usize>,
        line: &FrameLine,
        channel: usize,
        routing: &ChannelRouting,
    ) -> Option<FrameLine> {
        let (at, count) = (window.start, window.len());
        let (source, sign) = (routing.sources[channel], routing.gains[channel].signum() as f32);
        let received = &self.both.received.channels[channel][window.clone()];
        let turned: Vec<_> = received.iter().map(|sample| sample * sign).collect();
        let sent = padded(&self.both.sent.channels[source]);
        let fitted = self.refined(&turned, (at, line), ROUNDS, sent)?;
        let between = self.similarity((channel, source), window, &fitted);
        let rest = |alike: &Similarity| alike.rest(alike.gain());
        let minimum = AS_GOOD * rest(&between) + 1e-3 * CLEAN * between.energy();
        // The expected line wins if as good: one window is weak evidence.
        let whole = FrameLine::whole(fitted.nearest(at + count / 2));
        let centre = centre(&self.both.received.channels[channel], window);
        let undrifted = FrameLine { at: centre, place: fitted.place(centre), step: line.step };
        let [one, other] = if line.offset().is_some() { [*line, whole] } else { [whole, *line] };
        let lines = [one, other, undrifted];
        let good = lines
            .into_iter()
            .find(|line| rest(&self.similarity((channel, source), window, line)) <= minimum);
        Some(good.unwrap_or(fitted))
    }

    pub(super) fn holds(
        &mut self,
        window: &Range<usize>,
        line: &FrameLine,
        routing: &ChannelRouting,
    ) -> Option<Fitted> {
        let count = window.len();
        let (mut energy, mut rest) = (0.0, 0.0);
        let mut volumes = vec![None; routing.gains.len()];
        for (channel, volume) in volumes.iter_mut().enumerate() {
            if routing.gains[channel] == 0.0 {
                if self.sounds_again(window, line, channel, routing) {
                    return None;
                }
                continue;
            }
            let (good, alike) = self.blocks(window, line, channel, routing);
            if good < count {
                return None;
            }
            energy += alike.energy();
            rest += alike.rest(routing.gains[channel]);
            let says = count >= MIN && self.is_loud(&alike, count);
            *volume = says.then(|| GainRange::of(alike.gain()));
        }
        Some(Fitted { line: *line, energy, rest, volumes })
    }

    fn is_loud(&self, alike: &Similarity, count: usize) -> bool {
        let minimum = 100.0 * (self.floor + QUIET) + ABOVE_NOISE * self.noise;
        alike.energy() > minimum * count as f64
    }

    fn sounds_again(
        &mut self,
        window: &Range<usize>,
        line: &FrameLine,
        channel: usize,
        routing: &ChannelRouting,
    ) -> bool {
        let received = &self.both.received.channels[channel][window.clone()];
        self.rendered(routing.sources[channel], window, line);
        let here = self.fitter.last().chunks_exact(MIN);
        received.chunks_exact(MIN).zip(here).any(|(received, here)| {
            let alike = Similarity::between(received, here);
            let left = alike.rest(alike.gain());
            self.is_loud(&alike, MIN) && left <= LEFT_OVER * alike.energy()
        })
    }

    /// Clicks of any channel.
    pub(super) fn clicks(
        &mut self,
        among: &Range<usize>,
        window: &Range<usize>,
        line: &FrameLine,
        routing: &ChannelRouting,
    ) -> Vec<(usize, usize)> {
        let (at, count) = (window.start, window.len());
        let mut all = Vec::new();
        for channel in (0..routing.gains.len()).filter(|channel| routing.gains[*channel] != 0.0) {
            let alike = self.similarity((channel, routing.sources[channel]), window, line);
            let received = &self.both.received.channels[channel][window.clone()];
            let here = self.fitter.last();
            let gain =
                if self.is_loud(&alike, count) { alike.gain() } else { routing.gains[channel] };
            let rest =
                |(received, here): (&f32, &f32)| f64::from(*received) - gain * f64::from(*here);
            let minimum = CLICK * alike.rest(gain) / count as f64 + CLICK * (self.floor + QUIET);
            for index in 0..count {
                let off = rest((&received[index], &here[index])).powi(2);
                if off <= minimum || !among.contains(&(at + index)) {
                    continue;
                }
                let near = index.saturating_sub(BLOCK / 2)..count.min(index + BLOCK / 2);
                let peak = here[near].iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
                if off > CLICK_OF_PEAK * (gain * f64::from(peak)).powi(2) {
                    all.push((at + index, line.place((at + index) as f64).round() as usize));
                }
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Leading frames that match, in whole blocks, and the window's similarity.
    fn blocks(
        &mut self,
        window: &Range<usize>,
        line: &FrameLine,
        channel: usize,
        routing: &ChannelRouting,
    ) -> (usize, Similarity) {
        let count = window.len();
        let received = &self.both.received.channels[channel][window.clone()];
        let here = self.rendered(routing.sources[channel], window, line);
        let alikes: Vec<_> = received
            .chunks(BLOCK)
            .zip(here.chunks(BLOCK))
            .map(|(received, here)| Similarity::between(received, here))
            .collect();
        let all = alikes.iter().fold(Similarity::default(), |all, alike| all.and(alike));
        let gain = routing.gains[channel];
        let spare = self.floor + QUIET;
        let mean = all.energy_of_other() * gain * gain / count.div_ceil(BLOCK) as f64;
        let good = alikes.iter().take_while(|alike| {
            let energy = (alike.energy_of_other() * gain * gain).max(mean);
            let noise = NOISE_OF_BLOCK * self.noise * BLOCK as f64;
            alike.rest(gain) <= noise.max(BLOCK_LEFT_OVER * energy + spare * BLOCK as f64)
        });
        let good = count.min(good.count() * BLOCK);
        let off = (all.gain() / gain - 1.0).abs() > SAME_GAIN;
        let loud = self.is_loud(&all, count);
        let noise = NOISE_OF_WINDOW * self.noise * count as f64;
        let left = all.rest(gain) > noise.max(LEFT_OVER * all.energy() + spare * count as f64);
        let good = if good == count && (left || loud && off) { 0 } else { good };
        (good, all)
    }

    pub(super) fn loudest(&self, window: &Range<usize>, routing: &ChannelRouting) -> usize {
        let live = (0..routing.gains.len()).filter(|channel| routing.gains[*channel] != 0.0);
        let energy =
            |channel: &usize| power(&self.both.received.channels[*channel][window.clone()]);
        live.max_by(|one, other| energy(one).total_cmp(&energy(other))).unwrap_or(0)
    }
}

fn centre(samples: &[f32], window: &Range<usize>) -> f64 {
    let (mut moment, mut energy) = (0.0, 0.0);
    for (sample, at) in samples[window.clone()].iter().zip(window.clone()) {
        let square = f64::from(*sample).powi(2);
        moment += square * at as f64;
        energy += square;
    }
    moment / energy
}
