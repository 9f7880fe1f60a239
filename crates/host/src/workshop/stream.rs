//! The successive processes of a stream, and their supervising thread.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tautline_api::v1::{PluginCost, PluginPort, StreamPhase, WorkRefused, WorkStreamState};
use tautline_io::clock::now;
use tautline_io::control::wait;
use tautline_io::thread::halt::Halt;
use tautline_proto::time::{LocalTime, Span};

use super::locked;
use super::standby::Standby;
use super::stream_report::StreamReport;
use super::{BEGINNING, MAX_IN_A_ROW, StopLooks, pause};
use super::{TellWork, WorkNews};
use crate::admission::CoreAdmission;
use crate::child_notes::{BlockOfEpoch, ChildNotes};
use crate::plan::{ChildEvent, ChildStanding, Plan, TakeBlocks};
use crate::process::{ChildMessage, ChildProcess, ChildProgram, Starting, WORK, words_of};

const ENDING: Span = Span::from_secs(1);
/// Minimum lifetime of a process that resets the delay.
const GOOD: Span = Span::from_secs(10);
const SILENCE: Span = Span::from_secs(2);
/// Maximum fatal blocks kept per epoch. More processes in a row are not started.
const MAX_FATAL: usize = MAX_IN_A_ROW as usize + 1;
const LAST_WORD: Span = Span::from_millis(100);

pub(super) struct StreamSetting {
    pub(super) program: ChildProgram,
    pub(super) admission: Arc<Mutex<CoreAdmission>>,
    pub(super) plugin: String,
    pub(super) controls: Vec<PluginPort>,
    pub(super) notify: TellWork,
}

pub(super) struct StreamSockets {
    pub(super) own: UdpSocket,
    pub(super) fed: Option<UdpSocket>,
}

pub(super) struct StreamProcess {
    reported: Arc<Mutex<StreamReport>>,
    halt: Halt,
    thread: Option<JoinHandle<()>>,
}

impl StreamProcess {
    pub(super) fn begin(
        plan: Plan,
        sockets: StreamSockets,
        setting: StreamSetting,
    ) -> Result<(Self, Option<PluginCost>), WorkRefused> {
        let failed = |what: &str, error: &std::io::Error| {
            WorkRefused::Failed(format!("{what}: {error}; allow more open files and processes"))
        };
        let halt =
            Halt::new().map_err(|error| failed("cannot create an event descriptor", &error))?;
        let notes =
            ChildNotes::new().map_err(|error| failed("cannot create shared memory", &error))?;
        let udp_port = sockets.own.local_addr().map_or(0, |address| address.port());
        let reported = StreamReport::new(&plan, &setting.plugin, &setting.controls, udp_port);
        let reported = Arc::new(Mutex::new(reported));
        let (notify, handle) = sync_channel(1);
        let keeper = Keeper {
            plan,
            sockets,
            setting,
            reported: Arc::clone(&reported),
            halt: halt.clone(),
            notes,
            first: Some(notify),
            fatal: Vec::new(),
            standby: Standby::default(),
        };
        let thread = std::thread::Builder::new().name("stream".into()).stack_size(128 << 10);
        let thread = thread.spawn(move || keeper.keep());
        let thread = thread.map_err(|error| failed("cannot start a thread", &error))?;
        let process = Self { reported, halt, thread: Some(thread) };
        match handle.recv() {
            Ok(Ok(cost)) => Ok((process, cost)),
            Ok(Err(why)) => Err(WorkRefused::Failed(why)),
            Err(_) => Err(WorkRefused::Failed("its thread ended; restart `taut work`".into())),
        }
    }

    pub(super) fn promise(&self, share: f64) {
        locked(&self.reported).state.share = share;
    }

    pub(super) fn process(&self) -> Option<u32> {
        locked(&self.reported).process
    }

    pub(super) fn standby(&self) -> Option<u32> {
        locked(&self.reported).standby
    }

    pub(super) fn received(&self) -> LocalTime {
        locked(&self.reported).received
    }

    pub(super) fn state(&self) -> WorkStreamState {
        locked(&self.reported).state.clone()
    }

    pub(super) fn end(self) -> WorkStreamState {
        let reported = Arc::clone(&self.reported);
        drop(self);
        locked(&reported).state.clone()
    }
}

impl Drop for StreamProcess {
    fn drop(&mut self) {
        self.halt.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

enum ProcessEnd {
    Requested,
    Fault(String),
}

type First = Result<Option<PluginCost>, String>;

struct Keeper {
    plan: Plan,
    sockets: StreamSockets,
    setting: StreamSetting,
    reported: Arc<Mutex<StreamReport>>,
    halt: Halt,
    notes: ChildNotes,
    first: Option<SyncSender<First>>,
    fatal: Vec<BlockOfEpoch>,
    standby: Standby,
}

impl Keeper {
    fn keep(mut self) {
        let mut in_a_row = 0;
        loop {
            let begun = now();
            let ProcessEnd::Fault(why) = self.one_process(in_a_row) else { return };
            if let Some(first) = self.first.take() {
                let _ = first.send(Err(why));
                return;
            }
            in_a_row = if now() - begun >= GOOD { 1 } else { in_a_row + 1 };
            let mut reported = locked(&self.reported);
            reported.ended(why);
            if in_a_row > MAX_IN_A_ROW {
                reported.state.phase = StreamPhase::Failed;
                let state = reported.state.clone();
                drop(reported);
                (self.setting.notify)(&WorkNews::Abandoned(state));
                wait(&[&self.halt], LocalTime::NEVER);
                return;
            }
            reported.state.restarts += 1;
            let state = reported.state.clone();
            drop(reported);
            (self.setting.notify)(&WorkNews::BegunAnew(state));
        }
    }

    fn one_process(&mut self, in_a_row: u32) -> ProcessEnd {
        let (mut child, mut is_ready) = match self.take_over(in_a_row) {
            Ok(Some(next)) => next,
            Ok(None) => return ProcessEnd::Requested,
            Err(error) => {
                return ProcessEnd::Fault(format!(
                    "cannot start a process: {error}; free memory, or raise ulimit -u"
                ));
            }
        };
        let mut until = now() + if is_ready { SILENCE } else { BEGINNING };
        if is_ready {
            self.begun(&child);
        }
        let mut hung = None;
        let mut stops = StopLooks::from(now());
        loop {
            match stops.look(&child, now()) {
                Some(true) => {
                    child.kill();
                    // The current block is not to blame.
                    child.end(now() + ENDING);
                    return ProcessEnd::Fault(STOPPED.to_owned());
                }
                Some(false) if is_ready => self.keep_standby(),
                _ => {}
            }
            match child.line(until.min(stops.next()), Some(self.halt.as_fd())) {
                _ if self.halt.is_requested() => {
                    if self.first.is_none() {
                        self.hear_out(&mut child);
                    }
                    child.kill();
                    return ProcessEnd::Requested;
                }
                ChildMessage::Line(line) => match serde_json::from_str(&line) {
                    Ok(ChildEvent::Ready { cost: Some(cost), .. }) if !is_possible(&cost) => {
                        return ProcessEnd::Fault(format!(
                            "its process reported an impossible cost, {cost:?}; use another plugin"
                        ));
                    }
                    Ok(ChildEvent::Ready { cost, .. }) => {
                        is_ready = true;
                        self.begun(&child);
                        if let Some(first) = self.first.take() {
                            let _ = first.send(Ok(cost));
                        }
                    }
                    Ok(ChildEvent::Refused(why)) => return ProcessEnd::Fault(why),
                    Ok(ChildEvent::Hung { millis }) => hung = Some(millis),
                    Ok(ChildEvent::Standing(standing)) => self.take(standing, &child),
                    Err(error) => {
                        return ProcessEnd::Fault(format!(
                            "its process returned invalid data: {error}; use another plugin"
                        ));
                    }
                },
                ChildMessage::Late if now() < until => continue,
                ChildMessage::Late if is_ready => self.rest(),
                ChildMessage::Late => {
                    return ProcessEnd::Fault(format!(
                        "the plugin did not start within {BEGINNING}; use another plugin"
                    ));
                }
                ChildMessage::Nothing => {
                    let status = child.end(now() + ENDING);
                    self.pass_over(status);
                    return ProcessEnd::Fault(fault(hung, status));
                }
            }
            if is_ready {
                until = now() + SILENCE;
            }
        }
    }

    fn take_over(&mut self, in_a_row: u32) -> std::io::Result<Option<(ChildProcess, bool)>> {
        self.notes.forget_run()?;
        let order = serde_json::to_string(&TakeBlocks { fatal: self.fatal.clone() })?;
        // Before its first block returns.
        let standby = self.standby.take(now());
        let mut reported = locked(&self.reported);
        (reported.process, reported.standby) = (standby.as_ref().map(ChildProcess::id), None);
        drop(reported);
        if let Some(mut child) = standby
            && child.notify(&order).is_ok()
        {
            return Ok(Some((child, true)));
        }
        if wait(&[&self.halt], now() + pause(in_a_row)) {
            return Ok(None);
        }
        let mut child = self.start()?;
        locked(&self.reported).process = Some(child.id());
        child.notify(&order)?;
        Ok(Some((child, false)))
    }

    fn begun(&mut self, child: &ChildProcess) {
        self.plan.measure = false;
        self.standby.wait_from(now());
        locked(&self.reported).ready(now(), child.processor_time());
    }

    fn keep_standby(&mut self) {
        if self.standby.is_due(now()) {
            let started = self.start();
            self.standby.started(started, now());
        }
        locked(&self.reported).standby = self.standby.ready();
    }

    fn start(&mut self) -> std::io::Result<ChildProcess> {
        // No two processes of a stream may encrypt with the same nonce.
        self.plan.incarnation += 1;
        let StreamSockets { own, fed } = &self.sockets;
        let sockets = core::iter::once(own).chain(fed).map(AsFd::as_fd);
        let kept: Vec<_> = core::iter::once(self.notes.as_fd()).chain(sockets).collect();
        let numbers = kept.iter().map(|kept| kept.as_raw_fd().to_string().into());
        let words = core::iter::once(WORK.into()).chain(numbers).collect();
        let starting = Starting { words, kept, received: true };
        let mut child = ChildProcess::start(&self.setting.program, &starting)?;
        let plan = serde_json::to_string(&self.plan)?;
        child.notify(&plan)?;
        Ok(child)
    }

    /// Remembers a fatal block: each successor would die of it too.
    fn pass_over(&mut self, status: Option<ExitStatus>) {
        // SIGKILL is not the plugin's fault.
        if status.and_then(|status| status.signal()) == Some(libc::SIGKILL) {
            return;
        }
        let Some(place) = self.notes.under_way() else { return };
        let fatal = &mut self.fatal;
        fatal.retain(|before| before.epoch == place.epoch && *before != place);
        if fatal.len() >= MAX_FATAL {
            fatal.remove(0);
        }
        fatal.push(place);
    }

    fn take(&self, standing: ChildStanding, child: &ChildProcess) {
        let mut reported = locked(&self.reported);
        let took = reported.take(standing, now(), child.processor_time());
        let promised = reported.state.share;
        drop(reported);
        locked(&self.setting.admission).correct(self.plan.stream, took.max(promised));
    }

    fn hear_out(&self, child: &mut ChildProcess) {
        child.leave_alone();
        let until = now() + LAST_WORD;
        while let ChildMessage::Line(line) = child.line(until, None) {
            if let Ok(ChildEvent::Standing(standing)) = serde_json::from_str(&line) {
                let _ = locked(&self.reported).take(standing, now(), None);
            }
        }
    }

    fn rest(&self) {
        let mut reported = locked(&self.reported);
        reported.state.phase = StreamPhase::Idle;
        let promised = reported.state.share;
        drop(reported);
        locked(&self.setting.admission).correct(self.plan.stream, promised);
    }
}

/// Whether the cost is finite and not negative. A plugin can write any number.
fn is_possible(cost: &PluginCost) -> bool {
    [cost.fixed_ns, cost.per_frame_ns].iter().all(|nanos| nanos.is_finite() && *nanos >= 0.0)
}

const STOPPED: &str = "its process was stopped by a signal such as SIGSTOP and not continued within 1 s, so it was \
    killed";

fn fault(hung: Option<u64>, status: Option<ExitStatus>) -> String {
    let how = words_of(status);
    match hung {
        Some(millis) => {
            format!("a run of the plugin took longer than {millis} ms; use another plugin")
        }
        None => {
            format!("running the plugin: {how}; use another plugin, or report this to its author")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_and_infinite_costs_are_impossible() {
        let is_possible =
            |fixed_ns, per_frame_ns| is_possible(&PluginCost { fixed_ns, per_frame_ns });
        assert!(is_possible(0.0, 0.0) && is_possible(1e6, 20.5));
        assert!(!is_possible(-1.0, 20.0) && !is_possible(1.0, -20.0));
        assert!(!is_possible(f64::INFINITY, 0.0) && !is_possible(0.0, f64::NAN));
    }
}
