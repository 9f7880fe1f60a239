//! RTP packets (RFC 3550 §5.1) with sender instants in header extensions (RFC 8285). Does not
//! allocate.

mod pack;
mod payload_types;
mod unpack;

use rtp_types::RtpPacket;

pub use self::pack::{Header, PACK, span_bytes};
pub use self::unpack::{Packet, RtpUnpack};
pub use super::ntp::NtpTime;
use crate::packet::Instants;

/// RFC 6051 §3.3.
pub(crate) const CAPTURE_URI: &str = "urn:ietf:params:rtp-hdrext:ntp-64";
/// Specific to tautline.
pub(crate) const INSTANTS_URI: &str = "urn:x-tautline:sender-instants";
/// Specific to tautline ([`crate::redundancy::repair_data`]).
pub(crate) const REDUNDANCY_URI: &str = "urn:x-tautline:redundancy";

/// RFC 8285 §4.2.
const ONE_BYTE_FORM: u16 = 0xBEDE;
const CAPTURE_BYTES: usize = 8;
/// Three big-endian `u32` and a `u16`, which fills the word.
const INSTANTS_BYTES: usize = 14;
/// Bytes of both elements, in whole words.
const ELEMENTS_BYTES: usize = ELEMENTS_END.next_multiple_of(4);
/// Bytes of both elements before padding.
const ELEMENTS_END: usize = 1 + CAPTURE_BYTES + 1 + INSTANTS_BYTES;
/// RFC 3550 §5.1.
const VERSION: u8 = 2 << 6;
const PLAIN_WITH_EXTENSION: u8 = VERSION | 1 << 4;
/// Profile number, and length in words.
const ELEMENTS_HEAD: [u8; 4] = {
    let form = ONE_BYTE_FORM.to_be_bytes();
    let words = (ELEMENTS_BYTES as u16 / 4).to_be_bytes();
    [form[0], form[1], words[0], words[1]]
};
/// Id and length minus one (RFC 8285 §4.2).
const CAPTURE_HEAD: u8 = 1 << 4 | (CAPTURE_BYTES as u8 - 1);
const INSTANTS_HEAD: u8 = 2 << 4 | (INSTANTS_BYTES as u8 - 1);

const NUMBER_BITS: u32 = 16;
/// Header bytes without stamps.
pub const HEADER_BYTES: usize = RtpPacket::MIN_RTP_PACKET_LEN;
/// Header bytes with stamps.
pub const STAMPED_HEADER_BYTES: usize = HEADER_BYTES + 4 + ELEMENTS_BYTES;
/// Offset of [`handed_bytes`](crate::packet::handed_bytes) in a stamped packet.
pub(crate) const HANDED_AT: usize = HEADER_BYTES + 4 + 1 + CAPTURE_BYTES + 1 + 8;

/// Header extension ids (RFC 8285 §4.2): 1 to 14.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtensionIds {
    /// Id of `CAPTURE_URI`.
    pub capture: Option<u8>,
    /// Id of `INSTANTS_URI`.
    pub instants: Option<u8>,
    /// Id of `REDUNDANCY_URI`, in the two-byte form only: one-byte elements are too short.
    pub redundancy: Option<u8>,
}

impl ExtensionIds {
    /// Ids of tautline senders, the default.
    pub const DEFAULT: Self = Self { capture: Some(1), instants: Some(2), redundancy: Some(3) };
    /// No extensions.
    pub const NONE: Self = Self { capture: None, instants: None, redundancy: None };
}

impl Default for ExtensionIds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Packet times on the sender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderStamps {
    /// Capture at the ADC, on the clock of RTCP reports.
    pub capture: NtpTime,
    /// Further instants.
    pub instants: Option<Instants>,
}

/// RFC 8285 §4.3.
const TWO_BYTE_FORM: u16 = 0x1000;
const FORM_BITS: u16 = 0xFFF0;
const ELEMENT_HEAD: usize = 2;
const MAX_ELEMENT: usize = 255;
