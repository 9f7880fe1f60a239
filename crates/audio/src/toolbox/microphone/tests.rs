use tautline_proto::device::Side;
use tautline_proto::units::{Channels, Rate};

use super::*;

fn tap(options: MicrophoneOptions) -> MicrophoneTap {
    let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
    MicrophoneTap::new(Settings { rate, channels, period: Frames::new(48), periods: 2 }, options)
}

/// Captures a period of equal samples. Returns the sent samples, and whether the device ends.
fn captures(tap: &mut MicrophoneTap, sample: f32) -> (Vec<f32>, bool) {
    let mut samples = [sample; 96];
    let now = LocalTime::ZERO;
    let side = Side { samples: &mut samples, meets: now, ..Side::absent() };
    let mut cycle = Cycle { now, capture: side, playback: Side::absent(), xruns: 0, clock: None };
    tap.before(&mut cycle);
    (samples.to_vec(), tap.ends(now))
}

#[test]
fn chime_replaces_the_first_frames_on_all_channels() {
    let chime: Vec<f32> = (0..72).map(|frame| frame as f32).collect();
    let opens = Stop::default();
    let mut tap = tap(MicrophoneOptions { chime, opens: opens.clone(), end_after: None });
    let (first, _) = captures(&mut tap, -1.0);
    let (second, _) = captures(&mut tap, -1.0);
    assert!(!opens.is_requested());
    let (third, _) = captures(&mut tap, -1.0);
    assert!(opens.is_requested());
    let sent = [first, second].concat();
    for (number, frame) in sent.chunks(2).enumerate() {
        let expected = if number < 72 { number as f32 } else { -1.0 };
        assert_eq!(frame, [expected; 2], "frame {number}");
    }
    assert_eq!(third, [-1.0; 96]);
}

#[test]
fn silence_after_the_chime_ends_the_device() {
    let (chime, end_after) = (vec![0.0; 480], Some(Span::from_millis(5)));
    let mut tap = tap(MicrophoneOptions { chime, end_after, ..MicrophoneOptions::default() });
    for _ in 0..10 {
        assert!(!captures(&mut tap, 0.0).1, "the chime is not silence");
    }
    // Four silent periods, a loud one (−40 dBFS), then five of noise at −60 dBFS.
    let ends = [0.0, 0.0, 0.0, 0.0, 0.01, 0.001, 0.001, 0.001, 0.001, 0.001];
    let ends = ends.map(|sample| captures(&mut tap, sample).1);
    assert_eq!(ends, [false, false, false, false, false, false, false, false, false, true]);
}

#[test]
fn without_a_limit_silence_ends_nothing() {
    let mut tap = tap(MicrophoneOptions::default());
    assert!((0..10_000).all(|_| !captures(&mut tap, 0.0).1));
}
