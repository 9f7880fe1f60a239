//! Wire format for parts of blocks: a header of 40 bytes, big-endian, then bytes of the iteration.
//!
//! ```text
//!  0 version 1 · kind 1 · flags 2 · part 2 · parts 2
//!  8 stream 4 · epoch 4
//! 16 block 8
//! 24 position 8
//! 32 frames 4 · latency 4
//! 40 bytes of the iteration; Ask: first block and end of the range, 8 each; Gone: first block still kept, 8
//! ```
//!
//! The number of parts determines their positions: only the last may be shorter.

use core::ops::Range;

use thiserror::Error;

/// Bytes of the header.
pub const HEAD_BYTES: usize = 40;
/// Minimum datagram size.
pub const MIN_DATAGRAM_BYTES: usize = HEAD_BYTES + MIN_PART;
/// Protocol version.
pub const VERSION: u8 = 1;

/// Minimum bytes of a part. With [`BlockSet::MAX_BYTES`](super::block::BlockSet), part numbers fit
/// 16 bits.
pub(super) const MIN_PART: usize = 512;
const MAX: u64 = 1 << 62;

/// Datagram kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramKind {
    /// Part of a block.
    Block,
    /// Request to repeat blocks.
    Request,
    /// Requested blocks are no longer kept.
    Gone,
}

/// Bit set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Repeated on request.
    pub const REPLAY: Self = Self(1);
    /// Made by a plugin that missed earlier blocks.
    pub const DIRTY: Self = Self(2);
    /// The host flushes denormal results to zero.
    pub const FLUSH_TO_ZERO: Self = Self(4);
    /// The host treats denormal operands as zero.
    pub const DENORMALS_ARE_ZERO: Self = Self(8);
    /// The two flags above are valid.
    pub const FLOAT_MODE_KNOWN: Self = Self(16);
    /// The host does not run in real time.
    pub const OFFLINE: Self = Self(32);
    /// The plugin crashed on it: the bytes are not sound.
    pub const SKIPPED: Self = Self(64);

    /// Whether all are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Adds flags.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Removes flags.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

/// Reason for rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidBlock {
    /// Too short.
    #[error("too short")]
    Short,
    /// Unsupported version.
    #[error("version {0}")]
    Version(u8),
    /// Unknown kind.
    #[error("kind {0}")]
    Kind(u8),
    /// More frames than agreed.
    #[error("{0} frames")]
    Frames(u32),
    /// Invalid part.
    #[error("part {part} of {parts}")]
    Part {
        /// Its number.
        part: u16,
        /// Number of parts.
        parts: u16,
    },
    /// Length does not match the part.
    #[error("{0} bytes")]
    Length(usize),
    /// Contradicts other parts.
    #[error("contradicts another part")]
    Contradicts,
    /// Invalid number, or never sent.
    #[error("block {0}")]
    Block(u64),
}

/// Datagram header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Kind.
    pub kind: DatagramKind,
    /// Flags.
    pub flags: Flags,
    /// Part number.
    pub part: u16,
    /// Number of parts.
    pub parts: u16,
    /// Agreed stream number.
    pub stream: u32,
    /// Activation number.
    pub epoch: u32,
    /// Block number in the epoch.
    pub block: u64,
    /// Frames before the block in the epoch.
    pub position: u64,
    /// Frames in the block.
    pub frames: u32,
    /// Latency of the sound, in frames.
    pub latency: u32,
}

impl Head {
    /// Writes the header.
    #[inline]
    pub fn write(&self, room: &mut [u8; HEAD_BYTES]) {
        let kind = match self.kind {
            DatagramKind::Block => 0,
            DatagramKind::Request => 1,
            DatagramKind::Gone => 2,
        };
        room[..2].copy_from_slice(&[VERSION, kind]);
        room[2..4].copy_from_slice(&self.flags.0.to_be_bytes());
        room[4..6].copy_from_slice(&self.part.to_be_bytes());
        room[6..8].copy_from_slice(&self.parts.to_be_bytes());
        room[8..12].copy_from_slice(&self.stream.to_be_bytes());
        room[12..16].copy_from_slice(&self.epoch.to_be_bytes());
        room[16..24].copy_from_slice(&self.block.to_be_bytes());
        room[24..32].copy_from_slice(&self.position.to_be_bytes());
        room[32..36].copy_from_slice(&self.frames.to_be_bytes());
        room[36..40].copy_from_slice(&self.latency.to_be_bytes());
    }

    pub(super) const fn alongside(kind: DatagramKind, stream: u32, epoch: u32, block: u64) -> Self {
        let (flags, part, parts) = (Flags::NONE, 0, 1);
        Self { kind, flags, part, parts, stream, epoch, block, position: 0, frames: 0, latency: 0 }
    }

    /// Returns the length, if there is room.
    pub(super) fn with_body(&self, body: &[u8], room: &mut [u8]) -> Option<usize> {
        let (head, rest) = room.split_first_chunk_mut()?;
        rest.get_mut(..body.len())?.copy_from_slice(body);
        self.write(head);
        Some(HEAD_BYTES + body.len())
    }

    /// Splits a datagram without checking it against the agreement.
    #[inline]
    pub fn read(datagram: &[u8]) -> Result<(Self, &[u8]), InvalidBlock> {
        let (head, body) = datagram.split_first_chunk().ok_or(InvalidBlock::Short)?;
        let head: &[u8; HEAD_BYTES] = head;
        if head[0] != VERSION {
            return Err(InvalidBlock::Version(head[0]));
        }
        let kind = match head[1] {
            0 => DatagramKind::Block,
            1 => DatagramKind::Request,
            2 => DatagramKind::Gone,
            kind => return Err(InvalidBlock::Kind(kind)),
        };
        let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let word = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let head = Self {
            kind,
            flags: Flags(short(2)),
            part: short(4),
            parts: short(6),
            stream: word(8),
            epoch: word(12),
            block: long(16),
            position: long(24),
            frames: word(32),
            latency: word(36),
        };
        if head.block >= MAX || head.position >= MAX {
            return Err(InvalidBlock::Block(head.block.max(head.position)));
        }
        Ok((head, body))
    }
}

pub(super) fn numbers<const N: usize>(body: &[u8]) -> Result<[u64; N], InvalidBlock> {
    let (places, _) = body.as_chunks();
    let places: &[[u8; 8]; N] = places.first_chunk().ok_or(InvalidBlock::Short)?;
    Ok(places.map(u64::from_be_bytes))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartCut {
    pub(super) parts: u16,
    each: usize,
    bytes: usize,
}

impl PartCut {
    pub(super) fn new(bytes: usize, maximum: usize) -> Self {
        Self::into_parts(bytes, bytes.div_ceil(maximum.max(MIN_PART)).max(1) as u16)
    }

    fn into_parts(bytes: usize, parts: u16) -> Self {
        Self { parts, each: bytes.div_ceil(usize::from(parts)), bytes }
    }

    /// No part may be empty or below the minimum size.
    pub(super) fn claimed(bytes: usize, parts: u16) -> Option<Self> {
        if parts == 0 || usize::from(parts) > max_parts(bytes) {
            return None;
        }
        let cut = Self::into_parts(bytes, parts);
        (bytes == 0 || bytes.div_ceil(cut.each) == usize::from(parts)).then_some(cut)
    }

    pub(super) fn place(&self, part: u16) -> Range<usize> {
        let begin = self.each * usize::from(part);
        begin.min(self.bytes)..(begin + self.each).min(self.bytes)
    }
}

pub(super) fn max_parts(bytes: usize) -> usize {
    bytes.div_ceil(MIN_PART).max(1)
}
