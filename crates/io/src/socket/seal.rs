//! Encryption and decryption of datagrams.

use std::io;

/// Encrypts sent datagrams and decrypts received ones.
///
/// A packet is encrypted once, after its hand-over time was written into it. All networks and
/// retransmissions carry the same bytes, so duplicates are normal here and must not be rejected.
/// (Offload's seal rejects them, because it encrypts each datagram separately.) One value decrypts
/// the datagrams of all senders of a link. Both calls are real-time: bounded work, no allocation,
/// lock or blocking call.
pub trait Seal: Send {
    /// Returns the maximum number of bytes added to a datagram.
    fn room(&self) -> usize;

    /// Encrypts the first `len` bytes of `bytes`, which has room after them. Returns the new
    /// length.
    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize;

    /// Decrypts a datagram. If it returns `None`, the link drops and counts it
    /// ([`LinkCounters::auth_failed`](crate::socket::LinkCounters::auth_failed)).
    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]>;
}

pub(crate) fn room(seal: Option<&dyn Seal>) -> usize {
    seal.map_or(0, Seal::room)
}

/// Encrypts a datagram into `copy`, for ordinary threads. Returns an error if encryption fails,
/// because the datagram must not be sent in clear.
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
