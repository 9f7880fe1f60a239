//! What every link to the network can do, whatever it goes by, and whether the device's thread makes
//! the system calls itself, as of [`DirectLink`](crate::link::direct::DirectLink), or a wire thread does
//! ([`Ringed`](crate::link::ringed::Ringed)).

pub mod awaiting;
pub mod destinations;
pub mod direct;
pub mod divided;
pub mod event;
pub mod launch_probe;
pub mod muxed;
pub(crate) mod ring;
pub mod ringed;
pub(crate) mod shared;
pub mod told;

use std::os::fd::{AsFd, BorrowedFd};

use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;

use crate::link::destinations::Destinations;
use crate::link::told::Teller;

pub use crate::socket::{Arrival, LinkCounters, OpenError, TransmitStamp};

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
