//! Several senders on one link, each with its own clock and path.
//!
//! Frame values are shifted per sender, so each played frame shows its sender.

mod link;
mod sender;

use std::collections::BTreeMap;

use fastrand::Rng;
use tautline_proto::counters::Counters;
use tautline_proto::endpoint::{Arrival, Endpoint};
use tautline_proto::jitter_buffer::PullTimes;
use tautline_proto::time::{Frames, LocalTime, Span};

use super::hosts::SimHost;
use crate::clock::TrueTime;
use crate::link::PathModel;
use crate::received::{Received, is_sound};
use crate::scenario::{HostModel, Scenario};
use link::{Input, SimSharedLink};
use sender::{Arrived, SimSender};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stint {
    pub sends: (TrueTime, TrueTime),
    pub from: Endpoint,
    pub goodbye: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SenderModel {
    pub ssrc: u32,
    pub host: HostModel,
    pub path: PathModel,
    /// In order and not overlapping. The card keeps running in between.
    pub stints: Vec<Stint>,
}

/// On the receiving host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketArrival {
    pub at: LocalTime,
    pub read: LocalTime,
}

#[derive(Debug, Clone, Default)]
pub struct SenderSeen {
    /// Packet counters are sums over all its receivers.
    pub received: Received,
    pub lost: u64,
    pub arrived: Vec<PacketArrival>,
    pub unplaced: u64,
    pub astray: u64,
    pub right: u64,
}

#[derive(Debug, Clone, Default)]
pub struct SharedReceived {
    pub senders: Vec<SenderSeen>,
    pub unplaced: u64,
    /// Senders with a place: maximum, and at the end.
    pub places: (usize, usize),
}

/// Value shift between successive senders, in frames.
const SHIFT: i64 = 7_919;

struct Shared {
    scenario: Scenario,
    senders: Vec<SimSender>,
    link: SimSharedLink,
    under_way: BTreeMap<(TrueTime, u64), (usize, Arrived)>,
    order: u64,
    host: SimHost,
    reported: SharedReceived,
}

/// Plays `senders` to one link. `scenario` has the format, the latency and the first receiver's
/// host.
pub fn play_shared(
    scenario: Scenario,
    senders: Vec<SenderModel>,
    places: usize,
    span: Span,
) -> SharedReceived {
    let mut rng = Rng::with_seed(scenario.seed);
    let host = SimHost::new(&scenario.receivers[0].host, &scenario, 0, &mut rng);
    let received = (0..senders.len()).map(|n| SenderSeen {
        received: Received::by(format!("seed {}, sender {n}", scenario.seed)),
        ..SenderSeen::default()
    });
    let reported = SharedReceived { senders: received.collect(), ..SharedReceived::default() };
    let senders = senders.into_iter().map(|model| SimSender::new(model, &scenario, &mut rng));
    let mut shared = Shared {
        senders: senders.collect(),
        link: SimSharedLink::new(places, &scenario),
        under_way: BTreeMap::new(),
        order: 0,
        host,
        reported,
        scenario,
    };
    let (mut now, end) = (TrueTime::ZERO, TrueTime::ZERO.after(span));
    while now < end {
        now = shared.host.card.playback_wake(now);
        shared.play(now);
    }
    shared.finish()
}

impl Shared {
    fn play(&mut self, now: TrueTime) {
        let Self { scenario, senders, under_way, order, reported, .. } = self;
        for (number, sending) in senders.iter_mut().enumerate() {
            while sending.wakes <= now {
                let mut arrives = |when, arrived| {
                    *order += 1;
                    under_way.insert((when, *order), (number, arrived));
                };
                let shift = SHIFT * number as i64;
                reported.senders[number].lost += sending.capture(scenario, shift, &mut arrives);
            }
        }
        self.read(now);
        let (_, meets, skipped) = self.host.card.play(now);
        let woke = self.host.local(now);
        let times = PullTimes { now: woke, meets: self.host.local(meets), skipped, clock: None };
        let mut inputs = core::mem::take(&mut self.link.inputs);
        inputs.iter_mut().flatten().for_each(|input| self.pull(input, times, now));
        self.link.inputs = inputs;
        let reported = &mut self.reported.senders;
        self.link.settle(woke, |sender, before, after| {
            add(&mut reported[sender].received.counters, before, after);
        });
    }

    fn read(&mut self, now: TrueTime) {
        let read = self.host.local(now);
        while let Some(first) = self.under_way.first_entry().filter(|first| first.key().0 <= now) {
            let ((when, _), (number, arrived)) = first.remove_entry();
            let at = self.host.local(when);
            let reported = &mut self.reported.senders[number];
            match arrived {
                Arrived::Packet(datagram, from) => {
                    reported.arrived.push(PacketArrival { at, read });
                    match self.link.hand_on(number, &datagram, &Arrival::exact(from, at, read)) {
                        Some(own) => reported.astray += u64::from(!own),
                        None => reported.unplaced += 1,
                    }
                }
                Arrived::Goodbye(author) => self.link.say_goodbye(author),
            }
            self.reported.places.0 = self.reported.places.0.max(self.link.count());
        }
    }

    fn pull(&mut self, input: &mut Input, times: PullTimes, now: TrueTime) {
        let channels = self.scenario.format.channels.count();
        let mut out = vec![0.0; self.host.card.model.period.as_len() * channels];
        let resampled = input.receiver.counters().resampled_frames;
        let pulled = input.receiver.pull(&mut out, times, |_| {});
        let (Some(number), Some(media)) = (input.handles, pulled.media) else { return };
        let timestamp = media.frame.as_frames() as u32;
        let index = timestamp.wrapping_sub(self.senders[number].timestamp).cast_signed();
        let begin = i64::from(index) + SHIFT * number as i64;
        let copied = resampled == input.receiver.counters().resampled_frames;
        let sound: Vec<f32> = out.iter().step_by(channels).copied().collect();
        let reported = &mut self.reported.senders[number];
        let right =
            |(index, sample): &(i64, &f32)| **sample != 0.0 && is_sound(**sample, *index, copied);
        reported.right += (begin..).zip(&sound).filter(right).count() as u64;
        let disturbed = pulled.resync.is_some() || times.skipped + pulled.missing > Frames::ZERO;
        reported.received.take(&sound, (begin, copied), now, disturbed);
    }

    fn finish(mut self) -> SharedReceived {
        for input in self.link.inputs.iter().flatten() {
            if let Some(sender) = input.handles {
                let counters = &mut self.reported.senders[sender].received.counters;
                add(counters, &input.since, input.receiver.counters());
            }
        }
        self.reported.unplaced = self.link.unplaced().packets;
        self.reported.places.1 = self.link.count();
        self.reported
    }
}

fn add(sum: &mut Counters, before: &Counters, after: &Counters) {
    sum.received += after.received - before.received;
    sum.other_source += after.other_source - before.other_source;
    sum.lost += after.lost - before.lost;
    sum.late += after.late - before.late;
    sum.reordered += after.reordered - before.reordered;
    sum.duplicate += after.duplicate - before.duplicate;
    sum.on_probation += after.on_probation - before.on_probation;
    sum.invalid += after.invalid - before.invalid;
}
