//! Runs a link on its own *wire thread*, which spaces packets by departure times. Wait-free rings
//! carry packets each way. Its `ppoll` timer is as precise as `clock_nanosleep`'s.

mod waking;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rtrb::{Consumer, Producer};
use tautline_proto::ledger::Departure;
use tautline_proto::pacing::Together;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, Span};

use self::waking::{Bell, Rhythm};
use crate::clock::now;
use crate::link::destinations::Destinations;
use crate::link::event_queue::EventSender;
use crate::link::{Datagram, Link, LinkCounters, OpenError, Pollable, TransmitStamp};
use crate::socket::DatagramHead;
use crate::socket::TOTALS;
use crate::socket::descriptor::{poll, readable};
use crate::thread::realtime::{permit, scope};
use crate::thread::{Granted, Scheduler, memory, spawn};

const STACK_BYTES: usize = 128 << 10;
const STAMPS: usize = 256;
const CHANGES: usize = 4;
const ETHERNET: usize = 1472;

/// Options of a wire thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireOptions {
    /// One priority below the device's ([`Scheduler::one_below`]).
    pub scheduler: Scheduler,
    /// Maximum packets waiting to leave, and datagrams waiting to be read.
    pub ring_packets: usize,
    /// Spacing of packets.
    pub spacing: Spacing,
}

/// Spacing of packets on a wire thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spacing {
    /// Maximum packets per hand-over, never from two [`Link::flush`]es. `usize::MAX`: as many as
    /// leave together without a burst.
    pub together: usize,
    /// Delay from due time to hand-over: at least the device thread's time for a period's packets.
    pub lead: Span,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { together: usize::MAX, lead: Span::ZERO }
    }
}

impl WireOptions {
    /// Options one priority below `device`, with room for `ring_packets` each way.
    pub fn below(device: Scheduler, ring_packets: usize) -> Self {
        Self { scheduler: device.one_below(), ring_packets, spacing: Spacing::default() }
    }

    pub(crate) const fn spacing(self, spacing: Spacing) -> Self {
        Self { spacing, ..self }
    }
}

/// A [`Pollable`] link on a wire thread. Dropping it joins the thread; waiting packets are not
/// sent.
pub struct ThreadedLink {
    packets: Producer<QueuedPacket>,
    packet_bytes: ByteWriter,
    arrivals: Consumer<DatagramHead>,
    arrival_bytes: ByteReader,
    stamps: Consumer<TransmitStamp>,
    destinations: Producer<Destinations>,
    event_senders: Producer<EventSender>,
    bell: Arc<Bell>,
    landed: Arc<Bell>,
    datagram_bytes: usize,
    dropped: u64,
    unannounced: bool,
    counters: Arc<SharedCounters>,
    granted: Granted,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy)]
struct QueuedPacket {
    len: usize,
    instants: Departure,
    handed_at: Option<usize>,
    again: Option<usize>,
    begins_period: bool,
}

impl ThreadedLink {
    pub(crate) fn boxed<L: Pollable + 'static>(
        link: L,
        wire: Option<WireOptions>,
    ) -> Result<Box<dyn Link>, OpenError> {
        Ok(match wire {
            Some(wire) => Box::new(Self::start(link, wire)?),
            None => Box::new(link),
        })
    }

    /// Moves `link` to a wire thread.
    pub fn start<L: Pollable + 'static>(link: L, wire: WireOptions) -> Result<Self, OpenError> {
        let cannot = |error: std::io::Error| OpenError {
            tried: "starting the wire thread".into(),
            errno: error.raw_os_error().unwrap_or(0),
            answer: error.to_string(),
            hint: "raise the limits of processes and open files (ulimit -u, ulimit -n)".into(),
        };
        let bell = Arc::new(Bell::new().map_err(cannot)?);
        let landed = Arc::new(Bell::new().map_err(cannot)?);
        let counters = Arc::new(SharedCounters::default());
        let slots = wire.ring_packets.max(1);
        let datagram_bytes = link.datagram_bytes();
        let ring_bytes = slots * datagram_bytes.min(ETHERNET) + 4 * datagram_bytes;
        let (packets, outgoing) = memory::ring(slots);
        let (landing, arrivals) = memory::ring(slots);
        let (left, stamps) = memory::ring(STAMPS);
        let (destinations, redirected) = memory::ring(CHANGES);
        let (event_senders, given) = memory::ring(1);
        let (packet_bytes, outgoing_bytes) = bytes(ring_bytes);
        let (landing_bytes, arrival_bytes) = bytes(ring_bytes);
        let mut thread = WireThread {
            link,
            outgoing,
            outgoing_bytes,
            scratch: vec![0; datagram_bytes].into_boxed_slice(),
            landing: Landing { headers: landing, bytes: landing_bytes, dropped: 0 },
            left,
            redirected,
            given,
            bell: Arc::clone(&bell),
            landed: Arc::clone(&landed),
            counters: Arc::clone(&counters),
            maximum: wire.spacing.together.max(1),
            lead: wire.spacing.lead,
            rhythm: Rhythm::new(),
        };
        let (handle, granted) =
            spawn("taut-wire", wire.scheduler, STACK_BYTES, move || thread.run())
                .map_err(cannot)?;
        Ok(Self {
            packets,
            packet_bytes,
            arrivals,
            arrival_bytes,
            stamps,
            destinations,
            event_senders,
            bell,
            landed,
            datagram_bytes,
            dropped: 0,
            unannounced: false,
            counters,
            granted,
            thread: Some(handle),
        })
    }

    /// Scheduling granted to the wire thread.
    pub const fn granted(&self) -> Granted {
        self.granted
    }
}

impl Link for ThreadedLink {
    fn notify(&mut self, event_sender: EventSender) {
        let _ = self.event_senders.push(event_sender);
        self.bell.ring();
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        let len = packet.datagram.len();
        let &Outgoing { instants, handed_at, again, .. } = packet;
        let header =
            QueuedPacket { len, instants, handed_at, again, begins_period: !self.unannounced };
        let fits = len <= self.datagram_bytes
            && !self.packets.is_full()
            && self.packet_bytes.write(packet.datagram);
        let taken = fits && self.packets.push(header).is_ok();
        self.unannounced |= taken;
        self.dropped += u64::from(!taken);
        taken
    }

    fn flush(&mut self) {
        if core::mem::take(&mut self.unannounced) {
            self.bell.ring();
        }
    }

    /// Applies to waiting packets too.
    fn set_destinations(&mut self, destinations: &Destinations) -> bool {
        let taken = self.destinations.push(*destinations).is_ok();
        self.bell.ring();
        taken
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        for _ in 0..self.arrivals.slots() {
            let Ok(landed) = self.arrivals.pop() else { return };
            self.arrival_bytes.read(landed.len, |datagram| {
                deliver(landed.of(datagram));
            });
        }
    }

    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        self.landed.silence();
        self.landed.wait_for();
        if !self.arrivals.is_empty() {
            self.landed.ring();
        }
        Some(self.landed.as_fd())
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        while let Ok(stamp) = self.stamps.pop() {
            deliver(stamp);
        }
    }

    fn counters(&self) -> LinkCounters {
        let mut counters = self.counters.load();
        counters.dropped += self.dropped;
        counters
    }
}

impl Drop for ThreadedLink {
    fn drop(&mut self) {
        self.bell.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct WireThread<L> {
    link: L,
    outgoing: Consumer<QueuedPacket>,
    outgoing_bytes: ByteReader,
    scratch: Box<[u8]>,
    landing: Landing,
    left: Producer<TransmitStamp>,
    redirected: Consumer<Destinations>,
    given: Consumer<EventSender>,
    bell: Arc<Bell>,
    landed: Arc<Bell>,
    counters: Arc<SharedCounters>,
    maximum: usize,
    lead: Span,
    rhythm: Rhythm,
}

struct Landing {
    headers: Producer<DatagramHead>,
    bytes: ByteWriter,
    dropped: u64,
}

impl<L: Pollable> WireThread<L> {
    fn run(&mut self) {
        let _scope = scope();
        // poll(2) skips negative descriptors, and always reports errors.
        let second = self.link.second().map_or(-1, |second| second.as_raw_fd());
        let mut polled = [
            readable(self.bell.as_raw_fd()),
            readable(self.link.as_fd().as_raw_fd()),
            libc::pollfd { fd: second, events: 0, revents: 0 },
        ];
        loop {
            let next = self.depart_all();
            // Before the wait, or counters stay unpublished until the next event.
            self.publish();
            {
                let _permit = permit("waiting for its time is what the wire thread is for");
                poll(&mut polled, next);
            }
            if polled[0].revents != 0 {
                self.bell.silence();
            }
            if self.bell.is_stopped() {
                return;
            }
            let errors = (polled[1].revents | polled[2].revents) & libc::POLLERR != 0;
            if errors || polled[1].revents != 0 {
                self.fetch(errors);
            }
        }
    }

    /// Returns when to look next: when the next packet is due or predicted, or never.
    fn depart_all(&mut self) -> LocalTime {
        let next = self.depart();
        if !next.is_never() {
            return next;
        }
        // Packets are held for `lead`, while the device's thread queues more.
        let held = self.lead > Span::ZERO;
        if let Some(due) = self.rhythm.take_next().filter(|_| held) {
            return due + self.lead;
        }
        self.bell.wait_for();
        if self.outgoing.is_empty() && self.redirected.is_empty() && self.given.is_empty() {
            return LocalTime::NEVER;
        }
        LocalTime::ZERO
    }

    fn depart(&mut self) -> LocalTime {
        let mut next = LocalTime::NEVER;
        while let Ok(destinations) = self.redirected.pop() {
            self.link.set_destinations(&destinations);
        }
        self.take_teller();
        let (mut together, mut count) = (None::<Together>, 0);
        while let Ok(header) = self.outgoing.peek().copied() {
            self.take_teller();
            let due = header.instants.due + self.lead;
            let len = header.len * (1 + usize::from(header.again.is_some()));
            let reckoned = self.maximum < usize::MAX;
            let is_full = count >= self.maximum || reckoned && header.begins_period;
            let goes_along = |together: &mut Together| reckoned || together.takes(due, len);
            if is_full || !together.as_mut().is_some_and(goes_along) {
                if due > now() {
                    next = due;
                    break;
                }
                // Late packets leave in such groups, too. Launch queues refuse packets that are
                // late relative to the last.
                if is_full {
                    self.link.flush();
                }
                (together, count) = (Some(Together::begin(due, len)), 0);
            }
            count += 1;
            if self.link.is_full() {
                self.link.flush();
            }
            let datagram = &mut self.scratch[..header.len];
            self.outgoing_bytes.read(header.len, |bytes| datagram.copy_from_slice(bytes));
            let QueuedPacket { instants, handed_at, again, .. } = header;
            self.rhythm.follow(instants.due);
            self.link.queue(&Outgoing { datagram, instants, handed_at, again });
            let _ = self.outgoing.pop();
        }
        self.link.flush();
        next
    }

    fn take_teller(&mut self) {
        if let Ok(event_sender) = self.given.pop() {
            self.link.notify(event_sender);
        }
    }

    fn fetch(&mut self, errors: bool) {
        let landing = &mut self.landing;
        self.link.receive(&mut |datagram| landing.put(&datagram));
        self.landed.ring();
        let left = &mut self.left;
        let mut deliver = |stamp| {
            let _ = left.push(stamp);
        };
        if errors {
            self.link.read_errors(&mut deliver);
        } else {
            self.link.transmit_stamps(&mut deliver);
        }
    }

    fn publish(&self) {
        let mut counters = self.link.counters();
        counters.ring_drops = self.landing.dropped;
        self.counters.store(&counters);
    }
}

impl Landing {
    fn put(&mut self, datagram: &Datagram<'_>) {
        let landed = DatagramHead::new(datagram);
        let fits = !self.headers.is_full() && self.bytes.write(datagram.bytes);
        let taken = fits && self.headers.push(landed).is_ok();
        self.dropped += u64::from(!taken);
    }
}

pub(crate) fn bytes(capacity: usize) -> (ByteWriter, ByteReader) {
    let (producer, consumer) = memory::ring(capacity.max(1));
    let mut joined = vec![0; capacity].into_boxed_slice();
    memory::prefault(&mut joined);
    (ByteWriter(producer), ByteReader { consumer, joined })
}

pub(crate) struct ByteWriter(Producer<u8>);

impl ByteWriter {
    pub(crate) fn write(&mut self, datagram: &[u8]) -> bool {
        self.0.push_entire_slice(datagram).is_ok()
    }
}

pub(crate) struct ByteReader {
    consumer: Consumer<u8>,
    joined: Box<[u8]>,
}

impl ByteReader {
    pub(crate) fn read(&mut self, len: usize, take: impl FnOnce(&[u8])) {
        let Ok(chunk) = self.consumer.read_chunk(len) else { return };
        match chunk.as_slices() {
            (all, []) => take(all),
            (head, tail) => {
                let joined = &mut self.joined[..len];
                joined[..head.len()].copy_from_slice(head);
                joined[head.len()..].copy_from_slice(tail);
                take(joined);
            }
        }
        chunk.commit_all();
    }
}

/// [`LinkCounters`] with one writer and one reader; independent and unordered.
#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    totals: [AtomicU64; TOTALS],
    last_error: AtomicI32,
}

impl SharedCounters {
    pub(crate) fn store(&self, counters: &LinkCounters) {
        for (shared, total) in self.totals.iter().zip(counters.totals()) {
            shared.store(total, Ordering::Relaxed);
        }
        self.last_error.store(counters.last_error, Ordering::Relaxed);
    }

    pub(crate) fn load(&self) -> LinkCounters {
        let totals = self.totals.each_ref().map(|total| total.load(Ordering::Relaxed));
        LinkCounters::of(totals, self.last_error.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn datagrams_come_out_whole_wherever_the_ring_ends() {
        let (mut writer, mut reader) = bytes(10);
        for start in 0..50u8 {
            let datagram: Vec<u8> = (start..start + 7).collect();
            assert!(writer.write(&datagram));
            assert!(!writer.write(&[0; 4]), "no room for a part of it either");
            let mut read = Vec::new();
            reader.read(7, |bytes| read.extend_from_slice(bytes));
            assert_eq!(read, datagram);
        }
    }

    #[test]
    fn every_counter_round_trips() {
        let counters = LinkCounters {
            sent: 1,
            send_errors: 2,
            last_error: 3,
            dropped: 4,
            received: 5,
            truncated: 6,
            foreign: 7,
            unstamped: 8,
            kernel_drops: 9,
            ring_drops: 10,
            departures_lost: 11,
            also: (12, 13),
            auth_failed: 14,
            dropped_by_queue: 15,
            unnamed: 16,
            let_go: 17,
            overdue: 18,
        };
        let shared = SharedCounters::default();
        shared.store(&counters);
        assert_eq!(shared.load(), counters);
    }
}
