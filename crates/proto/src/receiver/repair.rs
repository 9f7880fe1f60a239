//! Packets that did not come, rebuilt from what others carry ([`crate::redundancy`]).

use super::{Accepted, Receiver};
use super::turns::Slot;
use crate::playout::Placed;
use crate::stream::StreamFormat;
use crate::wire::rtp::Packet;

impl Receiver {
    /// Gives a packet that came to the repairer, and places what that brings back. What comes back
    /// after its turn is of no use, and counted nowhere.
    pub(super) fn repair(
        &mut self,
        packet: &Packet<'_>,
        came: &Slot,
        format: &StreamFormat,
        rebuilt: &mut dyn FnMut(Accepted<'_>),
    ) {
        let Self { repairer, renderer, turns, counters, .. } = self;
        let name = (came.sequence, packet.payload_type);
        if repairer.accept(name, packet.payload, packet.carried).is_err() {
            counters.damaged += 1;
        }
        while let Some((sequence, payload)) = repairer.next() {
            let frames = i64::saturating_mul(came.sequence - sequence, came.frames.count());
            let media = came.media - crate::time::Frames::new(frames);
            if turns.has(sequence)
                || renderer.place_packet(media, format.sample, payload) != Placed::Whole
            {
                continue;
            }
            let slot = Slot { sequence, media, repaired: true, whole: true, ..*came };
            counters.lost -= u64::from(turns.keep(slot));
            counters.repaired += 1;
            rebuilt(Accepted { media, payload, sample: format.sample });
        }
    }
}
