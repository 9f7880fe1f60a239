//! RTP both ways and RTCP over one transport (RFC 5761). An ordinary thread can exchange the
//! transport while the device runs, for example when a call reconnects or falls back from UDP to
//! TCP.
//!
//! [`muxed`] creates the halves: a sending and a receiving link, two control channels (every report
//! goes to both; RTCP sessions skip foreign ones), and the [`TransportSwitch`]. A transport is a
//! [`MuxedTransport`]. Without a transport, the halves send and receive nothing. All datagrams have
//! the fixed source passed to [`muxed`]. Each half takes the new transport on its next call, by a
//! wait-free exchange, and returns the old one to be dropped.
//!
//! With [`FarAddress::Newest`], for NATs, packets and reports go to the source of the newest
//! authenticated datagram.

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

/// Maximum number of reports waiting to be read: several seconds.
const REPORTS: usize = 16;

/// The parts of a muxed link.
pub struct Muxed {
    /// Sends packets.
    pub sending: MuxedSender,
    /// Receives packets, and also reports, so it must be called for both.
    pub receiving: MuxedReceiver,
    /// Control channels of the sending and of the receiving session.
    pub controls: [MuxedControl; 2],
    /// Sets the transport of all parts.
    pub switch: TransportSwitch,
}

/// Sets another transport for all halves, from an ordinary thread.
pub struct TransportSwitch {
    sending: TransportGiver<SendingTransport>,
    receiving: TransportGiver<ReceivingTransport>,
    reports: [TransportGiver<ReportTransport>; 2],
    bell: Arc<EventDescriptor>,
    call: Arc<TransportCall>,
    peer: Option<Arc<PeerAddress>>,
    transport: CurrentTransport,
}

/// Name of the current transport, readable on any thread.
#[derive(Debug, Clone, Default)]
pub struct CurrentTransport(Arc<AtomicU8>);

impl CurrentTransport {
    const UDP: u8 = 1;
    const TCP: u8 = 2;

    /// Returns `udp` or `tcp`; `None` before the first transport.
    pub fn name(&self) -> Option<&'static str> {
        match self.0.load(Ordering::Relaxed) {
            Self::UDP => Some("udp"),
            Self::TCP => Some("tcp"),
            _ => None,
        }
    }

    /// Returns whether the transport is TCP.
    pub fn is_tcp(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::TCP
    }

    fn set(&self, line: &MuxedTransport) {
        let by = if line.peer.is_some() { Self::UDP } else { Self::TCP };
        self.0.store(by, Ordering::Relaxed);
    }
}

/// Creates the halves of a link without a transport, for datagrams of up to `datagram_bytes` before
/// encryption. All arrivals have the source `named`.
pub fn muxed(datagram_bytes: usize, named: Endpoint) -> Result<Muxed, OpenError> {
    let cannot = |error: std::io::Error| {
        let hint = "raise the limit of open files (`ulimit -n`)";
        OpenError::new("opening a link for RTP and RTCP together".to_owned(), &error, hint)
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
    /// Gives all halves this transport. A later call or [`TransportSwitch::collect`] drops the old
    /// one.
    pub fn exchange(&mut self, line: MuxedTransport) {
        self.transport.set(&line);
        let Self { sending, receiving, reports: [one, other], .. } = self;
        let [report, other_report] = line.reports;
        // The receiving half is first, so that answers to sent packets are received.
        receiving.give(line.receiving);
        self.call.ring();
        sending.give(line.sending);
        self.bell.wake();
        one.give(report);
        other.give(other_report);
        self.peer = line.peer;
    }

    /// Redirects packets and reports to `to` over the same UDP transport. It then receives only
    /// from `to`, unless it follows the newest source. Returns `false` for other transports or
    /// without one.
    pub fn redirect(&self, to: SocketAddr) -> bool {
        let Some(peer) = &self.peer else { return false };
        // The only other writer is the receiving half, which writes rarely and briefly.
        while !peer.set(Some(to)) {
            std::thread::yield_now();
        }
        true
    }

    /// Returns the peer's address, if the transport is UDP and the address is known.
    pub fn far_end(&self) -> Option<SocketAddr> {
        self.peer.as_ref()?.news(&mut 0)?
    }

    /// Returns the current transport, for any thread.
    pub fn transport(&self) -> CurrentTransport {
        self.transport.clone()
    }

    /// Drops transports that are no longer used.
    pub fn collect(&mut self) {
        self.sending.collect();
        self.receiving.collect();
        self.reports.iter_mut().for_each(TransportGiver::collect);
    }
}
