//! Reasons for invalid packets, for counters.

use crate::time::Frames;
use crate::units::Rate;

/// Reason why a datagram is not a packet of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Shorter than the fixed header.
    #[error("{len} bytes are no packet of sound; the header alone takes {header}")]
    Truncated {
        /// Bytes of the datagram.
        len: usize,
        /// Bytes of the shortest header.
        header: usize,
    },
    /// Not version 2 of RTP or version 0 of AVTP.
    #[error("version {0} of the protocol is unknown; is another protocol sent to this UDP port?")]
    Version(u8),
    /// CSRC list beyond the datagram.
    #[error("the contributing sources end beyond the packet")]
    CsrcBeyondEnd,
    /// Header extension beyond the datagram.
    #[error("the header extension ends beyond the packet")]
    ExtensionBeyondEnd,
    /// Padding of 0 bytes, or longer than the data after the header.
    #[error("the padding is longer than the packet")]
    PaddingBeyondEnd,
    /// Different payload type.
    #[error("payload type {0} is not the stream's; compare the a=rtpmap lines of both ends")]
    PayloadType(u8),
    /// No audio.
    #[error("the packet carries no audio")]
    Empty,
    /// Not a whole number of frames.
    #[error(
        "{payload_bytes} bytes are no whole number of {frame_bytes}-byte frames; \
         do both ends agree on coding and channels?"
    )]
    PartialFrame {
        /// Bytes of audio.
        payload_bytes: usize,
        /// Bytes per frame of the stream.
        frame_bytes: usize,
    },
    /// More frames than the receiver has room for.
    #[error("{frames} frames in one packet are more than the {longest} there is room for")]
    Oversized {
        /// Frames in the packet.
        frames: Frames,
        /// Maximum frames.
        longest: Frames,
    },
    /// AVTP: not audio (IEEE 1722-2016 table 6).
    #[error("AVTP subtype {0:#04x} is no AAF sound; does the talker send another format?")]
    Subtype(u8),
    /// AVTP: `sv` is not set, so the stream is unknown.
    #[error("the packet names no stream")]
    Unnamed,
    /// AVTP: `tv` is not set where every packet needs a presentation time.
    #[error("the packet does not say when it is to be presented")]
    Untimed,
    /// AVTP: not the requested stream.
    #[error("the packet is of another stream than the one that was asked for")]
    OtherStream,
    /// Audio beyond the datagram.
    #[error("the audio ends beyond the packet")]
    SoundBeyondEnd,
    /// Different nominal rate.
    #[error("the packet is of {}, which is not the stream's; give --rate as the sender has it", rate_of(*.0))]
    Rate(Option<Rate>),
    /// Compressed payload without a frame count, or longer than its frames.
    #[error(
        "the payload is none of the coding that it is of; compare the a=rtpmap lines of both ends"
    )]
    Coded,
    /// Different number of channels.
    #[error("{0} channels are not the stream's; give --channels as the sender has it")]
    Channels(u16),
}

fn rate_of(rate: Option<Rate>) -> String {
    rate.map_or("no rate that streams may have".into(), |rate| rate.to_string())
}

impl Invalid {
    /// Number of reasons.
    pub const COUNT: usize = 17;
    /// Names of the reasons, by [`Invalid::index`].
    pub const NAMES: [&'static str; Self::COUNT] = [
        "truncated",
        "version",
        "csrc",
        "extension",
        "padding",
        "payload-type",
        "empty",
        "partial-frame",
        "oversized",
        "subtype",
        "unnamed",
        "untimed",
        "other-stream",
        "sound-beyond-end",
        "rate",
        "channels",
        "coded",
    ];

    /// Index of the reason in an array of [`Invalid::COUNT`] counters.
    pub const fn index(&self) -> usize {
        match self {
            Self::Truncated { .. } => 0,
            Self::Version(_) => 1,
            Self::CsrcBeyondEnd => 2,
            Self::ExtensionBeyondEnd => 3,
            Self::PaddingBeyondEnd => 4,
            Self::PayloadType(_) => 5,
            Self::Empty => 6,
            Self::PartialFrame { .. } => 7,
            Self::Oversized { .. } => 8,
            Self::Subtype(_) => 9,
            Self::Unnamed => 10,
            Self::Untimed => 11,
            Self::OtherStream => 12,
            Self::SoundBeyondEnd => 13,
            Self::Rate(_) => 14,
            Self::Channels(_) => 15,
            Self::Coded => 16,
        }
    }

    /// Name in reports and scripts.
    pub const fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}
