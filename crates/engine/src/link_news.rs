//! Link events and their notes.

use rtrb::Consumer;
use tautline_io::link::event_queue::LinkEvent;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::MediaTime;

use crate::monitor::note::Note;

pub(crate) struct LinkNews {
    events: Consumer<LinkEvent>,
    lost: Option<Endpoint>,
    error: Option<i32>,
}

impl LinkNews {
    pub(crate) const fn of(events: Consumer<LinkEvent>) -> Self {
        Self { events, lost: None, error: None }
    }

    /// Notes lost and restored connections, and passes on packets that the queue dropped.
    pub(crate) fn handle(
        &mut self,
        address: &str,
        mut note: impl FnMut(&Note<'_>),
        mut dropped_by_queue: impl FnMut(MediaTime),
    ) {
        while let Ok(event) = self.events.pop() {
            match event {
                LinkEvent::Connected(place) => {
                    if self.lost.take().is_some() {
                        note(&Note::LinkFound { address, place });
                    }
                }
                LinkEvent::Lost(place) => {
                    self.lost = Some(place);
                    note(&Note::LinkLost { address, place });
                }
                LinkEvent::DroppedByQueue(packet) => dropped_by_queue(packet),
                LinkEvent::Error(errno) => {
                    self.error.get_or_insert(errno);
                }
            }
        }
    }

    /// Takes the first error, for links that do not count errors.
    pub(crate) fn take_error<'a>(&mut self, address: &'a str) -> Option<Note<'a>> {
        let errno = self.error.take()?;
        Some(Note::LinkError { address, errno })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnection_is_noted_but_the_first_connection_is_not() {
        let (mut link, events) = rtrb::RingBuffer::new(8);
        let (mut news, mut reported) = (LinkNews::of(events), Vec::new());
        let far = Endpoint::Connection(7);
        for event in [LinkEvent::Connected(far), LinkEvent::Error(5), LinkEvent::Error(6)] {
            link.push(event).unwrap();
        }
        news.handle("here", |note| reported.push(format!("{note:?}")), |_| ());
        assert!(reported.is_empty(), "{reported:?}");
        for event in [LinkEvent::Lost(far), LinkEvent::Connected(far), LinkEvent::Connected(far)] {
            link.push(event).unwrap();
        }
        news.handle("here", |note| reported.push(format!("{note:?}")), |_| ());
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(reported[0].starts_with("LinkLost"), "{reported:?}");
        assert!(reported[1].starts_with("LinkFound"), "{reported:?}");
        assert!(matches!(news.take_error("here"), Some(Note::LinkError { errno: 5, .. })));
        assert!(news.take_error("here").is_none(), "each error is reported once");
    }
}
