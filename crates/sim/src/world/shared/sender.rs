//! A sender in operation: its card, sending times, and path.

use fastrand::Rng;
use tautline_proto::endpoint::{Author, Endpoint};
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer};
use tautline_proto::time::Span;

use super::{SenderModel, Stint};
use crate::clock::TrueTime;
use crate::link::Path;
use crate::received::value;
use crate::scenario::Scenario;
use crate::world::faults::sender_of;
use crate::world::hosts::SimHost;

pub(super) struct SimSender {
    model: SenderModel,
    host: SimHost,
    sender: Packetizer,
    path: Path,
    pub(super) timestamp: u32,
    pub(super) wakes: TrueTime,
    goodbyes: usize,
}

pub(super) enum Arrived {
    Packet(Vec<u8>, Endpoint),
    Goodbye(Author),
}

/// Delay of the goodbye after the last packet, so that it overtakes none.
const GOODBYE: Span = Span::from_millis(20);

impl SimSender {
    pub(super) fn new(model: SenderModel, scenario: &Scenario, rng: &mut Rng) -> Self {
        let mut host = SimHost::new(&model.host, scenario, model.ssrc, rng);
        let identity = Identity {
            stream: StreamId::from(model.ssrc),
            sequence: rng.u16(..),
            timestamp: rng.u32(..),
        };
        Self {
            wakes: host.card.capture_wake(TrueTime::ZERO),
            sender: sender_of(scenario, identity, host.wall),
            path: Path::new(model.path.clone(), rng.u64(..)),
            timestamp: identity.timestamp,
            goodbyes: 0,
            host,
            model,
        }
    }

    /// Captures the next block, with values `shift` ahead. Passes arriving packets to `arrives`;
    /// returns the number lost.
    pub(super) fn capture(
        &mut self,
        scenario: &Scenario,
        shift: i64,
        mut arrives: impl FnMut(TrueTime, Arrived),
    ) -> u64 {
        let now = self.wakes;
        let (first, met, skipped) = self.host.card.capture(now);
        let period = self.host.card.model.period;
        let taken = self.host.local(now);
        let times = BlockTimes { capture: self.host.local(met), taken, now: taken };
        let sends = |stint: &&Stint| (stint.sends.0..stint.sends.1).contains(&now);
        let stint = self.model.stints.iter().find(sends).copied();
        self.sender.skip(skipped, taken, |_| {});
        let mut lost = 0;
        if let Some(stint) = stint {
            let channels = scenario.format.channels.count();
            let frames = first + shift..first + shift + period.count();
            let block: Vec<f32> = frames.flat_map(|n| vec![value(n); channels]).collect();
            let path = &mut self.path;
            self.sender.push(&block, times, |packet| {
                let mut carried = false;
                path.carry(packet.datagram.len(), now, |when| {
                    carried = true;
                    arrives(when, Arrived::Packet(packet.datagram.to_vec(), stint.from));
                });
                lost += u64::from(!carried);
            });
        } else {
            self.sender.skip(period, taken, |_| {});
        }
        let over = self.model.stints.get(self.goodbyes).filter(|s| s.sends.1 <= now);
        if let Some(stint) = over {
            self.goodbyes += 1;
            if stint.goodbye {
                let author = Author { ssrc: self.model.ssrc, host: stint.from.host() };
                arrives(now.after(GOODBYE + self.model.path.delay), Arrived::Goodbye(author));
            }
        }
        self.wakes = self.host.card.capture_wake(now);
        lost
    }
}
