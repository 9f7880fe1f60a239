//! Reasons for invalid packets.

use crate::time::Frames;
use crate::units::Rate;

/// Why a datagram is not a packet of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Shorter than the header.
    #[error("a datagram of {len} bytes is shorter than the header of {header}")]
    Truncated {
        /// Bytes of the datagram.
        len: usize,
        /// Bytes of the shortest header.
        header: usize,
    },
    /// Not RTP version 2 or AVTP version 0.
    #[error("unknown protocol version {0}; is another protocol sent to this UDP port?")]
    Version(u8),
    /// CSRC list beyond the datagram.
    #[error("the contributing sources exceed the packet")]
    CsrcBeyondEnd,
    /// Header extension beyond the datagram.
    #[error("the header extension exceeds the packet")]
    ExtensionBeyondEnd,
    /// Padding of 0 bytes, or longer than the data.
    #[error("the padding exceeds the packet")]
    PaddingBeyondEnd,
    /// Different payload type.
    #[error("payload type {0} differs from the stream's; compare the a=rtpmap lines of both ends")]
    PayloadType(u8),
    /// No audio.
    #[error("the packet carries no audio")]
    Empty,
    /// Not a whole number of frames.
    #[error(
        "{payload_bytes} bytes are not a whole number of {frame_bytes}-byte frames; \
         do both ends use the same coding and channels?"
    )]
    PartialFrame {
        /// Bytes of audio.
        payload_bytes: usize,
        /// Bytes per frame of the stream.
        frame_bytes: usize,
    },
    /// More frames than there is room for.
    #[error("a packet of {frames} frames is too long: must be at most {longest}")]
    Oversized {
        /// Frames in the packet.
        frames: Frames,
        /// Maximum frames.
        longest: Frames,
    },
    /// Not AVTP audio (IEEE 1722-2016 table 6).
    #[error("AVTP subtype {0:#04x} is not AAF; does the talker send another format?")]
    Subtype(u8),
    /// AVTP: unsupported `format` (IEEE 1722-2016 table 8).
    #[error(
        "AAF format {0} is unsupported; let the talker send integers of 16, 24 or 32 bits, or floats"
    )]
    Format(u8),
    /// AVTP: no `sv`, unknown stream.
    #[error("the packet has no stream id")]
    Unnamed,
    /// AVTP: no `tv`, missing presentation time.
    #[error("the packet has no presentation time")]
    Untimed,
    /// AVTP: not the requested stream.
    #[error("the packet belongs to another stream")]
    OtherStream,
    /// Audio beyond the datagram.
    #[error("the audio exceeds the packet")]
    SoundBeyondEnd,
    /// Different nominal rate.
    #[error("the packet has {}, unlike the stream; set --rate to the sender's rate", rate_of(*.0))]
    Rate(Option<Rate>),
    /// Compressed payload without a frame count, or longer than its frames.
    #[error("invalid compressed payload; compare the a=rtpmap lines of both ends")]
    Coded,
    /// Different number of channels.
    #[error(
        "the packet has {0} channels, unlike the stream; set --channels to the sender's number"
    )]
    Channels(u16),
}

fn rate_of(rate: Option<Rate>) -> String {
    rate.map_or("an unsupported rate".into(), |rate| rate.to_string())
}

impl Invalid {
    /// Number of reasons.
    pub const COUNT: usize = 18;
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
        "format",
    ];

    /// Index in counters of [`Invalid::COUNT`].
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
            Self::Format(_) => 17,
        }
    }

    /// Name in reports.
    pub const fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}
