//! Rate control: receivers measure the queue in the path, senders adapt to it.
//!
//! A receiver's [`TransitMeter`] records the transit time of every packet: arrival minus departure.
//! The excess over the minimum of the last ten seconds is queueing delay. The receiver reports it
//! ten times a second as [`PathFeedback`], in an RTCP packet of 84 bytes (IPv4) to the destination
//! of its reports. The sender's [`RateControl`] reacts to the queue first and to loss second.
//! [`CodingSteps`] convert the resulting rate to a coding, a bit rate and a packet time.
//!
//! The method is the delay-based control of draft-ietf-rmcat-gcc-02. Its signal is the queueing
//! delay of NADA (RFC 8698 §4.2) instead of a trend line: both ends timestamp packets, so the queue
//! itself is known. As in SCReAM (RFC 8298 §4.1.2.1), it tracks the bytes in flight: a sender that
//! learns of a full queue pauses until a new packet would arrive in time.

mod control;
mod meter;
mod steps;

pub use control::{RateControl, Sent};
pub use meter::TransitMeter;
pub use steps::{CodingLimits, CodingSteps, StepTerms};

use crate::time::Span;

/// Measurements of one stream at a receiver, ten times a second. All counts are totals and wrap.
///
/// On the wire, big-endian: stream (32 bits), then 32 bits each: arrival of the newest counted
/// packet in microseconds of the receiver's clock, packets received, bytes of their payloads, the
/// highest sequence number (extended, RFC 3550 §6.4.1), and the queueing delay in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathFeedback {
    /// SSRC of the stream.
    pub ssrc: u32,
    /// Arrival of the newest counted packet, in microseconds of the receiver's clock.
    pub at_us: u32,
    /// Packets received.
    pub packets: u32,
    /// Bytes of their payloads.
    pub octets: u32,
    /// Highest sequence number, extended.
    pub highest: u32,
    /// Queueing delay of the newest packets.
    pub queue: Span,
}

impl PathFeedback {
    /// Length on the wire.
    pub const BYTES: usize = 24;

    /// Wire form; see the type.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let queue = (self.queue.as_nanos() / 1000).clamp(0, u32::MAX.into()) as u32;
        let mut bytes = [0; Self::BYTES];
        let words = [self.ssrc, self.at_us, self.packets, self.octets, self.highest, queue];
        let places = bytes.as_chunks_mut().0.iter_mut();
        places.zip(words).for_each(|(place, word)| *place = word.to_be_bytes());
        bytes
    }

    /// Reads the wire form; `None` if it is too short. Ignores additional fields of later versions.
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
