//! The one home of wrap-around: what counts packets and frames on a wire, in 8, 16 or 32 bits, is
//! extended to 64-bit counts here and cut back here; nothing else in the project compares wrapped
//! numbers.

/// A count as it stands on a wire: its lowest bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapped {
    /// The bits.
    pub value: u32,
    /// How many there are, 32 at most.
    pub bits: u32,
}

impl Wrapped {
    /// A count of 64 bits, cut to so many.
    pub const fn of(extended: i64, bits: u32) -> Self {
        Self { value: (extended & ((1 << bits) - 1)) as u32, bits }
    }

    /// The same so many later.
    #[must_use]
    pub const fn plus(self, more: i64) -> Self {
        Self::of(self.value as i64 + more, self.bits)
    }

    /// How many values there are.
    const fn range(self) -> i64 {
        1 << self.bits
    }
}

/// Extends a counter of so many bits, seen in nearly the right order, to 64 bits.
///
/// A value is taken to be the one nearest to the highest value accepted so far, so it may run
/// behind or ahead by up to half the counter's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwrapper {
    highest: i64,
    bits: u32,
}

impl Unwrapper {
    /// Starts at `first`, which is taken as it is.
    pub const fn starting_at(first: Wrapped) -> Self {
        Self { highest: first.value as i64 & (first.range() - 1), bits: first.bits }
    }

    /// The same counter as if `highest`, which is extended already, had been the highest.
    #[must_use]
    pub const fn going_on_from(self, highest: i64) -> Self {
        Self { highest, bits: self.bits }
    }

    /// The extended value nearest to the highest seen. Changes nothing.
    pub const fn peek(&self, wrapped: u32) -> i64 {
        let range = 1 << self.bits;
        let difference = (wrapped as i64 - self.highest) & (range - 1);
        let signed = if difference >= range / 2 { difference - range } else { difference };
        self.highest + signed
    }

    /// The extended value, which becomes the highest if it is.
    pub const fn extend(&mut self, wrapped: u32) -> i64 {
        let extended = self.peek(wrapped);
        if extended > self.highest {
            self.highest = extended;
        }
        extended
    }

    /// The highest extended value so far.
    pub const fn highest(&self) -> i64 {
        self.highest
    }
}

/// The RTP timestamp of a 64-bit frame count: its low 32 bits.
pub const fn rtp_timestamp(extended: i64) -> u32 {
    extended as u32
}
