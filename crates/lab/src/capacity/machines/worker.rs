//! Workers as users run them: `taut work`, controlled via its API, with encrypted datagrams.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tautline_api::attach::connect;
use tautline_api::client::{WorkerAddress, WorkerClient};
use tautline_api::trust::TrustStore;
use tautline_api::v1::StreamRequest;
use tautline_engine::offload::offloaded::Far;
use tautline_io::udp::UdpOptions;

use super::OpenedWorker;
use crate::capacity::grid::CapacityPoint;
use crate::signals::interrupt;

#[derive(Debug)]
pub(super) struct TautWorker {
    program: WorkerProgram,
    client: WorkerClient,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct StreamAsked<'a> {
    pub(super) label: &'a str,
    pub(super) datagram_bytes: usize,
    pub(super) history: u32,
    pub(super) cleartext: bool,
}

/// Timeout of a request, during which a stream's program may start.
const CALL: Duration = Duration::from_secs(20);

impl TautWorker {
    pub(super) fn start(command: Command, trust: Option<Arc<TrustStore>>) -> Result<Self, String> {
        let mut program = WorkerProgram::start(command)?;
        let said = program.says("where it listens")?;
        let at: SocketAddr =
            said.split_whitespace().nth(2).and_then(|word| word.parse().ok()).ok_or_else(|| {
                format!("unexpected output of a worker '{}', not its address", said.trim())
            })?;
        let address = WorkerAddress { name: None, host: at.ip().to_string(), port: at.port() };
        Ok(Self { program, client: WorkerClient::new(&address, trust).within(CALL) })
    }

    pub(super) fn open(
        &self,
        point: &CapacityPoint,
        requested: StreamAsked<'_>,
    ) -> Result<(StreamOpened, Far), String> {
        let (catalogue, _) = self.client.catalogue().map_err(|error| error.to_string())?;
        let plugin = catalogue.plugins.iter().find(|plugin| plugin.label == requested.label);
        let plugin = plugin.ok_or_else(|| {
            format!(
                "the worker has no plugin {}\nhint: build it with `make plugins`, and set its folder \
                 with --plugins",
                requested.label
            )
        })?;
        let opened = self.client.open(&StreamRequest {
            datagram_bytes: requested.datagram_bytes as u32,
            period_ns: Some(point.period_span().as_nanos().cast_unsigned()),
            history: requested.history,
            cleartext: requested.cleartext,
            ..StreamRequest::of(&plugin.id, point.rate.hertz(), point.period)
        });
        let opened = opened.map_err(|error| error.to_string())?;
        let stream = opened.stream.id;
        let held = StreamOpened { client: self.client.clone(), stream, root: self.program.pid() };
        let link = connect(&opened, UdpOptions::default()).map_err(|error| error.to_string())?;
        Ok((held, Far::new(Box::new(link), stream)))
    }
}

#[derive(Debug)]
pub(super) struct StreamOpened {
    client: WorkerClient,
    stream: u32,
    root: u32,
}

impl OpenedWorker for StreamOpened {
    fn pids(&self) -> Vec<u32> {
        let mut all = vec![self.root];
        let mut known = 0;
        while let Some(parent) = all.get(known).copied() {
            known += 1;
            all.extend(children_of(parent));
        }
        all
    }
}

impl Drop for StreamOpened {
    fn drop(&mut self) {
        // An unresponsive worker is ended soon.
        let _ = self.client.close(self.stream);
    }
}

fn children_of(parent: u32) -> Vec<u32> {
    let Ok(listed) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The process name before it may contain any character.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_whitespace().nth(1).and_then(|field| field.parse().ok()) == Some(parent)
    })
    .collect()
}

#[derive(Debug)]
pub(super) struct WorkerProgram {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl WorkerProgram {
    pub(super) fn start(mut command: Command) -> Result<Self, String> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let failed = |why: String| format!("cannot start {}: {why}", command_line(&command));
        let mut child = started.map_err(|error| failed(error.to_string()))?;
        let out = child.stdout.take().ok_or_else(|| failed("it has no output".to_owned()))?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn says(&mut self, what: &str) -> Result<String, String> {
        let mut line = String::new();
        match self.out.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Ok(line),
            _ => Err(format!("a program ended before it reported {what} (see its output above)")),
        }
    }
}

fn command_line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

impl Drop for WorkerProgram {
    fn drop(&mut self) {
        interrupt(&mut self.child);
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
