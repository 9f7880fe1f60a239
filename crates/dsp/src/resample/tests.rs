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
