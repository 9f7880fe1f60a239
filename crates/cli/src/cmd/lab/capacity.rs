//! `taut lab capacity`

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tautline_audio::jack::{JackSpec, open_with_word};
use tautline_io::thread::affinity::usable_cores;
use tautline_io::thread::spawn;
use tautline_lab::capacity::{
    self, CapacityGrid, CapacityOptions, CapacityPoint, CapacityWork, JackClient, JackMaster,
    JackPace, Machines, MachinesOptions, MachinesPlace, empty, measure,
};
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::time::Span;
use tautline_proto::units::Channels;

use super::answer::ExperimentAnswer;
use super::room::check_room;
use super::stop_with_agent;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{CapacityFlags, EchoFlags};
use crate::screen;

pub(crate) fn run(flags: &CapacityFlags) -> Result<(), Failure> {
    let work = CapacityWork::from(flags.work);
    if flags.workers_here && work != CapacityWork::Fixed {
        return Err(Failure::usage(
            "a thread here takes as long for every block; leave out --work, or --workers-here",
        ));
    }
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
    if flags.jack {
        JackMaster::check(flags.scheduler).map_err(Failure::usage)?;
    }
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
        work,
        cleartext: flags.cleartext,
        link_rate: flags.link_rate.map(|rate| rate.0),
        scheduler: flags.scheduler,
    };
    let most = options.points.iter().map(|point| point.workers).max();
    if most > Some(0) {
        machines.check().map_err(Failure::open)?;
    }
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    let jack = flags.jack.then(|| JackMaster::new(Box::new(jack_client))).transpose();
    let made = jack.map_err(|why| ("JACK", why)).and_then(|jack| {
        Ok((jack, Machines::make(machines, most).map_err(|why| ("workers", why))?))
    });
    match made {
        Ok((mut jack, mut machines)) => {
            let both = (&mut machines, jack.as_mut());
            let measured = measure(&options, both, &stop, &mut |point| answer.tell(point));
            answer.give_unless(measured.unanswered, measured.report)
        }
        Err((what, why)) => {
            answer.write(empty().unusable(what, why.clone()))?;
            Err(Failure::open(why))
        }
    }
}

/// A client of the server of this name, joined to nothing.
fn jack_client(server: &str, pace: JackPace) -> Result<JackClient, String> {
    let failed = |error: DeviceError| error.to_string();
    let name = format!("taut-capacity?connect=none&server={server}");
    let spec: JackSpec = name.parse().map_err(failed)?;
    let JackPace { rate, period } = pace;
    let wanted = Settings { rate, channels: Channels::MONO, period, periods: 2 };
    let (device, word) = open_with_word(&spec, wanted).map_err(failed)?;
    let Settings { rate, period, .. } = device.settings();
    match (rate, period) == (pace.rate, pace.period) {
        true => Ok(JackClient { device, xruns: word.xruns, woke_ns: word.woke_ns }),
        false => Err(format!(
            "the JACK server was asked for {} frames at {} and has {period} at {rate}; use a --period that it takes, \
             such as 256, or leave out --jack",
            pace.period, pace.rate
        )),
    }
}

/// Where a build leaves libraries, and where they are installed.
fn plugins(program: &Path) -> Vec<PathBuf> {
    let beside = program.parent().unwrap_or(Path::new("/"));
    let path = std::env::var_os("LADSPA_PATH").unwrap_or_default();
    let installed = beside.parent().unwrap_or(beside).join("lib/ladspa");
    let built = [beside.to_owned(), beside.join("deps"), installed];
    // Of nothing `split_paths` makes a path without a name.
    let named = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    named.chain(built).collect()
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
