//! A link over two unnamed Unix sockets, with a wire thread's requirements.

use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use crate::common::{collect, departure, outgoing};
use tautline_io::clock::now;
use tautline_io::link::event_queue::{EventSender, LinkEvent, event_channel};
use tautline_io::link::threaded::{Spacing, ThreadedLink, WireOptions};
use tautline_io::link::{Datagram, Link, LinkCounters, Pollable, TransmitStamp};
use tautline_io::thread::Scheduler;
use tautline_io::thread::realtime::permit;
use tautline_proto::endpoint::{Arrival, Endpoint};
use tautline_proto::stream::Outgoing;
use tautline_proto::time::Span;

const LONGEST: usize = 64;
const BATCH: usize = 4;

struct Unix {
    socket: UnixDatagram,
    /// Preallocated: the wire thread does not allocate.
    queued: Vec<(usize, [u8; LONGEST])>,
    stamps: Vec<TransmitStamp>,
    counters: LinkCounters,
    event_sender: Option<EventSender>,
}

fn pair() -> [Unix; 2] {
    let (one, other) = UnixDatagram::pair().unwrap();
    [one, other].map(|socket| {
        socket.set_nonblocking(true).unwrap();
        let (queued, stamps) = (Vec::with_capacity(BATCH), Vec::with_capacity(64));
        Unix { socket, queued, stamps, counters: LinkCounters::default(), event_sender: None }
    })
}

const FAR: Endpoint = Endpoint::Connection(1);

impl Link for Unix {
    fn notify(&mut self, mut event_sender: EventSender) {
        event_sender.event(LinkEvent::Connected(FAR));
        self.event_sender = Some(event_sender);
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        assert!(!self.is_full(), "the caller checks for room first");
        let mut queued = (packet.datagram.len(), [0; LONGEST]);
        queued.1[..queued.0].copy_from_slice(packet.datagram);
        self.queued.push(queued);
        let (media, handed) = (packet.instants.media, now());
        let uncertainty = Span::ZERO;
        // Without arrivals nothing reads these samples.
        if self.stamps.len() < self.stamps.capacity() {
            self.stamps.push(TransmitStamp { media, handed, left: handed, uncertainty });
        }
        true
    }

    fn flush(&mut self) {
        let _permit = permit("the socket is non-blocking");
        for (len, datagram) in self.queued.drain(..) {
            match self.socket.send(&datagram[..len]) {
                Ok(_) => self.counters.sent += 1,
                Err(error) => {
                    let errno = error.raw_os_error().unwrap();
                    let event_sender = self.event_sender.as_mut().unwrap();
                    event_sender.event(LinkEvent::Error(errno));
                    event_sender.event(LinkEvent::Lost(FAR));
                }
            }
        }
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        let mut room = [0; LONGEST];
        let permitted = |room: &mut [u8]| {
            let _permit = permit("the socket is non-blocking");
            self.socket.recv(room)
        };
        while let Ok(len) = permitted(&mut room) {
            self.counters.received += 1;
            let read = now();
            let arrival = Arrival { from: FAR, at: read, uncertainty: Span::MAX, read };
            deliver(Datagram { bytes: &room[..len], arrival, truncated: false });
        }
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.stamps.drain(..).for_each(deliver);
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl AsFd for Unix {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Pollable for Unix {
    fn datagram_bytes(&self) -> usize {
        LONGEST
    }

    fn is_full(&self) -> bool {
        self.queued.len() == BATCH
    }
}

fn ringed(link: Unix) -> ThreadedLink {
    let wire =
        WireOptions { scheduler: Scheduler::Other, ring_packets: 32, spacing: Spacing::default() };
    ThreadedLink::start(link, wire).unwrap()
}

#[test]
fn a_wire_thread_runs_a_link_that_is_no_udp() {
    let [mut sender, mut receiver] = pair().map(ringed);
    let start = now() + Span::from_millis(2);
    for number in 0..16u8 {
        let due = start + Span::from_millis(i64::from(number.saturating_sub(12)));
        let instants = departure(start, due);
        assert!(sender.queue(&Outgoing { instants, ..outgoing(&mut [number; 3]) }));
    }
    assert!(!sender.queue(&outgoing(&mut [0; LONGEST + 1])), "longer than the link was opened for");
    sender.flush();
    let got = collect(&mut receiver, 16);
    assert!(got.iter().enumerate().all(|(number, got)| got.bytes == [number as u8; 3]));
    assert!(got[15].read >= start + Span::from_millis(3), "the last left before its time");
    assert_eq!(sender.counters().dropped, 1);
    while (sender.counters().sent, receiver.counters().received) != (16, 16) {
        std::thread::yield_now();
    }
    let mut stamps = 0;
    // Timestamps are read after an arrival, so the other end sends.
    while stamps < 16 {
        receiver.queue(&outgoing(&mut [1]));
        receiver.flush();
        sender.transmit_stamps(&mut |_| stamps += 1);
        std::thread::yield_now();
    }
}

#[test]
fn wire_thread_events_bypass_the_device_thread() {
    let [sender, receiver] = pair();
    let mut sender = ringed(sender);
    let (event_sender, mut reported) = event_channel(4);
    sender.notify(event_sender);
    let mut next =
        || std::iter::repeat_with(|| reported.events.pop().ok()).flatten().next().unwrap();
    assert_eq!(next(), LinkEvent::Connected(FAR));
    // Not by dropping: another test's forked child could hold a copy open.
    receiver.socket.shutdown(Shutdown::Both).unwrap();
    sender.queue(&outgoing(&mut [1]));
    sender.flush();
    assert_eq!(next(), LinkEvent::Error(libc::EPIPE));
    assert_eq!(next(), LinkEvent::Lost(FAR));
}
