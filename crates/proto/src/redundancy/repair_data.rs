//! Wire form of repair data in a header extension.
//!
//! The first byte is the number of repair symbols. Their headers follow, three bytes each, as in
//! RFC 2198:
//!
//! | byte | content |
//! |---|---|
//! | 0 | oldest: distance from this packet back to the first covered one, 1 to 64 |
//! | 1 | span: number of covered packets from there on, 1 to oldest |
//! | 2 | point: evaluation point, 128 to 255; 0 if it covers one packet |
//!
//! Then the symbols, each as long as the payload. Every covered packet has that length and payload
//! type, without gaps. So RFC 2198's timestamp offset and block length are omitted.
//!
//! A symbol is the sum of the covered payloads, each times 1 / (point + y); y is the sequence
//! number modulo 128. These are rows of a Cauchy matrix: any lost packets can be rebuilt from as
//! many symbols that cover them all. A symbol of one packet is its payload.

use super::{MAX_SYMBOLS, MAX_WINDOW, field};

pub(crate) const SYMBOL_HEADER_BYTES: usize = 3;

/// First point. Smaller elements represent packets.
pub(super) const FIRST_POINT: u8 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Distance from the carrier back to the first covered packet.
    pub oldest: u8,
    /// Number of covered packets from there on.
    pub span: u8,
    pub point: u8,
}

impl Symbol {
    pub(super) fn factor(self, sequence: i64) -> u8 {
        if self.span == 1 {
            return 1;
        }
        field::inverse(self.point ^ (sequence.rem_euclid(128) as u8))
    }

    /// Packets covered by the symbol in packet `carrier`.
    pub(super) fn covered(self, carrier: i64) -> core::ops::Range<i64> {
        let first = carrier - i64::from(self.oldest);
        first..first + i64::from(self.span)
    }

    pub(super) const fn to_bytes(self) -> [u8; SYMBOL_HEADER_BYTES] {
        [self.oldest, self.span, self.point]
    }

    const fn from_bytes(bytes: [u8; SYMBOL_HEADER_BYTES]) -> Option<Self> {
        let [oldest, span, point] = bytes;
        let sound = 1 <= span
            && span <= oldest
            && oldest as usize <= MAX_WINDOW
            && (point >= FIRST_POINT || span == 1);
        if sound { Some(Self { oldest, span, point }) } else { None }
    }
}

/// Bytes of repair data for payloads of this length.
pub const fn bytes(symbols: usize, payload_bytes: usize) -> usize {
    if symbols == 0 { 0 } else { 1 + symbols * (SYMBOL_HEADER_BYTES + payload_bytes) }
}

/// Reads each symbol with its bytes; `None` if any part is invalid.
pub(super) fn read(
    repair_data: &[u8],
    payload_bytes: usize,
) -> Option<impl Iterator<Item = (Symbol, &[u8])>> {
    let (&count, rest) = repair_data.split_first()?;
    let count = usize::from(count);
    if payload_bytes == 0 || count == 0 || count > MAX_SYMBOLS {
        return None;
    }
    let (headers, symbols) = rest.split_at_checked(count * SYMBOL_HEADER_BYTES)?;
    let (headers, _) = headers.as_chunks::<SYMBOL_HEADER_BYTES>();
    let whole = symbols.len() == count * payload_bytes
        && headers.iter().all(|header| Symbol::from_bytes(*header).is_some());
    let symbols = symbols.chunks_exact(payload_bytes);
    whole.then(|| headers.iter().filter_map(|header| Symbol::from_bytes(*header)).zip(symbols))
}
