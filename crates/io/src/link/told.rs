//! What a link tells the ordinary thread, past the device's.

use rtrb::{Consumer, Producer};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::ledger::Departure;
use tautline_proto::time::MediaTime;

use crate::thread::memory;

/// What happened to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// This place is reached by it from now on.
    Connected(Endpoint),
    /// This place is not reached by it any more.
    Lost(Endpoint),
    /// The system answered a call with this `errno`, another than was told last.
    Error(i32),
    /// The packet that begins with this frame was dropped, since it could not be launched in time.
    Unlaunched(MediaTime),
}

/// The link's end.
#[derive(Debug)]
pub struct Teller {
    /// `None` where nobody wants to know.
    departures: Option<Producer<Departure>>,
    events: Producer<LinkEvent>,
}

/// The ordinary thread's end.
#[derive(Debug)]
pub struct LinkReports {
    /// The instants of each packet once it was handed over.
    pub departures: Consumer<Departure>,
    /// What happened to the link.
    pub events: Consumer<LinkEvent>,
}

/// Events that wait to be heard; what is more is not told.
const EVENTS: usize = 64;

/// Both ends, with room for the departures of so many packets.
pub fn telling(departures: usize) -> (Teller, LinkReports) {
    let (departures_in, departures) = memory::ring(departures);
    let (events_in, events) = memory::ring(EVENTS);
    (
        Teller { departures: Some(departures_in), events: events_in },
        LinkReports { departures, events },
    )
}

impl Teller {
    /// Tells of no departures.
    pub fn without_departures(self) -> Self {
        Self { departures: None, ..self }
    }

    /// Whether it tells of departures.
    pub fn tells_departures(&self) -> bool {
        self.departures.is_some()
    }

    /// Tells when a packet left; false if there is no room.
    pub fn departure(&mut self, departure: Departure) -> bool {
        self.departures.as_mut().is_none_or(|departures| departures.push(departure).is_ok())
    }

    /// Tells what happened to the link, as far as there is room. Errors leave half of it to
    /// connections: those are told by nothing else, and what fails goes on failing.
    pub fn event(&mut self, event: LinkEvent) {
        let error = matches!(event, LinkEvent::Error(_) | LinkEvent::Unlaunched(_));
        if !error || self.events.slots() > EVENTS / 2 {
            let _ = self.events.push(event);
        }
    }
}
