//! Learns what a stream is from its sender, before a device is opened for it.

use tautline_io::clock::now;
use tautline_io::control::{ControlSocket, wait};
use tautline_io::link::Link;
use tautline_io::udp::DirectUdp;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtcp::{Announcement, Compound, Item};

/// What was learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learnt {
    /// A sender announced its stream and the latency it promises.
    Announced(Announcement),
    /// Packets come, and nobody says what they are.
    Unannounced,
    /// Nothing came until it was given up.
    Nothing,
}

/// Reports follow each other within half a second; a sender whose packets came for twice as long
/// announces nothing.
const PATIENCE: Span = Span::from_secs(1);
const BEAT: Span = Span::from_millis(20);

/// Listens at all of `pairs` until a sender says what its stream is, or `given_up` says so, of which
/// it is told whether any packet has come. What comes meanwhile is dropped.
pub fn learn(
    pairs: &mut [(DirectUdp, ControlSocket)],
    mut given_up: impl FnMut(bool) -> bool,
) -> Learnt {
    let mut packets_since: Option<LocalTime> = None;
    while !given_up(packets_since.is_some()) {
        let sockets: Vec<&ControlSocket> = pairs.iter().map(|(_, control)| control).collect();
        wait(&sockets, now() + BEAT);
        let mut announced = None;
        for (media, control) in pairs.iter_mut() {
            control.receive(&mut |arrival| {
                if let Ok(compound) = Compound::parse(arrival.datagram) {
                    compound.visit(|_, item| {
                        if let Item::Announcement(announcement) = item {
                            announced = Some(announcement);
                        }
                    });
                }
            });
            media.receive(&mut |arrival| {
                packets_since.get_or_insert(arrival.read);
            });
        }
        if let Some(announcement) = announced {
            return Learnt::Announced(announcement);
        }
        if packets_since.is_some_and(|since| now() - since > PATIENCE) {
            return Learnt::Unannounced;
        }
    }
    Learnt::Nothing
}
