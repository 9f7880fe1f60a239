//! What every link does, whether the device's thread makes the system calls
//! ([`DirectLink`](crate::link::direct::DirectLink)) or a wire thread does ([`ThreadedLink`](crate::link::threaded::ThreadedLink)).

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

/// A link to the network. All methods but [`Link::tell`] are real-time: bounded work, no allocation,
/// lock or blocking call.
pub trait Link: Send {
    /// Gives the link its [`EventSender`], once, before the first packet.
    fn tell(&mut self, _teller: EventSender) {}

    /// Copies a packet, and the earlier one that leaves again with it, into the next batch. False if there is no room
    /// (counted).
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool;

    /// The same for a packet that `write` writes, straight to its place where the link can, else by `room`. Returns
    /// what `write` did: the packet's bytes, or `None` if there is none, and then nothing is queued.
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

    /// Sends everything from now on to these destinations. False, and nothing changes, if there is no room for so many,
    /// one is of another kind, or the link sends nowhere.
    fn set_destinations(&mut self, _destinations: &Destinations) -> bool {
        false
    }

    /// Delivers every datagram that has arrived, oldest first, each with its stamps.
    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>));

    /// A descriptor that becomes readable once [`Link::receive`] has something to deliver; to be asked for before each
    /// wait.
    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Delivers the transmit stamps that came back since the last call, if the link has any.
    fn transmit_stamps(&mut self, _deliver: &mut dyn FnMut(TransmitStamp)) {}

    /// What was counted so far.
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

/// A link that a wire thread can run: its descriptor is readable when a datagram or a transmit stamp has arrived.
pub trait Pollable: Link + AsFd {
    /// A second descriptor on which errors may come to be read, and nothing else that is wanted.
    fn second(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// [`Link::transmit_stamps`] after a poll reported errors: unread ones would end each further poll at once.
    fn read_errors(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.transmit_stamps(deliver);
    }

    /// The largest datagram in bytes that it was opened for.
    fn datagram_bytes(&self) -> usize;

    /// Whether it may take no packet, and one that leaves again with it, before the next [`Link::flush`].
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
