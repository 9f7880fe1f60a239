//! Datagram sockets of all networks. [`crate::udp`] and [`crate::ethernet`] open them;
//! [`crate::link::direct`] runs them.

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

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Bytes of the datagram, possibly [truncated](Self::truncated).
    pub bytes: &'a [u8],
    /// Source and arrival time.
    pub arrival: Arrival,
    /// Whether the datagram exceeded the link's maximum.
    pub truncated: bool,
}

/// A [`Datagram`] without its bytes.
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

/// Names each total once, as a field and in [`LinkCounters::totals`].
macro_rules! link_counters {
    ($($(#[$doc:meta])* $total:ident,)+) => {
        /// Totals of a link since opening.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct LinkCounters {
            $($(#[$doc])* pub $total: u64,)+
            /// Sent and refused on the second network; included in the totals.
            pub also: (u64, u64),
            /// `errno` of the last failed call, or 0.
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
    /// Accepted by the kernel, per packet and destination.
    sent,
    /// Datagrams refused by the kernel.
    send_errors,
    /// Packets too long, or without room in batch or ring.
    dropped,
    /// Packets without a destination.
    let_go,
    /// Datagrams delivered.
    received,
    /// Delivered truncated.
    truncated,
    /// Discarded: unconfigured source.
    foreign,
    /// Discarded: [`Seal`](crate::socket::seal::Seal) could not decrypt.
    auth_failed,
    /// Delivered without a usable kernel timestamp.
    unstamped,
    /// Dropped by a full socket buffer (`SO_RXQ_OVFL`); updated with the next arrival.
    kernel_drops,
    /// Dropped by the wire thread: the device's thread did not read them.
    ring_drops,
    /// Packets dropped by the interface's queue as late, once each.
    dropped_by_queue,
    /// Those without a
    /// [`LinkEvent::DroppedByQueue`](crate::link::event_queue::LinkEvent::DroppedByQueue).
    unnamed,
    /// Packets replaced by newer packets on a slow connection.
    overdue,
    /// Departures dropped because the caller's ring was full.
    departures_lost,
}

impl LinkCounters {
    /// Sum of a link's and its successor's totals.
    #[must_use]
    pub fn plus(&self, newer: &Self) -> Self {
        let (one, other) = (self.totals(), newer.totals());
        let error = if newer.last_error == 0 { self.last_error } else { newer.last_error };
        Self::of(core::array::from_fn(|at| one[at] + other[at]), error)
    }
}

/// Failed to open a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tried}: {answer}\nhint: {hint}")]
pub struct OpenError {
    /// Failed operation and address.
    pub tried: String,
    /// Error message of the system.
    pub answer: String,
    /// How to fix it.
    pub hint: String,
    /// The system's error number, or 0.
    pub errno: i32,
}

impl OpenError {
    pub(crate) fn new(tried: String, error: &std::io::Error, hint: impl Into<String>) -> Self {
        let errno = error.raw_os_error().unwrap_or(0);
        let text = error.to_string();
        let answer = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
        Self { tried, answer, hint: hint.into(), errno }
    }
}

/// When a sampled packet left the network stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmitStamp {
    /// First frame of the packet.
    pub media: MediaTime,
    /// Hand-over to the kernel.
    pub handed: LocalTime,
    /// Hand-over from the kernel to the driver (software timestamp).
    pub left: LocalTime,
    /// Uncertainty of `left`, ±.
    pub uncertainty: Span,
}
