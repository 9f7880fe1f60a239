//! Learns what a stream is from its sender, before a device is opened for it.
//!
//! Reports come before the first packet, so that a device can be open when it comes; and anybody on
//! the network can write them. As long as no packet has come, the first announcement is taken for
//! want of a better one: [`crate::receive_engine::RecvEngine::run_as_announced`] ends where packets of another
//! shape follow. Once packets come, only who sends them says what they are.

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

/// What was learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learnt {
    /// A sender announced its stream and the latency it promises.
    Announced {
        /// What it said.
        announcement: Announcement,
        /// Whether packets come from it, or it may yet be anybody.
        sends: bool,
    },
    /// Packets say of themselves what they are, and nobody else does.
    Shaped(StreamFormat),
    /// Packets come and nothing announces what they are: what they prove themselves.
    Unannounced(Option<Proof>),
    /// Nothing came until it was given up.
    Nothing,
}

/// Reports come every half second; a sender whose packets came for twice as long announces nothing.
const PATIENCE: Span = Span::from_secs(1);
const BEAT: Span = Span::from_millis(20);

/// What is listened at, and what reads its packets.
pub struct ListenedAt {
    wire: Arc<dyn Unpack>,
    opened: OpenedStream,
    kept: KeptDatagrams,
}

impl ListenedAt {
    /// Nothing has been heard there.
    pub fn new(wire: Arc<dyn Unpack>, opened: OpenedStream) -> Self {
        Self { wire, opened, kept: KeptDatagrams::default() }
    }

    /// What is to be played there. A sender that announced its stream is joined where it is; of others no packet is
    /// dropped. Ethernet and TCP have one kind of link for all packets, and a connection is not made twice.
    pub fn to_be_played(self, learnt: &Learnt) -> ToBePlayed {
        let is_for_all = self.opened.local.is_none();
        match learnt {
            _ if is_for_all => ToBePlayed::Opened(self.kept.unread(self.opened)),
            Learnt::Unannounced(_) => ToBePlayed::Kept(Box::new(self)),
            _ => ToBePlayed::Anew,
        }
    }

    /// The stream from its first packet on, by a link that `open` opens. It is told whether it may share the address
    /// with this link, which then ends only once the other is open: no packet is lost between them.
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

/// How a stream is played whose first packets were read to learn what it is.
pub enum ToBePlayed {
    /// By the link that read them.
    Opened(OpenedStream),
    /// By a link opened for packets like these, not for packets of any kind: [`ListenedAt::succeed`].
    Kept(Box<ListenedAt>),
    /// By a link of its own.
    Anew,
}

/// What came to all that is listened at.
#[derive(Debug, Clone, Copy, Default)]
pub struct CameThere {
    /// Whether any packet did.
    pub packets: bool,
    /// Datagrams that were not sealed as is asked for there.
    pub unopened: u64,
}

/// Listens at all that is `opened` until a sender says what its stream is, or `given_up` says so, of which
/// it is told what has come. Packets that come meanwhile are kept ([`ListenedAt::to_be_played`]). Those of a foreign
/// sender, which carry no instants, are waited for only until they prove what they are.
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
                    // A clock may be told of there, which says nothing of a stream.
                    Err(Invalid::Subtype(_)) => return,
                    Err(_) => {}
                }
                packets_since.get_or_insert(datagram.arrival.read);
            });
            // Where nobody reports, nobody announces.
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
