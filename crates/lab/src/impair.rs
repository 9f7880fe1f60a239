//! A network that misbehaves on purpose: takes datagrams, says when each goes on.
//!
//! [`Impairer`] decides and touches nothing: time is an argument, so that tests drive it by hand.
//! [`Relay`] runs it between real sockets. What a path does to packets is the simulator's
//! [`PathModel`], so that what was simulated can be tried.

mod relay;
mod report;
mod words;

use core::cmp::Ordering;
use std::collections::BinaryHeap;

use fastrand::Rng;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtcp::hide_clocks;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Path, PathModel};

pub use relay::{Relay, RelayOptions};
pub use report::{LegReport, PortReport, RelayReport};
pub use words::{BitRate, Outage, PathChanges, Reordering, Share, WordError};

pub const QUESTION: &str = "how does a stream fare over a network as bad as this?";

/// Which direction a datagram goes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leg {
    /// From the sender to where it is relayed to.
    There,
    /// Back to the sender.
    Back,
}

/// Which of the two UDP ports it came by and goes on by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpPort {
    Media,
    /// RTCP, the one above.
    Control,
}

/// What became of the datagrams of one way and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatagramCounters {
    pub received: u64,
    /// That the path lost.
    pub lost: u64,
    /// Runs of datagrams that were lost one after the other.
    pub bursts: u64,
    /// That the path delivered a second time.
    pub duplicated: u64,
    /// That found the memory full, and were dropped: the relay's fault, not the path's.
    pub overflowed: u64,
    /// That were handed on.
    pub released: u64,
}

/// Bytes that may wait, both ways together: a second and a half of 100 Mbit/s at 5 s of delay
/// would be more, and no sound is.
const MOST_WAITING: usize = 64 << 20;

/// RTP and RTCP take the same path, and each is counted by itself.
struct LegState {
    path: Path,
    counters: [DatagramCounters; 2],
    /// Whether the last datagram was lost.
    losing: [bool; 2],
}

/// Decides when each datagram goes on: after which delay, once, twice or never. The same seed
/// decides the same for the same datagrams.
pub struct Impairer {
    start: LocalTime,
    there: LegState,
    back: LegState,
    waiting: BinaryHeap<Waiting>,
    waiting_bytes: usize,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    order: u64,
    /// The latest arrival so far: paths are asked in order of time.
    newest: LocalTime,
}

/// A datagram on its way; the first due is the greatest.
struct Waiting {
    due: LocalTime,
    order: u64,
    leg: Leg,
    port: UdpPort,
    bytes: Vec<u8>,
}

/// A datagram whose time has come.
#[derive(Debug, Clone, Copy)]
pub struct Released<'a> {
    pub leg: Leg,
    pub port: UdpPort,
    pub datagram: &'a [u8],
    /// When it was to go on.
    pub due: LocalTime,
}

impl Impairer {
    /// Two paths that begin at `start`.
    pub fn new(there: PathModel, back: PathModel, seed: u64, start: LocalTime) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut leg = |model| LegState {
            path: Path::new(model, rng.u64(..)),
            counters: [DatagramCounters::default(); 2],
            losing: [false; 2],
        };
        Self {
            start,
            there: leg(there),
            back: leg(back),
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            spare: Vec::new(),
            order: 0,
            newest: start,
        }
    }

    /// Takes a datagram that arrived at `at`. One that arrived before another that was taken
    /// earlier counts as having arrived with it.
    pub fn take(&mut self, leg: Leg, port: UdpPort, datagram: &[u8], at: LocalTime) {
        self.newest = self.newest.max(at);
        let entered = TrueTime::from_nanos((self.newest - self.start).as_nanos());
        let one = match leg {
            Leg::There => &mut self.there,
            Leg::Back => &mut self.back,
        };
        let counters = &mut one.counters[port as usize];
        let losing = &mut one.losing[port as usize];
        counters.received += 1;
        let mut copies = 0;
        one.path.carry(datagram.len(), entered, |when| {
            copies += 1;
            if self.waiting_bytes + datagram.len() > MOST_WAITING {
                counters.overflowed += 1;
                return;
            }
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.extend_from_slice(datagram);
            if port == UdpPort::Control {
                // It stands for a network, whose ends share no clock.
                hide_clocks(&mut bytes);
            }
            self.waiting_bytes += datagram.len();
            self.order += 1;
            let due = self.start + when.since(TrueTime::ZERO);
            self.waiting.push(Waiting { due, order: self.order, leg, port, bytes });
        });
        counters.lost += u64::from(copies == 0);
        counters.bursts += u64::from(copies == 0 && !*losing);
        counters.duplicated += u64::from(copies > 1);
        *losing = copies == 0;
    }

    /// When the next datagram is due; [`LocalTime::NEVER`] if none waits.
    pub fn next_due(&self) -> LocalTime {
        self.waiting.peek().map_or(LocalTime::NEVER, |waiting| waiting.due)
    }

    /// Hands on every datagram that is due by `now`, in the order in which they are due.
    pub fn release(&mut self, now: LocalTime, mut hand_on: impl FnMut(Released<'_>)) {
        while self.next_due() <= now {
            let Some(Waiting { due, leg, port, mut bytes, .. }) = self.waiting.pop() else {
                return;
            };
            let one = match leg {
                Leg::There => &mut self.there,
                Leg::Back => &mut self.back,
            };
            one.counters[port as usize].released += 1;
            hand_on(Released { leg, port, datagram: &bytes, due });
            self.waiting_bytes -= bytes.len();
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// What became of the datagrams of one way and port so far.
    pub const fn counters(&self, leg: Leg, port: UdpPort) -> DatagramCounters {
        match leg {
            Leg::There => self.there.counters[port as usize],
            Leg::Back => self.back.counters[port as usize],
        }
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl DatagramCounters {
    /// Mean length of the runs of lost datagrams.
    pub fn mean_burst(&self) -> f64 {
        self.lost as f64 / self.bursts.max(1) as f64
    }

    /// The share of datagrams that the path lost.
    pub fn loss(&self) -> Share {
        Share(self.lost as f64 / self.received.max(1) as f64)
    }
}

/// What a delay of the relay itself is compared with: one that is longer is worth a note.
const UNPUNCTUAL: Span = Span::from_millis(1);

#[cfg(test)]
mod tests;
