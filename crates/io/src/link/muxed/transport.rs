//! A transport for RTP and RTCP, split for the halves of a [muxed](super) link.

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

    /// Whether the transport has ended; its descriptor would stay readable.
    fn is_over(&self) -> bool {
        false
    }
}

pub(crate) trait Speak: Send {
    fn speak(&mut self, report: &[u8], to: Option<SocketAddr>) -> io::Result<()>;
}

/// Encryption of a transport; one thread per seal. `None` leaves datagrams unchanged.
#[derive(Default)]
pub struct Seals {
    /// Encrypts packets of the sending link.
    pub sending: Option<Box<dyn Seal>>,
    /// Decrypts packets and reports.
    pub receiving: Option<Box<dyn Seal>>,
    /// Encrypts each control channel's reports.
    pub reports: [Option<Box<dyn Seal>>; 2],
}

/// Address of a UDP transport's peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FarAddress {
    /// Fixed; datagrams from other sources are discarded.
    At(SocketAddr),
    /// Source of the newest authenticated datagram, for NAT. Without encryption, any host can take
    /// over the stream.
    Newest,
}

/// A transport for RTP and RTCP together (RFC 5761), with its encryption.
pub struct MuxedTransport {
    pub(crate) sending: SendingTransport,
    pub(crate) receiving: ReceivingTransport,
    pub(crate) reports: [ReportTransport; 2],
    pub(crate) peer: Option<Arc<PeerAddress>>,
}

pub(crate) struct SendingTransport {
    pub(crate) link: Box<dyn Half>,
    pub(crate) peer: Option<Arc<PeerAddress>>,
    pub(crate) seen: u64,
}

pub(crate) struct ReceivingTransport {
    pub(crate) link: Box<dyn Half>,
    pub(crate) handles: Hears,
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
