//! Determines which part of a packet is encrypted.
//!
//! RTP header and extension stay in clear, for timestamps. An extension with audio, as for
//! redundancy, is encrypted (Cryptex, RFC 9335); it has the two-byte form (RFC 8285).

/// RFC 3550 §5.1.
const RTP_HEADER: usize = 12;
const EXTENSION_HEAD: usize = 4;
/// First header and sender's SSRC (RFC 3711 §3.4).
pub(super) const RTCP_CLEAR: usize = 8;

/// RFC 8285 §4.3; encrypted: RFC 9335 §5.
const TWO_BYTE: [u8; 2] = 0x1000_u16.to_be_bytes();
const ONE_BYTE: [u8; 2] = 0xBEDE_u16.to_be_bytes();
const SEALED_ONE_BYTE: [u8; 2] = 0xC0DE_u16.to_be_bytes();
const SEALED_TWO_BYTE: [u8; 2] = 0xC2DE_u16.to_be_bytes();

/// Whether the packet is RTCP (RFC 5761 §4).
pub(super) fn is_rtcp(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|kind| (192..=223).contains(kind))
}

pub(super) fn is_version_two(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first >> 6 == 2)
}

pub(super) fn rtcp_ssrc(bytes: &[u8]) -> Option<u32> {
    word(bytes, 4).filter(|_| is_version_two(bytes))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sealable {
    pub(super) clear: usize,
    /// Contributing sources: the extension header moves before them (RFC 9335 §6.2).
    moved: Option<usize>,
}

impl Sealable {
    pub(super) fn gather(self, packet: &mut [u8]) {
        if let Some(moved) = self.moved_in(packet) {
            moved.rotate_right(EXTENSION_HEAD);
        }
    }

    pub(super) fn scatter(self, packet: &mut [u8]) {
        if let Some(moved) = self.moved_in(packet) {
            moved.rotate_left(EXTENSION_HEAD);
        }
    }

    fn moved_in(self, packet: &mut [u8]) -> Option<&mut [u8]> {
        let sources = self.moved.filter(|sources| *sources > 0)?;
        packet.get_mut(RTP_HEADER..RTP_HEADER + sources + EXTENSION_HEAD)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RtpParts {
    pub(super) ssrc: u32,
    pub(super) sequence: u16,
    form: Option<(usize, [u8; 2])>,
    sources: usize,
    /// Including the extension.
    header: usize,
}

impl RtpParts {
    pub(super) fn read(packet: &[u8]) -> Option<Self> {
        let head: &[u8; RTP_HEADER] = packet.first_chunk()?;
        if !is_version_two(packet) {
            return None;
        }
        let sources = 4 * usize::from(head[0] & 0x0F);
        let fixed = RTP_HEADER + sources;
        let (form, header) = if head[0] & 0x10 == 0 {
            (None, fixed)
        } else {
            let [a, b, words @ ..] = *packet.get(fixed..)?.first_chunk::<EXTENSION_HEAD>()?;
            let elements = 4 * usize::from(u16::from_be_bytes(words));
            (Some((fixed, [a, b])), fixed + EXTENSION_HEAD + elements)
        };
        if header > packet.len() {
            return None;
        }
        let sequence = u16::from_be_bytes([head[2], head[3]]);
        Some(Self { ssrc: word(packet, 8)?, sequence, form, sources, header })
    }

    /// Marks an encrypted extension. `None` if it is marked already.
    pub(super) fn to_seal(self, packet: &mut [u8]) -> Option<Sealable> {
        match self.form {
            Some((_, SEALED_ONE_BYTE | SEALED_TWO_BYTE)) => None,
            Some((at, TWO_BYTE)) => {
                packet[at..at + 2].copy_from_slice(&SEALED_TWO_BYTE);
                Some(self.with_extension())
            }
            _ => Some(Sealable { clear: self.header, moved: None }),
        }
    }

    pub(super) const fn sealed(self) -> Sealable {
        match self.form {
            Some((_, SEALED_ONE_BYTE | SEALED_TWO_BYTE)) => self.with_extension(),
            _ => Sealable { clear: self.header, moved: None },
        }
    }

    const fn with_extension(self) -> Sealable {
        Sealable { clear: RTP_HEADER + EXTENSION_HEAD, moved: Some(self.sources) }
    }

    pub(super) fn restore(self, packet: &mut [u8]) {
        let (at, form) = match self.form {
            Some((at, SEALED_ONE_BYTE)) => (at, ONE_BYTE),
            Some((at, SEALED_TWO_BYTE)) => (at, TWO_BYTE),
            _ => return,
        };
        packet[at..at + 2].copy_from_slice(&form);
    }
}
