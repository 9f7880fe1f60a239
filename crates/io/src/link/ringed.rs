//! Any link, its system calls made by a thread of its own, the *wire thread*: for periods that hold
//! several packets, which it spaces by their departure times, and for device threads that belong to
//! someone else.
//!
//! Between the two threads are wait-free rings, one pair each way: descriptions of packets, and
//! their bytes. The wire thread waits in `ppoll` for whichever comes first: the next departure, a
//! datagram, or a hand-over; its time-out runs on the same high-resolution timer as
//! `clock_nanosleep`, which could not wait for the other two.

mod waking;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use rtrb::{Consumer, Producer};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::ledger::Departure;
use tautline_proto::pacing::Together;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, Span};

use crate::clock::now;
use crate::link::destinations::Destinations;
use crate::link::ring::{ByteReader, ByteWriter};
use crate::link::ringed::waking::{Bell, Rhythm};
use crate::link::shared::SharedCounters;
use crate::link::told::Teller;
use crate::link::{Arrival, Link, LinkCounters, OpenError, Pollable, TransmitStamp};
use crate::socket::poll::{poll, readable};
use crate::thread::memory;
use crate::thread::realtime::{permit, scope};
use crate::thread::{Granted, Scheduler, spawn};

/// Stack of the wire thread: its deepest call is a system call over preallocated memory.
const STACK_BYTES: usize = 128 << 10;
/// Transmit stamps that wait to be fetched.
const STAMPS: usize = 256;

/// Changes of the destinations that may wait for the wire thread.
const CHANGES: usize = 4;

/// What a frame of Ethernet holds of UDP over IPv4.
const ETHERNET: usize = 1472;

/// How a wire thread is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireOptions {
    /// Its scheduler: one priority below the device's thread ([`Scheduler::one_below`]).
    pub scheduler: Scheduler,
    /// Packets that may wait for their departure, and datagrams that may wait to be fetched.
    pub ring_packets: usize,
    /// How it spaces packets.
    pub spacing: Spacing,
}

/// How a wire thread spaces packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spacing {
    /// Packets that it hands over at once: so many, but for none that were queued before a [`Link::flush`] with one that
    /// was queued after it; `usize::MAX` for those that may leave together as they are no burst.
    pub together: usize,
    /// How long after it is due it hands a packet over: no less than the device's thread takes with a period's.
    pub lead: Span,
}

impl Default for Spacing {
    fn default() -> Self {
        Self { together: usize::MAX, lead: Span::ZERO }
    }
}

impl WireOptions {
    /// A thread one priority below `device`, with room for so many packets each way.
    pub fn below(device: Scheduler, ring_packets: usize) -> Self {
        Self { scheduler: device.one_below(), ring_packets, spacing: Spacing::default() }
    }

    /// The same, which spaces packets so.
    pub(crate) const fn spacing(self, spacing: Spacing) -> Self {
        Self { spacing, ..self }
    }
}

/// A [`Pollable`] link on a wire thread. Dropping it stops and joins the thread; packets whose time
/// has not come then are not sent. What the device's thread holds of it is the same for every link.
pub struct Ringed {
    packets: Producer<QueuedPacket>,
    packet_bytes: ByteWriter,
    arrivals: Consumer<Landed>,
    arrival_bytes: ByteReader,
    stamps: Consumer<TransmitStamp>,
    destinations: Producer<Destinations>,
    tellers: Producer<Teller>,
    bell: Arc<Bell>,
    /// Rings when a datagram came, for a device's thread that waits for it.
    landed: Arc<Bell>,
    datagram_bytes: usize,
    dropped: u64,
    unannounced: bool,
    counters: Arc<SharedCounters>,
    granted: Granted,
    thread: Option<JoinHandle<()>>,
}

/// What goes with a packet's bytes to the wire thread.
#[derive(Clone, Copy)]
struct QueuedPacket {
    len: usize,
    instants: Departure,
    handed_at: Option<usize>,
    again: Option<usize>,
    /// Whether it is the first since the device's thread was done the last time.
    begins_period: bool,
}

/// What goes with a datagram's bytes from the wire thread.
#[derive(Clone, Copy)]
struct Landed {
    len: usize,
    source: Endpoint,
    arrival: LocalTime,
    stamp_uncertainty: Span,
    read: LocalTime,
    truncated: bool,
}

impl Ringed {
    /// Moves `link` to a wire thread.
    pub fn start<L: Pollable + 'static>(link: L, wire: WireOptions) -> Result<Self, OpenError> {
        let cannot = |error: std::io::Error| OpenError {
            tried: "starting the wire thread".into(),
            errno: error.raw_os_error().unwrap_or(0),
            answer: error.to_string(),
            mend: "raise the limits of processes and open files (ulimit -u, ulimit -n)".into(),
        };
        let bell = Arc::new(Bell::new().map_err(cannot)?);
        let landed = Arc::new(Bell::new().map_err(cannot)?);
        let counters = Arc::new(SharedCounters::default());
        let slots = wire.ring_packets.max(1);
        let datagram_bytes = link.datagram_bytes();
        // Longer datagrams than a frame of Ethernet holds carry more time and are fewer.
        let ring_bytes = slots * datagram_bytes.min(ETHERNET) + 4 * datagram_bytes;
        let (packets, outgoing) = memory::ring(slots);
        let (landing, arrivals) = memory::ring(slots);
        let (left, stamps) = memory::ring(STAMPS);
        let (destinations, redirected) = memory::ring(CHANGES);
        let (tellers, given) = memory::ring(1);
        let (packet_bytes, outgoing_bytes) = crate::link::ring::bytes(ring_bytes);
        let (landing_bytes, arrival_bytes) = crate::link::ring::bytes(ring_bytes);
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
            most: wire.spacing.together.max(1),
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
            tellers,
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

    /// How the wire thread runs.
    pub const fn granted(&self) -> Granted {
        self.granted
    }
}

impl Link for Ringed {
    fn tell(&mut self, teller: Teller) {
        // There is room for the one that there is.
        let _ = self.tellers.push(teller);
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

    /// Packets that wait for their departure go to the new ones too.
    fn set_destinations(&mut self, destinations: &Destinations) -> bool {
        let taken = self.destinations.push(*destinations).is_ok();
        self.bell.ring();
        taken
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        // What comes while this runs is for the next call: the work is bounded.
        for _ in 0..self.arrivals.slots() {
            let Ok(landed) = self.arrivals.pop() else { return };
            self.arrival_bytes.read(landed.len, |datagram| {
                deliver(Arrival {
                    datagram,
                    source: landed.source,
                    arrival: landed.arrival,
                    stamp_uncertainty: landed.stamp_uncertainty,
                    read: landed.read,
                    truncated: landed.truncated,
                });
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

impl Drop for Ringed {
    fn drop(&mut self) {
        self.bell.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the wire thread is a bug that its own message has told already.
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
    given: Consumer<Teller>,
    bell: Arc<Bell>,
    landed: Arc<Bell>,
    counters: Arc<SharedCounters>,
    /// Packets that are handed over at once.
    most: usize,
    lead: Span,
    rhythm: Rhythm,
}

/// Where arrivals are put for the device's thread.
struct Landing {
    headers: Producer<Landed>,
    bytes: ByteWriter,
    dropped: u64,
}

impl<L: Pollable> WireThread<L> {
    fn run(&mut self) {
        let _scope = scope();
        // What is not there has no descriptor, which the kernel passes over; errors show whatever is asked for.
        let second = self.link.second().map_or(-1, |second| second.as_raw_fd());
        let mut polled = [
            readable(self.bell.as_raw_fd()),
            readable(self.link.as_fd().as_raw_fd()),
            libc::pollfd { fd: second, events: 0, revents: 0 },
        ];
        loop {
            let next = self.depart_all();
            // Before the wait: what was sent and fetched must not stay unknown until the next event.
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
            // Transmit stamps and what a queue dropped show as errors, whatever was asked for.
            let errors = (polled[1].revents | polled[2].revents) & libc::POLLERR != 0;
            if errors || polled[1].revents != 0 {
                self.fetch(errors);
            }
        }
    }

    /// Sends what is to leave now. When to look again: where nothing waits, once the next packet is there by the rhythm
    /// of those before, or when the bell is rung.
    fn depart_all(&mut self) -> LocalTime {
        let next = self.depart();
        if !next.is_never() {
            return next;
        }
        // The device's thread has as long for it as packets are held back.
        let held = self.lead > Span::ZERO;
        if let Some(due) = self.rhythm.take_next().filter(|_| held) {
            return due + self.lead;
        }
        self.bell.wait_for();
        if self.outgoing.is_empty() && self.redirected.is_empty() && self.given.is_empty() {
            return LocalTime::NEVER;
        }
        // Put there meanwhile, unheard: at once, but what was sent and what came have their turn.
        LocalTime::ZERO
    }

    /// Sends every packet whose time has come, and those that may leave with it; when the next one's
    /// will.
    fn depart(&mut self) -> LocalTime {
        let mut next = LocalTime::NEVER;
        while let Ok(destinations) = self.redirected.pop() {
            self.link.set_destinations(&destinations);
        }
        self.take_teller();
        let (mut together, mut count) = (None::<Together>, 0);
        while let Ok(header) = self.outgoing.peek().copied() {
            // Given before this packet was queued: it is there by now.
            self.take_teller();
            let due = header.instants.due + self.lead;
            // With what leaves once more, which is as long.
            let len = header.len * (1 + usize::from(header.again.is_some()));
            // Where so many at most are asked for it was reckoned with just those, and with none of two periods.
            let reckoned = self.most < usize::MAX;
            let is_full = count >= self.most || reckoned && header.begins_period;
            let goes_along = |together: &mut Together| reckoned || together.takes(due, len);
            if is_full || !together.as_mut().is_some_and(goes_along) {
                if due > now() {
                    next = due;
                    break;
                }
                // Those that are late are handed over so many at once as well, each time with its own instant: a
                // queue that heeds launch times takes what is late by the last one no more.
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
            // The slot that was peeked at; only this thread takes any.
            let _ = self.outgoing.pop();
        }
        self.link.flush();
        next
    }

    fn take_teller(&mut self) {
        if let Ok(teller) = self.given.pop() {
            self.link.tell(teller);
        }
    }

    fn fetch(&mut self, errors: bool) {
        let landing = &mut self.landing;
        self.link.receive(&mut |arrival| landing.put(&arrival));
        self.landed.ring();
        let left = &mut self.left;
        // Stamps are samples: what does not fit is no loss.
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
    fn put(&mut self, arrival: &Arrival<'_>) {
        let landed = Landed {
            len: arrival.datagram.len(),
            source: arrival.source,
            arrival: arrival.arrival,
            stamp_uncertainty: arrival.stamp_uncertainty,
            read: arrival.read,
            truncated: arrival.truncated,
        };
        let fits = !self.headers.is_full() && self.bytes.write(arrival.datagram);
        let taken = fits && self.headers.push(landed).is_ok();
        self.dropped += u64::from(!taken);
    }
}
