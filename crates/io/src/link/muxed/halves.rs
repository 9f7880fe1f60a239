//! Halves of a muxed link. The receiving half passes RTCP to the control channels.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtrb::{Consumer, Producer};
use tautline_proto::endpoint::{Arrival, Endpoint};
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;

use crate::control::{Control, Waiter};
use crate::link::destinations::Destinations;
use crate::link::divided::SetAside;
use crate::link::event_queue::EventSender;
use crate::link::muxed::held::Held;
use crate::link::muxed::peer::{Newest, is_report};
use crate::link::muxed::transport::{Hears, ReceivingTransport, ReportTransport, SendingTransport};
use crate::link::{Datagram, Link, LinkCounters, Pollable, TransmitStamp, queue_from};
use crate::socket::seal::sealed_copy;
use crate::thread::halt::EventDescriptor;
use crate::thread::realtime::permit;

pub(super) struct TransportCall {
    bell: EventDescriptor,
    mode: AtomicBool,
}

impl TransportCall {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { bell: EventDescriptor::new()?, mode: AtomicBool::new(false) })
    }

    pub(super) fn ring(&self) {
        self.bell.wake();
        // After `wake`, so that `heed` silences the bell.
        self.mode.store(true, Ordering::Release);
    }

    fn heed(&self) {
        if self.mode.load(Ordering::Relaxed) && self.mode.swap(false, Ordering::Acquire) {
            self.bell.silence();
        }
    }
}

impl AsFd for TransportCall {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

pub(super) struct Outbox {
    pub(super) reports: Producer<SetAside>,
    pub(super) bell: Arc<EventDescriptor>,
}

/// The receiving link.
pub struct MuxedReceiver {
    pub(super) line: Held<ReceivingTransport>,
    pub(super) call: Arc<TransportCall>,
    pub(super) watched: WatchedDescriptors,
    pub(super) sorting: Sorting,
    pub(super) datagram_bytes: usize,
    pub(super) before: LinkCounters,
}

pub(super) struct Sorting {
    pub(super) outboxes: [Outbox; 2],
    pub(super) named: Endpoint,
    pub(super) newest: Newest,
    pub(super) at: Option<SocketAddr>,
    pub(super) seen: u64,
    pub(super) reports: u64,
    pub(super) foreign: u64,
    pub(super) dropped: u64,
}

impl Sorting {
    fn sort(
        &mut self,
        handles: &Hears,
        datagram: Datagram<'_>,
        deliver: &mut (impl FnMut(Datagram<'_>) + ?Sized),
    ) {
        if !self.is_of_the_far_end(handles, &datagram) {
            self.foreign += 1;
            return;
        }
        let arrival = Arrival { from: self.named, ..datagram.arrival };
        let datagram = Datagram { arrival, ..datagram };
        if !is_report(datagram.bytes) {
            return deliver(datagram);
        }
        self.reports += 1;
        for outbox in self.outboxes.iter_mut().filter(|outbox| !outbox.reports.is_abandoned()) {
            match outbox.reports.push(SetAside::of(&datagram)) {
                Ok(()) => outbox.bell.wake(),
                Err(_) => self.dropped += 1,
            }
        }
    }

    fn is_of_the_far_end(&mut self, handles: &Hears, datagram: &Datagram<'_>) -> bool {
        let (Hears::Peer(peer) | Hears::Newest(peer)) = handles else { return true };
        if let Some(at) = peer.news(&mut self.seen) {
            self.at = at;
        }
        let source = datagram.arrival.from.socket_address();
        let there = source.is_some() && source == self.at;
        if matches!(handles, Hears::Peer(_)) {
            return there;
        }
        // If another thread is writing now, the next datagram sets it.
        if self.newest.is(datagram.bytes) && !there {
            peer.set(source);
        }
        true
    }
}

impl MuxedReceiver {
    fn turn(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        self.call.heed();
        let Self { line, watched, sorting, before, .. } = self;
        while line.turn(|old, next| {
            if let Some(ReceivingTransport { link, handles }) = old {
                link.receive(&mut |datagram| sorting.sort(handles, datagram, deliver));
                *before = before.plus(&link.counters());
                watched.leave(link.as_fd());
            }
            (sorting.newest, sorting.at, sorting.seen) = (Newest::default(), None, 0);
            before.last_error = watched.follow(next.link.as_fd()).unwrap_or(before.last_error);
        }) {}
    }
}

impl Link for MuxedReceiver {
    fn queue(&mut self, _: &Outgoing<'_>) -> bool {
        false
    }

    fn flush(&mut self) {}

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        self.turn(deliver);
        let Self { line, sorting, watched, .. } = self;
        let Some(ReceivingTransport { link, handles }) = line.now() else { return };
        link.receive(&mut |datagram| sorting.sort(handles, datagram, deliver));
        if link.is_over() {
            watched.leave(link.as_fd());
        }
    }

    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.watched.as_fd())
    }

    /// Counts only packets. Reports without room count as ring drops.
    fn counters(&self) -> LinkCounters {
        let counters = self.line.get().map(|line| line.link.counters()).unwrap_or_default();
        let mut counters = self.before.plus(&counters);
        let Sorting { reports, foreign, dropped, .. } = self.sorting;
        counters.received = counters.received.saturating_sub(reports + foreign);
        counters.foreign += foreign;
        counters.ring_drops += dropped;
        counters
    }
}

impl AsFd for MuxedReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }
}

impl Pollable for MuxedReceiver {
    fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// Carries one session's reports, always to the transport's peer.
pub struct MuxedControl {
    pub(super) line: Held<ReportTransport>,
    pub(super) inbox: Consumer<SetAside>,
    pub(super) bell: Arc<EventDescriptor>,
    pub(super) at: Option<SocketAddr>,
    pub(super) seen: u64,
    pub(super) sealing: Vec<u8>,
}

impl MuxedControl {
    fn turn(&mut self) {
        while self.line.turn(|_, _| ()) {
            (self.at, self.seen) = (None, 0);
        }
    }
}

impl AsFd for MuxedControl {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Control for MuxedControl {
    fn send(&mut self, datagram: &[u8], _to: Endpoint) -> io::Result<()> {
        self.turn();
        let Some(ReportTransport { way, seal, peer }) = self.line.now() else {
            return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
        };
        if let Some(at) = peer.as_ref().and_then(|peer| peer.news(&mut self.seen)) {
            self.at = at;
        }
        let Some(seal) = seal else { return way.speak(datagram, self.at) };
        way.speak(sealed_copy(&mut **seal, datagram, &mut self.sealing)?, self.at)
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        self.turn();
        self.bell.silence();
        while let Ok(report) = self.inbox.pop() {
            deliver(report.arrival());
        }
    }
}

/// The sending link. Drops packets without a transport.
pub struct MuxedSender {
    pub(super) line: Held<SendingTransport>,
    pub(super) bell: Arc<EventDescriptor>,
    pub(super) datagram_bytes: usize,
    pub(super) event_sender: Option<EventSender>,
    pub(super) before: LinkCounters,
}

impl MuxedSender {
    fn turn(&mut self) {
        let Self { line, event_sender, before, bell, .. } = self;
        while line.turn(|old, next| {
            if let Some(old) = old {
                old.link.flush();
                *before = before.plus(&old.link.counters());
                *event_sender = old.link.release();
            }
            event_sender.take().into_iter().for_each(|event_sender| next.link.notify(event_sender));
        }) {
            bell.silence();
        }
        let Some(SendingTransport { link, peer: Some(peer), seen }) = line.now() else { return };
        if let Some(at) = peer.news(seen) {
            let to = at.map_or(Destinations::NONE, |at| Destinations::one(at.into()));
            link.set_destinations(&to);
        }
    }
}

impl Link for MuxedSender {
    fn notify(&mut self, event_sender: EventSender) {
        match self.line.now() {
            Some(line) => line.link.notify(event_sender),
            None => self.event_sender = Some(event_sender),
        }
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        self.turn();
        let Some(line) = self.line.now() else {
            self.before.let_go += 1;
            return false;
        };
        line.link.queue(packet)
    }

    fn queue_written(
        &mut self,
        instants: Departure,
        room: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        self.turn();
        match self.line.now() {
            Some(line) => line.link.queue_written(instants, room, write),
            None => queue_from(room, instants, write, |packet| self.queue(packet)),
        }
    }

    fn flush(&mut self) {
        if let Some(line) = self.line.now() {
            line.link.flush();
        }
    }

    fn set_destinations(&mut self, destinations: &Destinations) -> bool {
        self.turn();
        let Some(peer) = self.line.get().and_then(|line| line.peer.as_ref()) else { return false };
        let mut all = destinations.iter();
        let to = all.next();
        let address = to.as_ref().and_then(Endpoint::socket_address);
        if all.next().is_some() || address.is_some() != to.is_some() || !peer.set(address) {
            return false;
        }
        self.turn();
        true
    }

    fn receive(&mut self, _deliver: &mut dyn FnMut(Datagram<'_>)) {
        self.bell.silence();
        self.turn();
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        if let Some(line) = self.line.now() {
            line.link.transmit_stamps(deliver);
        }
    }

    fn counters(&self) -> LinkCounters {
        let counters = self.line.get().map(|line| line.link.counters());
        self.before.plus(&counters.unwrap_or_default())
    }
}

impl AsFd for MuxedSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Pollable for MuxedSender {
    fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    fn is_full(&self) -> bool {
        self.line.get().is_some_and(|line| line.link.is_full())
    }
}

pub(super) struct WatchedDescriptors {
    set: Waiter,
    followed: Option<i32>,
}

impl AsFd for WatchedDescriptors {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl WatchedDescriptors {
    pub(super) fn new(always: BorrowedFd<'_>) -> io::Result<Self> {
        let set = Waiter::new()?;
        set.add(&always, 0)?;
        Ok(Self { set, followed: None })
    }

    pub(super) fn follow(&mut self, descriptor: BorrowedFd<'_>) -> Option<i32> {
        let _permit = permit("no other thread uses the set, so the call does not wait");
        if let Err(error) = self.set.add(&descriptor, 0) {
            return error.raw_os_error();
        }
        self.followed = Some(descriptor.as_raw_fd());
        None
    }

    pub(super) fn leave(&mut self, descriptor: BorrowedFd<'_>) {
        if self.followed == Some(descriptor.as_raw_fd()) {
            self.followed = None;
            let _permit = permit("no other thread uses the set, so the call does not wait");
            let _ = self.set.remove(&descriptor);
        }
    }
}
