//! The typed blocks of one iteration, in words.

use serde::{Deserialize, Serialize};

/// What one element of a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DescribedElement {
    /// IEEE 754 of 32 bits, as sound is.
    F32,
    /// IEEE 754 of 64 bits.
    F64,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// Eight bits that nobody rearranges.
    Byte,
}

/// Which way a block goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DescribedWay {
    /// From the master to the worker.
    ToWorker,
    /// From the worker to the master.
    FromWorker,
    /// There, and back changed.
    Both,
}

/// How long a block is, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DescribedLength {
    /// The same in every iteration.
    Fixed(u32),
    /// So many for each frame of the iteration.
    PerFrame(u32),
}

/// One block of the set that an iteration consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedBlock {
    /// Of what.
    pub element: DescribedElement,
    /// Whither.
    pub way: DescribedWay,
    /// How long.
    pub length: DescribedLength,
}

/// In which order a host has the bytes of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DescribedOrder {
    /// The least first.
    Little,
    /// The greatest first.
    Big,
}

impl DescribedOrder {
    /// This host's.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}
