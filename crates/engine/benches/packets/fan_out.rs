//! One stream to many destinations: an announcement that is sent to each zone. The baseline is one
//! bare `sendmmsg` of as many equal packets to the same sockets.

use std::hint::black_box;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use tautline_dsp::format::{SampleFormat, encode};
use tautline_engine::plan::SendPlan;
use tautline_engine::send_engine::SendEngine;
use tautline_io::clock::now;
use tautline_io::link::direct::DirectLink;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::open_stream;
use tautline_proto::device::{Cycle, Settings, Side, Stop};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::rtp::STAMPED_HEADER_BYTES;

use crate::lender::{clock, lender};
use crate::ours::{DEVICE, FORMAT, OPTIONS};
use crate::{TURNS, median_of, processor};

const PERIOD: Span = Span::from_millis(5);
const FRAMES: i64 = 240;
const SAMPLES: usize = 2 * FRAMES as usize;
const BYTES: usize = STAMPED_HEADER_BYTES + 2 * SAMPLES;
const WARM_UP: usize = 20;

fn options(to: &[SocketAddr]) -> UdpOptions {
    let mut options = UdpOptions::sender(to.to_vec());
    options.datagram_bytes = BYTES;
    options
}

pub(crate) fn fan_out(zones: usize) {
    // Their buffers fill up, then the kernel drops packets of both sides alike.
    let sinks: Vec<UdpSocket> =
        (0..zones).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let to: Vec<SocketAddr> = sinks.iter().map(|sink| sink.local_addr().unwrap()).collect();
    let mut bare = Bare::new(&to);
    let packet = Frames::new(FRAMES);
    let (format, device) =
        (StreamFormat { packet, ..FORMAT }, Settings { period: packet, ..DEVICE });
    let opened = open_stream(&options(&to), None).unwrap();
    let plan = SendPlan::new("zones".to_owned(), opened, format, device).unwrap();
    let (engine, stop) = (SendEngine::new(plan).unwrap(), Stop::default());
    let (device, loan) = lender(device);
    let ends = stop.clone();
    let running = std::thread::spawn(move || {
        engine.run(Box::new(device), &OPTIONS, &ends, &mut |_| {}).unwrap()
    });
    let mut loan = loan();
    let mut block: [f32; SAMPLES] = core::array::from_fn(|index| (index as f32 * 0.37).sin() * 0.5);
    let (mut costs_ours, mut costs_bare) = (Vec::new(), Vec::new());
    // No block is captured after it is taken.
    let mut capture = now() - PERIOD.times((WARM_UP + TURNS) as i64);
    for turn in 0..WARM_UP + TURNS {
        let begin = processor();
        let samples = &mut block[..];
        let (uncertainty, skipped) = (Span::ZERO, Frames::ZERO);
        let captured = Side { samples, meets: capture, uncertainty, skipped };
        loan.process.process(&mut Cycle {
            now: now(),
            capture: captured,
            playback: Side::absent(),
            xruns: 0,
            clock: Some(clock()),
        });
        let ours = processor() - begin;
        let begin = processor();
        bare.send(&block, capture);
        let bare = processor() - begin;
        capture += PERIOD;
        if turn >= WARM_UP {
            costs_ours.push(ours / zones as f64);
            costs_bare.push(bare / zones as f64);
        }
    }
    loan.end();
    stop.request();
    let counters = running.join().unwrap().streams.remove(0).counters;
    assert_eq!(counters.send_errors, 0, "{counters:?}");
    let (ours, bare) = (median_of(costs_ours), median_of(costs_bare));
    println!("fan-out {zones}: taut {ours:7.1} ns, bare {bare:7.1} ns, ratio {:.3}", ours / bare);
}

struct Bare {
    socket: DirectLink,
    datagram: Box<[u8; BYTES]>,
    _names: Vec<libc::sockaddr_in>,
    _vector: Box<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    sequence: u16,
}

impl Bare {
    fn new(to: &[SocketAddr]) -> Self {
        let mut datagram = Box::new([0x90; BYTES]);
        let vector =
            Box::new(libc::iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: BYTES });
        let name = |to: &SocketAddr| libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: to.port().to_be(),
            sin_addr: libc::in_addr { s_addr: 0x7f00_0001_u32.to_be() },
            sin_zero: [0; 8],
        };
        let mut names: Vec<libc::sockaddr_in> = to.iter().map(name).collect();
        let message = |name: &mut libc::sockaddr_in| {
            // SAFETY: zeros are a valid value of this structure.
            let mut message: libc::mmsghdr = unsafe { core::mem::zeroed() };
            message.msg_hdr.msg_name = core::ptr::from_mut(name).cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
            message.msg_hdr.msg_iov = core::ptr::from_ref(&*vector).cast_mut();
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let messages = names.iter_mut().map(message).collect();
        let socket = DirectLink::open(&options(to)).unwrap();
        Self { socket, datagram, _names: names, _vector: vector, messages, sequence: 0 }
    }

    fn send(&mut self, block: &[f32], capture: LocalTime) {
        self.sequence = self.sequence.wrapping_add(1);
        self.datagram[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        self.datagram[17..25].copy_from_slice(&capture.as_nanos().to_be_bytes());
        encode(SampleFormat::L16, block, &mut self.datagram[STAMPED_HEADER_BYTES..]);
        black_box(now());
        let (descriptor, count) = (self.socket.as_fd().as_raw_fd(), self.messages.len());
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let mut next = 0;
        while next < count {
            // SAFETY: `count - next` messages begin there. They point to the name of their
            // destination and to one vector, which all live as long as this.
            let sent = unsafe {
                let messages = self.messages.as_mut_ptr().add(next);
                libc::sendmmsg(descriptor, messages, (count - next) as u32, flags)
            };
            assert!(sent > 0);
            next += sent as usize;
        }
    }
}
