//! Wrap-around of counters: only this module extends and truncates counts, or compares them.

/// Low bits of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapped {
    /// The bits.
    pub value: u32,
    /// Number of bits, at most 32.
    pub bits: u32,
}

impl Wrapped {
    /// Truncates a count.
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

/// Extends a short counter to 64 bits: to the number nearest to the highest accepted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwrapper {
    highest: i64,
    bits: u32,
}

impl Unwrapper {
    /// Starts at `first`.
    pub const fn starting_at(first: Wrapped) -> Self {
        Self { highest: first.value as i64 & (first.range() - 1), bits: first.bits }
    }

    /// Continues from an extended `highest`.
    #[must_use]
    pub const fn going_on_from(self, highest: i64) -> Self {
        Self { highest, bits: self.bits }
    }

    /// Extended value; changes nothing.
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

/// RTP timestamp of a frame count.
pub const fn rtp_timestamp(extended: i64) -> u32 {
    extended as u32
}
