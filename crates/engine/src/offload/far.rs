//! A far end as the real-time thread has it: a worker behind a link, and the machine that talks to it.

use tautline_io::clock::now;
use tautline_io::link::{Link, LinkCounters};
use tautline_io::thread::memory::prefault;
use tautline_proto::ledger::Departure;
use tautline_proto::offload::OffloadError;
use tautline_proto::offload::inbound::Handled;
use tautline_proto::offload::master::{Master, MasterConfig};
use tautline_proto::stream::Outgoing;
use tautline_proto::time::MediaTime;

/// Datagrams that are queued before they are handed to the kernel: half of what links take at once.
const TOGETHER: usize = 16;
/// Answers that are asked for again when a later one comes.
const MOST_INSISTED: u64 = 8;

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
}

/// What talks to the worker, whether there is one at the moment or not: the history is kept all the same, and one
/// that comes later asks for what it has to have seen.
pub(crate) struct WorkerEnd {
    pub(crate) master: Master,
    far: Option<Far>,
    /// The block after the highest that was answered.
    next: u64,
    /// Answers of this end that were played, and whether the last of them was clean.
    pub(crate) played: u64,
    pub(crate) clean: bool,
    /// Room for one datagram.
    room: Box<[u8]>,
}

impl WorkerEnd {
    pub(crate) fn new(config: MasterConfig) -> Result<Self, OffloadError> {
        let mut room = vec![0; config.datagram_bytes].into_boxed_slice();
        prefault(&mut room);
        Ok(Self { master: Master::new(config)?, far: None, next: 0, played: 0, clean: false, room })
    }

    /// Puts another worker in the place of the one that was there, or none. Returns that one.
    pub(crate) fn replace(&mut self, far: Option<Far>) -> Option<Far> {
        if let Some(far) = &far {
            self.master.retarget(far.stream);
        }
        core::mem::replace(&mut self.far, far)
    }

    pub(crate) const fn is_attached(&self) -> bool {
        self.far.is_some()
    }

    pub(crate) fn link(&mut self) -> Option<&mut (dyn Link + 'static)> {
        self.far.as_mut().map(|far| &mut *far.link)
    }

    pub(crate) fn link_counters(&self) -> LinkCounters {
        self.far.as_ref().map_or_else(LinkCounters::default, |far| far.link.counters())
    }

    /// Hands everything that is to leave to the link.
    pub(crate) fn send(&mut self) {
        let Self { master, far, room, .. } = self;
        let Some(far) = far else {
            // Whoever comes later asks for it.
            while master.poll(room).is_some() {}
            return;
        };
        let at = now();
        let instants = Departure {
            media: MediaTime::ZERO,
            capture: at,
            taken: at,
            packed: at,
            due: at,
            handed: at,
            launched: at,
        };
        let mut queued = 0;
        while let Some(len) = master.poll(room) {
            let datagram = &mut room[..len];
            // What finds no room is counted by the link, and asked for again by the worker.
            far.link.queue(&Outgoing { datagram, instants, handed_at: None, again: None });
            queued += 1;
            if queued == TOGETHER {
                far.link.flush();
                queued = 0;
            }
        }
        if queued > 0 {
            far.link.flush();
        }
    }

    /// Takes in what has arrived. Whether anything is to leave for it.
    pub(crate) fn receive(&mut self) -> bool {
        let Self { master, far: Some(far), next, .. } = self else { return false };
        let mut leaves = false;
        far.link.receive(&mut |arrival| match master.handle(arrival.datagram, arrival.arrival) {
            Handled::Ask { .. } => leaves = true,
            // Workers run in order: one that answered this has answered those before, and that was lost.
            Handled::Complete { block } if block >= *next => {
                let missing = (*next).max(block.saturating_sub(MOST_INSISTED))..block;
                for lost in missing {
                    if master.answer(lost).is_none() {
                        master.insist(lost);
                        leaves = true;
                    }
                }
                *next = block + 1;
            }
            _ => {}
        });
        leaves
    }

    /// A new epoch.
    pub(crate) fn begin(&mut self) {
        self.master.begin();
        self.next = 0;
    }
}
