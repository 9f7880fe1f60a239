//! Regularity of a device's process calls, relative to the previous call and to its clock's grid.
//!
//! A block is due at a fixed, device-dependent distance from its ADC or DAC time; lateness is
//! relative to the run's earliest hand-over.

mod client;
mod figures;
#[cfg(test)]
mod tests;

use clap::{ArgGroup, Args};
use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_engine::error::RunError;
use tautline_engine::monitor::run::Running;
use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::{Device, Direction, Directions, Settings, Stop};
use tautline_proto::time::Span;
use tautline_proto::units::Channels;
use tautline_ui::failure::Failure;
use tautline_ui::readers::{channels, device, span};

use crate::answer::{Answer, Reporting, check_room};
use crate::devices::{DevicePace, at_ports, open_measured};
use crate::kept::lock_memory;
use crate::report::{HostDescription, LabReport, ReportRow};
use client::{Call, clerk};

const SHORT_HELP: &str = r#"Examples:
  taut lab callback-jitter --device alsa:hw:0 --period 48 --duration 60s

All options and details: taut lab callback-jitter --help"#;

const HELP: &str = r#"Examples:
  # Both directions of a card:
  taut lab callback-jitter --device alsa:hw:0 --period 48 --duration 60s
  # Play to one device and capture from another, in parallel:
  taut lab callback-jitter --output "virtual:?period=240" --input alsa:hw:0

The interval is from one call of the device to the next. Lateness is relative to
the grid of the device's own clock, from the earliest call of the run; a skipped
call counts once per period. If intervals are alternately too long and too
short, blocks come in pairs."#;

/// `taut lab callback-jitter`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP,
          group = ArgGroup::new("devices").required(true).multiple(true)
              .args(["device", "output", "input"]))]
pub struct CallbackJitterFlags {
    /// Device to play to and capture from
    #[arg(long, value_name = "DEVICE", value_parser = device())]
    device: Vec<DeviceSpec>,
    /// Device to play silence to
    #[arg(long, short, value_name = "DEVICE", value_parser = device())]
    output: Vec<DeviceSpec>,
    /// Device to capture from
    #[arg(long, short, value_name = "DEVICE", value_parser = device())]
    input: Vec<DeviceSpec>,
    /// Time before calls count, while streams and servos settle
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    settle: Span,
    /// Time during which calls count
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    duration: Span,
    /// Channels
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels,
          help_heading = "Devices")]
    channels: Channels,
    #[command(flatten)]
    pace: DevicePace,
    #[command(flatten)]
    reporting: Reporting,
}

pub(crate) fn run(flags: &CallbackJitterFlags) -> Result<(), Failure> {
    let both = flags.device.iter().map(|spec| (spec, Directions::Both));
    let played = flags.output.iter().map(|spec| (spec, Direction::Playback.into()));
    let captured = flags.input.iter().map(|spec| (spec, Direction::Capture.into()));
    let requested: Vec<(&DeviceSpec, Directions)> = both.chain(played).chain(captured).collect();
    if requested
        .iter()
        .any(|(spec, _)| matches!(spec, DeviceSpec::Software(SoftwareSpec::Standard(_))))
    {
        return Err(Failure::usage(
            "file:- has no clock\nhint: choose a device that `taut devices` lists",
        ));
    }
    let answer = Answer::open(&flags.reporting)?;
    let (mut devices, mut notes, mut reported) = (Vec::<OpenedSide>::new(), Vec::new(), Vec::new());
    for (spec, directions) in requested {
        let opened = open_measured(spec, directions, flags.pace.settings(flags.channels))?;
        check_room(flags.calls(&opened.device.settings()))?;
        notes.extend(at_ports(spec));
        reported.push(opened.notes);
        let mut name = spec.to_string();
        let same = |(side, _): &&OpenedSide| side.name.starts_with(&name);
        let before = devices.iter().filter(same).count();
        if before > 0 {
            name = format!("{spec} ({})", before + 1);
        }
        let settings = opened.device.settings();
        devices.push((HandoverSide { name, directions, settings }, opened.device));
    }
    let plural = if devices.len() == 1 { "" } else { "s" };
    let time = flags.settle + flags.duration;
    answer.notify(&format!("{} device{plural} for {time}", devices.len()));
    let mut report = measure(devices, flags, &answer.stop)?;
    report.notes.extend(notes);
    report.notes.extend(reported.iter().flat_map(|notes| notes.take()));
    answer.give(report)
}

impl CallbackJitterFlags {
    fn calls(&self, settings: &Settings) -> usize {
        let period = settings.rate.span_of(settings.period).as_nanos().max(1);
        let calls = (self.settle + self.duration).as_nanos() / period;
        // A fast or catching-up device calls more often.
        (calls.max(0) as usize).saturating_mul(9) / 8 + 64
    }
}

const BEAT: Span = Span::from_millis(20);

fn measure(
    devices: Vec<OpenedSide>,
    options: &CallbackJitterFlags,
    stop: &Stop,
) -> Result<LabReport, RunError> {
    let mut report = LabReport::asking("callback-jitter");
    report.hosts.push(HostDescription::here("here"));
    report.notes.extend(lock_memory());
    let begins = now() + options.settle;
    let mut running = Vec::new();
    for (side, device) in devices {
        let (clerk, calls) = clerk(&side.settings, options.calls(&side.settings));
        let runs = Running::start(device, Box::new(clerk), options.pace.scheduler, stop)?;
        if !runs.granted.is_granted() {
            report.notes.push(format!("the thread of {} runs as {}", side.name, runs.granted));
        }
        running.push((side, calls, runs));
    }
    let ends = begins + options.duration;
    let is_over =
        |running: &[(HandoverSide, _, Running)]| running.iter().all(|(.., runs)| runs.is_over());
    while !stop.is_requested() && now() < ends && !is_over(&running) {
        sleep_until(ends.min(now() + BEAT));
    }
    for (side, calls, runs) in running {
        let ended = runs.end();
        let (calls, overflowed) = calls.take();
        let counted: Vec<Call> = calls.into_iter().filter(|call| call.at >= begins).collect();
        match ended {
            Ok(_) if counted.len() >= 2 => {
                report.rows.extend(figures::rows(&side, &counted, overflowed))
            }
            Ok(_) => report.rows.push(ReportRow::invalid(
                side.name,
                "it made fewer than two calls\nhint: use a longer --duration, or check that it runs",
            )),
            Err(error) => report.rows.push(ReportRow::invalid(side.name, error.to_string())),
        }
    }
    Ok(report)
}

struct HandoverSide {
    name: String,
    directions: Directions,
    settings: Settings,
}

type OpenedSide = (HandoverSide, Box<dyn Device>);
