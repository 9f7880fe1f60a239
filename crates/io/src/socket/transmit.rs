//! Transmit stamps: when a sampled packet really left the network stack.
//!
//! The kernel hands them back on the socket's error queue, numbered in the order in which they were
//! asked for (`SOF_TIMESTAMPING_OPT_ID`), without the packet (`SOF_TIMESTAMPING_OPT_TSONLY`).

use core::mem::MaybeUninit;

use tautline_proto::ledger::Departure;

use crate::clock::now;
use crate::socket::TransmitStamp;
use crate::socket::batch::Batch;
use crate::socket::descriptor::Socket;
use crate::socket::outlet::Outlet;
use crate::socket::timestamp::{self, Ancillary, CONTROL_WORDS, StampClock, ancillary};
use crate::thread::memory::push_within;
use crate::thread::realtime::permit;

/// Samples whose stamps may be outstanding; an older one is forgotten.
const OUTSTANDING: usize = 64;
/// Reports that one reading of the error queue fetches at most: its work is bounded.
pub(crate) const AT_ONCE: usize = 64;
/// The same right after a packet was refused: what waits there then is to be known.
pub(crate) const AT_ONCE_EARLY: usize = 512;
/// How often the error queue is read in vain for a sample before it is taken for lost: at a period
/// of 1 ms a quarter of a second, far longer than any driver keeps a packet.
const PATIENCE: u32 = 256;

/// Chooses the packets to be stamped and matches the stamps that come back.
pub(crate) struct TransmitSampler {
    every: u32,
    until_next: u32,
    next_id: u32,
    samples: [Option<(u32, Departure)>; OUTSTANDING],
    marked: bool,
    /// Readings of the error queue that are left to the samples that have no stamp yet. A reading
    /// is a system call, and the queue is empty but for a moment after each sample.
    patience: u32,
    /// Samples whose stamps have not come.
    waiting: u32,
    /// Stamps that were read before they were asked for. There is room; what does not fit is no loss.
    early: Vec<TransmitStamp>,
}

/// How an error queue is read.
pub(crate) struct ErrorReading<'a> {
    pub(crate) clock: &'a mut StampClock,
    /// Whether it is read even if no stamp is waited for: where packets are launched, those that were dropped come
    /// back there as well.
    pub(crate) always: bool,
    /// Is given the launch times of packets that were dropped.
    pub(crate) dropped: &'a mut dyn FnMut(u64),
}

impl TransmitSampler {
    /// One packet in `every`; 0 for none.
    pub(crate) fn every(every: u32) -> Self {
        Self {
            every,
            until_next: 0,
            next_id: 0,
            samples: [None; OUTSTANDING],
            marked: false,
            patience: 0,
            waiting: 0,
            early: Vec::with_capacity(OUTSTANDING),
        }
    }

    /// Marks the packets of a batch that are to be stamped, and no others.
    pub(crate) fn choose(&mut self, batch: &Batch, outlet: &mut Outlet) {
        if self.every == 0 {
            return;
        }
        if self.marked {
            outlet.clear_samples();
            self.marked = false;
        }
        for packet in 0..batch.queued() {
            if self.until_next > 0 {
                self.until_next -= 1;
                continue;
            }
            self.until_next = self.every - 1;
            outlet.sample(packet);
            self.marked = true;
            self.samples[self.next_id as usize % OUTSTANDING] =
                Some((self.next_id, batch.departure(packet)));
            self.next_id = self.next_id.wrapping_add(1);
            self.waiting = (self.waiting + 1).min(OUTSTANDING as u32);
            self.patience = PATIENCE;
        }
    }

    /// After a refused datagram nobody knows which numbers the kernel used up: both sides begin
    /// again at 0.
    pub(crate) fn start_over(&mut self, socket: &Socket) {
        if self.every == 0 {
            return;
        }
        self.samples = [None; OUTSTANDING];
        self.waiting = 0;
        let _permit = permit("an option of a socket that no other thread uses is set at once");
        if timestamp::restart_numbers(socket).is_ok() {
            self.next_id = 0;
        } else {
            self.every = 0;
        }
    }

    /// Reads the error queue empty, if anything can be in it, as far as its work is bounded.
    pub(crate) fn collect(
        &mut self,
        socket: &Socket,
        mut reading: ErrorReading<'_>,
        deliver: &mut dyn FnMut(TransmitStamp),
    ) {
        self.early.drain(..).for_each(&mut *deliver);
        if !reading.always && (self.waiting == 0 || self.patience == 0) {
            return;
        }
        for _ in 0..AT_ONCE {
            let Some(told) = read_error_queue(socket) else {
                self.patience = self.patience.saturating_sub(1);
                return;
            };
            if let Some(stamp) = self.take(&told, &mut reading) {
                deliver(stamp);
            }
        }
    }

    /// The same right after a packet was refused, whether or not anything is waited for: stamps are delivered by the
    /// next [`Self::collect`].
    pub(crate) fn collect_early(&mut self, socket: &Socket, mut reading: ErrorReading<'_>) {
        for _ in 0..AT_ONCE_EARLY {
            let Some(told) = read_error_queue(socket) else { return };
            if let Some(stamp) = self.take(&told, &mut reading) {
                let _ = push_within(&mut self.early, stamp);
            }
        }
    }

    /// What the kernel told of one packet: the stamp of a sample, or that it was dropped.
    pub(crate) fn take(
        &mut self,
        told: &Ancillary,
        reading: &mut ErrorReading<'_>,
    ) -> Option<TransmitStamp> {
        if let Some(time) = told.unlaunched {
            (reading.dropped)(time);
        }
        let (stamp, id) = told.stamp.zip(told.transmit_id)?;
        let slot = &mut self.samples[id as usize % OUTSTANDING];
        let (_, departure) = slot.take_if(|(sampled, _)| *sampled == id)?;
        self.waiting = self.waiting.saturating_sub(1);
        let (left, uncertainty) = reading.clock.localise(stamp, now())?;
        let Departure { media, handed, .. } = departure;
        // A stamp from before the packet was handed over belongs to an earlier count.
        let left_then = left + uncertainty >= handed;
        left_then.then(|| TransmitStamp { media, handed, left: left.max(handed), uncertainty })
    }
}

/// Reads the error queue of a socket whose packets are not sampled, `most` reports of it at most.
pub(crate) fn read_dropped(socket: &Socket, most: usize, dropped: &mut dyn FnMut(u64)) {
    for _ in 0..most {
        let Some(told) = read_error_queue(socket) else { return };
        told.unlaunched.into_iter().for_each(&mut *dropped);
    }
}

fn read_error_queue(socket: &Socket) -> Option<Ancillary> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut header = MaybeUninit::<libc::msghdr>::zeroed();
    // SAFETY: zeros are a valid msghdr (no name, no data); the control buffer lives through the
    // calls, is aligned for a cmsghdr and has the length given.
    unsafe {
        let header = header.assume_init_mut();
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let _permit = permit("MSG_DONTWAIT: the call does not wait");
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        (libc::recvmsg(socket.fd(), header, flags) >= 0).then(|| ancillary(header))
    }
}
