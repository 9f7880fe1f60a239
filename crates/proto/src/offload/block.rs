//! Contents of an iteration: typed blocks.

use core::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Element type of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// 16-bit integers.
    I16,
    /// 32-bit integers.
    I32,
    /// Bytes without byte order.
    Byte,
}

impl Element {
    /// Bytes per element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }
}

/// Direction of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockWay {
    /// Master to worker.
    ToWorker,
    /// Worker to master.
    FromWorker,
    /// To the worker, and back modified.
    Both,
}

impl BlockWay {
    /// Whether the leg carries the block.
    pub const fn goes(self, leg: BlockLeg) -> bool {
        match leg {
            BlockLeg::There => matches!(self, Self::ToWorker | Self::Both),
            BlockLeg::Back => matches!(self, Self::FromWorker | Self::Both),
        }
    }
}

/// Direction between master and worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockLeg {
    /// Master to worker.
    There,
    /// Worker to master.
    Back,
}

/// Number of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Elements per iteration.
    Fixed(u32),
    /// Elements per frame of the iteration.
    PerFrame(u32),
}

impl Length {
    /// Elements in `frames` frames.
    pub const fn elements(self, frames: u32) -> u64 {
        match self {
            Self::Fixed(elements) => elements as u64,
            Self::PerFrame(elements) => elements as u64 * frames as u64,
        }
    }
}

/// Specification of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSpec {
    /// Element type.
    pub element: Element,
    /// Direction.
    pub way: BlockWay,
    /// Number of elements.
    pub length: Length,
}

impl BlockSpec {
    /// Below 2^67, hence 128 bits.
    const fn bytes(self, frames: u32) -> u128 {
        self.length.elements(frames) as u128 * self.element.bytes() as u128
    }
}

/// Byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Byte order of this host.
    pub const NATIVE: Self = if cfg!(target_endian = "little") { Self::Little } else { Self::Big };

    /// Whether this host must swap bytes.
    pub const fn is_foreign(self) -> bool {
        !matches!((self, Self::NATIVE), (Self::Little, Self::Little) | (Self::Big, Self::Big))
    }
}

/// Error of [`BlockSet::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BlockSetError {
    /// Too many blocks.
    #[error(
        "{0} blocks in an iteration are too many: must be at most {maximum}",
        maximum = BlockSet::MAX_BLOCKS
    )]
    Blocks(usize),
    /// Too many frames.
    #[error(
        "an iteration of {0} frames is too long: must be at most {maximum}",
        maximum = BlockSet::MAX_FRAMES
    )]
    Frames(u32),
    /// Too many bytes on one leg.
    #[error(
        "an iteration of {bytes} bytes {} is too long: must be at most {}",
        match leg { BlockLeg::There => "to the worker", BlockLeg::Back => "from the worker" },
        BlockSet::MAX_BYTES
    )]
    Bytes {
        /// Bytes on that leg.
        bytes: u128,
        /// Affected leg.
        leg: BlockLeg,
    },
}

/// Blocks of one iteration. The blocks of each direction are contiguous, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSet {
    blocks: Box<[BlockSpec]>,
    max_frames: u32,
    bytes: [(usize, usize); 2],
}

impl BlockSet {
    /// Maximum blocks in a set.
    pub const MAX_BLOCKS: usize = 256;
    /// Maximum frames in an iteration.
    pub const MAX_FRAMES: u32 = 65_536;
    /// Maximum bytes of an iteration per leg.
    pub const MAX_BYTES: usize = 16 << 20;

    /// Creates a set for up to `max_frames` frames.
    pub fn new(blocks: Vec<BlockSpec>, max_frames: u32) -> Result<Self, BlockSetError> {
        if blocks.len() > Self::MAX_BLOCKS {
            return Err(BlockSetError::Blocks(blocks.len()));
        }
        if max_frames > Self::MAX_FRAMES {
            return Err(BlockSetError::Frames(max_frames));
        }
        let mut bytes = [(0, 0); 2];
        for leg in [BlockLeg::There, BlockLeg::Back] {
            let going = || blocks.iter().filter(|block| block.way.goes(leg));
            let all = |frames| going().map(|block| block.bytes(frames)).sum::<u128>();
            if all(max_frames) > Self::MAX_BYTES as u128 {
                return Err(BlockSetError::Bytes { bytes: all(max_frames), leg });
            }
            // Bytes per frame are irrelevant without frames.
            let each = if max_frames > 0 { all(1) - all(0) } else { 0 };
            bytes[leg as usize] = (all(0) as usize, each as usize);
        }
        Ok(Self { blocks: blocks.into(), max_frames, bytes })
    }

    /// Block specifications.
    pub fn blocks(&self) -> &[BlockSpec] {
        &self.blocks
    }

    /// Maximum frames.
    pub const fn max_frames(&self) -> u32 {
        self.max_frames
    }

    /// Bytes on that leg; `frames` is capped.
    pub fn bytes(&self, leg: BlockLeg, frames: u32) -> usize {
        let (fixed, each) = self.bytes[leg as usize];
        fixed + each * frames.min(self.max_frames) as usize
    }

    /// Position of a block in the bytes of that leg.
    pub fn place(&self, leg: BlockLeg, index: usize, frames: u32) -> Option<Range<usize>> {
        self.placed(leg, frames).find(|(at, _)| *at == index).map(|(_, place)| place)
    }

    /// Index and position of each block on that leg.
    pub fn placed(
        &self,
        leg: BlockLeg,
        frames: u32,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let frames = frames.min(self.max_frames);
        let going = self.blocks.iter().enumerate().filter(move |(_, block)| block.way.goes(leg));
        let mut end = 0;
        going.map(move |(index, block)| {
            let begin = end;
            // `new` limits the sum.
            end += block.bytes(frames) as usize;
            (index, begin..end)
        })
    }

    /// Copies blocks of both directions.
    pub(crate) fn carry_over(&self, there: &[u8], back: &mut [u8], frames: u32) {
        if !self.blocks.iter().any(|block| block.way == BlockWay::Both) {
            return;
        }
        let mut homes = self.placed(BlockLeg::Back, frames);
        for (index, from) in self.placed(BlockLeg::There, frames) {
            if self.blocks[index].way != BlockWay::Both {
                continue;
            }
            let Some((_, to)) = homes.find(|(home, _)| *home == index) else { return };
            if let (Some(from), Some(to)) = (there.get(from), back.get_mut(to)) {
                to.copy_from_slice(from);
            }
        }
    }

    pub(crate) fn rearrange(&self, leg: BlockLeg, frames: u32, bytes: &mut [u8]) {
        for (index, place) in self.placed(leg, frames) {
            let Some(block) = bytes.get_mut(place) else { return };
            match self.blocks[index].element.bytes() {
                2 => turn_round::<2>(block),
                4 => turn_round::<4>(block),
                8 => turn_round::<8>(block),
                _ => {}
            }
        }
    }
}

fn turn_round<const N: usize>(bytes: &mut [u8]) {
    bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|number| number.reverse());
}

macro_rules! numbers {
    ($($put:ident $get:ident $number:ty, $what:literal;)*) => {$(
        #[doc = concat!("Writes ", $what, " as bytes in this host's order, as many as both have room for.")]
        #[inline]
        pub fn $put(bytes: &mut [u8], numbers: &[$number]) {
            let (places, _) = bytes.as_chunks_mut();
            for (place, number) in places.iter_mut().zip(numbers) {
                *place = number.to_ne_bytes();
            }
        }

        #[doc = concat!("Reads ", $what, " from bytes in that order, as many as both have room for. Bit for bit, including NaNs.")]
        #[inline]
        pub fn $get(bytes: &[u8], numbers: &mut [$number], order: ByteOrder) {
            let (places, _) = bytes.as_chunks();
            let foreign = order.is_foreign();
            for (number, place) in numbers.iter_mut().zip(places) {
                *number = <$number>::from_ne_bytes(*place);
            }
            if foreign {
                for (number, place) in numbers.iter_mut().zip(places) {
                    let mut place = *place;
                    place.reverse();
                    *number = <$number>::from_ne_bytes(place);
                }
            }
        }
    )*};
}

numbers! {
    put_f32 get_f32 f32, "32-bit floats";
    put_f64 get_f64 f64, "64-bit floats";
    put_i16 get_i16 i16, "16-bit integers";
    put_i32 get_i32 i32, "32-bit integers";
}
