//! Times of a stream: [`LocalTime`] on this host, [`MediaTime`] in *one stream*. Conversion needs a
//! [`Rate`](crate::units::Rate) and a reference pair ([`crate::clock`]).

use core::fmt;
use core::ops::{Add, AddAssign, Neg, Sub};

/// Saturating sum in two instructions, not six. Every packet needs seventy.
#[inline]
pub(crate) const fn plus(one: i64, other: i64) -> i64 {
    match one.checked_add(other) {
        Some(sum) => sum,
        None => end_towards(other),
    }
}

#[inline]
pub(crate) const fn minus(one: i64, other: i64) -> i64 {
    match one.checked_sub(other) {
        Some(difference) => difference,
        None => end_towards(!other),
    }
}

#[cold]
#[inline(never)]
const fn end_towards(sign: i64) -> i64 {
    if sign < 0 { i64::MIN } else { i64::MAX }
}

macro_rules! arithmetic {
    ($($left:ident $op:ident $right:ident = $out:ident;)*) => {$(arithmetic!(@ $left $op $right $out);)*};
    (@ $left:ident plus $right:ident $out:ident) => {
        impl Add<$right> for $left {
            type Output = $out;
            fn add(self, other: $right) -> $out {
                $out(plus(self.0, other.0))
            }
        }
    };
    (@ $left:ident minus $right:ident $out:ident) => {
        impl Sub<$right> for $left {
            type Output = $out;
            fn sub(self, other: $right) -> $out {
                $out(minus(self.0, other.0))
            }
        }
    };
    (@ $left:ident plus_assign $right:ident $out:ident) => {
        impl AddAssign<$right> for $left {
            fn add_assign(&mut self, other: $right) {
                *self = *self + other;
            }
        }
    };
    (@ $left:ident negated $right:ident $out:ident) => {
        impl Neg for $left {
            type Output = $out;
            fn neg(self) -> $out {
                $out(self.0.saturating_neg())
            }
        }
    };
}

arithmetic! {
    LocalTime minus LocalTime = Span;
    LocalTime plus_assign Span = LocalTime;
    WallTime plus Span = WallTime;
    WallTime minus WallTime = Span;
    Span plus Span = Span;
    Span minus Span = Span;
    Span plus_assign Span = Span;
    Span negated Span = Span;
    MediaTime plus Frames = MediaTime;
    MediaTime minus Frames = MediaTime;
    MediaTime minus MediaTime = Frames;
    MediaTime plus_assign Frames = MediaTime;
    Frames plus Frames = Frames;
    Frames minus Frames = Frames;
    Frames plus_assign Frames = Frames;
    Frames negated Frames = Frames;
}

/// Instant of `CLOCK_MONOTONIC`: nanoseconds since an arbitrary origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LocalTime(i64);

impl LocalTime {
    /// Origin of the clock.
    pub const ZERO: Self = Self(0);
    /// No deadline.
    pub const NEVER: Self = Self(i64::MAX);

    /// `nanos` after the origin.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whether this is [`LocalTime::NEVER`].
    pub const fn is_never(self) -> bool {
        self.0 == i64::MAX
    }

    /// First multiple of `step` at or after this instant.
    pub fn next_of(self, step: Span) -> Self {
        let step = step.as_nanos().max(1);
        let past = self.0.rem_euclid(step);
        self + Span((step - past) % step)
    }
}

impl Add<Span> for LocalTime {
    type Output = Self;
    /// Saturates at [`LocalTime::NEVER`].
    fn add(self, span: Span) -> Self {
        if self.is_never() { self } else { Self(plus(self.0, span.0)) }
    }
}

impl Sub<Span> for LocalTime {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        if self.is_never() { self } else { Self(minus(self.0, span.0)) }
    }
}

impl fmt::Debug for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_never() { f.write_str("never") } else { write!(f, "@{}ns", self.0) }
    }
}

/// Wall clock: nanoseconds since the Unix epoch. Monotonic, with an offset frozen at the start of a
/// stream. It need not be the time of day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime(i64);

impl WallTime {
    /// `nanos` after the Unix epoch.
    pub const fn from_unix_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds after the Unix epoch.
    pub const fn as_unix_nanos(self) -> i64 {
        self.0
    }

    /// `local + offset`.
    pub fn of_local(local: LocalTime, offset: Span) -> Self {
        Self((local + offset).as_nanos())
    }
}

impl fmt::Debug for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wall {}ns", self.0)
    }
}

/// Signed duration in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(i64);

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// No limit.
    pub const MAX: Self = Self(i64::MAX);

    /// `nanos` nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds, saturating.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds, saturating.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `seconds` seconds, saturating.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Duration in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Milliseconds, for display only.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Microseconds, for display only.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Absolute value.
    pub const fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }

    /// Half, rounded towards zero.
    pub const fn half(self) -> Self {
        Self(self.0 / 2)
    }

    /// `self × times`, saturating.
    pub const fn times(self, times: i64) -> Self {
        Self(self.0.saturating_mul(times))
    }

    /// `self ÷ parts`, rounded towards zero; zero `parts` count as one.
    pub const fn divided(self, parts: i64) -> Self {
        Self(if parts == 0 { self.0 } else { self.0.saturating_div(parts) })
    }
}

impl core::iter::Sum for Span {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Span {
    /// In the largest unit with a number of at least one: `2.5ms`, `125us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        let (unit, name) = match nanos {
            0 => return f.write_str("0ms"),
            1..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}", nanos / unit)?;
        let thousandths = u128::from(nanos % unit) * 1000 / u128::from(unit);
        if thousandths > 0 {
            write!(f, ".{}", format!("{thousandths:03}").trim_end_matches('0'))?;
        }
        f.write_str(name)
    }
}

/// Position in a stream in frames. On the wire, the RTP timestamp minus its random start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MediaTime(i64);

impl MediaTime {
    /// First frame of the stream.
    pub const ZERO: Self = Self(0);

    /// Frame `index`.
    pub const fn from_frames(index: i64) -> Self {
        Self(index)
    }

    /// Frame index.
    pub const fn as_frames(self) -> i64 {
        self.0
    }
}

impl fmt::Debug for MediaTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {}", self.0)
    }
}

/// Position between frames, to 2⁻³² of a frame (femtoseconds).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MediaPoint {
    /// Frame at or before.
    pub frame: MediaTime,
    /// Distance after that frame in 2⁻³².
    pub fraction: u32,
}

impl MediaPoint {
    /// Nearest frame; halves round up.
    pub fn nearest(self) -> MediaTime {
        self.frame + Frames::new(i64::from(self.fraction >> 31))
    }
}

impl From<MediaTime> for MediaPoint {
    fn from(frame: MediaTime) -> Self {
        Self { frame, fraction: 0 }
    }
}

impl Add<FineFrames> for MediaPoint {
    type Output = Self;
    fn add(self, distance: FineFrames) -> Self {
        let whole = distance.0 >> 32;
        let fraction = u64::from(self.fraction) + (distance.0 as u64 & 0xFFFF_FFFF);
        let carried = whole + (fraction >> 32) as i64;
        Self { frame: self.frame + Frames(carried), fraction: fraction as u32 }
    }
}

impl Sub for MediaPoint {
    type Output = FineFrames;
    fn sub(self, earlier: Self) -> FineFrames {
        let parts = i64::from(self.fraction) - i64::from(earlier.fraction);
        FineFrames(plus(FineFrames::from(self.frame - earlier.frame).0, parts))
    }
}

impl fmt::Debug for MediaPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {}{:+.6}", self.frame.0, f64::from(self.fraction) / FineFrames::ONE as f64)
    }
}

/// Signed distance in 2⁻³² of a frame. Saturates at 2³¹ frames, three hours at 192 kHz.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FineFrames(i64);

impl FineFrames {
    /// No distance.
    pub const ZERO: Self = Self(0);
    /// Units per frame.
    pub const ONE: i64 = 1 << 32;

    /// `parts` of 2⁻³².
    pub const fn from_parts(parts: i64) -> Self {
        Self(parts)
    }

    /// Units of 2⁻³².
    pub const fn parts(self) -> i64 {
        self.0
    }

    /// Frames, for controllers and display.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ONE as f64
    }
}

impl From<Frames> for FineFrames {
    fn from(frames: Frames) -> Self {
        match i32::try_from(frames.0) {
            Ok(few) => Self(i64::from(few) << 32),
            Err(_) => Self(end_towards(frames.0)),
        }
    }
}

impl fmt::Debug for FineFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} frames", self.as_f64())
    }
}

/// Signed number of frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Frames(i64);

impl Frames {
    /// No frames.
    pub const ZERO: Self = Self(0);

    /// `count` frames.
    pub const fn new(count: i64) -> Self {
        Self(count)
    }

    /// Signed number.
    pub const fn count(self) -> i64 {
        self.0
    }

    /// Length in memory; 0 if negative.
    pub const fn as_len(self) -> usize {
        if self.0 < 0 { 0 } else { self.0 as usize }
    }

    /// Frames of a slice length.
    pub const fn from_len(len: usize) -> Self {
        Self(len as i64)
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames", self.0)
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
