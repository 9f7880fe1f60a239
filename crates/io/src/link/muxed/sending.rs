//! The sending half.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use tautline_proto::endpoint::Endpoint;
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;

use crate::link::destinations::Destinations;
use crate::link::event::EventDescriptor;
use crate::link::muxed::held::Held;
use crate::link::muxed::line::SendingLine;
use crate::link::told::Teller;
use crate::link::{Arrival, Link, LinkCounters, Pollable, TransmitStamp, queue_from};

/// The link by which packets leave. It delivers nothing; without a line what is sent is let go.
pub struct MuxedSender {
    pub(super) line: Held<SendingLine>,
    /// Rung as another line is given, for a wire thread.
    pub(super) bell: Arc<EventDescriptor>,
    pub(super) datagram_bytes: usize,
    pub(super) teller: Option<Teller>,
    /// Of the lines before this one, and what had none.
    pub(super) before: LinkCounters,
}

impl MuxedSender {
    /// Takes the line that was given, if one was, and goes where the far end is.
    fn turn(&mut self) {
        let Self { line, teller, before, bell, .. } = self;
        while line.turn(|old, next| {
            if let Some(old) = old {
                old.link.flush();
                *before = before.plus(&old.link.counters());
                *teller = old.link.release();
            }
            teller.take().into_iter().for_each(|teller| next.link.tell(teller));
        }) {
            bell.silence();
        }
        let Some(SendingLine { link, peer: Some(peer), seen }) = line.now() else { return };
        if let Some(at) = peer.news(seen) {
            let to = at.map_or(Destinations::NONE, |at| Destinations::one(at.into()));
            link.set_destinations(&to);
        }
    }
}

impl Link for MuxedSender {
    fn tell(&mut self, teller: Teller) {
        match self.line.now() {
            Some(line) => line.link.tell(teller),
            None => self.teller = Some(teller),
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

    /// Sends packets and reports there from now on: one place by UDP, or none.
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

    fn receive(&mut self, _deliver: &mut dyn FnMut(Arrival<'_>)) {
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
