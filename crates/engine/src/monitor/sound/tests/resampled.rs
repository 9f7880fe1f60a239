//! Tests with sound that lies between the sent frames.

use super::*;
use tautline_dsp::resample::{Quality, Resampler, Step};

/// `sound` as played by a card that consumes `1 + drift` of its frames per own frame, from frame
/// `away`.
pub(super) fn resampled(sound: &[f32], away: f64, drift: f64) -> Vec<f32> {
    let mut resampler = Resampler::new(Quality::Balanced, 1, BLOCK);
    let (whole, step) = (away.floor() as usize, Step::from_ppm(drift * 1e6));
    resampler.pass(&sound[..whole]);
    resampler.set_fraction((away.fract() * f64::from(u32::MAX)) as u32);
    let (mut rest, mut played) = (&sound[whole..], Vec::new());
    let mut block = [0.0; BLOCK];
    while let Some((now, later)) = rest.split_at_checked(resampler.wants(BLOCK, step)) {
        resampler.push(now);
        resampler.pull(&mut block, step);
        played.extend_from_slice(&block);
        rest = later;
    }
    played
}

#[test]
fn resampled_sound_is_measured_to_a_part_of_a_frame() {
    for (rate, away, drift) in
        [(48_000, 0.5, 300e-6), (48_000, 3.25, -500e-6), (44_100, 0.9, 20e-6)]
    {
        let world = World::new(rate);
        let frame = world.rate.span_of(Frames::new(1)).as_nanos() as f64;
        let sent = deep_noise(rate, 6000.0, 48_000);
        let played = resampled(&sent, away, drift);
        let (found, _) = world.run(&sent, 0, &played);
        assert!(found.len() > 900, "{drift}: {}", found.len());
        for packet in found {
            let media = packet.media.as_frames() as f64;
            let truth = ((media - away) / (1.0 + drift) - media) * frame;
            let error = packet.error.as_nanos() as f64 - truth;
            assert!(error.abs() < 0.05 * frame, "{drift}: {media} is off by {error} ns");
        }
    }
}

#[test]
fn resampled_tone_gives_no_playback_time() {
    let world = World::new(48_000);
    let sent: Vec<f32> =
        (0..48_000).map(|index| (TAU * f64::from(index) / 48.0).sin() as f32 * 0.5).collect();
    let (found, _) = world.run(&sent, 0, &resampled(&sent, 0.5, 100e-6));
    assert!(found.is_empty(), "{}", found.len());
}
