//! Codings of one sample on the wire, and the loops between them and the program's `f32`.
//!
//! 16- and 24-bit integers fit a 32-bit float exactly (24-bit mantissa), so a sample that is not
//! changed on the way comes out as the very bits that went in.

/// How one sample is coded on the wire; all big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SampleFormat {
    /// 16-bit signed integer (RFC 3551 §4.5.11).
    L16,
    /// 24-bit signed integer (RFC 3190 §4).
    L24,
    /// 32-bit IEEE 754 float; no registered RTP payload format.
    F32,
}

impl SampleFormat {
    /// Bytes of one sample.
    pub const fn bytes(self) -> usize {
        match self {
            Self::L16 => 2,
            Self::L24 => 3,
            Self::F32 => 4,
        }
    }
}
