//! A JACK server for one test, without a card.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::program::{Call, Running, TIMEOUT, call, words};
use super::sound::Sound;
use super::{Folder, Lack, skipped, until};

/// Concurrently started servers of one user share a database and can disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// In Debian 13, the tools are a separate package.
const MISSING: &str =
    "JACK is not installed: apt-get install jackd2, and jack-example-tools where there is one";

/// Registry with eight places; a killed server keeps its place.
const REGISTRY: &str = "/dev/shm/jack-shm-registry";

/// Start attempts, and timeout of each in seconds.
const TRIES: (u32, u32) = (4, 10);

/// Excludes other tests with a server. `None`, with a message, if `programs` are missing.
pub(crate) fn without_others(programs: &[&str]) -> Option<MutexGuard<'static, ()>> {
    if programs.iter().any(|program| Command::new(program).arg("--help").output().is_err()) {
        skipped(Lack::Package, MISSING);
        return None;
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Ends when dropped. Only one test has a server at a time.
pub(crate) struct Server {
    pub(crate) name: String,
    running: Option<Running>,
    _only: MutexGuard<'static, ()>,
}

impl Server {
    /// 48 kHz; `buffer` is in frames. `None`, with a message, without JACK.
    pub(crate) fn start(buffer: u32) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tools = ["jackd", "jack_wait", "jack_lsp", "jack_iodelay", "jack_rec"];
        let only = without_others(&tools)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("taut-test-{}-{number}", std::process::id());
        let mut server = Self { name, running: None, _only: only };
        forget_killed_servers();
        server.restart(buffer);
        Some(server)
    }

    /// Keeps the name and the registry, which running clients have mapped.
    pub(crate) fn restart(&mut self, buffer: u32) {
        // On a busy machine, ordinary threads wake too late for short buffers.
        let real_time = Command::new("chrt").args(["-f", "10", "true"]).output();
        let granted = real_time.is_ok_and(|done| done.status.success());
        let scheduled = if granted { "-R -P 70" } else { "-r" };
        let line = format!("{scheduled} -n {} -d dummy -r 48000 -p {buffer}", self.name);
        let (tries, seconds) = TRIES;
        let wait = format!("--server {} --wait --timeout {seconds}", self.name);
        for _ in 0..tries {
            self.running = Some(call("jackd", words(&line)).start());
            if call("jack_wait", words(&wait)).run().status == Some(0) {
                return;
            }
            self.stop();
        }
        panic!(
            "`jackd {line}` does not come up, tried {tries} times for {seconds} s; {REGISTRY} has room \
             for eight servers"
        );
    }

    pub(crate) fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal("-CONT");
            running.signal("-TERM");
            running.end();
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.running.iter().for_each(|running| running.signal(signal));
    }

    /// Uses this server by default, with unbuffered lines.
    pub(crate) fn client(&self, line: &str) -> Call {
        call("stdbuf", ["-oL"]).and(words(line)).with("JACK_DEFAULT_SERVER", &self.name)
    }

    #[track_caller]
    pub(crate) fn hears_sound(&self, port: &str) {
        let folder = Folder::new();
        let file = folder.file("heard.wav");
        until(&format!("{port} is silent"), || {
            self.client("jack_rec -d 1 -b 16 -f").and([&file]).and([port]).run().well();
            Sound::read(&file).begins().is_some()
        });
    }

    pub(crate) fn device(&self, client: &str, connect: &str) -> String {
        format!("jack:{client}?server={}&connect={connect}", self.name)
    }

    pub(crate) fn latencies(&self, begin: &str) -> Vec<(String, [String; 2])> {
        let listed = self.listed();
        let mut ports: Vec<(String, Vec<String>)> = Vec::new();
        for line in listed.lines() {
            match (line.strip_prefix('\t'), ports.last_mut()) {
                (Some(line), Some((_, latencies))) => {
                    let range = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                    latencies.extend(range.map(|(range, _)| range.trim().to_owned()));
                }
                _ => ports.push((line.to_owned(), Vec::new())),
            }
        }
        ports.retain(|(name, _)| name.starts_with(begin));
        ports
            .into_iter()
            .map(|(name, latencies)| (name, latencies.try_into().expect("two latencies")))
            .collect()
    }

    /// Output of `jack_lsp -l`. A client of JACK 2 may hang while it opens (jackaudio/jack2 issues
    /// 95 and 297). A second one shows whether the server still answers.
    fn listed(&self) -> String {
        let list = self.client("timeout 10 jack_lsp -l");
        let first = list.run();
        let hung = first.status == Some(124) && first.out.is_empty();
        if hung { list.run() } else { first }.well().out
    }

    #[track_caller]
    pub(crate) fn await_ports(&self, begin: &str, enough: usize) -> Vec<String> {
        let until = Instant::now() + TIMEOUT;
        loop {
            let mut found: Vec<_> =
                self.latencies(begin).into_iter().map(|(name, _)| name).collect();
            if found.len() >= enough {
                found.sort_unstable();
                return found;
            }
            assert!(Instant::now() < until, "of {begin} there are only {found:?}");
        }
    }

    #[track_caller]
    pub(crate) fn await_latencies(&self, port: &str, playback: &str, capture: &str) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let found = self.latencies(port);
            let wanted = [playback, capture].map(str::to_owned);
            if found.iter().any(|(name, latencies)| name == port && *latencies == wanted) {
                return;
            }
            assert!(Instant::now() < until, "{port}: {found:?}, not {wanted:?}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        forget_killed_servers();
    }
}

/// Removes registry and memory of killed servers, unless a server runs. After eight of them, no
/// other would start.
fn forget_killed_servers() {
    let is_server = |entry: std::fs::DirEntry| {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        ["jackd", "jackdbus"].contains(&name.trim())
    };
    let mut processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    if processes.any(is_server) {
        return;
    }
    for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("jack-shm-registry")
            || name.starts_with("jack_")
            || name.starts_with("jack-")
        {
            // Fails for another user's files, which do not fill this user's registry.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
