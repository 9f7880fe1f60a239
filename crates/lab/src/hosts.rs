//! Machines of an experiment. Each runs `taut lab agent` over stdin and stdout: no open port, no
//! key. The agent runs `taut` and returns its output.

mod addresses;
mod agent;
mod children;
mod confined;
mod error;
mod exchange;
mod lines;
mod offset;
mod place;
#[cfg(test)]
mod tests;
mod timeline;
mod usage;
mod words;

use core::time::Duration;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use tautline_proto::device::Stop;
use tautline_proto::text::printable;
use tautline_proto::time::Span;

use crate::report::HostDescription;
pub(crate) use agent::LONGEST_NOISE;
pub use agent::serve;
pub(crate) use children::last_message;
pub use confined::{ChildLimits, Used};
pub use error::HostError;
pub(crate) use lines::{BoundedLine, lines_within};
pub use place::HostPlace;
pub(crate) use timeline::HostTimeline;
pub use usage::{ChildUsage, UsedBetween};
use words::{AgentAnswer, AgentAsk, AgentRequest, Hello, Reply, Start};
pub use words::{ChildEnded, ChildState};

const TIMEOUT: Duration = Duration::from_secs(15);
/// Tries per address. At 5 % loss, all tries fail once in 160,000 times.
const KNOCKS: u32 = 4;
const TURN: Duration = Duration::from_secs(2);
/// Maximum wait of a request while a stop is possible, which an agent cannot see during a request.
const SHORT_TURN: Duration = Duration::from_millis(100);
const GOODBYE: Duration = Duration::from_secs(6);
const HURRIED: Duration = Duration::from_secs(1);
/// Maximum wait of a request during a stream, which the agent must not disturb.
const HEEDING: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(50);
const PIECE: usize = 1 << 18;

pub struct LabHost {
    place: HostPlace,
    name: String,
    agent: Child,
    to: Option<ChildStdin>,
    from: Receiver<BoundedLine>,
    complaints: Receiver<BoundedLine>,
    requested: u64,
    hello: Hello,
    silent: bool,
    stop: Stop,
    heeds: bool,
}

impl LabHost {
    /// Starts an agent unless stopped before it answers. Later waits ignore the stop.
    pub fn at(place: HostPlace, stop: &Stop) -> Result<Self, HostError> {
        let mut command = place.command()?;
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C must reach only this process: agents finish the row and clean up.
        command.process_group(0);
        let mut agent = command.spawn().map_err(|error| HostError::NotStarted {
            place: place.to_string(),
            why: format!("{program}: {error}\nhint: install {program}, or check PATH"),
        })?;
        let to = agent.stdin.take();
        let from = agent.stdout.take().map(lines).unwrap_or_else(nobody);
        let complaints = agent.stderr.take().map(lines).unwrap_or_else(nobody);
        let mut host = Self {
            name: place.to_string(),
            place,
            agent,
            to,
            from,
            complaints,
            requested: 0,
            hello: Hello::default(),
            silent: false,
            stop: stop.clone(),
            heeds: true,
        };
        host.hello = host.greet()?;
        host.heed_stop(false);
        Ok(host)
    }

    pub(crate) fn called(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    fn greet(&mut self) -> Result<Hello, HostError> {
        let here = env!("CARGO_PKG_VERSION");
        let place = self.name.clone();
        let line = self.line(TIMEOUT)?;
        // Only the version has the same format in all versions.
        let said: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(there) = said["taut"].as_str().filter(|there| *there != here) {
            return Err(HostError::OtherVersion { place, there: first(there, 40), here });
        }
        // May be a login message.
        serde_json::from_value(said).map_err(|_| HostError::NotStarted {
            place,
            why: format!(
                "unexpected output '{}'\nhint: check that `taut` is installed there",
                first(&line, 80)
            ),
        })
    }

    pub(crate) fn heed_stop(&mut self, heeds: bool) {
        self.heeds = heeds;
    }

    fn is_given_up(&self) -> bool {
        self.heeds && self.stop.is_requested()
    }

    pub fn place(&self) -> &HostPlace {
        &self.place
    }

    pub fn description(&self) -> HostDescription {
        HostDescription { name: self.name.clone(), ..self.hello.host.clone() }
    }

    /// `{dir}` is the experiment's folder.
    pub fn start(&mut self, words: &[String], cpus: &[usize]) -> Result<u32, HostError> {
        self.start_within(words, cpus, None)
    }

    pub fn start_within(
        &mut self,
        words: &[String],
        cpus: &[usize],
        limits: Option<ChildLimits>,
    ) -> Result<u32, HostError> {
        let start = Start { words: words.to_vec(), cpus: cpus.to_vec(), limits };
        match self.request(AgentAsk::Start(start))? {
            AgentAnswer::Started { child } => Ok(child),
            other => Err(self.confused(&other)),
        }
    }

    pub fn wait(&mut self, child: u32, maximum: Duration) -> Result<ChildState, HostError> {
        let deadline = Instant::now() + maximum;
        loop {
            let longest = if self.heeds { SHORT_TURN } else { TURN };
            let turn = deadline.saturating_duration_since(Instant::now()).min(longest);
            let max_ms = turn.as_millis() as u64;
            match self.ask_for(AgentAsk::Wait { child, max_ms }, turn + TIMEOUT)? {
                AgentAnswer::Child(ChildState::Running) if Instant::now() < deadline => {}
                AgentAnswer::Child(ChildState::Running) => return Ok(ChildState::Running),
                AgentAnswer::Child(ChildState::Ended(ended)) => {
                    // A single line cannot hold all output, so it comes in pieces.
                    let printed = self.read(&format!("{child}.out"))?;
                    return Ok(ChildState::Ended(ChildEnded { printed, ..ended }));
                }
                other => return Err(self.confused(&other)),
            }
        }
    }

    /// Waits for a child. A stop interrupts it if `ends_sooner`. Returns whether it ran for
    /// `lasts`.
    pub(crate) fn runs(
        &mut self,
        child: u32,
        lasts: Duration,
        mut ends_sooner: impl FnMut() -> bool,
    ) -> Result<bool, HostError> {
        let deadline = Instant::now() + lasts;
        loop {
            if self.stop.is_requested() && ends_sooner() {
                return self.interrupt(child).map(|()| false);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let turn = left.min(HEEDING);
            if self.wait(child, turn)? != ChildState::Running {
                return Ok(false);
            }
            if turn == left {
                return Ok(true);
            }
        }
    }

    pub fn usage(&mut self, child: u32) -> Result<ChildUsage, HostError> {
        match self.request(AgentAsk::Usage { child })? {
            AgentAnswer::Usage(usage) => Ok(usage),
            other => Err(self.confused(&other)),
        }
    }

    pub fn interrupt(&mut self, child: u32) -> Result<(), HostError> {
        self.request(AgentAsk::Interrupt { child }).map(|_| ())
    }

    pub fn read(&mut self, file: &str) -> Result<String, HostError> {
        let mut text = String::new();
        loop {
            let from = text.len() as u64;
            match self.request(AgentAsk::Read { file: file.to_owned(), from, maximum: PIECE })? {
                AgentAnswer::Text { text: piece } if piece.is_empty() => return Ok(text),
                AgentAnswer::Text { text: piece } => text += &piece,
                other => return Err(self.confused(&other)),
            }
        }
    }

    pub fn noise(&mut self, file: &str, seconds: u32, rate: u32) -> Result<(), HostError> {
        self.request(AgentAsk::Noise { file: file.to_owned(), seconds, rate }).map(|_| ())
    }

    /// An address that `other` reaches, and the first of `pairs` free port pairs.
    pub fn reached_from(
        &mut self,
        other: &mut Self,
        pairs: u16,
    ) -> Result<(IpAddr, u16), HostError> {
        let AgentAnswer::Listening { addresses, knock_at, ports } =
            self.request(AgentAsk::Listen { pairs })?
        else {
            return Err(self.refused("cannot open a UDP socket"));
        };
        for _ in 0..KNOCKS {
            let addresses = addresses.clone();
            other.request(AgentAsk::Knock { addresses, port: knock_at })?;
            if let AgentAnswer::Reached { address: Some(address) } =
                self.request(AgentAsk::Received)?
            {
                return Ok((address, ports));
            }
        }
        Err(self.refused(&format!(
            "no datagram from {} arrived at any of its addresses\nhint: set a reachable one with --at",
            other.place
        )))
    }

    /// The first of `pairs` consecutive free UDP port pairs, each an even port and the next.
    pub fn ports(&mut self, pairs: u16) -> Result<u16, HostError> {
        match self.request(AgentAsk::Listen { pairs })? {
            AgentAnswer::Listening { ports, .. } => Ok(ports),
            other => Err(self.confused(&other)),
        }
    }

    pub fn round_robin_slice(&mut self, slice: Span) -> Result<(), HostError> {
        self.request(AgentAsk::Slice { slice_ms: (slice.as_nanos() / 1_000_000) as u32 })
            .map(|_| ())
    }

    fn request(&mut self, request: AgentAsk) -> Result<AgentAnswer, HostError> {
        self.ask_for(request, TIMEOUT)
    }

    fn ask_for(&mut self, request: AgentAsk, maximum: Duration) -> Result<AgentAnswer, HostError> {
        if self.is_given_up() {
            return Err(HostError::Interrupted { place: self.name.clone() });
        }
        if self.silent {
            return Err(self.not_answering());
        }
        self.requested += 1;
        let request = AgentRequest { id: self.requested, request };
        let line = serde_json::to_string(&request).unwrap_or_default() + "\n";
        let written = self.to.as_mut().map(|to| to.write_all(line.as_bytes()));
        if !matches!(written, Some(Ok(()))) {
            return Err(self.ended());
        }
        let deadline = Instant::now() + maximum;
        loop {
            let line = self.line(deadline.saturating_duration_since(Instant::now()))?;
            let Ok(Reply { id, answer }) = serde_json::from_str::<Reply>(&line) else {
                return Err(self.refused(&format!("unexpected output '{}'", first(&line, 80))));
            };
            if id != self.requested {
                continue;
            }
            return match answer {
                AgentAnswer::Failed { why } => Err(self.refused(&why)),
                answer => Ok(answer),
            };
        }
    }

    fn line(&mut self, maximum: Duration) -> Result<String, HostError> {
        match self.next_line(maximum) {
            Err(RecvTimeoutError::Timeout) if self.is_given_up() => {
                Err(HostError::Interrupted { place: self.name.clone() })
            }
            Ok(BoundedLine::Whole(line)) => Ok(line),
            Ok(BoundedLine::TooLong) => {
                self.to = None;
                let _ = self.give_up();
                Err(HostError::Ended { place: self.name.clone(), why: TOO_LONG.to_owned() })
            }
            Err(RecvTimeoutError::Timeout) => {
                self.silent = true;
                Err(self.not_answering())
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    /// Wait in short turns, to notice a stop.
    fn next_line(&self, maximum: Duration) -> Result<BoundedLine, RecvTimeoutError> {
        let deadline = Instant::now() + maximum;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let come = self.from.recv_timeout(left.min(LOOK));
            let is_late = left <= LOOK || self.is_given_up();
            if is_late || !matches!(come, Err(RecvTimeoutError::Timeout)) {
                return come;
            }
        }
    }

    fn not_answering(&self) -> HostError {
        HostError::Silent { place: self.name.clone(), seconds: TIMEOUT.as_secs() }
    }

    pub(crate) fn replace_silent(&mut self) -> Result<(), HostError> {
        if self.silent {
            self.to = None;
            let _ = self.give_up();
            let name = self.name.clone();
            *self = Self::at(self.place.clone(), &self.stop)?.called(name);
        }
        Ok(())
    }

    fn ended(&mut self) -> HostError {
        self.to = None;
        let status = self.give_up();
        let said = rest(&self.complaints);
        let is_message = |line: &String| !line.trim().is_empty() && !line.starts_with("hint: ");
        let why = match (said.into_iter().rfind(is_message), status) {
            (Some(line), _) => first(&line, 200),
            (None, Ok(status)) => status.to_string(),
            (None, Err(error)) => error.to_string(),
        };
        let place = self.name.clone();
        match self.hello.taut.is_empty() {
            true => HostError::NotStarted { place, why: why + &self.hint() },
            false => HostError::Ended { place, why },
        }
    }

    fn give_up(&mut self) -> std::io::Result<ExitStatus> {
        let maximum = if self.is_given_up() { HURRIED } else { GOODBYE };
        let deadline = Instant::now() + maximum;
        // A stopped agent must continue to end its children.
        self.signal(Signal::CONT);
        while matches!(self.agent.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.signal(Signal::KILL);
        self.agent.wait()
    }

    /// Signals the agent and its children. Does nothing after the agent's end, because the ID may
    /// be reused.
    fn signal(&mut self, signal: Signal) {
        if let (Ok(None), Ok(pid)) = (self.agent.try_wait(), i32::try_from(self.agent.id())) {
            let _ = Pid::from_raw(pid).map(|group| kill_process_group(group, signal));
        }
    }

    fn hint(&self) -> String {
        match &self.place {
            HostPlace::Local => String::new(),
            HostPlace::Namespace(_) => {
                "\nhint: `ip netns list` lists the names; run as root to enter one".to_owned()
            }
            HostPlace::Ssh(host) => format!(
                "\nhint: `ssh -o BatchMode=yes {host} taut --version` must work, without a password"
            ),
        }
    }

    pub(crate) fn refused(&self, why: &str) -> HostError {
        HostError::Refused { place: self.name.clone(), why: why.to_owned() }
    }

    fn confused(&self, answer: &AgentAnswer) -> HostError {
        self.refused(&format!("unexpected answer: {}", first(&format!("{answer:?}"), 80)))
    }
}

impl Drop for LabHost {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.give_up();
    }
}

/// Maximum line length: a piece of a file, at six bytes per byte.
const LINE: usize = 8 * PIECE;
const TOO_LONG: &str = "its line is longer than 2 MiB\nhint: check that its `taut` is this program";
/// Capacity in lines. A writer of more lines blocks.
const WAITING: usize = 1024;

/// Reads on a thread, so that the receiver can time out.
fn lines(from: impl Read + Send + 'static) -> Receiver<BoundedLine> {
    let (to, lines) = sync_channel(WAITING);
    std::thread::spawn(move || lines_within(from, LINE).try_for_each(|line| to.send(line)).ok());
    lines
}

/// Timeout of the last lines, as another process may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_secs(1);

fn rest(from: &Receiver<BoundedLine>) -> Vec<String> {
    let deadline = Instant::now() + LAST_WORDS;
    let left = || deadline.saturating_duration_since(Instant::now());
    let each = core::iter::from_fn(|| from.recv_timeout(left()).ok());
    each.filter_map(|line| match line {
        BoundedLine::Whole(line) => Some(line),
        BoundedLine::TooLong => None,
    })
    .collect()
}

fn nobody() -> Receiver<BoundedLine> {
    sync_channel(0).1
}

fn first(text: &str, maximum: usize) -> String {
    printable(text, maximum)
}
