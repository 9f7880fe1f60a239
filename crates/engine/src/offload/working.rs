//! The worker's thread: takes blocks from a link, has them worked on in order, and sends back what was made of them.

use std::os::fd::AsFd;

use tautline_io::clock::now;
use tautline_io::link::awaiting::await_any;
use tautline_io::link::destinations::Destinations;
use tautline_io::link::{LinkCounters, Pollable};
use tautline_io::thread::float_mode::FloatMode;
use tautline_io::thread::halt::Halt;
use tautline_io::thread::memory::prefault;
use tautline_io::thread::realtime::{permit, scope};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::ledger::Departure;
use tautline_proto::offload::datagram::Flags;
use tautline_proto::offload::inbound::{BlockTurn, Handled, PluginState};
use tautline_proto::offload::worker::{Worker, WorkerCounters};
use tautline_proto::stream::Outgoing;
use tautline_proto::time::MediaTime;

/// What a worker does with blocks. All of it is called on the thread that [`work`] runs on.
pub trait Work {
    /// A new activation begins: forget everything. Whoever cannot without allocating may, as nothing is due yet.
    fn restart(&mut self);

    /// Works on the block whose turn it is: its bytes, and room for what is made of them. Returns the frames by which
    /// that lags. Runs in the float mode of the master's host.
    fn work(&mut self, turn: &BlockTurn, input: &[u8], output: &mut [u8]) -> u32;

    /// Called each time before the thread waits: for whoever tells others. Real time.
    fn rest(&mut self, _standing: &WorkStanding) {}
}

/// How a worker's thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkStanding {
    /// What its machine counted.
    pub machine: WorkerCounters,
    /// What its link counted.
    pub link: LinkCounters,
    /// Whether what runs has seen every block.
    pub state: PluginState,
    /// Where answers go, once anything came.
    pub master: Option<Endpoint>,
    /// The newest activation, once one began.
    pub epoch: Option<u32>,
}

/// Works until it is told to end. Answers go where the last datagram of this stream came from: a master that moves to
/// another address goes on from there. The link must have room for one destination.
pub fn work(link: &mut dyn Pollable, worker: &mut Worker, work: &mut dyn Work, halt: &Halt) {
    let mut room = vec![0; link.datagram_bytes()].into_boxed_slice();
    prefault(&mut room);
    let mut bench = Workbench { link, worker, work, halt, room, master: None, epoch: None };
    let _realtime = scope();
    while !halt.is_requested() {
        bench.take_in();
        bench.work_on();
        bench.send();
        bench.rest();
        let until = bench.worker.deadline();
        let awaited = [Some(bench.link.as_fd()), Some(halt.as_fd())];
        await_any(awaited, until);
    }
}

struct Workbench<'a> {
    link: &'a mut dyn Pollable,
    worker: &'a mut Worker,
    work: &'a mut dyn Work,
    halt: &'a Halt,
    room: Box<[u8]>,
    master: Option<Endpoint>,
    epoch: Option<u32>,
}

impl Workbench<'_> {
    fn take_in(&mut self) {
        let (worker, mut from) = (&mut *self.worker, None);
        self.link.receive(&mut |arrival| {
            let handled = worker.handle(arrival.datagram, arrival.arrival);
            // Whoever sends what is none of ours is answered nothing.
            if !matches!(handled, Handled::Foreign | Handled::Invalid(_)) {
                from = Some(arrival.source);
            }
        });
        if from.is_some() && from != self.master {
            self.master = from;
            if let Some(from) = from {
                self.link.set_destinations(&Destinations::one(from));
            }
        }
    }

    fn work_on(&mut self) {
        while !self.halt.is_requested()
            && let Some(turn) = self.worker.next_turn()
        {
            self.epoch = Some(turn.epoch);
            if turn.restart {
                let _permit = permit("nothing is due of an activation that begins");
                self.work.restart();
            }
            let (input, output) = self.worker.buffers();
            let latency = {
                let _mode = float_mode(turn.flags).map(FloatMode::set);
                self.work.work(&turn, input, output)
            };
            self.worker.finish(latency);
            // Each at once: whoever catches up has many to work on.
            self.send();
            self.take_in();
        }
    }

    fn send(&mut self) {
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
        while let Some(len) = self.worker.poll(at, &mut self.room) {
            let datagram = &mut self.room[..len];
            if self.link.is_full() {
                self.link.flush();
            }
            self.link.queue(&Outgoing { datagram, instants, handed_at: None, again: None });
        }
        self.link.flush();
    }

    fn rest(&mut self) {
        self.work.rest(&WorkStanding {
            machine: self.worker.counters(),
            link: self.link.counters(),
            state: self.worker.state(),
            master: self.master,
            epoch: self.epoch,
        });
    }
}

/// That of the master's host, if it is known there.
fn float_mode(flags: Flags) -> Option<FloatMode> {
    flags.has(Flags::FLOAT_MODE_KNOWN).then(|| FloatMode {
        flush_to_zero: flags.has(Flags::FLUSH_TO_ZERO),
        denormals_are_zero: flags.has(Flags::DENORMALS_ARE_ZERO),
    })
}
