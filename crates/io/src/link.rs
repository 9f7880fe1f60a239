//! What every link to the network can do, whatever it goes by, and whether the device's thread makes
//! the system calls itself, as of [`DirectLink`](crate::link::direct::DirectLink), or a wire thread does
//! ([`Ringed`](crate::link::ringed::Ringed)).

pub mod awaiting;
pub(crate) mod batch;
pub mod destinations;
pub mod direct;
pub mod divided;
pub mod event;
pub mod launch_probe;
pub mod muxed;
pub(crate) mod ring;
pub mod ringed;
pub mod seal;
pub(crate) mod shared;
pub mod told;

use std::os::fd::{AsFd, BorrowedFd};

use tautline_proto::endpoint::Endpoint;
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, MediaTime, Span};

use crate::link::destinations::Destinations;
use crate::link::told::Teller;

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
    /// [`Seal`](crate::link::seal::Seal) opens them.
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

/// A link to the network. All methods but [`Link::tell`] are real-time: bounded work, no allocation,
/// lock or blocking call.
pub trait Link: Send {
    /// Gives the link its end of what it tells the ordinary thread: before the first packet, and
    /// once. A link to which nothing happens that the counters do not hold tells nothing.
    fn tell(&mut self, _teller: Teller) {}

    /// Copies a packet into the next batch, and the earlier one that leaves once more with it, if the
    /// link still has that. False if there was no room (counted).
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool;

    /// The same for a packet that `write` writes, which leaves as it is: where the link can, straight to where it waits,
    /// and otherwise to `room`, from where it is copied. What `write` returned: the packet's bytes, or `None` if there is
    /// none, and then nothing is queued.
    fn queue_written(
        &mut self,
        instants: Departure,
        room: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        queue_from(room, instants, write, |packet| self.queue(packet))
    }

    /// Sends the batch in one system call (direct), or hands it to the wire thread (ringed).
    fn flush(&mut self);

    /// Sends everything from now on to these destinations instead, of the kind that the link was
    /// opened for. False if there is no room for so many, one is of another kind, or the link sends
    /// nowhere: it keeps to those it has.
    fn set_destinations(&mut self, _destinations: &Destinations) -> bool {
        false
    }

    /// Delivers every datagram that has arrived, oldest first, each with its stamps.
    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>));

    /// A descriptor that becomes readable once [`Link::receive`] has something to deliver, for a wait that its caller
    /// can spare ([`awaiting`]); to be asked for anew before each wait. `None` where there is none.
    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Delivers the transmit stamps that came back since the last call.
    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp));

    /// What was counted so far.
    fn counters(&self) -> LinkCounters;
}

/// Lets `write` write a packet to `room`, and `queue` copy it from there: see [`Link::queue_written`].
pub(crate) fn queue_from(
    room: &mut [u8],
    instants: Departure,
    write: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    queue: impl FnOnce(&Outgoing<'_>) -> bool,
) -> Option<usize> {
    let len = write(room)?;
    let datagram = room.get_mut(..len)?;
    queue(&Outgoing { datagram, instants, handed_at: None, again: None });
    Some(len)
}

/// A link that a wire thread can run: one with a descriptor that becomes readable when a datagram or
/// a transmit stamp has arrived.
pub trait Pollable: Link + AsFd {
    /// A second descriptor on which errors may come to be read, and nothing else that is wanted.
    fn second(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// [`Link::transmit_stamps`], after a poll has said that there are errors: as long as any are left unread, each
    /// poll returns at once, so they are read whether or not something was waited for.
    fn read_errors(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.transmit_stamps(deliver);
    }

    /// The largest datagram in bytes that it was opened for.
    fn datagram_bytes(&self) -> usize;

    /// Whether it may take no packet, and one that leaves with it once more, before the next
    /// [`Link::flush`].
    fn is_full(&self) -> bool;
}

/// Whether it was the interface that was down, or gone, where packets were refused with this `errno`.
pub const fn is_of_an_interface(errno: i32) -> bool {
    matches!(errno, libc::ENETDOWN | libc::ENODEV | libc::ENXIO)
}

/// Whether it was a queue of the interface that refused packets with this `errno`, not the way to an address.
pub const fn is_of_a_queue(errno: i32) -> bool {
    errno == libc::ENOBUFS
}
