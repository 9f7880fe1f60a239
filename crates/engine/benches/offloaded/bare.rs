//! Bare exchange: system calls for equal bytes, optionally with copies for history, concealment and
//! reordering.

use std::hint::black_box;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use tautline_io::link::direct::DirectLink;
use tautline_io::udp::UdpOptions;

use crate::{CHANNELS, FRAMES, HEAD, PART, PARTS};

const ROOM: usize = 32;
const CONTROL: usize = 24;

pub(crate) struct Bare {
    exchanges: Vec<(Exchange, Option<Copies>)>,
    samples: [[f32; FRAMES]; CHANNELS],
}

/// Rings that each block passes: concealment, history, reassembly and playout.
struct Copies {
    rings: [Vec<[[f32; FRAMES]; CHANNELS]>; 4],
    turn: usize,
}

impl Copies {
    fn new() -> Self {
        let ring = |blocks| vec![[[0.25; FRAMES]; CHANNELS]; blocks];
        Self { rings: [ring(64), ring(257), ring(64), ring(32)], turn: 0 }
    }

    fn pass(&mut self, rings: [usize; 2], samples: &mut [[f32; FRAMES]; CHANNELS]) {
        for ring in rings {
            let ring = &mut self.rings[ring];
            let at = self.turn % ring.len();
            ring[at] = *samples;
            *samples = black_box(ring[at]);
        }
        self.turn += 1;
    }
}

impl Bare {
    pub(crate) fn open(workers: &[SocketAddr], copies: bool) -> Self {
        let open = |worker: &SocketAddr| (Exchange::open(*worker), copies.then(Copies::new));
        let exchanges = workers.iter().map(open).collect();
        Self { exchanges, samples: [[0.25; FRAMES]; CHANNELS] }
    }

    pub(crate) fn period(&mut self) {
        for (exchange, copies) in &mut self.exchanges {
            if let Some(copies) = copies {
                copies.pass([0, 1], &mut self.samples);
            }
            exchange.send(&self.samples);
            exchange.receive(&mut self.samples);
            if let Some(copies) = copies {
                copies.pass([2, 3], &mut self.samples);
            }
        }
    }
}

struct Exchange {
    socket: DirectLink,
    out: Box<[[u8; PART]; PARTS]>,
    _name: Box<libc::sockaddr_in>,
    _out_vectors: Box<[libc::iovec; PARTS]>,
    sends: Box<[libc::mmsghdr; PARTS]>,
    bytes: Vec<[u8; PART]>,
    _control: Vec<[u64; CONTROL]>,
    _names: Vec<libc::sockaddr_storage>,
    _vectors: Vec<libc::iovec>,
    receives: Vec<libc::mmsghdr>,
}

impl Exchange {
    fn open(to: SocketAddr) -> Self {
        let socket = DirectLink::open(&UdpOptions::sender(vec![to])).unwrap();
        let mut name = Box::new(libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: to.port().to_be(),
            sin_addr: libc::in_addr { s_addr: 0x7f00_0001_u32.to_be() },
            sin_zero: [0; 8],
        });
        // SAFETY: zeros are valid values of all these structures.
        let (storage, vector, message) = unsafe { core::mem::zeroed() };
        let mut out = Box::new([[0; PART]; PARTS]);
        let mut out_vectors: Box<[libc::iovec; PARTS]> = Box::new([vector; PARTS]);
        let mut sends: Box<[libc::mmsghdr; PARTS]> = Box::new([message; PARTS]);
        for part in 0..PARTS {
            out_vectors[part] =
                libc::iovec { iov_base: out[part].as_mut_ptr().cast(), iov_len: PART };
            let header = &mut sends[part].msg_hdr;
            header.msg_name = (&raw mut *name).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
            header.msg_iov = &raw mut out_vectors[part];
            header.msg_iovlen = 1;
        }
        let mut bytes = vec![[0; PART]; ROOM];
        let mut control = vec![[0; CONTROL]; ROOM];
        let mut names: Vec<libc::sockaddr_storage> = vec![storage; ROOM];
        let mut vectors: Vec<libc::iovec> = vec![vector; ROOM];
        let mut receives: Vec<libc::mmsghdr> = vec![message; ROOM];
        for index in 0..ROOM {
            vectors[index] =
                libc::iovec { iov_base: bytes[index].as_mut_ptr().cast(), iov_len: PART };
            let header = &mut receives[index].msg_hdr;
            header.msg_name = (&raw mut names[index]).cast();
            header.msg_iov = &raw mut vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = control[index].as_mut_ptr().cast();
        }
        let mut exchange = Self {
            socket,
            out,
            _name: name,
            _out_vectors: out_vectors,
            sends,
            bytes,
            _control: control,
            _names: names,
            _vectors: vectors,
            receives,
        };
        exchange.rearm(ROOM);
        exchange
    }

    fn rearm(&mut self, count: usize) {
        for message in &mut self.receives[..count] {
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            message.msg_hdr.msg_controllen = 8 * CONTROL;
        }
    }

    fn send(&mut self, samples: &[[f32; FRAMES]; CHANNELS]) {
        for (datagram, channel) in self.out.iter_mut().zip(samples) {
            let (places, _) = datagram[HEAD..].as_chunks_mut();
            places.iter_mut().zip(channel).for_each(|(place, s)| *place = s.to_ne_bytes());
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let fd = self.socket.as_fd().as_raw_fd();
        // SAFETY: the array has this many messages, and everything that they point to lives in
        // boxes of its own.
        let sent = unsafe { libc::sendmmsg(fd, self.sends.as_mut_ptr(), PARTS as u32, flags) };
        assert_eq!(sent, PARTS as i32);
    }

    fn receive(&mut self, samples: &mut [[f32; FRAMES]; CHANNELS]) {
        let (fd, none) = (self.socket.as_fd().as_raw_fd(), core::ptr::null_mut());
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the array has this many messages, and everything that they point to outlives the
        // call.
        let got =
            unsafe { libc::recvmmsg(fd, self.receives.as_mut_ptr(), ROOM as u32, flags, none) };
        let got = got.max(0) as usize;
        for (datagram, channel) in self.bytes[..got].iter().zip(samples) {
            let (places, _) = datagram[HEAD..].as_chunks();
            channel.iter_mut().zip(places).for_each(|(s, place)| *s = f32::from_ne_bytes(*place));
            black_box(&channel);
        }
        self.rearm(got);
    }
}
