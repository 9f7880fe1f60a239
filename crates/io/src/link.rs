//! Interface of all links. Either the device's thread makes the system calls
//! ([`DirectLink`](crate::link::direct::DirectLink)) or a wire thread does
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

/// A link to the network. All methods except [`Link::tell`] are real-time: bounded work, no
/// allocation, lock or blocking call.
pub trait Link: Send {
    /// Passes the link its [`EventSender`]. Called once, before the first packet.
    fn tell(&mut self, _teller: EventSender) {}

    /// Copies a packet, and the earlier packet that is sent again with it, into the next batch.
    /// Returns `false` if there is no room (counted).
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool;

    /// Queues a packet that `write` writes: directly into the batch if the link can, otherwise via
    /// `room`. Returns the result of `write`: the packet's length, or `None` if nothing is queued.
    fn queue_written(
        &mut self,
        instants: Departure,
        room: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        queue_from(room, instants, write, |packet| self.queue(packet))
    }

    /// Sends the batch in one system call (direct), or passes it to the wire thread (threaded).
    fn flush(&mut self);

    /// Sends everything from now on to these destinations. Returns `false` and changes nothing if
    /// there are too many, if one is of another kind, or if the link does not send.
    fn set_destinations(&mut self, _destinations: &Destinations) -> bool {
        false
    }

    /// Delivers all received datagrams, oldest first, with their timestamps.
    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>));

    /// Returns a descriptor that becomes readable when [`Link::receive`] has something to deliver.
    /// Call this again before each wait.
    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Delivers the transmit timestamps returned since the last call, if the link has any.
    fn transmit_stamps(&mut self, _deliver: &mut dyn FnMut(TransmitStamp)) {}

    /// Returns the counters since the link was opened.
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

/// A link that a wire thread can run. Its descriptor is readable when a datagram or a transmit
/// timestamp has arrived.
pub trait Pollable: Link + AsFd {
    /// Returns a second descriptor to poll, for errors only.
    fn second(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all errors, with their transmit timestamps, after a poll reported some. Unread errors
    /// would end every later poll at once.
    fn read_errors(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.transmit_stamps(deliver);
    }

    /// Returns the maximum datagram size in bytes, as opened.
    fn datagram_bytes(&self) -> usize;

    /// Returns whether another packet, with the earlier one that is sent again with it, might not
    /// fit before the next [`Link::flush`].
    fn is_full(&self) -> bool;
}

/// Returns whether a send error with this `errno` means that the interface is down or gone.
pub const fn is_of_an_interface(errno: i32) -> bool {
    matches!(errno, libc::ENETDOWN | libc::ENODEV | libc::ENXIO)
}

/// Returns whether a send error with this `errno` means a full interface queue, not an invalid
/// address.
pub const fn is_of_a_queue(errno: i32) -> bool {
    errno == libc::ENOBUFS
}
