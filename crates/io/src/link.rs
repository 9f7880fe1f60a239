//! Interface of all links, with system calls on the device's thread
//! ([`DirectLink`](crate::link::direct::DirectLink)) or a wire thread
//! ([`ThreadedLink`](crate::link::threaded::ThreadedLink)).

pub mod awaiting;
pub mod destinations;
pub mod direct;
pub mod divided;
pub mod event_queue;
pub mod launch_probe;
pub mod muxed;
pub mod threaded;

use std::os::fd::{AsFd, BorrowedFd};

use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;

use crate::link::destinations::Destinations;
use crate::link::event_queue::EventSender;

pub use crate::socket::{Datagram, LinkCounters, OpenError, TransmitStamp};

/// A link to the network. Except for [`Link::notify`], methods are real-time: bounded work, no
/// allocation, lock or blocking call.
pub trait Link: Send {
    /// Sets the [`EventSender`]. Called once, before the first packet.
    fn notify(&mut self, _teller: EventSender) {}

    /// Queues a packet with the earlier one sent again. `false` (counted) without room.
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool;

    /// Queues a packet that `write` writes, into the batch if possible, otherwise via `room`.
    /// Returns its length, or `None` if nothing is queued.
    fn queue_written(
        &mut self,
        instants: Departure,
        room: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        queue_from(room, instants, write, |packet| self.queue(packet))
    }

    /// Sends the batch, or passes it to the wire thread.
    fn flush(&mut self);

    /// Sets the destinations. Returns `false`, unchanged, for too many, another kind, or a
    /// receiving link.
    fn set_destinations(&mut self, _destinations: &Destinations) -> bool {
        false
    }

    /// Delivers received datagrams, oldest first, with timestamps.
    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>));

    /// Readable when [`Link::receive`] has data. Request it again before each wait.
    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Delivers new transmit timestamps.
    fn transmit_stamps(&mut self, _deliver: &mut dyn FnMut(TransmitStamp)) {}

    /// Counters since opening.
    fn counters(&self) -> LinkCounters;
}

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

/// A link for a wire thread. Its descriptor is readable after an arrival or transmit timestamp.
pub trait Pollable: Link + AsFd {
    /// A second descriptor, polled for errors only.
    fn second(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all errors and their timestamps. Unread errors would end every poll immediately.
    fn read_errors(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.transmit_stamps(deliver);
    }

    /// Maximum datagram bytes.
    fn datagram_bytes(&self) -> usize;

    /// Whether another packet and one sent again might not fit before [`Link::flush`].
    fn is_full(&self) -> bool;
}

/// Whether this send `errno` means that the interface is down or gone.
pub const fn is_of_an_interface(errno: i32) -> bool {
    matches!(errno, libc::ENETDOWN | libc::ENODEV | libc::ENXIO)
}

/// Whether this send `errno` means a full interface queue.
pub const fn is_of_a_queue(errno: i32) -> bool {
    errno == libc::ENOBUFS
}
