//! A worker's end on the real-time thread: its link and its protocol machine.

use std::os::fd::BorrowedFd;

use tautline_io::clock::now;
use tautline_io::link::{Datagram, Link, LinkCounters};
use tautline_io::thread::memory::prefault;
use tautline_proto::ledger::Departure;
use tautline_proto::offload::OffloadError;
use tautline_proto::offload::inbound::Handled;
use tautline_proto::offload::master::{Master, MasterConfig};
use tautline_proto::time::{MediaTime, Span};

/// Datagrams queued per flush: half the number that links accept at once.
const TOGETHER: usize = 16;
/// Consecutive waits without a datagram, after which only patient hosts still wait for a worker. A
/// host that permits 250 us per run loses 2 ms in total to a dead worker.
const MAX_WAITS: u32 = 8;
/// Maximum answers requested again at once.
pub(crate) const MAX_INSISTED: usize = 8;
/// Sends without an answer, after which the last worker of a pipeline gets another hello.
const HELLO_EVERY: u32 = 8;
/// Silence after which a pending request is sent again, because it may have been lost.
pub(crate) const INSIST_AFTER: Span = Span::from_millis(10);

/// Number of workers: the worker, and a spare that receives the same blocks.
pub const FAR_ENDS: usize = 2;

/// Selects a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The main worker.
    Worker,
    /// The spare worker: it receives the same blocks and takes over without a gap if the worker
    /// fails.
    Spare,
}

impl Which {
    /// Both, in the order of [`Standing::ends`](super::attendant::Standing::ends).
    pub const ALL: [Self; FAR_ENDS] = [Self::Worker, Self::Spare];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// A worker whose link was opened on an ordinary thread.
pub struct Far {
    /// Link to it.
    pub link: Box<dyn Link>,
    /// Stream number that it assigned.
    pub stream: u32,
    /// Last worker of a pipeline, if another one returns the answers.
    pub last: Option<LastFar>,
}

/// Last worker of a pipeline, in which each feeds the next.
pub struct LastFar {
    /// Link that receives its answers.
    pub link: Box<dyn Link>,
    /// Stream number that it assigned.
    pub stream: u32,
}

impl Far {
    /// Creates a single worker.
    pub const fn new(link: Box<dyn Link>, stream: u32) -> Self {
        Self { link, stream, last: None }
    }
}

/// Connection to a worker. The history is kept for a worker that attaches later.
pub(crate) struct WorkerEnd {
    pub(crate) master: Master,
    far: Option<Far>,
    /// Block after the highest answered one.
    next: u64,
    waits: u32,
    /// Total time of unanswered waits.
    in_vain: Span,
    /// Maximum total time of unanswered waits.
    timeout: Span,
    /// Sends since the last datagram from the last worker of a pipeline.
    unheard: u32,
    pub(crate) played: u64,
    pub(crate) clean: bool,
    room: Box<[u8]>,
}

impl WorkerEnd {
    /// Starts without a worker. `timeout` is the maximum total time of unanswered waits.
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
            unheard: 0,
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
        (self.waits, self.in_vain, self.unheard) = (0, Span::ZERO, 0);
        core::mem::replace(&mut self.far, far)
    }

    pub(crate) const fn wait_for(&mut self) {
        self.waits = self.waits.saturating_add(1);
    }

    /// Adds the time of a wait, unless a datagram arrived meanwhile.
    pub(crate) fn waited(&mut self, span: Span) {
        if self.waits > 0 {
            self.in_vain += span;
        }
    }

    /// Returns whether to wait for the worker. A patient host waits after any number of failures,
    /// up to the maximum total time.
    pub(crate) fn is_waited_for(&self, patient: bool) -> bool {
        let often = !patient && self.waits >= MAX_WAITS;
        self.is_attached() && !often && self.in_vain < self.timeout
    }

    /// Sends a block again because its answer is needed.
    pub(crate) fn insist(&mut self, block: u64) {
        self.master.insist(block);
        self.send();
    }

    pub(crate) const fn is_attached(&self) -> bool {
        self.far.is_some()
    }

    /// Returns the file descriptors to wait at: the first gets requests, and also answers unless
    /// the second does.
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
        let Self { master, far, room, unheard, .. } = self;
        let Some(far) = far else {
            // A later worker requests them.
            while master.poll(room).is_some() {}
            return;
        };
        let at = now();
        let instants = Departure::at_once(MediaTime::ZERO, at);
        let mut queued = 0;
        // If there is no room, the link counts the datagram and the worker requests it again.
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
        // The last worker gets no blocks from here, so a hello carries the address for answers. It
        // may have restarted or missed the previous one.
        if unheard.is_multiple_of(HELLO_EVERY) {
            last.link.queue_written(instants, room, &mut |room| master.write_hello(room));
            last.link.flush();
        }
        *unheard = unheard.wrapping_add(1);
    }

    /// Handles received datagrams. Returns whether there is something to send.
    pub(crate) fn receive(&mut self) -> bool {
        let Self { master, far: Some(far), next, waits, in_vain, unheard, .. } = self else {
            return false;
        };
        let mut leaves = false;
        let mut take = |datagram: Datagram<'_>| {
            (*waits, *in_vain) = (0, Span::ZERO);
            match master.handle(datagram.bytes, datagram.arrival.at) {
                Handled::Ask { .. } => leaves = true,
                // Workers run in order, so an answer implies that earlier answers were sent and
                // lost.
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
                // After this silence, the next block is sent with another hello.
                *unheard = 1;
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
