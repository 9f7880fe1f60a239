//! Encryption of datagrams as they leave and arrive.

use std::io;

/// Protects datagrams that leave by a link, and opens those that arrive.
///
/// A packet is sealed once, after its hand-over was written into it; all networks and repeats get the same bytes. So
/// the same bytes may arrive twice, and are no reason to refuse them here (offload's seal refuses them: there each
/// datagram is sealed again). One value opens the datagrams of all senders of a link. Both calls are real-time: bounded
/// work, no allocation, lock or blocking call.
pub trait Seal: Send {
    /// The most bytes that it adds to a datagram.
    fn room(&self) -> usize;

    /// Seals the first `len` bytes of `bytes`, behind which there is room; returns the new length.
    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize;

    /// The datagram that was sealed to `bytes`, or `None`: then the link drops it and counts it
    /// ([`LinkCounters::unopened`](crate::socket::LinkCounters::unopened)).
    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]>;
}

pub(crate) fn room(seal: Option<&dyn Seal>) -> usize {
    seal.map_or(0, Seal::room)
}

/// Seals a datagram in `copy`, for ordinary threads. An error if the seal makes nothing of it: it must not leave
/// unsealed.
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
