//! One run of the host: hand out, take in, play.

use tautline_io::clock::now;
use tautline_io::link::awaiting::await_any;
use tautline_io::thread::float_mode::FloatMode;
use tautline_io::thread::realtime::scope;
use tautline_proto::offload::block::{ByteOrder, get_f32, put_f32};
use tautline_proto::offload::datagram::Flags;
use tautline_proto::time::{LocalTime, Span};

use crate::offload::attendant::{FarChange, Slack};
use crate::offload::delay::DelayChange;
use crate::offload::far::WorkerEnd;
use crate::offload::host_block::HostBlock;
use crate::offload::offloaded::under_way::HandedOut;
use crate::offload::offloaded::{Offloaded, OffloadedConfig};

/// The ordinary thread is told this often.
const TELL_EVERY: Span = Span::from_millis(10);
/// The part of a second for which a run that was missing at its turn is remembered: as long as its line of the ledger
/// is open.
const REMEMBERED_PART: u32 = 4;

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunOutcome {
    /// Frames for which something stood in.
    pub stood_in: u32,
    /// Whether it waited for an answer.
    pub waited: bool,
    /// Whether the host runs faster than real time.
    pub offline: bool,
}

/// The frames of a run that are handed out, and what is known of them all.
#[derive(Clone, Copy)]
struct RunPart {
    from: usize,
    frames: usize,
    flags: Flags,
    until: LocalTime,
}

impl Offloaded {
    /// Hands the host's inputs out and gives it what is to be played now; the run began at `began`.
    pub fn run(&mut self, block: &mut dyn HostBlock, began: LocalTime) -> RunOutcome {
        let _realtime = scope();
        self.obey();
        let frames = block.frames();
        let offline = self.pace.observe(frames as u32, began, self.held_up);
        self.held_up = Span::ZERO;
        let flags = flags(offline);
        let wait =
            if offline { self.config.wait.max(self.config.wait_offline) } else { self.config.wait };
        let wait = wait.max(core::mem::replace(&mut self.allowed, Span::ZERO));
        let most = self.config.set.most_frames.max(1) as usize;
        let mut outcome = RunOutcome { offline, ..RunOutcome::default() };
        let mut from = 0;
        while from < frames {
            let part =
                RunPart { from, frames: most.min(frames - from), flags, until: began + wait };
            self.run_part(block, part, &mut outcome);
            from += part.frames;
        }
        for (index, value) in self.controls_out.iter().enumerate() {
            block.control_out(index, *value);
        }
        self.counters.runs += 1;
        self.counters.frames += frames as u64;
        self.counters.stood_in += u64::from(outcome.stood_in);
        if began - self.told >= TELL_EVERY {
            self.told = began;
            // The newest is told again the next time.
            let _ = self.rings.standing.push(self.standing());
        }
        outcome
    }

    /// Takes up what the ordinary thread decided.
    fn obey(&mut self) {
        // What is taken off must find room: nothing is dropped here.
        while self.rings.gone.slots() > 0
            && let Ok(change) = self.rings.changes.pop()
        {
            let old = match change {
                FarChange::Attach(which, far) => self.attach(which, far),
                FarChange::Detach(which) => self.detach(which),
            };
            if let Some(old) = old {
                let _ = self.rings.gone.push(old);
            }
        }
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
        if !self.is_here(due) {
            outcome.waited |= self.wait(due, part.until);
        }
        self.place(due, part.until);
        outcome.stood_in += self.play(block, part);
    }

    /// Before anything is written: the host's buffers may be the same for both.
    fn copy_inputs(&mut self, block: &mut dyn HostBlock, part: RunPart) {
        let most = self.config.set.most_frames as usize;
        for (channel, samples) in self.inputs.chunks_exact_mut(most.max(1)).enumerate() {
            let samples = &mut samples[..part.frames];
            block.input(channel, part.from, samples);
            self.returns.push_dry(channel, samples);
        }
        for (index, value) in self.controls_in.iter_mut().enumerate() {
            *value = block.control(index);
        }
    }

    /// Hands the inputs to every far end. Returns the number that all of them give it.
    fn hand_out(&mut self, part: RunPart) -> u64 {
        let (set, frames) = (self.config.set, part.frames as u32);
        let most = set.most_frames as usize;
        let mut number = 0;
        for end in self.ends.iter_mut().flatten() {
            let Ok(bytes) = end.master.room(frames) else { continue };
            let mut rest = bytes;
            for samples in self.inputs.chunks_exact(most) {
                let (channel, behind) = rest.split_at_mut(4 * part.frames);
                put_f32(channel, &samples[..part.frames]);
                rest = behind;
            }
            put_f32(rest, &self.controls_in);
            number = end.master.commit(part.flags);
            end.send();
        }
        number
    }

    fn take_in(&mut self) {
        for end in self.ends.iter_mut().flatten() {
            if end.receive() {
                // What was asked for again.
                end.send();
            }
        }
    }

    /// Whether all that is played before frame `due` is here: of each run a clean answer, or whatever answers those give
    /// who are there.
    fn is_here(&self, due: u64) -> bool {
        let Self { under_way, ends, .. } = self;
        let answers = |end: &WorkerEnd, block: u64| match end.master.answer(block) {
            Some(answer) if !answer.flags.has(Flags::DIRTY) => AnswerState::Clean,
            None if end.is_attached() => AnswerState::NotYet,
            _ => AnswerState::Anyhow,
        };
        let is_here = |run: &HandedOut| {
            let mut all = ends.iter().flatten().map(|end| answers(end, run.block));
            run.placed
                || all.clone().any(|one| one == AnswerState::Clean)
                || !all.any(|one| one == AnswerState::NotYet)
        };
        under_way.iter().all(|run| run.position >= due || is_here(run))
    }

    /// Waits for what is to be played now; whether it did.
    fn wait(&mut self, due: u64, until: LocalTime) -> bool {
        let begun = now();
        if begun >= until {
            return false;
        }
        loop {
            let [worker, spare] = &mut self.ends;
            let awaited = [worker, spare].map(|end| end.as_mut()?.link()?.awaited());
            let came = await_any(awaited, until);
            self.take_in();
            if !came || self.is_here(due) {
                break;
            }
        }
        let held_up = now() - begun;
        self.held_up += held_up;
        self.counters.waits += 1;
        self.counters.waited += held_up;
        true
    }

    /// Places the answers whose turn it is: of those that are played before frame `due`.
    fn place(&mut self, due: u64, until: LocalTime) {
        let mut index = 0;
        while let Some(run) = self.under_way.get(index).copied() {
            if run.position >= due {
                break;
            }
            let placed = run.placed || self.place_run(&run);
            if !run.told {
                self.tell_slack(&run, until);
            }
            if let Some(run) = self.under_way.get(index) {
                (run.placed, run.told) = (placed, true);
            }
            index += 1;
        }
        self.release(due);
    }

    /// Forgets the runs that are played. One that was missing is remembered for a while: whether its answer comes late or
    /// never is a difference to whoever reads the ledger.
    fn release(&mut self, due: u64) {
        let remembered = u64::from(self.config.rate.hertz() / REMEMBERED_PART);
        let most = self.config.hold() - 1;
        while let Some(run) = self.under_way.get(0).copied() {
            let over = run.placed || run.end() + remembered <= due || self.under_way.count() > most;
            if run.end() > due || !over {
                break;
            }
            self.under_way.pop();
            for end in self.ends.iter_mut().flatten() {
                end.master.release(run.block + 1);
            }
        }
    }

    /// Gives the host what is played now. Returns for how many frames something stood in.
    fn play(&mut self, block: &mut dyn HostBlock, part: RunPart) -> u32 {
        self.returns.set_worker(self.ends.iter().flatten().any(WorkerEnd::is_attached));
        let mut sink = |channel: usize, samples: &[f32]| block.output(channel, part.from, samples);
        let pulled = self.returns.pull(part.frames as u32, &mut sink);
        while let Some(damage) = self.returns.poll_damage() {
            self.counters.damage_untold += u64::from(self.rings.damage.push(damage).is_err());
        }
        pulled.stood_in
    }

    /// Places what a far end made of a run, if any of them did.
    fn place_run(&mut self, run: &HandedOut) -> bool {
        let Some((end, clean)) = self.choose(run.block) else { return false };
        let Self { ends, returns, config: OffloadedConfig { set, .. }, .. } = self;
        let Some(end) = &mut ends[end] else { return false };
        let Some(answer) = end.master.answer(run.block) else { return false };
        let mut rest = answer.bytes;
        let samples = &mut self.channel[..run.frames as usize];
        for channel in 0..set.outputs {
            let (bytes, behind) = rest.split_at(4 * samples.len());
            // The worker is told the order of this host's bytes, and gives them back so.
            get_f32(bytes, samples, ByteOrder::NATIVE);
            returns.place(run.position, channel, samples);
            rest = behind;
        }
        if returns.arrived(run.position, run.frames, clean) > 0 && run.position >= self.controls_of
        {
            self.controls_of = run.position;
            get_f32(rest, &mut self.controls_out, ByteOrder::NATIVE);
            self.own_latency = answer.latency;
            returns.set_plugin_latency(answer.latency);
            end.played += 1;
            end.clean = clean;
        }
        true
    }

    /// Whose answer to a block is played: the first clean one, or else the first.
    fn choose(&self, block: u64) -> Option<(usize, bool)> {
        let answers = self.ends.iter().enumerate().filter_map(|(index, end)| {
            let answer = end.as_ref()?.master.answer(block)?;
            let dirty = answer.flags.has(Flags::DIRTY);
            Some((dirty, answer.came, index))
        });
        answers.min().map(|(dirty, _, index)| (index, !dirty))
    }

    fn tell_slack(&mut self, run: &HandedOut, until: LocalTime) {
        let answers = self.ends.iter().flatten().filter_map(|end| end.master.answer(run.block));
        let first = answers.map(|answer| answer.came).min();
        let left = first.map(|came| until - came);
        let slack = Slack { position: run.position, frames: run.frames, left };
        self.counters.slack_untold += u64::from(self.rings.slack.push(slack).is_err());
    }
}

/// What a far end has of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    /// An answer by a plugin that has seen every block.
    Clean,
    /// None, and one may come.
    NotYet,
    /// Another answer, or none and nobody to give it.
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
