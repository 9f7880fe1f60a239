//! What one iteration consists of: typed blocks, each going to the worker, from it, or both ways.

use core::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a block is made of.
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
    /// Bytes, which no order of bytes concerns.
    Byte,
}

impl Element {
    /// Bytes of one.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }
}

/// Which way a block goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockWay {
    /// From the master to the worker.
    ToWorker,
    /// From the worker to the master.
    FromWorker,
    /// There, and back as the worker left it.
    Both,
}

impl BlockWay {
    /// Whether it goes on that leg.
    pub const fn goes(self, leg: BlockLeg) -> bool {
        match leg {
            BlockLeg::There => matches!(self, Self::ToWorker | Self::Both),
            BlockLeg::Back => matches!(self, Self::FromWorker | Self::Both),
        }
    }
}

/// One direction between master and worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockLeg {
    /// From the master to the worker.
    There,
    /// From the worker to the master.
    Back,
}

/// How many elements a block has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// As many each time.
    Fixed(u32),
    /// As many for each frame of the iteration.
    PerFrame(u32),
}

impl Length {
    /// Elements of a block in an iteration of so many frames.
    pub const fn elements(self, frames: u32) -> u64 {
        match self {
            Self::Fixed(elements) => elements as u64,
            Self::PerFrame(elements) => elements as u64 * frames as u64,
        }
    }
}

/// One block of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSpec {
    /// What it is made of.
    pub element: Element,
    /// Which way it goes.
    pub way: BlockWay,
    /// How much of it.
    pub length: Length,
}

impl BlockSpec {
    /// Bytes in an iteration of so many frames. Below 2^67, and so in 128 bits.
    const fn bytes(self, frames: u32) -> u128 {
        self.length.elements(frames) as u128 * self.element.bytes() as u128
    }
}

/// In which order a number's bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByteOrder {
    /// The lowest first.
    Little,
    /// The highest first.
    Big,
}

impl ByteOrder {
    /// This host's.
    pub const NATIVE: Self = if cfg!(target_endian = "little") { Self::Little } else { Self::Big };

    /// Whether numbers have to be rearranged here.
    pub const fn is_foreign(self) -> bool {
        !matches!((self, Self::NATIVE), (Self::Little, Self::Little) | (Self::Big, Self::Big))
    }
}

/// Why a set of blocks cannot be agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BlockSetError {
    /// Too many blocks.
    #[error(
        "{0} blocks in one iteration are too many: join some of them, {most} are taken",
        most = BlockSet::MOST_BLOCKS
    )]
    Blocks(usize),
    /// Too many frames.
    #[error(
        "an iteration of {0} frames is too long: hand out {most} at most at once",
        most = BlockSet::MOST_FRAMES
    )]
    Frames(u32),
    /// Too many bytes on one leg.
    #[error(
        "an iteration of {bytes} bytes {} is too long: let it have fewer frames or smaller blocks, {} bytes at most",
        match leg { BlockLeg::There => "to the worker", BlockLeg::Back => "from the worker" },
        BlockSet::MOST_BYTES
    )]
    Bytes {
        /// As many.
        bytes: u128,
        /// On this leg.
        leg: BlockLeg,
    },
}

/// The blocks of one iteration. Those that go one way lie one behind the other, in the order in which they were
/// given, without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSet {
    blocks: Box<[BlockSpec]>,
    most_frames: u32,
    /// By leg, the bytes that each iteration has, and those that it has for each frame.
    bytes: [(usize, usize); 2],
}

impl BlockSet {
    /// The most blocks of a set.
    pub const MOST_BLOCKS: usize = 256;
    /// The most frames of an iteration.
    pub const MOST_FRAMES: u32 = 65_536;
    /// The most bytes of an iteration, one way.
    pub const MOST_BYTES: usize = 16 << 20;

    /// These blocks, for iterations of `most_frames` frames or fewer.
    pub fn new(blocks: Vec<BlockSpec>, most_frames: u32) -> Result<Self, BlockSetError> {
        if blocks.len() > Self::MOST_BLOCKS {
            return Err(BlockSetError::Blocks(blocks.len()));
        }
        if most_frames > Self::MOST_FRAMES {
            return Err(BlockSetError::Frames(most_frames));
        }
        let mut bytes = [(0, 0); 2];
        for leg in [BlockLeg::There, BlockLeg::Back] {
            let going = || blocks.iter().filter(|block| block.way.goes(leg));
            let all = |frames| going().map(|block| block.bytes(frames)).sum::<u128>();
            if all(most_frames) > Self::MOST_BYTES as u128 {
                return Err(BlockSetError::Bytes { bytes: all(most_frames), leg });
            }
            // Of an iteration without frames that could have none, nothing is ever asked.
            let each = if most_frames > 0 { all(1) - all(0) } else { 0 };
            bytes[leg as usize] = (all(0) as usize, each as usize);
        }
        Ok(Self { blocks: blocks.into(), most_frames, bytes })
    }

    /// The blocks.
    pub fn blocks(&self) -> &[BlockSpec] {
        &self.blocks
    }

    /// The most frames of an iteration.
    pub const fn most_frames(&self) -> u32 {
        self.most_frames
    }

    /// The bytes of an iteration of so many frames on that leg; of more frames than there may be, those of the most.
    pub fn bytes(&self, leg: BlockLeg, frames: u32) -> usize {
        let (fixed, each) = self.bytes[leg as usize];
        fixed + each * frames.min(self.most_frames) as usize
    }

    /// Where block `index` lies in that leg's bytes. `None` if it does not go that way, or there is no such block.
    pub fn place(&self, leg: BlockLeg, index: usize, frames: u32) -> Option<Range<usize>> {
        self.placed(leg, frames).find(|(at, _)| *at == index).map(|(_, place)| place)
    }

    /// The blocks that go on that leg, each with its number and its place.
    pub fn placed(
        &self,
        leg: BlockLeg,
        frames: u32,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let frames = frames.min(self.most_frames);
        let going = self.blocks.iter().enumerate().filter(move |(_, block)| block.way.goes(leg));
        let mut end = 0;
        going.map(move |(index, block)| {
            let begin = end;
            // The whole is at most `MOST_BYTES`, as `new` saw.
            end += block.bytes(frames) as usize;
            (index, begin..end)
        })
    }

    /// Copies the blocks that go both ways from the bytes of the way there to those of the way back.
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

    /// Turns the bytes of every number of an iteration round.
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

        #[doc = concat!("Reads ", $what, " from bytes in that order, as many as both have room for. Bit for bit, also of what is no number.")]
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
