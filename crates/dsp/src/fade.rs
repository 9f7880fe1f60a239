//! The short fades around a hole in the sound.
//!
//! When sound stops, its last frame is held and decays to silence; when it comes back it rises from
//! silence. Both take the same number of frames, chosen at set-up, and go on from block to block.
//! If it comes back while the held frame still decays, the two overlap, so the edge is continuous
//! there as well.

use core::f64::consts::PI;

/// The fades of one stream.
#[derive(Debug, Clone)]
pub struct Fade {
    channels: usize,
    /// What remains of the held frame, frame by frame: half a cosine from nearly 1 to nearly 0.
    decay: Box<[f32]>,
    /// The frame that decays.
    held: Box<[f32]>,
    /// The last frame given out while there was sound.
    last: Box<[f32]>,
    /// Frames of the decay already given out; its length if it is over.
    fallen: usize,
    /// Frames of the rise already given out; its length if it is over.
    risen: usize,
    /// Whether the last frame given out was sound.
    sounding: bool,
}

impl Fade {
    /// Fades of `frames` for frames of `channels` samples. Allocates; nothing later does.
    ///
    /// The first sound of all is not faded in: a stream that begins comes out bit for bit.
    pub fn new(channels: usize, frames: usize) -> Self {
        let channels = channels.max(1);
        let decay: Box<[f32]> = (1..=frames)
            .map(|index| (0.5 + 0.5 * (PI * index as f64 / (frames + 1) as f64).cos()) as f32)
            .collect();
        let silence: Box<[f32]> = vec![0.0; channels].into();
        Self {
            channels,
            decay,
            held: silence.clone(),
            last: silence,
            fallen: frames,
            risen: frames,
            sounding: false,
        }
    }

    /// How many frames each fade takes.
    pub fn length(&self) -> usize {
        self.decay.len()
    }

    /// Whether sound now passes bit for bit.
    pub fn is_transparent(&self) -> bool {
        self.fallen == self.decay.len() && self.risen == self.decay.len()
    }

    /// These interleaved frames are sound: fades them in if there was silence before them.
    pub fn sound(&mut self, samples: &mut [f32]) {
        let mut frames = samples.chunks_exact_mut(self.channels);
        while !self.is_transparent()
            && let Some(frame) = frames.next()
        {
            let rise = 1.0 - self.remaining(self.risen);
            let fall = self.remaining(self.fallen);
            for (sample, held) in frame.iter_mut().zip(&self.held) {
                *sample = *sample * rise + held * fall;
            }
            self.risen = (self.risen + 1).min(self.decay.len());
            self.fallen = (self.fallen + 1).min(self.decay.len());
        }
        if let Some(last) = samples.chunks_exact(self.channels).next_back() {
            self.last.copy_from_slice(last);
            self.sounding = true;
        }
    }

    /// What comes does not follow what was: the next sound rises while the last frame decays, as
    /// after a hole of no length.
    pub fn cut(&mut self) {
        if self.sounding {
            self.sounding = false;
            self.held.copy_from_slice(&self.last);
            self.fallen = 0;
            self.risen = 0;
        }
    }

    /// There is no sound for these frames: overwrites them with the decay, then silence.
    pub fn silence(&mut self, samples: &mut [f32]) {
        if !samples.is_empty() {
            self.cut();
        }
        let mut frames = samples.chunks_mut(self.channels);
        while self.fallen < self.decay.len()
            && let Some(frame) = frames.next()
        {
            let fall = self.remaining(self.fallen);
            for (sample, held) in frame.iter_mut().zip(&self.held) {
                *sample = held * fall;
            }
            self.fallen += 1;
        }
        frames.for_each(|frame| frame.fill(0.0));
    }

    fn remaining(&self, index: usize) -> f32 {
        self.decay.get(index).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stream_that_begins_is_not_faded() {
        let mut fade = Fade::new(2, 8);
        let mut samples = [0.5; 4];
        fade.silence(&mut samples);
        assert_eq!(samples, [0.0; 4]);
        let mut samples = [0.3; 4];
        fade.sound(&mut samples);
        assert_eq!(samples, [0.3; 4]);
    }

    #[test]
    fn sound_that_stops_decays_from_its_last_frame_and_then_is_silence() {
        let mut fade = Fade::new(2, 3);
        fade.sound(&mut [0.1, 0.2, 0.8, -0.4]);
        let mut samples = [9.0; 10];
        fade.silence(&mut samples);
        assert!(samples[0] < 0.8 && samples[0] > 0.6 && samples[1] == -samples[0] / 2.0);
        assert!(samples[4] > 0.0 && samples[4] < 0.2);
        assert_eq!(samples[6..], [0.0; 4]);
    }

    #[test]
    fn sound_that_comes_back_rises_and_is_then_left_alone() {
        let mut fade = Fade::new(1, 3);
        fade.sound(&mut [0.0]);
        fade.silence(&mut [0.0; 5]);
        let mut samples = [1.0; 6];
        fade.sound(&mut samples);
        assert!(samples[0] > 0.0 && samples[0] < samples[1] && samples[1] < samples[2]);
        assert!(samples[2] < 1.0);
        assert_eq!(samples[3..], [1.0; 3]);
        assert!(fade.is_transparent());
    }

    #[test]
    fn a_cut_goes_over_from_what_was_to_what_comes() {
        let mut fade = Fade::new(1, 3);
        fade.sound(&mut [1.0]);
        fade.cut();
        let mut samples = [-1.0; 4];
        fade.sound(&mut samples);
        assert!(samples[0] > samples[1] && samples[1] > samples[2] && samples[2] > -1.0);
        assert_eq!(samples[3], -1.0);
    }

    #[test]
    fn a_length_of_nothing_cuts_hard() {
        let mut fade = Fade::new(1, 0);
        fade.sound(&mut [1.0]);
        let mut samples = [9.0; 2];
        fade.silence(&mut samples);
        assert_eq!(samples, [0.0; 2]);
        let mut samples = [0.7];
        fade.sound(&mut samples);
        assert_eq!(samples, [0.7]);
    }

    /// A constant 1.0 with holes, cut into pieces of the given lengths.
    fn with_holes(pieces: &[(bool, usize)]) -> Vec<f32> {
        let mut fade = Fade::new(1, 16);
        let mut out = vec![];
        for &(sound, length) in pieces {
            let mut block = vec![1.0; length];
            if sound {
                fade.sound(&mut block)
            } else {
                fade.silence(&mut block)
            }
            out.extend(block);
        }
        out
    }

    proptest! {
        #[test]
        fn no_edge_is_steeper_than_both_fades_together(
            pieces in prop::collection::vec((any::<bool>(), 0..40_usize), 1..20)
        ) {
            let out = with_holes(&pieces);
            let first = out.iter().position(|&sample| sample != 0.0).unwrap_or(out.len());
            // The steepest step of half a cosine over 17 frames is π/2 ÷ 17.
            for pair in out[first..].windows(2) {
                prop_assert!((pair[1] - pair[0]).abs() < 2.0 * 0.0925, "{pair:?}");
            }
        }

        #[test]
        fn the_size_of_the_blocks_changes_nothing(
            pieces in prop::collection::vec((any::<bool>(), 0..40_usize), 1..20)
        ) {
            let single: Vec<_> = pieces
                .iter()
                .flat_map(|&(sound, length)| std::iter::repeat_n((sound, 1), length))
                .collect();
            prop_assert_eq!(with_holes(&pieces), with_holes(&single));
        }
    }
}
