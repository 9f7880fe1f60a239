//! Sockets that carry datagrams, whatever the network: the kernel's arrays, its stamps, and what it tells beside
//! a datagram. [`crate::udp`] and [`crate::ethernet`] open them; [`crate::link::direct`] runs them.

pub(crate) mod address;
pub(crate) mod batch;
pub(crate) mod buffers;
pub(crate) mod descriptor;
pub(crate) mod fixed;
pub mod forks;
pub(crate) mod incoming;
pub mod launch;
pub(crate) mod outlet;
pub(crate) mod poll;
pub(crate) mod receive_batch;
pub mod seal;
pub(crate) mod segments;
pub(crate) mod timestamp;
pub(crate) mod transmit;

use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::{LocalTime, MediaTime, Span};

/// One datagram that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Its bytes; only the first part if [`Self::truncated`].
    pub datagram: &'a [u8],
    /// Who sent it, and by which interface it came where the kernel says that.
    pub source: Endpoint,
    /// When the kernel took it from the network (its software stamp, mapped to the monotonic
    /// clock). Never after [`Self::read`], and equal to it where the kernel gave no stamp.
    pub arrival: LocalTime,
    /// How far `arrival` may be from the truth by the mapping between the clocks;
    /// [`Span::MAX`] where the kernel gave no stamp.
    pub stamp_uncertainty: Span,
    /// When the program read it from the socket: one reading for all datagrams of a batch.
    pub read: LocalTime,
    /// Whether it was longer than the link was opened for and has been cut.
    pub truncated: bool,
}

/// What a link has counted since it was opened. All are totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Datagrams that the kernel took (one per packet and destination).
    pub sent: u64,
    /// Datagrams that the kernel refused.
    pub send_errors: u64,
    /// Of the datagrams taken and refused, those that were to go by the second network.
    pub also: (u64, u64),
    /// The `errno` of the latest system call that failed, 0 if none did.
    pub last_error: i32,
    /// Packets that found no room in the batch or the ring, or were longer than the link was opened
    /// for.
    pub dropped: u64,
    /// Packets that were let go since there was no destination.
    pub let_go: u64,
    /// Datagrams delivered.
    pub received: u64,
    /// Datagrams delivered that were longer than the link was opened for.
    pub truncated: u64,
    /// Datagrams not delivered since they came from another than the source asked for.
    pub foreign: u64,
    /// Datagrams not delivered since they were not sealed as the link's
    /// [`Seal`](crate::socket::seal::Seal) opens them.
    pub unopened: u64,
    /// Datagrams delivered for which the kernel gave no usable stamp.
    pub unstamped: u64,
    /// Datagrams that the kernel dropped since the socket's buffer was full (`SO_RXQ_OVFL`). Known
    /// only when a later datagram arrives.
    pub kernel_drops: u64,
    /// Datagrams that the wire thread dropped since the device's thread did not fetch them.
    pub ring_drops: u64,
    /// Packets that the interface's queue dropped since it could not launch them in time, each once, to however many
    /// destinations and by however many networks it was to go.
    pub unlaunched: u64,
    /// Of those, the ones that the ordinary thread was not told by name
    /// ([`LinkEvent::Unlaunched`](crate::link::told::LinkEvent::Unlaunched)): nobody knew them any more, there was no
    /// room, or nobody to tell.
    pub unnamed: u64,
    /// Packets dropped since a connection did not take them in time: newer ones went instead.
    pub overdue: u64,
    /// Departures (records for the ledger) that found the caller's ring full.
    pub departures_lost: u64,
}

impl LinkCounters {
    /// The totals of both: of a link and of the one whose place it took.
    #[must_use]
    pub const fn plus(&self, newer: &Self) -> Self {
        Self {
            sent: self.sent + newer.sent,
            send_errors: self.send_errors + newer.send_errors,
            also: (self.also.0 + newer.also.0, self.also.1 + newer.also.1),
            last_error: if newer.last_error == 0 { self.last_error } else { newer.last_error },
            dropped: self.dropped + newer.dropped,
            let_go: self.let_go + newer.let_go,
            received: self.received + newer.received,
            truncated: self.truncated + newer.truncated,
            foreign: self.foreign + newer.foreign,
            unopened: self.unopened + newer.unopened,
            unstamped: self.unstamped + newer.unstamped,
            kernel_drops: self.kernel_drops + newer.kernel_drops,
            ring_drops: self.ring_drops + newer.ring_drops,
            unlaunched: self.unlaunched + newer.unlaunched,
            unnamed: self.unnamed + newer.unnamed,
            overdue: self.overdue + newer.overdue,
            departures_lost: self.departures_lost + newer.departures_lost,
        }
    }
}

/// A link that could not be opened: one sentence and the mend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tried}: {answer}; {mend}")]
pub struct OpenError {
    /// What was tried, with the address.
    pub tried: String,
    /// What the system answered.
    pub answer: String,
    /// What to do next.
    pub mend: String,
    /// The system's error number, 0 if it was not the system that refused.
    pub errno: i32,
}

impl OpenError {
    pub(crate) fn new(tried: String, error: &std::io::Error, mend: impl Into<String>) -> Self {
        let errno = error.raw_os_error().unwrap_or(0);
        let text = error.to_string();
        let answer = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
        Self { tried, answer, mend: mend.into(), errno }
    }
}

/// When one sampled packet left the kernel's network stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmitStamp {
    /// First frame of the packet.
    pub media: MediaTime,
    /// Handed to the kernel.
    pub handed: LocalTime,
    /// Given by the kernel to the network driver (its software stamp).
    pub left: LocalTime,
    /// How far `left` may be from the truth by the mapping between the clocks.
    pub uncertainty: Span,
}
