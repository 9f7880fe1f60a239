//! Quantities that are neither an instant nor a length of time, and the scaling between them.
//!
//! Every conversion goes through 128-bit integers from an absolute count, so that no error
//! accumulates: a year of 44.1 kHz converts to nanoseconds and back to the same frame.

use core::fmt;

use crate::time::{FineFrames, Frames, MediaPoint, Span};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A quantity that tautline cannot carry, with the offending value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A frame rate outside [`Rate::SUPPORTED`].
    #[error("{0} Hz is not a rate that tautline carries; use {all}", all = Rate::listed(|_| true))]
    Rate(u32),
    /// A channel count outside 1 to [`Channels::MAX`].
    #[error("{0} channels cannot be carried; use 1 to 64")]
    Channels(u32),
}

/// Frames per second, nominal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u32);

impl Rate {
    /// The rates that streams may have, in hertz.
    pub const SUPPORTED: [u32; 12] = [
        8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400,
        192_000,
    ];
    /// 16 kHz, wideband speech (ITU-T G.711.1, G.722).
    pub const HZ_16000: Self = Self(16_000);
    /// 44.1 kHz, the rate of the payload types that need no description (RFC 3551 table 4).
    pub const HZ_44100: Self = Self(44_100);
    /// 48 kHz, the rate that every AES67 device speaks.
    pub const HZ_48000: Self = Self(48_000);

    /// A supported rate, or the offending value.
    pub fn new(hertz: u32) -> Result<Self, UnitError> {
        if Self::SUPPORTED.contains(&hertz) { Ok(Self(hertz)) } else { Err(UnitError::Rate(hertz)) }
    }

    /// Those of the supported that `which` says, in hertz, for a sentence.
    pub fn listed(which: impl Fn(Self) -> bool) -> String {
        let all = Self::SUPPORTED.into_iter().filter(|hertz| which(Self(*hertz)));
        let mut words: Vec<String> = all.map(|hertz| hertz.to_string()).collect();
        let last = words.pop().unwrap_or_default();
        if words.is_empty() { last } else { format!("{} or {last}", words.join(", ")) }
    }

    /// The rate in hertz.
    pub const fn hertz(self) -> u32 {
        self.0
    }

    /// How long `frames` last at this rate, to the nearest nanosecond (half away from zero).
    pub fn span_of(self, frames: Frames) -> Span {
        Span::from_nanos(scale(frames.count(), NANOS_PER_SECOND, i128::from(self.0)))
    }

    /// How many frames fit wholly in `span` (towards minus infinity).
    pub fn frames_within(self, span: Span) -> Frames {
        let product = i128::from(span.as_nanos()) * i128::from(self.0);
        Frames::new(match i64::try_from(product) {
            Ok(product) => product.div_euclid(NANOS_PER_SECOND as i64),
            Err(_) => product.div_euclid(NANOS_PER_SECOND) as i64,
        })
    }

    /// The point that lies `span` after `from`, a frame or a point, to the part of a frame below.
    pub fn point_after(self, from: impl Into<MediaPoint>, span: Span) -> MediaPoint {
        const SECOND: i64 = NANOS_PER_SECOND as i64;
        let (seconds, rest) =
            (span.as_nanos().div_euclid(SECOND), span.as_nanos().rem_euclid(SECOND));
        // Below 2⁴⁸ frame-nanoseconds, and the remainder below 2³⁰: 64 bits do.
        let product = rest * i64::from(self.0);
        let frames = seconds.saturating_mul(self.0.into()).saturating_add(product / SECOND);
        let parts = ((product % SECOND) << 32) / SECOND;
        let MediaPoint { frame, fraction } = from.into();
        MediaPoint { frame: frame + Frames::new(frames), fraction } + FineFrames::from_parts(parts)
    }

    /// How long one frame lasts, exactly.
    pub const fn frame_length(self) -> FrameLength {
        FrameLength(((NANOS_PER_SECOND as u64) << 32) / self.0 as u64)
    }

    /// How long `distance` lasts at this rate, to the nearest nanosecond.
    pub fn span_of_fine(self, distance: FineFrames) -> Span {
        self.frame_length().times(distance)
    }

    /// The frame count nearest to `span` (half away from zero).
    pub fn frames_nearest(self, span: Span) -> Frames {
        Frames::new(scale(span.as_nanos(), i128::from(self.0), NANOS_PER_SECOND))
    }
}

/// How long a frame lasts, in parts of 2⁻³² of a nanosecond: 14 digits, so that an hour is right to a
/// twentieth of a nanosecond. For what every block asks several times: a division takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLength(u64);

impl FrameLength {
    /// How long `distance` lasts, to the nearest nanosecond.
    pub fn times(self, distance: FineFrames) -> Span {
        let product = i128::from(distance.parts()) * i128::from(self.0);
        Span::from_nanos(((product + (1 << 63)) >> 64) as i64)
    }

    /// So many frames, to the nearest nanosecond.
    pub const fn frames(self, count: u32) -> Span {
        // In 64 bits it would be 4.3 s at most, of 8 kHz; one multiplication gives all 128.
        Span::from_nanos(((self.0 as u128 * count as u128 + (1 << 31)) >> 32) as i64)
    }

    /// In seconds, for controllers.
    pub(crate) fn as_seconds(self) -> f64 {
        self.0 as f64 / (NANOS_PER_SECOND as f64 * (1_u64 << 32) as f64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.0)
    }
}

/// `value × numerator ÷ denominator` in 128 bits, to the nearest integer, half away from zero,
/// saturating at the ends of 64 bits. `denominator` is positive.
///
/// What fits 64 bits is divided there: a division of 128 bits takes several times as long, and
/// every packet needs a handful.
#[inline]
pub(crate) fn scale(value: i64, numerator: i128, denominator: i128) -> i64 {
    if let (Ok(numerator), Ok(denominator)) = (i64::try_from(numerator), i64::try_from(denominator))
        && let Some(product) = value.checked_mul(numerator)
    {
        let half = denominator / 2;
        let away = product.checked_add(if product >= 0 { half } else { -half });
        if let Some(away) = away {
            return away / denominator;
        }
    }
    scale_in_128_bits(value, numerator, denominator)
}

#[cold]
fn scale_in_128_bits(value: i64, numerator: i128, denominator: i128) -> i64 {
    let product = i128::from(value) * numerator;
    let half = denominator / 2;
    let away = if product >= 0 { product + half } else { product - half };
    (away / denominator).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Samples per frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channels(u16);

impl Channels {
    /// The most channels of one stream.
    pub const MAX: u16 = 64;
    /// One channel.
    pub const MONO: Self = Self(1);
    /// Two channels.
    pub const STEREO: Self = Self(2);

    /// A count from 1 to [`Channels::MAX`], or the offending value.
    pub fn new(count: u32) -> Result<Self, UnitError> {
        match u16::try_from(count) {
            Ok(count @ 1..=Self::MAX) => Ok(Self(count)),
            _ => Err(UnitError::Channels(count)),
        }
    }

    /// How many.
    pub const fn count(self) -> usize {
        self.0 as usize
    }

    /// The frames that a slice of interleaved samples holds.
    pub const fn frames_in(self, samples: usize) -> Frames {
        Frames::from_len(samples / self.0 as usize)
    }

    /// The samples that `frames` take.
    pub const fn samples_in(self, frames: Frames) -> usize {
        frames.as_len() * self.0 as usize
    }
}

impl fmt::Display for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A relative rate error, as an integer of 10⁻¹² (a millionth of a part per million).
///
/// Positive means that the clock runs fast.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ppm(i64);

impl Ppm {
    /// A perfect clock.
    pub const ZERO: Self = Self(0);
    const ONE: i128 = 1_000_000_000_000;

    /// `millionths × 10⁻¹²`.
    pub const fn from_millionths(millionths: i64) -> Self {
        Self(millionths)
    }

    /// From a figure that a person typed; rounds to the nearest 10⁻¹² and saturates.
    pub fn from_f64(ppm: f64) -> Self {
        Self((ppm * 1e6).round() as i64)
    }

    /// In 10⁻¹².
    pub const fn as_millionths(self) -> i64 {
        self.0
    }

    /// In parts per million, for people to read.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// How much time passes on a clock with this error while `span` passes in truth.
    pub fn stretch(self, span: Span) -> Span {
        Span::from_nanos(scale(span.as_nanos(), Self::ONE + i128::from(self.0), Self::ONE))
    }

    /// How much time passes in truth while a clock with this error shows `span`.
    pub fn unstretch(self, span: Span) -> Span {
        let rate = (Self::ONE + i128::from(self.0)).max(1);
        Span::from_nanos(scale(span.as_nanos(), Self::ONE, rate))
    }
}

impl fmt::Debug for Ppm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Ppm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+.3} ppm", self.as_f64())
    }
}
