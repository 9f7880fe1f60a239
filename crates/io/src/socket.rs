//! Sockets that carry datagrams, whatever the network: the kernel's arrays and stamps. [`crate::udp`] and
//! [`crate::ethernet`] open them; [`crate::link::direct`] runs them.

pub(crate) mod address;
pub(crate) mod batch;
pub(crate) mod descriptor;
pub mod forks;
pub(crate) mod incoming;
pub(crate) mod interface;
pub mod launch;
pub(crate) mod outlet;
pub mod seal;
pub(crate) mod timestamp;
pub(crate) mod transmit;

use tautline_proto::endpoint::Arrival;
use tautline_proto::time::{LocalTime, MediaTime, Span};

/// One datagram that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Its bytes; only the first part if [`Self::truncated`].
    pub bytes: &'a [u8],
    /// From where and when.
    pub arrival: Arrival,
    /// Whether it was longer than the link was opened for and has been cut.
    pub truncated: bool,
}

/// All of a [`Datagram`] but its bytes, to be kept.
#[derive(Clone, Copy)]
pub(crate) struct DatagramHead {
    pub(crate) len: usize,
    arrival: Arrival,
    pub(crate) truncated: bool,
}

impl DatagramHead {
    pub(crate) const fn new(datagram: &Datagram<'_>) -> Self {
        let &Datagram { bytes, arrival, truncated } = datagram;
        Self { len: bytes.len(), arrival, truncated }
    }

    pub(crate) const fn of(self, bytes: &[u8]) -> Datagram<'_> {
        Datagram { bytes, arrival: self.arrival, truncated: self.truncated }
    }
}

/// Names each total once: its field, and its place among [`LinkCounters::totals`].
macro_rules! link_counters {
    ($($(#[$doc:meta])* $total:ident,)+) => {
        /// What a link has counted since it was opened. All are totals.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct LinkCounters {
            $($(#[$doc])* pub $total: u64,)+
            /// Of the datagrams taken and refused, those that were to go by the second network.
            pub also: (u64, u64),
            /// The `errno` of the latest system call that failed, 0 if none did.
            pub last_error: i32,
        }

        pub(crate) const TOTALS: usize = [$(stringify!($total)),+].len() + 2;

        impl LinkCounters {
            pub(crate) const fn totals(&self) -> [u64; TOTALS] {
                [$(self.$total,)+ self.also.0, self.also.1]
            }

            pub(crate) const fn of(totals: [u64; TOTALS], last_error: i32) -> Self {
                let [$($total,)+ first, second] = totals;
                Self { $($total,)+ also: (first, second), last_error }
            }
        }
    };
}

link_counters! {
    /// Datagrams that the kernel took (one per packet and destination).
    sent,
    /// Datagrams that the kernel refused.
    send_errors,
    /// Packets that found no room in the batch or the ring, or were too long.
    dropped,
    /// Packets that were let go since there was no destination.
    let_go,
    /// Datagrams delivered.
    received,
    /// Datagrams delivered that were longer than the link was opened for.
    truncated,
    /// Datagrams not delivered since they came from another than the source asked for.
    foreign,
    /// Datagrams not delivered since the link's [`Seal`](crate::socket::seal::Seal) did not open them.
    unopened,
    /// Datagrams delivered for which the kernel gave no usable stamp.
    unstamped,
    /// Datagrams that the kernel dropped as the socket's buffer was full (`SO_RXQ_OVFL`), known with the next arrival.
    kernel_drops,
    /// Datagrams that the wire thread dropped since the device's thread did not fetch them.
    ring_drops,
    /// Packets that the interface's queue dropped as too late, each once, whatever its destinations and networks.
    unlaunched,
    /// Of those, the ones without a [`LinkEvent::Unlaunched`](crate::link::event_queue::LinkEvent::Unlaunched).
    unnamed,
    /// Packets dropped since a connection did not take them in time: newer ones went instead.
    overdue,
    /// Departures (records for the ledger) that found the caller's ring full.
    departures_lost,
}

impl LinkCounters {
    /// The totals of both: of a link and of the newer one that took its place.
    #[must_use]
    pub fn plus(&self, newer: &Self) -> Self {
        let (one, other) = (self.totals(), newer.totals());
        let error = if newer.last_error == 0 { self.last_error } else { newer.last_error };
        Self::of(core::array::from_fn(|at| one[at] + other[at]), error)
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
