//! A plugin with memory of all earlier input.

use tautline_engine::offload::sound_set::SoundSet;
use tautline_proto::offload::block::{ByteOrder, get_f32, put_f32};

pub(crate) const CHANNELS: usize = 2;
pub(crate) const MAX_FRAMES: u32 = 256;

pub(crate) const SET: SoundSet = SoundSet {
    inputs: CHANNELS,
    outputs: CHANNELS,
    controls_in: 1,
    controls_out: 1,
    max_frames: MAX_FRAMES,
    onward: 0,
    earlier: 0,
};

/// One pole per channel. Its control input is a gain, its control output the last sample.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Filter {
    pole: [f32; CHANNELS],
    reported: f32,
}

impl Filter {
    pub(crate) fn channel(&mut self, channel: usize, gain: f32, samples: &mut [f32]) {
        let pole = &mut self.pole[channel];
        for sample in samples {
            *pole = *pole * 0.995 + *sample * gain;
            *sample = *pole;
            self.reported = *pole;
        }
    }

    pub(crate) const fn reported(&self) -> f32 {
        self.reported
    }

    pub(crate) fn block(&mut self, frames: u32, input: &[u8], output: &mut [u8]) {
        let bytes = 4 * frames as usize;
        let mut gain = [0.0];
        get_f32(&input[CHANNELS * bytes..], &mut gain, ByteOrder::NATIVE);
        let mut samples = [0.0; MAX_FRAMES as usize];
        let samples = &mut samples[..frames as usize];
        for channel in 0..CHANNELS {
            get_f32(&input[channel * bytes..], samples, ByteOrder::NATIVE);
            self.channel(channel, gain[0], samples);
            put_f32(&mut output[channel * bytes..][..bytes], samples);
        }
        put_f32(&mut output[CHANNELS * bytes..], &[self.reported]);
    }
}

pub(crate) fn noise(channel: usize, frame: u64) -> f32 {
    let mut bits = (frame * 2 + channel as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits ^= bits >> 29;
    bits = bits.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits ^= bits >> 32;
    (bits as u32 as f32 / u32::MAX as f32 - 0.5) * 0.1
}
