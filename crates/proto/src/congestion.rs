//! Rate control: receivers measure the queue in the path, senders adapt to it.
//!
//! A [`TransitMeter`] measures queueing delay: transit time above the minimum of the last ten
//! seconds. It reports [`PathFeedback`] ten times a second via RTCP. The sender's [`RateControl`]
//! reacts to the queue first and to loss second. [`CodingSteps`] convert the rate to a coding and
//! packet time.
//!
//! This is the control of draft-ietf-rmcat-gcc-02 with the queueing delay of NADA (RFC 8698 §4.2).
//! As in SCReAM (RFC 8298 §4.1.2.1), a sender pauses until a new packet would arrive in time.

mod control;
mod meter;
mod steps;

pub use control::{RateControl, Sent};
pub use meter::TransitMeter;
pub use steps::{CodingLimits, CodingSteps, StepTerms};

use crate::time::Span;

/// Measurements of one stream at a receiver: totals that wrap.
///
/// On the wire: six big-endian 32-bit words in field order, the queue in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathFeedback {
    /// SSRC of the stream.
    pub ssrc: u32,
    /// Newest counted arrival, in microseconds of the receiver's clock.
    pub at_us: u32,
    /// Packets received.
    pub packets: u32,
    /// Bytes of their payloads.
    pub octets: u32,
    /// Highest sequence number, extended (RFC 3550 §6.4.1).
    pub highest: u32,
    /// Queueing delay of the newest packets.
    pub queue: Span,
}

impl PathFeedback {
    /// Length on the wire.
    pub const BYTES: usize = 24;

    /// Returns the wire form.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let queue = (self.queue.as_nanos() / 1000).clamp(0, u32::MAX.into()) as u32;
        let mut bytes = [0; Self::BYTES];
        let words = [self.ssrc, self.at_us, self.packets, self.octets, self.highest, queue];
        let places = bytes.as_chunks_mut().0.iter_mut();
        places.zip(words).for_each(|(place, word)| *place = word.to_be_bytes());
        bytes
    }

    /// Reads the wire form, ignoring additional fields; `None` if too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks();
        let &[ssrc, at_us, packets, octets, highest, queue, ..] = words else { return None };
        let word = u32::from_be_bytes;
        Some(Self {
            ssrc: word(ssrc),
            at_us: word(at_us),
            packets: word(packets),
            octets: word(octets),
            highest: word(highest),
            queue: Span::from_micros(word(queue).into()),
        })
    }
}
