//! Session descriptions (SDP, RFC 8866) of one audio stream, as written and read by AES67 and
//! common RTP programs.
//!
//! Unlike the rest of [`crate::wire`] this allocates: a description is read once, during set-up.

mod coding;
mod decimal;
mod lines;
mod read;
mod write;

use std::net::IpAddr;

use tautline_dsp::format::SampleFormat;

use super::rtp::ExtensionIds;
use crate::codec::Codec;
use crate::stream::StreamFormat;
use crate::text::on_one_line;
use crate::time::{Frames, Span};
use crate::units::{Channels, Rate, UnitError};

/// Maximum size in bytes; real descriptions have a few hundred.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum number of lines.
pub const MAX_LINES: usize = 4096;
/// Maximum number of media sections.
pub const MAX_MEDIA: usize = 64;

/// Attribute for the link offset in decimal milliseconds; specific to tautline.
const LINK_OFFSET: &str = "x-link-offset";
/// Description of an audio stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Name of the stream.
    pub name: String,
    /// Origin of the description.
    pub origin: SdpOrigin,
    /// Destination of the packets: a group, or the receiver itself.
    pub destination: IpAddr,
    /// UDP port of the packets.
    pub rtp_port: u16,
    /// UDP port of RTCP; the next one by default.
    pub rtcp_port: u16,
    /// TTL of multicast packets (IPv4 only).
    pub ttl: Option<u8>,
    /// Senders to accept (RFC 4570 `incl`); empty for all.
    pub sources: Vec<IpAddr>,
    /// Nominal frames per second.
    pub rate: Rate,
    /// Samples per frame.
    pub channels: Channels,
    /// Sample format.
    pub sample: SampleFormat,
    /// Codec, if compressed.
    pub coder: Option<Codec>,
    /// RTP payload type: 0 to 127.
    pub payload_type: u8,
    /// Frames per packet, from `framecount` or else the nearest to `ptime`. `None` without either,
    /// as with senders that fill datagrams. Packets may have other lengths.
    pub packet: Option<Frames>,
    /// Announced latency from capture to DAC.
    pub link_offset: Option<Span>,
    /// RTP timestamp at the epoch of the reference clock (RFC 7273 §5.2), if the media clock is
    /// locked to it.
    pub mediaclk_offset: Option<u32>,
    /// Clock of the sender's timestamps (RFC 7273 §4).
    pub reference: Reference,
    /// Header extensions of the packets.
    pub extensions: ExtensionIds,
    /// Whether packets are encrypted (`RTP/SAVP`, RFC 3711 §12).
    pub sealed: bool,
    /// Keys in order of preference (RFC 4568 §4); if empty, receivers need them from elsewhere.
    pub crypto: Vec<SdpCrypto>,
}

/// `a=crypto` attribute after its tag (RFC 4568 §9.1): a profile and a key, which is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SdpCrypto(pub String);

impl core::fmt::Debug for SdpCrypto {
    /// Hides the key, since output may be stored.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SdpCrypto")
    }
}

/// Origin of a description: the numbers and the address in the `o=` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SdpOrigin {
    /// Session identifier; zero if it is not a number.
    pub session: u64,
    /// Version, which increases with every change of the description.
    pub version: u64,
    /// Describing host; unspecified if it is not an address.
    pub address: IpAddr,
}

/// A reference clock (RFC 7273 §4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The sender's own clock, or none named.
    Local,
    /// Text after `ptp=`, such as `IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0`.
    Ptp(String),
    /// Full text of another kind.
    Other(String),
}

impl Description {
    /// Format of the stream, with `otherwise` frames per packet if the description has none.
    pub fn format(&self, otherwise: Frames) -> StreamFormat {
        StreamFormat {
            coder: self.coder,
            rate: self.rate,
            channels: self.channels,
            sample: self.sample,
            packet: self.packet.unwrap_or(otherwise),
            payload_type: self.payload_type,
        }
    }
}

/// Error of reading a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptionError {
    /// Line number from 1, if there is one.
    pub line: Option<usize>,
    /// Fault in the line.
    pub fault: SdpFault,
}

impl core::error::Error for DescriptionError {}

impl core::fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.fault),
            None => write!(f, "{}", self.fault),
        }
    }
}

/// Fault in a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SdpFault {
    /// More than [`MAX_BYTES`].
    #[error("too long for a session description: {0} bytes\nhint: name the sender's .sdp file")]
    Bytes(usize),
    /// More than [`MAX_LINES`].
    #[error("too long for a session description: {0} lines\nhint: name the sender's .sdp file")]
    Lines(usize),
    /// More than [`MAX_MEDIA`].
    #[error("too many streams in the description: {0}\nhint: keep the one to receive")]
    Media(usize),
    /// Not SDP.
    #[error(
        "not SDP: the first line must be v=0, each further one X=VALUE\nhint: name the sender's .sdp file"
    )]
    NotSdp,
    /// No audio stream.
    #[error("no audio stream\nhint: add an m=audio line")]
    NoAudio,
    /// A transport other than RTP.
    #[error("unsupported transport '{0}'\nhint: have the sender offer RTP/AVP")]
    Transport(String),
    /// UDP port 0 (RFC 3264 §5.1).
    #[error("UDP port 0 disables this stream\nhint: have the sender enable it")]
    Disabled,
    /// No UDP port, or none left for RTCP.
    #[error("invalid UDP port '{0}': must be 1 to 65534")]
    UdpPort(String),
    /// Missing `c=` line.
    #[error("no destination\nhint: add a line such as c=IN IP4 239.1.2.3/32")]
    NoDestination,
    /// A `c=` line without an IP address.
    #[error("invalid destination '{0}': must be IN IP4 ADDRESS or IN IP6 ADDRESS")]
    Destination(String),
    /// Payload type without explanation.
    #[error(
        "payload type {0} is not explained\nhint: add a line a=rtpmap:{0} CODING/RATE/CHANNELS"
    )]
    PayloadType(String),
    /// Invalid `rtpmap` of the payload type.
    #[error("invalid a=rtpmap:{0}: must be TYPE CODING/RATE/CHANNELS")]
    Map(String),
    /// Unsupported coding.
    #[error("unsupported coding '{0}'\nhint: have the sender use L16 or L24")]
    Coding(String),
    /// Unsupported rate or channel count.
    #[error(transparent)]
    Unit(#[from] UnitError),
}

/// A line or stream of a description that is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdpWarning {
    /// Line number from 1.
    pub line: usize,
    /// Beginning of the line, without keys and control characters.
    pub text: String,
    /// Reason for ignoring it.
    pub oddity: SdpOddity,
}

impl core::fmt::Display for SdpWarning {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { line, text, oddity } = self;
        write!(f, "line {line} ignored ({text}): {}", on_one_line(oddity))
    }
}

/// Reason for ignoring a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SdpOddity {
    /// Not `X=VALUE` with a letter of RFC 8866 §5.
    #[error("not a line of SDP")]
    Form,
    /// Invalid value.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Packet time beyond the limit; received packets have their own length.
    #[error("packets of {0} exceed the maximum of 20ms; the length of received packets is used")]
    PacketTime(Span),
    /// Packet size beyond the limit.
    #[error("packets of {0} bytes exceed a UDP datagram; the length of received packets is used")]
    PacketBytes(i64),
    /// Repeated line.
    #[error("only the first is used")]
    Another,
    /// Obsolete line (RFC 8866 §5.12).
    #[error("obsolete and not used")]
    Obsolete,
    /// Second description.
    #[error("a second description begins here; only the first is read")]
    Second,
    /// Stream that cannot be received.
    #[error("{0}")]
    Refused(SdpFault),
    /// Stream that is currently not sent (RFC 8866 §6.7.4).
    #[error("the stream is inactive")]
    Inactive,
    /// Encrypted stream without a key in the description.
    #[error("the stream is encrypted, but its key is missing")]
    NoKey,
}
