//! Calls through `ssh`.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tautline_proto::device::Stop;

use crate::failure::Failure;

const RESTART_AFTER: Duration = Duration::from_secs(2);

/// A local TCP port that `ssh` forwards to a remote `taut serve`.
pub(crate) struct Tunnel {
    destination: String,
    forward: String,
    ssh: Child,
    started: Instant,
}

impl Tunnel {
    /// Waits until `ssh` forwards; the user may have to type a password. Also returns the local
    /// port. `None` if `stop` is requested.
    pub(crate) fn open(
        destination: &str,
        port: u16,
        stop: &Stop,
    ) -> Result<Option<(Self, u16)>, Failure> {
        let failed = |error: std::io::Error| {
            Failure::open(format!("ssh:{destination}: {error}\nhint: install an SSH client"))
        };
        // If another program takes the port meanwhile, ssh refuses to start.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
        let local = free.map_err(failed)?.port();
        let forward = format!("127.0.0.1:{local}:127.0.0.1:{port}");
        let mut ssh = start(destination, &forward, &[]).map_err(failed)?;
        let stdout = ssh.stdout.take();
        let tunnel =
            Self { destination: destination.to_owned(), forward, ssh, started: Instant::now() };
        let (notify, reported) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
            // Fails after Ctrl-C.
            let _ = notify.send(read.is_some() && !line.is_empty());
        });
        loop {
            match reported.recv_timeout(Duration::from_millis(100)) {
                Ok(true) => return Ok(Some((tunnel, local))),
                Err(RecvTimeoutError::Timeout) if stop.is_requested() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(false) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::open(format!(
                        "ssh:{destination}: ssh ended before it forwarded a port\n\
                         hint: see what it printed, or try ssh {destination} by itself"
                    )));
                }
            }
        }
    }

    /// Restarts an ended `ssh`, without a password prompt: the terminal's keys control the call.
    /// Call regularly.
    pub(crate) fn turn(&mut self) {
        let ended = matches!(self.ssh.try_wait(), Ok(Some(_)));
        if ended && self.started.elapsed() >= RESTART_AFTER {
            self.started = Instant::now();
            if let Ok(ssh) = start(&self.destination, &self.forward, &["BatchMode=yes"]) {
                self.ssh = ssh;
            }
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

/// `ssh` prints a line once it forwards. OpenSSH keeps ignoring SIGINT if started so; Ctrl-C must
/// not end it before the goodbye.
fn start(destination: &str, forward: &str, more: &[&str]) -> std::io::Result<Child> {
    let options = [
        // A shared connection would forward beyond this session.
        "ControlPath=none",
        "ExitOnForwardFailure=yes",
        "ServerAliveInterval=5",
        "PermitLocalCommand=yes",
        "LocalCommand=echo forwards",
    ];
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' INT; exec ssh \"$@\"", "sh", "-N", "-T", "-L", forward]);
    command.args(options.iter().chain(more).flat_map(|option| ["-o", option]));
    command.args(["--", destination]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
}
