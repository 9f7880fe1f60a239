//! Sends a few packets to check whether a queue supports launch times.

use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, MediaTime, Span};

use crate::clock::{now, sleep_until};
use crate::link::Link;
use crate::link::direct::DirectLink;

const PACKETS: i64 = 8;
const APART: Span = Span::from_micros(250);
const WAKES: i64 = 64;
const EARLY: Span = Span::from_micros(100);
const TIMEOUT: Span = Span::from_millis(50);

/// Result of sending packets with launch times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaunchProbe {
    /// Departure − launch time, ascending.
    pub off: Vec<Span>,
    /// Packets dropped by the queue.
    pub dropped: u64,
    /// Packets refused by the kernel.
    pub refused: u64,
    /// Mean hand-over time per packet of a batch.
    pub cost: Span,
}

impl LaunchProbe {
    /// Whether all packets left, none over 100 µs before its launch time.
    pub fn is_held(&self) -> bool {
        self.has_left() && self.off.iter().all(|off| *off >= -EARLY)
    }

    /// Whether all packets left.
    pub fn has_left(&self) -> bool {
        self.off.len() == PACKETS as usize && self.dropped + self.refused == 0
    }
}

/// Sends packets to be launched `after` their due time. Takes up to 60 ms.
pub fn probe(link: &mut DirectLink, after: Span) -> LaunchProbe {
    let begin = now();
    for packet in 0..PACKETS {
        let due = begin + APART.times(packet);
        let instants = Departure {
            media: MediaTime::from_frames(packet),
            capture: begin,
            taken: begin,
            packed: begin,
            due,
            handed: begin,
            launched: begin,
        };
        let mut datagram = [0; 24];
        link.queue(&Outgoing { datagram: &mut datagram, instants, handed_at: None, again: None });
    }
    let before = now();
    link.flush();
    let cost = (now() - before).divided(PACKETS);
    let launch = |media: MediaTime| begin + APART.times(media.as_frames()) + after;
    let until = launch(MediaTime::from_frames(PACKETS)) + TIMEOUT;
    let mut off = Vec::new();
    while off.len() < PACKETS as usize && now() < until {
        link.transmit_stamps(&mut |stamp| off.push(stamp.left - launch(stamp.media)));
        if link.counters().dropped_by_queue + link.counters().send_errors > 0 {
            break;
        }
        sleep_until(now() + APART);
    }
    off.sort_unstable();
    let counters = link.counters();
    LaunchProbe { off, dropped: counters.dropped_by_queue, refused: counters.send_errors, cost }
}

/// Median and maximum wake-up delay of this thread.
pub fn wakes() -> [Span; 2] {
    let mut late: Vec<Span> = (0..WAKES)
        .map(|_| {
            let due: LocalTime = now() + APART;
            sleep_until(due);
            now() - due
        })
        .collect();
    late.sort_unstable();
    [late[late.len() / 2], late[late.len() - 1]]
}
