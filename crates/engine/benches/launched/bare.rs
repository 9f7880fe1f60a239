//! Bare loop: a system call per socket and period.

use std::hint::black_box;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use tautline_dsp::format::{SampleFormat, encode};
use tautline_io::clock::now;
use tautline_io::ethernet::interface_number;
use tautline_io::link::direct::DirectLink;
use tautline_proto::wire::avtp::ETHERTYPE;

use crate::ours::{NOBODY, by_ethernet, by_udp, head_bytes};
use crate::{BLOCK, BenchWire, LAUNCH, PACKETS, SAMPLES, format};

const WORDS: usize = 3;

pub(crate) struct Bare {
    streams: Vec<Outgoing>,
    block: [f32; BLOCK],
}

impl Bare {
    pub(crate) fn open(wire: BenchWire, streams: usize) -> Option<Self> {
        let streams = (0..streams).map(|_| Outgoing::open(wire)).collect::<Option<_>>()?;
        Some(Self {
            streams,
            block: std::array::from_fn(|index| (index as f32 * 0.37).sin() * 0.5),
        })
    }

    pub(crate) fn period(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.send(&self.block));
    }
}

struct Outgoing {
    socket: DirectLink,
    head: usize,
    datagrams: Vec<Vec<u8>>,
    control: Vec<[u64; WORDS]>,
    _name: Box<libc::sockaddr_storage>,
    _vectors: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    number: u16,
}

impl Outgoing {
    fn open(wire: BenchWire) -> Option<Self> {
        let socket = match wire {
            BenchWire::Rtp => DirectLink::open(&by_udp(NOBODY)),
            BenchWire::Avtp => DirectLink::open_ethernet(&by_ethernet()),
        };
        let (head, len) = (head_bytes(wire), format().payload_bytes());
        let (name, name_len) = match wire {
            BenchWire::Rtp => by_inet(),
            BenchWire::Avtp => by_packet()?,
        };
        let mut name = Box::new(name);
        let mut datagrams = vec![vec![0_u8; head + len]; PACKETS];
        let mut control = vec![[0; WORDS]; PACKETS];
        let vector = |datagram: &mut Vec<u8>| libc::iovec {
            iov_base: datagram.as_mut_ptr().cast(),
            iov_len: datagram.len(),
        };
        let mut vectors: Vec<libc::iovec> = datagrams.iter_mut().map(vector).collect();
        let messages = vectors.iter_mut().zip(&mut control).map(|(vector, control)| {
            // SAFETY: zeros are a valid mmsghdr.
            let mut message: libc::mmsghdr = unsafe { core::mem::zeroed() };
            let header = &mut message.msg_hdr;
            (header.msg_name, header.msg_namelen) = ((&raw mut *name).cast(), name_len);
            (header.msg_iov, header.msg_iovlen) = (vector, 1);
            (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), 8 * WORDS);
            // SAFETY: three words hold the header of a control message and one word of data,
            // aligned.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const *header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_TXTIME;
                (*first).cmsg_len = libc::CMSG_LEN(8) as usize;
            }
            message
        });
        let messages = messages.collect();
        Some(Self {
            socket: socket.ok()?,
            head,
            datagrams,
            control,
            _name: name,
            _vectors: vectors,
            messages,
            number: 0,
        })
    }

    fn send(&mut self, block: &[f32; BLOCK]) {
        let (begin, ptime) = (now() + LAUNCH.lead, format().ptime());
        let packets = self.datagrams.iter_mut().zip(&mut self.control).zip(block.chunks(SAMPLES));
        for (index, ((datagram, control), samples)) in packets.enumerate() {
            self.number = self.number.wrapping_add(1);
            datagram[2..4].copy_from_slice(&self.number.to_be_bytes());
            control[WORDS - 1] = (begin + ptime.times(index as i64)).as_nanos().cast_unsigned();
            encode(SampleFormat::L24, samples, &mut datagram[self.head..]);
        }
        black_box(&self.datagrams);
        let (fd, flags) =
            (self.socket.as_fd().as_raw_fd(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        // SAFETY: the array has this many messages, and everything that they point to outlives the
        // call.
        let sent =
            unsafe { libc::sendmmsg(fd, self.messages.as_mut_ptr(), PACKETS as u32, flags as _) };
        assert_eq!(sent, PACKETS as i32, "{}", std::io::Error::last_os_error());
    }
}

fn by_inet() -> (libc::sockaddr_storage, u32) {
    // SAFETY: zeros are a valid address of any family.
    let mut name: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    let SocketAddr::V4(to) = NOBODY else { unreachable!("an address of IPv4") };
    // SAFETY: a storage holds an address of any family, aligned for it.
    let inet = unsafe { &mut *(&raw mut name).cast::<libc::sockaddr_in>() };
    inet.sin_family = libc::AF_INET as u16;
    inet.sin_port = to.port().to_be();
    inet.sin_addr = libc::in_addr { s_addr: u32::from(*to.ip()).to_be() };
    (name, size_of::<libc::sockaddr_in>() as u32)
}

fn by_packet() -> Option<(libc::sockaddr_storage, u32)> {
    let options = by_ethernet();
    // SAFETY: zeros are a valid address of any family.
    let mut name: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    // SAFETY: a storage holds an address of any family, aligned for it.
    let link = unsafe { &mut *(&raw mut name).cast::<libc::sockaddr_ll>() };
    link.sll_family = libc::AF_PACKET as u16;
    link.sll_protocol = ETHERTYPE.to_be();
    link.sll_ifindex = interface_number(&options.interface)? as i32;
    link.sll_halen = options.address.len() as u8;
    link.sll_addr[..options.address.len()].copy_from_slice(&options.address);
    Some((name, size_of::<libc::sockaddr_ll>() as u32))
}
