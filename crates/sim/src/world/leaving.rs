//! How packets leave the sender: as a link does it.

use tautline_proto::redundancy::Repeats;
use tautline_proto::stream::{MOST_DATAGRAM_BYTES, Outgoing};
use tautline_proto::time::LocalTime;

pub(super) struct Leaving(Repeats);

impl Leaving {
    pub(super) fn new() -> Self {
        Self(Repeats::within(vec![0; Repeats::room_for(MOST_DATAGRAM_BYTES)].into()))
    }

    /// A packet as it leaves at `at`, with that instant in it, and the earlier one that leaves once
    /// more, if one does.
    pub(super) fn finish(
        &mut self,
        packet: Outgoing<'_>,
        at: LocalTime,
    ) -> impl Iterator<Item = Vec<u8>> + use<> {
        let mut datagram = packet.datagram.to_vec();
        if let Some(place) = packet.handed_at {
            let since = (at - packet.instants.capture).as_nanos().max(0) as u32;
            datagram[place..place + 4].copy_from_slice(&since.to_be_bytes());
        }
        let again = if let Some(before) = packet.again {
            self.0.keep(&datagram, packet.instants);
            self.0.again(before, packet.instants.due).map(|(bytes, _)| bytes.to_vec())
        } else {
            self.0.pass();
            None
        };
        [datagram].into_iter().chain(again)
    }
}
