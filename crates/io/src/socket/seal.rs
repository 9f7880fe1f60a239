//! What is done to a finished datagram just before it leaves, and undone before it is read.

use std::io;

/// Seals datagrams that leave by a link, and opens those that arrive. A link without one sends and
/// hands on datagrams as they are.
///
/// A packet is sealed once, after the instant of its hand-over was written into it, wherever it goes
/// by however many networks, and however often: the same bytes are sent to all. So the same bytes may
/// rightly arrive twice, by two networks or as a repeat: what came again is for the receiver to count,
/// and is no reason to refuse it here. (A seal of blocks of offload refuses it: there each datagram is sealed
/// anew, so the same bytes are somebody's who kept them.) Where several senders share a link one value opens what all of
/// them sealed. Both calls are real-time: bounded work, no allocation, lock or blocking call.
pub trait Seal: Send {
    /// The most bytes by which it lengthens a datagram: the link leaves that much room.
    fn room(&self) -> usize;

    /// Seals the first `len` bytes of `bytes`, behind which there is room; the length of what it
    /// made.
    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize;

    /// The datagram that was sealed to `bytes`, or `None` if they are none: then nobody sees them,
    /// and the link counts them ([`LinkCounters::unopened`](crate::socket::LinkCounters::unopened)).
    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]>;
}

/// The room that `seal` asks for.
pub(crate) fn room(seal: Option<&dyn Seal>) -> usize {
    seal.map_or(0, Seal::room)
}

/// Seals a datagram in `copy`, on an ordinary thread, and leaves it as it is. An error if the seal makes nothing of it:
/// rather nothing is sent than what others can read.
pub(crate) fn sealed_copy<'a>(
    seal: &mut dyn Seal,
    datagram: &[u8],
    copy: &'a mut Vec<u8>,
) -> io::Result<&'a [u8]> {
    copy.clear();
    copy.extend_from_slice(datagram);
    copy.resize(datagram.len() + seal.room(), 0);
    let len = seal.seal(copy, datagram.len());
    copy.get(..len).filter(|sealed| !sealed.is_empty()).ok_or(io::ErrorKind::InvalidData.into())
}
