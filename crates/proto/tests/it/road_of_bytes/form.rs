//! Artificial wire format without reports: 8-bit numbers, little-endian.

use std::sync::Arc;

use tautline_proto::codec::Coding;
use tautline_proto::packet::{
    Carried, Codings, Instants, Invalid, MediaPacket, Pack, Packed, PackedSound, PacketHead,
    StreamId, Unpack, held_of,
};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Span, WallTime};
use tautline_proto::wrap::Wrapped;

pub(crate) const PACK: &dyn Pack = &Bytes;

/// Far, slightly ahead, slightly behind.
pub(crate) const ANEW: [u16; 3] = [128, 50, 250];

pub(crate) fn unpack() -> Arc<dyn Unpack> {
    Arc::new(Bytes)
}

/// | byte | meaning |
/// |---|---|
/// | 0 | 1 if a run of sound begins, plus 2 if the sender's instants follow |
/// | 1 | number |
/// | 2, 6 | media time, stream, four bytes each |
/// | 10 | coding |
/// | 11 | bytes of repair data, two bytes |
/// | 13 | capture in nanoseconds, eight bytes; taken, packed and handed, four bytes each |
///
/// Repair data and audio follow.
#[derive(Debug)]
struct Bytes;

const FIXED: usize = 13;
const STAMPS: usize = 8 + 3 * 4 + 2;

impl Pack for Bytes {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn number_bits(&self) -> u32 {
        8
    }

    fn head_bytes(&self, stamps: bool, carried: usize) -> usize {
        FIXED + if stamps { STAMPS } else { 0 } + carried
    }

    fn carried_within(&self, stamps: bool, maximum: usize) -> usize {
        maximum.saturating_sub(self.head_bytes(stamps, 0))
    }

    fn pack(
        &self,
        head: &PacketHead,
        _: &PackedSound<'_>,
        carried: &[u8],
        room: &mut [u8],
    ) -> Packed {
        let mut bytes = vec![
            u8::from(head.begins) | u8::from(head.capture.is_some()) << 1,
            head.number.value as u8,
        ];
        bytes.extend(head.media.value.to_le_bytes());
        bytes.extend((head.stream.0 as u32).to_le_bytes());
        bytes.push(head.coding);
        bytes.extend((carried.len() as u16).to_le_bytes());
        if let Some(capture) = head.capture {
            bytes.extend(capture.as_unix_nanos().to_le_bytes());
            let instants = head.instants.unwrap_or_default();
            for span in [instants.taken, instants.packed] {
                bytes.extend((span.as_nanos() as u32).to_le_bytes());
            }
            bytes.extend([0; 6]);
        }
        bytes.extend(carried);
        room[..bytes.len()].copy_from_slice(&bytes);
        // Big-endian in every format.
        let handed_at = head.capture.map(|_| FIXED + STAMPS - 6);
        Packed { bytes: bytes.len(), handed_at }
    }
}

impl Unpack for Bytes {
    fn codings(&self) -> Codings {
        Codings::ByConvention
    }

    fn coding(&self, coding: u8, _: &StreamFormat) -> Option<Coding> {
        Coding::find(|row| row.payload_type == coding)
    }

    fn unpack<'a>(&self, datagram: &'a [u8]) -> Result<MediaPacket<'a>, Invalid> {
        let truncated = Invalid::Truncated { len: datagram.len(), header: FIXED };
        let (fixed, mut rest) = datagram.split_first_chunk::<FIXED>().ok_or(truncated)?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| fixed[at + byte]));
        let (mut capture, mut instants) = (None, None);
        if fixed[0] & 2 != 0 {
            let (stamps, after) = rest.split_first_chunk::<STAMPS>().ok_or(truncated)?;
            let (first, spans) = stamps.split_first_chunk().ok_or(truncated)?;
            capture = Some(WallTime::from_unix_nanos(i64::from_le_bytes(*first)));
            let span = |at: usize, read: fn([u8; 4]) -> u32| {
                Span::from_nanos(read([0, 1, 2, 3].map(|byte| spans[at + byte])).into())
            };
            let [taken, packed] = [0, 4].map(|at| span(at, u32::from_le_bytes));
            let handed = span(8, u32::from_be_bytes);
            let held = held_of(u16::from_be_bytes([spans[12], spans[13]]));
            instants = Some(Instants { taken, packed, handed, held });
            rest = after;
        }
        let carried = usize::from(u16::from_le_bytes([fixed[11], fixed[12]]));
        let (carried, payload) = rest.split_at_checked(carried).ok_or(truncated)?;
        Ok(MediaPacket {
            head: PacketHead {
                stream: StreamId::from(word(6)),
                number: Wrapped { value: fixed[1].into(), bits: 8 },
                media: Wrapped { value: word(2), bits: 32 },
                begins: fixed[0] & 1 != 0,
                coding: fixed[10],
                capture,
                instants,
            },
            payload,
            carried: (!carried.is_empty()).then(|| Carried::whole(carried)),
            presented: None,
            shape: None,
        })
    }
}
