//! The receiving half: it hands RTP on to its own thread and RTCP to the control channels.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtrb::Producer;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::stream::Outgoing;

use crate::link::destinations::Destinations;
use crate::link::divided::SetAside;
use crate::link::event::EventDescriptor;
use crate::link::muxed::held::Held;
use crate::link::muxed::line::{Hears, ReceivingLine};
use crate::link::muxed::peer::{Newest, is_report};
use crate::link::muxed::watched::WatchedDescriptors;
use crate::link::told::Teller;
use crate::link::{Arrival, Link, LinkCounters, Pollable, TransmitStamp};

/// Wakes the receiving half's thread when a line was given.
pub(super) struct LineCall {
    bell: EventDescriptor,
    rung: AtomicBool,
}

impl LineCall {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { bell: EventDescriptor::new()?, rung: AtomicBool::new(false) })
    }

    pub(super) fn ring(&self) {
        self.bell.wake();
        // After it, so that a bell that was heard is silenced: until then its hearer comes again.
        self.rung.store(true, Ordering::Release);
    }

    /// Silences the bell if it was rung; a call of the system only then.
    fn heed(&self) {
        if self.rung.load(Ordering::Relaxed) && self.rung.swap(false, Ordering::Acquire) {
            self.bell.silence();
        }
    }
}

impl AsFd for LineCall {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Where RTCP is put for a control channel.
pub(super) struct Outbox {
    pub(super) reports: Producer<SetAside>,
    pub(super) bell: Arc<EventDescriptor>,
}

/// The link at which packets arrive. It sends nothing.
pub struct MuxedReceiver {
    pub(super) line: Held<ReceivingLine>,
    pub(super) call: Arc<LineCall>,
    pub(super) watched: WatchedDescriptors,
    pub(super) sorting: Sorting,
    pub(super) datagram_bytes: usize,
    /// Of the lines before this one.
    pub(super) before: LinkCounters,
}

/// What becomes of what arrives.
pub(super) struct Sorting {
    pub(super) outboxes: [Outbox; 2],
    /// The place that everything is said to come from.
    pub(super) named: Endpoint,
    pub(super) newest: Newest,
    /// Where the far end is, and the last that was seen of that.
    pub(super) at: Option<SocketAddr>,
    pub(super) seen: u64,
    /// Not delivered as packets: reports, and what came from elsewhere.
    pub(super) reports: u64,
    pub(super) foreign: u64,
    /// Reports that found no room.
    pub(super) dropped: u64,
}

impl Sorting {
    /// Delivers a packet, and puts a report where it belongs.
    fn sort(
        &mut self,
        hears: &Hears,
        arrival: Arrival<'_>,
        deliver: &mut (impl FnMut(Arrival<'_>) + ?Sized),
    ) {
        if !self.is_of_the_far_end(hears, &arrival) {
            self.foreign += 1;
            return;
        }
        let arrival = Arrival { source: self.named, ..arrival };
        if !is_report(arrival.datagram) {
            return deliver(arrival);
        }
        self.reports += 1;
        for outbox in self.outboxes.iter_mut().filter(|outbox| !outbox.reports.is_abandoned()) {
            match outbox.reports.push(SetAside::of(&arrival)) {
                Ok(()) => outbox.bell.wake(),
                Err(_) => self.dropped += 1,
            }
        }
    }

    fn is_of_the_far_end(&mut self, hears: &Hears, arrival: &Arrival<'_>) -> bool {
        let (Hears::Peer(peer) | Hears::Newest(peer)) = hears else { return true };
        if let Some(at) = peer.news(&mut self.seen) {
            self.at = at;
        }
        let source = arrival.source.socket_address();
        let there = source.is_some() && source == self.at;
        if matches!(hears, Hears::Peer(_)) {
            return there;
        }
        // What is refused as somebody else writes is told by the next datagram.
        if self.newest.is(arrival.datagram) && !there {
            peer.set(source);
        }
        true
    }
}

impl MuxedReceiver {
    /// Takes the line that was given, if one was; what had come by the one before is delivered first.
    fn turn(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        self.call.heed();
        let Self { line, watched, sorting, before, .. } = self;
        while line.turn(|old, next| {
            if let Some(ReceivingLine { link, hears }) = old {
                link.receive(&mut |arrival| sorting.sort(hears, arrival, deliver));
                *before = before.plus(&link.counters());
                watched.leave(link.as_fd());
            }
            (sorting.newest, sorting.at, sorting.seen) = (Newest::default(), None, 0);
            before.last_error = watched.follow(next.link.as_fd()).unwrap_or(before.last_error);
        }) {}
    }
}

impl Link for MuxedReceiver {
    /// Nothing happens to it that the counters do not hold.
    fn tell(&mut self, _teller: Teller) {}

    fn queue(&mut self, _: &Outgoing<'_>) -> bool {
        false
    }

    fn flush(&mut self) {}

    fn set_destinations(&mut self, _: &Destinations) -> bool {
        false
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        self.turn(deliver);
        let Self { line, sorting, watched, .. } = self;
        let Some(ReceivingLine { link, hears }) = line.now() else { return };
        link.receive(&mut |arrival| sorting.sort(hears, arrival, deliver));
        if link.is_over() {
            watched.leave(link.as_fd());
        }
    }

    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.watched.as_fd())
    }

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    /// Of the packets alone; what did not find room at a control channel is counted with what a ring dropped.
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
