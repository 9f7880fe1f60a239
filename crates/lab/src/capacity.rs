//! Share of the period available to plugins on other machines: the method of N. P. Lago and F. Kon,
//! *A Middleware System for Distributed Real-Time Multimedia Processing*, 2003, section 5,
//! tightened.
//!
//! A thread hands each worker a block per period. The plugin's run time grows until an answer is
//! late; it is then bisected and held. Also measures a local run, an idle exchange, and a bare
//! exchange of as many bytes.

mod bare;
mod figures;
mod grid;
mod jack;
mod judge;
mod machines;
mod master;
mod point;
mod published;
mod remote;
mod search;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tautline_audio::jack::{JackSpec, open_with_word};
use tautline_io::thread::affinity::usable_cores;
use tautline_io::thread::stall::StallMonitor;
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::device::{DeviceError, Settings, Stop};
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};
use tautline_ui::failure::Failure;
use tautline_ui::readers::{rate, span};
use tautline_ui::screen;

use crate::answer::{Answer, Reporting, check_room};
use crate::impair::{BitRate, Share};
use crate::kept::lock_memory;
use crate::report::{HostDescription, LabReport, ReportRow};
use crate::signals::stop_with_agent;
pub use grid::{CapacityGrid, CapacityPoint};
use jack::{JackClient, JackMaster, JackPace};
use machines::{Machines, MachinesOptions, MachinesPlace};
pub use master::CapacityWork;

const SHORT_HELP: &str = r#"Examples:
  taut lab capacity --virtual-work
  taut lab capacity --workers 1 --local

All options and details: taut lab capacity --help"#;

const HELP: &str = r#"Examples:
  # Seven workers at 96 kHz and 2.19 ms, one block in flight, as root:
  taut lab capacity --virtual-work
  # The same, while the host's call may wait for a quarter of a millisecond:
  taut lab capacity --virtual-work --wait 250us
  # All points of Lago and Kon, with a page that shows their results as well:
  taut lab capacity --grid paper --report-file capacity.html
  # One worker with real work, without root:
  taut lab capacity --workers 1 --local
  # The same, with the master called by a JACK server, and its xruns:
  taut lab capacity --workers 1 --local --jack

Workers need libtautline_ladspa_cost.so, a plugin with a set run time: build it
with `make plugins`, and set its folder with --plugins. Worker threads
(--workers-here) do not need it.

A thread wakes once a period, as with a sound card, and sends a block to each
worker: `taut work`, in its own network namespace. The plugin's run time grows
by --step until more than 2 % of the answers are missed. Then the interval is
halved down to --fine, and the result is held. If the hold misses anything, or
more than --allow, a shorter run time is held.

Before that, the same plugin runs on this machine alone, and workers answer
blocks without run time: the idle exchange. After it, a bare exchange sends as
many bytes. Blocks missed while all cores of the host stalled do not count, and
neither do those of a worker that still catches up afterwards; both are
reported. With --virtual-work a timer simulates the plugin's run time; grids do
so except in rows named `real work`.

With --jack, a JACK server without a card calls the master once a cycle; it is
started and ended with the experiment. Each row has its xruns next to the
misses: an xrun is a call that returns too late, a miss an answer that is late."#;

/// `taut lab capacity`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct CapacityFlags {
    /// Measure a set of points instead of a single point
    #[arg(long, value_name = "GRID", conflicts_with_all = ["rate", "period", "window", "workers"])]
    grid: Option<CapacityGrid>,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "96000", value_parser = rate,
          help_heading = "Point")]
    rate: Rate,
    /// Frames per block: 210 are 2.19ms at 96000 Hz
    #[arg(long, value_name = "FRAMES", default_value_t = 210, help_heading = "Point",
          value_parser = clap::value_parser!(u32).range(16..=4096))]
    period: u32,
    /// Blocks in flight; with 0 each returns in its own period
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Point",
          value_parser = clap::value_parser!(u32).range(0..=16))]
    window: u32,
    /// Workers with one plugin each; 0: this machine alone
    #[arg(long, value_name = "N", default_value_t = 7, help_heading = "Point",
          value_parser = clap::value_parser!(u8).range(0..=32))]
    workers: u8,
    /// Maximum wait for an answer if there is a window [default: 0, or the grid's]
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Point",
          hide_short_help = true)]
    wait: Option<Span>,
    /// Simulate the plugins' run time with a timer
    #[arg(long, help_heading = "Plugin")]
    virtual_work: bool,
    /// How the plugin's run time varies
    #[arg(
        long,
        value_name = "KIND",
        default_value = "fixed",
        help_heading = "Plugin",
        hide_short_help = true
    )]
    work: CapacityWork,
    /// Folder of libtautline_ladspa_cost.so [default: LADSPA_PATH, or next to `taut`]
    ///
    /// `make plugins` builds it. By default, it is searched in LADSPA_PATH, next to `taut`, and
    /// where `taut` was installed.
    #[arg(long, value_name = "FOLDER", help_heading = "Plugin", hide_short_help = true)]
    plugins: Option<PathBuf>,
    /// Increase of the run time per step
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = span,
          help_heading = "Search")]
    step: Span,
    /// Precision of the result
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = span,
          help_heading = "Search", hide_short_help = true)]
    fine: Span,
    /// Duration of each try
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = span,
          help_heading = "Search", hide_short_help = true)]
    attempt: Span,
    /// Tries with more than 2 % missed before a run time fails
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Search",
          value_parser = clap::value_parser!(u32).range(1..=100), hide_short_help = true)]
    tries: u32,
    /// Duration of the idle exchange before, and of the bare exchange after
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = span,
          help_heading = "Search", hide_short_help = true)]
    idle: Span,
    /// Duration of the final hold
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = span,
          help_heading = "Search")]
    hold: Span,
    /// Share of blocks that the hold may miss
    #[arg(long, value_name = "SHARE", default_value = "0%", help_heading = "Search")]
    allow: Share,
    /// Connect all machines to a switch with links of this rate, such as 100Mbit
    #[arg(long, value_name = "RATE",
          conflicts_with_all = ["local", "workers_here"], help_heading = "Machines",
          hide_short_help = true)]
    link_rate: Option<BitRate>,
    /// Run the workers on loopback, without root
    #[arg(long, help_heading = "Machines")]
    local: bool,
    /// Run the workers as threads of this program
    #[arg(long, conflicts_with = "local", help_heading = "Machines")]
    workers_here: bool,
    /// Send blocks without encryption and authentication
    #[arg(long, requires = "local", help_heading = "Machines", hide_short_help = true)]
    cleartext: bool,
    /// Let a JACK server without a card call the master, and report its xruns
    ///
    /// Starts `jackd -d dummy`, which replaces the timer.
    #[arg(long, hide_short_help = true, help_heading = "Machines")]
    jack: bool,
    /// Priority of the master's thread
    #[arg(
        long,
        value_name = "CLASS",
        default_value = "fifo:80",
        help_heading = "Machines",
        hide_short_help = true
    )]
    scheduler: Scheduler,
    #[command(flatten)]
    reporting: Reporting,
}

/// `taut lab echo`
#[derive(Debug, Args)]
pub struct EchoFlags {
    /// Address to listen at; UDP port 0 picks a free one
    #[arg(long, value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Priority of the echoing thread
    #[arg(long, value_name = "CLASS")]
    scheduler: Scheduler,
}

pub(crate) fn run(flags: &CapacityFlags) -> Result<(), Failure> {
    if flags.workers_here && flags.work != CapacityWork::Fixed {
        return Err(Failure::usage(
            "--workers-here supports only a fixed run time\nhint: remove --work or --workers-here",
        ));
    }
    let points = points(flags)?;
    if flags.jack {
        JackMaster::check(flags.scheduler).map_err(Failure::usage)?;
    }
    points.iter().try_for_each(|point| check_room(flags.values(point)))?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::open(format!("cannot find this program: {error}")))?;
    let place = match flags {
        CapacityFlags { workers_here: true, .. } => MachinesPlace::Here,
        CapacityFlags { local: true, .. } => MachinesPlace::Loopback,
        _ => MachinesPlace::Namespaces,
    };
    let machines = MachinesOptions {
        place,
        plugins: flags.plugins.clone().map_or_else(|| plugins(&program), |folder| vec![folder]),
        program,
        work: flags.work,
        cleartext: flags.cleartext,
        link_rate: flags.link_rate.map(|rate| rate.0),
        scheduler: flags.scheduler,
    };
    let maximum = points.iter().map(|point| point.workers).max();
    if maximum > Some(0) {
        machines.check().map_err(Failure::open)?;
    }
    let answer = Answer::open(&flags.reporting)?;
    let jack = flags.jack.then(|| JackMaster::new(Box::new(jack_client))).transpose();
    let made = jack.map_err(|why| ("JACK", why)).and_then(|jack| {
        Ok((jack, Machines::make(machines, maximum).map_err(|why| ("workers", why))?))
    });
    match made {
        Ok((mut jack, mut machines)) => {
            let both = (&mut machines, jack.as_mut());
            let (report, unanswered) =
                measure((flags, &points), both, &answer.stop, &mut |point| answer.notify(point));
            answer.give_unless(unanswered, report)
        }
        Err((what, why)) => answer.unusable("capacity", what, Failure::open(why)),
    }
}

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
            "requested {} frames at {} from the JACK server, but it runs with {period} at {rate}\n\
             hint: use a --period that it accepts, such as 256, or remove --jack",
            pace.period, pace.rate
        )),
    }
}

fn plugins(program: &Path) -> Vec<PathBuf> {
    let alongside = program.parent().unwrap_or(Path::new("/"));
    let path = std::env::var_os("LADSPA_PATH").unwrap_or_default();
    let installed = alongside.parent().unwrap_or(alongside).join("lib/ladspa");
    let built = [alongside.to_owned(), alongside.join("deps"), installed];
    // An empty variable yields one empty path.
    let named = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    named.chain(built).collect()
}

fn points(flags: &CapacityFlags) -> Result<Vec<CapacityPoint>, Failure> {
    let cores = usable_cores().len();
    if let Some(grid) = flags.grid {
        let mut points = grid.points(cores);
        if let Some(wait) = flags.wait {
            points.iter_mut().for_each(|point| point.wait = wait);
        }
        return Ok(points);
    }
    let workers = usize::from(flags.workers);
    if !flags.virtual_work && workers > cores {
        return Err(Failure::usage(format!(
            "{workers} workers need a core each, but this machine has {cores}\nhint: use --virtual-work \
             (simulated by a timer) or fewer --workers"
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

const TIMEOUT: Duration = Duration::from_millis(100);

pub(crate) fn echo(flags: &EchoFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let failed = |error: std::io::Error| {
        Failure::open(format!("cannot listen at {}: {error}\nhint: use UDP port 0", flags.listen))
    };
    let socket = UdpSocket::bind(flags.listen).map_err(failed)?;
    screen::print(&format!("{}\n", socket.local_addr().map_err(failed)?));
    let run = move || bare::echo(&socket, &stop, TIMEOUT);
    let (thread, _) = spawn("taut-echo", flags.scheduler, 0, run).map_err(failed)?;
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(failed)
}

impl CapacityFlags {
    fn values(&self, point: &CapacityPoint) -> usize {
        let longest = self.hold.max(self.idle).max(self.attempt).as_nanos();
        let periods = longest / point.period_span().as_nanos().max(1);
        (periods.max(0) as usize).saturating_mul(2 * point.workers + 1)
    }
}

/// Returns the report, and a reason if all worker rows are invalid.
fn measure(
    (options, points): (&CapacityFlags, &[CapacityPoint]),
    (machines, jack): (&mut Machines, Option<&mut JackMaster>),
    stop: &Stop,
    notify: &mut dyn FnMut(&str),
) -> (LabReport, Option<String>) {
    let mut report = LabReport::asking("capacity");
    report.notes.extend(lock_memory());
    let stall_monitor = StallMonitor::start_dense();
    report.notes.extend(jack.as_ref().map(|jack| jack.note()));
    let mut measuring = point::CapacityMeasuring { options, stop, stall_monitor, jack };
    let (mut local, mut unmeasured) = (Vec::<CapacityPoint>::new(), Vec::<String>::new());
    let mut of_workers = Vec::<Option<String>>::new();
    for requested in points {
        let here = requested.local();
        let first = (!local.contains(&here)).then_some(here);
        for point in first.into_iter().chain((requested.workers > 0).then_some(*requested)) {
            if stop.is_requested() {
                unmeasured.push(measuring.name(&point));
                continue;
            }
            let name = measuring.name(&point);
            notify(&name);
            let row = match point.workers {
                0 => measuring.here(&point),
                _ => measuring.offloaded(&point, machines),
            };
            if point.workers > 0 {
                of_workers.push(row.as_ref().err().cloned());
            }
            let mut row = row.unwrap_or_else(|why| ReportRow::invalid(name, why));
            if machines.are_on_loopback() {
                figures::leave_out_packets(&mut row);
            }
            report.rows.push(row);
        }
        local.push(here);
    }
    if !unmeasured.is_empty() {
        report.notes.push(format!("stopped on request before: {}", unmeasured.join("; ")));
    }
    let mut host = HostDescription::here("here");
    measuring.stall_monitor.poll();
    host.stalls = Some(measuring.stall_monitor.log().total());
    report.hosts.push(host);
    report.notes.extend(figures::notes((options, points), machines));
    let trust = measuring.stall_monitor.trust();
    report.notes.extend(trust.refused.map(|_| trust.to_string()));
    (report, unanswered(of_workers))
}

fn unanswered(of_workers: Vec<Option<String>>) -> Option<String> {
    of_workers.into_iter().collect::<Option<Vec<_>>>()?.into_iter().next()
}
