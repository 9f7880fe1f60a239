//! The agent: executes requests, one per line, until its stdin ends.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tautline_io::clock::now;
use tautline_proto::device::Stop;
use tautline_proto::time::LocalTime;
use tempfile::TempDir;

use super::addresses::{Door, own_addresses};
use super::children::Children;
use super::words::{AgentAnswer, AgentAsk, AgentRequest, Hello, Reply};
use super::{BoundedLine, lines};
use crate::report::HostDescription;

const BEAT: Duration = Duration::from_millis(100);

/// Restores settings and ends children when it is dropped.
pub fn serve(from: impl Read + Send + 'static, mut to: impl Write, stop: &Stop) -> io::Result<()> {
    let mut agent = Agent::new()?;
    let hello = Hello {
        taut: env!("CARGO_PKG_VERSION").into(),
        host: HostDescription::here("here"),
        clock: clock(),
    };
    emit(&mut to, &hello)?;
    let lines = lines(from);
    while !stop.is_requested() {
        let line = match lines.recv_timeout(BEAT) {
            Ok(BoundedLine::Whole(line)) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Ok(BoundedLine::TooLong) | Err(RecvTimeoutError::Disconnected) => break,
        };
        let received = now();
        let Ok(AgentRequest { id, request }) = serde_json::from_str(&line) else { continue };
        let answer =
            agent.answer(request, received).unwrap_or_else(|why| AgentAnswer::Failed { why });
        emit(&mut to, &Reply { id, answer })?;
    }
    Ok(())
}

fn emit(to: &mut impl Write, what: &impl serde::Serialize) -> io::Result<()> {
    let line = serde_json::to_string(what)? + "\n";
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// Clock ID: boot and time namespace, which may shift it (time_namespaces(7)).
pub(super) fn clock() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = fs::read_link("/proc/self/ns/time").ok();
    let space = space.map_or(String::new(), |space| space.display().to_string());
    Some(format!("{} {space}", boot.trim()))
}

struct Agent {
    /// Dropped before the folder: a running child could leave files behind.
    children: Children,
    folder: TempDir,
    door: Option<Door>,
    slice: Option<Slice>,
}

impl Agent {
    fn new() -> io::Result<Self> {
        let folder = TempDir::with_prefix("taut-lab-")?;
        Ok(Self { children: Children::new(folder.path()), folder, door: None, slice: None })
    }

    fn answer(&mut self, request: AgentAsk, received: LocalTime) -> Result<AgentAnswer, String> {
        match request {
            AgentAsk::Start(start) => {
                self.children.start(&start).map(|child| AgentAnswer::Started { child })
            }
            AgentAsk::Wait { child, max_ms } => {
                self.children.wait(child, max_ms).map(AgentAnswer::Child)
            }
            AgentAsk::Usage { child } => self.children.usage(child).map(AgentAnswer::Usage),
            AgentAsk::Interrupt { child } => {
                self.children.interrupt(child).map(|()| AgentAnswer::Done)
            }
            AgentAsk::Read { file, from, maximum } => read(&self.file(&file)?, from, maximum),
            AgentAsk::Noise { file, seconds, rate } => {
                noise(&self.file(&file)?, seconds, rate).map(|()| AgentAnswer::Done)
            }
            AgentAsk::Listen { pairs } => {
                let door = Door::open(pairs)?;
                let answer = AgentAnswer::Listening {
                    addresses: own_addresses(),
                    knock_at: door.port,
                    ports: door.ports,
                };
                self.door = Some(door);
                Ok(answer)
            }
            AgentAsk::Knock { addresses, port } => {
                addresses.into_iter().for_each(|address| Door::knock((address, port).into()));
                Ok(AgentAnswer::Done)
            }
            AgentAsk::Slice { slice_ms } => {
                match &self.slice {
                    Some(_) => Slice::write(slice_ms)?,
                    None => self.slice = Some(Slice::set(slice_ms)?),
                }
                Ok(AgentAnswer::Done)
            }
            AgentAsk::Clock => {
                let [received_ns, answered_ns] = [received, now()].map(LocalTime::as_nanos);
                Ok(AgentAnswer::Clock { received_ns, answered_ns })
            }
            AgentAsk::Received => {
                let door = self.door.as_ref().ok_or("no listen request came before")?;
                let address = door.received();
                // A sender without an answer may still send test datagrams.
                if address.is_some() {
                    self.door = None;
                }
                Ok(AgentAnswer::Reached { address })
            }
        }
    }

    /// Accepts only names in the experiment's folder.
    fn file(&self, name: &str) -> Result<PathBuf, String> {
        let mut parts = Path::new(name).components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(name)), None) => Ok(self.folder.path().join(name)),
            _ => Err(format!("invalid file name '{name}'")),
        }
    }
}

/// SCHED_RR slice (sched(7)); restored on drop.
struct Slice {
    before: String,
}

const SLICE: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";

impl Slice {
    fn set(slice_ms: u32) -> Result<Self, String> {
        let before = fs::read_to_string(SLICE).map_err(|error| format!("{SLICE}: {error}"))?;
        Self::write(slice_ms)?;
        Ok(Self { before })
    }

    fn write(slice_ms: u32) -> Result<(), String> {
        fs::write(SLICE, slice_ms.to_string())
            .map_err(|error| format!("{SLICE}: {error}\nhint: run taut as root there"))
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        let _ = fs::write(SLICE, &self.before);
    }
}

fn read(path: &Path, from: u64, maximum: usize) -> Result<AgentAnswer, String> {
    let failed = |error: io::Error| format!("reading {}: {error}", path.display());
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(maximum as u64).read_to_end(&mut bytes).map_err(failed)?;
    let whole = match core::str::from_utf8(&bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    bytes.truncate(whole);
    let text =
        String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8 text", path.display()))?;
    Ok(AgentAnswer::Text { text })
}

/// Maximum seconds of noise: 700 MB of stereo at 48 kHz.
pub(crate) const LONGEST_NOISE: u32 = 3600;

/// 16-bit stereo at −18 dBFS.
fn noise(path: &Path, seconds: u32, rate: u32) -> Result<(), String> {
    if seconds > LONGEST_NOISE {
        return Err(format!(
            "{seconds} s of noise exceed the maximum of {LONGEST_NOISE} s\nhint: use a shorter \
             --duration, or set --input"
        ));
    }
    let failed = |error: hound::Error| format!("cannot write {}: {error}", path.display());
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = hound::WavWriter::create(path, spec).map_err(failed)?;
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..u64::from(seconds) * u64::from(rate) {
        let sample = random.i16(-4096..=4096);
        file.write_sample(sample).map_err(failed)?;
        file.write_sample(sample).map_err(failed)?;
    }
    file.finalize().map_err(failed)
}
