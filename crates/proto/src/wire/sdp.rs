//! Session descriptions (SDP, RFC 8866) of one audio stream, as AES67 and ordinary RTP programs
//! write and read them.
//!
//! Unlike the rest of [`crate::wire`] this allocates: a description is read once, at set-up.

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
use crate::time::{Frames, Span};
use crate::units::{Channels, Rate, UnitError};

/// The most bytes that are read; real descriptions have a few hundred.
pub const MOST_BYTES: usize = 1 << 20;
/// The most lines that are read.
pub const MOST_LINES: usize = 4096;
/// The most media sections that are read.
pub const MOST_MEDIA: usize = 64;

/// Attribute of the link offset in milliseconds, decimal; tautline's own.
const LINK_OFFSET: &str = "x-link-offset";
/// One audio stream and where to find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// What people call the stream.
    pub name: String,
    /// Who describes it.
    pub origin: SdpOrigin,
    /// Where the packets are sent: a group, or the receiver itself.
    pub destination: IpAddr,
    /// UDP port of the packets.
    pub rtp_port: u16,
    /// UDP port of the reports; the next one unless said otherwise.
    pub rtcp_port: u16,
    /// How many routers a multicast packet may cross (IPv4 only).
    pub ttl: Option<u8>,
    /// The senders to accept (RFC 4570 `incl`); empty for any.
    pub sources: Vec<IpAddr>,
    /// Nominal frames per second.
    pub rate: Rate,
    /// Samples per frame.
    pub channels: Channels,
    /// Coding of one sample.
    pub sample: SampleFormat,
    /// What compresses the samples of a packet, if anything does.
    pub coder: Option<Codec>,
    /// RTP payload type: 0 to 127.
    pub payload_type: u8,
    /// Frames per packet, by `framecount` or else the nearest to `ptime`. `None` where neither
    /// stands, as with senders that fill datagrams; and a packet may hold another count anyway.
    pub packet: Option<Frames>,
    /// From capture to DAC, as the sender promises it.
    pub link_offset: Option<Span>,
    /// RTP timestamp at the epoch of the reference clock (RFC 7273 §5.2), if media and reference
    /// clock are locked.
    pub mediaclk_offset: Option<u32>,
    /// The clock behind the sender's time stamps (RFC 7273 §4).
    pub reference: Reference,
    /// Header extensions of the packets.
    pub extensions: ExtensionIds,
    /// Whether packets are sealed (`RTP/SAVP`, RFC 3711 §12).
    pub sealed: bool,
    /// The keys that it gives for that, first the best (RFC 4568 §4); others have to know theirs.
    pub crypto: Vec<SdpCrypto>,
}

/// What stands behind the tag of `a=crypto` (RFC 4568 §9.1): a profile and a key, which is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SdpCrypto(pub String);

impl core::fmt::Debug for SdpCrypto {
    /// Nothing of the key: what is printed is kept by somebody.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SdpCrypto")
    }
}

/// Who describes a stream: the `o=` line, as far as it is numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SdpOrigin {
    /// Session identifier; zero if it was no number.
    pub session: u64,
    /// Grows with every change of the description.
    pub version: u64,
    /// The describing host; unspecified if it was no address.
    pub address: IpAddr,
}

/// A reference clock (RFC 7273 §4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The sender's own, or none named.
    Local,
    /// What follows `ptp=`, such as `IEEE1588-2008:39-A7-94-FF-FE-07-CB-D0:0`.
    Ptp(String),
    /// Another kind, whole.
    Other(String),
}

impl Description {
    /// The format of the stream, with `otherwise` frames per packet if the description gives none.
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

/// Why no stream can be read from a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptionError {
    /// The line to look at, from 1, if there is one.
    pub line: Option<usize>,
    /// What is wrong with it.
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

/// Why no stream can be read from a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SdpFault {
    /// More than [`MOST_BYTES`].
    #[error("{0} bytes are no session description; is this another file?")]
    Bytes(usize),
    /// More than [`MOST_LINES`].
    #[error("{0} lines are no session description; is this another file?")]
    Lines(usize),
    /// More than [`MOST_MEDIA`].
    #[error("{0} streams in one description are too many; keep the one to receive")]
    Media(usize),
    /// Not SDP.
    #[error("not SDP; the first line of a description is v=0, each further one is X=VALUE")]
    NotSdp,
    /// No audio stream.
    #[error("no audio stream is described; an m=audio line is missing")]
    NoAudio,
    /// A transport other than RTP.
    #[error("the transport {0} is not carried; have the sender offer RTP/AVP")]
    Transport(String),
    /// UDP port 0 (RFC 3264 §5.1).
    #[error("UDP port 0 disables this stream; have the sender enable it")]
    Disabled,
    /// No UDP port, or none left for RTCP.
    #[error("invalid UDP port '{0}': must be 1 to 65534")]
    UdpPort(String),
    /// No `c=` line.
    #[error("no destination is given; a line such as c=IN IP4 239.1.2.3/32 is missing")]
    NoDestination,
    /// A `c=` line without an IP address.
    #[error("invalid destination '{0}': must be IN IP4 ADDRESS or IN IP6 ADDRESS")]
    Destination(String),
    /// A payload type that nothing explains.
    #[error(
        "payload type {0} is not explained; a line a=rtpmap:{0} CODING/RATE/CHANNELS is missing"
    )]
    PayloadType(String),
    /// The `rtpmap` of the payload type cannot be read.
    #[error("invalid a=rtpmap:{0}: must be TYPE CODING/RATE/CHANNELS")]
    Map(String),
    /// A coding other than PCM.
    #[error("the coding {0} is not carried; have the sender use L16 or L24")]
    Coding(String),
    /// A rate or channel count that is not carried.
    #[error(transparent)]
    Unit(#[from] UnitError),
}

/// A line of a description that is ignored, or a stream in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdpWarning {
    /// Number of the line, from 1.
    pub line: usize,
    /// The beginning of the line. It contains no key and no control character.
    pub text: String,
    /// Why it is ignored.
    pub oddity: SdpOddity,
}

impl core::fmt::Display for SdpWarning {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { line, text, oddity } = self;
        write!(f, "line {line} ignored ({text}): {oddity}")
    }
}

/// Why a line is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SdpOddity {
    /// Not `X=VALUE` with a letter of RFC 8866 §5.
    #[error("not a line of SDP")]
    Form,
    /// A value of another form.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Longer than packets may be; the packets that arrive tell their length.
    #[error("packets of {0} exceed the maximum of 20ms; received packets tell their length")]
    PacketTime(Span),
    /// The same in bytes of sound.
    #[error("packets of {0} bytes exceed a UDP datagram; received packets tell their length")]
    PacketBytes(i64),
    /// A line behind another of its kind.
    #[error("only the first is used")]
    Another,
    /// A line that no receiver may use any more (RFC 8866 §5.12).
    #[error("obsolete and not used")]
    Obsolete,
    /// Another description follows the first.
    #[error("a second description begins here; only the first is read")]
    Second,
    /// A stream that cannot be received.
    #[error("{0}")]
    Refused(SdpFault),
    /// A stream that is not sent at present (RFC 8866 §6.7.4).
    #[error("the stream is inactive")]
    Inactive,
    /// An encrypted stream whose key is not in the description.
    #[error("the stream is encrypted and its key is not given")]
    NoKey,
}
