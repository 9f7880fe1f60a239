//! Worker's thread: processes blocks in order and sends answers.

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
use tautline_proto::time::{LocalTime, MediaTime};

use crate::offload::far::together;

/// Block processing, on the thread of [`work`].
pub trait Work {
    /// Resets for a new activation. May allocate, because no answer is due.
    fn restart(&mut self);

    /// Processes a block in the float mode of the master's host; returns its latency in frames.
    fn work(&mut self, turn: &BlockTurn, input: &[u8], output: &mut [u8]) -> u32;

    /// Publishes counters before each answer. Real-time safe.
    fn finished(&mut self, _standing: &WorkStanding) {}

    /// Reports status before each wait. Real-time safe.
    fn rest(&mut self, _standing: &WorkStanding) {}
}

/// Thread's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkStanding {
    /// Protocol counters.
    pub machine: WorkerCounters,
    /// Link counters, summed over both.
    pub link: LinkCounters,
    /// Whether the plugin has processed every block.
    pub state: PluginState,
    /// Answers' address, after the first datagram.
    pub master: Option<Endpoint>,
    /// Newest activation.
    pub epoch: Option<u32>,
}

/// Works until `halt`. Answers go to the source of the last datagram, which may change. The link
/// needs room for one destination.
pub fn work(link: &mut dyn Pollable, worker: &mut Worker, work: &mut dyn Work, halt: &Halt) {
    Workbench::new(link, None, worker, work, halt).run();
}

/// Works in a pipeline until `halt`: blocks arrive via `from`, answers leave via `to`. Requests
/// travel the opposite way, each answered at its source.
pub fn work_between(
    from: &mut dyn Pollable,
    to: &mut dyn Pollable,
    worker: &mut Worker,
    work: &mut dyn Work,
    halt: &Halt,
) {
    Workbench::new(from, Some(to), worker, work, halt).run();
}

struct WorkEnd<'a> {
    link: &'a mut dyn Pollable,
    partner: Option<Endpoint>,
}

impl WorkEnd<'_> {
    fn receive(&mut self, worker: &mut Worker) {
        let mut from = None;
        self.link.receive(&mut |datagram| {
            let handled = worker.handle(datagram.bytes, datagram.arrival.at);
            if !matches!(handled, Handled::Foreign | Handled::Invalid(_)) {
                from = Some(datagram.arrival.from);
            }
        });
        if let Some(from) = from
            && self.partner != Some(from)
        {
            self.partner = Some(from);
            self.link.set_destinations(&Destinations::one(from));
        }
    }

    fn queue(
        &mut self,
        at: LocalTime,
        room: &mut [u8],
        mut write: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let instants = Departure::at_once(MediaTime::ZERO, at);
        let mut any = false;
        loop {
            if self.link.is_full() {
                self.link.flush();
            }
            if self.link.queue_written(instants, room, &mut write).is_none() {
                return any;
            }
            any = true;
        }
    }
}

struct Workbench<'a> {
    from: WorkEnd<'a>,
    to: Option<WorkEnd<'a>>,
    worker: &'a mut Worker,
    work: &'a mut dyn Work,
    halt: &'a Halt,
    room: Box<[u8]>,
    epoch: Option<u32>,
}

impl<'a> Workbench<'a> {
    fn new(
        from: &'a mut dyn Pollable,
        to: Option<&'a mut dyn Pollable>,
        worker: &'a mut Worker,
        work: &'a mut dyn Work,
        halt: &'a Halt,
    ) -> Self {
        let bytes = to.as_ref().map_or(0, |to| to.datagram_bytes()).max(from.datagram_bytes());
        let mut room = vec![0; bytes].into_boxed_slice();
        prefault(&mut room);
        let from = WorkEnd { link: from, partner: None };
        let to = to.map(|link| WorkEnd { link, partner: None });
        Self { from, to, worker, work, halt, room, epoch: None }
    }

    fn run(mut self) {
        let _realtime = scope();
        while !self.halt.is_requested() {
            self.take_in();
            self.work_on();
            self.send();
            let standing = self.standing();
            self.work.rest(&standing);
            let until = self.worker.deadline();
            let to = self.to.as_ref().map(|to| to.link.as_fd());
            await_any([Some(self.from.link.as_fd()), to, Some(self.halt.as_fd())], until);
        }
    }

    fn take_in(&mut self) {
        self.from.receive(self.worker);
        if let Some(to) = &mut self.to {
            to.receive(self.worker);
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
            // Reports the status first: the master may close the stream once it has this answer.
            let standing = self.standing();
            self.work.finished(&standing);
            // Answers are sent immediately, because a late worker has many blocks. Without any
            // blocks, the wait precedes the read.
            self.send();
            if self.worker.behind() > 0 {
                self.take_in();
            }
        }
    }

    fn send(&mut self) {
        let at = now();
        let Self { from, to, worker, room, .. } = self;
        let to = to.as_mut().unwrap_or(from);
        to.queue(at, room, |room| worker.poll_answer(room));
        to.link.flush();
        if from.queue(at, room, |room| worker.poll_ask(at, room)) {
            from.link.flush();
        }
    }

    fn standing(&self) -> WorkStanding {
        let link = self.from.link.counters();
        let to = self.to.as_ref();
        WorkStanding {
            machine: self.worker.counters(),
            link: to.map_or(link, |to| together(link, to.link.counters())),
            state: self.worker.state(),
            master: to.unwrap_or(&self.from).partner,
            epoch: self.epoch,
        }
    }
}

fn float_mode(flags: Flags) -> Option<FloatMode> {
    flags.has(Flags::FLOAT_MODE_KNOWN).then(|| FloatMode {
        flush_to_zero: flags.has(Flags::FLUSH_TO_ZERO),
        denormals_are_zero: flags.has(Flags::DENORMALS_ARE_ZERO),
    })
}
