use core::ops::Range;

use tautline_dsp::align::{energy, padded};
use tautline_dsp::fit::CommonSlope;
use tautline_proto::time::Frames;

use super::correlation::{Correlator, Found, Lag};
use super::fitting::{DelayFitter, Fit, PhaseLine};
use super::periodic::{PERIODIC, Periodic, PeriodicWindow, REPEATS, evenness};
use super::{
    AlignOptions, DelayDrift, DelayStep, InvalidWindow, Tap, TapDelay, TapDelays, TapWindow, fine,
    ppm,
};

/// Mean square of silence, −100 dBFS.
const QUIET: f64 = 1e-10;
/// Maximum drift in frames per window. A larger drift smears the correlation and is removed first.
const SMEARED: f64 = 1.0;
/// Minimum step in frames. Clocks wander by less, and dropped frames are whole.
const WANDER: f64 = 0.5;
/// Minimum evenness of a carried-over window: its softest part is within 15 dB of the loudest.
const EVEN: f64 = 0.03;
/// Minimum possible step: half a frame, minus scatter.
const SUSPECT: f64 = 0.3;

/// Smallest reported difference of delays, in seconds.
const RESOLUTION: f64 = 1e-9;

#[derive(Clone)]
struct FitWindow {
    begins: usize,
    found: Result<(Lag, Fit), InvalidWindow>,
    /// Period in frames, if the delay may be wrong by whole periods.
    modulo: Option<f64>,
}

pub(super) struct TapSeries<'a> {
    first: &'a [f32],
    second: &'a [f32],
    options: &'a AlignOptions,
    frames: usize,
    fitter: DelayFitter,
    windows: Vec<FitWindow>,
    /// Delays with inverted polarity, by first frame of the window.
    inverted: Vec<(usize, f64)>,
}

impl<'a> TapSeries<'a> {
    pub(super) fn of(first: &'a [f32], second: &'a [f32], options: &'a AlignOptions) -> Self {
        let shorter = first.len().min(second.len());
        let frames = options.window.as_len().clamp(64, shorter.max(64));
        let max_delay = options.max_delay.as_len().clamp(1, shorter.max(1));
        let mut series = Self {
            first,
            second,
            options,
            frames,
            fitter: DelayFitter::new(frames),
            windows: Vec::new(),
            inverted: Vec::new(),
        };
        let begins: Vec<_> = (0..(first.len() / frames)).map(|index| index * frames).collect();
        let mut correlator = Correlator::new(frames, max_delay);
        let mut coarse: Vec<_> =
            begins.iter().map(|at| series.coarse(&mut correlator, *at, max_delay, 0.0)).collect();
        let drift = coarse_drift(&coarse, frames);
        if (drift * frames as f64).abs() > SMEARED {
            coarse = begins
                .iter()
                .map(|at| series.coarse(&mut correlator, *at, max_delay, drift))
                .collect();
        }
        let windows = begins.into_iter().zip(coarse);
        series.windows = windows.map(|(at, coarse)| series.fine(at, coarse, drift)).collect();
        series.carry_on();
        series
    }

    fn coarse(
        &mut self,
        correlator: &mut Correlator,
        at: usize,
        max_delay: usize,
        drift: f64,
    ) -> Result<Lag, InvalidWindow> {
        let window = &self.first[at..at + self.frames];
        if self.second.len() < at + self.frames / 2 {
            return Err(InvalidWindow::PastEnd);
        }
        let mut region = vec![0.0; self.frames + 2 * max_delay];
        if drift == 0.0 {
            padded(self.second)(at as i64 - max_delay as i64, &mut region);
        } else {
            let middle = (region.len() as f64) / 2.0;
            let begins = at as f64 - max_delay as f64 + middle - middle * (1.0 + drift);
            self.fitter.take(self.second, begins, drift, &mut region);
        }
        for (tap, samples) in [(Tap::First, window), (Tap::Second, &region[..])] {
            if energy(samples) <= QUIET * samples.len() as f64 {
                return Err(InvalidWindow::Silent(tap));
            }
        }
        let found = correlator.find(window, &region);
        let periodic = match found {
            Found::AtTheEnd | Found::Ambiguous(_) => self.periodic(at, max_delay, &region, REPEATS),
            // Whitening amplifies noise between tones.
            Found::Lag(_) => self.periodic(at, max_delay, &region, PERIODIC),
            Found::Unlike => None,
        };
        let all = |delays: Vec<f64>| delays.into_iter().map(fine).collect();
        match (periodic, found) {
            (Some(Periodic::Proven(lag)), _) | (None, Found::Lag(lag)) => Ok(lag),
            (Some(Periodic::Ambiguous { delays, inverted, period }), _) => {
                self.inverted.extend(inverted.map(|delay| (at, delay)));
                Err(InvalidWindow::Ambiguous { delays: all(delays), period: Some(fine(period)) })
            }
            (None, Found::Unlike) => Err(InvalidWindow::Unlike),
            (None, Found::AtTheEnd) => Err(InvalidWindow::EndOfRange),
            (None, Found::Ambiguous(delays)) => {
                Err(InvalidWindow::Ambiguous { delays: all(delays), period: None })
            }
        }
    }

    fn periodic(
        &mut self,
        at: usize,
        max_delay: usize,
        region: &[f32],
        alike: f64,
    ) -> Option<Periodic> {
        let recorded = max_delay.saturating_sub(at).min(region.len())
            ..region.len().min((self.second.len() + max_delay).saturating_sub(at));
        let window = at..at + self.frames;
        let first = self.first;
        PeriodicWindow { first, window, region, recorded, max_delay }
            .settle(&mut self.fitter, alike)
    }

    /// Resolves windows without a delay, each from the nearest window that has a delay.
    fn carry_on(&mut self) {
        let is_found = |window: &FitWindow| window.found.is_ok();
        let nearest = |windows: &[FitWindow], at: usize| {
            let found = (0..windows.len()).filter(|other| is_found(&windows[*other]));
            found.min_by_key(|other| other.abs_diff(at))
        };
        let mut open: Vec<_> = (0..self.windows.len())
            .filter(|at| {
                matches!(
                    &self.windows[*at].found,
                    Err(InvalidWindow::Ambiguous { period: Some(_), .. })
                )
            })
            .filter(|at| {
                let begins = self.windows[*at].begins;
                evenness(&self.first[begins..begins + self.frames]) > EVEN
            })
            .filter_map(|at| Some((nearest(&self.windows, at)?.abs_diff(at), at)))
            .collect();
        open.sort_unstable();
        for (_, at) in open {
            let Some(near) = nearest(&self.windows, at) else { return };
            let (Ok((_, fit)), Err(InvalidWindow::Ambiguous { delays, period: Some(period) })) =
                (&self.windows[near].found, &self.windows[at].found)
            else {
                continue;
            };
            let (line, period) = (fit.line, period.as_f64());
            let apart = (at as f64 - near as f64) * self.frames as f64;
            let expected = line.delay + line.drift * apart;
            let begins = self.windows[at].begins;
            let inverted = self.inverted.iter().rfind(|(begun, _)| *begun == begins);
            let any = match fit.gain < 0.0 {
                true => inverted.map(|(_, delay)| *delay),
                false => delays.first().map(|delay| delay.as_f64()),
            };
            let Some(any) = any else { continue };
            let frames = any + ((expected - any) / period).round() * period;
            let carried = Lag { frames, confidence_db: 0.0 };
            let carried = self.fine(begins, Ok(carried), line.drift);
            self.windows[at] = FitWindow { modulo: Some(period), ..carried };
        }
    }

    fn fine(&mut self, begins: usize, coarse: Result<Lag, InvalidWindow>, drift: f64) -> FitWindow {
        let found = coarse.and_then(|lag| {
            let near = PhaseLine { delay: lag.frames, drift };
            let from = self.fitter.begins(begins, near) + self.fitter.spare() as f64;
            let to = from + (self.frames - 2 * self.fitter.spare()) as f64;
            if from < 0.0 || to > self.second.len() as f64 {
                return Err(InvalidWindow::PastEnd);
            }
            let fit = self.fitter.fit(self.first, self.second, begins, near);
            fit.map(|fit| (lag, fit)).ok_or(InvalidWindow::Unsettled)
        });
        FitWindow { begins, found, modulo: None }
    }

    fn middle(&self, window: &FitWindow) -> f64 {
        window.begins as f64 + self.frames as f64 / 2.0
    }

    pub(super) fn reported(mut self) -> TapDelays {
        // A window with a small step converges in between, and would blur the step.
        let found = self.windows.clone();
        let around = self.steps(SUSPECT);
        self.leave_out(&around);
        let steps = self.steps(WANDER);
        self.windows = found;
        self.leave_out(&steps);
        let drift = self.drift(&steps);
        let reported = self.windows.iter().map(|window| TapWindow {
            at: Frames::from_len(window.begins + self.frames / 2),
            delay: window
                .found
                .as_ref()
                .map(|(lag, fit)| tap_delay(lag, fit, window.modulo))
                .map_err(Clone::clone),
        });
        TapDelays {
            rate: self.options.rate,
            window: Frames::from_len(self.frames),
            windows: reported.collect(),
            steps,
            drift,
        }
    }

    fn leave_out(&mut self, steps: &[DelayStep]) {
        for window in &mut self.windows {
            let within = window.begins..window.begins + self.frames;
            let stepped = steps.iter().any(|step| within.contains(&step.at.as_len()));
            let of_it = matches!(
                window.found,
                Ok(_)
                    | Err(InvalidWindow::Unlike
                        | InvalidWindow::Unsettled
                        | InvalidWindow::Ambiguous { .. })
            );
            if stepped && of_it {
                window.found = Err(InvalidWindow::Stepped);
            }
        }
    }

    fn steps(&mut self, minimum: f64) -> Vec<DelayStep> {
        let found: Vec<_> = self
            .windows
            .iter()
            .filter_map(|window| {
                Some((self.middle(window), window.found.as_ref().ok()?.1, window.modulo))
            })
            .collect();
        let pairs = found.windows(2).filter_map(|two| {
            let [(before, last, one), (after, next, other)] = [two[0], two[1]];
            let apart = after - before;
            let drift = 0.5 * (last.line.drift + next.line.drift);
            let by = next.line.delay - last.line.delay - drift * apart;
            let unsure = last.uncertainty.delay.hypot(next.uncertainty.delay);
            let turning = 0.5 * apart * last.uncertainty.drift.hypot(next.uncertainty.drift);
            let is_step = by.abs() > minimum + 2.0 * (unsure + turning);
            is_step.then_some((before..after, [last, next], by, one.or(other)))
        });
        let pairs: Vec<_> = pairs.collect();
        pairs
            .into_iter()
            .map(|(between, [last, next], by, modulo)| DelayStep {
                at: Frames::from_len(self.place(&between, &last, &next, by)),
                by: fine(by),
                modulo: modulo.map(fine),
            })
            .collect()
    }

    /// First frame nearer to the second window's line.
    fn place(&mut self, between: &Range<f64>, last: &Fit, next: &Fit, by: f64) -> usize {
        let (begins, ends) = (between.start as usize, between.end as usize);
        let dropped = if by < 0.0 { -by.round() as usize } else { 0 };
        let count = ends - begins;
        let mut left = [last, next].map(|_| Vec::with_capacity(count));
        for (left, (fit, middle)) in
            left.iter_mut().zip([(last, between.start), (next, between.end)])
        {
            let mut along = vec![0.0; count];
            let line = fit.line;
            let place = begins as f64 + line.delay + line.drift * (begins as f64 - middle);
            self.fitter.take(self.second, place, line.drift, &mut along);
            let first = &self.first[begins..ends];
            let off = first
                .iter()
                .zip(&along)
                .map(|(first, along)| (f64::from(*along) - fit.gain * f64::from(*first)).powi(2));
            left.extend(off);
        }
        let [before, after] = left;
        let mut cost: f64 = after.iter().skip(dropped).sum();
        let mut best = (cost, 0);
        for (at, before) in before.iter().enumerate() {
            cost += before - after.get(at + dropped).copied().unwrap_or(0.0);
            if cost < best.0 {
                best = (cost, at + 1);
            }
        }
        begins + best.1
    }

    fn drift(&self, steps: &[DelayStep]) -> Option<DelayDrift> {
        let mut stretches: Vec<Vec<(f64, Fit)>> = vec![Vec::new(); steps.len() + 1];
        for window in &self.windows {
            let Ok((_, fit)) = window.found else { continue };
            let middle = self.middle(window);
            let stretch = steps.iter().take_while(|step| (step.at.count() as f64) < middle).count();
            stretches[stretch].push((middle, fit));
        }
        let (mut slope, mut count) = (CommonSlope::default(), 0.0_f64);
        let mut within = Vec::new();
        for stretch in &stretches {
            let point =
                |(at, fit): &(f64, Fit)| (*at, fit.line.delay, fit.uncertainty.delay.powi(-2));
            let (middle, delay) = slope.add(stretch.iter().map(point));
            let apart = |(x, y, weight)| (x - middle, y - delay, weight);
            within.extend(stretch.iter().map(point).map(apart));
            for (_, fit) in stretch {
                slope.add_known(fit.line.drift, fit.uncertainty.drift.powi(-2));
            }
            count += (stretch.len() as f64 - 1.0).max(0.0);
        }
        let (drift, known) = (slope.slope()?, slope.weight());
        let strayed =
            |(off, later, weight): (f64, f64, f64)| weight * (later - drift * off).powi(2);
        let left: f64 = within.into_iter().map(strayed).sum();
        // Uncertainty at 95 %: two standard deviations. Wandering adds uncertainty.
        let strays = if count > 3.0 { (4.0 * left / (count - 1.0)).max(1.0) } else { 1.0 };
        let error = (strays / known).sqrt().max(self.drift_resolution());
        Some(DelayDrift { ppm: ppm(drift), uncertainty: ppm(error) })
    }

    /// Drift that changes the delay by [`RESOLUTION`] over all windows. Exact copies fit better than
    /// that, but sample values are rounded.
    fn drift_resolution(&self) -> f64 {
        let found = || self.windows.iter().filter(|window| window.found.is_ok());
        let ends = found().next().zip(found().next_back());
        let apart = ends.map_or(0, |(first, last)| last.begins - first.begins);
        let frames = apart.max(self.frames) as f64;
        RESOLUTION * f64::from(self.options.rate.hertz()) / frames
    }
}

fn tap_delay(lag: &Lag, fit: &Fit, modulo: Option<f64>) -> TapDelay {
    TapDelay {
        delay: fine(fit.line.delay),
        uncertainty: fine(fit.uncertainty.delay),
        drift: DelayDrift { ppm: ppm(fit.line.drift), uncertainty: ppm(fit.uncertainty.drift) },
        confidence_db: lag.confidence_db,
        gain: fit.gain,
        modulo: modulo.map(fine),
    }
}

/// Median drift of window pairs, from whole frames.
fn coarse_drift(coarse: &[Result<Lag, InvalidWindow>], frames: usize) -> f64 {
    let apart = (coarse.len() / 2).max(1);
    let mut drifts: Vec<_> = coarse
        .iter()
        .zip(coarse.iter().skip(apart))
        .filter_map(|(one, other)| {
            let later = other.as_ref().ok()?.frames - one.as_ref().ok()?.frames;
            Some(later / (apart * frames) as f64)
        })
        .collect();
    drifts.sort_by(f64::total_cmp);
    drifts.get(drifts.len() / 2).copied().filter(|drift| drift.abs() < 2e-3).unwrap_or(0.0)
}
