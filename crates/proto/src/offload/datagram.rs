//! How a part of a block looks on the wire: a head of 40 bytes, big-endian, and then bytes of the iteration.
//!
//! ```text
//!  0 version 1 · kind 1 · flags 2 · part 2 · parts 2
//!  8 stream 4 · epoch 4
//! 16 block 8
//! 24 position 8
//! 32 frames 4 · latency 4
//! 40 bytes of the iteration; of an ask: first and end of the blocks, 8 each; of what is gone: first still kept, 8
//! ```
//!
//! The parts of an iteration are of one length, but for the last, which may be shorter: where each lies is known
//! from how many there are.

use core::ops::Range;

use thiserror::Error;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 40;
/// The smallest datagram that blocks are cut up for.
pub const LEAST_DATAGRAM_BYTES: usize = HEAD_BYTES + LEAST_PART;
/// The version that is written and read.
pub const VERSION: u8 = 1;

/// Bytes of the iteration that a datagram has room for, at least. With [`BlockSet::MOST_BYTES`](super::block::BlockSet)
/// it keeps the number of parts within 16 bits.
pub(super) const LEAST_PART: usize = 512;
/// Blocks and positions lie below: in 2^62 nanoseconds pass 146 years.
const MOST: u64 = 1 << 62;

/// What a datagram is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramKind {
    /// A part of a block.
    Block,
    /// Blocks are wanted again.
    Ask,
    /// Blocks that were asked for are kept no more.
    Gone,
}

/// What is said of a block, bit by bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// It was asked for again.
    pub const REPLAY: Self = Self(1);
    /// Whoever made it had not seen all there was before.
    pub const DIRTY: Self = Self(2);
    /// The host's thread flushes denormal results to zero.
    pub const FLUSH_TO_ZERO: Self = Self(4);
    /// The host's thread takes denormal operands for zero.
    pub const DENORMALS_ARE_ZERO: Self = Self(8);
    /// The two before say how it is; otherwise nobody knows.
    pub const FLOAT_MODE_KNOWN: Self = Self(16);
    /// The host does not run in real time.
    pub const OFFLINE: Self = Self(32);
    /// The plugin did not get it, since it had died at it: its bytes are no sound.
    pub const SKIPPED: Self = Self(64);

    /// Whether all of these are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// With these set too.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// With these not set.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

/// Why a datagram is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidBlock {
    /// Shorter than a head, or than what its head says.
    #[error("too short")]
    Short,
    /// Of another version.
    #[error("version {0}")]
    Version(u8),
    /// Of a kind that this version does not have.
    #[error("kind {0}")]
    Kind(u8),
    /// More frames than were agreed on.
    #[error("{0} frames")]
    Frames(u32),
    /// There is no such part.
    #[error("part {part} of {parts}")]
    Part {
        /// Which it says it is.
        part: u16,
        /// Of how many.
        parts: u16,
    },
    /// The bytes are not as many as a part of such a block has.
    #[error("{0} bytes")]
    Length(usize),
    /// Other parts of the block said something else.
    #[error("contradicts another part")]
    Contradicts,
    /// A count that nobody gets to, or a block that was never handed out.
    #[error("block {0}")]
    Block(u64),
}

/// What stands before the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the datagram is.
    pub kind: DatagramKind,
    /// What is said of the block.
    pub flags: Flags,
    /// Which part it is.
    pub part: u16,
    /// Of how many.
    pub parts: u16,
    /// The stream, as both ends agreed.
    pub stream: u32,
    /// The activation.
    pub epoch: u32,
    /// Counts blocks since the epoch began.
    pub block: u64,
    /// Frames before it in the epoch.
    pub position: u64,
    /// Frames of it.
    pub frames: u32,
    /// Frames by which the sound lags for what it was made by.
    pub latency: u32,
}

impl Head {
    /// Writes it; `room` has [`HEAD_BYTES`] at least.
    #[inline]
    pub fn write(&self, room: &mut [u8; HEAD_BYTES]) {
        let kind = match self.kind {
            DatagramKind::Block => 0,
            DatagramKind::Ask => 1,
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

    /// Of a datagram that is no part of a block, and about this one.
    pub(super) const fn beside(kind: DatagramKind, stream: u32, epoch: u32, block: u64) -> Self {
        let (flags, part, parts) = (Flags::NONE, 0, 1);
        Self { kind, flags, part, parts, stream, epoch, block, position: 0, frames: 0, latency: 0 }
    }

    /// Writes it and a body behind it, if there is room. Returns how many bytes that are.
    pub(super) fn with_body(&self, body: &[u8], room: &mut [u8]) -> Option<usize> {
        let (head, rest) = room.split_first_chunk_mut()?;
        rest.get_mut(..body.len())?.copy_from_slice(body);
        self.write(head);
        Some(HEAD_BYTES + body.len())
    }

    /// Reads a datagram: its head and what follows. What it says is not yet held against what was agreed.
    #[inline]
    pub fn read(datagram: &[u8]) -> Result<(Self, &[u8]), InvalidBlock> {
        let (head, body) = datagram.split_first_chunk().ok_or(InvalidBlock::Short)?;
        let head: &[u8; HEAD_BYTES] = head;
        if head[0] != VERSION {
            return Err(InvalidBlock::Version(head[0]));
        }
        let kind = match head[1] {
            0 => DatagramKind::Block,
            1 => DatagramKind::Ask,
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
        if head.block >= MOST || head.position >= MOST {
            return Err(InvalidBlock::Block(head.block.max(head.position)));
        }
        Ok((head, body))
    }
}

/// Reads so many numbers from the beginning of a body.
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
    /// Bytes that leave in parts of `most` or fewer, which is at least [`LEAST_PART`].
    pub(super) fn new(bytes: usize, most: usize) -> Self {
        Self::into_parts(bytes, bytes.div_ceil(most.max(LEAST_PART)).max(1) as u16)
    }

    fn into_parts(bytes: usize, parts: u16) -> Self {
        Self { parts, each: bytes.div_ceil(usize::from(parts)), bytes }
    }

    /// What whoever cut it up says, if that can be: no part is empty, and there are no more than the smallest
    /// datagrams make.
    pub(super) fn claimed(bytes: usize, parts: u16) -> Option<Self> {
        if parts == 0 || usize::from(parts) > most_parts(bytes) {
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

/// The most parts that an iteration of so many bytes is cut into.
pub(super) fn most_parts(bytes: usize) -> usize {
    bytes.div_ceil(LEAST_PART).max(1)
}
