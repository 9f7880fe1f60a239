//! Reads RTP packets.

use std::sync::Arc;

use rtp_types::{RtpPacket, RtpParseError};

use super::{HEADER_BYTES, *};
use crate::codec::Coding;
use crate::packet::{
    Carried, Codings, Instants, Invalid, MediaPacket, PacketHead, StreamId, Unpack, held_of,
};
use crate::stream::StreamFormat;
use crate::time::{Span, WallTime};
use crate::wrap::Wrapped;

/// Reader of RTP packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct RtpUnpack {
    /// Extension identifiers.
    pub extensions: ExtensionIds,
    /// Accepted payload types.
    pub codings: Codings,
}

impl RtpUnpack {
    /// Reader with default extensions and conventional payload types.
    pub fn usual() -> Arc<dyn Unpack> {
        Self::taking(Codings::ByConvention)
    }

    /// Reader with default extensions.
    pub fn taking(codings: Codings) -> Arc<dyn Unpack> {
        Arc::new(Self { codings, ..Self::default() })
    }

    /// Reader for a session description.
    pub fn described(extensions: ExtensionIds) -> Arc<dyn Unpack> {
        Arc::new(Self { extensions, codings: Codings::Exactly })
    }
}

impl Unpack for RtpUnpack {
    #[inline]
    fn unpack<'a>(&self, datagram: &'a [u8]) -> Result<MediaPacket<'a>, Invalid> {
        // Avoids a copy.
        match Packet::parse_usual(datagram, self.extensions) {
            Some(packet) => Ok(packet.into()),
            None => Packet::parse_any(datagram, self.extensions).map(MediaPacket::from),
        }
    }

    fn codings(&self) -> Codings {
        self.codings
    }

    fn coding(&self, coding: u8, format: &StreamFormat) -> Option<Coding> {
        payload_types::coding(self.codings, coding, format)
    }

    #[inline]
    fn stream(&self, datagram: &[u8]) -> Option<StreamId> {
        let ssrc = datagram.get(8..12)?.try_into().ok()?;
        Some(StreamId::from(u32::from_be_bytes(ssrc)))
    }
}

impl<'a> From<Packet<'a>> for MediaPacket<'a> {
    #[inline]
    fn from(packet: Packet<'a>) -> Self {
        let capture = packet.sender.map(|stamps| stamps.capture.to_unix_nanos());
        MediaPacket {
            head: PacketHead {
                stream: StreamId::from(packet.ssrc),
                number: Wrapped { value: packet.sequence.into(), bits: NUMBER_BITS },
                media: Wrapped { value: packet.timestamp, bits: 32 },
                begins: packet.marker,
                coding: packet.payload_type,
                capture: capture.map(WallTime::from_unix_nanos),
                instants: packet.sender.and_then(|stamps| stamps.instants),
            },
            payload: packet.payload,
            carried: packet.carried,
            presented: None,
            shape: None,
        }
    }
}

/// Validated RTP packet, a view into the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Wrapping packet counter ([`crate::wrap`]).
    pub sequence: u16,
    /// Wrapping frame counter: random start plus media time.
    pub timestamp: u32,
    /// Stream identity.
    pub ssrc: u32,
    /// First packet after a pause (RFC 3551 §4.1).
    pub marker: bool,
    /// Payload type (RFC 3551 §6), 0 to 127.
    pub payload_type: u8,
    /// Audio data.
    pub payload: &'a [u8],
    /// Sender times, with at least the capture time.
    pub sender: Option<SenderStamps>,
    /// Repair data for earlier packets.
    pub carried: Option<Carried<'a>>,
}

impl<'a> Packet<'a> {
    /// Parses with [`ExtensionIds::DEFAULT`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Invalid> {
        Self::parse_with(datagram, ExtensionIds::DEFAULT)
    }

    /// Parses a datagram. Ignores malformed and unknown extensions (RFC 8285 §4.1).
    #[inline]
    pub fn parse_with(datagram: &'a [u8], ids: ExtensionIds) -> Result<Self, Invalid> {
        match Self::parse_usual(datagram, ids) {
            Some(packet) => Ok(packet),
            None => Self::parse_any(datagram, ids),
        }
    }

    /// Fast path for stamped packets of [`Header::write`]: a fifth of the instructions of
    /// [`Self::parse_any`]. `None` means another layout.
    #[inline]
    fn parse_usual(datagram: &'a [u8], ids: ExtensionIds) -> Option<Self> {
        let (header, payload) = datagram.split_first_chunk::<STAMPED_HEADER_BYTES>()?;
        let (fixed, extension) = header.split_first_chunk::<HEADER_BYTES>()?;
        let (head, elements) = extension.split_first_chunk::<4>()?;
        let usual = fixed[0] == PLAIN_WITH_EXTENSION
            && *head == ELEMENTS_HEAD
            && elements[0] == CAPTURE_HEAD
            && elements[1 + CAPTURE_BYTES] == INSTANTS_HEAD
            && elements[ELEMENTS_END..].iter().all(|&padding| padding == 0)
            && ids == ExtensionIds::DEFAULT;
        if !usual {
            return None;
        }
        let (_, capture) = elements.split_first()?;
        let (capture, rest) = capture.split_first_chunk()?;
        let (_, instants) = rest.split_first()?;
        Some(Self {
            sequence: u16::from_be_bytes([fixed[2], fixed[3]]),
            timestamp: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            ssrc: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
            marker: fixed[1] & 0x80 != 0,
            payload_type: fixed[1] & 0x7F,
            payload,
            sender: Some(SenderStamps {
                capture: NtpTime::from_bits(u64::from_be_bytes(*capture)),
                instants: Some(instants_from(*instants.first_chunk()?)),
            }),
            carried: None,
        })
    }

    /// [`Self::parse_with`] without the fast path, for comparison in tests.
    #[inline(never)]
    pub fn parse_any(datagram: &'a [u8], ids: ExtensionIds) -> Result<Self, Invalid> {
        let packet = RtpPacket::parse(datagram).map_err(|error| reason_of(datagram, &error))?;
        let begin = packet.payload_offset();
        let extension = packet.extension().map(|(form, data)| (form, data.len()));
        let (sender, carried) = match extension {
            Some((ONE_BYTE_FORM, len)) => (stamps_in(&datagram[begin - len..begin], ids), None),
            Some((form, len)) if form & FORM_BITS == TWO_BYTE_FORM => {
                elements_in(&datagram[begin - len..begin], ids)
            }
            _ => (None, None),
        };
        Ok(Self {
            sequence: packet.sequence_number(),
            timestamp: packet.timestamp(),
            ssrc: packet.ssrc(),
            marker: packet.marker_bit(),
            payload_type: packet.payload_type(),
            payload: &datagram[begin..begin + packet.payload_len()],
            sender,
            carried,
        })
    }
}

/// RFC 8285 §4.2.
fn stamps_in(mut data: &[u8], ids: ExtensionIds) -> Option<SenderStamps> {
    let (mut capture, mut instants) = (None, None);
    while let Some((&head, rest)) = data.split_first() {
        let (id, len) = (head >> 4, usize::from(head & 0x0F) + 1);
        if id == 0 {
            data = rest; // padding
            continue;
        }
        // RFC 8285 §4.2.
        let Some((element, after)) = rest.split_at_checked(len).filter(|_| id != 15) else { break };
        if Some(id) == ids.capture {
            capture = element.try_into().ok().map(|b| NtpTime::from_bits(u64::from_be_bytes(b)));
        } else if Some(id) == ids.instants {
            instants = instants_in(element);
        }
        data = after;
    }
    Some(SenderStamps { capture: capture?, instants })
}

/// Senders without launch times omit `held`.
fn instants_in(element: &[u8]) -> Option<Instants> {
    let mut bytes = [0; INSTANTS_BYTES];
    if element.len() != INSTANTS_BYTES && element.len() != INSTANTS_BYTES - 2 {
        return None;
    }
    bytes[..element.len()].copy_from_slice(element);
    Some(instants_from(bytes))
}

/// Wire: unsigned nanoseconds, up to 4.29 s.
fn instants_from(bytes: [u8; INSTANTS_BYTES]) -> Instants {
    let span = |at: usize| {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        Span::from_nanos(i64::from(u32::from_be_bytes(word)))
    };
    let held = held_of(u16::from_be_bytes([bytes[12], bytes[13]]));
    Instants { taken: span(0), packed: span(4), handed: span(8), held }
}

/// The first element, and the rest from the next with the same id.
fn next_piece(elements: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = Elements(elements);
    let (id, data) = rest.next()?;
    loop {
        let here = rest.0;
        match rest.next() {
            Some((other, _)) if other == id => return Some((data, here)),
            Some(_) => {}
            None => return Some((data, &[])),
        }
    }
}

/// Elements up to an invalid length.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&id, rest) = self.0.split_first()?;
            if id == 0 {
                self.0 = rest;
                continue;
            }
            let (&len, rest) = rest.split_first()?;
            let (data, after) = rest.split_at_checked(len.into())?;
            self.0 = after;
            return Some((id, data));
        }
    }
}

fn elements_in(data: &[u8], ids: ExtensionIds) -> (Option<SenderStamps>, Option<Carried<'_>>) {
    let (mut capture, mut instants, mut carried) = (None, None, None);
    let mut elements = Elements(data);
    loop {
        let before = elements.0;
        let Some((id, element)) = elements.next() else { break };
        if Some(id) == ids.capture {
            capture = element.try_into().ok().map(|b| NtpTime::from_bits(u64::from_be_bytes(b)));
        } else if Some(id) == ids.instants {
            instants = instants_in(element);
        } else if Some(id) == ids.redundancy && carried.is_none() {
            carried = Some(Carried::in_pieces(before, next_piece));
        }
    }
    (capture.map(|capture| SenderStamps { capture, instants }), carried)
}

/// Finds the invalid length, which the library does not report.
#[cold]
pub(super) fn reason_of(datagram: &[u8], error: &RtpParseError) -> Invalid {
    let len = datagram.len();
    let actual = match *error {
        RtpParseError::UnsupportedVersion(version) => return Invalid::Version(version),
        RtpParseError::PaddingInvalid(_) => return Invalid::PaddingBeyondEnd,
        RtpParseError::Truncated { .. } if len < HEADER_BYTES => {
            return Invalid::Truncated { len, header: HEADER_BYTES };
        }
        RtpParseError::Truncated { actual, .. } => actual,
    };
    let sources_end = HEADER_BYTES + 4 * usize::from(datagram[0] & 0x0F);
    if sources_end > actual {
        return Invalid::CsrcBeyondEnd;
    }
    let extension_end = match (datagram[0] & 0x10, datagram.get(sources_end..sources_end + 4)) {
        (0, _) => sources_end,
        (_, Some(head)) => {
            sources_end + 4 + 4 * usize::from(u16::from_be_bytes([head[2], head[3]]))
        }
        (_, None) => usize::MAX,
    };
    if extension_end > actual { Invalid::ExtensionBeyondEnd } else { Invalid::PaddingBeyondEnd }
}
