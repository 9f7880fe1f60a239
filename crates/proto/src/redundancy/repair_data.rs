//! Wire form of repair data in a header extension.
//!
//! The first byte is the number of repair symbols. Then, as in RFC 2198, come their headers, three
//! bytes each:
//!
//! | byte | content |
//! |---|---|
//! | 0 | oldest: distance from this packet back to the first covered one, 1 to 64 |
//! | 1 | span: number of covered packets from there on, 1 to oldest |
//! | 2 | point: evaluation point of the symbol, 128 to 255; 0 if it covers one packet |
//!
//! After the headers come the symbols, each as long as the payload of the carrying packet. Every
//! covered packet has that length and the same payload type, and begins at the end of the previous
//! one. RFC 2198's timestamp offset (14 bits) and block length (10 bits) follow from that and are
//! omitted.
//!
//! A symbol is the sum of the covered payloads, each times 1 / (point + y), where y is the packet's
//! sequence number modulo 128. These are rows of a Cauchy matrix, so any lost packets can be
//! rebuilt from as many symbols that cover them all. A symbol that covers one packet is that
//! packet's payload.

use super::{MAX_SYMBOLS, MAX_WINDOW, field};

pub(crate) const SYMBOL_HEADER_BYTES: usize = 3;

/// First point; smaller elements represent packets.
pub(super) const FIRST_POINT: u8 = 128;

/// Packets that a symbol covers, and its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Distance from the carrier back to the first covered packet.
    pub oldest: u8,
    /// Number of covered packets from there on.
    pub span: u8,
    /// Evaluation point.
    pub point: u8,
}

impl Symbol {
    /// Factor of the payload with this number.
    pub(super) fn factor(self, sequence: i64) -> u8 {
        if self.span == 1 {
            return 1;
        }
        field::inverse(self.point ^ (sequence.rem_euclid(128) as u8))
    }

    /// Numbers of the covered packets if packet `carrier` carries the symbol.
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

/// Bytes of repair data with this many symbols, for payloads of this length.
pub const fn bytes(symbols: usize, payload_bytes: usize) -> usize {
    if symbols == 0 { 0 } else { 1 + symbols * (SYMBOL_HEADER_BYTES + payload_bytes) }
}

/// Reads repair data for payloads of this length: each symbol with its bytes. `None` if any part is
/// invalid.
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
