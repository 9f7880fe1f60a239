//! Finds why a packet missed its turn: a latency too short for any network, sent late, slow on the
//! network, read late, or lost. A packet in a stall of the whole host counts as the host's, unless
//! even the fastest path would be late.

#[cfg(test)]
mod tests;

use crate::latency::WAY;
use crate::ledger::PacketTrace;
use crate::target_delay::Histogram;
use crate::time::{LocalTime, Span};

/// Cause of a late packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Passed to the kernel too late.
    Sender,
    /// Took longer than the recent fastest.
    Network,
    /// By sender or network: the departure is unknown.
    Unattributed,
    /// Arrived within the time that a network usually takes, for which the latency leaves no room.
    TooShort,
    /// Read late.
    Receiver,
    /// The whole host stalled meanwhile.
    HostStalled,
}

/// Times of sender and device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Announced maximum age of a first frame at departure.
    pub packing_age: Span,
    /// Maximum time from arrival to DAC: device ring and look-ahead.
    pub takes: Span,
    /// Device period.
    pub period: Span,
}

/// Missed packets by cause. The sum equals `late`, `lost` and `underrun_discarded` of
/// [`crate::counters::Counters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gaps {
    /// Late: sent late.
    pub late_sender: u64,
    /// Late: the network was slow.
    pub late_network: u64,
    /// Late: by sender or network.
    pub late_unattributed: u64,
    /// Late: the latency is too short for a usual network.
    pub late_too_short: u64,
    /// Late: read late, or the device underran.
    pub late_receiver: u64,
    /// Missed during a stall of the whole host.
    pub host_stalled: u64,
    /// Lost.
    pub lost: u64,
    /// Dropped by full buffers of this host.
    pub discarded: u64,
}

/// Finds and counts the causes of late packets.
#[derive(Debug, Clone)]
pub struct Causes {
    schedule: Schedule,
    fastest: [Option<Span>; 2],
    opened: LocalTime,
    /// Newest arrival; whether network times use the sender's clock.
    newest: LocalTime,
    mapped: bool,
    late: [u64; 6],
    /// Transits of packets that a longer latency would catch: packets late by one of the first
    /// four causes.
    transits: [Histogram; 4],
    lost_stalled: u64,
    /// Packets that an underrun discarded: this program stopped, or the host stalled.
    not_received: [u64; 2],
}

impl Causes {
    /// Duration of a stretch. The fastest packet of one to two stretches measures the path.
    const STRETCH: Span = Span::from_secs(30);
    /// Exceeds all host stalls; 119 ms is the longest seen.
    const STALLED: Span = Span::from_millis(250);

    /// Only this function allocates.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            fastest: [None; 2],
            opened: LocalTime::ZERO,
            newest: LocalTime::ZERO,
            mapped: false,
            late: [0; 6],
            transits: Default::default(),
            lost_stalled: 0,
            not_received: [0; 2],
        }
    }

    pub(crate) fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Adds a packet, in time or late.
    pub fn observe(&mut self, passage: &PacketTrace) {
        let Some(network_time) = network_time(passage) else { return };
        let mapped = passage.origin.is_some();
        if self.mapped != mapped || self.fastest == [None; 2] {
            // Network times have another reference from now on.
            (self.mapped, self.fastest, self.opened) = (mapped, [None; 2], passage.arrival);
        }
        self.newest = passage.arrival;
        if passage.arrival - self.opened >= Self::STRETCH {
            (self.fastest, self.opened) = ([None, self.fastest[0]], passage.arrival);
        }
        self.fastest[0] =
            Some(self.fastest[0].map_or(network_time, |fastest| fastest.min(network_time)));
    }

    /// Counts and returns the cause of a late packet. `stalled` reports stalls of the whole host.
    pub fn judge(
        &mut self,
        passage: &PacketTrace,
        stalled: impl FnOnce(LocalTime, LocalTime) -> bool,
    ) -> Late {
        let began = passage.reference.unwrap_or(passage.arrival).min(passage.arrival);
        // A packet late even on the fastest path is not late due to a stall. One that took longer
        // than the fastest path and any stall was held by the network.
        let measured = self.knows_the_way() && passage.origin.is_some() == self.mapped;
        let network = measured && (self.is_too_short(passage) || self.is_held(passage));
        let of_host = !network && stalled(began, passage.read);
        let cause = match of_host {
            true => Late::HostStalled,
            false if self.is_usual(passage) => Late::TooShort,
            false => self.cause(passage),
        };
        self.late[cause as usize] += 1;
        if let Some((all, transit)) = self.transits.get_mut(cause as usize).zip(passage.transit()) {
            all.record(transit);
        }
        cause
    }

    /// Whether the packet arrived after its turn although a latency with room for a usual network
    /// ([`crate::latency::enough_latency`]) would have caught it.
    fn is_usual(&self, passage: &PacketTrace) -> bool {
        let Schedule { packing_age, takes, .. } = self.schedule;
        passage.arrival > passage.dac - takes
            && passage.transit().is_some_and(|transit| transit <= packing_age + WAY)
    }

    /// Whether the observation is longer than any host stall.
    pub(crate) fn knows_the_way(&self) -> bool {
        self.fastest[1].is_some() || self.newest - self.opened >= Self::STALLED
    }

    fn is_held(&self, passage: &PacketTrace) -> bool {
        let fastest = self.fastest.into_iter().flatten().min().unwrap_or(Span::ZERO);
        network_time(passage).is_some_and(|network| network - fastest > Self::STALLED)
    }

    fn is_too_short(&self, passage: &PacketTrace) -> bool {
        let Schedule { packing_age, takes, .. } = self.schedule;
        let Some(captured) = passage.reference else { return false };
        if passage.arrival <= passage.dac - takes {
            return false;
        }
        // Unknown departure: network time includes packing.
        let packing = passage.departed_after().map_or(Span::ZERO, |_| packing_age);
        let fastest = self.fastest.into_iter().flatten().min().unwrap_or(Span::ZERO);
        passage.dac - captured - takes - packing <= fastest
    }

    fn cause(&self, passage: &PacketTrace) -> Late {
        let Schedule { packing_age, takes, period } = self.schedule;
        let short = passage.arrival - (passage.dac - takes);
        let sender = passage.departed_after().map_or(Span::ZERO, |span| span - packing_age);
        let fastest = self.fastest.into_iter().flatten().min();
        let network = match (network_time(passage), fastest) {
            (Some(network_time), Some(fastest)) => network_time - fastest,
            _ => Span::ZERO,
        };
        // Waiting for a wake-up is not a delay.
        let receiver = passage.read - passage.arrival - period;
        // Read after its turn, or missed without a delay.
        if short <= Span::ZERO && (receiver + short > Span::ZERO || network.max(sender) <= period) {
            return Late::Receiver;
        }
        // Otherwise its turn was earlier than the sender's clock tells, which jitter makes
        // uncertain.
        //
        // A cause must explain at least half of the missing time.
        let maximum = network.max(short.half());
        if receiver > sender.max(maximum) {
            Late::Receiver
        } else if sender > maximum {
            Late::Sender
        } else if passage.departed_after().is_none() {
            Late::Unattributed
        } else {
            Late::Network
        }
    }

    /// Adds packets lost in host stalls; subtracts those that arrived later.
    pub fn lose(&mut self, stalled: u64, found: u64) {
        self.lost_stalled = (self.lost_stalled + stalled).saturating_sub(found);
    }

    pub(crate) fn starve(&mut self, not_received: u64, stalled: u64) {
        self.not_received[0] += not_received - stalled.min(not_received);
        self.not_received[1] += stalled.min(not_received);
    }

    /// Attributes `late`, `lost` and `dropped` counts to causes.
    pub fn gaps(&self, late: u64, lost: u64, dropped: u64) -> Gaps {
        let [sender, network, unattributed, too_short, receiver, stalled] = self.late;
        // A full ledger ring loses packets. The most frequent cause absorbs the difference.
        let judged = self.late.iter().sum();
        let maximum = self.late.into_iter().max().unwrap_or(0);
        let lost_stalled = self.lost_stalled.min(lost);
        let discarded = dropped.min(lost - lost_stalled);
        let mut gaps = Gaps {
            late_sender: sender,
            late_network: network,
            late_unattributed: unattributed,
            late_too_short: too_short,
            late_receiver: receiver + self.not_received[0],
            host_stalled: stalled + lost_stalled + self.not_received[1],
            lost: lost - lost_stalled - discarded,
            discarded,
        };
        let cause = match maximum {
            maximum if maximum == network => &mut gaps.late_network,
            maximum if maximum == sender => &mut gaps.late_sender,
            maximum if maximum == unattributed => &mut gaps.late_unattributed,
            maximum if maximum == too_short => &mut gaps.late_too_short,
            maximum if maximum == receiver => &mut gaps.late_receiver,
            _ => &mut gaps.host_stalled,
        };
        *cause = (*cause + late).saturating_sub(judged);
        gaps
    }

    /// Latency that would have caught 99 % of the packets late for `cause`.
    pub fn would_catch(&self, cause: Late) -> Option<Span> {
        // A longer latency would not help against the other causes.
        let transits = self.transits.get(cause as usize)?;
        Some(transits.exceeded_by(transits.count() / 100)? + self.schedule.takes)
    }
}

/// Time from the launch, else from the capture or its estimate.
fn network_time(passage: &PacketTrace) -> Option<Span> {
    let launched = passage.origin.and_then(|origin| origin.sender).map(|sender| sender.launched);
    launched.or(passage.reference).map(|left| passage.arrival - left)
}
