//! Detects packets of another rate or sample format. For the device thread: fixed memory, at most
//! 64 frames of a packet.

use tautline_dsp::format::{SampleFormat, decode};

use crate::evidence::{FLOATS, LOUDER, NOISE, Pace};
use crate::time::{LocalTime, MediaTime, Span};
use crate::units::Rate;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FormatProof {
    pace: Option<Pace>,
    /// Other rate, proven in the last second.
    candidate: Option<Rate>,
    other_rate: Option<Rate>,
    window: SampleWindow,
    wrong_samples: bool,
    /// Whether floats are far above audio levels.
    is_harmful: bool,
    fitting: u8,
    /// Packets since the samples proved wrong.
    wrong_packets: u8,
}

impl FormatProof {
    /// Minimum time of a measurement. Two measurements must agree, since a jump distorts one of
    /// them. Half of it suffices if packets arrive evenly.
    const PACED: Span = Span::from_secs(1);
    const FITTING: u8 = 8;
    /// Packets within which wrong bytes per frame show. They are the better reason.
    const SURE: u8 = 16;

    /// Rate of arrivals, if not the playback rate.
    pub(super) const fn other_rate(&self) -> Option<Rate> {
        self.other_rate
    }

    /// Whether the samples match only another format.
    pub(super) const fn has_wrong_samples(&self) -> bool {
        self.wrong_samples
    }

    /// Whether samples are wrong and no better reason appeared in time.
    pub(super) const fn is_sure_of_samples(&self) -> bool {
        self.wrong_samples && self.wrong_packets >= Self::SURE
    }

    pub(super) const fn is_silenced(&self) -> bool {
        self.wrong_samples || self.is_harmful
    }

    /// Whether the newest samples are plausible.
    pub(super) const fn fits(&self) -> bool {
        self.fitting > 0
    }

    pub(super) fn trust(&mut self) {
        (self.wrong_samples, self.is_harmful) = (false, false);
        self.fitting = self.fitting.max(1);
    }

    pub(super) const fn restart_pace(&mut self) {
        (self.pace, self.candidate) = (None, None);
    }

    pub(super) fn observe_arrival(&mut self, media: MediaTime, arrival: LocalTime, rate: Rate) {
        let media = media.as_frames();
        let pace = self.pace.get_or_insert(Pace::from(media, arrival));
        pace.observe(media, arrival);
        let took = pace.took();
        let is_enough = took >= Self::PACED || took >= Self::PACED.half() && pace.is_precise();
        if !is_enough {
            return;
        }
        let other = pace.rate().filter(|proven| *proven != rate);
        if other == self.candidate {
            self.other_rate = other;
        }
        (self.pace, self.candidate) = (None, other);
    }

    /// Adds a payload read as `format`. Silence proves nothing.
    pub(super) fn observe_samples(
        &mut self,
        format: SampleFormat,
        frame_bytes: usize,
        payload: &[u8],
    ) {
        let maximum = if self.fits() && !self.wrong_samples { CHECKED } else { SOUGHT };
        self.wrong_packets =
            if self.wrong_samples { self.wrong_packets.saturating_add(1) } else { 0 };
        self.is_harmful = false;
        if format == SampleFormat::F32 {
            let floats = Floats::of(payload, maximum * CHANNELS);
            self.is_harmful = floats.harmful > 0;
            // A single packet is sufficient.
            if floats.loud >= 4 && floats.loud * 20 > floats.sounding {
                (self.wrong_samples, self.fitting) = (true, 0);
            }
        }
        self.window.observe(frame_bytes, payload, maximum);
        let Some(allowed) = self.window.close() else { return };
        let is_ours = |kind: &SampleFormat| *kind == format;
        let ours = KINDS.iter().position(is_ours).is_some_and(|at| allowed[at]);
        match (ours, allowed.contains(&true)) {
            (true, _) => {
                self.fitting = self.fitting.saturating_add(1);
                self.wrong_samples &= self.fitting < Self::FITTING;
            }
            (false, true) => (self.wrong_samples, self.fitting) = (true, 0),
            // A full-scale test signal matches no format.
            (false, false) => {}
        }
    }
}

const KINDS: [SampleFormat; 4] =
    [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32, SampleFormat::L32];
/// Channels examined. The first few show a wrong format.
const CHANNELS: usize = 4;
/// Frames examined per packet, before and after a match.
const SOUGHT: usize = 64;
const CHECKED: usize = 4;
/// Non-silent frames examined. With so many, the mean level of noise is known to 0.013.
const WINDOW: u32 = 512;
/// Harmful float: 120 dB above full scale. Small negative integers read as floats exceed it.
const HARMFUL: f32 = 1e6;
/// Minimum different exponents of float sound. A square wave read as floats has fewer.
const EXPONENTS: u32 = 3;

struct Floats {
    sounding: u32,
    loud: u32,
    harmful: u32,
}

impl Floats {
    fn of(payload: &[u8], maximum: usize) -> Self {
        let (mut sounding, mut loud, mut harmful) = (0, 0, 0);
        for word in payload.as_chunks::<4>().0.iter().take(maximum) {
            let sample = f32::from_be_bytes(*word);
            sounding += u32::from(sample != 0.0);
            loud += u32::from(sample.is_nan() || sample.abs() > *FLOATS.end());
            harmful += u32::from(sample.is_nan() || sample.abs() > HARMFUL);
        }
        Self { sounding, loud, harmful }
    }
}

/// Levels of the first channels, in each sample format.
#[derive(Debug, Clone, Copy, Default)]
struct SampleWindow {
    /// Per format and channel: levels, non-zero samples.
    levels: [[(f32, u32); CHANNELS]; 4],
    odd: u32,
    /// Bit set of float exponents, modulo 32.
    exponents: u32,
    frames: u32,
    frame_bytes: usize,
}

impl SampleWindow {
    fn observe(&mut self, frame_bytes: usize, payload: &[u8], maximum: usize) {
        if frame_bytes != self.frame_bytes {
            *self = Self { frame_bytes, ..Self::default() };
        }
        if frame_bytes == 0 {
            return;
        }
        for frame in payload.chunks_exact(frame_bytes).take(maximum) {
            if frame.iter().all(|byte| *byte == 0) {
                continue;
            }
            self.frames += 1;
            for (kind, levels) in KINDS.iter().zip(&mut self.levels) {
                let bytes = kind.bytes();
                if !frame_bytes.is_multiple_of(bytes) {
                    continue;
                }
                let mut samples = [0.0; CHANNELS];
                let channels = CHANNELS.min(frame_bytes / bytes);
                decode(*kind, &frame[..channels * bytes], &mut samples[..channels]);
                for (sample, (sum, count)) in samples.iter().zip(levels) {
                    let level = sample.abs();
                    if level == 0.0 {
                        continue;
                    }
                    *count += 1;
                    if *kind == SampleFormat::F32 {
                        self.odd += u32::from(!FLOATS.contains(&level));
                        self.exponents |= 1_u32.wrapping_shl(level.to_bits() >> 23);
                    } else {
                        *sum += level;
                    }
                }
            }
        }
    }

    /// Returns the possible formats once there is enough sound.
    fn close(&mut self) -> Option<[bool; 4]> {
        if self.frames < WINDOW {
            return None;
        }
        let ended = core::mem::take(self);
        let fits = |kind: SampleFormat| ended.frame_bytes.is_multiple_of(kind.bytes());
        let is_noise = |(sum, count): &(f32, u32)| *count >= 64 && *sum > NOISE * *count as f32;
        let mut allowed = [false; 4];
        for ((kind, levels), allowed) in KINDS.iter().zip(&ended.levels).zip(&mut allowed) {
            let count: u32 = levels.iter().map(|(_, count)| count).sum();
            *allowed = match kind {
                SampleFormat::F32 => {
                    ended.odd * 20 <= count && ended.exponents.count_ones() >= EXPONENTS
                }
                _ => !levels.iter().any(is_noise),
            } && fits(*kind);
        }
        let mean = |levels: &[(f32, u32)]| {
            let (sum, count) =
                levels.iter().fold((0.0, 0), |(sum, all), (of, count)| (sum + of, all + count));
            sum / count.max(1) as f32
        };
        // Low bytes of quiet samples are loud compared with their samples.
        if fits(SampleFormat::L16) && fits(SampleFormat::L24) {
            allowed[1] &= mean(&ended.levels[1]) <= LOUDER * mean(&ended.levels[0]);
        }
        Some(allowed)
    }
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::encode;

    use super::*;

    /// 200 packets of 1 ms.
    fn take(
        (read, read_bytes): (SampleFormat, usize),
        (sent, channels): (SampleFormat, usize),
        sound: impl Fn(usize, usize) -> f32,
    ) -> FormatProof {
        let mut proof = FormatProof::default();
        for packet in 0..200 {
            let at = |index| sound(packet * 48 + index / channels, index % channels);
            let samples: Vec<f32> = (0..48 * channels).map(at).collect();
            let mut payload = vec![0; samples.len() * sent.bytes()];
            encode(sent, &samples, &mut payload);
            proof.observe_samples(read, read_bytes, &payload);
        }
        proof
    }

    fn music(peak: f32) -> impl Fn(usize, usize) -> f32 {
        move |frame, channel| {
            let at = frame as f32 / 48_000.0 * core::f32::consts::TAU;
            let pitch = 97.0 + 131.0 * channel as f32;
            peak * (0.7 * (pitch * at).sin() + 0.3 * (7.3 * pitch * at).sin())
        }
    }

    use SampleFormat::{F32, L16, L24, L32};

    #[test]
    fn samples_of_another_sample_format_are_wrong() {
        for peak in [0.9, 0.3, 0.01] {
            for ((read, read_bytes), sent) in [
                ((F32, 8), (L32, 2)),
                ((F32, 8), (L16, 4)),
                ((L32, 8), (F32, 2)),
                ((L16, 8), (F32, 2)),
                ((L16, 4), (F32, 1)),
                ((L24, 6), (L16, 3)),
                ((L24, 12), (L16, 6)),
                ((L16, 6), (L24, 2)),
            ] {
                let proof = take((read, read_bytes), sent, music(peak));
                assert!(proof.has_wrong_samples(), "{sent:?} as {read:?}, peak {peak}");
            }
        }
    }

    #[test]
    fn samples_fit_their_own_sample_format_however_loud() {
        let square = |level: f32| {
            move |frame: usize, _| if (frame / 50).is_multiple_of(2) { level } else { -level }
        };
        for (format, channels) in [
            (L16, 1),
            (L16, 2),
            (L16, 4),
            (L16, 6),
            (L24, 1),
            (L24, 2),
            (L24, 4),
            (L32, 2),
            (F32, 2),
        ] {
            let read = (format, format.bytes() * channels);
            for peak in [1.4, 1.0, 0.5, 0.1, 0.001] {
                let proof = take(read, (format, channels), music(peak));
                assert!(!proof.has_wrong_samples(), "{format:?} {channels}, peak {peak}");
                assert!(proof.fits() || peak > 0.5, "{format:?} {channels}, peak {peak}");
            }
            for level in [1.0, 0.75, 0.5, 0.496_093_75, 0.4] {
                let proof = take(read, (format, channels), square(level));
                assert!(!proof.has_wrong_samples(), "{format:?} {channels}, square {level}");
                let left =
                    |frame, channel| if channel == 0 { square(level)(frame, 0) } else { 0.0 };
                let proof = take(read, (format, channels), left);
                assert!(!proof.has_wrong_samples(), "{format:?} {channels}, left {level}");
            }
        }
        assert!(!take((F32, 8), (F32, 2), music(1e-30)).has_wrong_samples());
    }

    #[test]
    fn one_packet_proves_wrong_floats_and_quiet_ones_prove_nothing() {
        let mut proof = FormatProof::default();
        let mut payload = vec![0; 48 * 8];
        encode(L32, &[-0.01; 96], &mut payload);
        proof.observe_samples(F32, 8, &payload);
        assert!(proof.has_wrong_samples());
        // Positive 32-bit samples are tiny if read as floats.
        encode(L32, &[0.01; 96], &mut payload);
        (0..2_000).for_each(|_| proof.observe_samples(F32, 8, &payload));
        (0..2_000).for_each(|_| proof.observe_samples(F32, 8, &[0; 48 * 8]));
        assert!(proof.has_wrong_samples() && !proof.fits());
    }

    #[test]
    fn a_second_of_even_packets_proves_another_rate() {
        let proven = |hertz: i64| {
            let mut proof = FormatProof::default();
            for packet in 0..1_100 {
                let arrival = LocalTime::from_nanos(packet * 1_000_000);
                let media = MediaTime::from_frames(packet * hertz / 1_000);
                proof.observe_arrival(media, arrival, Rate::HZ_48000);
            }
            proof.other_rate().map(Rate::hertz)
        };
        for hertz in [44_100, 88_200, 96_000, 192_000] {
            assert_eq!(proven(hertz.into()), Some(hertz));
        }
        assert_eq!(proven(48_000), None);
    }
}
