//! Datagram sockets of all networks, with kernel arrays and timestamps. [`crate::udp`] and
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

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Its bytes; only the first part if [`Self::truncated`].
    pub bytes: &'a [u8],
    /// Source and arrival time.
    pub arrival: Arrival,
    /// Whether it was longer than the link's maximum and was truncated.
    pub truncated: bool,
}

/// Everything of a [`Datagram`] except its bytes, for storage.
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

/// Names each total once, as a field and by its position in [`LinkCounters::totals`].
macro_rules! link_counters {
    ($($(#[$doc:meta])* $total:ident,)+) => {
        /// Counters of a link since it was opened. All are totals.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct LinkCounters {
            $($(#[$doc])* pub $total: u64,)+
            /// Datagrams sent and refused on the second network; the totals include them.
            pub also: (u64, u64),
            /// `errno` of the last failed system call; 0 if none failed.
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
    /// Datagrams accepted by the kernel (one per packet and destination).
    sent,
    /// Datagrams refused by the kernel.
    send_errors,
    /// Packets that were too long or did not fit the batch or ring.
    dropped,
    /// Packets dropped because there was no destination.
    let_go,
    /// Datagrams delivered.
    received,
    /// Datagrams delivered truncated, because they exceeded the link's maximum.
    truncated,
    /// Datagrams discarded because they came from another source than the configured one.
    foreign,
    /// Datagrams discarded because the link's [`Seal`](crate::socket::seal::Seal) could not decrypt
    /// them.
    auth_failed,
    /// Datagrams delivered without a usable kernel timestamp.
    unstamped,
    /// Datagrams dropped by the kernel because the socket buffer was full (`SO_RXQ_OVFL`); updated
    /// with the next arrival.
    kernel_drops,
    /// Datagrams dropped by the wire thread because the device's thread did not read them.
    ring_drops,
    /// Packets that the interface's queue dropped as late. Each counts once, whatever its
    /// destinations and networks.
    dropped_by_queue,
    /// Those packets without a
    /// [`LinkEvent::DroppedByQueue`](crate::link::event_queue::LinkEvent::DroppedByQueue).
    unnamed,
    /// Packets replaced by newer ones because a connection did not accept them in time.
    overdue,
    /// Departures (records for the ledger) dropped because the caller's ring was full.
    departures_lost,
}

impl LinkCounters {
    /// Returns the sum of both totals: of a link and of its successor.
    #[must_use]
    pub fn plus(&self, newer: &Self) -> Self {
        let (one, other) = (self.totals(), newer.totals());
        let error = if newer.last_error == 0 { self.last_error } else { newer.last_error };
        Self::of(core::array::from_fn(|at| one[at] + other[at]), error)
    }
}

/// Error from opening a link, with its fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tried}: {answer}\nhint: {hint}")]
pub struct OpenError {
    /// The failed operation, with the address.
    pub tried: String,
    /// Error message of the system.
    pub answer: String,
    /// How to fix it.
    pub hint: String,
    /// The system's error number; 0 if the error is not from the system.
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

/// When a sampled packet left the kernel's network stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmitStamp {
    /// First frame of the packet.
    pub media: MediaTime,
    /// Time of hand-over to the kernel.
    pub handed: LocalTime,
    /// Time of hand-over from the kernel to the network driver (software timestamp).
    pub left: LocalTime,
    /// Uncertainty of `left` from the mapping between the clocks, ±.
    pub uncertainty: Span,
}
