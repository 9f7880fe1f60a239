//! What a packet carries of earlier ones, as bytes: the repair data that a header extension holds.
//!
//! One byte says how many repair symbols follow. Then, as in RFC 2198, come their headers, one
//! after the other, three bytes each:
//!
//! | byte | says |
//! |---|---|
//! | 0 | oldest: how many packets before this one the first covered packet is, 1 to 64 |
//! | 1 | span: how many packets are covered from there on, 1 to oldest |
//! | 2 | point: where the symbol was taken, 128 to 255; 0 for one that covers one packet |
//!
//! and after the headers the symbols, each as long as the payload of the packet that carries them.
//! Every packet covered has that length and the same payload type, and each begins where the one
//! before it ends: RFC 2198's timestamp offset (14 bits) and block length (10 bits) follow from
//! that and are not written.
//!
//! A symbol is the sum of the covered payloads, each times 1 / (point + y), where y is the packet's
//! sequence number modulo 128: rows of a Cauchy matrix, so that any lost packets can be had from as
//! many symbols that cover them all. One that covers a single packet is that packet's payload.

use super::{MAX_SYMBOLS, MAX_WINDOW, field};

pub(crate) const SYMBOL_HEADER_BYTES: usize = 3;

/// The first of the points; the elements below it stand for packets.
pub(super) const FIRST_POINT: u8 = 128;

/// Which packets a symbol covers, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// How many packets before the carrier the first covered packet is.
    pub oldest: u8,
    /// How many packets are covered from there on.
    pub span: u8,
    /// Where the symbol was taken.
    pub point: u8,
}

impl Symbol {
    /// By what the payload with this number is multiplied.
    pub(super) fn factor(self, sequence: i64) -> u8 {
        if self.span == 1 {
            return 1;
        }
        field::inverse(self.point ^ (sequence.rem_euclid(128) as u8))
    }

    /// The numbers of the covered packets, of a symbol that packet `carrier` carries.
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

/// Bytes of repair data of so many symbols beside a payload of so many bytes.
pub const fn bytes(symbols: usize, payload_bytes: usize) -> usize {
    if symbols == 0 { 0 } else { 1 + symbols * (SYMBOL_HEADER_BYTES + payload_bytes) }
}

/// Reads repair data that came beside a payload of so many bytes: each symbol with its bytes; `None` if
/// it is damaged in any part.
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
