//! Without a queue that supports launch times, reports are timestamps or built like the kernel's.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tautline_proto::ledger::Departure;
use tautline_proto::time::{MediaTime, Span};

use super::*;
use crate::clock::sleep_until;
use crate::link::event_queue::event_channel;
use crate::link::threaded::{Spacing, ThreadedLink, WireOptions};
use crate::socket::launch::LaunchClock;
use crate::socket::timestamp::{PACKET_TX_TIMESTAMP, tests as reported};
use crate::thread::Scheduler;
use crate::udp::UdpOptions;

const LAUNCH: LaunchOptions = LaunchOptions {
    clock: LaunchClock::Monotonic,
    lead: Span::ZERO,
    minimum: Span::ZERO,
    ahead: Span::ZERO,
};

const WIRE: WireOptions =
    WireOptions { scheduler: Scheduler::Other, ring_packets: 8, spacing: SPACING };
const SPACING: Spacing = Spacing { together: usize::MAX, lead: Span::ZERO };

fn receiver() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(core::time::Duration::from_secs(10))).expect("a time-out");
    socket
}

fn by_two_networks() -> (DirectLink, [UdpSocket; 2]) {
    let receivers = [receiver(), receiver()];
    let [first, second] = receivers.each_ref().map(|receiver| {
        let to: SocketAddr = receiver.local_addr().expect("an address");
        UdpOptions { launch: Some(LAUNCH), ..UdpOptions::sender(vec![to]) }
    });
    let options = UdpOptions { also: Some(Box::new(second)), ..first };
    (DirectLink::open(&options).expect("a link"), receivers)
}

fn with_samples_far_apart() -> (DirectLink, UdpSocket) {
    let receiver = receiver();
    let options = UdpOptions {
        datagram_bytes: 70_000,
        transmit_stamp_every: 100,
        ..UdpOptions::sender(vec![receiver.local_addr().expect("an address")])
    };
    (DirectLink::open(&options).expect("a link"), receiver)
}

fn second_of(link: &DirectLink) -> &Outlet {
    link.also.as_deref().expect("a second network")
}

fn packet(media: i64) -> Departure {
    let at = now();
    let media = MediaTime::from_frames(media);
    Departure { media, capture: at, taken: at, packed: at, due: at, handed: at, launched: at }
}

fn send(link: &mut impl Link, media: i64) {
    let instants = packet(media);
    let (handed_at, again) = (None, None);
    assert!(link.queue(&Outgoing { datagram: &mut [0; 4], instants, handed_at, again }));
    link.flush();
}

fn has_errors(fd: &impl AsRawFd) -> bool {
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: `polled` is one valid pollfd, and the call does not wait.
    unsafe { libc::poll(&raw mut polled, 1, 0) };
    polled.revents & libc::POLLERR != 0
}

#[test]
fn replies_of_the_second_network_are_read() {
    let (mut link, receivers) = by_two_networks();
    link.also.as_mut().expect("a second network").sample(0);
    send(&mut link, 0);
    receivers.iter().for_each(|receiver| assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 4));
    let second = second_of(&link).socket.as_fd().try_clone_to_owned().unwrap();
    assert!(has_errors(&second), "the stamp is there before the packet has come");
    link.transmit_stamps(&mut |stamp| panic!("it was not requested: {stamp:?}"));
    assert!(!has_errors(&second));
}

#[test]
fn wire_thread_reads_errors_of_the_second_network_alone() {
    let (mut link, receivers) = by_two_networks();
    link.also.as_mut().expect("a second network").sample(0);
    let second: OwnedFd = second_of(&link).socket.as_fd().try_clone_to_owned().unwrap();
    let mut ringed = ThreadedLink::start(link, WIRE).expect("a wire thread");
    send(&mut ringed, 0);
    receivers.iter().for_each(|receiver| assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 4));
    let until = now() + Span::from_secs(10);
    while has_errors(&second) {
        assert!(now() < until, "it is never read");
        sleep_until(now() + Span::from_millis(1));
    }
}

#[test]
fn a_packet_that_queues_dropped_is_counted_once_and_named() {
    let (mut link, _receivers) = by_two_networks();
    let (event_sender, mut reported) = event_channel(2);
    link.notify(event_sender);
    let DirectLink { launcher, counters, event_sender, .. } = &mut link;
    let launcher = launcher.as_mut().expect("packets are launched");
    let times: Vec<u64> = (0..4).map(|number| launcher.time(&packet(6 * number))).collect();
    let mut tally =
        DropTally { launcher: Some(launcher), counters, event_sender: event_sender.as_mut() };
    assert!(tally.dropped_with(times[1], |dropped| {
        [0, 1, 1].map(|of| dropped(times[of])).into_iter().for_each(drop)
    }));
    assert!(!tally.dropped_with(times[2], |dropped| dropped(times[0])));
    tally.dropped(times[2]);
    tally.dropped(7);
    let counted = link.counters();
    assert_eq!((counted.dropped_by_queue, counted.unnamed, counted.send_errors), (4, 2, 0));
    let named: Vec<_> = core::iter::from_fn(|| reported.events.pop().ok()).collect();
    assert_eq!(named, [0, 6].map(|media| LinkEvent::DroppedByQueue(MediaTime::from_frames(media))));
}

#[test]
fn the_report_of_an_etf_names_the_packet_that_it_dropped() {
    let (mut link, _receivers) = by_two_networks();
    let (event_sender, mut reported) = event_channel(4);
    link.notify(event_sender);
    let DirectLink { launcher, counters, event_sender, sampler, incoming, .. } = &mut link;
    let launcher = launcher.as_mut().expect("packets are launched");
    let times: Vec<u64> = (0..3).map(|number| launcher.time(&packet(6 * number))).collect();
    let mut tally =
        DropTally { launcher: Some(launcher), counters, event_sender: event_sender.as_mut() };
    for (time, code, errno) in [(times[2], 1, libc::EINVAL), (times[0], 2, libc::ECANCELED)] {
        let report = reported::dropped(time, code, errno);
        let report = reported::reported(libc::SOL_PACKET, PACKET_TX_TIMESTAMP, report);
        let mut dropped = |time| tally.dropped(time);
        let clock = &mut incoming.clock;
        let mut reading = ErrorReading { clock, always: true, dropped: &mut dropped };
        assert_eq!(sampler.take(&report, &mut reading), None);
    }
    assert_eq!((link.counters().dropped_by_queue, link.counters().unnamed), (2, 0));
    let named: Vec<_> = core::iter::from_fn(|| reported.events.pop().ok()).collect();
    assert_eq!(
        named,
        [12, 0].map(|media| LinkEvent::DroppedByQueue(MediaTime::from_frames(media)))
    );
}

struct Counted(DirectLink, Arc<AtomicU64>);

impl Link for Counted {
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        self.0.queue(packet)
    }

    fn flush(&mut self) {
        self.0.flush();
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.receive(deliver);
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.0.transmit_stamps(deliver);
    }

    fn counters(&self) -> LinkCounters {
        self.0.counters()
    }
}

impl AsFd for Counted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Pollable for Counted {
    fn datagram_bytes(&self) -> usize {
        self.0.datagram_bytes()
    }

    fn is_full(&self) -> bool {
        self.0.is_full()
    }

    fn second(&self) -> Option<BorrowedFd<'_>> {
        self.0.second()
    }

    fn read_errors(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.0.read_errors(deliver);
    }
}

#[test]
fn wire_thread_sleeps_after_a_refusal_and_a_late_stamp() {
    let (link, receiver) = with_samples_far_apart();
    let too_long = vec![0; link.datagram_bytes()];
    let requested = Arc::new(AtomicU64::new(0));
    let counted = Counted(link, Arc::clone(&requested));
    let mut ringed = ThreadedLink::start(counted, WIRE).expect("a wire thread");
    for mut datagram in [vec![0; 4], too_long] {
        let (instants, handed_at, again) = (packet(0), None, None);
        assert!(ringed.queue(&Outgoing { datagram: &mut datagram, instants, handed_at, again }));
    }
    ringed.flush();
    assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 4);
    for number in 1..=50 {
        send(&mut ringed, number);
        assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 4);
    }
    assert_eq!(ringed.counters().send_errors, 1);
    let requested = requested.load(Ordering::Relaxed);
    assert!(requested <= 10, "one item was read with {requested} calls");
}

#[test]
fn timestamp_after_a_refusal_leaves_nothing_to_read() {
    let (mut link, receiver) = with_samples_far_apart();
    for len in [4, link.datagram_bytes()] {
        let (instants, handed_at, again) = (packet(0), None, None);
        let mut datagram = vec![0; len];
        assert!(link.queue(&Outgoing { datagram: &mut datagram, instants, handed_at, again }));
    }
    link.flush();
    assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 4);
    assert_eq!((link.counters().send_errors, has_errors(&link.outlet.socket.as_fd())), (1, true));
    // An unread timestamp would end every poll immediately.
    link.read_errors(&mut |_| ());
    assert!(!has_errors(&link.outlet.socket.as_fd()));
}
