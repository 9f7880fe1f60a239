//! The one home of wrap-around: 16-bit sequence numbers and 32-bit RTP timestamps are extended to
//! 64-bit counts here and cut back here; nothing else in the project compares wrapped numbers.

/// Extends a counter of `BITS` bits, seen in nearly the right order, to 64 bits.
///
/// A value is taken to be the one nearest to the highest value accepted so far, so it may run
/// behind or ahead by up to half the counter's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwrapper<const BITS: u32> {
    highest: i64,
}

/// Extends RTP sequence numbers (RFC 3550 §5.1).
pub type SequenceUnwrapper = Unwrapper<16>;
/// Extends RTP timestamps (RFC 3550 §5.1).
pub type TimestampUnwrapper = Unwrapper<32>;

impl<const BITS: u32> Unwrapper<BITS> {
    const RANGE: i64 = 1 << BITS;

    /// Starts at `first`, which is taken as it is.
    pub const fn starting_at(first: u32) -> Self {
        Self { highest: first as i64 & (Self::RANGE - 1) }
    }

    /// Goes on from `highest`, which is extended already.
    pub const fn going_on_from(highest: i64) -> Self {
        Self { highest }
    }

    /// The extended value nearest to the highest seen. Changes nothing.
    pub const fn peek(&self, wrapped: u32) -> i64 {
        let difference = (wrapped as i64 - self.highest) & (Self::RANGE - 1);
        let signed =
            if difference >= Self::RANGE / 2 { difference - Self::RANGE } else { difference };
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

/// The RTP sequence number of a 64-bit packet count: its low 16 bits.
pub const fn rtp_sequence(extended: i64) -> u16 {
    extended as u16
}
