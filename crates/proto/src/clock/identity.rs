//! Unique names of clocks. Hashes reveal nothing about the host.

use core::num::NonZeroU64;

use crate::time::Span;

/// Equal names mean the same clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClockId(NonZeroU64);

impl ClockId {
    /// Start of the 64-bit FNV-1a hash (Fowler, Noll, Vo), on which different builds must agree.
    const BEGIN: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01B3;

    /// Name of the clock with these `parts`.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(Self::PRIME);
        let hash = parts.iter().fold(Self::BEGIN, |hash, part| {
            let length = (part.len() as u64).to_be_bytes();
            length.into_iter().chain(part.iter().copied()).fold(hash, mix)
        });
        Self(NonZeroU64::new(finish(hash)).unwrap_or(NonZeroU64::MIN))
    }

    /// Name of a clock known by `parts` relative to this clock.
    pub fn with(self, parts: &[&[u8]]) -> Self {
        let own = self.0.get().to_be_bytes();
        let all: Vec<&[u8]> = core::iter::once(&own[..]).chain(parts.iter().copied()).collect();
        Self::of(&all)
    }

    /// Name from its wire form; `None` for 0.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// Wire form of the name.
    pub const fn to_bits(self) -> u64 {
        self.0.get()
    }
}

/// Last step of MurmurHash3 (A. Appleby).
const fn finish(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ (hash >> 33)
}

/// A host's monotonic clock since its boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostClock {
    id: ClockId,
    /// Hides the uptime of the host.
    veil: u64,
}

impl HostClock {
    /// Clock of the host with this secret boot identifier.
    pub fn of(boot: &[u8]) -> Self {
        Self { id: ClockId::of(&[b"host", boot]), veil: ClockId::of(&[b"veil", boot]).to_bits() }
    }

    /// Name of the clock.
    pub const fn id(self) -> ClockId {
        self.id
    }

    /// Reading for a wall clock `wall_offset` ahead.
    pub const fn reported(self, wall_offset: Span) -> HostReading {
        HostReading { id: self.id, veiled: wall_offset.as_nanos().cast_unsigned() ^ self.veil }
    }

    /// Wall-clock offset; `None` for another clock.
    pub fn wall_offset(self, reading: HostReading) -> Option<Span> {
        let offset = Span::from_nanos((reading.veiled ^ self.veil).cast_signed());
        (reading.id == self.id).then_some(offset)
    }
}

/// Wall-clock offset of a sender, readable only on its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostReading {
    /// Name of the host's clock.
    pub id: ClockId,
    /// Wall clock minus host clock, masked.
    pub veiled: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_one_name_and_no_two_share_it() {
        let one = ClockId::of(&[b"host", b"one"]);
        assert_eq!(one, ClockId::of(&[b"host", b"one"]));
        assert_ne!(one, ClockId::of(&[b"host", b"two"]));
        assert_ne!(one, ClockId::of(&[b"hosto", b"ne"]), "parts are told apart");
        assert_ne!(one.with(&[b"jack"]), one.with(&[b"kcaj"]));
        assert_eq!(ClockId::from_bits(one.to_bits()), Some(one));
        assert_eq!(ClockId::from_bits(0), None);
    }

    #[test]
    fn a_reading_is_understood_on_the_same_host_alone() {
        let (here, there) = (HostClock::of(b"here"), HostClock::of(b"there"));
        for offset in [Span::ZERO, Span::from_secs(1_700_000_000), -Span::from_secs(5)] {
            let reported = here.reported(offset);
            assert_eq!(here.wall_offset(reported), Some(offset));
            assert_eq!(there.wall_offset(reported), None);
            assert_ne!(reported.veiled, offset.as_nanos().cast_unsigned(), "another host reads it");
        }
    }
}
