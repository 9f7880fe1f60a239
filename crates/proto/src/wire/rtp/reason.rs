//! Why bytes are no RTP packet.

use rtp_types::RtpParseError;

use super::HEADER_BYTES;
use crate::packet::Invalid;

/// Says which length lied; the library only says that one did. Ends are checked in the order of
/// the header.
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
