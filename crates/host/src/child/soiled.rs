use std::os::fd::{AsFd, BorrowedFd};

use tautline_io::link::destinations::Destinations;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::event_queue::EventSender;
use tautline_io::link::{Datagram, Link, LinkCounters, Pollable, TransmitStamp};
use tautline_proto::ledger::Departure;
use tautline_proto::offload::datagram::{DatagramKind, Flags, HEAD_BYTES, Head};
use tautline_proto::stream::Outgoing;

use crate::child_notes::BlockOfEpoch;

/// Marks blocks that plugins miss as dirty and skipped. All later output is dirty, as receivers
/// learn from such a block.
pub(super) struct SoiledLink {
    link: Box<DirectLink>,
    fatal: Vec<BlockOfEpoch>,
    room: Box<[u8]>,
}

impl SoiledLink {
    pub(super) fn new(link: Box<DirectLink>, fatal: Vec<BlockOfEpoch>) -> Self {
        let room = vec![0; link.datagram_bytes()].into_boxed_slice();
        Self { link, fatal, room }
    }
}

fn soiled<'a>(datagram: &[u8], fatal: &[BlockOfEpoch], room: &'a mut [u8]) -> Option<&'a [u8]> {
    let (head, _) = Head::read(datagram).ok()?;
    let place = BlockOfEpoch { epoch: head.epoch, block: head.block };
    if head.kind != DatagramKind::Block || !fatal.contains(&place) {
        return None;
    }
    let room = room.get_mut(..datagram.len())?;
    room.copy_from_slice(datagram);
    let head = Head { flags: head.flags.with(Flags::DIRTY).with(Flags::SKIPPED), ..head };
    head.write(room.first_chunk_mut::<HEAD_BYTES>()?);
    Some(room)
}

impl Link for SoiledLink {
    fn notify(&mut self, event_sender: EventSender) {
        self.link.notify(event_sender);
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        self.link.queue(packet)
    }

    fn queue_written(
        &mut self,
        instants: Departure,
        room: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        self.link.queue_written(instants, room, write)
    }

    fn flush(&mut self) {
        self.link.flush();
    }

    fn set_destinations(&mut self, destinations: &Destinations) -> bool {
        self.link.set_destinations(destinations)
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        let Self { link, fatal, room } = self;
        link.receive(&mut |datagram| {
            let bytes = soiled(datagram.bytes, fatal, room).unwrap_or(datagram.bytes);
            deliver(Datagram { bytes, ..datagram });
        });
    }

    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        self.link.awaited()
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.link.transmit_stamps(deliver);
    }

    fn counters(&self) -> LinkCounters {
        self.link.counters()
    }
}

impl AsFd for SoiledLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl Pollable for SoiledLink {
    fn second(&self) -> Option<BorrowedFd<'_>> {
        self.link.second()
    }

    fn read_errors(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.link.read_errors(deliver);
    }

    fn datagram_bytes(&self) -> usize {
        self.link.datagram_bytes()
    }

    fn is_full(&self) -> bool {
        self.link.is_full()
    }
}
