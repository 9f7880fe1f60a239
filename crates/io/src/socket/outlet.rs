//! A sending socket, preallocated for `sendmmsg`.

use tautline_proto::endpoint::Endpoint;

use crate::socket::address::RawAddress;
use crate::socket::batch::Batch;
use crate::socket::descriptor::{Fixed, Socket};
use crate::socket::launch::{LAUNCH_WORDS, launch_messages};
use crate::system::errno;
use crate::thread::realtime::permit;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sent {
    pub(crate) sent: u64,
    pub(crate) refused: u64,
    pub(crate) last_error: i32,
}

pub(crate) struct Outlet {
    pub(crate) socket: Socket,
    vectors: Fixed<libc::iovec>,
    messages: Fixed<libc::mmsghdr>,
    names: Fixed<libc::sockaddr_storage>,
    sample_request: Fixed<u64>,
    /// Launch times, each followed by a timestamp request.
    launches: Option<Fixed<u64>>,
    capacity: usize,
    destinations: usize,
    maximum: usize,
    segments: Segments,
    samples: bool,
}

// SAFETY: pointers lead to the outlet's own arrays, or to packets set before each use.
unsafe impl Send for Outlet {}

impl Outlet {
    /// Allocates batches of `capacity` packets, for up to `maximum` destinations.
    pub(crate) fn new(
        socket: Socket,
        capacity: usize,
        destinations: &[Endpoint],
        maximum: usize,
        local: Endpoint,
    ) -> Self {
        let by_udp = matches!(local, Endpoint::Ip { .. });
        let (maximum, capacity) = (maximum.max(destinations.len()), capacity.max(1));
        let mut outlet = Self {
            socket,
            vectors: Fixed::zeroed(capacity),
            messages: Fixed::zeroed(capacity * maximum),
            names: Fixed::zeroed(maximum),
            sample_request: sample_request(),
            launches: None,
            capacity,
            destinations: 0,
            maximum,
            segments: Segments::new(by_udp),
            samples: false,
        };
        outlet.set_destinations(destinations.iter().copied());
        outlet
    }

    pub(crate) fn launch_all(&mut self) {
        let (request, words) = (&self.sample_request, self.sample_request.len());
        // SAFETY: `at` returns pointers into the array, which is initialised.
        let request: Vec<u64> = (0..words).map(|word| unsafe { *request.at(word) }).collect();
        self.launches = Some(launch_messages(self.capacity, &request));
        // Segments cannot be launched separately.
        self.segments = Segments::new(false);
        for packet in 0..self.capacity {
            (0..self.destinations)
                .for_each(|destination| self.set_control(packet, destination, false));
        }
    }

    pub(crate) fn launch(&self, packet: usize, nanos: u64) {
        let Some(launches) = &self.launches else { return };
        let data = packet * self.launch_words() + LAUNCH_WORDS - 1;
        // SAFETY: `at` returns a pointer into the array: the data of the packet's first control
        // message.
        unsafe { launches.at(data).write(nanos) };
    }

    fn launch_words(&self) -> usize {
        LAUNCH_WORDS + self.sample_request.len()
    }

    fn control(&self, packet: usize, sampled: bool) -> (*mut libc::c_void, usize) {
        let request = self.sample_request.len();
        let (start, words) = match &self.launches {
            Some(launches) => {
                let sample = if sampled { request } else { 0 };
                (launches.at(packet * self.launch_words()), LAUNCH_WORDS + sample)
            }
            None if sampled => (self.sample_request.at(0), request),
            None => (core::ptr::null_mut(), 0),
        };
        (start.cast(), words * size_of::<u64>())
    }

    pub(crate) const fn sends(&self) -> bool {
        self.destinations > 0
    }

    pub(crate) fn set_destinations(
        &mut self,
        destinations: impl Iterator<Item = Endpoint> + Clone,
    ) -> bool {
        let count = destinations.clone().count();
        if count > self.maximum || destinations.clone().any(|to| RawAddress::of(&to).is_none()) {
            return false;
        }
        self.destinations = count;
        for (index, raw) in destinations.filter_map(|to| RawAddress::of(&to)).enumerate() {
            // SAFETY: `at` returns a pointer into the array.
            unsafe { self.names.at(index).write(raw.storage) };
            for packet in 0..self.capacity {
                self.lay_out(packet, index, raw.len);
            }
        }
        true
    }

    fn lay_out(&self, packet: usize, destination: usize, length: libc::socklen_t) {
        let vector = self.vectors.at(packet);
        let message = self.messages.at(packet * self.destinations + destination);
        // SAFETY: `at` returns pointers into arrays that live as long as the outlet and do not
        // move.
        unsafe {
            let header = &raw mut (*message).msg_hdr;
            (*header).msg_name = self.names.at(destination).cast();
            (*header).msg_namelen = length;
            (*header).msg_iov = vector;
            (*header).msg_iovlen = 1;
        }
        self.set_control(packet, destination, false);
    }

    pub(crate) fn sample(&mut self, packet: usize) {
        self.samples = true;
        if self.destinations > 0 {
            self.set_control(packet, 0, true);
        }
    }

    pub(crate) fn clear_samples(&mut self) {
        self.samples = false;
        if self.destinations > 0 {
            (0..self.capacity).for_each(|packet| self.set_control(packet, 0, false));
        }
    }

    fn set_control(&self, packet: usize, destination: usize, sampled: bool) {
        let message = self.messages.at(packet * self.destinations + destination);
        // SAFETY: `at` returns a pointer into the array; control messages live as long as the
        // outlet.
        unsafe {
            let header = &raw mut (*message).msg_hdr;
            ((*header).msg_control, (*header).msg_controllen) = self.control(packet, sampled);
        }
    }

    /// Sends everything except refused datagrams, unless the kernel has no room. `dropped` counts a
    /// packet and returns whether it was reported dropped.
    pub(crate) fn send(
        &mut self,
        batch: &Batch,
        mut dropped: impl FnMut(&Socket, u64) -> bool,
    ) -> Sent {
        let queued = batch.queued().min(self.capacity);
        for packet in 0..queued {
            let datagram = batch.datagram(packet);
            let vector = self.vectors.at(packet);
            // SAFETY: `at` points into the array; the kernel only reads memory borrowed with the
            // batch.
            unsafe {
                (*vector).iov_base = datagram.as_ptr().cast_mut().cast();
                (*vector).iov_len = datagram.len();
            }
        }
        let total = queued * self.destinations;
        if self.send_segmented(batch, queued) {
            return Sent { sent: total as u64, ..Sent::default() };
        }
        let hand_over = |next, count| match self.hand_over(next, count) {
            taken @ 1.. => Ok(taken.unsigned_abs()),
            _ => Err(errno()),
        };
        if self.launches.is_none() {
            return send_all(total, hand_over, None);
        }
        let mut dropped = |message| {
            let time = self.launch_time(message / self.destinations);
            time.is_some_and(|time| dropped(&self.socket, time))
        };
        send_all(total, hand_over, Some(&mut dropped))
    }

    fn launch_time(&self, packet: usize) -> Option<u64> {
        let launches = self.launches.as_ref()?;
        let data = packet * self.launch_words() + LAUNCH_WORDS - 1;
        // SAFETY: `at` returns a pointer into the array, which was zero-initialised.
        Some(unsafe { *launches.at(data) })
    }

    fn send_segmented(&mut self, batch: &Batch, queued: usize) -> bool {
        if self.destinations != 1 || self.samples || !self.segments.may_hold(batch, queued) {
            return false;
        }
        // SAFETY: `at` points into the array. The first message has the destination; all packets'
        // vectors are contiguous.
        let header = unsafe { (*self.messages.at(0)).msg_hdr };
        let header = libc::msghdr { msg_iovlen: queued, ..header };
        self.segments.send(&self.socket, header, batch.datagram(0).len())
    }

    /// Returns the number sent, or a negative number. One uses `sendto`, because `sendmmsg` copies
    /// its arrays first, at a tenth of a datagram's cost.
    fn hand_over(&self, next: usize, count: usize) -> isize {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let message = self.messages.at(next);
        let _permit = permit("the socket is non-blocking");
        // SAFETY: `count` initialised messages begin at `next`, each with a vector and a name;
        // `send` just set their pointers.
        unsafe {
            let header = &(*message).msg_hdr;
            if count == 1 && header.msg_controllen == 0 {
                let (bytes, len) = ((*header.msg_iov).iov_base, (*header.msg_iov).iov_len);
                let (name, name_len) = (header.msg_name.cast(), header.msg_namelen);
                let sent = libc::sendto(self.socket.fd(), bytes, len, flags, name, name_len);
                return if sent < 0 { sent } else { 1 };
            }
            libc::sendmmsg(self.socket.fd(), message, count as libc::c_uint, flags) as isize
        }
    }
}

fn send_all(
    total: usize,
    mut hand_over: impl FnMut(usize, usize) -> Result<usize, i32>,
    mut dropped: Option<&mut dyn FnMut(usize) -> bool>,
) -> Sent {
    let (mut outcome, mut next) = (Sent::default(), 0);
    while next < total {
        let answer = hand_over(next, total - next);
        if let Ok(taken) = answer {
            outcome.sent += taken as u64;
            next += taken;
        }
        // ETF refuses late packets with ENOBUFS, and also on the error queue (net/sched/sch_etf.c).
        // After a partial send the errno is lost (sendmmsg(2)); another send would count twice.
        if matches!(answer, Ok(_) | Err(libc::ENOBUFS))
            && next < total
            && dropped.as_mut().is_some_and(|dropped| dropped(next))
        {
            next += 1;
            continue;
        }
        let errno = match answer {
            Ok(_) | Err(libc::EINTR) => continue,
            Err(errno) => errno,
        };
        outcome.last_error = errno;
        let refused = match errno {
            // A launch queue refuses only this packet.
            libc::ENOBUFS if dropped.is_some() => 1,
            libc::EAGAIN | libc::ENOBUFS => total - next,
            _ => 1,
        };
        outcome.refused += refused as u64;
        next += refused;
    }
    outcome
}

fn sample_request() -> Fixed<u64> {
    let request = control_message::<u32>(libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    // SAFETY: the message has room for its header and a u32.
    unsafe {
        let data = libc::CMSG_DATA(request.at(0).cast()).cast::<u32>();
        data.write(libc::SOF_TIMESTAMPING_TX_SOFTWARE);
    }
    request
}

fn control_message<T>(level: libc::c_int, kind: libc::c_int) -> Fixed<u64> {
    let len = size_of::<T>() as u32;
    // SAFETY: CMSG_SPACE only calculates with a length.
    let space = unsafe { libc::CMSG_SPACE(len) } as usize;
    let message = Fixed::<u64>::zeroed(space.div_ceil(8));
    // SAFETY: an array of u64 is aligned for a cmsghdr, and CMSG_SPACE includes room for it and its
    // data.
    unsafe {
        let control = message.at(0).cast::<libc::cmsghdr>();
        ((*control).cmsg_level, (*control).cmsg_type) = (level, kind);
        (*control).cmsg_len = libc::CMSG_LEN(len) as usize;
    }
    message
}

/// Segments per message in the oldest kernel with this option.
const MAX: usize = 64;
const MAX_BYTES: usize = 65_535 - 48;
/// IPv6 minimum MTU (RFC 8200 §5) minus headers: segments are never fragmented.
const LONGEST: usize = 1280 - 48;

pub(crate) struct Segments {
    request: Fixed<u64>,
    known: bool,
}

impl Segments {
    pub(crate) fn new(known: bool) -> Self {
        Self { request: control_message::<u16>(libc::SOL_UDP, libc::UDP_SEGMENT), known }
    }

    pub(crate) fn may_hold(&self, batch: &Batch, queued: usize) -> bool {
        if !self.known || !(2..=MAX).contains(&queued) {
            return false;
        }
        let segment = batch.datagram(0).len();
        let alike = (1..queued - 1).all(|packet| batch.datagram(packet).len() == segment);
        let last = batch.datagram(queued - 1).len();
        alike && last <= segment && segment <= LONGEST && queued * segment <= MAX_BYTES
    }

    /// Sends segments; `false` if refused. Not tried again if unsupported.
    pub(crate) fn send(
        &mut self,
        socket: &Socket,
        mut header: libc::msghdr,
        segment: usize,
    ) -> bool {
        header.msg_control = self.request.at(0).cast();
        header.msg_controllen = self.request.len() * size_of::<u64>();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let _permit = permit("the socket is non-blocking");
        // SAFETY: the request has room for a u16 and is borrowed uniquely; the memory that the
        // header points to is alive.
        let sent = unsafe {
            libc::CMSG_DATA(self.request.at(0).cast()).cast::<u16>().write(segment as u16);
            libc::sendmsg(socket.fd(), &raw const header, flags)
        };
        if sent < 0
            && matches!(errno(), libc::EINVAL | libc::EIO | libc::EOPNOTSUPP | libc::EMSGSIZE)
        {
            self.known = false;
        }
        sent >= 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn send(
        total: usize,
        refuses: impl Fn(usize, usize) -> Option<i32>,
        dropped: Option<&mut dyn FnMut(usize) -> bool>,
    ) -> (Sent, BTreeMap<usize, usize>) {
        let mut tries = BTreeMap::<usize, usize>::new();
        let hand_over = |next: usize, count: usize| {
            for taken in 0..count {
                let tried = tries.entry(next + taken).or_default();
                *tried += 1;
                match refuses(next + taken, *tried) {
                    Some(errno) if taken == 0 => return Err(errno),
                    Some(_) => return Ok(taken),
                    None => {}
                }
            }
            Ok(count)
        };
        let outcome = send_all(total, hand_over, dropped);
        (outcome, tries)
    }

    #[test]
    fn packet_reported_dropped_is_not_also_a_send_error() {
        let late = [0, 3, 4, 9];
        let refuses = |message, _| late.contains(&message).then_some(libc::ENOBUFS);
        let mut counted = 0;
        let mut reported = |message| {
            let dropped = late.contains(&message);
            counted += usize::from(dropped);
            dropped
        };
        let (outcome, tries) = send(10, refuses, Some(&mut reported));
        assert_eq!(outcome, Sent { sent: 6, refused: 0, last_error: 0 });
        assert!(tries.values().all(|tried| *tried == 1), "{tries:?}");
        assert_eq!(counted, late.len());
    }

    #[test]
    fn unreported_refusal_is_an_error_and_the_rest_is_sent() {
        let refuses = |message, _| [2, 5].contains(&message).then_some(libc::ENOBUFS);
        let (outcome, _) = send(8, refuses, Some(&mut |_| false));
        assert_eq!(outcome, Sent { sent: 6, refused: 2, last_error: libc::ENOBUFS });
        let (outcome, _) = send(8, refuses, None);
        assert_eq!(outcome, Sent { sent: 2, refused: 6, last_error: libc::ENOBUFS });
    }

    #[test]
    fn temporarily_refused_packets_are_sent_again() {
        let refuses = |message, tried| (message == 3 && tried == 1).then_some(libc::ECONNREFUSED);
        for launched in [true, false] {
            let mut reported = |_| false;
            let dropped = launched.then_some(&mut reported as &mut dyn FnMut(usize) -> bool);
            let (outcome, tries) = send(6, refuses, dropped);
            assert_eq!(outcome, Sent { sent: 6, refused: 0, last_error: 0 });
            assert_eq!(tries[&3], 2);
        }
    }
}
