//! RTP packets (RFC 3550 §5.1) with the sender's instants in header extensions (RFC 8285).
//!
//! Nothing here allocates.

mod carried;
mod invalid;

use rtp_types::RtpPacket;

pub use self::carried::Carried;
pub use self::invalid::Invalid;
pub use super::ntp::NtpTime;
use crate::stream::StreamFormat;
use crate::time::{Frames, Span};

/// URI of the extension that carries the capture instant of the first frame (RFC 6051 §3.3).
pub const CAPTURE_URI: &str = "urn:ietf:params:rtp-hdrext:ntp-64";
/// URI of the extension that carries the sender's further instants; tautline's own.
pub const INSTANTS_URI: &str = "urn:x-tautline:sender-instants";
/// URI of the extension that carries what brings earlier packets back
/// ([`crate::redundancy::parcel`]); tautline's own.
pub const REDUNDANCY_URI: &str = "urn:x-tautline:redundancy";

/// Profile number of the one-byte form of header extensions (RFC 8285 §4.2).
const ONE_BYTE_FORM: u16 = 0xBEDE;
/// Data bytes of [`CAPTURE_URI`].
const CAPTURE_BYTES: usize = 8;
/// Data bytes of [`INSTANTS_URI`]: three big-endian `u32`.
const INSTANTS_BYTES: usize = 12;
/// Both elements with their id bytes, padded to whole words.
const ELEMENTS_BYTES: usize = ELEMENTS_END.next_multiple_of(4);
/// Where the elements end and padding begins.
const ELEMENTS_END: usize = 1 + CAPTURE_BYTES + 1 + INSTANTS_BYTES;
/// Version 2, no padding, no contributing sources (RFC 3550 §5.1).
const VERSION: u8 = 2 << 6;
/// The same with an extension.
const PLAIN_WITH_EXTENSION: u8 = VERSION | 1 << 4;
/// What stands before the elements: the form, and their length in words.
const ELEMENTS_HEAD: [u8; 4] = {
    let form = ONE_BYTE_FORM.to_be_bytes();
    let words = (ELEMENTS_BYTES as u16 / 4).to_be_bytes();
    [form[0], form[1], words[0], words[1]]
};
/// Id and length (less one) of the elements with their [`ExtensionIds::DEFAULT`] (RFC 8285 §4.2).
const CAPTURE_HEAD: u8 = 1 << 4 | (CAPTURE_BYTES as u8 - 1);
const INSTANTS_HEAD: u8 = 2 << 4 | (INSTANTS_BYTES as u8 - 1);

/// Bytes before the payload of a packet without stamps.
pub const HEADER_BYTES: usize = RtpPacket::MIN_RTP_PACKET_LEN;
/// Bytes before the payload of a packet with stamps.
pub const STAMPED_HEADER_BYTES: usize = HEADER_BYTES + 4 + ELEMENTS_BYTES;
/// Where in a packet with stamps the big-endian `u32` of [`Instants::handed`] begins.
pub const HANDED_AT: usize = HEADER_BYTES + 4 + 1 + CAPTURE_BYTES + 1 + 8;

/// The local identifiers of the header extensions (RFC 8285 §4.2): 1 to 14 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtensionIds {
    /// Of [`CAPTURE_URI`], if the sender uses it.
    pub capture: Option<u8>,
    /// Of [`INSTANTS_URI`], if the sender uses it.
    pub instants: Option<u8>,
    /// Of [`REDUNDANCY_URI`], if the sender uses it. Read in the two-byte form alone: the elements
    /// of the other are too short.
    pub redundancy: Option<u8>,
}

impl ExtensionIds {
    /// What a tautline sender writes, and what is assumed where no session description speaks.
    pub const DEFAULT: Self = Self { capture: Some(1), instants: Some(2), redundancy: Some(3) };
    /// No extension is read.
    pub const NONE: Self = Self { capture: None, instants: None, redundancy: None };
}

impl Default for ExtensionIds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What the sender says of the instants of a packet, on its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderStamps {
    /// First frame at the ADC, on the clock of the sender's RTCP reports.
    pub capture: NtpTime,
    /// What else it says, if it does.
    pub instants: Option<Instants>,
}

/// The instants inside the sender as lengths of time since the capture of the packet's first frame.
///
/// On the wire each is an unsigned 32-bit count of nanoseconds: shorter ones are written as zero,
/// ones beyond 4.29 s as the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instants {
    /// The block that holds the first frame reached the program.
    pub taken: Span,
    /// Packet complete.
    pub packed: Span,
    /// Handed to the kernel. Zero until the link fills it in ([`HANDED_AT`], [`span_bytes`]).
    pub handed: Span,
}

/// One RTP packet, found whole: a view into the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Counts packets, wrapping ([`crate::wrap`]).
    pub sequence: u16,
    /// Counts frames, wrapping: the stream's random start plus the media time of the first frame.
    pub timestamp: u32,
    /// The stream's identity in this session.
    pub ssrc: u32,
    /// First packet after a pause (RFC 3551 §4.1).
    pub marker: bool,
    /// What the payload is (RFC 3551 §6): 0 to 127.
    pub payload_type: u8,
    /// The audio.
    pub payload: &'a [u8],
    /// The sender's instants, if the packet carries the capture instant at least.
    pub sender: Option<SenderStamps>,
    /// What it carries of earlier packets, if anything.
    pub carried: Option<Carried<'a>>,
}

impl<'a> Packet<'a> {
    /// Reads a datagram, with the extensions at their [`ExtensionIds::DEFAULT`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Invalid> {
        Self::parse_with(datagram, ExtensionIds::DEFAULT)
    }

    /// Reads a datagram. Extensions that are malformed or unknown are passed over, as
    /// RFC 8285 §4.1 asks.
    #[inline]
    pub fn parse_with(datagram: &'a [u8], ids: ExtensionIds) -> Result<Self, Invalid> {
        match Self::parse_usual(datagram, ids) {
            Some(packet) => Ok(packet),
            None => Self::parse_any(datagram, ids),
        }
    }

    /// Reads what [`Header::write`] writes with stamps: every element at its place, nothing else in
    /// the extension. `None` says nothing but that it looks otherwise. Nearly every packet that a
    /// tautline sender sends is read here, in a fifth of the instructions of [`Self::parse_any`].
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
                instants: Some(Instants::from_bytes(*instants.first_chunk()?)),
            }),
            carried: None,
        })
    }

    /// [`Self::parse_with`] without the short way for what tautline's own senders write: any RTP
    /// packet. The outcome is the same; public so that tests can hold one against the other.
    #[inline(never)]
    pub fn parse_any(datagram: &'a [u8], ids: ExtensionIds) -> Result<Self, Invalid> {
        let packet =
            RtpPacket::parse(datagram).map_err(|error| invalid::reason_of(datagram, &error))?;
        let begin = packet.payload_offset();
        let extension = packet.extension().map(|(form, data)| (form, data.len()));
        let (sender, carried) = match extension {
            Some((ONE_BYTE_FORM, len)) => (stamps_in(&datagram[begin - len..begin], ids), None),
            Some((form, len)) if form & carried::FORM_BITS == carried::TWO_BYTE_FORM => {
                carried::read(&datagram[begin - len..begin], ids)
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

    /// How many frames of `format` the packet carries, or why it is none of the stream. More than
    /// `longest` frames are refused.
    pub fn frames(&self, format: &StreamFormat, longest: Frames) -> Result<Frames, Invalid> {
        if self.payload_type != format.payload_type {
            return Err(Invalid::PayloadType { got: self.payload_type });
        }
        let (payload_bytes, frame_bytes) = (self.payload.len(), format.frame_bytes());
        if payload_bytes == 0 {
            return Err(Invalid::Empty);
        }
        if !payload_bytes.is_multiple_of(frame_bytes) {
            return Err(Invalid::PartialFrame { payload_bytes, frame_bytes });
        }
        let frames = Frames::from_len(payload_bytes / frame_bytes);
        if frames > longest { Err(Invalid::Oversized { frames, longest }) } else { Ok(frames) }
    }
}

/// Reads the elements of a one-byte-form extension (RFC 8285 §4.2).
fn stamps_in(mut data: &[u8], ids: ExtensionIds) -> Option<SenderStamps> {
    let (mut capture, mut instants) = (None, None);
    while let Some((&head, rest)) = data.split_first() {
        let (id, len) = (head >> 4, usize::from(head & 0x0F) + 1);
        if id == 0 {
            data = rest; // padding
            continue;
        }
        // 15 says "read no further" (RFC 8285 §4.2); so does a length that lies.
        let Some((element, after)) = rest.split_at_checked(len).filter(|_| id != 15) else { break };
        if Some(id) == ids.capture {
            capture = element.try_into().ok().map(|b| NtpTime::from_bits(u64::from_be_bytes(b)));
        } else if Some(id) == ids.instants {
            instants = element.try_into().ok().map(Instants::from_bytes);
        }
        data = after;
    }
    Some(SenderStamps { capture: capture?, instants })
}

impl Instants {
    fn from_bytes(bytes: [u8; INSTANTS_BYTES]) -> Self {
        let span = |at: usize| {
            let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            Span::from_nanos(i64::from(u32::from_be_bytes(word)))
        };
        Self { taken: span(0), packed: span(4), handed: span(8) }
    }
}

/// A length of time as the four bytes of an [`Instants`] field: nanoseconds, big-endian, held
/// between zero and the greatest.
pub fn span_bytes(span: Span) -> [u8; 4] {
    (span.as_nanos().clamp(0, i64::from(u32::MAX)) as u32).to_be_bytes()
}

/// What stands before the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// See [`Packet::sequence`].
    pub sequence: u16,
    /// See [`Packet::timestamp`].
    pub timestamp: u32,
    /// See [`Packet::ssrc`].
    pub ssrc: u32,
    /// See [`Packet::marker`].
    pub marker: bool,
    /// See [`Packet::payload_type`]; its lower seven bits are written.
    pub payload_type: u8,
    /// Written as header extensions with [`ExtensionIds::DEFAULT`]. Padding stands for instants
    /// that are `None`, so that every header with stamps takes [`STAMPED_HEADER_BYTES`].
    pub stamps: Option<SenderStamps>,
}

impl Header {
    /// Bytes that the header takes: [`HEADER_BYTES`] or [`STAMPED_HEADER_BYTES`].
    pub const fn bytes(&self) -> usize {
        if self.stamps.is_some() { STAMPED_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// [`HANDED_AT`] if the header carries instants.
    pub const fn handed_at(&self) -> Option<usize> {
        match self.stamps {
            Some(SenderStamps { instants: Some(_), .. }) => Some(HANDED_AT),
            _ => None,
        }
    }

    /// Writes the header to the start of `buffer` and says how many bytes it took.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Header::bytes`]: the caller laid it out.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        let elements = self.stamps.map(elements_of);
        let flags = VERSION | u8::from(elements.is_some()) << 4;
        let kind = u8::from(self.marker) << 7 | self.payload_type & 0x7F;
        let (fixed, rest) = buffer.split_at_mut(HEADER_BYTES);
        fixed[..2].copy_from_slice(&[flags, kind]);
        fixed[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        fixed[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        let Some(elements) = elements else { return HEADER_BYTES };
        rest[..ELEMENTS_HEAD.len()].copy_from_slice(&ELEMENTS_HEAD);
        rest[ELEMENTS_HEAD.len()..][..ELEMENTS_BYTES].copy_from_slice(&elements);
        STAMPED_HEADER_BYTES
    }
}

fn elements_of(stamps: SenderStamps) -> [u8; ELEMENTS_BYTES] {
    let mut bytes = [0; ELEMENTS_BYTES];
    bytes[0] = CAPTURE_HEAD;
    bytes[1..9].copy_from_slice(&stamps.capture.to_bits().to_be_bytes());
    if let Some(instants) = stamps.instants {
        bytes[9] = INSTANTS_HEAD;
        bytes[10..14].copy_from_slice(&span_bytes(instants.taken));
        bytes[14..18].copy_from_slice(&span_bytes(instants.packed));
        bytes[18..22].copy_from_slice(&span_bytes(instants.handed));
    }
    bytes
}
