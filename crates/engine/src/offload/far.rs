//! A far end as the real-time thread has it: a worker behind a link, and the machine that talks to it.

use std::os::fd::BorrowedFd;

use tautline_io::clock::now;
use tautline_io::link::{Datagram, Link, LinkCounters};
use tautline_io::thread::memory::prefault;
use tautline_proto::ledger::Departure;
use tautline_proto::offload::OffloadError;
use tautline_proto::offload::inbound::Handled;
use tautline_proto::offload::master::{Master, MasterConfig};
use tautline_proto::time::{MediaTime, Span};

/// Datagrams that are queued before they are handed to the kernel: half of what links take at once.
const TOGETHER: usize = 16;
/// So many waits, one after the other, in and between which nothing was heard of a worker: it is waited for no more until
/// something is, but by who has the time. A host that grants 250 us a run is held up for 2 ms in all by one that died.
const MOST_WAITS: u32 = 8;
/// Answers that are asked for again at once.
pub(crate) const MOST_INSISTED: usize = 8;
/// So many times that something leaves and nothing comes, after which the last of several workers is greeted again.
const HELLO_EVERY: u32 = 8;
/// After so long without a word what is waited for leaves once more: it may have been the last, and lost.
pub(crate) const INSIST_AFTER: Span = Span::from_millis(10);

/// The far ends that there can be: the worker, and a spare that gets the same blocks.
pub const FAR_ENDS: usize = 2;

/// Which far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The worker.
    Worker,
    /// The one that gets the same blocks, so that nothing is missed when the other fails.
    Spare,
}

impl Which {
    /// Both, in the order in which [`Standing::ends`](super::attendant::Standing::ends) has them.
    pub const ALL: [Self; FAR_ENDS] = [Self::Worker, Self::Spare];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// A worker, opened on an ordinary thread.
pub struct Far {
    /// What leads to it.
    pub link: Box<dyn Link>,
    /// The stream, as it was opened there.
    pub stream: u32,
    /// Who gives back what becomes of the blocks, if that is another: each of several workers feeds the next.
    pub last: Option<LastFar>,
}

/// The last of several workers of which each feeds the next.
pub struct LastFar {
    /// What comes from it.
    pub link: Box<dyn Link>,
    /// The stream, as it was opened there.
    pub stream: u32,
}

impl Far {
    /// One worker.
    pub const fn new(link: Box<dyn Link>, stream: u32) -> Self {
        Self { link, stream, last: None }
    }
}

/// What talks to the worker, if there is one; the history is kept for one that comes later.
pub(crate) struct WorkerEnd {
    pub(crate) master: Master,
    far: Option<Far>,
    /// The block after the highest that was answered.
    next: u64,
    /// Waits since something was heard of it.
    waits: u32,
    /// How long it was waited for since.
    in_vain: Span,
    /// For so long it is at most.
    patience: Span,
    /// Blocks that left since something came from the last of several workers.
    unheard: u32,
    /// Answers of this end that were played, and whether the last of them was clean.
    pub(crate) played: u64,
    pub(crate) clean: bool,
    room: Box<[u8]>,
}

impl WorkerEnd {
    /// Nothing is attached yet. It is waited for in vain no longer than `patience`, all together.
    pub(crate) fn new(config: MasterConfig, patience: Span) -> Result<Self, OffloadError> {
        let mut room = vec![0; config.datagram_bytes].into_boxed_slice();
        prefault(&mut room);
        let master = Master::new(config)?;
        Ok(Self {
            master,
            far: None,
            next: 0,
            waits: 0,
            in_vain: Span::ZERO,
            patience,
            unheard: 0,
            played: 0,
            clean: false,
            room,
        })
    }

    /// Puts another worker in the place of the one that was there, or none. Returns that one.
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

    /// The wait that began last was that long, and in vain unless something was heard meanwhile.
    pub(crate) fn waited(&mut self, span: Span) {
        if self.waits > 0 {
            self.in_vain += span;
        }
    }

    /// Whether it may still be waited for: a patient host does so however often it was in vain, but not for ever.
    pub(crate) fn is_waited_for(&self, patient: bool) -> bool {
        let often = !patient && self.waits >= MOST_WAITS;
        self.is_attached() && !often && self.in_vain < self.patience
    }

    /// What was made of a block is wanted: it leaves once more.
    pub(crate) fn insist(&mut self, block: u64) {
        self.master.insist(block);
        self.send();
    }

    pub(crate) const fn is_attached(&self) -> bool {
        self.far.is_some()
    }

    /// What is to be waited at: questions come by the first, and answers too, if not by the second.
    pub(crate) fn awaited(&mut self) -> [Option<BorrowedFd<'_>>; 2] {
        let Some(Far { link, last, .. }) = &mut self.far else { return [None, None] };
        [link.awaited(), last.as_mut().and_then(|last| last.link.awaited())]
    }

    pub(crate) fn link_counters(&self) -> LinkCounters {
        let Some(Far { link, last, .. }) = &self.far else { return LinkCounters::default() };
        let counters = link.counters();
        last.as_ref().map_or(counters, |last| together(counters, last.link.counters()))
    }

    /// Hands everything that is to leave to the link.
    pub(crate) fn send(&mut self) {
        let Self { master, far, room, unheard, .. } = self;
        let Some(far) = far else {
            // Whoever comes later asks for it.
            while master.poll(room).is_some() {}
            return;
        };
        let at = now();
        let instants = Departure::at_once(MediaTime::ZERO, at);
        let mut queued = 0;
        // What finds no room is counted by the link, and asked for again by the worker.
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
        // No block goes to it from here, so it is told where answers go; it may have begun anew, or not have heard.
        if unheard.is_multiple_of(HELLO_EVERY) {
            last.link.queue_written(instants, room, &mut |room| master.write_hello(room));
            last.link.flush();
        }
        *unheard = unheard.wrapping_add(1);
    }

    /// Takes in what has arrived. Whether anything is to leave for it.
    pub(crate) fn receive(&mut self) -> bool {
        let Self { master, far: Some(far), next, waits, in_vain, unheard, .. } = self else {
            return false;
        };
        let mut leaves = false;
        let mut take = |datagram: Datagram<'_>| {
            (*waits, *in_vain) = (0, Span::ZERO);
            match master.handle(datagram.bytes, datagram.arrival.at) {
                Handled::Ask { .. } => leaves = true,
                // Workers run in order: one that answered this has answered those before, and that was lost.
                Handled::Complete(block) if block >= *next => {
                    let missing = (*next).max(block.saturating_sub(MOST_INSISTED as u64))..block;
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
                // Before the first block that is heard after a silence, a greeting is due again.
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

/// What two links counted, as far as it is told.
pub(crate) const fn together(one: LinkCounters, other: LinkCounters) -> LinkCounters {
    LinkCounters {
        sent: one.sent + other.sent,
        received: one.received + other.received,
        foreign: one.foreign + other.foreign,
        unopened: one.unopened + other.unopened,
        ..one
    }
}
