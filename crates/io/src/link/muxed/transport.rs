//! A transport for RTP and RTCP together, in the parts that the halves of a [muxed](super) link use.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::link::Pollable;
use crate::link::event_queue::EventSender;
use crate::link::muxed::peer::PeerAddress;
use crate::socket::seal::Seal;

pub(crate) trait Half: Pollable {
    fn release(&mut self) -> Option<EventSender> {
        None
    }

    /// Whether it has ended: its descriptor would be readable for ever.
    fn is_over(&self) -> bool {
        false
    }
}

pub(crate) trait Speak: Send {
    fn speak(&mut self, report: &[u8], to: Option<SocketAddr>) -> io::Result<()>;
}

/// What seals and opens on a line: each is one thread's own. `None` leaves datagrams as they are.
#[derive(Default)]
pub struct Seals {
    /// Seals the packets that the sending link sends.
    pub sending: Option<Box<dyn Seal>>,
    /// Opens packets and reports alike.
    pub receiving: Option<Box<dyn Seal>>,
    /// Seals the reports that each control channel sends.
    pub reports: [Option<Box<dyn Seal>>; 2],
}

/// Where the far end of a UDP line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FarAddress {
    /// There: what comes from elsewhere is foreign.
    At(SocketAddr),
    /// Where the newest datagram came from that the seal opened, for a far end behind a NAT; nowhere before the first.
    /// Unsealed, one packet from anywhere takes the stream over.
    Newest,
}

/// A transport that carries RTP and RTCP together (RFC 5761), and what seals them.
pub struct MuxedTransport {
    pub(crate) sending: SendingTransport,
    pub(crate) receiving: ReceivingTransport,
    pub(crate) reports: [ReportTransport; 2],
    pub(crate) peer: Option<Arc<PeerAddress>>,
}

pub(crate) struct SendingTransport {
    pub(crate) link: Box<dyn Half>,
    /// The far end's address and the version last seen; `None` if the transport knows it by itself.
    pub(crate) peer: Option<Arc<PeerAddress>>,
    pub(crate) seen: u64,
}

pub(crate) struct ReceivingTransport {
    pub(crate) link: Box<dyn Half>,
    pub(crate) hears: Hears,
}

pub(crate) enum Hears {
    Anyone,
    Peer(Arc<PeerAddress>),
    Newest(Arc<PeerAddress>),
}

pub(crate) struct ReportTransport {
    pub(crate) way: Box<dyn Speak>,
    pub(crate) seal: Option<Box<dyn Seal>>,
    pub(crate) peer: Option<Arc<PeerAddress>>,
}
