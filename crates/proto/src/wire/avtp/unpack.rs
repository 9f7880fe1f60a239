//! Reads AAF packets.

use std::sync::Arc;

use crate::codec::Coding;

use super::{
    AAF, Encapsulation, HEADER_BYTES, MEDIA_RESTART, SPARSE, STREAM_VALID, TIME_UNCERTAIN,
    TIME_VALID, VERSION, rate_of, sample_of,
};
use crate::packet::{
    Codings, Invalid, MediaPacket, PacketHead, PresentationTime, Presented, StatedShape, StreamId,
    Unpack,
};
use crate::stream::StreamFormat;
use crate::wrap::Wrapped;

/// Reader of AAF packets.
#[derive(Debug, Clone, Copy)]
pub struct AafUnpack {
    encapsulation: Encapsulation,
    /// All if `None`.
    only: Option<StreamId>,
}

impl AafUnpack {
    /// Creates a reader for one stream, or all streams.
    pub fn of(encapsulation: Encapsulation, only: Option<StreamId>) -> Arc<dyn Unpack> {
        Arc::new(Self { encapsulation, only })
    }
}

impl Unpack for AafUnpack {
    fn unpack<'a>(&self, datagram: &'a [u8]) -> Result<MediaPacket<'a>, Invalid> {
        let header = self.encapsulation.bytes() + HEADER_BYTES;
        let truncated = Invalid::Truncated { len: datagram.len(), header };
        let (before, avtpdu) = self.encapsulation.split(datagram).ok_or(truncated)?;
        if let Some(subtype) = avtpdu.first().filter(|subtype| **subtype != AAF) {
            return Err(Invalid::Subtype(*subtype));
        }
        let (head, rest) = avtpdu.split_first_chunk::<HEADER_BYTES>().ok_or(truncated)?;
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| head[at + byte]));
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        if head[1] & VERSION != 0 {
            return Err(Invalid::Version((head[1] & VERSION) >> 4));
        }
        if head[1] & STREAM_VALID == 0 {
            return Err(Invalid::Unnamed);
        }
        let stream = StreamId(u64::from(word(4)) << 32 | u64::from(word(8)));
        if self.only.is_some_and(|only| only != stream) {
            return Err(Invalid::OtherStream);
        }
        let sample = sample_of(head[16]).ok_or(Invalid::Format(head[16]))?;
        let time = (head[1] & TIME_VALID != 0).then(|| PresentationTime(word(12)));
        if time.is_none() && head[22] & SPARSE == 0 {
            return Err(Invalid::Untimed);
        }
        // Ethernet frames are padded to 60 bytes.
        let payload = rest.get(..half(20).into()).ok_or(Invalid::SoundBeyondEnd)?;
        Ok(MediaPacket {
            head: PacketHead {
                stream,
                number: match before {
                    Some(number) => Wrapped { value: number, bits: 32 },
                    None => Wrapped { value: head[2].into(), bits: 8 },
                },
                media: Wrapped { value: 0, bits: 32 },
                begins: false,
                coding: head[16],
                capture: None,
                instants: None,
            },
            payload,
            carried: None,
            presented: Some(Presented {
                time,
                uncertain: head[3] & TIME_UNCERTAIN != 0,
                restarts: head[1] & MEDIA_RESTART != 0,
                number: head[2],
            }),
            shape: Some(StatedShape {
                rate: rate_of(head[17] >> 4),
                channels: half(17) & 0x3FF,
                sample,
            }),
        })
    }

    fn codings(&self) -> Codings {
        Codings::ByConvention
    }

    fn presents(&self) -> bool {
        true
    }

    fn coding(&self, coding: u8, _: &StreamFormat) -> Option<Coding> {
        sample_of(coding).map(Coding::of)
    }

    fn stream(&self, datagram: &[u8]) -> Option<StreamId> {
        let (_, avtpdu) = self.encapsulation.split(datagram)?;
        let id = avtpdu.get(4..12)?.try_into().ok()?;
        Some(StreamId(u64::from_be_bytes(id)))
    }
}
