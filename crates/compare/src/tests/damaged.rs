use tautline_dsp::resample::Quality;

use super::*;

fn at_volume(sound: &Sound, gain: impl Fn(usize) -> f64) -> Sound {
    let mut out = sound.clone();
    for channel in &mut out.channels {
        for (frame, sample) in channel.iter_mut().enumerate() {
            let scaled = (f64::from(*sample) * gain(frame) * 8_388_608.0).round() / 8_388_608.0;
            *sample = scaled as f32;
        }
    }
    out
}

#[test]
fn dead_channel_in_resampled_sound_is_reported_with_time() {
    let sent = noise(480_000);
    for dead in [240_000..480_000, 0..240_000] {
        let mut received = sent.resampled(100.0);
        let dead = dead.start..dead.end.min(received.frames());
        received.channels[1][dead.clone()].fill(0.0);
        let verdict = verdict(&sent, &received);
        assert!(!verdict.is_all_there() && !verdict.is_whole(), "{verdict}\n{verdict:?}");
        let edge = verdict.routings[1].0;
        assert!(edge.abs_diff(240_024) < 512, "{edge}: {verdict}\n{verdict:?}");
        is_reported(
            &verdict,
            &["channel 2 holds nothing of it from", "resampled, 100.0 ppm faster"],
        );
    }
}

#[test]
fn briefly_dead_resampled_channel_is_incomplete() {
    let sent = noise(192_000);
    for frames in [100, 480, 2400] {
        let mut received = sent.resampled(100.0);
        received.channels[1][90_000..90_000 + frames].fill(0.0);
        let verdict = verdict(&sent, &received);
        assert!(!verdict.is_all_there(), "{frames}: {verdict}\n{verdict:?}");
        is_reported(&verdict, &["1.87"]);
    }
}

#[test]
fn volume_change_is_reported_and_not_as_resampling() {
    let sent = noise(480_000);
    let down = |frame: usize| 10_f64.powf(-22.0 * frame as f64 / 480_000.0 / 20.0);
    let waves = |frame: usize| {
        let wave = 0.5 + 0.5 * (core::f64::consts::TAU * frame as f64 / 96_000.0).cos();
        0.05 + 0.95 * wave
    };
    let step = |frame: usize| if frame < 240_000 { 0.9 } else { 0.8 };
    for received in [at_volume(&sent, down), at_volume(&sent, waves), at_volume(&sent, step)] {
        let verdict = verdict(&sent, &received);
        assert!(!verdict.is_all_there() && !verdict.is_whole(), "{verdict}\n{verdict:?}");
        assert!(verdict.is_mixed(), "{verdict}");
        is_reported(&verdict, &["; its volume changes: between"]);
        assert!(!verdict.to_string().contains("resampled"), "{verdict}");
    }
    let fade = verdict(&sent, &at_volume(&sent, down));
    is_reported(&fade, &["between −22.0 and 0.0 dB"]);
}

#[test]
fn a_volume_that_changes_in_resampled_sound_is_named() {
    let sent = noise(480_000);
    let down = |frame: usize| 10_f64.powf(-(frame as f64) / 480_000.0 / 20.0);
    let verdict = verdict(&sent, &at_volume(&sent, down).resampled(100.0));
    assert!(!verdict.is_all_there(), "{verdict}\n{verdict:?}");
    is_reported(&verdict, &["; its volume changes: between −1.0 and", "resampled, 100.0 ppm"]);
}

#[test]
fn a_fade_of_low_tones_is_not_resampled() {
    let mut sent = noise(480_000);
    for channel in &mut sent.channels {
        let mut last = [0.0_f32; 2];
        for sample in channel {
            last[0] += 0.1 * (*sample - last[0]);
            last[1] += 0.1 * (last[0] - last[1]);
            *sample = (last[1] * 8_388_608.0).round() / 8_388_608.0;
        }
    }
    let down = |frame: usize| 10_f64.powf(-22.0 * frame as f64 / 480_000.0 / 20.0);
    let verdict = verdict(&sent, &at_volume(&sent, down));
    assert!(!verdict.is_all_there(), "{verdict}\n{verdict:?}");
    is_reported(&verdict, &["; its volume changes: between"]);
    assert!(!verdict.to_string().contains("resampled"), "{verdict}");
}

#[test]
fn one_sample_click_in_resampled_sound_is_located() {
    let loud = noise(192_000).with(|sample| sample * 3.0);
    for (ppm, by) in [(100.0, 1.0), (-300.0, -1.0), (100.0, 0.35)] {
        let (sent, resampled) = (&loud, loud.resampled(ppm));
        for at in (90_000..90_064).step_by(5) {
            let mut received = resampled.clone();
            let sample = &mut received.channels[1][at];
            *sample = if *sample * by > 0.0 { *sample - by } else { *sample + by };
            let verdict = verdict(sent, &received);
            assert!(!verdict.is_all_there(), "{at}: {verdict}\n{verdict:?}");
            let [Difference::Replaced { at: place, frames, .. }] = verdict.changes[..] else {
                panic!("{at}: {verdict}\n{verdict:?}")
            };
            assert!(!verdict.is_mixed(), "{at}: {verdict}");
            let off = place.abs_diff((at as f64 * (1.0 + ppm / 1e6)) as usize);
            assert!(off <= 64 && frames <= 64, "{at}: {verdict}");
        }
    }
}

#[test]
fn clean_resampled_sound_stays_all_there_whatever_is_in_it() {
    let sent = noise(192_000);
    let coarse = |sound: Sound| sound.with(|sample| (sample * 32_768.0).round() / 32_768.0);
    let drums = at_volume(&sent, |frame| 10_f64.powf(-3.0 * (frame % 12_000) as f64 / 12_000.0));
    for sent in [sent, drums] {
        for ppm in [100.0, -100.0, 300.0, -300.0] {
            for quality in Quality::ALL {
                let received = sent.resampled_by(quality, ppm);
                for received in [coarse(received.clone()), received] {
                    let verdict = verdict(&sent, &received);
                    assert!(verdict.is_all_there(), "{ppm} {quality:?}: {verdict}\n{verdict:?}");
                }
            }
        }
    }
}
