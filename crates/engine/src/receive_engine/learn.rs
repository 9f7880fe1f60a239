//! Learns a stream's format before opening a device.
//!
//! Reports precede packets, but any host can send them. The first announcement is used until
//! packets differ; then [`crate::receive_engine::RecvEngine::run_as_announced`] ends early. With
//! packets, only their sender's announcement counts.

use std::os::fd::AsFd;
use std::sync::Arc;

use tautline_io::clock::now;
use tautline_io::control::{Control, wait};
use tautline_io::link::Datagram;
use tautline_io::udp::pair::OpenedStream;
use tautline_io::udp::yield_address;
use tautline_proto::endpoint::Author;
use tautline_proto::evidence::{Evidence, Proof};
use tautline_proto::packet::{Invalid, Unpack};
use tautline_proto::receive_policy::Announcements;
pub use tautline_proto::receive_policy::Believe;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtcp::{Announcement, Compound, Item};

use super::kept::StoredDatagrams;

/// Learned stream format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learnt {
    /// A sender announced its stream and latency.
    Announced {
        /// Announcement.
        announcement: Announcement,
        /// Whether the author of the announcement sent packets. If not, another host may be the
        /// sender.
        sends: bool,
    },
    /// Format from the packets, without an announcement.
    Shaped(StreamFormat),
    /// Packets without an announcement, and the format that they prove.
    Unannounced(Option<Proof>),
    /// Nothing arrived.
    Nothing,
}

/// Timeout for an announcement after the first packet: two report intervals.
const TIMEOUT: Span = Span::from_secs(1);
const BEAT: Span = Span::from_millis(20);

/// An open stream with an unknown format.
pub struct ListenedAt {
    wire: Arc<dyn Unpack>,
    opened: OpenedStream,
    kept: StoredDatagrams,
}

impl ListenedAt {
    /// Has no datagrams yet.
    pub fn new(wire: Arc<dyn Unpack>, opened: OpenedStream) -> Self {
        Self { wire, opened, kept: StoredDatagrams::default() }
    }

    /// How to play the stream: from current packets if announced, otherwise from the first.
    /// Ethernet and TCP links fit all packets, and connect only once.
    pub fn to_be_played(self, learnt: &Learnt) -> PlayableStream {
        let is_for_all = self.opened.local.is_none();
        match learnt {
            _ if is_for_all => PlayableStream::Opened(self.kept.unread(self.opened)),
            Learnt::Unannounced(_) => PlayableStream::Kept(Box::new(self)),
            _ => PlayableStream::Anew,
        }
    }

    /// Opens a link for the stream; plays from its first packet. `open` receives whether the links
    /// may share an address. The old link closes last, so no packet is lost.
    pub fn succeed<E>(
        self,
        open: impl FnOnce(bool) -> Result<OpenedStream, E>,
    ) -> Result<OpenedStream, E> {
        let Self { opened: OpenedStream { mut link, control, .. }, mut kept, .. } = self;
        let reports = control.as_deref().map(AsFd::as_fd);
        let shared = link.awaited().into_iter().chain(reports).all(|fd| yield_address(fd).is_ok());
        if !shared {
            drop((link, control));
            return Ok(kept.unread(open(false)?));
        }
        let opened = open(true)?;
        link.receive(&mut |datagram| kept.keep(&datagram));
        Ok(kept.unread(opened))
    }
}

/// How to play a stream after learning.
pub enum PlayableStream {
    /// Through the same link.
    Opened(OpenedStream),
    /// Through a new link after kept packets: [`ListenedAt::succeed`].
    Kept(Box<ListenedAt>),
    /// Through a new link, without kept packets.
    Anew,
}

/// Arrivals while learning.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkArrivals {
    /// Whether any packet arrived.
    pub packets: bool,
    /// Failed decryptions.
    pub auth_failed: u64,
}

/// Receives at `opened` until a format is known or `given_up` returns `true`. Keeps the packets
/// ([`ListenedAt::to_be_played`]). Packets without timestamps are from a foreign sender, read only
/// until they prove their format.
pub fn learn(
    opened: &mut [ListenedAt],
    believe: Believe,
    mut given_up: impl FnMut(LinkArrivals) -> bool,
) -> Learnt {
    let mut hearsay = Announcements::default();
    let mut packets_since: Option<LocalTime> = None;
    let mut shaped = None;
    let (mut evidence, mut stamped) = (Evidence::default(), false);
    loop {
        let auth_failed = opened.iter().map(|at| at.opened.link.counters().auth_failed).sum();
        if given_up(LinkArrivals { packets: packets_since.is_some(), auth_failed }) {
            return Learnt::Nothing;
        }
        let channels: Vec<&dyn Control> =
            opened.iter().filter_map(|at| at.opened.control.as_deref()).collect();
        wait(&channels, now() + BEAT);
        for at in opened.iter_mut() {
            let ListenedAt { wire, opened: OpenedStream { link, control, .. }, kept } = at;
            let mut handle = |datagram: Datagram<'_>| {
                let Ok(compound) = Compound::parse(datagram.bytes) else { return };
                let host = datagram.arrival.from.host();
                compound.visit(|ssrc, item| {
                    if let Item::Announcement(announcement) = item {
                        hearsay.announced(Author { ssrc, host }, announcement);
                    }
                });
            };
            if let Some(control) = control {
                control.receive(&mut handle);
            }
            link.receive(&mut |datagram| {
                let host = datagram.arrival.from.host();
                match wire.unpack(datagram.bytes) {
                    Ok(packet) => {
                        hearsay.sends(Author { ssrc: packet.head.stream.ssrc(), host });
                        shaped = shaped.or(packet.format());
                        stamped |= packet.head.capture.is_some();
                        evidence.observe(&packet, datagram.arrival.at);
                        kept.keep(&datagram);
                    }
                    Err(Invalid::Subtype(_)) => return,
                    Err(_) => {}
                }
                packets_since.get_or_insert(datagram.arrival.read);
            });
            // Without a control channel there are no announcements.
            if let (Some(format), None) = (shaped, &control) {
                return Learnt::Shaped(format);
            }
        }
        if let Some((announcement, sends)) = hearsay.believed(believe) {
            return Learnt::Announced { announcement, sends };
        }
        let proof = evidence.proof();
        let proven = !stamped && proof.is_some_and(|proof| proof.rate.is_some());
        if proven || packets_since.is_some_and(|since| now() - since > TIMEOUT) {
            return shaped.map_or(Learnt::Unannounced(proof), Learnt::Shaped);
        }
    }
}
