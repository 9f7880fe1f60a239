//! Cards with wrong clocks and wrong reported times: known delays must be found.

use fastrand::Rng;
use tautline_dsp::resample::{Quality, Resampler, Step};

use super::*;

struct ErringCard {
    begin: f64,
    ppm: f64,
    period: usize,
    /// Reported; `off` is the actual error.
    uncertainty: Span,
    off: f64,
    /// ± random error of each period's time.
    jitter: f64,
}

const RATE: f64 = 48_000.0;

impl ErringCard {
    fn random(rng: &mut Rng, unsure: f64, jitter: f64) -> Self {
        Self {
            begin: 1.0 + 0.01 * rng.f64(),
            ppm: 200.0 * rng.f64() - 100.0,
            period: rng.usize(16..=240),
            uncertainty: Span::from_nanos((1e9 * unsure).ceil() as i64),
            off: unsure * (2.0 * rng.f64() - 1.0),
            jitter,
        }
    }

    fn rate(&self) -> f64 {
        RATE * (1.0 + 1e-6 * self.ppm)
    }

    fn side<'a>(&self, rng: &mut Rng, frame: usize, samples: &'a mut [f32]) -> Side<'a> {
        let true_instant = self.begin + frame as f64 / self.rate();
        let off = self.off + self.jitter * (2.0 * rng.f64() - 1.0);
        Side {
            samples,
            meets: LocalTime::from_nanos((1e9 * (true_instant + off)).round() as i64),
            uncertainty: self.uncertainty,
            skipped: Frames::ZERO,
        }
    }

    fn settings(&self) -> Settings {
        let period = Frames::from_len(self.period);
        Settings { period, channels: Channels::MONO, ..SETTINGS }
    }
}

fn received(played: &[f32], output: &ErringCard, input: &ErringCard, delay: f64) -> Vec<f32> {
    let place = (input.begin - delay - output.begin) * output.rate();
    let mut resampler = Resampler::new(Quality::Balanced, 1, played.len());
    let half = resampler.half();
    let before = half + (-place).max(0.0).ceil() as usize;
    let first = (place + before as f64).floor();
    let sound: Vec<f32> = core::iter::repeat_n(0.0, before).chain(played.iter().copied()).collect();
    let begin = first as usize;
    resampler.pass(&sound[begin - half..begin]);
    resampler.set_fraction(((place + before as f64 - first) * 2_f64.powi(32)) as u32);
    let step = Step::from_ppm((output.rate() / input.rate() - 1.0) * 1e6);
    let mut out = vec![0.0; played.len() - 2 * half - 500];
    let wanted = resampler.wants(out.len(), step);
    let rest = &sound[begin..];
    let mut rest = rest[..wanted.min(rest.len())].to_vec();
    rest.resize(wanted, 0.0);
    resampler.push(&rest);
    resampler.pull(&mut out, step);
    out
}

pub(super) fn cycle<'a>(capture: Side<'a>, playback: Side<'a>) -> Cycle<'a> {
    Cycle { now: LocalTime::ZERO, capture, playback, xruns: 0, clock: None }
}

fn measured(cards: [&ErringCard; 2], delay: f64, rng: &mut Rng, noise: f64) -> MeasuredDelay {
    let [output, input] = cards;
    let run = RunNumber::new(rng.u32(..));
    let settings = cards.map(ErringCard::settings);
    let (mut plays, mut marks) = player::player(&settings[0], PlayedSound::of(Marker::of(run)));
    let (mut handles, mut ear) =
        recorder::recorder(&settings[1], 0, MarkSearch::of(Finder::of(run)));
    let mut sound = vec![0.0_f32; 72_000];
    for (block, samples) in sound.chunks_exact_mut(output.period).enumerate() {
        let side = output.side(rng, block * output.period, samples);
        plays.process(&mut cycle(Side::absent(), side));
    }
    let mut sound = received(&sound, output, input, delay);
    sound.iter_mut().for_each(|sample| *sample += (noise * (2.0 * rng.f64() - 1.0)) as f32);
    let mut end = LocalTime::ZERO;
    for (block, samples) in sound.chunks_exact_mut(input.period).enumerate() {
        let side = input.side(rng, block * input.period, samples);
        end = side.meets;
        handles.process(&mut cycle(side, Side::absent()));
    }
    let mut judge = Judge::new(SETTINGS.rate, LocalTime::ZERO).with_room(1000);
    let runs = ear.listen();
    marks.read(|played| judge.played(played));
    ear.find(runs, |received| judge.received(received));
    MeasuredDelay::new(settings, None, judge.finish(end))
}

fn off(seed: u64, unsure: f64, jitter: f64) -> (f64, f64) {
    let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut cards = [0; 2].map(|_| ErringCard::random(&mut rng, unsure, jitter));
    cards[1].begin -= 0.02;
    let delay = 0.1 * rng.f64();
    let noise = 0.01 * rng.f64();
    let found = measured([&cards[0], &cards[1]], delay, &mut rng, noise);
    assert!(found.marks.missed == 0 && found.marks.measured().count >= 100, "{seed}: {found:?}");
    let measured = found.marks.measured().p50_ns.unwrap() as f64;
    (measured - 1e9 * delay, found.marks.uncertainty_95().unwrap().as_nanos() as f64)
}

#[test]
fn delay_bound_holds_in_95_percent_and_doubled_in_all_of_200() {
    let mut ratios = Vec::new();
    for seed in 0..200 {
        let mut rng = Rng::with_seed(!seed);
        let (unsure, jitter) = (20e-6 * rng.f64(), 100e-6 * rng.f64());
        let (off, bound) = off(seed, unsure, jitter);
        ratios.push(off.abs() / bound);
    }
    let inside = ratios.iter().filter(|ratio| **ratio <= 1.0).count();
    let maximum = ratios.iter().copied().fold(0.0, f64::max);
    assert!((181..=198).contains(&inside) && maximum <= 2.0, "{inside} inside, at most {maximum}");
}

#[test]
fn bound_is_below_a_frame_with_exact_device_times() {
    for seed in 1000..1040 {
        let (off, bound) = off(seed, 0.0, 0.0);
        assert!(bound <= 20_833.0 && off.abs() <= bound, "{seed}: {off} of {bound}");
    }
}
