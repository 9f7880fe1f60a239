//! Finds a sound in another that holds it at another gain or in coarser samples: by correlation, as
//! no sample of the one need be in the other.

use core::fmt;
use core::ops::Range;

use super::Sound;

/// Frames that are looked for: 21 ms at 48 kHz, long enough that nothing but a tone is like it twice.
const PROBE: usize = 1024;
/// Parts of the sound that are looked for, one after the other.
const PARTS: usize = 4;
/// The probe is the loudest of those that lie within this many frames from the first.
const FIRST: usize = 1 << 20;
/// Frames of the recording that are searched: five minutes at 48 kHz, a few seconds of work.
const SEARCHED: usize = 300 * 48_000;
/// Places that are looked at closely.
const PLACES: usize = 32;
/// What is the same sound correlates so well over its whole length: all that differs is 17 dB below
/// it, more than the coarsest coding leaves.
const SAME: f64 = 0.99;
/// Places worth a closer look.
const LIKE: f64 = 0.95;
/// A gain that is none: less than the rounding of the figure that is shown.
const NO_GAIN: f64 = 0.05;
/// Bits of integer samples that files have.
const DEPTHS: [u32; 5] = [8, 12, 16, 20, 24];

/// The same sound, found though not bit for bit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Alike {
    /// Where the sent file begins in the heard one.
    pub(crate) begins: i64,
    /// Frames of the one that are found in the other.
    pub(crate) frames: usize,
    /// Of what was heard against what was sent, in decibels.
    gain_db: f64,
    /// Whether all is turned over: every plus a minus.
    inverted: bool,
    /// What is left of the difference once the gain is taken off, against the sound, in decibels.
    rest_db: f64,
    /// Bits that the samples of both need, where what was heard needs fewer.
    bits: Option<(Bits, Bits)>,
}

/// Bits of the samples of a sound; `None` where they are no integers of 24 bits.
type Bits = Option<u32>;

impl fmt::Display for Alike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same sound")?;
        let Self { gain_db, inverted, rest_db, bits, .. } = self;
        if gain_db.abs() >= NO_GAIN {
            let way = if *gain_db < 0.0 { "quieter" } else { "louder" };
            write!(f, ", {:.1} dB {way}", gain_db.abs())?;
        }
        if *inverted {
            f.write_str(", turned over")?;
        }
        if let Some((sent, Some(heard))) = bits {
            let sent = sent.map_or("float".to_owned(), |sent| sent.to_string());
            write!(f, ", in samples of {heard} bits instead of {sent}")?;
        }
        match rest_db.is_finite() {
            true => write!(f, "; the rest that differs is {:.0} dB below it", -rest_db),
            false => Ok(()),
        }
    }
}

impl Alike {
    /// What may have been on the way.
    pub(crate) fn why(&self) -> &'static str {
        match self.bits {
            _ if self.gain_db.abs() >= NO_GAIN || self.inverted => {
                "a --volume or a mixer was on the way"
            }
            Some(_) => "a coding or a card of fewer bits was on the way",
            None => {
                "it was resampled, as between cards that drift apart, or holes in it were concealed; \
                 the report of taut recv says which"
            }
        }
    }
}

/// Looks for what was `sent` between these frames in what was `heard`. Both have as many channels.
pub(crate) fn find(sent: &Sound, sounding: Range<usize>, heard: &Sound) -> Option<Alike> {
    let best = parts(&sounding).find_map(|part| {
        let probe = loudest(sent, part)?;
        let (channel, needle) = loudest_channel(sent, probe.clone());
        let hay = channel_of(heard, channel, 0..heard.frames().min(SEARCHED));
        places(&needle, &hay)
            .into_iter()
            .filter_map(|at| judge(sent, sounding.clone(), heard, at as i64 - probe.start as i64))
            // The longest of those that fit as well: a tone fits anywhere.
            .max_by(|a, b| a.frames.cmp(&b.frames).then(b.rest_db.total_cmp(&a.rest_db)))
    })?;
    let (before, after) = (bits(sent), bits(heard));
    let coarser = before.unwrap_or(u32::MAX) > after.unwrap_or(u32::MAX);
    Some(Alike { bits: coarser.then_some((before, after)), ..best })
}

/// Parts of the sound in which a probe is looked for: the first may have been missed.
fn parts(sounding: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let (from, all) = (sounding.start, sounding.len());
    let part = move |number: usize| from + all * number / PARTS..from + all * (number + 1) / PARTS;
    (0..PARTS).map(part)
}

/// The frames of the probe.
fn loudest(sent: &Sound, part: Range<usize>) -> Option<Range<usize>> {
    let length = PROBE.min(part.len());
    let last = (part.end - length).min(part.start + FIRST);
    let energy = |from: &usize| power(sent.frames_of(*from..from + length));
    let starts = (part.start..=last).step_by(length.div_ceil(2).max(1));
    let from = starts.max_by(|a, b| energy(a).total_cmp(&energy(b)))?;
    Some(from..from + length)
}

fn power(samples: &[f32]) -> f64 {
    samples.iter().map(|sample| f64::from(*sample).powi(2)).sum()
}

fn channel_of(sound: &Sound, channel: usize, frames: Range<usize>) -> Vec<f32> {
    sound.frames_of(frames).chunks(sound.channels).map(|frame| frame[channel]).collect()
}

fn loudest_channel(sent: &Sound, frames: Range<usize>) -> (usize, Vec<f32>) {
    let all =
        (0..sent.channels).map(|channel| (channel, channel_of(sent, channel, frames.clone())));
    all.max_by(|a, b| power(&a.1).total_cmp(&power(&b.1))).unwrap_or_default()
}

/// Where `hay` is like `needle`: the best places, the first of each hill.
fn places(needle: &[f32], hay: &[f32]) -> Vec<usize> {
    let wanted = power(needle).sqrt();
    let Some(first) = hay.get(..needle.len()) else { return Vec::new() };
    let (mut energy, mut found) = (power(first), Vec::new());
    let mut hill: Option<(f64, usize)> = None;
    for at in 0..=hay.len() - needle.len() {
        if at > 0 {
            let (gone, come) = (f64::from(hay[at - 1]), f64::from(hay[at - 1 + needle.len()]));
            energy = (energy - gone * gone + come * come).max(0.0);
        }
        let here = &hay[at..at + needle.len()];
        let like =
            f64::from(dot(needle, here)).abs() / (wanted * energy.sqrt()).max(f64::MIN_POSITIVE);
        // Silence is like nothing, whatever rounding leaves of it.
        let like = if energy > 1e-12 { like } else { 0.0 };
        hill = match hill {
            None if like >= LIKE => Some((like, at)),
            Some((best, _)) if like > best => Some((like, at)),
            Some(top) if like < LIKE => {
                found.push(top);
                None
            }
            other => other,
        };
    }
    found.extend(hill);
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(PLACES).map(|(_, at)| at).collect()
}

/// The sum of products, several at a time.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0_f32; LANES];
    let (a, b) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.0.iter().zip(b.0) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + a.1.iter().zip(b.1).map(|(a, b)| a * b).sum::<f32>()
}

/// How what was sent compares with what was heard `offset` frames further on, all of it.
fn judge(sent: &Sound, sounding: Range<usize>, heard: &Sound, offset: i64) -> Option<Alike> {
    let from = sounding.start.max(usize::try_from(-offset).unwrap_or(0));
    let to = sounding.end.min(usize::try_from(heard.frames() as i64 - offset).unwrap_or(0));
    let there = (from < to).then(|| {
        let at = (from as i64 + offset) as usize;
        (sent.frames_of(from..to), heard.frames_of(at..at + (to - from)))
    });
    let (sent, heard) = there?;
    let (mut both, mut ours, mut theirs) = (0.0, 0.0, 0.0);
    for (sent, heard) in sent.iter().zip(heard) {
        let (sent, heard) = (f64::from(*sent), f64::from(*heard));
        both += sent * heard;
        ours += sent * sent;
        theirs += heard * heard;
    }
    let like = both / (ours * theirs).sqrt();
    if like.is_nan() || like.abs() < SAME {
        return None;
    }
    let gain = both / ours;
    let rest: f64 = sent
        .iter()
        .zip(heard)
        .map(|(sent, heard)| (f64::from(*heard) - gain * f64::from(*sent)).powi(2))
        .sum();
    Some(Alike {
        begins: offset,
        frames: to - from,
        gain_db: 20.0 * gain.abs().log10(),
        inverted: gain < 0.0,
        rest_db: 10.0 * (rest / theirs).log10(),
        bits: None,
    })
}

/// The bits that every sample needs.
fn bits(sound: &Sound) -> Bits {
    let whole = |bits: &u32| {
        let scale = (1_u32 << (bits - 1)) as f32;
        sound.samples.iter().all(|sample| (sample * scale).fract() == 0.0)
    };
    DEPTHS.into_iter().find(|bits| whole(bits))
}

#[cfg(test)]
mod tests {
    use tautline_proto::units::Rate;

    use super::*;

    /// Noise of 24 bits that does not repeat.
    fn noise(frames: usize) -> Sound {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 - 8_388_608.0) / 16_777_216.0
        };
        let samples = (0..frames * 2).map(|_| (next() * 8_388_608.0).round() / 8_388_608.0);
        Sound { samples: samples.collect(), channels: 2, rate: Rate::HZ_48000 }
    }

    /// What is heard of it 300 frames late.
    fn heard(sent: &Sound, change: impl Fn(f32) -> f32) -> Sound {
        let samples = vec![0.0; 600].into_iter().chain(sent.samples.iter().map(|s| change(*s)));
        Sound { samples: samples.collect(), channels: 2, rate: sent.rate }
    }

    fn found(change: impl Fn(f32) -> f32) -> Option<Alike> {
        let sent = noise(20_000);
        find(&sent, 0..20_000, &heard(&sent, change))
    }

    #[test]
    fn a_sound_of_another_gain_is_found_with_the_gain() {
        for (gain, said) in [
            (0.5, "the same sound, 6.0 dB quieter"),
            (1.5, "the same sound, 3.5 dB louder"),
            (-1.0, "the same sound, turned over"),
        ] {
            let found = found(|sample| sample * gain).expect("the sound");
            assert_eq!((found.begins, found.frames), (300, 20_000));
            assert!(found.to_string().starts_with(said), "{found}");
        }
    }

    #[test]
    fn a_sound_in_fewer_bits_is_found_with_the_bits() {
        let found = found(|sample| (sample * 32_768.0).round() / 32_768.0).expect("the sound");
        let said = "the same sound, in samples of 16 bits instead of 24; the rest that differs is ";
        assert!(found.to_string().starts_with(said), "{found}");
    }

    #[test]
    fn a_part_of_a_sound_is_found_with_its_length() {
        let (sent, mut part) = (noise(20_000), heard(&noise(20_000), |sample| sample * 0.25));
        part.samples.truncate(2 * 10_300);
        let found = find(&sent, 0..20_000, &part).expect("the sound");
        assert_eq!((found.begins, found.frames), (300, 10_000));
    }

    #[test]
    fn another_sound_is_not_found() {
        let sent = noise(20_000);
        let mut other = noise(40_000);
        other.samples.drain(..40_000);
        assert_eq!(find(&sent, 0..20_000, &other), None);
        assert_eq!(found(|_| 0.0), None);
    }
}
