//! Why a datagram is no packet of the stream, in terms that can be counted.

use crate::time::Frames;
use crate::units::Rate;

/// Why a datagram is no packet of the stream.
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
    /// Not version 2 of RTP, or not version 0 of AVTP.
    #[error("version {0} of the protocol is unknown; is another protocol sent to this UDP port?")]
    Version(u8),
    /// The list of contributing sources ends beyond the datagram.
    #[error("the contributing sources end beyond the packet")]
    CsrcBeyondEnd,
    /// The header extension ends beyond the datagram.
    #[error("the header extension ends beyond the packet")]
    ExtensionBeyondEnd,
    /// Padding of no byte, or of more bytes than follow the header.
    #[error("the padding is longer than the packet")]
    PaddingBeyondEnd,
    /// Another payload type than the stream's.
    #[error("payload type {0} is not the stream's; compare the a=rtpmap lines of both ends")]
    PayloadType(u8),
    /// No audio in the packet.
    #[error("the packet carries no audio")]
    Empty,
    /// Not a whole number of frames.
    #[error(
        "{payload_bytes} bytes are no whole number of {frame_bytes}-byte frames; \
         do both ends agree on coding and channels?"
    )]
    PartialFrame {
        /// Bytes of audio in the packet.
        payload_bytes: usize,
        /// Bytes of one frame of the stream.
        frame_bytes: usize,
    },
    /// More frames than the receiver makes room for.
    #[error("{frames} frames in one packet are more than the {longest} there is room for")]
    Oversized {
        /// Frames in the packet.
        frames: Frames,
        /// Frames there is room for.
        longest: Frames,
    },
    /// Of AVTP: another kind of data than sound (IEEE 1722-2016 table 6).
    #[error("AVTP subtype {0:#04x} is no AAF sound; does the talker send another format?")]
    Subtype(u8),
    /// Of AVTP: `sv` is not set, so that nobody knows whose it is.
    #[error("the packet names no stream")]
    Unnamed,
    /// Of AVTP: `tv` is not set where every packet must say when it is to be presented.
    #[error("the packet does not say when it is to be presented")]
    Untimed,
    /// Of AVTP: another stream than the one that was asked for.
    #[error("the packet is of another stream than the one that was asked for")]
    OtherStream,
    /// The audio ends beyond the datagram.
    #[error("the audio ends beyond the packet")]
    SoundBeyondEnd,
    /// Another nominal rate than the stream's.
    #[error("the packet is of {}, which is not the stream's; give --rate as the sender has it", rate_of(*.0))]
    Rate(Option<Rate>),
    /// What is compressed does not say how many frames it is, or is longer than they are.
    #[error(
        "the payload is none of the coding that it is of; compare the a=rtpmap lines of both ends"
    )]
    Coded,
    /// Another number of channels than the stream's.
    #[error("{0} channels are not the stream's; give --channels as the sender has it")]
    Channels(u16),
}

fn rate_of(rate: Option<Rate>) -> String {
    rate.map_or("no rate that streams may have".into(), |rate| rate.to_string())
}

impl Invalid {
    /// How many reasons there are.
    pub const COUNT: usize = 17;
    /// The names of the reasons, at their [`Invalid::index`].
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

    /// The reason as a place in an array of [`Invalid::COUNT`] counters.
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

    /// The name that reports and scripts use.
    pub const fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}
