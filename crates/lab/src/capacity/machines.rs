//! Machines for plugins: `taut work` in network namespaces or on loopback, or threads here.

mod here;
mod namespaces;
mod worker;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tautline_api::trust::TrustStore;
use tautline_engine::offload::offloaded::{Far, OffloadedConfig};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_io::thread::Scheduler;
use tempfile::TempDir;

use super::grid::CapacityPoint;
use super::master::{CapacityCycle, CapacityWork};
use super::remote::RemoteCycle;
use here::WorkerHere;
use namespaces::Namespaces;
use worker::{StreamAsked, TautWorker, WorkerProgram};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MachinesPlace {
    Namespaces,
    Loopback,
    Here,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MachinesOptions {
    pub(super) place: MachinesPlace,
    pub(super) program: PathBuf,
    pub(super) plugins: Vec<PathBuf>,
    pub(super) work: CapacityWork,
    pub(super) cleartext: bool,
    /// Link rate in bit/s; `None`: unlimited cables.
    pub(super) link_rate: Option<u64>,
    pub(super) scheduler: Scheduler,
}

#[derive(Debug)]
pub(super) struct Machines {
    options: MachinesOptions,
    /// Dropped before their networks.
    workers: Vec<TautWorker>,
    echoes: Vec<(WorkerProgram, SocketAddr)>,
    namespaces: Option<Namespaces>,
    home: TempDir,
    trust: Option<Arc<TrustStore>>,
}

pub(super) struct OpenedWorkers {
    pub(super) cycle: Box<dyn CapacityCycle>,
    pub(super) workers: Vec<Box<dyn OpenedWorker>>,
}

pub(super) trait OpenedWorker {
    fn pids(&self) -> Vec<u32>;
}

/// Bytes of a datagram before encryption. It fits an Ethernet frame with its overhead.
const DATAGRAM_BYTES: usize = 1400;
const HISTORY: u32 = 256;
const HEAD_BYTES: usize = tautline_proto::offload::datagram::HEAD_BYTES;
/// Bytes of nonce and tag.
const SEAL_BYTES: usize = 28;

const LIBRARY: &str = "libtautline_ladspa_cost.so";

impl MachinesOptions {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.place {
            MachinesPlace::Here => Ok(()),
            MachinesPlace::Loopback | MachinesPlace::Namespaces => self.library().map(drop),
        }
    }

    fn library(&self) -> Result<PathBuf, String> {
        let found = self.plugins.iter().map(|folder| folder.join(LIBRARY));
        let library = found.filter_map(|library| library.canonicalize().ok()).next();
        library.ok_or_else(|| {
            let folders: Vec<_> =
                self.plugins.iter().map(|folder| folder.display().to_string()).collect();
            format!(
                "no {LIBRARY} in {}\nhint: build it with `make plugins`, or set its folder with \
                 --plugins",
                folders.join(", ")
            )
        })
    }
}

impl Machines {
    pub(super) fn are_on_loopback(&self) -> bool {
        self.options.place != MachinesPlace::Namespaces
    }

    pub(super) fn make(options: MachinesOptions, count: Option<usize>) -> Result<Self, String> {
        let count = count.unwrap_or(0);
        let namespaces = match options.place {
            MachinesPlace::Namespaces if count > 0 => {
                let mut made = Namespaces::make(options.link_rate)?;
                made.grow(count)?;
                Some(made)
            }
            _ => None,
        };
        let home = TempDir::with_prefix("taut-capacity-").map_err(|error| {
            format!("cannot create a folder for keys: {error}\nhint: set TMPDIR")
        })?;
        let trust = match options.place {
            MachinesPlace::Namespaces => Some(trusting_itself(&home)?),
            _ => None,
        };
        let (workers, echoes) = (Vec::new(), Vec::new());
        Ok(Self { options, workers, echoes, namespaces, home, trust })
    }

    pub(super) fn open(&mut self, point: &CapacityPoint) -> Result<OpenedWorkers, String> {
        let (set, mut ends) = (self.set(point), Vec::new());
        let mut workers: Vec<Box<dyn OpenedWorker>> = Vec::new();
        for number in 0..point.workers {
            if self.options.place == MachinesPlace::Here {
                let (worker, far) = self.worker_here(point, &set)?;
                workers.push(Box::new(worker));
                ends.push(far);
            } else {
                let requested = self.requested();
                let (stream, far) = self.worker(number)?.open(point, requested)?;
                workers.push(Box::new(stream));
                ends.push(far);
            }
        }
        let config = OffloadedConfig {
            wait: point.wait_at_max(),
            datagram_bytes: DATAGRAM_BYTES,
            ..OffloadedConfig::new(set, point.rate, point.window)
        };
        let cycle = RemoteCycle::new(point, (self.options.work, config), ends)?;
        Ok(OpenedWorkers { cycle: Box::new(cycle), workers })
    }

    fn requested(&self) -> StreamAsked<'static> {
        StreamAsked {
            label: self.options.work.label(),
            datagram_bytes: DATAGRAM_BYTES,
            history: HISTORY,
            cleartext: self.options.cleartext,
        }
    }

    fn worker(&mut self, number: usize) -> Result<&TautWorker, String> {
        while self.workers.len() <= number {
            let number = self.workers.len();
            let listen = format!("{}:0", self.address(number));
            let scheduler = self.options.scheduler.one_below().to_string();
            let mut command = self.command(number);
            // Messages of the worker would mix with the rows.
            command.args(["work", "--quiet", "--listen", &listen, "--scheduler", &scheduler]);
            if self.options.cleartext {
                command.arg("--cleartext");
            }
            command.env("LADSPA_PATH", self.plugins()?).env("TAUT_HOME", self.home.path());
            command.env("XDG_CACHE_HOME", self.home.path());
            self.workers.push(TautWorker::start(command, self.trust.clone())?);
        }
        Ok(&self.workers[number])
    }

    /// A folder with only the plugin's library.
    fn plugins(&self) -> Result<PathBuf, String> {
        let library = self.options.library()?;
        let folder = self.home.path().join("plugins");
        let made = fs::create_dir_all(&folder).and_then(|()| match folder.join(LIBRARY).exists() {
            true => Ok(()),
            false => symlink(&library, folder.join(LIBRARY)),
        });
        made.map_err(|error| {
            format!("cannot create {}: {error}\nhint: set TMPDIR", folder.display())
        })?;
        Ok(folder)
    }

    fn address(&self, number: usize) -> IpAddr {
        match &self.namespaces {
            Some(_) => Namespaces::address(number).into(),
            None => Ipv4Addr::LOCALHOST.into(),
        }
    }

    fn worker_here(
        &self,
        point: &CapacityPoint,
        set: &SoundSet,
    ) -> Result<(WorkerHere, Far), String> {
        let period = point.period_span().as_nanos().max(1);
        let blocks_per_second = (1_000_000_000 / period) as u32 + 1;
        WorkerHere::start(
            set,
            (DATAGRAM_BYTES, blocks_per_second),
            self.options.scheduler.one_below(),
        )
    }

    fn set(&self, point: &CapacityPoint) -> SoundSet {
        SoundSet {
            inputs: 1,
            outputs: 1,
            controls_in: self.options.work.controls().count(),
            controls_out: 0,
            max_frames: point.period,
            ..SoundSet::default()
        }
    }

    pub(super) fn bytes(&self, point: &CapacityPoint) -> usize {
        let sealed = self.options.place != MachinesPlace::Here && !self.options.cleartext;
        let values = point.period as usize + self.options.work.controls().count();
        HEAD_BYTES + values * size_of::<f32>() + if sealed { SEAL_BYTES } else { 0 }
    }

    pub(super) fn echoes(&mut self, count: usize) -> Result<Vec<SocketAddr>, String> {
        while self.echoes.len() < count {
            let number = self.echoes.len();
            let listen = format!("{}:0", self.address(number));
            let scheduler = self.options.scheduler.one_below().to_string();
            let words = ["lab", "echo", "--listen", &listen, "--scheduler", &scheduler];
            let mut command = self.command(number);
            command.args(words);
            let mut program = WorkerProgram::start(command)?;
            let said = program.says("where it listens")?;
            let at = said.trim().parse().map_err(|_| {
                format!(
                    "unexpected address of an echo \
                                                              '{said}'"
                )
            })?;
            self.echoes.push((program, at));
        }
        Ok(self.echoes[..count].iter().map(|(_, at)| *at).collect())
    }

    fn command(&self, number: usize) -> Command {
        match &self.namespaces {
            Some(namespaces) => namespaces.command(number, &self.options.program),
            None => Command::new(&self.options.program),
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let note = match self.options.place {
            MachinesPlace::Namespaces => {
                "workers are network namespaces of this machine, connected by veth: they share \
                 its cores; cards, cables and switches are excluded"
            }
            MachinesPlace::Loopback => {
                "workers are programs on this machine's loopback: they share its cores; cards, \
                 cables and switches are excluded"
            }
            MachinesPlace::Here => {
                "workers are threads of this program, over loopback: programs, cards, cables and \
                 switches are excluded"
            }
        };
        let rate = self.options.link_rate.map(|rate| {
            format!("master and workers have links of {} Mbit/s to a switch", rate as f64 / 1e6)
        });
        let work = (self.options.work != CapacityWork::Fixed).then(|| {
            "the local plugin takes the full run time in every block, and no memory: --work \
             applies only to the workers"
                .to_owned()
        });
        core::iter::once(note.to_owned()).chain(rate).chain(work).collect()
    }
}

/// Workers use the master's key.
fn trusting_itself(home: &TempDir) -> Result<Arc<TrustStore>, String> {
    let store = TrustStore::open(home.path()).map_err(|error| error.to_string())?;
    let key = store.identity().key();
    store.trusted().trust("capacity", key).map_err(|error| error.to_string())?;
    Ok(store)
}
