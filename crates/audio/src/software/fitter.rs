//! Converts files of any rate, mono or stereo, to stereo at the rate of a stream.

use core::ops::RangeInclusive;

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, FixedAsync, Indexing, Resampler as _, SincInterpolationParameters, WindowFunction,
};
use tautline_proto::units::{Channels, Rate};

/// Frames that are converted at once.
const CHUNK: usize = 1024;
/// Taps: 120 dB of attenuation, flat to 20 kHz at 44.1 kHz.
const TAPS: usize = 256;

/// Rate and channels of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSound {
    pub(super) hertz: u32,
    pub(super) channels: usize,
}

/// Files with equal rates and channels follow each other without a gap.
pub(super) struct Fitter {
    rate: u32,
    converter: Option<RateConverter>,
}

impl Fitter {
    /// Channels of the output.
    pub(super) const CHANNELS: Channels = Channels::STEREO;
    /// Rates of files, in hertz.
    pub(super) const RATES: RangeInclusive<u32> = 4000..=384_000;

    pub(super) const fn new(rate: Rate) -> Self {
        Self { rate: rate.hertz(), converter: None }
    }

    /// Appends the converted samples to `out`, and the rest of a file with another sound.
    pub(super) fn convert(&mut self, sound: FileSound, samples: &[f32], out: &mut Vec<f32>) {
        if self.converter.as_ref().is_some_and(|before| before.sound != sound) {
            self.finish(out);
        }
        if sound.hertz == self.rate {
            return spread(sound.channels, samples, out);
        }
        let rate = self.rate;
        self.converter.get_or_insert_with(|| RateConverter::new(sound, rate)).push(samples, out);
    }

    /// Appends the rest: the output is as long as the file, to the nearest frame.
    pub(super) fn finish(&mut self, out: &mut Vec<f32>) {
        if let Some(converter) = self.converter.take() {
            converter.finish(out);
        }
    }
}

struct RateConverter {
    sound: FileSound,
    rate: u32,
    resampler: Async<f32>,
    /// Samples of an incomplete chunk.
    waiting: Vec<f32>,
    converted: Box<[f32]>,
    /// Frames of output that precede the first frame of the file.
    lead: usize,
    read: u64,
    written: u64,
}

impl RateConverter {
    fn new(sound: FileSound, rate: u32) -> Self {
        let ratio = f64::from(rate) / f64::from(sound.hertz);
        let parameters = SincInterpolationParameters::new(TAPS, WindowFunction::BlackmanHarris2);
        let input = FixedAsync::Input;
        let made = Async::new_sinc(ratio, 1.0, &parameters, CHUNK, sound.channels, input);
        let resampler = made.expect("rates and channels of the file fit");
        let converted = vec![0.0; resampler.output_frames_max() * sound.channels].into();
        let (lead, waiting) = (resampler.output_delay(), Vec::new());
        Self { sound, rate, resampler, waiting, converted, lead, read: 0, written: 0 }
    }

    fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.read += (samples.len() / self.sound.channels) as u64;
        self.waiting.extend_from_slice(samples);
        let chunk = CHUNK * self.sound.channels;
        let whole = self.waiting.len() / chunk * chunk;
        let mut waiting = core::mem::take(&mut self.waiting);
        waiting[..whole].chunks_exact(chunk).for_each(|chunk| self.convert(chunk, u64::MAX, out));
        waiting.drain(..whole);
        self.waiting = waiting;
    }

    fn finish(mut self, out: &mut Vec<f32>) {
        let (rate, hertz) = (u64::from(self.rate), u64::from(self.sound.hertz));
        let length = (self.read * rate + hertz / 2) / hertz;
        let mut rest = core::mem::take(&mut self.waiting);
        while self.written < length {
            self.convert(&rest, length, out);
            rest.clear();
        }
    }

    /// Converts a chunk, completed with silence, up to `length` frames of output.
    fn convert(&mut self, samples: &[f32], length: u64, out: &mut Vec<f32>) {
        let channels = self.sound.channels;
        let frames = samples.len() / channels;
        let room = self.converted.len() / channels;
        let input = InterleavedSlice::new(samples, channels, frames).expect("whole frames");
        let mut output = InterleavedSlice::new_mut(&mut self.converted, channels, room)
            .expect("the room is whole frames");
        let partial = Indexing::new().partial_len(frames);
        let converted = self.resampler.process_into_buffer(&input, &mut output, Some(&partial));
        let (_, frames) = converted.expect("there is room for the output of a chunk");
        let skipped = self.lead.min(frames);
        self.lead -= skipped;
        let left = usize::try_from(length - self.written).unwrap_or(usize::MAX);
        let kept = (frames - skipped).min(left);
        self.written += kept as u64;
        spread(channels, &self.converted[skipped * channels..][..kept * channels], out);
    }
}

/// Mono to both channels.
fn spread(channels: usize, samples: &[f32], out: &mut Vec<f32>) {
    match channels {
        1 => out.extend(samples.iter().flat_map(|sample| [*sample; 2])),
        _ => out.extend_from_slice(samples),
    }
}

#[cfg(test)]
mod tests {
    use core::f64::consts::TAU;

    use super::*;

    fn sine(hertz: f64, rate: u32, frames: usize) -> Vec<f32> {
        let at = |frame: usize| (TAU * hertz * frame as f64 / f64::from(rate)).sin() as f32 * 0.5;
        (0..frames).map(at).collect()
    }

    /// Left channel of mono files, in blocks of odd length.
    fn fitted(files: &[(u32, &[f32])]) -> Vec<f32> {
        let (mut fitter, mut out) = (Fitter::new(Rate::HZ_48000), Vec::new());
        for (hertz, samples) in files {
            for block in samples.chunks(997) {
                fitter.convert(FileSound { hertz: *hertz, channels: 1 }, block, &mut out);
            }
        }
        fitter.finish(&mut out);
        assert!(out.chunks_exact(2).all(|frame| frame[0] == frame[1]));
        out.into_iter().step_by(2).collect()
    }

    fn error(one: &[f32], other: &[f32]) -> f32 {
        assert_eq!(one.len(), other.len());
        one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn tone_of_each_rate_keeps_pitch_level_and_length() {
        for hertz in [8000, 22_050, 44_100, 96_000, 192_000] {
            let out = fitted(&[(hertz, &sine(1000.0, hertz, hertz as usize))]);
            assert_eq!(out.len(), 48_000);
            // The silence before and after the tone rings at its edges.
            let steady = &out[1500..46_500];
            // A sine satisfies a recurrence: s[n + 1] + s[n - 1] = 2 cos(w) s[n].
            let twice = 2.0 * (TAU / 48.0).cos() as f32;
            let errors = steady.windows(3).map(|it| (it[0] + it[2] - twice * it[1]).abs());
            let error = errors.fold(0.0, f32::max);
            let loudest = steady.iter().fold(0.0_f32, |max, sample| max.max(*sample));
            assert!(error < 1e-5 && (loudest - 0.5).abs() < 2e-3, "{hertz}: {error} {loudest}");
        }
    }

    #[test]
    fn tone_above_the_band_is_removed() {
        let out = fitted(&[(96_000, &sine(30_000.0, 96_000, 96_000))]);
        let loudest = out[1500..46_500].iter().fold(0.0_f32, |max, sample| max.max(sample.abs()));
        assert!(loudest < 1e-5, "{loudest}");
    }

    #[test]
    fn file_follows_one_of_its_rate_without_a_gap() {
        let whole = sine(997.0, 44_100, 44_100);
        let (first, second) = whole.split_at(20_011);
        assert_eq!(
            error(&fitted(&[(44_100, first), (44_100, second)]), &fitted(&[(44_100, &whole)])),
            0.0
        );
    }

    #[test]
    fn each_file_keeps_its_length_before_another_rate() {
        let tone = |rate, frames| sine(500.0, rate, frames);
        let (first, exact, last) = (tone(44_100, 4410), tone(48_000, 1001), tone(24_000, 601));
        let out = fitted(&[(44_100, &first), (48_000, &exact), (24_000, &last)]);
        assert_eq!(out.len(), 4800 + 1001 + 1202);
        assert_eq!(out[4800..5801], exact);
    }
}
