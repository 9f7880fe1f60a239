//! Bare loop: only the system calls.

use std::hint::black_box;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use tautline_dsp::format::{SampleFormat, decode, encode};
use tautline_io::clock::{WallClock, now};
use tautline_io::link::direct::DirectLink;
use tautline_proto::wire::rtp::STAMPED_HEADER_BYTES;

use crate::ours::{receiving, sending};
use crate::{Cost, SAMPLES, processor};

const ROOM: usize = 32;
const CONTROL: usize = 24;
const BYTES: usize = 20 * 2 * SAMPLES + STAMPED_HEADER_BYTES;
const PACKET: usize = STAMPED_HEADER_BYTES + 2 * SAMPLES;

pub(crate) struct Bare {
    streams: Vec<(Outgoing, Incoming)>,
    block: [f32; SAMPLES],
    played: [f32; SAMPLES],
}

impl Bare {
    pub(crate) fn open(streams: usize) -> Self {
        let pair = |_| {
            let incoming = Incoming::open();
            (Outgoing::open(&incoming), incoming)
        };
        Self {
            streams: (0..streams).map(pair).collect(),
            block: std::array::from_fn(|index| (index as f32 * 0.37).sin() * 0.5),
            played: [0.0; SAMPLES],
        }
    }

    pub(crate) fn period(&mut self) -> Cost {
        let begin = processor();
        for (outgoing, _) in &mut self.streams {
            // Pacing reads the clock on wake-up and departure.
            black_box(now());
            outgoing.send(&self.block);
        }
        let sent = processor();
        black_box(now());
        for (_, incoming) in &mut self.streams {
            incoming.receive(&mut self.played);
        }
        let received = processor();
        Cost { send: sent - begin, recv: received - sent }
    }
}

struct Outgoing {
    socket: DirectLink,
    datagram: Box<[u8; PACKET]>,
    name: Box<libc::sockaddr_in>,
    vector: Box<libc::iovec>,
    message: Box<libc::mmsghdr>,
    sequence: u16,
    timestamp: u32,
}

impl Outgoing {
    fn open(to: &Incoming) -> Self {
        let address = to.socket.local();
        // SAFETY: zeros are valid values of all these structures.
        let (vector, message) = unsafe { core::mem::zeroed() };
        let mut outgoing = Self {
            socket: DirectLink::open(&sending(address)).unwrap(),
            datagram: Box::new([0x90; PACKET]),
            name: Box::new(libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: 0x7f00_0001_u32.to_be() },
                sin_zero: [0; 8],
            }),
            vector: Box::new(vector),
            message: Box::new(message),
            sequence: 0,
            timestamp: 0,
        };
        outgoing.vector.iov_base = outgoing.datagram.as_mut_ptr().cast();
        outgoing.vector.iov_len = PACKET;
        let header = &mut outgoing.message.msg_hdr;
        header.msg_name = (&raw mut *outgoing.name).cast();
        header.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
        header.msg_iov = &raw mut *outgoing.vector;
        header.msg_iovlen = 1;
        outgoing
    }

    fn send(&mut self, block: &[f32; SAMPLES]) {
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(crate::FRAMES as u32);
        self.datagram[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        self.datagram[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        let departs = now().as_nanos().to_be_bytes();
        self.datagram[17..25].copy_from_slice(&departs);
        encode(SampleFormat::L16, block, &mut self.datagram[STAMPED_HEADER_BYTES..]);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: there is one message, and everything that it points to lives in boxes of its own.
        let sent = unsafe {
            libc::sendmmsg(self.socket.as_fd().as_raw_fd(), &raw mut *self.message, 1, flags)
        };
        assert_eq!(sent, 1);
    }
}

struct Incoming {
    socket: DirectLink,
    offset: i64,
    bytes: Vec<u8>,
    control: Vec<[u64; CONTROL]>,
    _names: Vec<libc::sockaddr_storage>,
    _vectors: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

impl Incoming {
    fn open() -> Self {
        // SAFETY: zeros are valid values of all these structures.
        let (name, vector, message) = unsafe { core::mem::zeroed() };
        let mut incoming = Self {
            socket: DirectLink::open(&receiving()).unwrap(),
            offset: WallClock::frozen().offset().as_nanos(),
            bytes: vec![0; ROOM * BYTES],
            control: vec![[0; CONTROL]; ROOM],
            _names: vec![name; ROOM],
            _vectors: vec![vector; ROOM],
            messages: vec![message; ROOM],
        };
        for (index, bytes) in incoming.bytes.chunks_mut(BYTES).enumerate() {
            incoming._vectors[index] =
                libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: BYTES };
            let header = &mut incoming.messages[index].msg_hdr;
            header.msg_name = (&raw mut incoming._names[index]).cast();
            header.msg_iov = &raw mut incoming._vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = incoming.control[index].as_mut_ptr().cast();
        }
        incoming.rearm(ROOM);
        incoming
    }

    fn rearm(&mut self, count: usize) {
        for message in &mut self.messages[..count] {
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            message.msg_hdr.msg_controllen = 8 * CONTROL;
        }
    }

    fn receive(&mut self, played: &mut [f32; SAMPLES]) {
        let count = fetch(self.socket.as_fd().as_raw_fd(), &mut self.messages);
        assert_eq!(count, 1);
        black_box(now());
        for index in 0..count {
            black_box(stamp(&self.messages[index].msg_hdr).map(|stamp| stamp - self.offset));
            let len = self.messages[index].msg_len as usize;
            let datagram = &self.bytes[index * BYTES..index * BYTES + len];
            decode(SampleFormat::L16, &datagram[STAMPED_HEADER_BYTES..], played);
            black_box(&played);
        }
        self.rearm(count);
    }
}

fn fetch(fd: RawFd, messages: &mut [libc::mmsghdr]) -> usize {
    let none = core::ptr::null_mut();
    let room = messages.len() as u32;
    // SAFETY: the array has this many messages.
    let got = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), room, libc::MSG_DONTWAIT, none) };
    got.max(0) as usize
}

fn stamp(header: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel filled the header and the control buffer is alive; the data is read only
    // as the type that the kernel states.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            if (*control).cmsg_type == libc::SCM_TIMESTAMPING {
                let time = libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned();
                return Some(time.tv_sec * 1_000_000_000 + time.tv_nsec);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}
