//! `taut lab capacity`

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tautline_io::thread::affinity::usable_cores;
use tautline_io::thread::spawn;
use tautline_lab::capacity::{
    self, CapacityGrid, CapacityOptions, CapacityPoint, Machines, MachinesOptions, MachinesPlace,
    empty, measure,
};
use tautline_proto::time::Span;

use super::answer::ExperimentAnswer;
use super::room::check_room;
use super::stop_with_agent;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{CapacityFlags, EchoFlags};
use crate::screen;

pub(crate) fn run(flags: &CapacityFlags) -> Result<(), Failure> {
    let options = CapacityOptions {
        points: points(flags)?,
        step: flags.step,
        fine: flags.fine,
        attempt: flags.attempt,
        tries: flags.tries,
        idle: flags.idle,
        hold: flags.hold,
        allowed: flags.allow.0,
        scheduler: flags.scheduler,
    };
    options.points.iter().try_for_each(|point| check_room(options.values(point)))?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::open(format!("where this program is: {error}")))?;
    let place = match flags {
        CapacityFlags { workers_here: true, .. } => MachinesPlace::Here,
        CapacityFlags { local: true, .. } => MachinesPlace::Loopback,
        _ => MachinesPlace::Namespaces,
    };
    let machines = MachinesOptions {
        place,
        plugins: flags.plugins.clone().map_or_else(|| plugins(&program), |folder| vec![folder]),
        program,
        work: flags.work.into(),
        cleartext: flags.cleartext,
        link_rate: flags.link_rate.map(|rate| rate.0),
        scheduler: flags.scheduler,
    };
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    match Machines::make(machines, options.points.iter().map(|point| point.workers).max()) {
        Ok(mut machines) => {
            let report = measure(&options, &mut machines, &stop, &mut |point| answer.tell(point));
            answer.give(report)
        }
        Err(why) => {
            answer.write(empty().unusable("workers", why.clone()))?;
            Err(Failure::open(why))
        }
    }
}

/// Where a build leaves libraries, and where they are installed.
fn plugins(program: &Path) -> Vec<PathBuf> {
    let beside = program.parent().unwrap_or(Path::new("/"));
    let path = std::env::var_os("LADSPA_PATH").unwrap_or_default();
    let installed = beside.join("../lib/ladspa");
    let built = [beside.to_owned(), beside.join("deps"), installed];
    std::env::split_paths(&path).chain(built).collect()
}

fn points(flags: &CapacityFlags) -> Result<Vec<CapacityPoint>, Failure> {
    let cores = usable_cores().len();
    if let Some(grid) = flags.grid {
        let mut points = CapacityGrid::from(grid).points(cores);
        if let Some(wait) = flags.wait {
            points.iter_mut().for_each(|point| point.wait = wait);
        }
        return Ok(points);
    }
    let workers = usize::from(flags.workers);
    if !flags.virtual_work && workers > cores {
        return Err(Failure::usage(format!(
            "{workers} workers that work want a core each, and this machine has {cores}; use --virtual-work, \
             by which their time passes by a timer, or fewer --workers"
        )));
    }
    Ok(vec![CapacityPoint {
        rate: flags.rate,
        period: flags.period,
        window: flags.window,
        workers,
        wait: flags.wait.unwrap_or(Span::ZERO),
        real: !flags.virtual_work,
    }])
}

/// How often it is looked whether it is to end.
const PATIENCE: Duration = Duration::from_millis(100);

/// `taut lab echo`
pub(crate) fn echo(flags: &EchoFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let failed = |error: std::io::Error| {
        Failure::open(format!("listening at {}: {error}; use UDP port 0", flags.listen))
    };
    let socket = UdpSocket::bind(flags.listen).map_err(failed)?;
    screen::print(&format!("{}\n", socket.local_addr().map_err(failed)?));
    let run = move || capacity::echo(&socket, &stop, PATIENCE);
    let (thread, _) = spawn("taut-echo", flags.scheduler, 0, run).map_err(failed)?;
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(failed)
}
