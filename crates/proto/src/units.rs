//! Quantities other than times. Conversions use 128-bit integers from an absolute count, so no
//! error accumulates.

use core::fmt;

use crate::time::{FineFrames, Frames, MediaPoint, Span};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Unsupported quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not in [`Rate::SUPPORTED`].
    #[error("unsupported rate, {0} Hz\nhint: use {all}", all = Rate::listed(|_| true))]
    Rate(u32),
    /// Not 1 to [`Channels::MAX`].
    #[error("unsupported channel count, {0}\nhint: use 1 to 64")]
    Channels(u32),
}

/// Nominal frames per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u32);

impl Rate {
    /// Supported rates, in hertz.
    pub const SUPPORTED: [u32; 12] = [
        8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400,
        192_000,
    ];
    /// Wideband speech (ITU-T G.711.1, G.722).
    pub const HZ_16000: Self = Self(16_000);
    /// Rate of static payload types (RFC 3551 table 4).
    pub const HZ_44100: Self = Self(44_100);
    /// Rate of every AES67 device.
    pub const HZ_48000: Self = Self(48_000);

    /// Supported rate or error.
    pub fn new(hertz: u32) -> Result<Self, UnitError> {
        if Self::SUPPORTED.contains(&hertz) { Ok(Self(hertz)) } else { Err(UnitError::Rate(hertz)) }
    }

    /// Supported rates that match `which`, as text.
    pub fn listed(which: impl Fn(Self) -> bool) -> String {
        let all = Self::SUPPORTED.into_iter().filter(|hertz| which(Self(*hertz)));
        let mut words: Vec<String> = all.map(|hertz| hertz.to_string()).collect();
        let last = words.pop().unwrap_or_default();
        if words.is_empty() { last } else { format!("{} or {last}", words.join(", ")) }
    }

    /// Rate in hertz.
    pub const fn hertz(self) -> u32 {
        self.0
    }

    /// Duration of `frames`, to the nearest nanosecond (half away from zero).
    pub fn span_of(self, frames: Frames) -> Span {
        Span::from_nanos(scale(frames.count(), NANOS_PER_SECOND, i128::from(self.0)))
    }

    /// Whole frames in `span`, rounded down.
    pub fn frames_within(self, span: Span) -> Frames {
        let product = i128::from(span.as_nanos()) * i128::from(self.0);
        Frames::new(match i64::try_from(product) {
            Ok(product) => product.div_euclid(NANOS_PER_SECOND as i64),
            Err(_) => product.div_euclid(NANOS_PER_SECOND) as i64,
        })
    }

    /// Point `span` after `from`, rounded down.
    pub fn point_after(self, from: impl Into<MediaPoint>, span: Span) -> MediaPoint {
        const SECOND: i64 = NANOS_PER_SECOND as i64;
        let (seconds, rest) =
            (span.as_nanos().div_euclid(SECOND), span.as_nanos().rem_euclid(SECOND));
        // 64 bits suffice: 2⁴⁸ frame-nanoseconds, remainder 2³⁰.
        let product = rest * i64::from(self.0);
        let frames = seconds.saturating_mul(self.0.into()).saturating_add(product / SECOND);
        let parts = ((product % SECOND) << 32) / SECOND;
        let MediaPoint { frame, fraction } = from.into();
        MediaPoint { frame: frame + Frames::new(frames), fraction } + FineFrames::from_parts(parts)
    }

    /// Exact duration of one frame.
    pub const fn frame_length(self) -> FrameLength {
        FrameLength(((NANOS_PER_SECOND as u64) << 32) / self.0 as u64)
    }

    /// Duration, to the nearest nanosecond.
    pub fn span_of_fine(self, distance: FineFrames) -> Span {
        self.frame_length().times(distance)
    }

    /// Nearest number of frames (half away from zero).
    pub fn frames_nearest(self, span: Span) -> Frames {
        Frames::new(scale(span.as_nanos(), i128::from(self.0), NANOS_PER_SECOND))
    }
}

/// Duration of a frame in 2⁻³² ns: error 0.05 ns per hour. Avoids divisions in each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLength(u64);

impl FrameLength {
    /// Duration, to the nearest nanosecond.
    pub fn times(self, distance: FineFrames) -> Span {
        let product = i128::from(distance.parts()) * i128::from(self.0);
        Span::from_nanos(((product + (1 << 63)) >> 64) as i64)
    }

    /// Duration, to the nearest nanosecond.
    pub const fn frames(self, count: u32) -> Span {
        // 64 bits hold only 4.3 s at 8 kHz.
        Span::from_nanos(((self.0 as u128 * count as u128 + (1 << 31)) >> 32) as i64)
    }

    pub(crate) fn as_seconds(self) -> f64 {
        self.0 as f64 / (NANOS_PER_SECOND as f64 * (1_u64 << 32) as f64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.0)
    }
}

/// `value × numerator ÷ denominator`, rounded half away from zero, saturating. Prefers a 64-bit
/// division, which is several times faster. `denominator` is positive.
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
    /// Maximum per stream.
    pub const MAX: u16 = 64;
    /// One channel.
    pub const MONO: Self = Self(1);
    /// Two channels.
    pub const STEREO: Self = Self(2);

    /// Channel count or error.
    pub fn new(count: u32) -> Result<Self, UnitError> {
        match u16::try_from(count) {
            Ok(count @ 1..=Self::MAX) => Ok(Self(count)),
            _ => Err(UnitError::Channels(count)),
        }
    }

    /// The count.
    pub const fn count(self) -> usize {
        self.0 as usize
    }

    /// Frames of interleaved samples.
    pub const fn frames_in(self, samples: usize) -> Frames {
        Frames::from_len(samples / self.0 as usize)
    }

    /// Samples of `frames`.
    pub const fn samples_in(self, frames: Frames) -> usize {
        frames.as_len() * self.0 as usize
    }
}

impl fmt::Display for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Relative rate error in 10⁻¹², positive if fast.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ppm(i64);

impl Ppm {
    /// No error.
    pub const ZERO: Self = Self(0);
    const ONE: i128 = 1_000_000_000_000;

    /// `millionths × 10⁻¹²`.
    pub const fn from_millionths(millionths: i64) -> Self {
        Self(millionths)
    }

    /// Rounds to 10⁻¹² and saturates.
    pub fn from_f64(ppm: f64) -> Self {
        Self((ppm * 1e6).round() as i64)
    }

    /// Value in 10⁻¹².
    pub const fn as_millionths(self) -> i64 {
        self.0
    }

    /// Parts per million, for display.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Time on this clock during a real `span`.
    pub fn stretch(self, span: Span) -> Span {
        Span::from_nanos(scale(span.as_nanos(), Self::ONE + i128::from(self.0), Self::ONE))
    }

    /// Real time while this clock shows `span`.
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
