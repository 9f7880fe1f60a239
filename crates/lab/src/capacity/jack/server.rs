//! A `jackd` without a card, started and ended with an experiment.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tautline_io::thread::Scheduler;

use super::{JackClient, JackPace, OpenJackClient};
use crate::signals::interrupt;

const PROGRAM: &str = "jackd";
/// Start attempts. Servers of one user share a database, so concurrent starts may fail.
const TRIES: u32 = 4;
const TIMEOUT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// Server thread's priority above its clients' (JACK 2).
const ABOVE_CLIENTS: u8 = 5;
/// Maximum priority of clients (sched(7)).
const MAX: u8 = 99 - ABOVE_CLIENTS;

pub(super) fn version() -> Result<String, String> {
    let requested = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output();
    let said = requested.map_err(|error| {
        format!(
            "cannot start {PROGRAM}: {error}\nhint: install it (apt-get install jackd2), or remove --jack"
        )
    })?;
    let said = String::from_utf8_lossy(&said.stdout);
    let words: Vec<_> = said.lines().last().unwrap_or("").split_whitespace().take(3).collect();
    Ok(words.join(" "))
}

pub(super) struct DummyServer {
    pub(super) client: JackClient,
    _program: JackProgram,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct DummyOptions {
    pub(super) pace: JackPace,
    pub(super) scheduler: Scheduler,
    /// Whether the server waits for its client in each cycle, as JACK 1 does. JACK 2 by default
    /// reports only the first of consecutive unfinished cycles (`JackEngine::ProcessCurrent`).
    pub(super) synchronous: bool,
}

impl DummyServer {
    pub(super) fn start(options: DummyOptions, open: &OpenJackClient) -> Result<Self, String> {
        let attempt = || Self::attempt(options, open);
        (1..TRIES).fold(attempt(), |started, _| started.or_else(|_| attempt()))
    }

    fn attempt(options: DummyOptions, open: &OpenJackClient) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("taut-capacity-{}-{number}", std::process::id());
        let words = options.words(&name)?;
        let mut program = JackProgram::start(&words)?;
        let until = Instant::now() + TIMEOUT;
        loop {
            let refused = match open(&name, options.pace) {
                Ok(client) => return Ok(Self { client, _program: program }),
                Err(refused) => refused,
            };
            if !program.runs() || Instant::now() >= until {
                let line = words.join(" ");
                return Err(format!("{refused}\nhint: run `{PROGRAM} {line}` to see why"));
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl DummyOptions {
    fn words(self, name: &str) -> Result<Vec<String>, String> {
        let scheduled = scheduling(self.scheduler)?;
        let JackPace { rate, period } = self.pace;
        let waits = if self.synchronous { " -S" } else { "" };
        let (rate, period) = (rate.hertz(), period.count());
        let line = format!("{scheduled}{waits} -n {name} -d dummy -r {rate} -p {period}");
        Ok(line.split(' ').map(str::to_owned).collect())
    }
}

pub(super) fn scheduling(scheduler: Scheduler) -> Result<String, String> {
    match scheduler {
        Scheduler::Other => Ok("-r".to_owned()),
        Scheduler::Fifo(priority @ 1..=MAX) => Ok(format!("-R -P {}", priority + ABOVE_CLIENTS)),
        other => Err(format!(
            "JACK cannot run a client as {other}\nhint: use --scheduler fifo:80, up to fifo:{MAX}, or \
             other"
        )),
    }
}

struct JackProgram(Child);

impl JackProgram {
    fn start(words: &[String]) -> Result<Self, String> {
        let mut command = Command::new(PROGRAM);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C must not end the server before its client is closed.
        let child = command.process_group(0).spawn();
        child.map(Self).map_err(|error| format!("cannot start {PROGRAM}: {error}"))
    }

    fn runs(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for JackProgram {
    fn drop(&mut self) {
        interrupt(&mut self.0);
        let until = Instant::now() + TIMEOUT;
        // A killed server stays in the database, which holds eight.
        while self.runs() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::{Frames, Span};
    use tautline_proto::units::Rate;

    use super::*;

    fn reported(scheduler: Scheduler, synchronous: bool) -> Result<String, String> {
        let pace = JackPace { rate: Rate::HZ_48000, period: Frames::new(64) };
        let options = DummyOptions { pace, scheduler, synchronous };
        options.words("a").map(|words| words.join(" "))
    }

    #[test]
    fn jackd_runs_above_clients_and_refuses_unsupported_options() {
        let line = |scheduler, waits| reported(scheduler, waits).unwrap();
        assert_eq!(line(Scheduler::Fifo(80), true), "-R -P 85 -S -n a -d dummy -r 48000 -p 64");
        assert_eq!(line(Scheduler::Other, false), "-r -n a -d dummy -r 48000 -p 64");
        let span = Span::from_millis(1);
        let deadline = Scheduler::Deadline { runtime: span, deadline: span, period: span };
        for other in [Scheduler::Fifo(95), Scheduler::RoundRobin(80), deadline] {
            let why = reported(other, true).unwrap_err();
            assert!(why.contains(&other.to_string()) && why.contains("fifo:80"), "{why}");
        }
    }
}
