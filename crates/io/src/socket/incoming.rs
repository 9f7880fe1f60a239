//! Receiving half of a socket.

use tautline_proto::endpoint::{Arrival, Endpoint, Host};
use tautline_proto::time::Span;

use crate::clock::now;
use crate::socket::address::{STORAGE_LEN, place};
use crate::socket::descriptor::{Fixed, Socket};
use crate::socket::seal::Seal;
use crate::socket::timestamp::{Ancillary, CONTROL_WORDS, StampClock, ancillary};
use crate::socket::{Datagram, LinkCounters};
use crate::system::errno;
use crate::thread::realtime::permit;

/// Full batches per [`Incoming::receive`]: a flood must not occupy a real-time thread.
const RECEIVE_ROUNDS: usize = 64;

pub(crate) struct Incoming {
    batch: ReceiveBatch,
    pub(crate) clock: StampClock,
    sources: Box<[Host]>,
    overflow: u32,
}

impl Incoming {
    pub(crate) fn new(batch: usize, datagram_bytes: usize, sources: Box<[Host]>) -> Self {
        Self {
            batch: ReceiveBatch::new(batch, datagram_bytes),
            clock: StampClock::new(now()),
            sources,
            overflow: 0,
        }
    }

    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        counters: &mut LinkCounters,
        mut seal: Option<&mut (dyn Seal + '_)>,
        deliver: &mut dyn FnMut(Datagram<'_>),
    ) -> i32 {
        let mut left = 0;
        for _ in 0..RECEIVE_ROUNDS {
            let count = match self.batch.receive(socket) {
                Ok(count) => count,
                Err(libc::EAGAIN) => break,
                Err(error) => {
                    left = error;
                    continue;
                }
            };
            self.deliver(count, counters, seal.as_deref_mut(), deliver);
            self.batch.rearm(count);
            if count < self.batch.capacity() {
                break;
            }
        }
        left
    }

    pub(crate) fn receive_blocked(
        &mut self,
        socket: &Socket,
        counters: &mut LinkCounters,
        deliver: &mut dyn FnMut(Datagram<'_>),
    ) -> Result<usize, i32> {
        let count = self.batch.receive_blocked(socket)?;
        self.deliver(count, counters, None, deliver);
        self.batch.rearm(count);
        Ok(count)
    }

    fn deliver(
        &mut self,
        count: usize,
        counters: &mut LinkCounters,
        mut seal: Option<&mut (dyn Seal + '_)>,
        deliver: &mut dyn FnMut(Datagram<'_>),
    ) {
        let read = now();
        self.clock.refresh(read);
        for index in 0..count {
            let message = self.batch.message(index);
            let wanted = |source: Endpoint| self.sources.contains(&source.host());
            if !self.sources.is_empty() && !message.source.is_some_and(wanted) {
                counters.foreign += 1;
                continue;
            }
            if let Some(overflow) = message.reported.overflow {
                counters.kernel_drops += u64::from(overflow.wrapping_sub(self.overflow));
                self.overflow = overflow;
            }
            let ReceivedMessage { datagram, reported, truncated, source: Some(source) } = message
            else {
                continue;
            };
            let bytes = match &mut seal {
                None => datagram,
                Some(seal) => {
                    let Some(opened) = seal.open(datagram) else {
                        counters.auth_failed += 1;
                        continue;
                    };
                    opened
                }
            };
            let stamp = reported.stamp.and_then(|stamp| self.clock.localise(stamp, read));
            let (at, uncertainty) = stamp.unwrap_or((read, Span::MAX));
            let arrival = Arrival { from: source, at, uncertainty, read };
            counters.received += 1;
            counters.truncated += u64::from(truncated);
            counters.unstamped += u64::from(uncertainty == Span::MAX);
            deliver(Datagram { bytes, arrival, truncated });
        }
    }
}

pub(crate) struct ReceiveBatch {
    bytes: Fixed<u8>,
    control: Fixed<u64>,
    names: Fixed<libc::sockaddr_storage>,
    vectors: Fixed<libc::iovec>,
    messages: Fixed<libc::mmsghdr>,
    capacity: usize,
    datagram_bytes: usize,
}

// SAFETY: the raw pointers point into arrays that only the batch owns.
unsafe impl Send for ReceiveBatch {}

pub(crate) struct ReceivedMessage<'a> {
    pub(crate) datagram: &'a mut [u8],
    pub(crate) source: Option<Endpoint>,
    pub(crate) reported: Ancillary,
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
            // SAFETY: `at` returns pointers into arrays that live as long as the batch and do not
            // move.
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

    pub(crate) fn rearm(&self, count: usize) {
        for index in 0..count {
            // SAFETY: `at` returns a pointer into the array.
            unsafe {
                let header = &raw mut (*self.messages.at(index)).msg_hdr;
                (*header).msg_namelen = STORAGE_LEN;
                (*header).msg_controllen = CONTROL_WORDS * 8;
            }
        }
    }

    pub(crate) fn receive(&mut self, socket: &Socket) -> Result<usize, i32> {
        let _permit = permit("MSG_DONTWAIT: the call does not wait");
        self.read(socket, libc::MSG_DONTWAIT)
    }

    pub(crate) fn receive_blocked(&mut self, socket: &Socket) -> Result<usize, i32> {
        self.read(socket, libc::MSG_WAITFORONE)
    }

    fn read(&mut self, socket: &Socket, flags: libc::c_int) -> Result<usize, i32> {
        let (messages, count) = (self.messages.at(0), self.capacity as libc::c_uint);
        let no_timeout = core::ptr::null_mut();
        // SAFETY: all `capacity` messages are set up and the memory they point to is alive.
        let answer = unsafe { libc::recvmmsg(socket.fd(), messages, count, flags, no_timeout) };
        if answer < 0 { Err(errno()) } else { Ok(answer as usize) }
    }

    /// `index` must be within the last [`Self::receive`]'s count.
    pub(crate) fn message(&mut self, index: usize) -> ReceivedMessage<'_> {
        // SAFETY: the kernel filled the message; the length is limited to its slot, and `self` is
        // borrowed meanwhile.
        unsafe {
            let message = &*self.messages.at(index);
            let len = (message.msg_len as usize).min(self.datagram_bytes);
            let reported = ancillary(&message.msg_hdr);
            let start = self.bytes.at(index * self.datagram_bytes);
            ReceivedMessage {
                datagram: core::slice::from_raw_parts_mut(start, len),
                source: place(&*self.names.at(index), reported.interface),
                reported,
                truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            }
        }
    }
}
