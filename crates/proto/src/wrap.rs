//! Wrap-around of counters. Packet and frame counts of 8, 16 or 32 bits are extended to 64 bits and
//! truncated only here; no other code compares wrapped numbers.

/// Low bits of a count, as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapped {
    /// The bits.
    pub value: u32,
    /// Number of bits, at most 32.
    pub bits: u32,
}

impl Wrapped {
    /// A 64-bit count truncated to `bits`.
    pub const fn of(extended: i64, bits: u32) -> Self {
        Self { value: (extended & ((1 << bits) - 1)) as u32, bits }
    }

    /// This count plus `more`.
    #[must_use]
    pub const fn plus(self, more: i64) -> Self {
        Self::of(self.value as i64 + more, self.bits)
    }

    const fn range(self) -> i64 {
        1 << self.bits
    }
}

/// Extends a short counter, seen in nearly correct order, to 64 bits.
///
/// A value extends to the number nearest to the highest accepted so far, so it may be ahead or
/// behind by up to half the counter's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwrapper {
    highest: i64,
    bits: u32,
}

impl Unwrapper {
    /// Starts at `first`, unextended.
    pub const fn starting_at(first: Wrapped) -> Self {
        Self { highest: first.value as i64 & (first.range() - 1), bits: first.bits }
    }

    /// This counter with an already extended `highest`.
    #[must_use]
    pub const fn going_on_from(self, highest: i64) -> Self {
        Self { highest, bits: self.bits }
    }

    /// Extended value nearest to the highest. Changes nothing.
    pub const fn peek(&self, wrapped: u32) -> i64 {
        let range = 1 << self.bits;
        let difference = (wrapped as i64 - self.highest) & (range - 1);
        let signed = if difference >= range / 2 { difference - range } else { difference };
        self.highest + signed
    }

    /// Extended value; updates the highest.
    pub const fn extend(&mut self, wrapped: u32) -> i64 {
        let extended = self.peek(wrapped);
        if extended > self.highest {
            self.highest = extended;
        }
        extended
    }

    /// Highest extended value.
    pub const fn highest(&self) -> i64 {
        self.highest
    }
}

/// RTP timestamp of a 64-bit frame count: its low 32 bits.
pub const fn rtp_timestamp(extended: i64) -> u32 {
    extended as u32
}
