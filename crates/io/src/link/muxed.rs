//! RTP both ways and RTCP over one transport (RFC 5761), which an ordinary thread can exchange
//! while the device runs.
//!
//! [`muxed`] creates two links, two control channels (every report goes to both), and the
//! [`TransportSwitch`]. Without a [`MuxedTransport`] nothing is sent or received. Each half takes a
//! new transport on its next call, wait-free, and returns the old one to be dropped.

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

const REPORTS: usize = 16;

/// The parts of a muxed link.
pub struct Muxed {
    /// Sends packets.
    pub sending: MuxedSender,
    /// Receives packets and reports, so call it for both.
    pub receiving: MuxedReceiver,
    /// Control channels of the sending and the receiving session.
    pub controls: [MuxedControl; 2],
    /// Sets the transport of all parts.
    pub switch: TransportSwitch,
}

/// Sets the transport of all halves, from an ordinary thread.
pub struct TransportSwitch {
    sending: TransportGiver<SendingTransport>,
    receiving: TransportGiver<ReceivingTransport>,
    reports: [TransportGiver<ReportTransport>; 2],
    bell: Arc<EventDescriptor>,
    call: Arc<TransportCall>,
    peer: Option<Arc<PeerAddress>>,
    transport: CurrentTransport,
}

/// Name of the current transport, for any thread.
#[derive(Debug, Clone, Default)]
pub struct CurrentTransport(Arc<AtomicU8>);

impl CurrentTransport {
    const UDP: u8 = 1;
    const TCP: u8 = 2;

    /// `udp` or `tcp`; `None` before the first transport.
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

/// Creates the halves without a transport, for `datagram_bytes` before encryption. All arrivals
/// have the source `named`.
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
        event_sender: None,
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
    /// Sets the transport. A later call or [`TransportSwitch::collect`] drops the old one.
    pub fn exchange(&mut self, line: MuxedTransport) {
        self.transport.set(&line);
        let Self { sending, receiving, reports: [one, other], .. } = self;
        let [report, other_report] = line.reports;
        // Receiving first, so that no answer is missed.
        receiving.give(line.receiving);
        self.call.ring();
        sending.give(line.sending);
        self.bell.wake();
        one.give(report);
        other.give(other_report);
        self.peer = line.peer;
    }

    /// Redirects everything to `to` over the same UDP transport, which then receives only from
    /// there, unless it follows the newest source. `false` without UDP.
    pub fn redirect(&self, to: SocketAddr) -> bool {
        self.set_far_end(Some(to))
    }

    /// Sends nothing until [`Self::redirect`], or the next packet if the transport follows the
    /// newest source. `false` without UDP.
    pub fn stop_sending(&self) -> bool {
        self.set_far_end(None)
    }

    fn set_far_end(&self, to: Option<SocketAddr>) -> bool {
        let Some(peer) = &self.peer else { return false };
        while !peer.set(to) {
            std::thread::yield_now();
        }
        true
    }

    /// The UDP peer's address, if known.
    pub fn far_end(&self) -> Option<SocketAddr> {
        self.peer.as_ref()?.news(&mut 0)?
    }

    /// The current transport, for any thread.
    pub fn transport(&self) -> CurrentTransport {
        self.transport.clone()
    }

    /// Drops unused transports.
    pub fn collect(&mut self) {
        self.sending.collect();
        self.receiving.collect();
        self.reports.iter_mut().for_each(TransportGiver::collect);
    }
}
