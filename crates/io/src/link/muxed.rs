//! RTP both ways and its RTCP by one transport (RFC 5761), which an ordinary thread may exchange while the device runs:
//! when a call is made again, or goes on by TCP instead of UDP.
//!
//! [`muxed`] makes the halves: a sending and a receiving link, two control channels (every report goes to both:
//! sessions skip foreign ones), and the [`TransportSwitch`]. A transport is a [`MuxedTransport`]; without one halves send and
//! receive nothing. Everything is reported to come from the one place that they were made with. Each half takes the
//! next transport as it is next called, by a wait-free exchange, and the one before goes back to be dropped.
//!
//! With [`FarAddress::Newest`], packets and reports go where the newest datagram came from that the seal opened, for
//! NATs.

pub mod halves;
pub(crate) mod held;
pub mod peer;
pub mod transport;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tautline_proto::endpoint::Endpoint;

pub use crate::link::muxed::halves::MuxedControl;
pub use crate::link::muxed::halves::MuxedReceiver;
pub use crate::link::muxed::halves::MuxedSender;
use crate::link::muxed::halves::WatchedDescriptors;
use crate::link::muxed::halves::{Outbox, Sorting, TransportCall};
use crate::link::muxed::held::{TransportGiver, held};
pub use crate::link::muxed::peer::is_report;
use crate::link::muxed::peer::{Newest, PeerAddress};
pub use crate::link::muxed::transport::{FarAddress, MuxedTransport, Seals};
use crate::link::muxed::transport::{ReceivingTransport, ReportTransport, SendingTransport};
use crate::link::{LinkCounters, OpenError};
use crate::thread::halt::EventDescriptor;
use crate::thread::memory;

/// Reports that wait to be fetched: seconds of them.
const REPORTS: usize = 16;

/// What [`muxed`] makes.
pub struct Muxed {
    /// By what packets leave.
    pub sending: MuxedSender,
    /// Where packets arrive. Reports come by it, too: it is to be called for them.
    pub receiving: MuxedReceiver,
    /// For the reports of the sending and of the receiving session.
    pub controls: [MuxedControl; 2],
    /// Gives all of them a transport.
    pub switch: TransportSwitch,
}

/// Gives the halves another transport, from an ordinary thread.
pub struct TransportSwitch {
    sending: TransportGiver<SendingTransport>,
    receiving: TransportGiver<ReceivingTransport>,
    reports: [TransportGiver<ReportTransport>; 2],
    bell: Arc<EventDescriptor>,
    call: Arc<TransportCall>,
    peer: Option<Arc<PeerAddress>>,
    transport: CurrentTransport,
}

/// What the link sends by now, for any thread.
#[derive(Debug, Clone, Default)]
pub struct CurrentTransport(Arc<AtomicU8>);

impl CurrentTransport {
    const UDP: u8 = 1;
    const TCP: u8 = 2;

    /// `udp` or `tcp`; `None` where there is no transport yet.
    pub fn name(&self) -> Option<&'static str> {
        match self.0.load(Ordering::Relaxed) {
            Self::UDP => Some("udp"),
            Self::TCP => Some("tcp"),
            _ => None,
        }
    }

    /// Whether that is TCP.
    pub fn is_tcp(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::TCP
    }

    fn set(&self, line: &MuxedTransport) {
        let by = if line.peer.is_some() { Self::UDP } else { Self::TCP };
        self.0.store(by, Ordering::Relaxed);
    }
}

/// The halves of a link without a transport, for datagrams of so many bytes at most before they are sealed. Everything
/// arrives from `named`.
pub fn muxed(datagram_bytes: usize, named: Endpoint) -> Result<Muxed, OpenError> {
    let cannot = |error: std::io::Error| {
        let mend = "raise the limit of open files (`ulimit -n`)";
        OpenError::new("opening a link for RTP and RTCP together".to_owned(), &error, mend)
    };
    let event = || EventDescriptor::new().map(Arc::new).map_err(cannot);
    let channel = || -> Result<_, OpenError> {
        let (reports, inbox) = memory::ring(REPORTS);
        let ((line, giver), bell) = (held(), event()?);
        let outbox = Outbox { reports, bell: Arc::clone(&bell) };
        let control = MuxedControl { line, inbox, bell, at: None, seen: 0, sealing: Vec::new() };
        Ok((control, outbox, giver))
    };
    let ((one, one_outbox, one_giver), (other, other_outbox, other_giver)) =
        (channel()?, channel()?);
    let (bell, call) = (event()?, Arc::new(TransportCall::new().map_err(cannot)?));
    let ((sending_line, sending_giver), (receiving_line, receiving_giver)) = (held(), held());
    let sending = MuxedSender {
        line: sending_line,
        bell: Arc::clone(&bell),
        datagram_bytes,
        teller: None,
        before: LinkCounters::default(),
    };
    let sorting = Sorting {
        outboxes: [one_outbox, other_outbox],
        named,
        newest: Newest::default(),
        at: None,
        seen: 0,
        reports: 0,
        foreign: 0,
        dropped: 0,
    };
    let receiving = MuxedReceiver {
        line: receiving_line,
        watched: WatchedDescriptors::new(std::os::fd::AsFd::as_fd(&*call)).map_err(cannot)?,
        call: Arc::clone(&call),
        sorting,
        datagram_bytes,
        before: LinkCounters::default(),
    };
    let switch = TransportSwitch {
        sending: sending_giver,
        receiving: receiving_giver,
        reports: [one_giver, other_giver],
        bell,
        call,
        peer: None,
        transport: CurrentTransport::default(),
    };
    Ok(Muxed { sending, receiving, controls: [one, other], switch })
}

impl TransportSwitch {
    /// Gives all halves this transport instead of the last one, which a later call or [`TransportSwitch::collect`] drops.
    pub fn exchange(&mut self, line: MuxedTransport) {
        self.transport.set(&line);
        let Self { sending, receiving, reports: [one, other], .. } = self;
        let [report, other_report] = line.reports;
        // Receiving first: answers to what is sent are received.
        receiving.give(line.receiving);
        self.call.ring();
        sending.give(line.sending);
        self.bell.wake();
        one.give(report);
        other.give(other_report);
        self.peer = line.peer;
    }

    /// Sends packets and reports there from now on by the same UDP transport, and receives from there alone unless it
    /// follows the newest. False of other transports, or without a transport.
    pub fn redirect(&self, to: SocketAddr) -> bool {
        let Some(peer) = &self.peer else { return false };
        // Only the receiving half writes too, seldom and briefly.
        while !peer.set(Some(to)) {
            std::thread::yield_now();
        }
        true
    }

    /// Where the far end is, if the transport is of UDP and knows it.
    pub fn far_end(&self) -> Option<SocketAddr> {
        self.peer.as_ref()?.news(&mut 0)?
    }

    /// What the link sends by, for any thread.
    pub fn transport(&self) -> CurrentTransport {
        self.transport.clone()
    }

    /// Drops the transports that are not used any more.
    pub fn collect(&mut self) {
        self.sending.collect();
        self.receiving.collect();
        self.reports.iter_mut().for_each(TransportGiver::collect);
    }
}
