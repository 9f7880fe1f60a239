//! Learns the format of a stream from its sender, before a device is opened for it.
//!
//! Reports arrive before the first packet, so that a device can be open in time; but any host on
//! the network can send them. Until a packet arrives, the first announcement is used:
//! [`crate::receive_engine::RecvEngine::run_as_announced`] ends if packets of another format
//! follow. Once packets arrive, only their sender's announcement counts.

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

use super::kept::KeptDatagrams;

/// Result of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learnt {
    /// A sender announced its stream and latency.
    Announced {
        /// The announcement.
        announcement: Announcement,
        /// Whether packets of its author have arrived; if not, the author may not be the sender.
        sends: bool,
    },
    /// Format from packets that carry it, without any announcement.
    Shaped(StreamFormat),
    /// Packets arrived without an announcement; holds the format that they prove.
    Unannounced(Option<Proof>),
    /// Nothing arrived before the caller gave up.
    Nothing,
}

/// Timeout for an announcement after the first packet: twice the interval of reports.
const PATIENCE: Span = Span::from_secs(1);
const BEAT: Span = Span::from_millis(20);

/// An open stream whose format is being learned, with the parser of its packets.
pub struct ListenedAt {
    wire: Arc<dyn Unpack>,
    opened: OpenedStream,
    kept: KeptDatagrams,
}

impl ListenedAt {
    /// Starts with no datagrams.
    pub fn new(wire: Arc<dyn Unpack>, opened: OpenedStream) -> Self {
        Self { wire, opened, kept: KeptDatagrams::default() }
    }

    /// Returns how to play the stream. An announced stream starts with its current packets; from an
    /// unannounced one, no packet is dropped. Ethernet and TCP links serve all packets, and a
    /// connection is made only once.
    pub fn to_be_played(self, learnt: &Learnt) -> ToBePlayed {
        let is_for_all = self.opened.local.is_none();
        match learnt {
            _ if is_for_all => ToBePlayed::Opened(self.kept.unread(self.opened)),
            Learnt::Unannounced(_) => ToBePlayed::Kept(Box::new(self)),
            _ => ToBePlayed::Anew,
        }
    }

    /// Opens the stream's new link with `open` and plays from the first packet on. `open` receives
    /// whether it may share the address with this link, which then closes after the new one is
    /// open, so that no packet is lost.
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

/// How to play a stream whose first packets were read to learn its format.
pub enum ToBePlayed {
    /// Play it through the link that read them.
    Opened(OpenedStream),
    /// Play it through a new link for this format, after the kept packets: [`ListenedAt::succeed`].
    Kept(Box<ListenedAt>),
    /// Play it through a new link, without the kept packets.
    Anew,
}

/// Arrivals so far at all streams being learned.
#[derive(Debug, Clone, Copy, Default)]
pub struct CameThere {
    /// Whether any packet arrived.
    pub packets: bool,
    /// Datagrams that failed to decrypt.
    pub unopened: u64,
}

/// Listens to all of `opened` until a sender's format is known or `given_up` returns `true`; its
/// argument is the arrivals so far. Packets are kept meanwhile ([`ListenedAt::to_be_played`]).
/// Packets without timestamps, from a foreign sender, are only read until they prove their format.
pub fn learn(
    opened: &mut [ListenedAt],
    believe: Believe,
    mut given_up: impl FnMut(CameThere) -> bool,
) -> Learnt {
    let mut hearsay = Announcements::default();
    let mut packets_since: Option<LocalTime> = None;
    let mut shaped = None;
    let (mut evidence, mut stamped) = (Evidence::default(), false);
    loop {
        let unopened = opened.iter().map(|at| at.opened.link.counters().unopened).sum();
        if given_up(CameThere { packets: packets_since.is_some(), unopened }) {
            return Learnt::Nothing;
        }
        let channels: Vec<&dyn Control> =
            opened.iter().filter_map(|at| at.opened.control.as_deref()).collect();
        wait(&channels, now() + BEAT);
        for at in opened.iter_mut() {
            let ListenedAt { wire, opened: OpenedStream { link, control, .. }, kept } = at;
            let mut hear = |datagram: Datagram<'_>| {
                let Ok(compound) = Compound::parse(datagram.bytes) else { return };
                let host = datagram.arrival.from.host();
                compound.visit(|ssrc, item| {
                    if let Item::Announcement(announcement) = item {
                        hearsay.announced(Author { ssrc, host }, announcement);
                    }
                });
            };
            if let Some(control) = control {
                control.receive(&mut hear);
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
                    // Possibly a clock stream, which carries no format.
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
        if proven || packets_since.is_some_and(|since| now() - since > PATIENCE) {
            return shaped.map_or(Learnt::Unannounced(proof), Learnt::Shaped);
        }
    }
}
