//! Why a packet was not there at its turn: each gap has one cause, and each cause its own remedy.
//!
//! A packet that came late was late already when it left, or lost time on the way, or lay here in
//! time and was not taken, or fell into a silence of the device, or had no time for its way at all,
//! since the device here takes what the latency is. A packet that never came was dropped by a full
//! socket buffer of this host, or lost before. What a stall of the whole host overlaps counts as the
//! host's alone, but for what the fastest way would have made late as well.

#[cfg(test)]
mod tests;

use crate::ledger::PacketTrace;
use crate::target_delay::Histogram;
use crate::time::{LocalTime, Span};

/// Why a packet that came was late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Its sender handed it to the kernel later than packing takes.
    Sender,
    /// It left in time and took longer than the fastest of late; also where the sender does not say
    /// when a packet left.
    Network,
    /// It was here in time and was read or taken too late, or the buffer of the device here takes
    /// so much of the latency that the fastest way is too long.
    Receiver,
    /// The whole host stood still while it was under way.
    HostStalled,
}

/// What the causes of late packets are told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// How old the first frame of a packet is at most when it leaves, by its sender's word.
    pub packing_age: Span,
    /// From arrival to DAC at most, if this device is in time: its ring and the resampler's
    /// look-ahead.
    pub takes: Span,
    /// Time between two wake-ups of this device.
    pub period: Span,
}

/// Packets that were not heard at their turn, by cause. The sum is `late`, `lost` and `unheard` of
/// [`crate::counters::Counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gaps {
    /// Late: the sender handed them over late.
    pub late_sender: u64,
    /// Late: the network took long.
    pub late_network: u64,
    /// Late: this program read or took them late, or its device starved at their turn.
    pub late_receiver: u64,
    /// Missed while the whole host stood still.
    pub host_stalled: u64,
    /// Never came.
    pub lost: u64,
    /// Came, and were dropped since a buffer of this host was full.
    pub discarded: u64,
}

/// Tells the causes of late packets apart, and counts them.
#[derive(Debug, Clone)]
pub struct Causes {
    schedule: Schedule,
    /// The shortest times on the way, of the present stretch of time and of the one before.
    fastest: [Option<Span>; 2],
    opened: LocalTime,
    /// When the newest packet came, and whether the sender's clock says how long its way was.
    newest: LocalTime,
    mapped: bool,
    late: [u64; 4],
    /// Transits of packets that were late at the sender, on the way, or at a latency too short for
    /// the device: what would have caught them.
    transits: [Histogram; 3],
    lost_stalled: u64,
    /// Unheard ones: while this program did not run, and while nothing did.
    unheard: [u64; 2],
}

impl Causes {
    /// The fastest way of this long, or twice, stands for what the path takes when it is free.
    const STRETCH: Span = Span::from_secs(30);
    /// No host stands still for so long: 119 ms is the most that was seen of one that others share.
    const STALLED: Span = Span::from_millis(250);

    /// Has seen nothing yet. Allocates; nothing later does.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            fastest: [None; 2],
            opened: LocalTime::ZERO,
            newest: LocalTime::ZERO,
            mapped: false,
            late: [0; 4],
            transits: Default::default(),
            lost_stalled: 0,
            unheard: [0; 2],
        }
    }

    pub(crate) fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Takes a packet, whether in time or late: how fast the path is.
    pub fn observe(&mut self, passage: &PacketTrace) {
        let Some(network_time) = network_time(passage) else { return };
        let mapped = passage.origin.is_some();
        if self.mapped != mapped || self.fastest == [None; 2] {
            // How fast the path was is measured otherwise from here on.
            (self.mapped, self.fastest, self.opened) = (mapped, [None; 2], passage.arrival);
        }
        self.newest = passage.arrival;
        if passage.arrival - self.opened >= Self::STRETCH {
            (self.fastest, self.opened) = ([None, self.fastest[0]], passage.arrival);
        }
        self.fastest[0] =
            Some(self.fastest[0].map_or(network_time, |fastest| fastest.min(network_time)));
    }

    /// Finds the cause of a late packet, and counts it. `stalled` tells whether the whole host stood
    /// still at some time between two instants.
    pub fn judge(
        &mut self,
        passage: &PacketTrace,
        stalled: impl FnOnce(LocalTime, LocalTime) -> bool,
    ) -> Late {
        let began = passage.reference.unwrap_or(passage.arrival).min(passage.arrival);
        // What would have been late on the fastest way is not late for a stall.
        let measured = self.knows_the_way() && passage.origin.is_some() == self.mapped;
        let too_short = measured && self.is_too_short(passage);
        let of_host = !too_short && stalled(began, passage.read);
        let (cause, longer_helps) = match of_host {
            true => (Late::HostStalled, false),
            false if self.leaves_nothing(passage) => (Late::Receiver, true),
            false => {
                let cause = self.cause(passage);
                (cause, cause != Late::Receiver)
            }
        };
        self.late[cause as usize] += 1;
        if let (true, Some(transit)) = (longer_helps, passage.transit()) {
            self.transits[cause as usize].record(transit);
        }
        cause
    }

    /// Whether the latency is too short, and the device takes more of it than anything else.
    fn leaves_nothing(&self, passage: &PacketTrace) -> bool {
        let Schedule { packing_age, takes, .. } = self.schedule;
        let late_start = passage.departed_after().map_or(Span::ZERO, |span| span - packing_age);
        let longest = network_time(passage).unwrap_or(Span::ZERO).max(late_start);
        self.is_too_short(passage) && longest < takes
    }

    /// Whether some packet so far was in no stall, so that the fastest says what the path takes.
    pub(crate) fn knows_the_way(&self) -> bool {
        self.fastest[1].is_some() || self.newest - self.opened >= Self::STALLED
    }

    /// Whether the latency has no time for the fastest way.
    fn is_too_short(&self, passage: &PacketTrace) -> bool {
        let Schedule { packing_age, takes, .. } = self.schedule;
        let Some(captured) = passage.reference else { return false };
        if passage.arrival <= passage.dac - takes {
            return false;
        }
        // Where the sender does not say when a packet left, its way begins with its first frame.
        let packing = passage.departed_after().map_or(Span::ZERO, |_| packing_age);
        let fastest = self.fastest.into_iter().flatten().min().unwrap_or(Span::ZERO);
        passage.dac - captured - takes - packing <= fastest
    }

    fn cause(&self, passage: &PacketTrace) -> Late {
        let Schedule { packing_age, takes, period } = self.schedule;
        let short = passage.arrival - (passage.dac - takes);
        if short <= Span::ZERO {
            return Late::Receiver;
        }
        let sender = passage.departed_after().map_or(Span::ZERO, |span| span - packing_age);
        let fastest = self.fastest.into_iter().flatten().min();
        let network = match (network_time(passage), fastest) {
            (Some(network_time), Some(fastest)) => network_time - fastest,
            _ => Span::ZERO,
        };
        // It may have to wait for the next wake-up: that is no delay.
        let receiver = passage.read - passage.arrival - period;
        // A cause is named only if it explains at least half of what was missing, and a latency too
        // short for a path at its best is a matter of the network.
        let most = network.max(short.half());
        if receiver > sender.max(most) {
            Late::Receiver
        } else if sender > most {
            Late::Sender
        } else {
            Late::Network
        }
    }

    /// Takes how many packets were lost while the whole host stood still, and how many of those that
    /// had been counted lost came late after all.
    pub fn lose(&mut self, stalled: u64, found: u64) {
        self.lost_stalled = (self.lost_stalled + stalled).saturating_sub(found);
    }

    /// Takes how many packets were unheard, and of how many the whole host stood still meanwhile.
    pub(crate) fn starve(&mut self, unheard: u64, stalled: u64) {
        self.unheard[0] += unheard - stalled.min(unheard);
        self.unheard[1] += stalled.min(unheard);
    }

    /// Attributes what the receiver counted, `late` and `lost`, to their causes. `dropped` datagrams found a
    /// buffer of this host full; they cannot be more gaps than there are.
    pub fn gaps(&self, late: u64, lost: u64, dropped: u64) -> Gaps {
        let [sender, network, receiver, stalled] = self.late;
        // A late packet whose line found no room in the ledger's ring was not judged, and one may be judged
        // before it is counted: the cause with the most makes up for both.
        let judged = sender + network + receiver + stalled;
        let most = sender.max(network).max(receiver).max(stalled);
        let lost_stalled = self.lost_stalled.min(lost);
        let discarded = dropped.min(lost - lost_stalled);
        let mut gaps = Gaps {
            late_sender: sender,
            late_network: network,
            late_receiver: receiver + self.unheard[0],
            host_stalled: stalled + lost_stalled + self.unheard[1],
            lost: lost - lost_stalled - discarded,
            discarded,
        };
        let cause = match most {
            most if most == network => &mut gaps.late_network,
            most if most == sender => &mut gaps.late_sender,
            most if most == receiver => &mut gaps.late_receiver,
            _ => &mut gaps.host_stalled,
        };
        *cause = (*cause + late).saturating_sub(judged);
        gaps
    }

    /// The latency that would have caught 99 of 100 of those that were late for this cause; `None`
    /// where a longer one helps nothing, or none was.
    pub fn would_catch(&self, cause: Late) -> Option<Span> {
        let transits = match cause {
            Late::Sender | Late::Network => &self.transits[cause as usize],
            // Of those that were not taken in time, and unheard ones, a longer latency saves none.
            Late::Receiver => {
                let too_short = &self.transits[cause as usize];
                let all = self.late[cause as usize] + self.unheard[0];
                if 2 * too_short.count() <= all {
                    return None;
                }
                too_short
            }
            Late::HostStalled => return None,
        };
        Some(transits.exceeded_by(transits.count() / 100)? + self.schedule.takes)
    }
}

/// Time on the way: from the launch, where that is known, else from what stands for the capture.
fn network_time(passage: &PacketTrace) -> Option<Span> {
    let launched = passage.origin.and_then(|origin| origin.sender).map(|sender| sender.launched);
    launched.or(passage.reference).map(|left| passage.arrival - left)
}
