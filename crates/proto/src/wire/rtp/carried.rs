//! Header extensions of the two-byte form (RFC 8285 §4.3), which hold what a packet carries of
//! earlier ones ([`crate::redundancy::parcel`]) beside the sender's instants.
//!
//! An element holds at most 255 bytes; a longer parcel goes on in further elements of the same
//! identifier, one behind the other. A receiver that knows nothing of it passes over the whole
//! extension (RFC 3550 §5.3.1) and plays the payload.

use super::{
    CAPTURE_BYTES, ExtensionIds, HEADER_BYTES, Header, INSTANTS_BYTES, Instants, NtpTime,
    SenderStamps, span_bytes,
};

/// Profile number of the two-byte form; its last four bits are the application's (RFC 8285 §4.3).
pub(super) const TWO_BYTE_FORM: u16 = 0x1000;
/// The bits of the profile number that tell the form.
pub(super) const FORM_BITS: u16 = 0xFFF0;
/// Bytes before each element: identifier and length.
const ELEMENT_HEAD: usize = 2;
/// The longest element.
const MOST_ELEMENT: usize = 255;

/// What a packet carries of earlier ones: a view into the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried<'a> {
    /// The extension from the first element of the parcel on.
    elements: &'a [u8],
    id: u8,
}

impl<'a> Carried<'a> {
    /// Puts the parcel together in `room`; `None` if it does not fit.
    pub fn gather<'b>(&self, room: &'b mut [u8]) -> Option<&'b [u8]> {
        let mut len = 0;
        for (_, data) in Elements(self.elements).filter(|(id, _)| *id == self.id) {
            room.get_mut(len..len + data.len())?.copy_from_slice(data);
            len += data.len();
        }
        Some(&room[..len])
    }
}

/// The elements of a two-byte-form extension, padding left out; ends at the first whose length
/// lies.
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

/// Reads the elements of a two-byte-form extension.
pub(super) fn read(data: &[u8], ids: ExtensionIds) -> (Option<SenderStamps>, Option<Carried<'_>>) {
    let (mut capture, mut instants, mut carried) = (None, None, None);
    let mut elements = Elements(data);
    loop {
        let before = elements.0;
        let Some((id, element)) = elements.next() else { break };
        if Some(id) == ids.capture {
            capture = element.try_into().ok().map(|b| NtpTime::from_bits(u64::from_be_bytes(b)));
        } else if Some(id) == ids.instants {
            instants = element.try_into().ok().map(Instants::from_bytes);
        } else if Some(id) == ids.redundancy && carried.is_none() {
            carried = Some(Carried { elements: before, id });
        }
    }
    (capture.map(|capture| SenderStamps { capture, instants }), carried)
}

impl Header {
    /// Bytes that the header takes with a parcel of so many bytes: more than [`Header::bytes`] if
    /// there is one.
    pub const fn bytes_with(&self, parcel: usize) -> usize {
        if parcel == 0 {
            return self.bytes();
        }
        HEADER_BYTES + 4 + elements_bytes(self.stamps.is_some(), parcel)
    }

    /// The longest parcel beside which the header takes no more than `most` bytes.
    pub const fn parcel_within(&self, most: usize) -> usize {
        let words = most.saturating_sub(HEADER_BYTES + 4) / 4 * 4;
        let room = words.saturating_sub(stamps_bytes(self.stamps.is_some()));
        let whole = room / (ELEMENT_HEAD + MOST_ELEMENT);
        let last = room % (ELEMENT_HEAD + MOST_ELEMENT);
        whole * MOST_ELEMENT + last.saturating_sub(ELEMENT_HEAD)
    }

    /// Where the hand-over is written in a header with a parcel ([`Header::handed_at`]).
    pub const fn handed_at_with(&self, parcel: usize) -> Option<usize> {
        match self.handed_at() {
            Some(_) if parcel > 0 => {
                Some(HEADER_BYTES + 4 + ELEMENT_HEAD + CAPTURE_BYTES + ELEMENT_HEAD + 8)
            }
            usual => usual,
        }
    }

    /// Writes the header with the parcel in its extension to the start of `buffer` and says how many
    /// bytes it took. Without a parcel it is [`Header::write`].
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Header::bytes_with`] says: the caller laid it out.
    pub fn write_with(&self, parcel: &[u8], buffer: &mut [u8]) -> usize {
        if parcel.is_empty() {
            return self.write(buffer);
        }
        let bare = Self { stamps: None, ..*self };
        bare.write(buffer);
        buffer[0] |= 1 << 4;
        let total = self.bytes_with(parcel.len());
        let words = (total - HEADER_BYTES - 4) / 4;
        buffer[HEADER_BYTES..][..2].copy_from_slice(&TWO_BYTE_FORM.to_be_bytes());
        buffer[HEADER_BYTES + 2..][..2].copy_from_slice(&(words as u16).to_be_bytes());
        let mut rest = &mut buffer[HEADER_BYTES + 4..total];
        let ids = ExtensionIds::DEFAULT;
        if let Some(stamps) = self.stamps {
            put(&mut rest, ids.capture, &stamps.capture.to_bits().to_be_bytes());
            let instants = stamps.instants.map(instants_bytes);
            // Padding stands for instants that are not there.
            put(
                &mut rest,
                ids.instants.filter(|_| instants.is_some()),
                &instants.unwrap_or_default(),
            );
        }
        parcel.chunks(MOST_ELEMENT).for_each(|part| put(&mut rest, ids.redundancy, part));
        rest.fill(0);
        total
    }
}

fn instants_bytes(instants: Instants) -> [u8; INSTANTS_BYTES] {
    let mut bytes = [0; INSTANTS_BYTES];
    let spans = [instants.taken, instants.packed, instants.handed];
    bytes.as_chunks_mut().0.iter_mut().zip(spans).for_each(|(at, span)| *at = span_bytes(span));
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

const fn elements_bytes(stamps: bool, parcel: usize) -> usize {
    (stamps_bytes(stamps) + parcel + parcel.div_ceil(MOST_ELEMENT) * ELEMENT_HEAD)
        .next_multiple_of(4)
}
