//! One run of the host: send, receive, play.

use tautline_io::clock::now;
use tautline_io::link::awaiting::await_any;
use tautline_io::thread::Scheduler;
use tautline_io::thread::float_mode::FloatMode;
use tautline_io::thread::realtime::{permit, scope};
use tautline_proto::offload::block::{ByteOrder, get_f32, put_f32};
use tautline_proto::offload::datagram::Flags;
use tautline_proto::offload::master::{ChosenAnswer, choose_answer};
use tautline_proto::offload::pace::HeldUp;
use tautline_proto::time::{LocalTime, Span};

use crate::offload::attendant::Slack;
use crate::offload::delay::DelayChange;
use crate::offload::far::{INSIST_AFTER, MAX_INSISTED, WorkerEnd};
use crate::offload::host_block::HostBlock;
use crate::offload::offloaded::Offloaded;
use crate::offload::offloaded::under_way::HandedOut;

const TELL_EVERY: Span = Span::from_millis(10);
/// Divisor of a second: a missing run stays this long, while its ledger line is open.
const REMEMBERED_PART: u32 = 4;
const MAX_LATENCY_SECONDS: u32 = 10;

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunOutcome {
    /// Concealed frames.
    pub concealed: u32,
    /// Whether the run waited for an answer.
    pub waited: bool,
    /// Whether the host is faster than real time.
    pub offline: bool,
    /// Maximum time for which a rendering host may be blocked.
    pub timeout: Span,
    /// Whether the host is faster than real time but never blocked, as its thread has real-time
    /// priority.
    pub hurries_in_vain: bool,
}

#[derive(Clone, Copy)]
struct RunPart {
    from: usize,
    frames: usize,
    flags: Flags,
    until: LocalTime,
    patient: bool,
}

impl Offloaded {
    /// Sends the inputs and returns the due output. The run began at `began`.
    pub fn run(&mut self, block: &mut dyn HostBlock, began: LocalTime) -> RunOutcome {
        let _realtime = scope();
        self.apply_commands();
        let frames = block.frames();
        let offline = self.pace.observe(frames as u32, began, self.held_up);
        self.held_up = HeldUp::default();
        let flags = flags(offline);
        // A real-time thread serves a card at any speed, so it is never blocked.
        let hurries_in_vain = offline && {
            let _permit =
                permit("the kernel says how a thread is scheduled without waiting for anything");
            Scheduler::current() != Scheduler::Other
        };
        let timeout = match hurries_in_vain {
            true => Span::ZERO,
            false => self.pace.timeout().min(self.config.wait_offline),
        };
        let allowed = core::mem::replace(&mut self.allowed, Span::ZERO).max(timeout);
        let (wait, patient) = (self.config.wait.max(allowed), allowed > Span::ZERO);
        let maximum = self.config.set.max_frames.max(1) as usize;
        let mut outcome = RunOutcome { offline, timeout, hurries_in_vain, ..RunOutcome::default() };
        let (mut from, until) = (0, began + wait);
        // Also sends runs without frames: plugins read their controls then.
        loop {
            let part = RunPart { from, frames: maximum.min(frames - from), flags, until, patient };
            self.run_part(block, part, &mut outcome);
            from += part.frames;
            if from == frames {
                break;
            }
        }
        for (index, value) in self.controls_out.iter().enumerate() {
            block.control_out(index, *value);
        }
        self.counters.runs += 1;
        self.counters.frames += frames as u64;
        self.counters.concealed += u64::from(outcome.concealed);
        if began - self.reported >= TELL_EVERY {
            self.reported = began;
            let _ = self.rings.standing.push(self.standing());
        }
        outcome
    }

    fn apply_commands(&mut self) -> bool {
        let mut taken_off = false;
        // The ring needs room for the old worker, as this thread drops nothing. Usually the ring is
        // empty and untouched.
        while !self.rings.changes.is_empty()
            && self.rings.gone.slots() > 0
            && let Ok((which, far)) = self.rings.changes.pop()
        {
            taken_off |= far.is_none();
            let old = match far {
                Some(far) => self.attach(which, far),
                None => self.detach(which),
            };
            if let Some(old) = old {
                let _ = self.rings.gone.push(old);
            }
        }
        taken_off
    }

    fn run_part(&mut self, block: &mut dyn HostBlock, part: RunPart, outcome: &mut RunOutcome) {
        let frames = part.frames as u32;
        match self.delay.observe(frames) {
            DelayChange::None => {}
            DelayChange::Begins(delay) | DelayChange::Grows(delay) => {
                self.returns.set_delay(delay);
            }
        }
        self.copy_inputs(block, part);
        let number = self.hand_out(part);
        self.under_way.push(HandedOut::new(self.position, frames, number));
        self.position += u64::from(frames);
        let due = self.position.saturating_sub(self.delay.frames().into());
        self.take_in();
        if !self.is_here(due, part.patient) {
            outcome.waited |= self.wait(due, part);
        }
        self.place(due, part.until);
        outcome.concealed += self.play(block, part);
    }

    /// Copies the input before any output is written: the host may use the same buffers.
    fn copy_inputs(&mut self, block: &mut dyn HostBlock, part: RunPart) {
        for channel in 0..self.config.set.inputs {
            self.returns.push_dry_by(channel, part.frames as u32, |at, samples| {
                block.input(channel, part.from + at, samples);
            });
        }
        for (index, value) in self.controls_in.iter_mut().enumerate() {
            *value = block.control(index);
        }
    }

    fn hand_out(&mut self, part: RunPart) -> u64 {
        let Self { ends, returns, controls_in, config, .. } = self;
        let frames = part.frames as u32;
        let mut number = 0;
        for end in ends.iter_mut().flatten() {
            let Ok(bytes) = end.master.room(frames) else { continue };
            let mut rest = bytes;
            for channel in 0..config.set.inputs {
                for samples in returns.dry(channel, frames) {
                    let (piece, behind) = rest.split_at_mut(4 * samples.len());
                    put_f32(piece, samples);
                    rest = behind;
                }
            }
            put_f32(rest, controls_in);
            number = end.master.commit(part.flags);
            end.send();
        }
        number
    }

    fn take_in(&mut self) {
        for end in self.ends.iter_mut().flatten() {
            if end.receive() {
                end.send();
            }
        }
    }

    /// Whether all runs due before `due` have a clean answer, or cannot get one.
    fn is_here(&self, due: u64, patient: bool) -> bool {
        let Self { under_way, ends, returns, .. } = self;
        let answers = |end: &WorkerEnd, block: u64| match end.master.answer(block) {
            Some(answer) if !answer.flags.has(Flags::DIRTY) => AnswerState::Clean,
            None if end.is_waited_for(patient) => AnswerState::NotYet,
            _ => AnswerState::Anyhow,
        };
        let is_here = |run: &HandedOut| {
            let mut all = ends.iter().flatten().map(|end| answers(end, run.block));
            run.placed
                || all.clone().any(|one| one == AnswerState::Clean)
                || !all.any(|one| one == AnswerState::NotYet)
        };
        let is_over = |run: &HandedOut| run.end() <= returns.turn();
        under_way.iter().all(|run| run.position >= due || is_over(run) || is_here(run))
    }

    fn is_unanswered(&self, due: u64) -> bool {
        let turn = self.returns.turn();
        let mut wanted = self.under_way.iter().filter(|run| run.is_wanted(due, turn));
        wanted.any(|run| self.choose(run.block).is_none())
    }

    /// Sends unanswered blocks again. After a lost last block, only this triggers an answer.
    fn insist(&mut self, due: u64) {
        let turn = self.returns.turn();
        for end in self.ends.iter_mut().flatten().filter(|end| end.is_attached()) {
            let wanted = self.under_way.iter().filter(|run| run.is_wanted(due, turn));
            for run in wanted.take(MAX_INSISTED) {
                if end.master.answer(run.block).is_none() {
                    end.insist(run.block);
                }
            }
        }
    }

    fn wait(&mut self, due: u64, RunPart { until, patient, .. }: RunPart) -> bool {
        let begun = now();
        if begun >= until {
            return false;
        }
        self.ends.iter_mut().flatten().for_each(WorkerEnd::wait_for);
        let mut insist = begun + INSIST_AFTER;
        let mut taken_off = false;
        let held_up = loop {
            let [worker, spare] = &mut self.ends;
            let awaited =
                [worker, spare].map(|end| end.as_mut().map_or([None, None], WorkerEnd::awaited));
            await_any(awaited.into_iter().flatten(), until.min(insist));
            taken_off |= patient && self.apply_commands();
            self.take_in();
            let at = now();
            if self.is_here(due, patient) && !(taken_off && self.is_unanswered(due)) {
                break at - begun;
            }
            if at >= until {
                break at - begun;
            }
            if at >= insist {
                insist = at + INSIST_AFTER;
                self.insist(due);
            }
        };
        self.ends.iter_mut().flatten().for_each(|end| end.waited(held_up));
        let in_vain = if self.is_unanswered(due) { held_up } else { Span::ZERO };
        self.held_up += HeldUp { span: held_up, in_vain };
        self.counters.waits += 1;
        self.counters.waited += held_up;
        true
    }

    fn place(&mut self, due: u64, until: LocalTime) {
        let mut index = 0;
        while let Some(run) = self.under_way.get(index).copied() {
            if run.position >= due {
                break;
            }
            let placed = run.placed || self.place_run(&run);
            if !run.reported {
                self.report_slack(&run, until);
            }
            if let Some(run) = self.under_way.get(index) {
                (run.placed, run.reported) = (placed, true);
            }
            index += 1;
        }
        self.release(due, until);
    }

    /// Drops played runs. Missing runs stay for a while, so that the ledger can tell late from
    /// lost. With too many runs in flight, places the oldest answer early.
    fn release(&mut self, due: u64, until: LocalTime) {
        let remembered = u64::from(self.config.rate.hertz() / REMEMBERED_PART);
        let maximum = self.config.hold() - 1;
        while let Some(run) = self.under_way.get(0).copied() {
            let crowded = self.under_way.count > maximum;
            let over = run.end() <= due && (run.placed || run.end() + remembered <= due);
            if !over && !crowded {
                break;
            }
            self.under_way.pop();
            if !run.reported {
                self.report_slack(&run, until);
            }
            if run.end() > due && !run.placed && !self.place_run(&run) {
                self.counters.crowded += 1;
            }
            for end in self.ends.iter_mut().flatten() {
                end.master.release(run.block + 1);
            }
        }
    }

    fn play(&mut self, block: &mut dyn HostBlock, part: RunPart) -> u32 {
        self.returns.set_worker(self.ends.iter().flatten().any(WorkerEnd::is_attached));
        let mut sink = |channel: usize, samples: &[f32]| block.output(channel, part.from, samples);
        let pulled = self.returns.pull(part.frames as u32, &mut sink);
        self.report_damage();
        pulled.concealed
    }

    fn report_damage(&mut self) {
        while let Some(damage) = self.returns.poll_damage() {
            self.counters.damage_overflow += u64::from(self.rings.damage.push(damage).is_err());
        }
    }

    /// Reports remaining damage after the last run, even if late answers could repair it.
    pub fn finish(&mut self) {
        self.returns.settle();
        self.report_damage();
    }

    fn place_run(&mut self, run: &HandedOut) -> bool {
        let Some(ChosenAnswer { worker, clean }) = self.choose(run.block) else { return false };
        let Self { ends, returns, config, .. } = self;
        let Some(end) = &mut ends[worker] else { return false };
        let Some(answer) = end.master.answer(run.block) else { return false };
        if answer.flags.has(Flags::SKIPPED) {
            return true;
        }
        let mut rest = answer.bytes;
        for channel in 0..config.set.outputs {
            let (bytes, behind) = rest.split_at(4 * run.frames as usize);
            returns.place_by(run.position, channel, run.frames, |from, samples| {
                // Workers answer in this host's byte order.
                get_f32(&bytes[4 * from..], samples, ByteOrder::NATIVE);
            });
            rest = behind;
        }
        if returns.arrived(run.position, run.frames, clean) > 0 && run.position >= self.controls_of
        {
            self.controls_of = run.position;
            get_f32(rest, &mut self.controls_out, ByteOrder::NATIVE);
            // Longer latencies are invalid and not reported.
            if answer.latency <= MAX_LATENCY_SECONDS * config.rate.hertz() {
                self.own_latency = answer.latency;
                returns.set_plugin_latency(answer.latency);
            }
            end.played += 1;
            end.clean = clean;
        }
        true
    }

    fn choose(&self, block: u64) -> Option<ChosenAnswer> {
        let ends = self.ends.iter().enumerate();
        let answers =
            ends.filter_map(|(worker, end)| Some((worker, end.as_ref()?.master.answer(block)?)));
        choose_answer(answers)
    }

    fn report_slack(&mut self, run: &HandedOut, until: LocalTime) {
        let answers = self.ends.iter().flatten().filter_map(|end| end.master.answer(run.block));
        let first = answers.map(|answer| answer.arrived).min();
        let left = first.map(|arrived| until - arrived);
        let slack = Slack { position: run.position, frames: run.frames, left };
        self.counters.slack_overflow += u64::from(self.rings.slack.push(slack).is_err());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    Clean,
    NotYet,
    Anyhow,
}

fn flags(offline: bool) -> Flags {
    let mut flags = Flags::NONE;
    if let Some(mode) = FloatMode::current() {
        flags = flags.with(Flags::FLOAT_MODE_KNOWN);
        if mode.flush_to_zero {
            flags = flags.with(Flags::FLUSH_TO_ZERO);
        }
        if mode.denormals_are_zero {
            flags = flags.with(Flags::DENORMALS_ARE_ZERO);
        }
    }
    if offline { flags.with(Flags::OFFLINE) } else { flags }
}
