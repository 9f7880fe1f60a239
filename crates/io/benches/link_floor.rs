//! Cost of a link per packet and of a bare `sendmmsg`/`recvmmsg` loop with the same options, in the
//! thread's processor time. Per case: direction, packets per call, ns per packet of both, bare /
//! link.
//!
//! Rounds alternate and the cheapest counts, so a busy host affects neither.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot open its socket is over")]

use std::hint::black_box;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::udp::UdpOptions;
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, MediaTime};

/// 1 ms of stereo L16 at 48 kHz, RTP header, small extension.
const BYTES: usize = 12 + 16 + 192;
const ROUNDS: usize = 60;
const CALLS: usize = 100;

fn main() {
    for batch in [1, 4, 10, 32] {
        let (mut link, mut bare) = (f64::MAX, f64::MAX);
        let mut sending = Sending::new(batch);
        for _ in 0..ROUNDS {
            link = link.min(sending.link_round());
            bare = bare.min(sending.bare_round());
        }
        report("send", batch, link, bare);
    }
    for batch in [1, 4, 10, 32] {
        let (mut link, mut bare) = (f64::MAX, f64::MAX);
        let mut receiving = Receiving::new(batch);
        for _ in 0..ROUNDS {
            link = link.min(receiving.link_round());
            bare = bare.min(receiving.bare_round());
        }
        report("receive", batch, link, bare);
    }
}

fn report(direction: &str, batch: usize, link: f64, bare: f64) {
    println!(
        "{direction:8} {batch:3} per call: link {link:7.1} ns, bare {bare:7.1} ns, ratio {:.3}",
        bare / link
    );
}

fn processor() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn sink() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn empty(socket: &UdpSocket) {
    socket.set_nonblocking(true).unwrap();
    let mut bytes = [0; 2048];
    while socket.recv(&mut bytes).is_ok() {}
}

fn instants(at: LocalTime) -> Departure {
    Departure::at_once(MediaTime::ZERO, at)
}

struct Sending {
    sink: UdpSocket,
    link: DirectLink,
    bare: Bare,
    bare_socket: DirectLink,
    batch: usize,
    payload: [u8; BYTES],
}

impl Sending {
    fn new(batch: usize) -> Self {
        let sink = sink();
        let options = UdpOptions::sender(vec![sink.local_addr().unwrap()]);
        Self {
            link: DirectLink::open(&options).unwrap(),
            bare: Bare::sending(batch, sink.local_addr().unwrap().port()),
            bare_socket: DirectLink::open(&options).unwrap(),
            sink,
            batch,
            payload: [1; BYTES],
        }
    }

    fn link_round(&mut self) -> f64 {
        let mut total = 0;
        for _ in 0..CALLS {
            let start = processor();
            let at = now();
            for _ in 0..self.batch {
                let datagram = &mut self.payload[..];
                let packet =
                    Outgoing { datagram, instants: instants(at), handed_at: Some(16), again: None };
                black_box(self.link.queue(&packet));
            }
            self.link.flush();
            total += processor() - start;
            empty(&self.sink);
        }
        total as f64 / (CALLS * self.batch) as f64
    }

    fn bare_round(&mut self) -> f64 {
        let mut total = 0;
        for _ in 0..CALLS {
            let start = processor();
            let at = now();
            for packet in 0..self.batch {
                self.bare.slot(packet).copy_from_slice(&self.payload);
            }
            black_box(at);
            self.bare.send(self.bare_socket.as_fd().as_raw_fd());
            total += processor() - start;
            empty(&self.sink);
        }
        total as f64 / (CALLS * self.batch) as f64
    }
}

struct Receiving {
    source: UdpSocket,
    link: DirectLink,
    bare: Bare,
    batch: usize,
}

impl Receiving {
    fn new(batch: usize) -> Self {
        let options = UdpOptions::receiver("127.0.0.1:0".parse().unwrap());
        Self {
            source: sink(),
            link: DirectLink::open(&options).unwrap(),
            bare: Bare::receiving(),
            batch,
        }
    }

    fn fill(&self) {
        for _ in 0..self.batch {
            self.source.send_to(&[1; BYTES], self.link.local()).unwrap();
        }
    }

    fn link_round(&mut self) -> f64 {
        let mut total = 0;
        for _ in 0..CALLS {
            self.fill();
            let start = processor();
            let mut count = 0;
            self.link.receive(&mut |datagram| {
                black_box((datagram.bytes[0], datagram.arrival.at));
                count += 1;
            });
            total += processor() - start;
            assert_eq!(count, self.batch);
        }
        total as f64 / (CALLS * self.batch) as f64
    }

    fn bare_round(&mut self) -> f64 {
        let mut total = 0;
        for _ in 0..CALLS {
            self.fill();
            let start = processor();
            let mut count = 0;
            loop {
                let got = self.bare.receive(self.link.as_fd().as_raw_fd());
                if got == 0 {
                    break;
                }
                black_box(now());
                for packet in 0..got {
                    black_box((self.bare.slot(packet)[0], self.bare.stamp(packet)));
                }
                count += got;
                if got < ROOM {
                    break;
                }
            }
            total += processor() - start;
            assert_eq!(count, self.batch);
        }
        total as f64 / (CALLS * self.batch) as f64
    }
}

/// As [`UdpOptions::batch`].
const ROOM: usize = 32;
const CONTROL: usize = 24;

struct Bare {
    bytes: Vec<[u8; BYTES]>,
    control: Vec<[u64; CONTROL]>,
    names: Vec<libc::sockaddr_storage>,
    _vectors: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    count: usize,
}

impl Bare {
    fn sending(batch: usize, port: u16) -> Self {
        let mut bare = Self::receiving();
        bare.count = batch;
        for (name, message) in bare.names.iter_mut().zip(&mut bare.messages) {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: port.to_be(),
                sin_addr: libc::in_addr { s_addr: 0x7f00_0001_u32.to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is larger than the address and aligned for it.
            unsafe { core::ptr::from_mut(name).cast::<libc::sockaddr_in>().write(address) };
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
            message.msg_hdr.msg_control = core::ptr::null_mut();
            message.msg_hdr.msg_controllen = 0;
        }
        bare
    }

    fn receiving() -> Self {
        // SAFETY: zeros are valid values of all these structures.
        let (name, vector, message) = unsafe { core::mem::zeroed() };
        let mut bare = Self {
            bytes: vec![[0; BYTES]; ROOM],
            control: vec![[0; CONTROL]; ROOM],
            names: vec![name; ROOM],
            _vectors: vec![vector; ROOM],
            messages: vec![message; ROOM],
            count: ROOM,
        };
        for index in 0..ROOM {
            bare._vectors[index] =
                libc::iovec { iov_base: bare.bytes[index].as_mut_ptr().cast(), iov_len: BYTES };
            let header = &mut bare.messages[index].msg_hdr;
            header.msg_name = (&raw mut bare.names[index]).cast();
            header.msg_iov = &raw mut bare._vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = bare.control[index].as_mut_ptr().cast();
        }
        bare.rearm(ROOM);
        bare
    }

    fn rearm(&mut self, count: usize) {
        for message in &mut self.messages[..count] {
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            message.msg_hdr.msg_controllen = 8 * CONTROL;
        }
    }

    fn slot(&mut self, index: usize) -> &mut [u8; BYTES] {
        &mut self.bytes[index]
    }

    fn send(&mut self, fd: RawFd) {
        let messages = self.messages.as_mut_ptr();
        // SAFETY: `count` messages are set up.
        let sent = unsafe { libc::sendmmsg(fd, messages, self.count as u32, libc::MSG_DONTWAIT) };
        assert_eq!(sent as usize, self.count);
    }

    fn receive(&mut self, fd: RawFd) -> usize {
        let none = core::ptr::null_mut();
        let messages = self.messages.as_mut_ptr();
        // SAFETY: `ROOM` messages are set up.
        let got = unsafe { libc::recvmmsg(fd, messages, ROOM as u32, libc::MSG_DONTWAIT, none) };
        let got = got.max(0) as usize;
        self.rearm_after(got);
        got
    }

    fn rearm_after(&mut self, got: usize) {
        for message in &mut self.messages[..got] {
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
        }
    }

    fn stamp(&mut self, index: usize) -> i64 {
        let header = &mut self.messages[index].msg_hdr;
        // SAFETY: the kernel filled the header; the control buffer is alive.
        let stamp = unsafe {
            let control = libc::CMSG_FIRSTHDR(header);
            libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned()
        };
        header.msg_controllen = 8 * CONTROL;
        stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec
    }
}
