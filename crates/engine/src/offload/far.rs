//! A worker's end on the real-time thread: link and protocol.

use std::os::fd::BorrowedFd;

use tautline_io::clock::now;
use tautline_io::link::{Datagram, Link, LinkCounters};
use tautline_io::thread::memory::prefault;
use tautline_proto::ledger::Departure;
use tautline_proto::offload::OffloadError;
use tautline_proto::offload::inbound::Handled;
use tautline_proto::offload::master::{Master, MasterConfig};
use tautline_proto::time::{MediaTime, Span};

const TOGETHER: usize = 16;
/// Maximum empty waits for a worker, except for patient hosts. At 250 us per run, a dead worker
/// costs 2 ms.
const MAX_WAITS: u32 = 8;
pub(crate) const MAX_INSISTED: usize = 8;
const HELLO_EVERY: u32 = 8;
/// Silence after which a possibly lost request is sent again.
pub(crate) const INSIST_AFTER: Span = Span::from_millis(10);

/// The worker and its spare.
pub const FAR_ENDS: usize = 2;

/// Worker selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Main worker.
    Worker,
    /// Spare worker: receives the same blocks, and takes over without a gap.
    Spare,
}

impl Which {
    /// In the order of [`Standing::ends`](super::attendant::Standing::ends).
    pub const ALL: [Self; FAR_ENDS] = [Self::Worker, Self::Spare];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// A worker with an open link.
pub struct Far {
    /// Link to the worker.
    pub link: Box<dyn Link>,
    /// Stream number at the worker.
    pub stream: u32,
    /// Last worker of a pipeline, if it answers.
    pub last: Option<LastFar>,
}

/// Last worker of a pipeline.
pub struct LastFar {
    /// Link for answers.
    pub link: Box<dyn Link>,
    /// Stream number at the worker.
    pub stream: u32,
}

impl Far {
    /// A single worker.
    pub const fn new(link: Box<dyn Link>, stream: u32) -> Self {
        Self { link, stream, last: None }
    }
}

pub(crate) struct WorkerEnd {
    pub(crate) master: Master,
    far: Option<Far>,
    next: u64,
    waits: u32,
    in_vain: Span,
    timeout: Span,
    not_received: u32,
    pub(crate) played: u64,
    pub(crate) clean: bool,
    room: Box<[u8]>,
}

impl WorkerEnd {
    /// Starts without a worker. `timeout` limits the total of unanswered waits.
    pub(crate) fn new(config: MasterConfig, timeout: Span) -> Result<Self, OffloadError> {
        let mut room = vec![0; config.datagram_bytes].into_boxed_slice();
        prefault(&mut room);
        let master = Master::new(config)?;
        Ok(Self {
            master,
            far: None,
            next: 0,
            waits: 0,
            in_vain: Span::ZERO,
            timeout,
            not_received: 0,
            played: 0,
            clean: false,
            room,
        })
    }

    pub(crate) fn replace(&mut self, far: Option<Far>) -> Option<Far> {
        if let Some(far) = &far {
            let last = far.last.as_ref().map_or(far.stream, |last| last.stream);
            self.master.retarget_pipeline(far.stream, last);
        }
        (self.waits, self.in_vain, self.not_received) = (0, Span::ZERO, 0);
        core::mem::replace(&mut self.far, far)
    }

    pub(crate) const fn wait_for(&mut self) {
        self.waits = self.waits.saturating_add(1);
    }

    pub(crate) fn waited(&mut self, span: Span) {
        if self.waits > 0 {
            self.in_vain += span;
        }
    }

    /// Whether to keep waiting for the worker. Patient hosts have no limit of waits, only the total
    /// timeout.
    pub(crate) fn is_waited_for(&self, patient: bool) -> bool {
        let often = !patient && self.waits >= MAX_WAITS;
        self.is_attached() && !often && self.in_vain < self.timeout
    }

    pub(crate) fn insist(&mut self, block: u64) {
        self.master.insist(block);
        self.send();
    }

    pub(crate) const fn is_attached(&self) -> bool {
        self.far.is_some()
    }

    pub(crate) fn awaited(&mut self) -> [Option<BorrowedFd<'_>>; 2] {
        let Some(Far { link, last, .. }) = &mut self.far else { return [None, None] };
        [link.awaited(), last.as_mut().and_then(|last| last.link.awaited())]
    }

    pub(crate) fn link_counters(&self) -> LinkCounters {
        let Some(Far { link, last, .. }) = &self.far else { return LinkCounters::default() };
        let counters = link.counters();
        last.as_ref().map_or(counters, |last| together(counters, last.link.counters()))
    }

    pub(crate) fn send(&mut self) {
        let Self { master, far, room, not_received, .. } = self;
        let Some(far) = far else {
            while master.poll(room).is_some() {}
            return;
        };
        let at = now();
        let instants = Departure::at_once(MediaTime::ZERO, at);
        let mut queued = 0;
        while far.link.queue_written(instants, room, &mut |room| master.poll(room)).is_some() {
            queued += 1;
            if queued == TOGETHER {
                far.link.flush();
                queued = 0;
            }
        }
        if queued > 0 {
            far.link.flush();
        }
        let Some(last) = &mut far.last else { return };
        // The last worker gets no blocks, so a hello carries the answers' address. The worker may
        // have restarted, or missed a hello.
        if not_received.is_multiple_of(HELLO_EVERY) {
            last.link.queue_written(instants, room, &mut |room| master.write_hello(room));
            last.link.flush();
        }
        *not_received = not_received.wrapping_add(1);
    }

    pub(crate) fn receive(&mut self) -> bool {
        let Self { master, far: Some(far), next, waits, in_vain, not_received, .. } = self else {
            return false;
        };
        let mut leaves = false;
        let mut take = |datagram: Datagram<'_>| {
            (*waits, *in_vain) = (0, Span::ZERO);
            match master.handle(datagram.bytes, datagram.arrival.at) {
                Handled::Request { .. } => leaves = true,
                // Workers run in order, so earlier answers are lost.
                Handled::Complete(block) if block >= *next => {
                    let missing = (*next).max(block.saturating_sub(MAX_INSISTED as u64))..block;
                    for lost in missing {
                        if master.answer(lost).is_none() {
                            master.insist(lost);
                            leaves = true;
                        }
                    }
                    *next = block + 1;
                }
                _ => {}
            }
        };
        far.link.receive(&mut take);
        if let Some(last) = &mut far.last {
            last.link.receive(&mut |datagram| {
                *not_received = 1;
                take(datagram);
            });
        }
        leaves
    }

    pub(crate) fn begin(&mut self) {
        self.master.begin();
        self.next = 0;
    }
}

pub(crate) const fn together(one: LinkCounters, other: LinkCounters) -> LinkCounters {
    LinkCounters {
        sent: one.sent + other.sent,
        received: one.received + other.received,
        foreign: one.foreign + other.foreign,
        auth_failed: one.auth_failed + other.auth_failed,
        ..one
    }
}
