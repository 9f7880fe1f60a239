//! Why a datagram is no packet of the stream, in terms that can be counted.

use crate::time::Frames;

/// Why a datagram is no packet of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Shorter than the fixed header.
    #[error("{len} bytes are no RTP packet; the header alone takes 12")]
    Truncated {
        /// Bytes of the datagram.
        len: usize,
    },
    /// Not RTP version 2.
    #[error("RTP version {0} is unknown; is another protocol sent to this UDP port?")]
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
    #[error("payload type {got} is not the stream's; compare the a=rtpmap lines of both ends")]
    PayloadType {
        /// The one in the packet.
        got: u8,
    },
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
}

impl Invalid {
    /// How many reasons there are.
    pub const COUNT: usize = 9;
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
    ];

    /// The reason as a place in an array of [`Invalid::COUNT`] counters.
    pub const fn index(&self) -> usize {
        match self {
            Self::Truncated { .. } => 0,
            Self::Version(_) => 1,
            Self::CsrcBeyondEnd => 2,
            Self::ExtensionBeyondEnd => 3,
            Self::PaddingBeyondEnd => 4,
            Self::PayloadType { .. } => 5,
            Self::Empty => 6,
            Self::PartialFrame { .. } => 7,
            Self::Oversized { .. } => 8,
        }
    }

    /// The name that reports and scripts use.
    pub const fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}
