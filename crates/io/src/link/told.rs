//! What a link tells the ordinary thread, past the device's.

use rtrb::{Consumer, Producer};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::ledger::Departure;

use crate::thread::memory;

/// What befell a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent {
    /// This place is reached by it from now on.
    Connected(Endpoint),
    /// This place is not reached by it any more.
    Lost(Endpoint),
    /// The system answered a call with this `errno`, and not the time before.
    Error(i32),
}

/// The link's end.
#[derive(Debug)]
pub struct Teller {
    departures: Producer<Departure>,
    events: Producer<LinkEvent>,
}

/// The ordinary thread's end.
#[derive(Debug)]
pub struct Told {
    /// The instants of each packet once it was handed over.
    pub departures: Consumer<Departure>,
    /// What befell the link.
    pub events: Consumer<LinkEvent>,
}

/// Events that wait to be heard; what is more is not told.
const EVENTS: usize = 16;

/// Both ends, with room for the departures of so many packets.
pub fn telling(departures: usize) -> (Teller, Told) {
    let (departures_in, departures) = memory::ring(departures);
    let (events_in, events) = memory::ring(EVENTS);
    (Teller { departures: departures_in, events: events_in }, Told { departures, events })
}

impl Teller {
    /// Tells when a packet left; false if there is no room.
    pub fn departure(&mut self, departure: Departure) -> bool {
        self.departures.push(departure).is_ok()
    }

    /// Tells what befell the link, as far as there is room.
    pub fn event(&mut self, event: LinkEvent) {
        // The counters hold what is not told.
        let _ = self.events.push(event);
    }
}
