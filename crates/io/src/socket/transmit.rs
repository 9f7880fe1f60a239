//! Sampled packets' transmit timestamps from the error queue, numbered in request order
//! (`SOF_TIMESTAMPING_OPT_TSONLY`, `SOF_TIMESTAMPING_OPT_ID`).

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

const OUTSTANDING: usize = 64;
pub(crate) const AT_ONCE: usize = 64;
pub(crate) const AT_ONCE_EARLY: usize = 512;
/// Empty reads until a sample counts as lost: 250 ms at a 1 ms period.
const TIMEOUT: u32 = 256;

pub(crate) struct TransmitSampler {
    every: u32,
    until_next: u32,
    next_id: u32,
    samples: [Option<(u32, Departure)>; OUTSTANDING],
    marked: bool,
    timeout: u32,
    waiting: u32,
    /// Timestamps read early; dropping some is harmless.
    early: Vec<TransmitStamp>,
}

pub(crate) struct ErrorReading<'a> {
    pub(crate) clock: &'a mut StampClock,
    /// With launch times, drops are reported there too.
    pub(crate) always: bool,
    pub(crate) dropped: &'a mut dyn FnMut(u64),
}

impl TransmitSampler {
    pub(crate) fn every(every: u32) -> Self {
        Self {
            every,
            until_next: 0,
            next_id: 0,
            samples: [None; OUTSTANDING],
            marked: false,
            timeout: 0,
            waiting: 0,
            early: Vec::with_capacity(OUTSTANDING),
        }
    }

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
            self.timeout = TIMEOUT;
        }
    }

    /// Restarts both counts: after a refusal the kernel's is unknown.
    pub(crate) fn start_over(&mut self, socket: &Socket) {
        if self.every == 0 {
            return;
        }
        self.samples = [None; OUTSTANDING];
        self.waiting = 0;
        let _permit = permit("an option of a socket that no other thread uses is set immediately");
        if timestamp::restart_numbers(socket).is_ok() {
            self.next_id = 0;
        } else {
            self.every = 0;
        }
    }

    pub(crate) fn collect(
        &mut self,
        socket: &Socket,
        mut reading: ErrorReading<'_>,
        deliver: &mut dyn FnMut(TransmitStamp),
    ) {
        self.early.drain(..).for_each(&mut *deliver);
        if !reading.always && (self.waiting == 0 || self.timeout == 0) {
            return;
        }
        for _ in 0..AT_ONCE {
            let Some(reported) = read_error_queue(socket) else {
                self.timeout = self.timeout.saturating_sub(1);
                return;
            };
            if let Some(stamp) = self.take(&reported, &mut reading) {
                deliver(stamp);
            }
        }
    }

    pub(crate) fn collect_early(&mut self, socket: &Socket, mut reading: ErrorReading<'_>) {
        for _ in 0..AT_ONCE_EARLY {
            let Some(reported) = read_error_queue(socket) else { return };
            if let Some(stamp) = self.take(&reported, &mut reading) {
                let _ = push_within(&mut self.early, stamp);
            }
        }
    }

    pub(crate) fn take(
        &mut self,
        reported: &Ancillary,
        reading: &mut ErrorReading<'_>,
    ) -> Option<TransmitStamp> {
        if let Some(time) = reported.dropped_by_queue {
            (reading.dropped)(time);
        }
        let (stamp, id) = reported.stamp.zip(reported.transmit_id)?;
        let slot = &mut self.samples[id as usize % OUTSTANDING];
        let (_, departure) = slot.take_if(|(sampled, _)| *sampled == id)?;
        self.waiting = self.waiting.saturating_sub(1);
        let (left, uncertainty) = reading.clock.localise(stamp, now())?;
        let Departure { media, handed, .. } = departure;
        // An older timestamp belongs to an earlier numbering.
        let left_then = left + uncertainty >= handed;
        left_then.then(|| TransmitStamp { media, handed, left: left.max(handed), uncertainty })
    }
}

pub(crate) fn read_dropped(socket: &Socket, maximum: usize, dropped: &mut dyn FnMut(u64)) {
    for _ in 0..maximum {
        let Some(reported) = read_error_queue(socket) else { return };
        reported.dropped_by_queue.into_iter().for_each(&mut *dropped);
    }
}

fn read_error_queue(socket: &Socket) -> Option<Ancillary> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut header = MaybeUninit::<libc::msghdr>::zeroed();
    // SAFETY: zeros are a valid msghdr; the control buffer outlives the calls, and is aligned and
    // of the given length.
    unsafe {
        let header = header.assume_init_mut();
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let _permit = permit("MSG_DONTWAIT: the call does not wait");
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        (libc::recvmsg(socket.fd(), header, flags) >= 0).then(|| ancillary(header))
    }
}
