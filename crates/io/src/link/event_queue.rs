//! Events and departures that a link reports to the ordinary thread.

use rtrb::{Consumer, Producer};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::ledger::Departure;
use tautline_proto::time::MediaTime;

use crate::thread::memory;

/// An event of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// Now reaches this endpoint.
    Connected(Endpoint),
    /// No connection to this endpoint.
    Lost(Endpoint),
    /// A system call failed with a new `errno`.
    Error(i32),
    /// The queue dropped this packet as late.
    DroppedByQueue(MediaTime),
}

/// The link's end.
#[derive(Debug)]
pub struct EventSender {
    departures: Option<Producer<Departure>>,
    events: Producer<LinkEvent>,
}

/// The ordinary thread's end.
#[derive(Debug)]
pub struct LinkReports {
    /// Times of each packet, after hand-over.
    pub departures: Consumer<Departure>,
    /// Events of the link.
    pub events: Consumer<LinkEvent>,
}

const EVENTS: usize = 64;
const CONNECTIONS: usize = EVENTS / 2;

/// Creates both ends, with room for `departures` departures and as many names of dropped packets.
pub fn event_channel(departures: usize) -> (EventSender, LinkReports) {
    let (events_in, events) = memory::ring(departures + EVENTS);
    let (departures_in, departures) = memory::ring(departures);
    (
        EventSender { departures: Some(departures_in), events: events_in },
        LinkReports { departures, events },
    )
}

impl EventSender {
    /// Disables departure reports.
    pub fn without_departures(self) -> Self {
        Self { departures: None, ..self }
    }

    pub(crate) fn all_departures(&mut self, all: impl Iterator<Item = Departure>) -> u64 {
        let Some(departures) = &mut self.departures else { return 0 };
        all.filter(|departure| departures.push(*departure).is_err()).count() as u64
    }

    /// Reports a departure; `false` without room.
    pub fn departure(&mut self, departure: Departure) -> bool {
        self.departures.as_mut().is_none_or(|departures| departures.push(departure).is_ok())
    }

    /// Reports an event if there is room. Errors leave room for connection events, which are not
    /// repeated.
    pub fn event(&mut self, event: LinkEvent) {
        let error = matches!(event, LinkEvent::Error(_));
        if !error || self.events.slots() > CONNECTIONS {
            let _ = self.events.push(event);
        }
    }

    pub(crate) fn dropped_by_queue(&mut self, packet: MediaTime) -> bool {
        self.events.slots() > EVENTS && self.events.push(LinkEvent::DroppedByQueue(packet)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_events_leave_room_for_other_events() {
        let (mut event_sender, mut reported) = event_channel(160);
        let media = |packet: i64| MediaTime::from_frames(6 * packet);
        let named = (0..200).filter(|packet| event_sender.dropped_by_queue(media(*packet))).count();
        assert_eq!(named, 160);
        event_sender.event(LinkEvent::Error(5));
        (0..100).for_each(|_| event_sender.event(LinkEvent::Error(6)));
        event_sender.event(LinkEvent::Lost(Endpoint::Connection(1)));
        for packet in 0..160 {
            assert_eq!(reported.events.pop(), Ok(LinkEvent::DroppedByQueue(media(packet))));
        }
        assert_eq!(reported.events.pop(), Ok(LinkEvent::Error(5)));
        let last = std::iter::from_fn(|| reported.events.pop().ok()).last();
        assert_eq!(last, Some(LinkEvent::Lost(Endpoint::Connection(1))));
    }
}
