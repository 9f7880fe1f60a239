//! Encryption and decryption of datagrams.

use std::io;

/// Encrypts sent datagrams, and decrypts the received datagrams of all senders. Real-time: no
/// allocation, lock or blocking call.
///
/// A packet is encrypted once, with its hand-over time. Networks and retransmissions repeat its
/// bytes, so duplicates must not be rejected (only offload's seal does).
pub trait Seal: Send {
    /// Maximum bytes added to a datagram.
    fn room(&self) -> usize;

    /// Encrypts `len` bytes of `bytes`, which has room for more. Returns the new length.
    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize;

    /// Decrypts a datagram. On `None` the link drops and counts it
    /// ([`LinkCounters::auth_failed`](crate::socket::LinkCounters::auth_failed)).
    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]>;
}

pub(crate) fn room(seal: Option<&dyn Seal>) -> usize {
    seal.map_or(0, Seal::room)
}

/// Encrypts into `copy`, for ordinary threads. On an error nothing may be sent in clear.
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
