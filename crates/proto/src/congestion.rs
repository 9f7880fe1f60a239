//! How fast a sender may send: receivers measure the queue in the path, senders follow it.
//!
//! A receiver's [`TransitMeter`] takes the transit time of every packet, arrival less departure. What exceeds the least of
//! the last ten seconds is time spent in a queue. Ten times a second the receiver reports that as [`PathFeedback`], in an
//! RTCP packet of 84 bytes (by IPv4) that goes where the reports go. The sender's [`RateControl`] follows the queue first and loss
//! second, and [`CodingSteps`] turn the resulting rate into a coding, a bit rate and a packet time.
//!
//! The method is the delay-based control of draft-ietf-rmcat-gcc-02 with the queueing delay of NADA (RFC 8698 §4.2) as its
//! signal instead of a trend line: both ends stamp packets, so the queue itself is known. From SCReAM (RFC 8298 §4.1.2.1)
//! it has the bytes in flight: a sender that learns of a full queue pauses until a new packet would pass in time.

mod control;
mod meter;
mod steps;

pub use control::{RateControl, Sent};
pub use meter::TransitMeter;
pub use steps::{CodingLimits, CodingSteps, StepTerms};

use crate::time::Span;

/// What a receiver measured of one stream, ten times a second. All counts are totals and wrap around.
///
/// On the wire, big-endian: stream (32 bits), then 32 bits each: when the newest counted packet arrived in microseconds by
/// the receiver's clock, packets that arrived, bytes of their payloads, the highest sequence number (extended, RFC 3550
/// §6.4.1), and the queueing delay in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathFeedback {
    /// The stream.
    pub ssrc: u32,
    /// When the newest counted packet arrived, in microseconds by the receiver's clock.
    pub at_us: u32,
    /// Packets that arrived.
    pub packets: u32,
    /// Bytes of their payloads.
    pub octets: u32,
    /// The highest sequence number, extended.
    pub highest: u32,
    /// How long the newest packets waited in queues of the path.
    pub queue: Span,
}

impl PathFeedback {
    /// On the wire.
    pub const BYTES: usize = 24;

    /// See the type.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let queue = (self.queue.as_nanos() / 1000).clamp(0, u32::MAX.into()) as u32;
        let mut bytes = [0; Self::BYTES];
        let words = [self.ssrc, self.at_us, self.packets, self.octets, self.highest, queue];
        let places = bytes.as_chunks_mut().0.iter_mut();
        places.zip(words).for_each(|(place, word)| *place = word.to_be_bytes());
        bytes
    }

    /// `None` if it is too short; what follows the known fields is left to later versions.
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
