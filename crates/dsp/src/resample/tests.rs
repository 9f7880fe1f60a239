use super::*;

#[test]
fn every_processor_resamples_to_the_same_bits() {
    for quality in Quality::ALL {
        for channels in 1..=3 {
            let step = Step::from_bits(Step::ONE.bits() + 214_748);
            let mut wide = Resampler::new(quality, channels, 64);
            let mut narrow = wide.clone();
            for block in 0..100 {
                let sound = |at: usize| ((block * 200 + at) as f32 * 0.37).sin() * 0.5;
                let wants = wide.wants(48, step) * channels;
                let input: Vec<f32> = (0..wants).map(sound).collect();
                let mut out = [vec![0.0; 48 * channels], vec![0.0; 48 * channels]];
                wide.push(&input);
                wide.pull(&mut out[0], step);
                narrow.push(&input);
                narrow.interpolate_narrow(&mut out[1], step);
                let [wide, narrow] = out.map(|out| out.into_iter().map(f32::to_bits).collect());
                let (wide, narrow): (Vec<u32>, Vec<u32>) = (wide, narrow);
                assert!(wide == narrow, "{quality}, {channels} channels, block {block}");
                assert!(block == 0 || wide.iter().any(|bits| *bits != 0));
            }
        }
    }
}

#[test]
fn skipped_blocks_do_not_change_later_ones() {
    let steps = [Step::ONE, Step::from_bits(Step::ONE.bits() + 214_748)];
    for first in steps {
        for later in steps {
            let mut pulled = Resampler::new(Quality::default(), 2, 64);
            let mut skipped = pulled.clone();
            for block in 0..100 {
                let step = if block < 50 { first } else { later };
                let frames = [48, 100][block % 2];
                let sound = |at: usize| ((block * 200 + at) as f32 * 0.37).sin() * 0.5;
                // Now and then, some input is missing.
                let wants = pulled.wants(frames.min(64), step) - block % 3;
                let input: Vec<f32> = (0..wants * 2).map(sound).collect();
                let mut out = [vec![0.0; frames * 2], vec![0.0; frames * 2]];
                pulled.push(&input);
                pulled.pull(&mut out[0], step);
                skipped.push(&input);
                if block % 10 < 4 {
                    skipped.skip(frames, step);
                } else {
                    skipped.pull(&mut out[1], step);
                    assert!(out[0] == out[1], "{first:?}, {later:?}, block {block}");
                }
                assert_eq!(skipped.ahead(), pulled.ahead());
                assert_eq!(skipped.fraction(), pulled.fraction());
            }
        }
    }
}
