//! How the reporter's clock stands to UTC, in an APP packet.

use crate::clock::{ClockSource, KeptClock};
use crate::time::Span;

/// Subtype of a [`KeptClock`].
pub(super) const KEPT: u8 = 3;
pub(super) const KEPT_BYTES: usize = 20;

/// On the wire, big-endian: UTC less the clock of the reporter's NTP stamps in nanoseconds (64 bits,
/// signed), how far that may be off (64), what keeps it (8: 1 the system's own means, 2 PTP), zero
/// (24).
pub(super) fn to_bytes(kept: KeptClock) -> [u8; KEPT_BYTES] {
    let mut bytes = [0; KEPT_BYTES];
    bytes[..8].copy_from_slice(&kept.offset.as_nanos().to_be_bytes());
    bytes[8..16].copy_from_slice(&kept.uncertainty.as_nanos().max(0).to_be_bytes());
    bytes[16] = if kept.source == ClockSource::Ptp { 2 } else { 1 };
    bytes
}

/// `None` where it is kept by means that are not known here.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<KeptClock> {
    let (offset, rest) = bytes.split_first_chunk()?;
    let (uncertainty, rest) = rest.split_first_chunk()?;
    let source = match rest.first()? {
        1 => ClockSource::System,
        2 => ClockSource::Ptp,
        _ => return None,
    };
    let uncertainty = i64::from_be_bytes(*uncertainty);
    (uncertainty >= 0).then_some(KeptClock {
        offset: Span::from_nanos(i64::from_be_bytes(*offset)),
        uncertainty: Span::from_nanos(uncertainty),
        source,
    })
}
