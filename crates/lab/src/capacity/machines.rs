//! The machines that plugins run on: `taut work` in network namespaces, or on the loopback; or threads of this
//! program.

mod namespaces;
mod program;

use std::net::SocketAddr;
use std::path::PathBuf;

use tautline_io::thread::Scheduler;

use super::grid::CapacityPoint;
use super::point::CapacityCycle;
use namespaces::Namespaces;
use program::Program;

/// Where workers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachinesPlace {
    /// Each in a network namespace of its own; takes root.
    Namespaces,
    /// Programs on this machine's loopback.
    Loopback,
    /// Threads of this program, over the loopback.
    Here,
}

/// How the cost of a block comes about; it is the greatest that a block has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityWork {
    /// Always the same.
    Fixed,
    /// From half of it upwards, by chance.
    Random,
    /// Half of it, and all of it once in a hundred blocks.
    Burst,
    /// Always the same, on memory that no cache holds.
    Cache,
}

/// How machines are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinesOptions {
    /// Where they are.
    pub place: MachinesPlace,
    /// `taut` itself.
    pub program: PathBuf,
    /// The folder of the plugin that takes time.
    pub plugins: PathBuf,
    /// How it takes it.
    pub work: CapacityWork,
    /// Whether blocks go as they are.
    pub cleartext: bool,
    /// Of the threads that send datagrams back.
    pub scheduler: Scheduler,
}

/// Machines, as many as were asked for.
#[derive(Debug)]
pub struct Machines {
    options: MachinesOptions,
    /// Dropped before the networks that they are in.
    echoes: Vec<(Program, SocketAddr)>,
    namespaces: Option<Namespaces>,
}

/// Plugins on machines, ready to be run.
pub(super) struct OpenedWorkers {
    pub(super) cycle: Box<dyn CapacityCycle>,
    /// The programs that run them.
    pub(super) pids: Vec<u32>,
}

impl Machines {
    /// So many, if any are asked for.
    pub fn make(options: MachinesOptions, count: Option<usize>) -> Result<Self, String> {
        let count = count.unwrap_or(0);
        let namespaces = match options.place {
            MachinesPlace::Namespaces if count > 0 => {
                let mut made = Namespaces::make()?;
                made.grow(count)?;
                Some(made)
            }
            _ => None,
        };
        Ok(Self { options, echoes: Vec::new(), namespaces })
    }

    /// A plugin on each of as many machines as the point has.
    pub(super) fn open(&mut self, point: &CapacityPoint) -> Result<OpenedWorkers, String> {
        Err(format!("no worker can be had for {point}"))
    }

    /// Bytes of a datagram that carries a block of the point, there as back.
    pub(super) fn bytes(&self, point: &CapacityPoint) -> usize {
        point.period as usize * size_of::<f32>()
    }

    /// Where datagrams are sent back, one for each machine.
    pub(super) fn echoes(&mut self, count: usize) -> Result<Vec<SocketAddr>, String> {
        while self.echoes.len() < count {
            let number = self.echoes.len();
            let address = match &self.namespaces {
                Some(_) => Namespaces::address(number),
                None => "127.0.0.1".to_owned(),
            };
            let listen = format!("{address}:0");
            let scheduler = self.options.scheduler.one_below().to_string();
            let words = ["lab", "echo", "--listen", &listen, "--scheduler", &scheduler];
            let mut command = self.command(number);
            command.args(words);
            let mut program = Program::start(command)?;
            let said = program.says("where it listens")?;
            let at = said.trim().parse().map_err(|_| format!("an echo listens at `{said}`"))?;
            self.echoes.push((program, at));
        }
        Ok(self.echoes[..count].iter().map(|(_, at)| *at).collect())
    }

    /// What runs `taut` on a machine.
    fn command(&self, number: usize) -> std::process::Command {
        match &self.namespaces {
            Some(namespaces) => namespaces.command(number, &self.options.program),
            None => std::process::Command::new(&self.options.program),
        }
    }

    /// What a reader should know.
    pub(super) fn notes(&self) -> Vec<String> {
        let note = match self.options.place {
            MachinesPlace::Namespaces => {
                "workers are network namespaces of this machine, joined by veth: they share its cores, and no \
                 card, cable or switch is in it"
            }
            MachinesPlace::Loopback => {
                "workers are programs on this machine's loopback: they share its cores, and no card, cable or \
                 switch is in it"
            }
            MachinesPlace::Here => {
                "workers are threads of this program, over the loopback: no program, card, cable or switch is \
                 in it"
            }
        };
        vec![note.to_owned()]
    }
}
