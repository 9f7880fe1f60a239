//! Learns what a stream is from its sender, before a device is opened for it.
//!
//! Reports come before the first packet, so that a device can be open when it comes; and anybody on
//! the network can write them. As long as no packet has come, the first announcement is taken for
//! want of a better one: [`crate::recv::RecvEngine::run_as_announced`] ends where packets of another
//! shape follow. Once packets come, only who sends them says what they are.

use tautline_io::clock::now;
use tautline_io::control::{Control, wait};
use tautline_io::link::Arrival;
use tautline_io::udp::pair::OpenedStream;
use tautline_proto::endpoint::Author;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtcp::{Announcement, Compound, Item};
use tautline_proto::wire::rtp::{ExtensionIds, Packet};

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
    /// Packets come, and nobody says what they are.
    Unannounced,
    /// Nothing came until it was given up.
    Nothing,
}

/// Whom to believe while no packet has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Believe {
    /// Who speaks first.
    Anybody,
    /// Nobody.
    Senders,
}

/// Reports follow each other within half a second; a sender whose packets came for twice as long
/// announces nothing.
const PATIENCE: Span = Span::from_secs(1);
const BEAT: Span = Span::from_millis(20);

/// Listens at all that is `opened` until a sender says what its stream is, or `given_up` says so, of which
/// it is told whether any packet has come. What comes meanwhile is dropped.
pub fn learn(
    opened: &mut [OpenedStream],
    believe: Believe,
    mut given_up: impl FnMut(bool) -> bool,
) -> Learnt {
    let mut hearsay = Hearsay::default();
    let mut packets_since: Option<LocalTime> = None;
    while !given_up(packets_since.is_some()) {
        let channels: Vec<&dyn Control> =
            opened.iter().filter_map(|opened| opened.control.as_deref()).collect();
        wait(&channels, now() + BEAT);
        for OpenedStream { link, control, .. } in opened.iter_mut() {
            let mut hear = |arrival: Arrival<'_>| {
                let Ok(compound) = Compound::parse(arrival.datagram) else { return };
                let host = arrival.source.host();
                compound.visit(|ssrc, item| {
                    if let Item::Announcement(announcement) = item {
                        hearsay.announced(Author { ssrc, host }, announcement);
                    }
                });
            };
            if let Some(control) = control {
                control.receive(&mut hear);
            }
            link.receive(&mut |arrival| {
                let host = arrival.source.host();
                if let Ok(packet) = Packet::parse_with(arrival.datagram, ExtensionIds::NONE) {
                    hearsay.sends(Author { ssrc: packet.ssrc, host });
                }
                packets_since.get_or_insert(arrival.read);
            });
        }
        if let Some((announcement, sends)) = hearsay.believed(believe) {
            return Learnt::Announced { announcement, sends };
        }
        if packets_since.is_some_and(|since| now() - since > PATIENCE) {
            return Learnt::Unannounced;
        }
    }
    Learnt::Nothing
}

/// Who speaks and who sends. A flood of either fills what there is room for, and is not believed.
#[derive(Debug, Default)]
struct Hearsay {
    announced: Vec<(Author, Announcement)>,
    senders: Vec<Author>,
}

impl Hearsay {
    const MOST: usize = 64;

    /// The newest word of each counts.
    fn announced(&mut self, author: Author, announcement: Announcement) {
        let known = self.announced.iter().position(|(other, _)| *other == author);
        match known {
            Some(known) => self.announced[known].1 = announcement,
            None if self.announced.len() < Self::MOST => {
                self.announced.push((author, announcement));
            }
            None => {}
        }
    }

    fn sends(&mut self, author: Author) {
        if self.senders.len() < Self::MOST && !self.senders.contains(&author) {
            self.senders.push(author);
        }
    }

    /// What is believed by now, and whether whoever says it sends.
    fn believed(&self, believe: Believe) -> Option<(Announcement, bool)> {
        // Whose packets came first is heard, so it is asked first.
        let word = |of: &Author| self.announced.iter().find(|(author, _)| author == of);
        let sender = self.senders.iter().find_map(word).map(|(_, said)| (*said, true));
        let anybody = self.senders.is_empty() && believe == Believe::Anybody;
        let first = self.announced.first().filter(|_| anybody);
        sender.or(first.map(|(_, said)| (*said, false)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tautline_dsp::format::SampleFormat;
    use tautline_proto::stream::StreamFormat;
    use tautline_proto::time::Frames;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    fn says(hertz: u32) -> Announcement {
        let format = StreamFormat {
            rate: Rate::new(hertz).unwrap(),
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: Frames::new(48),
            payload_type: 97,
        };
        let (link_offset, packing_age) = (Span::from_millis(5), Span::from_millis(1));
        Announcement { link_offset, format, packing_age, host: None, card: None }
    }

    fn author(last: u8, ssrc: u32) -> Author {
        Author { ssrc, host: IpAddr::from(Ipv4Addr::new(192, 0, 2, last)).into() }
    }

    #[test]
    fn who_sends_is_believed_whoever_spoke_before() {
        let (own, stranger, posing) = (author(1, 7), author(2, 8), author(2, 7));
        let mut hearsay = Hearsay::default();
        assert_eq!(hearsay.believed(Believe::Anybody), None);
        hearsay.announced(stranger, says(44_100));
        hearsay.announced(posing, says(44_100));
        assert_eq!(hearsay.believed(Believe::Anybody), Some((says(44_100), false)));
        assert_eq!(hearsay.believed(Believe::Senders), None);
        hearsay.sends(own);
        assert_eq!(hearsay.believed(Believe::Anybody), None, "who sends has not spoken yet");
        hearsay.announced(own, says(32_000));
        hearsay.announced(own, says(48_000));
        for believe in [Believe::Anybody, Believe::Senders] {
            assert_eq!(hearsay.believed(believe), Some((says(48_000), true)));
        }
    }

    #[test]
    fn a_flood_takes_no_more_room_than_there_is() {
        let mut hearsay = Hearsay::default();
        for ssrc in 0..1000 {
            hearsay.announced(author(2, ssrc), says(44_100));
            hearsay.sends(author(3, ssrc));
        }
        assert_eq!((hearsay.announced.len(), hearsay.senders.len()), (64, 64));
    }
}
