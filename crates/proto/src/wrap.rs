//! Wrap-around of counters. Only this module extends counts of 8, 16 or 32 bits to 64 bits and
//! truncates them. No other code compares wrapped numbers.

/// Low bits of a count, as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapped {
    /// The bits.
    pub value: u32,
    /// Number of bits, at most 32.
    pub bits: u32,
}

impl Wrapped {
    /// Truncates a 64-bit count to `bits`.
    pub const fn of(extended: i64, bits: u32) -> Self {
        Self { value: (extended & ((1 << bits) - 1)) as u32, bits }
    }

    /// Returns this count plus `more`.
    #[must_use]
    pub const fn plus(self, more: i64) -> Self {
        Self::of(self.value as i64 + more, self.bits)
    }

    const fn range(self) -> i64 {
        1 << self.bits
    }
}

/// Extends a short counter to 64 bits. Its values must arrive in nearly correct order.
///
/// A value is extended to the number nearest to the highest one accepted so far. It may be ahead or
/// behind by up to half the range of the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwrapper {
    highest: i64,
    bits: u32,
}

impl Unwrapper {
    /// Creates an unwrapper that starts at `first`, not extended.
    pub const fn starting_at(first: Wrapped) -> Self {
        Self { highest: first.value as i64 & (first.range() - 1), bits: first.bits }
    }

    /// Returns this counter with an already extended `highest`.
    #[must_use]
    pub const fn going_on_from(self, highest: i64) -> Self {
        Self { highest, bits: self.bits }
    }

    /// Returns the extended value nearest to the highest. Changes nothing.
    pub const fn peek(&self, wrapped: u32) -> i64 {
        let range = 1 << self.bits;
        let difference = (wrapped as i64 - self.highest) & (range - 1);
        let signed = if difference >= range / 2 { difference - range } else { difference };
        self.highest + signed
    }

    /// Returns the extended value and updates the highest.
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

/// Returns the RTP timestamp of a 64-bit frame count, which is its low 32 bits.
pub const fn rtp_timestamp(extended: i64) -> u32 {
    extended as u32
}
