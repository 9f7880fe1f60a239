use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::redundancy::Layout;
use tautline_proto::send_policy::SendPolicy;
use tautline_proto::time::Span;
use tautline_proto::wire::rtp::PACK;
use tautline_proto::wrap;

use super::hosts::session;
use super::{World, promised};
use crate::codec::{codings, encoders};
use crate::fault::{STRANGE, SenderFault};
use crate::scenario::Scenario;

pub(super) fn sender_of(scenario: &Scenario, identity: Identity, wall: Span) -> Packetizer {
    let config = PacketizerConfig {
        wire: PACK,
        format: super::promised(scenario, identity).sender(wall).format,
        identity,
        period: scenario.sender.card.period,
        stamps: scenario.stamps,
        wall_offset: wall,
        redundancy: Layout::NONE,
        presented_after: Span::ZERO,
    };
    let encoders = match &scenario.sound {
        Some(sound) => (sound.encoders)(&scenario.format),
        None => encoders(codings(scenario), scenario.format.channels),
    };
    Packetizer::compressing(config, encoders)
}

impl World {
    pub(super) fn apply_faults(&mut self) {
        while self.faults.front().is_some_and(|(when, _)| *when <= self.now) {
            let Some((_, fault)) = self.faults.pop_front() else { return };
            // Frames that the card drops before the block are on the new timeline.
            let first = self.host.card.next_frame();
            let timestamp = self.timeline.timestamp(first);
            let sequence = self.sequence.wrapping_add(1);
            self.identity = match fault {
                SenderFault::TimeJumps(by) => {
                    let timestamp = timestamp.wrapping_add(wrap::rtp_timestamp(by.count()));
                    Identity { sequence, timestamp, ..self.identity }
                }
                SenderFault::SequenceRestarts(sequence) => {
                    Identity { sequence, timestamp, ..self.identity }
                }
                SenderFault::Restarts(identity) => {
                    let host = self.scenario.sender.name;
                    self.host.session = session(identity.stream.ssrc(), self.host.wall, host);
                    identity
                }
                SenderFault::Lies(lie, until) => {
                    self.lie = Some((lie, until));
                    continue;
                }
                SenderFault::Moves(place) => {
                    self.places[0] = place;
                    continue;
                }
            };
            self.timeline.begin(self.identity.timestamp, first);
            self.sender = sender_of(&self.scenario, self.identity, self.host.wall);
            self.policy = SendPolicy::new(promised(&self.scenario, self.identity));
            self.decide();
        }
    }

    pub const fn lies(&self) -> u32 {
        self.lies
    }

    pub(super) fn tamper(&mut self, report: &mut [u8]) {
        let Some((lie, until)) = self.lie else { return };
        if self.now >= until {
            self.lie = None;
            return;
        }
        self.truths += 1;
        if self.truths % 2 == 1 {
            self.lies += 1;
            lie.notify(report);
        }
    }

    pub(super) fn intrude(&mut self, times: BlockTimes) {
        let now = self.now;
        let Some((model, sender)) = &mut self.intruding else { return };
        if !(model.sends.0..model.sends.1).contains(&now) {
            return;
        }
        let block = vec![STRANGE; self.block.len()];
        let mut packets = Vec::new();
        sender.push(&block, times, |packet| packets.push(packet.datagram.to_vec()));
        let from = [model.from; 2];
        packets.iter().for_each(|packet| self.carry(packet, from));
    }
}
