//! Probes whether the queue heeds launch times: sends a few packets, whose transmit stamps tell when each left.

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
const PATIENCE: Span = Span::from_millis(50);

/// What became of packets that were to leave at their launch times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaunchProbe {
    /// Each one's departure less its launch time, the earliest first.
    pub off: Vec<Span>,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Packets that the kernel did not take.
    pub refused: u64,
    /// How long handing over takes, for each packet of several.
    pub cost: Span,
}

impl LaunchProbe {
    /// Whether the queue held all packets until their time, as far as it can be seen.
    pub fn is_held(&self) -> bool {
        self.has_left() && self.off.iter().all(|off| *off >= -EARLY)
    }

    /// Whether all packets left, whenever.
    pub fn has_left(&self) -> bool {
        self.off.len() == PACKETS as usize && self.dropped + self.refused == 0
    }
}

/// Sends packets by a link whose driver launches them `after` they are due, and reads when they left. Takes up to 60
/// ms.
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
    let until = launch(MediaTime::from_frames(PACKETS)) + PATIENCE;
    let mut off = Vec::new();
    while off.len() < PACKETS as usize && now() < until {
        link.transmit_stamps(&mut |stamp| off.push(stamp.left - launch(stamp.media)));
        if link.counters().unlaunched + link.counters().send_errors > 0 {
            break;
        }
        sleep_until(now() + APART);
    }
    off.sort_unstable();
    let counters = link.counters();
    LaunchProbe { off, dropped: counters.unlaunched, refused: counters.send_errors, cost }
}

/// How late this thread wakes up from short sleeps: the median and the maximum of a few.
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
