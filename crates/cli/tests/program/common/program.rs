//! Programs under test: started, observed by their output, and ended.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tautline_trial::snapshot;

use super::network::Namespace;
use super::{Lack, messages, skipped};

/// Longer than any step on the slowest machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Call {
    program: OsString,
    arguments: Vec<OsString>,
    folder: Option<std::path::PathBuf>,
    namespace: Option<String>,
    environment: Vec<(String, OsString)>,
    listened_to: bool,
    controlled: bool,
    lasts: Duration,
}

pub(crate) fn taut<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Call {
    call(env!("CARGO_BIN_EXE_taut"), arguments)
}

pub(crate) fn call<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Call {
    let arguments = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
    Call {
        program: program.into(),
        arguments,
        folder: None,
        namespace: None,
        environment: Vec::new(),
        listened_to: false,
        controlled: false,
        lasts: Duration::ZERO,
    }
}

/// Runs without real-time priority and locked memory. `None`, with a message, if another user
/// cannot run `taut`.
pub(crate) fn ordinary(line: &str) -> Option<Call> {
    let limits = "--rtprio=0:0 --memlock=65536:65536 setpriv --reuid=65534 --regid=65534 \
                  --clear-groups --no-new-privs";
    let taut = env!("CARGO_BIN_EXE_taut");
    let run = Command::new("prlimit").args(words(limits)).args([taut, "--version"]).output();
    let why = match run {
        Ok(output) if output.status.success() => {
            return Some(call("prlimit", words(limits)).and([taut]).and(words(line)));
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(why) => why.to_string(),
    };
    let why = format!("another user cannot run taut: {why}");
    skipped(Lack::reported_by(&why), &why);
    None
}

pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

impl Call {
    pub(crate) fn and<A: AsRef<OsStr>>(mut self, more: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(more.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    pub(crate) fn line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        words.join(" ").replace(env!("CARGO_BIN_EXE_taut"), "taut")
    }

    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    pub(crate) fn with(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((key.to_owned(), value.as_ref().to_owned()));
        self
    }

    pub(crate) fn finding(self, programs: &Path) -> Self {
        let path = std::env::var("PATH").unwrap_or_default();
        self.with("PATH", format!("{}:{path}", programs.display()))
    }

    pub(crate) fn within(mut self, namespace: &Namespace) -> Self {
        self.namespace = Some(namespace.name.clone());
        self
    }

    pub(crate) fn lasting(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    pub(crate) fn listened_to(mut self) -> Self {
        self.listened_to = true;
        self
    }

    /// Uses `--control`: see [`Running::request`].
    pub(crate) fn controlled(mut self) -> Self {
        self.controlled = true;
        self.and(["--control"])
    }

    /// Has a standard input: see [`Running::notify`].
    pub(crate) fn requested(mut self) -> Self {
        self.controlled = true;
        self
    }

    fn command(&self) -> Command {
        let mut command = match &self.namespace {
            // `ip netns exec` executes the program, so the process id is the program's.
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command.args(&self.arguments);
        command.env("TAUT_HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent");
        // Ignores saved files: not even root can create any there.
        command.env("XDG_CACHE_HOME", "/proc/nonexistent");
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.current_dir(self.folder.as_deref().unwrap_or(Path::new("/")));
        command.stdin(if self.controlled { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self) -> Running {
        let mut child = self.command().spawn().unwrap();
        let (lines_in, lines) = channel();
        let (out_in, out) = channel();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let also = self.listened_to.then(|| lines_in.clone());
        thread::spawn(move || read_lines(stderr, |line| notify(&lines_in, line)));
        thread::spawn(move || {
            let mut out = String::new();
            read_lines(stdout, |line| {
                out.push_str(&line);
                out.push('\n');
                also.iter().for_each(|lines| notify(lines, line.clone()));
            });
            notify(&out_in, out);
        });
        let name = format!("{:?}", self.command());
        Running { child, name, lines, messages: Vec::new(), sought: 0, out, lasts: self.lasts }
    }

    pub(crate) fn run(&self) -> Ended {
        self.start().end()
    }
}

fn read_lines(pipe: impl Read, mut take: impl FnMut(String)) {
    // A broken pipe counts as the end.
    for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
        take(String::from_utf8_lossy(&line).into_owned());
    }
}

fn notify(channel: &Sender<String>, text: String) {
    let _ = channel.send(text);
}

pub(crate) struct Running {
    child: Child,
    name: String,
    lines: Receiver<String>,
    messages: Vec<String>,
    /// First message that [`Running::wait_for`] considers: the last one found, or the first after
    /// the last request. A request's effect can be reported before its answer.
    sought: usize,
    out: Receiver<String>,
    lasts: Duration,
}

#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) messages: Vec<String>,
}

fn messages(lines: Vec<String>) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for line in lines {
        match messages.last_mut() {
            Some(message) if line.starts_with("hint: ") => {
                message.push('\n');
                message.push_str(&line);
            }
            _ => messages.push(line),
        }
    }
    messages
}

impl Running {
    pub(crate) fn wait_for(mut self, text: &str) -> Self {
        let until = Instant::now() + TIMEOUT;
        loop {
            let new = &self.messages[self.sought..];
            if let Some(found) = new.iter().position(|line| line.contains(text)) {
                self.sought += found;
                return self;
            }
            self.sought = self.messages.len();
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.messages.push(line),
                Err(why) => {
                    panic!("{} never said {text:?}: {why}; {:#?}", self.name, self.messages)
                }
            }
        }
    }

    pub(crate) fn wait_for_each(mut self, texts: &[String]) -> Self {
        let until = Instant::now() + TIMEOUT;
        let messages = |line: &String, text: &String| line.contains(text.as_str());
        while !texts.iter().all(|text| self.messages.iter().any(|line| messages(line, text))) {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.messages.push(line),
                Err(why) => {
                    panic!("{} never said {texts:?}: {why}; {:#?}", self.name, self.messages)
                }
            }
        }
        self.sought = self.messages.len().saturating_sub(1);
        self
    }

    #[track_caller]
    pub(crate) fn request(mut self, line: &str, answer: &str) -> Self {
        let answered = self.answer(line).to_owned();
        let messages = &self.messages;
        assert!(answered.contains(answer), "{line:?}: {answered:?}, not {answer:?}; {messages:#?}");
        self
    }

    /// The answer must be an error, and is compared with the snapshot.
    #[track_caller]
    pub(crate) fn refuses(mut self, line: &str) -> Self {
        let messages = self.answer(line).to_owned();
        assert!(
            messages.starts_with(&format!("error {line}: ")),
            "{line:?} was answered {messages:?}"
        );
        snapshot!(line, messages);
        self
    }

    /// Polls `status`, because busy hosts delay effects of a change.
    #[track_caller]
    pub(crate) fn becomes(mut self, is_so: impl Fn(&str) -> bool) -> Self {
        let until = Instant::now() + TIMEOUT;
        while !is_so(self.answer("status")) {
            assert!(Instant::now() < until, "it never became so: {:?}", self.messages.last());
        }
        self
    }

    #[track_caller]
    fn answer(&mut self, line: &str) -> &str {
        self.write(line);
        loop {
            let messages = self.lines.recv_timeout(TIMEOUT);
            let messages =
                messages.unwrap_or_else(|why| panic!("{line:?}: {why}; {:#?}", self.messages));
            let is_answer = messages.starts_with("ok ") || messages.starts_with("error ");
            self.messages.push(messages);
            if is_answer {
                break;
            }
        }
        self.messages.last().expect("an answer")
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = &String> {
        self.messages.iter()
    }

    pub(crate) fn address(&self) -> String {
        let word = self.messages.last().and_then(|line| line.split_whitespace().last());
        word.expect("a line").to_owned()
    }

    pub(crate) fn enter(mut self, line: &str) -> Self {
        self.write(line);
        self
    }

    fn write(&mut self, line: &str) {
        self.sought = self.messages.len();
        let stdin = self.child.stdin.as_mut().expect("a program that is controlled");
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn no_more_lines(mut self) -> Self {
        self.child.stdin = None;
        self
    }

    /// A listening receiver gets all packets sent from now on.
    pub(crate) fn listening(self) -> Self {
        self.wait_for(messages::LISTENING)
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success(), "kill {signal} {id}");
    }

    pub(crate) fn id(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kilobytes << 10
    }

    #[cfg(feature = "pipewire")]
    pub(crate) fn has_loaded(&self, library: &str) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap();
        maps.contains(library)
    }

    pub(crate) fn end(mut self) -> Ended {
        let until = Instant::now() + TIMEOUT + self.lasts;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.messages.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{} does not end; it said {:#?}", self.name, self.messages)
                }
            }
        }
        let out = self.out.recv_timeout(TIMEOUT).unwrap();
        let status = self.child.wait().unwrap().code();
        Ended { status, out, messages: messages(core::mem::take(&mut self.messages)) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    #[track_caller]
    pub(crate) fn frames_found(&self) -> usize {
        let words: Vec<_> = self.out.split_whitespace().collect();
        let found = words.windows(3).find_map(|words| match words {
            [found, "of", _] | ["all", found, "frames,"] => found.parse().ok(),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("nothing was found: {self:#?}"))
    }

    #[track_caller]
    pub(crate) fn last(&self) -> &str {
        self.messages.last().unwrap_or_else(|| panic!("it said nothing: {self:#?}"))
    }

    #[track_caller]
    pub(crate) fn well(self) -> Self {
        assert_eq!(self.status, Some(0), "{self:#?}");
        self
    }
}
