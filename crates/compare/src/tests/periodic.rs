use core::f64::consts::{SQRT_2, TAU};

use fastrand::Rng;

use super::*;

const RATE: f64 = 48_000.0;
const ONSET: f64 = 4_800.0;
const LENGTH: f64 = 48_000.0;
const SENT: usize = 57_600;
/// 300 Hz.
const PERIOD: f64 = 160.0;

type Wave = Box<dyn Fn(f64) -> f64>;

fn sine(hertz: f64) -> Wave {
    Box::new(move |at| 0.5 * (TAU * hertz * at / RATE).sin())
}

fn during(from: f64, length: f64, wave: Wave) -> Wave {
    Box::new(move |at| if at < from || at >= from + length { 0.0 } else { wave(at - from) })
}

fn burst(wave: Wave) -> Wave {
    during(ONSET, LENGTH, wave)
}

fn sampled(frames: usize, wave: &Wave) -> Sound {
    let channel: Vec<_> = (0..frames).map(|at| wave(at as f64) as f32).collect();
    Sound { channels: vec![channel.clone(), channel], rate: Rate::HZ_48000 }
}

#[derive(Clone, Copy)]
struct Way {
    delay: f64,
    gain: f64,
    ppm: f64,
    frames: usize,
}

impl Way {
    fn of(delay: f64, gain: f64) -> Self {
        Self { delay, gain, ppm: 0.0, frames: 64_800 }
    }

    fn record(&self, wave: &Wave) -> Sound {
        self.record_with(wave, 40.0)
    }

    fn record_with(&self, wave: &Wave, below_db: f64) -> Sound {
        let mut random = Rng::with_seed(18);
        let level = 0.5 / SQRT_2 * self.gain.abs() * 10.0_f64.powf(-below_db / 20.0);
        let mut normal = || (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (TAU * random.f64()).cos();
        let place = |at: usize| (at as f64 - self.delay) * (1.0 + self.ppm / 1e6);
        let mut channel = || -> Vec<f32> {
            (0..self.frames)
                .map(|at| (self.gain * wave(place(at)) + level * normal()) as f32)
                .collect()
        };
        Sound { channels: vec![channel(), channel()], rate: Rate::HZ_48000 }
    }
}

fn compared(sent: &Sound, received: &Sound) -> Comparison {
    judge(sent, received, &mut |_| {})
}

fn is_proven(verdict: &Comparison, delay: f64, gain: f64) {
    let Delay::Known(begins) = verdict.delay else { panic!("{verdict}\n{verdict:?}") };
    assert!((begins as f64 - delay).abs() <= 1.0, "{verdict}");
    assert_eq!(verdict.changes, [], "{verdict}");
    assert_eq!((verdict.missed_first, verdict.missed_last), (0, 0), "{verdict}");
    assert_eq!(verdict.there, verdict.sounding.len(), "{verdict}");
    let gains = verdict.routings.iter().flat_map(|(_, routing)| &routing.gains);
    assert!(gains.clone().all(|found| (found / gain - 1.0).abs() < 0.02), "{verdict}\n{verdict:?}");
    assert!(!verdict.is_open(), "{verdict}");
}

fn period_of(verdict: &Comparison) -> f64 {
    let Delay::Ambiguous { period, .. } = verdict.delay else { panic!("{verdict}\n{verdict:?}") };
    period
}

#[test]
fn onset_proves_delay_and_polarity_of_a_noisy_sine() {
    let wave = burst(sine(300.0));
    let sent = sampled(SENT, &wave);
    for delay in [0.0, 1234.0, 1234.37, -2000.0] {
        for gain in [0.5, 1.0, -0.5] {
            is_proven(&compared(&sent, &Way::of(delay, gain).record(&wave)), delay, gain);
        }
    }
}

#[test]
fn clocks_that_run_apart_leave_the_onset_of_a_sine_proven() {
    let wave = burst(sine(300.0));
    let sent = sampled(SENT, &wave);
    for ppm in [5.0, -5.0, 100.0] {
        let way = Way { ppm, ..Way::of(700.0, 0.7) };
        let verdict = compared(&sent, &way.record(&wave));
        is_proven(&verdict, 700.0, 0.7);
        let [part] = &verdict.passages[..] else { panic!("{verdict}\n{verdict:?}") };
        assert!((part.ppm - ppm).abs() < 1.0, "{ppm}: {verdict}");
    }
}

#[test]
fn periodic_sounds_of_all_kinds_are_found_by_their_envelopes() {
    let square: Wave = Box::new(|at| if at.rem_euclid(PERIOD) < PERIOD / 2.0 { 0.4 } else { -0.4 });
    let two: Wave = Box::new(|at| {
        0.25 * (TAU * 300.0 * at / RATE).sin() + 0.25 * (TAU * 440.0 * at / RATE).sin()
    });
    let bursts: Wave = Box::new(|at| {
        let tone = 0.5 * (TAU * 1000.0 * at / RATE).sin();
        if at.rem_euclid(12_000.0) < 480.0 { tone } else { 0.0 }
    });
    let fade: Wave =
        Box::new(|at| 0.5 * (at / 24_000.0).min(1.0) * (TAU * 300.0 * at / RATE).sin());
    let sines = [50.0, 440.0, 1000.0, 7000.0].map(sine);
    for wave in sines.into_iter().chain([square, two, bursts, fade]) {
        let wave = burst(wave);
        for gain in [0.5, -0.5] {
            let verdict = compared(&sampled(SENT, &wave), &Way::of(1234.0, gain).record(&wave));
            is_proven(&verdict, 1234.0, gain);
        }
    }
}

#[test]
fn clicks_half_a_second_apart_are_found_one_by_one() {
    let clicks: Wave = Box::new(|at| {
        let off = at.rem_euclid(24_000.0) - 100.0;
        0.8 * (-(off / 6.0).powi(2)).exp()
    });
    let wave = during(ONSET, 120_000.0, clicks);
    let way = Way { frames: 140_000, ..Way::of(1234.0, 0.5) };
    is_proven(&compared(&sampled(128_000, &wave), &way.record(&wave)), 1234.0, 0.5);
}

#[test]
fn silent_channel_with_noise_leaves_the_other_proven() {
    let wave = burst(sine(300.0));
    for silent in [0, 1] {
        let mut sent = sampled(SENT, &wave);
        sent.channels[silent].fill(0.0);
        let mut received = Way::of(1234.0, 1.0).record(&wave);
        received.channels[silent] =
            Way::of(0.0, 1.0).record(&during(0.0, 0.0, sine(1.0))).channels.remove(1);
        let verdict = compared(&sent, &received);
        is_proven(&verdict, 1234.0, 1.0);
    }
}

#[test]
fn dropouts_of_a_sine_are_reported() {
    let wave = burst(sine(300.0));
    let sent = sampled(SENT, &wave);
    for frames in [480, 400, 2_400] {
        for zero in [true, false] {
            let mut received = Way::of(1234.0, 0.5).record(&wave);
            let noise = Way::of(0.0, 0.5).record(&during(0.0, 0.0, sine(1.0)));
            for (channel, noise) in received.channels.iter_mut().zip(&noise.channels) {
                match zero {
                    true => channel[20_000..20_000 + frames].fill(0.0),
                    false => channel[20_000..20_000 + frames]
                        .copy_from_slice(&noise[20_000..20_000 + frames]),
                }
            }
            let verdict = compared(&sent, &received);
            assert_eq!(verdict.delay, Delay::Known(1234), "{verdict}\n{verdict:?}");
            let [Difference::Replaced { at, frames: lost, by }] = verdict.changes[..] else {
                panic!("{frames} {zero}: {verdict}\n{verdict:?}")
            };
            assert_eq!(by, if zero { Instead::Silence } else { Instead::Other }, "{verdict}");
            let off = (at.abs_diff(20_000 - 1234), lost.abs_diff(frames));
            assert!(off.0 <= 64 && off.1 <= 96, "{frames} {zero}: {verdict}");
            assert_eq!(verdict.report().verdict, "differs", "{verdict}");
        }
    }
}

#[test]
fn sine_without_onset_or_ending_is_ambiguous_modulo_its_period() {
    for (hertz, period) in [(300.0, PERIOD), (440.0, RATE / 440.0), (1000.0, 48.0)] {
        let wave = sine(hertz);
        let sent = sampled(96_000, &wave);
        for (delay, gain) in [(-20_013.4, 0.7), (-20_013.4, -0.7), (-30_000.0, 1.0)] {
            let verdict =
                compared(&sent, &Way { frames: 40_000, ..Way::of(delay, gain) }.record(&wave));
            let Delay::Ambiguous { nearest, period: found } = verdict.delay else {
                panic!("{hertz} {delay}: {verdict}\n{verdict:?}")
            };
            assert!((found - period).abs() < 0.05, "{found}: {verdict}");
            // Unproven inverted polarity counts as half a period.
            let turned = if gain < 0.0 { period / 2.0 } else { 0.0 };
            let periods = (nearest as f64 - delay - turned) / period;
            let off = (periods - periods.round()).abs() * period;
            assert!(off <= 1.0, "{off}: {verdict}");
            assert!((nearest as f64).abs() <= period / 2.0 + 0.5, "{verdict}");
            assert!(verdict.is_open() && verdict.changes.is_empty(), "{verdict}");
            let gains = verdict.routings.iter().flat_map(|(_, routing)| &routing.gains);
            assert!(gains.clone().all(|gain| *gain > 0.0), "{verdict}");
            let report = verdict.report();
            assert_eq!(report.verdict, "ambiguous");
            assert_eq!(report.begins_at_frame, Some(nearest));
            assert_eq!(report.ambiguous_modulo_frames, Some(found));
            assert_eq!((report.missed_first_frames, report.missed_last_frames), (None, None));
        }
    }
}

#[test]
fn bits_of_a_sine_without_onset_are_identical_and_ambiguous() {
    let sent =
        sampled(96_000, &sine(300.0)).with(|sample| (sample * 8_388_608.0).round() / 8_388_608.0);
    let verdict = compared(&sent, &sent.part(20_010..60_010));
    assert_eq!(verdict.delay, Delay::Ambiguous { nearest: -10, period: PERIOD }, "{verdict:?}");
    assert_eq!((verdict.identical, verdict.changes.len()), (40_000, 0), "{verdict}");
    assert!(verdict.is_open() && !verdict.is_whole(), "{verdict}");
    snapshot!(verdict);
    snapshot!(verdict.why("sent.wav", "heard.wav"));
    assert!(compared(&sent, &sent).is_whole());
    assert!(super::verdict(&sent, &sent).is_whole());
}

#[test]
fn dropout_of_an_ambiguous_sine_is_reported() {
    let sent = sampled(96_000, &sine(300.0));
    let mut received = Way { frames: 40_000, ..Way::of(-20_013.4, 0.7) }.record(&sine(300.0));
    received.channels.iter_mut().for_each(|channel| channel[20_000..20_480].fill(0.0));
    let verdict = compared(&sent, &received);
    assert!((period_of(&verdict) - PERIOD).abs() < 0.05, "{verdict}");
    let [Difference::Replaced { frames, by: Instead::Silence, .. }] = verdict.changes[..] else {
        panic!("{verdict}\n{verdict:?}")
    };
    assert!(frames.abs_diff(480) <= 96, "{verdict}");
    assert!(!verdict.is_open(), "{verdict}");
    assert_eq!(verdict.report().verdict, "differs");
}

fn without(sound: &Sound, from: usize, frames: usize) -> Sound {
    joined([&sound.part(0..from), &sound.part(from + frames..sound.frames())])
}

#[test]
fn missing_whole_periods_are_counted_without_their_place() {
    let wave = burst(sine(300.0));
    let received = without(&Way::of(1234.0, 0.5).record(&wave), 30_000, 480);
    let verdict = compared(&sampled(SENT, &wave), &received);
    assert!((period_of(&verdict) - PERIOD).abs() < 0.05, "{verdict}");
    let lacks = verdict.sounding.len() - verdict.there;
    assert!(lacks.abs_diff(480) <= 64 && verdict.changes.is_empty(), "{verdict}");
    let Delay::Ambiguous { nearest, .. } = verdict.delay else { panic!("{verdict}") };
    assert!(nearest.abs() <= 80 && (nearest - 1234).rem_euclid(160) == 0, "{verdict}");
    assert!(!verdict.is_open(), "{verdict}");
}

#[test]
fn move_is_known_by_the_ending_or_modulo_the_period() {
    let wave = burst(sine(300.0));
    let sent = sampled(SENT, &wave);
    let received = without(&Way::of(1234.0, 0.5).record(&wave), 20_000, 100);
    let verdict = compared(&sent, &received);
    assert_eq!(verdict.delay, Delay::Known(1234), "{verdict}\n{verdict:?}");
    let [Difference::Dropped { at, earlier, .. }] = verdict.changes[..] else {
        panic!("{verdict}\n{verdict:?}")
    };
    assert!(at.abs_diff(18_766) <= 96 && (earlier - 100.0).abs() < 0.2, "{verdict}");
    let verdict = compared(&sent, &received.part(0..40_000));
    assert_eq!(verdict.delay, Delay::Known(1234), "{verdict}\n{verdict:?}");
    let [Difference::Shifted { at, later, modulo }] = verdict.changes[..] else {
        panic!("{verdict}\n{verdict:?}")
    };
    assert!(at.abs_diff(18_766) <= 96, "{verdict}");
    assert!((later - 60.0).abs() < 0.2 && (modulo - PERIOD).abs() < 0.05, "{verdict}");
    let row = &verdict.report().changes[0];
    assert_eq!((row.kind, row.modulo_frames), ("shifted", Some(modulo)));
}

#[test]
fn repeated_burst_is_repeated_as_a_whole() {
    let wave = burst(sine(300.0));
    let once = Way::of(0.0, 0.5).record(&wave);
    let verdict = compared(&sampled(SENT, &wave), &joined([&once, &once]));
    let [Difference::Repeated { frames, later, .. }] = verdict.changes[..] else {
        panic!("{verdict}\n{verdict:?}")
    };
    assert!(frames.abs_diff(48_000) <= 64, "{verdict}");
    assert!((later - 64_800.0).abs() < 0.2, "{verdict}");
}

fn rounded(sound: Sound) -> Sound {
    sound.with(|sample| (sample * 8_388_608.0).round() / 8_388_608.0)
}

#[test]
fn file_edges_are_no_onset_of_a_periodic_sound() {
    let two: Wave = Box::new(|at| {
        let tone = |hertz: f64| 0.3 * (TAU * hertz * at / RATE).sin();
        tone(300.0) + tone(450.0)
    });
    let square: Wave = Box::new(|at| if at.rem_euclid(PERIOD) < PERIOD / 2.0 { 0.3 } else { -0.3 });
    let gaps: Wave = Box::new(|at| {
        let tone = 0.5 * (TAU * 1000.0 * at / RATE).sin();
        if (at - 2_000.0).rem_euclid(2_400.0) < 480.0 { tone } else { 0.0 }
    });
    let periods = [PERIOD, RATE / 441.0, 48.0, PERIOD, 320.0, 2_400.0];
    let waves = [sine(300.0), sine(441.0), sine(1000.0), square, two, gaps];
    for (index, (wave, period)) in waves.iter().zip(periods).enumerate() {
        let sent = rounded(sampled(48_000, wave));
        for (delay, gain, below_db) in [
            (500.0, 1.0, f64::INFINITY),
            (500.0, 0.7, f64::INFINITY),
            (500.0, 1.0, 57.0),
            (499.0, 0.7, 54.0),
            (700.0, -0.7, 34.0),
            (-500.0, 1.0, f64::INFINITY),
        ] {
            for frames in [48_000, 35_000] {
                let way = Way { frames, ..Way::of(delay, gain) };
                let received = rounded(way.record_with(wave, below_db));
                let verdict = compared(&sent, &received);
                let case = format!("{index} {delay} {gain} {below_db} {frames}: {verdict}");
                let Delay::Ambiguous { nearest, period: found } = verdict.delay else {
                    panic!("{case}")
                };
                let periods = found / period;
                assert!((periods - periods.round()).abs() < 0.01, "{found}: {case}");
                assert!(nearest.unsigned_abs() as f64 <= found / 2.0 + 0.5, "{case}");
                assert!(verdict.is_open(), "{case}\n{verdict:?}");
            }
        }
    }
}

#[test]
fn envelope_between_file_edges_proves_the_delay() {
    let wave: Wave = Box::new(|at| {
        let envelope = 0.3 + 0.2 * (TAU * 5.0 * (at / RATE + 1.0).ln()).sin();
        envelope * (TAU * 300.0 * at / RATE).sin()
    });
    let sent = sampled(240_000, &wave);
    for delay in [500.0, -500.0, 4_800.0, -20_000.0] {
        for gain in [0.7, -0.7] {
            let way = Way { frames: 240_000, ..Way::of(delay, gain) };
            let verdict = compared(&sent, &way.record(&wave));
            assert_eq!(verdict.delay, Delay::Known(delay as i64), "{delay} {gain}: {verdict}");
        }
    }
}

#[test]
fn silence_beside_a_sound_in_one_file_is_an_onset() {
    let sent = sampled(48_000, &sine(300.0));
    let (wave, late) = (during(0.0, LENGTH, sine(300.0)), Way::of(1234.0, 0.5));
    let all = late.record(&wave);
    is_proven(&compared(&sent, &all), 1234.0, 0.5);
    let first = compared(&sent, &all.part(0..40_000));
    assert_eq!(first.delay, Delay::Known(1234), "{first}");
    let last = compared(&sent, &all.part(10_000..all.frames()));
    assert_eq!(last.delay, Delay::Known(1234 - 10_000), "{last}");
}

#[test]
fn inverted_bits_of_a_sine_are_found_by_their_onset() {
    let floor = |sample: f32| (sample * 8_388_608.0).floor() / 8_388_608.0;
    let round = |sample: f32| (sample * 8_388_608.0).round() / 8_388_608.0;
    let cases =
        [(300.0, 100), (300.0, 260), (300.0, 500), (300.0, 1000), (441.0, 500), (50.0, 500)];
    for (frames, (hertz, delay)) in
        [SENT, 50_000].into_iter().flat_map(|all| cases.map(|one| (all, one)))
    {
        let wave = sampled(frames, &burst(sine(hertz)));
        for quantize in [&round as &dyn Fn(f32) -> f32, &floor] {
            let sent = wave.clone().with(quantize);
            let inverted = wave.clone().with(|sample| quantize(-sample));
            let received = joined([&silence(delay), &inverted]);
            let verdict = compared(&sent, &received);
            is_proven(&verdict, delay as f64, -1.0);
            assert_eq!(verdict.delay, Delay::Known(delay as i64), "{hertz}: {verdict}");
            is_reported(&verdict, &["; inverted"]);
            let verdict = compared(&sent, &received.part(0..frames));
            assert_eq!(verdict.delay, Delay::Known(delay as i64), "{hertz}: {verdict}");
            is_reported(&verdict, &["; inverted"]);
        }
    }
}
