//! Session descriptions (SDP, RFC 8866) of one audio stream, as in AES67 and common RTP programs.
//! Reading allocates.

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

/// Maximum bytes; real descriptions have a few hundred.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum lines.
pub const MAX_LINES: usize = 4096;
/// Maximum media sections.
pub const MAX_MEDIA: usize = 64;

/// In decimal milliseconds, specific to tautline.
const LINK_OFFSET: &str = "x-link-offset";
/// Description of an audio stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Stream name.
    pub name: String,
    /// Origin.
    pub origin: SdpOrigin,
    /// A group, or the receiver.
    pub destination: IpAddr,
    /// UDP port of RTP.
    pub rtp_port: u16,
    /// UDP port of RTCP, by default the next port.
    pub rtcp_port: u16,
    /// Multicast TTL (IPv4).
    pub ttl: Option<u8>,
    /// Allowed senders (RFC 4570 `incl`); empty for all senders.
    pub sources: Vec<IpAddr>,
    /// In Hz.
    pub rate: Rate,
    /// Channel count.
    pub channels: Channels,
    /// Sample format.
    pub sample: SampleFormat,
    /// Codec, if compressed.
    pub codec: Option<Codec>,
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Frames per packet, from `framecount` or `ptime`; received packets may differ.
    pub packet: Option<Frames>,
    /// Announced latency from capture to DAC.
    pub link_offset: Option<Span>,
    /// RTP timestamp at the epoch of the reference clock (RFC 7273 §5.2), if locked to it.
    pub mediaclk_offset: Option<u32>,
    /// The sender's clock (RFC 7273 §4).
    pub reference: Reference,
    /// Header extensions.
    pub extensions: ExtensionIds,
    /// Whether packets are encrypted (`RTP/SAVP`, RFC 3711 §12).
    pub sealed: bool,
    /// Keys in order of preference (RFC 4568 §4); may be empty.
    pub crypto: Vec<SdpCrypto>,
}

/// `a=crypto` after its tag (RFC 4568 §9.1), with a secret key.
#[derive(Clone, PartialEq, Eq)]
pub struct SdpCrypto(pub String);

impl core::fmt::Debug for SdpCrypto {
    /// Hides the key from logs.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SdpCrypto")
    }
}

/// Values of the `o=` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SdpOrigin {
    /// Session identifier, zero if not a number.
    pub session: u64,
    /// Increases with every change.
    pub version: u64,
    /// Describing host; unspecified if invalid.
    pub address: IpAddr,
}

/// Reference clock (RFC 7273 §4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The sender's own, or none.
    Local,
    /// Text after `ptp=`, such as `IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0`.
    Ptp(String),
    /// Other text.
    Other(String),
}

impl Description {
    /// Stream format, by default with `otherwise` frames per packet.
    pub fn format(&self, otherwise: Frames) -> StreamFormat {
        StreamFormat {
            codec: self.codec,
            rate: self.rate,
            channels: self.channels,
            sample: self.sample,
            packet: self.packet.unwrap_or(otherwise),
            payload_type: self.payload_type,
        }
    }
}

/// Error of a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptionError {
    /// Line number from 1.
    pub line: Option<usize>,
    /// Fault.
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
    /// Not RTP.
    #[error("unsupported transport '{0}'\nhint: have the sender offer RTP/AVP")]
    Transport(String),
    /// UDP port 0 (RFC 3264 §5.1).
    #[error("UDP port 0 disables this stream\nhint: have the sender enable it")]
    Disabled,
    /// No or invalid UDP port, or none left for RTCP.
    #[error("invalid UDP port '{0}': must be 1 to 65534")]
    UdpPort(String),
    /// Missing `c=` line.
    #[error("no destination\nhint: add a line such as c=IN IP4 239.1.2.3/32")]
    NoDestination,
    /// No IP address in a `c=` line.
    #[error("invalid destination '{0}': must be IN IP4 ADDRESS or IN IP6 ADDRESS")]
    Destination(String),
    /// Unexplained payload type.
    #[error(
        "payload type {0} is not explained\nhint: add a line a=rtpmap:{0} CODING/RATE/CHANNELS"
    )]
    PayloadType(String),
    /// Invalid `rtpmap`.
    #[error("invalid a=rtpmap:{0}: must be TYPE CODING/RATE/CHANNELS")]
    Map(String),
    /// Unsupported coding.
    #[error("unsupported coding '{0}'\nhint: have the sender use L16 or L24")]
    Coding(String),
    /// Unsupported rate or channel count.
    #[error(transparent)]
    Unit(#[from] UnitError),
}

/// Ignored line or stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdpWarning {
    /// Line number from 1.
    pub line: usize,
    /// Beginning of the line, without keys and control characters.
    pub text: String,
    /// Reason.
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
    /// Packets too long in time; received lengths apply.
    #[error("packets of {0} exceed the maximum of 20ms; the length of received packets is used")]
    PacketTime(Span),
    /// Packets too long in bytes.
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
    /// Unsupported stream.
    #[error("{0}")]
    Refused(SdpFault),
    /// Currently not sent (RFC 8866 §6.7.4).
    #[error("the stream is inactive")]
    Inactive,
    /// Encrypted, without a key.
    #[error("the stream is encrypted, but its key is missing")]
    NoKey,
}
