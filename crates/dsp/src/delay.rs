//! Delay line.

use crate::fade::{Fade, mix};

/// Delays frames of `CHANNELS` samples. A change fades from the old to the new tap.
#[derive(Debug, Clone)]
pub struct DelayLine<const CHANNELS: usize> {
    past: Box<[[f32; CHANNELS]]>,
    next: usize,
    delay: usize,
    fade_frames: usize,
    /// New delay.
    fade: Option<(usize, Fade)>,
}

impl<const CHANNELS: usize> DelayLine<CHANNELS> {
    /// Delays by up to `max` frames, first by `delay`; a change takes `fade` frames.
    pub fn new(delay: usize, max: usize, fade: usize) -> Self {
        let past = vec![[0.0; CHANNELS]; max + 1].into();
        Self { past, next: 0, delay: delay.min(max), fade_frames: fade, fade: None }
    }

    /// Delays interleaved frames by `delay`, clamped to the maximum. A change during a fade starts
    /// after it.
    pub fn apply(&mut self, delay: usize, samples: &mut [f32]) {
        let delay = delay.min(self.past.len() - 1);
        if self.fade.is_none() && delay != self.delay {
            self.fade = Some((delay, Fade::new(self.fade_frames)));
        }
        for frame in samples.as_chunks_mut::<CHANNELS>().0 {
            self.past[self.next] = *frame;
            *frame = self.tap(self.delay);
            if let Some((delay, mut fade)) = self.fade {
                let (new, share) = (self.tap(delay), fade.step());
                frame.iter_mut().zip(new).for_each(|(old, new)| *old = mix(*old, new, share));
                self.fade = (fade.left() > 0).then_some((delay, fade));
                if self.fade.is_none() {
                    self.delay = delay;
                }
            }
            self.next = if self.next + 1 < self.past.len() { self.next + 1 } else { 0 };
        }
    }

    /// Frame `delay` frames before the newest.
    fn tap(&self, delay: usize) -> [f32; CHANNELS] {
        let wrapped = self.next + self.past.len() - delay;
        self.past[self.next.checked_sub(delay).unwrap_or(wrapped)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::signal::Sine;

    const FADE: usize = 480;

    fn sine() -> Vec<f32> {
        let mut samples = vec![0.0; 2 * 9_600];
        Sine::new("440".parse().unwrap(), 48_000).fill(2, &mut samples);
        samples
    }

    fn steepest(samples: &[f32]) -> f32 {
        let steps = samples.windows(3).map(|three| (three[2] - three[0]).abs());
        steps.fold(0.0, f32::max)
    }

    #[test]
    fn no_delay_keeps_every_bit() {
        let odd = [f32::from_bits(0x7fa0_0001), -0.0, f32::MIN_POSITIVE / 2.0, 3.0];
        let mut samples = odd;
        DelayLine::<2>::new(0, 100, FADE).apply(0, &mut samples);
        assert_eq!(samples.map(f32::to_bits), odd.map(f32::to_bits));
    }

    #[test]
    fn changed_delay_fades_without_a_step() {
        let signal = sine();
        for (from, to) in [(0, 50), (300, 0), (7, 4_000), (4_000, 3_945)] {
            let mut samples = signal.clone();
            let mut line = DelayLine::<2>::new(from, 4_000, FADE);
            let (before, after) = samples.split_at_mut(2 * 4_800);
            line.apply(from, before);
            after.chunks_mut(2 * 48).for_each(|block| line.apply(to, block));
            let sound = signal.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
            // Two taps are at most twice the peak apart; the fade's slope is at most 1.5 / FADE.
            let fades = 2.0 * sound * 1.5 / FADE as f32;
            let changed = steepest(&samples[2 * 4_700..]);
            assert!(changed <= steepest(&signal) + fades, "{from} to {to}: {changed}");
            let settled = 2 * (4_800 + FADE);
            assert_eq!(samples[settled..], signal[settled - 2 * to..signal.len() - 2 * to]);
        }
    }

    #[test]
    fn change_during_a_fade_starts_after_it() {
        let signal = sine();
        let mut samples = signal.clone();
        let mut line = DelayLine::<2>::new(0, 1_000, FADE);
        for (number, block) in samples.chunks_mut(2 * 48).enumerate() {
            line.apply(if number < 3 { 1_000 } else { 10 }, block);
        }
        let settled = 2 * 2 * FADE;
        assert_eq!(samples[settled..], signal[settled - 2 * 10..signal.len() - 2 * 10]);
    }

    proptest! {
        #[test]
        fn delay_is_exact_to_the_frame(
            (max, delay) in (0_usize..2_000).prop_flat_map(|max| (Just(max), 0..=max)),
            blocks in proptest::collection::vec(1_usize..300, 1..30),
        ) {
            let frames: usize = blocks.iter().sum();
            let signal: Vec<f32> = (1..=2 * frames).map(|at| at as f32).collect();
            let mut rest = &mut signal.clone()[..];
            let mut line = DelayLine::<2>::new(delay, max, FADE);
            let mut played = Vec::new();
            for frames in blocks {
                let (block, after) = rest.split_at_mut(2 * frames);
                line.apply(delay, block);
                played.extend_from_slice(block);
                rest = after;
            }
            let silent = (2 * delay).min(signal.len());
            prop_assert!(played[..silent].iter().all(|sample| *sample == 0.0));
            prop_assert_eq!(&played[silent..], &signal[..signal.len() - silent]);
        }
    }
}
