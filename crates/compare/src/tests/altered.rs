use tautline_trial::snapshot;

use crate::ResidueKind;

use super::*;

fn mixed(sent: &Sound, rows: [[f64; 2]; 2]) -> Sound {
    let [left, right] = [&sent.channels[0], &sent.channels[1]];
    let mix = |[one, other]: [f64; 2]| {
        let sum = |(left, right): (&f32, &f32)| {
            let sum = one * f64::from(*left) + other * f64::from(*right);
            ((sum * 8_388_608.0).round() / 8_388_608.0) as f32
        };
        left.iter().zip(right).map(sum).collect()
    };
    Sound { channels: rows.map(mix).into(), rate: sent.rate }
}

fn coefficients(verdict: &Comparison) -> Vec<Vec<f64>> {
    let mix = verdict.mix.as_ref();
    mix.map(|mix| mix.coefficients.clone()).unwrap_or_else(|| panic!("{verdict}\n{verdict:?}"))
}

#[test]
fn mixed_channels_are_reported_with_coefficients() {
    let sent = noise(96_000);
    for rows in [[[0.7, 0.3], [-0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.25], [0.0, 1.0]]] {
        let verdict = verdict(&sent, &mixed(&sent, rows));
        let found = coefficients(&verdict);
        for (found, row) in found.iter().zip(rows) {
            let near = found.iter().zip(row).all(|(found, part)| (found - part).abs() < 1e-3);
            assert!(near, "{rows:?}: {verdict}\n{found:?}");
        }
        assert_eq!(verdict.there, 96_000, "{verdict}");
        assert!(!verdict.is_whole() && !verdict.is_all_there() && verdict.is_mixed(), "{verdict}");
    }
    let verdict = verdict(&sent, &mixed(&sent, [[0.7, 0.3], [-0.2, 0.8]]));
    is_reported(&verdict, &["; channel 1 holds 0.7000 of channel 1 and 0.3000 of channel 2"]);
    is_reported(&verdict, &["; channel 2 holds −0.2000 of channel 1 and 0.8000 of channel 2"]);
    assert!(verdict.why("a", "b").contains("a --map or a mixer"));
}

#[test]
fn mixed_and_resampled_channels_are_reported() {
    let sent = noise(192_000);
    let verdict = verdict(&sent, &mixed(&sent, [[0.6, 0.4], [0.3, -0.7]]).resampled(104.0));
    let found = coefficients(&verdict);
    for (found, part) in found.concat().iter().zip([0.6, 0.4, 0.3, -0.7]) {
        assert!((found - part).abs() < 0.01, "{verdict}\n{found:?}");
    }
    assert!(verdict.there >= 191_900, "{verdict}");
    is_reported(&verdict, &["resampled, 104.0 ppm faster"]);
}

#[test]
fn damaged_sound_is_not_a_mix() {
    let sent = noise(96_000);
    let mut received = sent.clone();
    received.channels.iter_mut().for_each(|channel| channel[30_000..40_000].fill(0.0));
    let faint = noise_of(96_000, 77).with(|sample| sample / 16.0);
    let mut other = sent.clone();
    for (channel, faint) in other.channels.iter_mut().zip(&faint.channels) {
        channel.iter_mut().zip(faint).for_each(|(sample, faint)| *sample += faint);
    }
    for received in [received, other, noise_of(96_000, 78)] {
        let verdict = verdict(&sent, &received);
        assert_eq!(verdict.mix, None, "{verdict}");
    }
}

#[test]
fn swapped_and_resampled_channels_are_reported() {
    let sent = noise(480_000);
    let mut received = sent.resampled(104.0);
    received.channels.swap(0, 1);
    let verdict = verdict(&sent, &received);
    is_reported(&verdict, &["channel 1 holds channel 2, channel 2 holds channel 1"]);
    is_reported(&verdict, &["resampled, 104.0 ppm faster"]);
}

#[test]
fn mono_in_both_channels_is_reported() {
    let sent = noise(60_000);
    let mut received = sent.clone();
    received.channels[1] = received.channels[0].clone();
    is_reported(&verdict(&sent, &received), &["; channel 2 holds channel 1"]);
    is_reported(&verdict(&sent, &received.resampled(50.0)), &["; channel 2 holds channel 1"]);
}

#[test]
fn ten_seconds_measure_500_ppm_to_a_tenth() {
    let sent = noise(480_000);
    for ppm in [500.0, -500.0, 104.0, -37.3, 1.4] {
        let verdict = verdict(&sent, &sent.resampled(ppm));
        let [part] = &verdict.passages[..] else { panic!("{ppm}: {verdict}") };
        assert!((part.ppm - ppm).abs() < 0.1, "{ppm}: {verdict}");
    }
}

#[test]
fn fading_sound_is_matched() {
    let mut sent = noise(480_000);
    for channel in &mut sent.channels {
        for (at, sample) in channel.iter_mut().enumerate() {
            let loud = 10.0_f64.powf(-4.0 * (at as f64 / 480_000.0).powi(8));
            *sample = (f64::from(*sample) * loud * 8_388_608.0).round() as f32 / 8_388_608.0;
        }
    }
    let coarse = |sound: Sound| sound.with(|sample| (sample * 32_768.0).round() / 32_768.0);
    for ppm in [104.0, -320.0] {
        let verdict = verdict(&sent, &coarse(sent.resampled(ppm)));
        let [part] = &verdict.passages[..] else { panic!("{ppm}: {verdict}") };
        assert!((part.ppm - ppm).abs() < 0.1, "{ppm}: {} {verdict}", part.ppm);
    }
}

fn dithered(sent: &Sound, gain: f64) -> Sound {
    let mut sent = sent.clone();
    let mut state = 9_u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / 16_777_216.0
    };
    for sample in sent.channels.iter_mut().flatten() {
        let dither = random() - random();
        *sample = ((f64::from(*sample) * gain * 32_768.0 + dither).round() / 32_768.0) as f32;
    }
    sent
}

#[test]
fn dither_and_rounding_are_distinguished() {
    let sent = noise(480_000);
    for gain in [1.0, 0.5, 0.7] {
        let verdict = verdict(&sent, &dithered(&sent, gain));
        let residue = verdict.residue.unwrap_or_else(|| panic!("{verdict}"));
        assert_eq!((residue.kind, residue.bits), (ResidueKind::Dither, 16), "{residue:?}");
        // Triangular dither plus rounding: variance of a quarter step squared.
        assert!((residue.rms_steps - 0.5).abs() < 0.02, "{residue:?}");
        assert!((1.2..1.5).contains(&residue.peak_steps), "{residue:?}");
        is_reported(&verdict, &[" (dither, within 1.", " steps of 16 bits)"]);
    }
    let dithered = verdict(&sent, &dithered(&sent, 1.0));
    snapshot!(dithered.why("a", "b"));
    let rounded = verdict(&sent, &sent.clone().with(|s| (s * 32_768.0).round() / 32_768.0));
    let residue = rounded.residue.unwrap();
    assert_eq!(residue.kind, ResidueKind::Rounding, "{residue:?}");
    assert!((residue.rms_steps - 12.0_f64.sqrt().recip()).abs() < 0.01, "{residue:?}");
    let sixteen = sent.clone().with(|s| (s * 32_768.0).round() / 32_768.0);
    let again = verdict(&sixteen, &self::dithered(&sixteen, 1.0));
    assert_eq!(again.residue.unwrap().kind, ResidueKind::Dither, "{again}");
}

#[test]
fn other_residues_are_not_called_dither_or_rounding() {
    let sent = noise(96_000);
    let mut hum = sent.clone();
    for channel in &mut hum.channels {
        for (at, sample) in channel.iter_mut().enumerate() {
            let hum = (core::f64::consts::TAU * at as f64 / 960.0).sin() / 32_768.0;
            *sample = (((f64::from(*sample) + hum) * 32_768.0).round() / 32_768.0) as f32;
        }
    }
    let clipped = sent.clone().with(|s| (s.clamp(-0.2, 0.2) * 32_768.0).round() / 32_768.0);
    for received in [hum, clipped] {
        let verdict = verdict(&sent, &received);
        let kind = verdict.residue.map(|residue| residue.kind);
        assert!(kind.is_none_or(|kind| kind == ResidueKind::Other), "{verdict}");
    }
}

fn tone(hertz: f64, second: f64, noise: f64) -> Sound {
    let faint = noise_of(240_000, 3);
    let channel = |of: &Vec<f32>| {
        let sample = |(at, faint): (usize, &f32)| {
            let turn = core::f64::consts::TAU * hertz * at as f64 / 48_000.0;
            (0.5 * turn.sin() + second * (2.0 * turn).sin() + noise * f64::from(*faint)) as f32
        };
        of.iter().enumerate().map(sample).collect()
    };
    Sound { channels: faint.channels.iter().map(channel).collect(), rate: faint.rate }
}

#[test]
fn sine_gives_thd_n_and_noise() {
    for hertz in [997.0, 1000.0, 60.0, 8_123.4] {
        // The filter leaves 3/8 of the noise variance 1/12, at half amplitude.
        let level = 0.5 * (0.375_f64 / 12.0).sqrt();
        let noise = 1e-4 / level;
        let verdict = verdict(&tone(hertz, 0.0, 0.0), &tone(hertz, 5e-4, noise));
        assert_eq!(verdict.tones.len(), 2, "{verdict}");
        for test in &verdict.tones {
            let received = test.received.unwrap();
            assert!((received.hertz - hertz).abs() < 1e-3, "{test:?}");
            assert!((received.level_dbfs + 6.02).abs() < 0.02, "{test:?}");
            // 5e-4 of 0.5 is −60 dB; noise of 1e-4 RMS is −77 dBFS.
            assert!((received.thd_db + 60.0).abs() < 0.1, "{test:?}");
            assert!((received.noise_dbfs + 77.0).abs() < 0.3, "{test:?}");
            let all = 10.0 * (5e-4_f64.powi(2) / 2.0 + 1e-8).log10() - 10.0 * 0.125_f64.log10();
            assert!((received.thd_n_db - all).abs() < 0.1, "{all}: {test:?}");
            assert!(test.sent.thd_n_db < -130.0, "{test:?}");
        }
    }
    assert_eq!(verdict(&noise(96_000), &noise(96_000)).tones, []);
}

#[test]
fn dropouts_are_counted_with_the_longest() {
    let sent = noise(192_000);
    let mut received = sent.clone();
    for (at, frames) in [(48_000, 96), (96_000, 480), (144_000, 48)] {
        received.channels.iter_mut().for_each(|channel| channel[at..at + frames].fill(0.0));
    }
    let verdict = verdict(&sent, &received);
    is_reported(
        &verdict,
        &["; 3 dropouts of 624 in all, the longest of 480 (10.00 ms) at 2.000 s"],
    );
    let report = verdict.report();
    let dropouts = &report.dropouts;
    assert_eq!((dropouts.count, dropouts.frames, dropouts.longest_frames), (3, 624, 480));
    assert_eq!(dropouts.longest_at_frame, Some(96_000));
    let all: Vec<_> = dropouts.all.iter().map(|one| (one.at_frame, one.frames)).collect();
    assert_eq!(all, [(48_000, 96), (96_000, 480), (144_000, 48)]);
    assert_eq!(report.verdict, "differs");
    let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    assert_eq!(json["dropouts"]["all"][1]["at_seconds"], 2.0, "{json}");
    assert_eq!(json["changes"][0]["by"], "silence", "{json}");
}
