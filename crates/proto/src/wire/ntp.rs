//! NTP timestamps (RFC 5905 §6). The sender defines the clock.

use core::fmt;
use core::ops::Sub;

use crate::time::Span;

/// Seconds from 1900 to 1970 (RFC 5905 figure 4).
const UNIX_EPOCH: i128 = 2_208_988_800;
/// Seconds of an era (RFC 5905 §6).
const ERA: i128 = 1 << 32;
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Seconds since 1900, 32.32 fixed point; wraps after 136 years (RFC 5905 §6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NtpTime(u64);

impl NtpTime {
    /// From the wire.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Seconds in the upper half, fraction in the lower.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// From nanoseconds since 1970, rounded to 2⁻³² s.
    pub const fn from_unix_nanos(nanos: i64) -> Self {
        let since_1900 = nanos as i128 + UNIX_EPOCH * NANOS_PER_SECOND;
        let fixed = (since_1900 * ERA + NANOS_PER_SECOND / 2).div_euclid(NANOS_PER_SECOND);
        Self(fixed as u64)
    }

    /// Nanoseconds since 1970, rounded.
    ///
    /// The wire carries no era. With the top bit set it is 1968 to 2036, else 2036 to 2104 (RFC
    /// 4330 §3).
    pub const fn to_unix_nanos(self) -> i64 {
        let era = if self.0 >> 63 == 1 { 0 } else { ERA };
        let seconds = (self.0 >> 32) as i128 + era - UNIX_EPOCH;
        let fraction = (self.0 & 0xFFFF_FFFF) as i128;
        (seconds * NANOS_PER_SECOND + (fraction * NANOS_PER_SECOND + ERA / 2) / ERA) as i64
    }

    /// Middle 32 bits (RFC 3550 §6.4.1).
    pub const fn compact(self) -> CompactNtp {
        CompactNtp((self.0 >> 16) as u32)
    }
}

impl fmt::Debug for NtpTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ntp {:08x}.{:08x}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// Middle 32 bits of an [`NtpTime`], 16.16 fixed point; wraps after 18.2 hours (RFC 3550 §6.4.1).
/// Zero means none in LSR and LRR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CompactNtp(u32);

impl CompactNtp {
    /// None received yet.
    pub const NONE: Self = Self(0);

    /// From the wire.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// To the wire.
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// Whether this is [`CompactNtp::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl Sub for CompactNtp {
    type Output = CompactSpan;
    /// Correct within ±9.1 hours.
    fn sub(self, earlier: Self) -> CompactSpan {
        CompactSpan(self.0.wrapping_sub(earlier.0) as i32)
    }
}

/// Signed 1/65536 s, as in DLSR and DLRR (RFC 3550 §6.4.1): ±9.1 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CompactSpan(i32);

impl CompactSpan {
    /// From the wire.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits as i32)
    }

    /// To the wire.
    pub const fn to_bits(self) -> u32 {
        self.0 as u32
    }

    /// Rounds to 1/65536 s; saturates.
    pub fn from_span(span: Span) -> Self {
        let ticks = (i128::from(span.as_nanos()) * 65_536 + NANOS_PER_SECOND / 2)
            .div_euclid(NANOS_PER_SECOND);
        Self(ticks.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32)
    }

    /// Rounded to a nanosecond.
    pub fn to_span(self) -> Span {
        Span::from_nanos((i64::from(self.0) * 1_000_000_000 + 32_768).div_euclid(65_536))
    }
}

impl Sub for CompactSpan {
    type Output = Self;
    /// Wraps (RFC 3550 §6.4.1).
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}
