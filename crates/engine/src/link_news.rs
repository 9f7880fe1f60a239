//! What befalls a link, and the sentences for it.

use std::io;

use rtrb::Consumer;
use tautline_io::link::told::LinkEvent;
use tautline_proto::endpoint::Endpoint;

/// What has befallen one link so far.
pub(crate) struct LinkNews {
    events: Consumer<LinkEvent>,
    /// The place that was lost last, while it is not reached again.
    lost: Option<Endpoint>,
    /// The first `errno` that was told.
    error: Option<i32>,
}

impl LinkNews {
    pub(crate) const fn of(events: Consumer<LinkEvent>) -> Self {
        Self { events, lost: None, error: None }
    }

    /// Hears what was told, and tells what people are to know of connections.
    pub(crate) fn hear(&mut self, address: &str, mut note: impl FnMut(String)) {
        while let Ok(event) = self.events.pop() {
            match event {
                LinkEvent::Connected(place) => {
                    if self.lost.take().is_some() {
                        note(format!("{address}: {place} is connected again"));
                    }
                }
                LinkEvent::Lost(place) => {
                    self.lost = Some(place);
                    note(format!(
                        "{address}: {place} is not connected any more; does the other end run, and is \
                         the way to it whole?"
                    ));
                }
                LinkEvent::Error(errno) => {
                    self.error.get_or_insert(errno);
                }
            }
        }
    }

    /// The sentence for the first error. Datagrams that the system refused are counted and told with
    /// their number, so it is for links that `counted` none.
    pub(crate) fn error(&self, address: &str, counted: u64) -> Option<String> {
        let errno = self.error.filter(|_| counted == 0)?;
        let answer = io::Error::from_raw_os_error(errno);
        Some(format!("{address}: the system answered {answer}; is the network there?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_lost_and_found_is_told_and_the_first_is_not() {
        let (mut link, events) = rtrb::RingBuffer::new(8);
        let (mut news, mut told) = (LinkNews::of(events), Vec::new());
        let far = Endpoint::Connection(7);
        for event in [LinkEvent::Connected(far), LinkEvent::Error(5), LinkEvent::Error(6)] {
            link.push(event).unwrap();
        }
        news.hear("here", |note| told.push(note));
        assert!(told.is_empty(), "{told:?}");
        for event in [LinkEvent::Lost(far), LinkEvent::Connected(far), LinkEvent::Connected(far)] {
            link.push(event).unwrap();
        }
        news.hear("here", |note| told.push(note));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("here: connection 7 is not connected any more"), "{told:?}");
        assert_eq!(told[1], "here: connection 7 is connected again");
        assert!(news.error("here", 0).unwrap().contains("(os error 5)"));
        assert_eq!(news.error("here", 1), None, "told with the count");
    }
}
