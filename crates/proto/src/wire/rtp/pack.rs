//! Writes RTP packets.

use super::*;
use crate::packet::{Instants, Pack, Packed, PackedSound, PacketHead, held_steps};
use crate::time::Span;

/// Writer with [`ExtensionIds::DEFAULT`].
pub const PACK: &dyn Pack = &RtpPack;

#[derive(Debug)]
struct RtpPack;

const fn any_header(stamps: bool) -> Header {
    let capture = SenderStamps { capture: NtpTime::from_bits(0), instants: None };
    Header {
        sequence: 0,
        timestamp: 0,
        ssrc: 0,
        marker: false,
        payload_type: 0,
        stamps: if stamps { Some(capture) } else { None },
    }
}

impl Pack for RtpPack {
    fn name(&self) -> &'static str {
        "rtp"
    }

    fn number_bits(&self) -> u32 {
        NUMBER_BITS
    }

    fn head_bytes(&self, stamps: bool, carried: usize) -> usize {
        any_header(stamps).bytes_with(carried)
    }

    fn carried_within(&self, stamps: bool, maximum: usize) -> usize {
        any_header(stamps).repair_data_within(maximum)
    }

    fn pack(
        &self,
        head: &PacketHead,
        _: &PackedSound<'_>,
        carried: &[u8],
        room: &mut [u8],
    ) -> Packed {
        let stamps = head.capture.map(|capture| SenderStamps {
            capture: NtpTime::from_unix_nanos(capture.as_unix_nanos()),
            instants: head.instants,
        });
        let header = Header {
            sequence: head.number.value as u16,
            timestamp: head.media.value,
            ssrc: head.stream.ssrc(),
            marker: head.begins,
            payload_type: head.coding,
            stamps,
        };
        let bytes = header.write_with(carried, room);
        Packed { bytes, handed_at: header.handed_at_with(carried.len()) }
    }
}

/// RTP header.
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
    /// See [`Packet::payload_type`]; seven bits.
    pub payload_type: u8,
    /// Extensions with [`ExtensionIds::DEFAULT`]. The length is always [`STAMPED_HEADER_BYTES`].
    pub stamps: Option<SenderStamps>,
}

impl Header {
    /// [`HEADER_BYTES`] or [`STAMPED_HEADER_BYTES`].
    pub const fn bytes(&self) -> usize {
        if self.stamps.is_some() { STAMPED_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// `HANDED_AT` if the header carries instants.
    pub const fn handed_at(&self) -> Option<usize> {
        match self.stamps {
            Some(SenderStamps { instants: Some(_), .. }) => Some(HANDED_AT),
            _ => None,
        }
    }

    /// Writes the header into `buffer`. Returns its length.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Header::bytes`].
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
        bytes[22..24].copy_from_slice(&held_steps(instants.held).to_be_bytes());
    }
    bytes
}

impl Header {
    /// Header length with repair data.
    pub const fn bytes_with(&self, repair_data: usize) -> usize {
        if repair_data == 0 {
            return self.bytes();
        }
        HEADER_BYTES + 4 + elements_bytes(self.stamps.is_some(), repair_data)
    }

    /// Maximum repair data in a header of `maximum` bytes.
    pub const fn repair_data_within(&self, maximum: usize) -> usize {
        let words = maximum.saturating_sub(HEADER_BYTES + 4) / 4 * 4;
        let room = words.saturating_sub(stamps_bytes(self.stamps.is_some()));
        let whole = room / (ELEMENT_HEAD + MAX_ELEMENT);
        let last = room % (ELEMENT_HEAD + MAX_ELEMENT);
        whole * MAX_ELEMENT + last.saturating_sub(ELEMENT_HEAD)
    }

    /// [`Header::handed_at`] with repair data.
    pub const fn handed_at_with(&self, repair_data: usize) -> Option<usize> {
        match self.handed_at() {
            Some(_) if repair_data > 0 => {
                Some(HEADER_BYTES + 4 + ELEMENT_HEAD + CAPTURE_BYTES + ELEMENT_HEAD + 8)
            }
            usual => usual,
        }
    }

    /// Writes the header with repair data into `buffer`. Returns its length.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Header::bytes_with`].
    pub fn write_with(&self, repair_data: &[u8], buffer: &mut [u8]) -> usize {
        if repair_data.is_empty() {
            return self.write(buffer);
        }
        let bare = Self { stamps: None, ..*self };
        bare.write(buffer);
        buffer[0] |= 1 << 4;
        let total = self.bytes_with(repair_data.len());
        let words = (total - HEADER_BYTES - 4) / 4;
        buffer[HEADER_BYTES..][..2].copy_from_slice(&TWO_BYTE_FORM.to_be_bytes());
        buffer[HEADER_BYTES + 2..][..2].copy_from_slice(&(words as u16).to_be_bytes());
        let mut rest = &mut buffer[HEADER_BYTES + 4..total];
        let ids = ExtensionIds::DEFAULT;
        if let Some(stamps) = self.stamps {
            put(&mut rest, ids.capture, &stamps.capture.to_bits().to_be_bytes());
            let instants = stamps.instants.map(instants_bytes);
            // Padding replaces missing instants.
            put(
                &mut rest,
                ids.instants.filter(|_| instants.is_some()),
                &instants.unwrap_or_default(),
            );
        }
        repair_data.chunks(MAX_ELEMENT).for_each(|part| put(&mut rest, ids.redundancy, part));
        rest.fill(0);
        total
    }
}

fn instants_bytes(instants: Instants) -> [u8; INSTANTS_BYTES] {
    let mut bytes = [0; INSTANTS_BYTES];
    let spans = [instants.taken, instants.packed, instants.handed];
    bytes.as_chunks_mut().0.iter_mut().zip(spans).for_each(|(at, span)| *at = span_bytes(span));
    bytes[12..].copy_from_slice(&held_steps(instants.held).to_be_bytes());
    bytes
}

fn put(rest: &mut &mut [u8], id: Option<u8>, data: &[u8]) {
    let (element, after) = core::mem::take(rest).split_at_mut(ELEMENT_HEAD + data.len());
    element.fill(0);
    if let Some(id) = id {
        element[0] = id;
        element[1] = data.len() as u8;
        element[ELEMENT_HEAD..].copy_from_slice(data);
    }
    *rest = after;
}

const fn stamps_bytes(stamps: bool) -> usize {
    if stamps { 2 * ELEMENT_HEAD + CAPTURE_BYTES + INSTANTS_BYTES } else { 0 }
}

const fn elements_bytes(stamps: bool, repair_data: usize) -> usize {
    (stamps_bytes(stamps) + repair_data + repair_data.div_ceil(MAX_ELEMENT) * ELEMENT_HEAD)
        .next_multiple_of(4)
}

/// Wire form of an [`Instants`] field: nanoseconds, big-endian, clamped.
pub fn span_bytes(span: Span) -> [u8; 4] {
    (span.as_nanos().clamp(0, i64::from(u32::MAX)) as u32).to_be_bytes()
}
