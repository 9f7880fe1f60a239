//! Dither for 16-bit samples.

use crate::format::{FULL_16, SampleFormat, encode, round};
use crate::vector::widest;

/// Triangular dither (TPDF) before rounding to 16 bits: the mean error is independent of the signal
/// (Lipshitz, Wannamaker and Vanderkooy, "Quantization and Dither", JAES 40, 1992).
///
/// 16-bit values stay unchanged. The noise depends on the sample number, so runs repeat exactly. No
/// lock: for device threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dither {
    /// Wraps after a day at 48 kHz.
    next: u32,
}

impl Dither {
    /// Like [`encode`], with dither for 16 bits only.
    pub fn encode(&mut self, format: SampleFormat, samples: &[f32], out: &mut [u8]) {
        if format != SampleFormat::L16 {
            return encode(format, samples, out);
        }
        let first = self.next;
        self.next = first.wrapping_add(samples.len() as u32);
        widest(
            #[inline(always)]
            move |_| encode_16(first, samples, out),
        );
    }
}

#[inline(always)]
fn encode_16(first: u32, samples: &[f32], out: &mut [u8]) {
    let coded = out.as_chunks_mut::<2>().0;
    let mut is_exact = true;
    for (coded, &sample) in coded.iter_mut().zip(samples) {
        let exact = round(sample, FULL_16);
        is_exact &= exact as f32 == sample * FULL_16;
        *coded = (exact as i16).to_be_bytes();
    }
    if is_exact {
        return;
    }
    for (number, (coded, &sample)) in coded.iter_mut().zip(samples).enumerate() {
        let exact = round(sample, FULL_16);
        let noise = noise(first.wrapping_add(number as u32)) * (1.0 / FULL_16);
        let rounded =
            if exact as f32 == sample * FULL_16 { exact } else { round(sample + noise, FULL_16) };
        *coded = (rounded as i16).to_be_bytes();
    }
}

/// Between −1 and 1, triangular.
#[inline(always)]
fn noise(number: u32) -> f32 {
    // Chris Wellons' hash "lowbias32".
    let mut bits = number ^ number >> 16;
    bits = bits.wrapping_mul(0x7feb_352d);
    bits ^= bits >> 15;
    bits = bits.wrapping_mul(0x846c_a68b);
    bits ^= bits >> 16;
    ((bits & 0xffff) as i32 - (bits >> 16) as i32) as f32 * (1.0 / 65_536.0)
}

#[cfg(test)]
mod tests {
    use core::f64::consts::TAU;

    use super::*;

    fn encoded(dither: &mut Dither, samples: &[f32]) -> Vec<i16> {
        let mut bytes = vec![0; samples.len() * 2];
        dither.encode(SampleFormat::L16, samples, &mut bytes);
        bytes.as_chunks::<2>().0.iter().map(|two| i16::from_be_bytes(*two)).collect()
    }

    fn sine(hertz: f64, level: f64, frames: usize) -> Vec<f32> {
        let peak = 10_f64.powf(level / 20.0) * 8_388_608.0;
        let at = |frame: usize| (TAU * hertz * frame as f64 / 48_000.0).sin();
        (0..frames).map(|frame| ((peak * at(frame)).round() / 8_388_608.0) as f32).collect()
    }

    fn level(samples: &[i16], hertz: f64) -> f64 {
        let (mut re, mut im) = (0.0, 0.0);
        for (frame, &sample) in samples.iter().enumerate() {
            let phase = TAU * hertz * frame as f64 / 48_000.0;
            re += f64::from(sample) * phase.cos();
            im += f64::from(sample) * phase.sin();
        }
        2.0 * re.hypot(im) / samples.len() as f64
    }

    #[test]
    fn a_quiet_sine_has_no_harmonics_above_the_noise() {
        // Whole periods.
        let frames = 480_000;
        let input = sine(1000.0, -100.0, frames);
        let output = encoded(&mut Dither::default(), &input);
        let peak = 10_f64.powf(-100.0 / 20.0) * 32_768.0;
        assert!((level(&output, 1000.0) - peak).abs() < 0.01, "{}", level(&output, 1000.0));
        let noise: f64 = output.iter().map(|&sample| f64::from(sample).powi(2)).sum();
        // TPDF and rounding are 1/4 square step of noise.
        let noise = noise / frames as f64 - peak * peak / 2.0;
        assert!((0.2..0.3).contains(&noise), "{noise}");
        for harmonic in 2..=20 {
            let level = level(&output, 1000.0 * f64::from(harmonic));
            assert!(level < 0.01, "harmonic {harmonic}: {level}");
        }
        // Without dither the sine is lost.
        let mut bytes = vec![0; 2 * frames];
        encode(SampleFormat::L16, &sine(1000.0, -88.0, frames), &mut bytes);
        let rounded: Vec<i16> =
            bytes.as_chunks::<2>().0.iter().map(|two| i16::from_be_bytes(*two)).collect();
        assert!(level(&rounded, 3000.0) > 0.1, "{}", level(&rounded, 3000.0));
    }

    #[test]
    fn every_16_bit_value_stays_unchanged() {
        let samples: Vec<f32> =
            (i16::MIN..=i16::MAX).map(|value| f32::from(value) / 32_768.0).collect();
        let mut dither = Dither::default();
        for _ in 0..3 {
            assert!(encoded(&mut dither, &samples).into_iter().eq(i16::MIN..=i16::MAX));
        }
    }

    #[test]
    fn other_values_are_within_two_steps_and_clamped() {
        let samples: Vec<f32> = (0..50_000).map(|n| (n as f32 - 25_000.0) / 24_000.0).collect();
        for (&sample, coded) in samples.iter().zip(encoded(&mut Dither::default(), &samples)) {
            let exact = (sample * 32_768.0).clamp(-32_768.0, 32_767.0);
            assert!((exact - f32::from(coded)).abs() <= 1.5, "{sample} became {coded}");
        }
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.0, -2.0];
        assert_eq!(encoded(&mut Dither::default(), &odd), [0, 32_767, -32_768, 32_767, -32_768]);
    }

    #[test]
    fn the_noise_goes_on_from_block_to_block_and_is_the_same_again() {
        let samples = sine(440.0, -60.0, 1000);
        let whole = encoded(&mut Dither::default(), &samples);
        let mut dither = Dither::default();
        let parts: Vec<i16> =
            samples.chunks(37).flat_map(|part| encoded(&mut dither, part)).collect();
        assert_eq!(whole, parts);
    }

    #[test]
    fn wider_formats_have_no_dither() {
        let samples = sine(440.0, -60.0, 100);
        for format in [SampleFormat::L24, SampleFormat::L32, SampleFormat::F32] {
            let mut out = [vec![0; 400], vec![0; 400]];
            Dither::default().encode(format, &samples, &mut out[0]);
            encode(format, &samples, &mut out[1]);
            assert_eq!(out[0], out[1]);
        }
    }
}
