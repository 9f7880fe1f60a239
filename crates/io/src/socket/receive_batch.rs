//! The kernel's arrays for `recvmmsg`, laid out once and used for ever.

use tautline_proto::endpoint::Endpoint;

use crate::socket::address::{STORAGE_LEN, place};
use crate::socket::descriptor::Socket;
use crate::socket::fixed::Fixed;
use crate::socket::timestamp::{Ancillary, CONTROL_WORDS, ancillary};
use crate::system::errno;
use crate::thread::realtime::permit;

/// Room for a batch of arrivals.
pub(crate) struct ReceiveBatch {
    bytes: Fixed<u8>,
    control: Fixed<u64>,
    names: Fixed<libc::sockaddr_storage>,
    vectors: Fixed<libc::iovec>,
    messages: Fixed<libc::mmsghdr>,
    capacity: usize,
    datagram_bytes: usize,
}

// SAFETY: the raw pointers lead into arrays that the batch alone owns.
unsafe impl Send for ReceiveBatch {}

/// One message of the batch.
pub(crate) struct ReceivedMessage<'a> {
    pub(crate) datagram: &'a mut [u8],
    pub(crate) source: Option<Endpoint>,
    pub(crate) told: Ancillary,
    pub(crate) truncated: bool,
}

impl ReceiveBatch {
    pub(crate) fn new(capacity: usize, datagram_bytes: usize) -> Self {
        let (capacity, datagram_bytes) = (capacity.max(1), datagram_bytes.max(1));
        let batch = Self {
            bytes: Fixed::zeroed(capacity * datagram_bytes),
            control: Fixed::zeroed(capacity * CONTROL_WORDS),
            names: Fixed::zeroed(capacity),
            vectors: Fixed::zeroed(capacity),
            messages: Fixed::zeroed(capacity),
            capacity,
            datagram_bytes,
        };
        for index in 0..capacity {
            let vector = batch.vectors.at(index);
            // SAFETY: `at` yields places inside arrays that live and stay as long as the batch.
            unsafe {
                (*vector).iov_base = batch.bytes.at(index * datagram_bytes).cast();
                (*vector).iov_len = datagram_bytes;
                let header = &raw mut (*batch.messages.at(index)).msg_hdr;
                (*header).msg_name = batch.names.at(index).cast();
                (*header).msg_iov = vector;
                (*header).msg_iovlen = 1;
                (*header).msg_control = batch.control.at(index * CONTROL_WORDS).cast();
            }
        }
        batch.rearm(capacity);
        batch
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Gives the kernel back the lengths that it overwrote in the first `count` messages.
    pub(crate) fn rearm(&self, count: usize) {
        for index in 0..count {
            // SAFETY: `at` yields a place inside the array.
            unsafe {
                let header = &raw mut (*self.messages.at(index)).msg_hdr;
                (*header).msg_namelen = STORAGE_LEN;
                (*header).msg_controllen = CONTROL_WORDS * 8;
            }
        }
    }

    /// Reads what has arrived, up to the capacity; how many, or the `errno`.
    pub(crate) fn receive(&mut self, socket: &Socket) -> Result<usize, i32> {
        let _permit = permit("MSG_DONTWAIT: the call does not wait");
        self.read(socket, libc::MSG_DONTWAIT)
    }

    /// The same of a socket that blocks: waits for the first datagram as long as the socket is set to.
    pub(crate) fn receive_blocked(&mut self, socket: &Socket) -> Result<usize, i32> {
        self.read(socket, libc::MSG_WAITFORONE)
    }

    fn read(&mut self, socket: &Socket, flags: libc::c_int) -> Result<usize, i32> {
        // SAFETY: all `capacity` messages are laid out and what they point to lives.
        let answer = unsafe {
            libc::recvmmsg(
                socket.fd(),
                self.messages.at(0),
                self.capacity as libc::c_uint,
                flags,
                core::ptr::null_mut(),
            )
        };
        if answer < 0 { Err(errno()) } else { Ok(answer as usize) }
    }

    /// The message at `index`, which must be one of those that [`Self::receive`] counted last.
    pub(crate) fn message(&mut self, index: usize) -> ReceivedMessage<'_> {
        // SAFETY: the kernel has filled the message; `at` yields places inside the arrays; the
        // length is cut to the slot, and nobody else reads or writes while `self` is borrowed.
        unsafe {
            let message = &*self.messages.at(index);
            let len = (message.msg_len as usize).min(self.datagram_bytes);
            let told = ancillary(&message.msg_hdr);
            ReceivedMessage {
                datagram: core::slice::from_raw_parts_mut(
                    self.bytes.at(index * self.datagram_bytes),
                    len,
                ),
                source: place(&*self.names.at(index), told.interface),
                told,
                truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            }
        }
    }
}
