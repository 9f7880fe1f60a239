//! Finds why a packet missed its turn: each gap has one cause, and each cause its own remedy.
//!
//! A late packet left late, lost time on the network, or arrived in time and was not read. Or the
//! device played its own silence, or the device's delay leaves no time for the network. A packet
//! that did not arrive was dropped by a full socket buffer of this host, or lost before. A packet
//! that overlaps a stall of the whole host counts as the host's, unless the fastest path would also
//! have made it late.

#[cfg(test)]
mod tests;

use crate::ledger::PacketTrace;
use crate::target_delay::Histogram;
use crate::time::{LocalTime, Span};

/// Cause of a late packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The sender passed it to the kernel later than packing takes.
    Sender,
    /// It left in time but took longer than the recent fastest. Also used if the departure is
    /// unknown.
    Network,
    /// It arrived in time but was read late. Or this host's device buffer takes so much of the
    /// latency that even the fastest path is too slow.
    Receiver,
    /// The whole host stalled while the packet was under way.
    HostStalled,
}

/// Times used to find the causes of late packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Announced maximum age of a packet's first frame at departure.
    pub packing_age: Span,
    /// Maximum time from arrival to DAC for a device in time: its ring and the resampler's
    /// look-ahead.
    pub takes: Span,
    /// Time between two wake-ups of this device.
    pub period: Span,
}

/// Packets missed at their turn, by cause. The sum equals `late`, `lost` and `unheard` of
/// [`crate::counters::Counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gaps {
    /// Late: sent late.
    pub late_sender: u64,
    /// Late: the network was slow.
    pub late_network: u64,
    /// Late: read late, or the device was in underrun.
    pub late_receiver: u64,
    /// Missed during a stall of the whole host.
    pub host_stalled: u64,
    /// Lost.
    pub lost: u64,
    /// Dropped by a full buffer of this host.
    pub discarded: u64,
}

/// Finds and counts the causes of late packets.
#[derive(Debug, Clone)]
pub struct Causes {
    schedule: Schedule,
    /// Shortest network times of the present and the previous stretch.
    fastest: [Option<Span>; 2],
    opened: LocalTime,
    /// Arrival of the newest packet, and whether network times use the sender's clock.
    newest: LocalTime,
    mapped: bool,
    late: [u64; 4],
    /// Transits of packets late at the sender, on the network, or because the latency is too short
    /// for the device: the latency that would have caught them.
    transits: [Histogram; 3],
    lost_stalled: u64,
    /// Unheard packets: while only this program was stopped, and during stalls of the whole host.
    unheard: [u64; 2],
}

impl Causes {
    /// The fastest packet of one to two stretches measures the unloaded path.
    const STRETCH: Span = Span::from_secs(30);
    /// Longer than any host stall: the maximum seen on a shared host is 119 ms.
    const STALLED: Span = Span::from_millis(250);

    /// Creates an empty state. Allocates here only.
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

    /// Adds a packet, in time or late, to measure the fastest path.
    pub fn observe(&mut self, passage: &PacketTrace) {
        let Some(network_time) = network_time(passage) else { return };
        let mapped = passage.origin.is_some();
        if self.mapped != mapped || self.fastest == [None; 2] {
            // Network times are measured differently from now on.
            (self.mapped, self.fastest, self.opened) = (mapped, [None; 2], passage.arrival);
        }
        self.newest = passage.arrival;
        if passage.arrival - self.opened >= Self::STRETCH {
            (self.fastest, self.opened) = ([None, self.fastest[0]], passage.arrival);
        }
        self.fastest[0] =
            Some(self.fastest[0].map_or(network_time, |fastest| fastest.min(network_time)));
    }

    /// Finds the cause of a late packet and counts it. `stalled` returns whether the whole host
    /// stalled between two instants.
    pub fn judge(
        &mut self,
        passage: &PacketTrace,
        stalled: impl FnOnce(LocalTime, LocalTime) -> bool,
    ) -> Late {
        let began = passage.reference.unwrap_or(passage.arrival).min(passage.arrival);
        // A packet late even on the fastest path is not late because of a stall.
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

    /// Whether the latency is too short and the device takes the largest part.
    fn leaves_nothing(&self, passage: &PacketTrace) -> bool {
        let Schedule { packing_age, takes, .. } = self.schedule;
        let late_start = passage.departed_after().map_or(Span::ZERO, |span| span - packing_age);
        let longest = network_time(passage).unwrap_or(Span::ZERO).max(late_start);
        self.is_too_short(passage) && longest < takes
    }

    /// Whether the observation exceeds any host stall, so the fastest packet measures the path.
    pub(crate) fn knows_the_way(&self) -> bool {
        self.fastest[1].is_some() || self.newest - self.opened >= Self::STALLED
    }

    /// Whether the latency leaves no time for the fastest path.
    fn is_too_short(&self, passage: &PacketTrace) -> bool {
        let Schedule { packing_age, takes, .. } = self.schedule;
        let Some(captured) = passage.reference else { return false };
        if passage.arrival <= passage.dac - takes {
            return false;
        }
        // With an unknown departure, the network time begins with the packet's first frame.
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
        // Waiting for the next wake-up is not a delay.
        let receiver = passage.read - passage.arrival - period;
        // A cause must explain at least half of the missing time. A latency too short for the
        // fastest path counts as the network's.
        let most = network.max(short.half());
        if receiver > sender.max(most) {
            Late::Receiver
        } else if sender > most {
            Late::Sender
        } else {
            Late::Network
        }
    }

    /// Adds packets lost during stalls of the whole host, and subtracts those that arrived late
    /// after all.
    pub fn lose(&mut self, stalled: u64, found: u64) {
        self.lost_stalled = (self.lost_stalled + stalled).saturating_sub(found);
    }

    /// Adds unheard packets, and how many of them fell into stalls of the whole host.
    pub(crate) fn starve(&mut self, unheard: u64, stalled: u64) {
        self.unheard[0] += unheard - stalled.min(unheard);
        self.unheard[1] += stalled.min(unheard);
    }

    /// Attributes the receiver's `late` and `lost` counts to causes. `dropped` datagrams found a
    /// buffer of this host full; at most the number of gaps is used.
    pub fn gaps(&self, late: u64, lost: u64, dropped: u64) -> Gaps {
        let [sender, network, receiver, stalled] = self.late;
        // Late packets missing from the full ledger ring were not judged; others are judged before
        // they are counted. The most frequent cause absorbs both differences.
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

    /// Latency that would have caught 99 % of the packets late for `cause`; `None` if there were
    /// none or a longer latency does not help.
    pub fn would_catch(&self, cause: Late) -> Option<Span> {
        let transits = match cause {
            Late::Sender | Late::Network => &self.transits[cause as usize],
            // A longer latency helps neither packets read late nor unheard ones.
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

/// Network time from the launch if known, else from the capture or its estimate.
fn network_time(passage: &PacketTrace) -> Option<Span> {
    let launched = passage.origin.and_then(|origin| origin.sender).map(|sender| sender.launched);
    launched.or(passage.reference).map(|left| passage.arrival - left)
}
