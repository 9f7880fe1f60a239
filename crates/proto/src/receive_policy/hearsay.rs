//! Announcements and senders before a stream is chosen.

use crate::endpoint::Author;
use crate::wire::rtcp::Announcement;

/// Trusted announcements before the first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Believe {
    /// The first announcement.
    AnyHost,
    /// Announcements of hosts that send packets.
    Senders,
}

/// Announcements and senders, limited against floods.
#[derive(Debug, Default)]
pub struct Announcements {
    announced: Vec<(Author, Announcement)>,
    senders: Vec<Author>,
}

impl Announcements {
    const MAX: usize = 64;

    /// Records an author's newest announcement.
    pub fn announced(&mut self, author: Author, announcement: Announcement) {
        let known = self.announced.iter().position(|(other, _)| *other == author);
        match known {
            Some(known) => self.announced[known].1 = announcement,
            None if self.announced.len() < Self::MAX => {
                self.announced.push((author, announcement));
            }
            None => {}
        }
    }

    /// Records a sender of packets.
    pub fn sends(&mut self, author: Author) {
        if self.senders.len() < Self::MAX && !self.senders.contains(&author) {
            self.senders.push(author);
        }
    }

    /// Trusted announcement, and whether its author sends packets.
    pub fn believed(&self, believe: Believe) -> Option<(Announcement, bool)> {
        // The sender of the first packets is the source.
        let word = |of: &Author| self.announced.iter().find(|(author, _)| author == of);
        let sender = self.senders.iter().find_map(word).map(|(_, said)| (*said, true));
        let any_host = self.senders.is_empty() && believe == Believe::AnyHost;
        let first = self.announced.first().filter(|_| any_host);
        sender.or(first.map(|(_, said)| (*said, false)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tautline_dsp::format::SampleFormat;

    use super::*;
    use crate::stream::StreamFormat;
    use crate::time::{Frames, Span};
    use crate::units::{Channels, Rate};

    fn says(hertz: u32) -> Announcement {
        let format = StreamFormat {
            codec: None,
            rate: Rate::new(hertz).unwrap(),
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: Frames::new(48),
            payload_type: 97,
        };
        let (link_offset, packing_age) = (Span::from_millis(5), Span::from_millis(1));
        let (host, card, wants_feedback) = (None, None, false);
        Announcement { link_offset, format, packing_age, host, card, wants_feedback }
    }

    fn author(last: u8, ssrc: u32) -> Author {
        Author { ssrc, host: IpAddr::from(Ipv4Addr::new(192, 0, 2, last)).into() }
    }

    #[test]
    fn sending_host_is_believed_over_earlier_ones() {
        let (own, stranger, posing) = (author(1, 7), author(2, 8), author(2, 7));
        let mut hearsay = Announcements::default();
        assert_eq!(hearsay.believed(Believe::AnyHost), None);
        hearsay.announced(stranger, says(44_100));
        hearsay.announced(posing, says(44_100));
        assert_eq!(hearsay.believed(Believe::AnyHost), Some((says(44_100), false)));
        assert_eq!(hearsay.believed(Believe::Senders), None);
        hearsay.sends(own);
        assert_eq!(
            hearsay.believed(Believe::AnyHost),
            None,
            "the sender has not announced its stream yet"
        );
        hearsay.announced(own, says(32_000));
        hearsay.announced(own, says(48_000));
        for believe in [Believe::AnyHost, Believe::Senders] {
            assert_eq!(hearsay.believed(believe), Some((says(48_000), true)));
        }
    }

    #[test]
    fn a_flood_takes_no_more_room_than_there_is() {
        let mut hearsay = Announcements::default();
        for ssrc in 0..1000 {
            hearsay.announced(author(2, ssrc), says(44_100));
            hearsay.sends(author(3, ssrc));
        }
        assert_eq!((hearsay.announced.len(), hearsay.senders.len()), (64, 64));
    }
}
