use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tautline_proto::offload::block::{ByteOrder, get_f32, put_f32};
use tautline_proto::offload::datagram::Flags;
use tautline_proto::offload::inbound::Handled;
use tautline_proto::offload::master::{ChosenAnswer, choose_answer};
use tautline_proto::offload::returns::{Cause, Damage, Returns, ReturnsConfig};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;

use super::ends::{DATAGRAM_BYTES, SimPlugin, SimWorker, local, sim_control, sim_input};
use super::{OffloadOutcome, OffloadScenario, WorkerOutcome};
use crate::clock::TrueTime;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OffloadEvent {
    There(usize, Vec<u8>),
    /// A block is complete, or a request is due.
    Wakes(usize),
    Back(usize, Vec<u8>),
}

struct OffloadWorld {
    workers: Vec<SimWorker>,
    events: BinaryHeap<Reverse<(TrueTime, u64, OffloadEvent)>>,
    order: u64,
    inbox: Vec<(TrueTime, usize, Vec<u8>)>,
    returns: Returns,
    /// Blocks in flight: number, first frame, and frames.
    under_way: Vec<(u64, u64, u32)>,
    /// Frames with a clean answer, in time or not.
    answered: Vec<bool>,
    true_plugin: SimPlugin,
    judge: OffloadJudge,
    samples: Vec<f32>,
}

pub fn play_offload(scenario: &OffloadScenario, length: Span) -> OffloadOutcome {
    let rate = Rate::new(scenario.rate).expect("a rate that hosts have");
    let mut world = OffloadWorld::new(scenario);
    let mut position = 0;
    for frames in scenario.runs.iter().copied().cycle() {
        let now = TrueTime::ZERO.after(rate.span_of(Frames::new(position)));
        if now.since(TrueTime::ZERO) >= length {
            break;
        }
        world.happen_until(now);
        world.run(frames, now);
        position += i64::from(frames);
    }
    world.outcome()
}

impl OffloadWorld {
    fn new(scenario: &OffloadScenario) -> Self {
        let max_frames = scenario.runs.iter().copied().max().unwrap_or(1);
        let workers = (0..scenario.workers.len()).map(|at| SimWorker::new(scenario, at)).collect();
        let mut returns = Returns::new(ReturnsConfig {
            inputs: 1,
            outputs: 1,
            rate: scenario.rate,
            delay: scenario.delay,
            max_frames,
            replacement: scenario.replacement,
        });
        returns.begin(scenario.delay);
        Self {
            workers,
            events: BinaryHeap::new(),
            order: 0,
            inbox: Vec::new(),
            returns,
            under_way: Vec::new(),
            answered: Vec::new(),
            true_plugin: SimPlugin::default(),
            judge: OffloadJudge::default(),
            samples: vec![0.0; max_frames as usize],
        }
    }

    fn push(&mut self, at: TrueTime, event: OffloadEvent) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn happen_until(&mut self, now: TrueTime) {
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at < now) {
            let Some(Reverse((at, _, event))) = self.events.pop() else { return };
            match event {
                OffloadEvent::There(index, datagram) => {
                    self.workers[index].read(&datagram, at);
                    self.wake(index, at);
                }
                OffloadEvent::Wakes(index) => self.wake(index, at),
                OffloadEvent::Back(index, datagram) => self.inbox.push((at, index, datagram)),
            }
        }
    }

    fn wake(&mut self, index: usize, now: TrueTime) {
        let mut back = Vec::new();
        let worker = &mut self.workers[index];
        worker.send(now, |at, datagram| back.push((at, datagram.to_vec())));
        let done = worker.work(now);
        let deadline = worker.deadline().filter(|at| *at > now);
        for (at, datagram) in back {
            self.push(at, OffloadEvent::Back(index, datagram));
        }
        for at in done.into_iter().chain(deadline) {
            self.push(at, OffloadEvent::Wakes(index));
        }
    }

    fn run(&mut self, frames: u32, now: TrueTime) {
        let position = self.judge.truth.len() as u64;
        let samples = &mut self.samples[..frames as usize];
        (position..).zip(samples.iter_mut()).for_each(|(at, sample)| *sample = sim_input(at));
        self.returns.push_dry(0, samples);
        let block = self.workers[0].master.next();
        self.under_way.push((block, position, frames));
        self.answered.resize(self.answered.len() + frames as usize, false);
        self.hand_out(frames, now);
        let samples = &mut self.samples[..frames as usize];
        self.true_plugin.run(samples, sim_control(block));
        self.judge.truth.extend_from_slice(samples);
        for (at, index, datagram) in core::mem::take(&mut self.inbox) {
            self.take_in(index, &datagram, at);
        }
        self.send(now);
        self.play(frames);
    }

    fn hand_out(&mut self, frames: u32, now: TrueTime) {
        let samples = &self.samples[..frames as usize];
        for worker in &mut self.workers {
            let bytes = worker.master.room(frames).expect("no run is longer than the longest");
            let (channel, control) = bytes.split_at_mut(4 * samples.len());
            put_f32(channel, samples);
            let (block, _, _) = self.under_way[self.under_way.len() - 1];
            put_f32(control, &[sim_control(block)]);
            worker.master.commit(Flags::NONE);
        }
        self.send(now);
    }

    fn send(&mut self, now: TrueTime) {
        let mut room = [0; DATAGRAM_BYTES];
        for index in 0..self.workers.len() {
            let mut there = Vec::new();
            let worker = &mut self.workers[index];
            while let Some(len) = worker.master.poll(&mut room) {
                worker.there.carry(len, now, |at| there.push((at, room[..len].to_vec())));
            }
            for (at, datagram) in there {
                if let Some(at) = self.workers[index].reads(at) {
                    self.push(at, OffloadEvent::There(index, datagram));
                }
            }
        }
    }

    fn take_in(&mut self, index: usize, datagram: &[u8], at: TrueTime) {
        let master = &mut self.workers[index].master;
        match master.handle(datagram, local(at)) {
            Handled::Complete(block) => self.take_answer(index, block),
            Handled::Late { position, frames } => self.returns.arrived_late(position, frames),
            _ => {}
        }
    }

    fn take_answer(&mut self, index: usize, block: u64) {
        let workers = self.workers.iter().enumerate();
        let answers = workers.filter_map(|(at, worker)| Some((at, worker.master.answer(block)?)));
        let chosen = choose_answer(answers).filter(|chosen| chosen.worker == index);
        let Some(ChosenAnswer { clean, .. }) = chosen else { return };
        let worker = &mut self.workers[index];
        let Some(answer) = worker.master.answer(block) else { return };
        worker.played += 1;
        let samples = &mut self.samples[..answer.frames as usize];
        get_f32(answer.bytes, samples, ByteOrder::NATIVE);
        self.returns.place(answer.position, 0, samples);
        self.returns.arrived(answer.position, answer.frames, clean);
        let begin = answer.position as usize;
        self.answered[begin..begin + answer.frames as usize].fill(clean);
    }

    fn play(&mut self, frames: u32) {
        let OffloadJudge { received, was_there, damage, .. } = &mut self.judge;
        let mut before = 0;
        let mut run = Vec::new();
        before +=
            self.returns.pull(frames, &mut |_, samples| run.extend_from_slice(samples)).before;
        let from = received.len();
        received.extend_from_slice(&run[before as usize..]);
        was_there.extend_from_slice(&self.answered[from..received.len()]);
        damage.extend(core::iter::from_fn(|| self.returns.poll_damage()));
        let over = |(_, position, frames): &(u64, u64, u32)| {
            position + u64::from(*frames) <= received.len() as u64
        };
        while self.under_way.first().is_some_and(over) {
            let (block, _, _) = self.under_way.remove(0);
            self.workers.iter_mut().for_each(|worker| worker.master.release(block + 1));
        }
    }

    fn outcome(mut self) -> OffloadOutcome {
        self.returns.settle();
        self.judge.damage.extend(core::iter::from_fn(|| self.returns.poll_damage()));
        let workers = self.workers.iter().map(SimWorker::outcome).collect();
        self.judge.judge(self.returns.damage_overflow(), workers)
    }
}

#[derive(Debug, Default)]
struct OffloadJudge {
    truth: Vec<f32>,
    received: Vec<f32>,
    was_there: Vec<bool>,
    damage: Vec<Damage>,
}

impl OffloadJudge {
    fn judge(self, overflow: u64, workers: Vec<WorkerOutcome>) -> OffloadOutcome {
        let mut noted = vec![false; self.received.len()];
        let mut may_differ = noted.clone();
        let end = noted.len() as u64;
        for damage in self.damage.iter().filter(|damage| damage.cause != Cause::Grown) {
            let until = damage.from + u64::from(damage.frames);
            let range = |until: u64| damage.from.min(end) as usize..until.min(end) as usize;
            // Cross-faded frames had a clean answer.
            noted[range(until)].fill(damage.cause != Cause::Faded);
            may_differ[range(until)].fill(true);
        }
        let differs =
            |frame: &usize| self.received[*frame].to_bits() != self.truth[*frame].to_bits();
        let frames = 0..self.received.len();
        OffloadOutcome {
            frames: frames.end as u64,
            overflow,
            workers,
            different: frames.clone().filter(differs).count() as u64,
            damaged: noted.iter().filter(|noted| **noted).count() as u64,
            first_wrong: frames
                .clone()
                .filter(|frame| !may_differ[*frame])
                .find(differs)
                .map(|frame| frame as u64),
            first_misnoted: frames
                .clone()
                .find(|frame| noted[*frame] == self.was_there[*frame])
                .map(|frame| frame as u64),
            damage: self.damage,
        }
    }
}
