//! NTP timestamps (RFC 5905 §6), as in RTCP and RTP header extensions.
//!
//! The sender defines the underlying clock; this module reads none.

use core::fmt;
use core::ops::Sub;

use crate::time::Span;

/// Seconds from 1900-01-01 to 1970-01-01 (RFC 5905 figure 4).
const UNIX_EPOCH: i128 = 2_208_988_800;
/// Seconds of an NTP era (RFC 5905 §6); era 1 begins on 2036-02-07.
const ERA: i128 = 1 << 32;
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Instant in 2⁻³² s since 1900, 32.32 fixed point, wrapping every 136 years (RFC 5905 §6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NtpTime(u64);

impl NtpTime {
    /// Creates a timestamp from its 64 bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// 64 bits of the wire: seconds in the upper half, fraction in the lower.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Converts nanoseconds since 1970, rounded to 2⁻³² s.
    pub const fn from_unix_nanos(nanos: i64) -> Self {
        let since_1900 = nanos as i128 + UNIX_EPOCH * NANOS_PER_SECOND;
        let fixed = (since_1900 * ERA + NANOS_PER_SECOND / 2).div_euclid(NANOS_PER_SECOND);
        Self(fixed as u64)
    }

    /// Nanoseconds since 1970, rounded.
    ///
    /// The wire does not carry the era. A timestamp with its top bit set is in 1968 to 2036,
    /// otherwise in 2036 to 2104 (RFC 4330 §3). In these years [`NtpTime::from_unix_nanos`] is
    /// inverted exactly.
    pub const fn to_unix_nanos(self) -> i64 {
        let era = if self.0 >> 63 == 1 { 0 } else { ERA };
        let seconds = (self.0 >> 32) as i128 + era - UNIX_EPOCH;
        let fraction = (self.0 & 0xFFFF_FFFF) as i128;
        (seconds * NANOS_PER_SECOND + (fraction * NANOS_PER_SECOND + ERA / 2) / ERA) as i64
    }

    /// Middle 32 bits, as in the LSR and LRR fields (RFC 3550 §6.4.1).
    pub const fn compact(self) -> CompactNtp {
        CompactNtp((self.0 >> 16) as u32)
    }
}

impl fmt::Debug for NtpTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ntp {:08x}.{:08x}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// Middle 32 bits of an [`NtpTime`]: 16.16 fixed point seconds, wrapping every 18.2 hours (RFC 3550
/// §6.4.1). Zero means "none received yet" in LSR and LRR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CompactNtp(u32);

impl CompactNtp {
    /// None received yet.
    pub const NONE: Self = Self(0);

    /// Creates a timestamp from its 32 bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// 32 bits of the wire.
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
    /// Shortest difference: correct within 9.1 hours.
    fn sub(self, earlier: Self) -> CompactSpan {
        CompactSpan(self.0.wrapping_sub(earlier.0) as i32)
    }
}

/// Signed duration in 1/65536 s, as in DLSR and DLRR (RFC 3550 §6.4.1): ±9.1 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CompactSpan(i32);

impl CompactSpan {
    /// Creates a duration from its 32 bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits as i32)
    }

    /// 32 bits of the wire.
    pub const fn to_bits(self) -> u32 {
        self.0 as u32
    }

    /// Converts a span, rounded to 1/65536 s, saturating.
    pub fn from_span(span: Span) -> Self {
        let ticks = (i128::from(span.as_nanos()) * 65_536 + NANOS_PER_SECOND / 2)
            .div_euclid(NANOS_PER_SECOND);
        Self(ticks.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32)
    }

    /// Duration, rounded to a nanosecond.
    pub fn to_span(self) -> Span {
        Span::from_nanos((i64::from(self.0) * 1_000_000_000 + 32_768).div_euclid(65_536))
    }
}

impl Sub for CompactSpan {
    type Output = Self;
    /// Wraps, as required by the round-trip formula of RFC 3550 §6.4.1.
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}
