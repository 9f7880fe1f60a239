//! Mouth-to-ear latency of a call, from two branches of one sound (see `published`).
//!
//! The sound plays on a cable (`audio::software::cable`), which the near end captures. One tap
//! records it, another the far end's cable. ADC times align both in one recording, which `align`
//! compares.

mod branches;
mod bulk;
mod grid;
mod row;
mod tap;
mod try_call;

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use tautline_audio::{DeviceSpec, Extras};
use tautline_io::thread::Scheduler;
use tautline_proto::device::{Device, Direction, Stop};
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};
use tautline_ui::failure::Failure;
use tautline_ui::readers::{channels, device, rate, span};

use crate::answer::{Answer, Reporting, check_room, print_json};
use crate::cases::{CaseHosts, Cases};
use crate::hosts::{HostError, HostPlace, HostTimeline, LabHost};
use crate::report::ReportRow;
use crate::runner::{ClockFlags, counted_down, line};
use crate::signals::stop_with_agent;
pub use bulk::BULK;
pub use grid::{CallCase, CaseOrNot, PaperSound, SlotPoint, full, short, usual};

const SHORT_HELP: &str = r#"Examples:
  taut lab mouth-to-ear netns:far --report-file ears.html --keep ears
  taut lab mouth-to-ear --only "latency auto" --bulk

All options and details: taut lab mouth-to-ear --help"#;

const HELP: &str = r#"Examples:
  # Usual calls, and the buffers of the paper, on this host:
  taut lab mouth-to-ear
  # Between two network namespaces, with a page, and each recording to hear:
  taut lab mouth-to-ear netns:far --report-file ears.html --keep ears
  # The paper's choice, without the small CPU of its device:
  taut lab mouth-to-ear --only "playback 64, recording 16" --cpu 100%
  # Whether the measurement finds a delay added at the ear:
  taut lab mouth-to-ear --only "kept at 15 ms" --ear-delay 3370us
  # Effect of a call and a download on each other, over UDP and TCP:
  taut lab mouth-to-ear netns:far --only "latency auto" --bulk

Noise is played on a cable that taut call captures here; taut serve at HOST
plays the received sound on another. Taps record both cables, and the delay
between the two recordings is measured. The call's own figures are shown next to
it. Two hosts call each other with the keys that each trusts (taut trust).

A block is a period of the cards, and a packet. The playback slots of a block
are the configured latency; the recording slots are the buffer of the card at
the mouth. A row that no call can have is invalid and has the reason."#;

/// `taut lab mouth-to-ear`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct MouthToEarFlags {
    /// Host of the ear, which runs taut serve: local, netns:NAME or ssh:HOST
    #[arg(value_name = "HOST", default_value = "local")]
    host: HostPlace,
    /// Address to call [default: detected]
    #[arg(long, value_name = "IP", help_heading = "Hosts", hide_short_help = true)]
    at: Option<IpAddr>,
    #[command(flatten)]
    clocks: ClockFlags,
    /// Measure all 672 buffer settings of the paper
    #[arg(long, help_heading = "Run")]
    full: bool,
    /// Only rows whose name contains this, such as TCP; repeatable
    #[arg(long, value_name = "WORDS", help_heading = "Run")]
    only: Vec<String>,
    /// CPU limit of the near end in the paper's rows; 100% is no limit
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = percent,
          help_heading = "Run", hide_short_help = true)]
    cpu: u32,
    /// Priority of the device threads of calls without a CPU limit
    #[arg(long, value_name = "CLASS", help_heading = "Run", hide_short_help = true)]
    scheduler: Option<Scheduler>,
    /// Time before recording, in addition to the latency
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span,
          help_heading = "Run", hide_short_help = true)]
    settle: Span,
    /// Recording time, in addition to the latency
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span,
          help_heading = "Run")]
    duration: Span,
    /// Run bulk TCP in parallel with each call, and once alone
    #[arg(long, help_heading = "Run")]
    bulk: bool,
    /// Add a known delay at the ear, up to 500ms, to test the measurement
    #[arg(long, value_name = "TIME", value_parser = ear_delay, help_heading = "Run",
          hide_short_help = true)]
    ear_delay: Option<Span>,
    /// Save both branches of each call in this folder, for taut lab align
    ///
    /// Each call is a WAV file with two channels.
    #[arg(long, value_name = "DIR", help_heading = "Report")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    reporting: Reporting,
}

/// Options of the programs that run next to a call.
#[derive(Debug, Args)]
pub struct NoiseFlags {
    /// Device to play to, or to record
    #[arg(value_name = "DEVICE", value_parser = device())]
    device: DeviceSpec,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    rate: Rate,
    /// Channels
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels)]
    channels: Channels,
    /// Maximum recording time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    longest: Span,
}

fn percent(text: &str) -> Result<u32, String> {
    let percent = text.strip_suffix('%').and_then(|figure| figure.parse().ok());
    percent
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| format!("invalid share '{text}': must be 1% to 100%"))
}

fn ear_delay(text: &str) -> Result<Span, String> {
    let maximum = Span::from_millis(500);
    match span(text)? {
        delay if delay <= maximum => Ok(delay),
        _ => Err(format!("must be at most {maximum}")),
    }
}

impl MouthToEarFlags {
    fn ear_delay(&self) -> Span {
        self.ear_delay.unwrap_or(Span::ZERO)
    }
}

pub(crate) fn run(flags: &MouthToEarFlags) -> Result<(), Failure> {
    let requested = cases(flags)?;
    if let Some(folder) = &flags.keep {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::open(format!(
                "cannot create folder {}: {error}\nhint: choose a writable folder",
                folder.display()
            ))
        })?;
    }
    let answer = Answer::open(&flags.reporting)?;
    let mut hosts = match CallHosts::at(&flags.host, &answer.stop) {
        Ok(hosts) => hosts,
        Err(error) => return answer.unusable("mouth-to-ear", &flags.host, error),
    };
    let left = requested.len() + usize::from(flags.bulk);
    let about = lasts(&requested, flags).as_nanos() / 60_000_000_000 + 1;
    answer.notify(&format!("{left} rows, at most {about} min; Ctrl-C ends after the current row"));
    let mut words = counted_down(left, reported_row);
    let mut notify = |row: &ReportRow| {
        words(row).iter().for_each(|words| answer.notify(words));
        !answer.stop.is_requested()
    };
    let mut reported = Cases::of("mouth-to-ear", &mut notify);
    reported.note(NOTE);
    let mut notes = Vec::new();
    if flags.bulk {
        reported.run(bulk::ALONE, &mut hosts, |hosts| hosts.bulk_alone(flags));
    }
    for (case, number) in requested.iter().zip(1..) {
        match case {
            Ok(case) => reported.run(&case.name, &mut hosts, |hosts| {
                hosts.measure(case, number, flags).map(|measured| {
                    notes
                        .extend(measured.notes.iter().map(|note| format!("{}: {note}", case.name)));
                    row::row(case, &measured, flags)
                })
            }),
            Err((name, why)) if !reported.is_over() => reported.row(ReportRow::invalid(name, why)),
            Err(_) => {}
        }
    }
    let capped = requested.iter().flatten().any(|case| case.is_capped) && flags.cpu < 100;
    match &hosts.uncapped {
        Some(why) => {
            reported.note(format!("NOT CAPPED: the near end ran without a CPU limit: {why}"))
        }
        None if capped => reported.note(format!(
            "in the paper's rows the near end is limited to {} % of one core, with a control \
             group and without real-time priority; {CAP}",
            flags.cpu
        )),
        None => {}
    }
    notes.into_iter().for_each(|note| reported.note(note));
    let mut report = reported.report;
    report.hosts = [&hosts.near, &hosts.far].map(LabHost::description).into();
    drop(hosts);
    answer.give(report)
}

fn reported_row(row: &ReportRow) -> String {
    let carried = row.figures.iter().find(|figure| figure.key == BULK);
    match carried.map(|figure| &figure.value) {
        None => line(row),
        Some(carried) if row.measured.is_none() => format!("{}: {carried} Mbit/s", row.name),
        Some(carried) => format!("{}, bulk TCP {carried} Mbit/s", line(row)),
    }
}

fn cases(flags: &MouthToEarFlags) -> Result<Vec<CaseOrNot>, Failure> {
    let points = if flags.full { full() } else { short() };
    let all = || usual().into_iter().chain(points.iter().map(SlotPoint::case));
    let name = |case: &CaseOrNot| match case {
        Ok(case) => case.name.clone(),
        Err((name, _)) => name.clone(),
    };
    let is_asked = |case: &CaseOrNot| {
        flags.only.is_empty() || flags.only.iter().any(|words| name(case).contains(words))
    };
    let cases: Vec<_> = all().filter(is_asked).collect();
    match cases.is_empty() {
        true => Err(Failure::usage(format!(
            "no row matches {}\nhint: use --full, or part of: {}",
            flags.only.join(" or "),
            all().map(|case| name(&case)).collect::<Vec<_>>().join("; ")
        ))),
        false => Ok(cases),
    }
}

const SCHEDULER: Scheduler = Scheduler::Fifo(70);

fn open(flags: &NoiseFlags, direction: Direction) -> Result<Box<dyn Device>, Failure> {
    let NoiseFlags { device, rate, channels, .. } = flags;
    let device: &DeviceSpec = device;
    let settings = tap::alongside(*rate, *channels);
    Ok(tautline_audio::open(device, direction, settings, Extras::default())?.device)
}

pub(crate) fn mouth(flags: &NoiseFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let device = open(flags, Direction::Playback)?;
    Ok(tap::mouth(device, SCHEDULER, &stop)?)
}

pub(crate) fn tap(flags: &NoiseFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let frames = flags.rate.frames_within(flags.longest);
    check_room(frames.as_len())?;
    let device = open(flags, Direction::Capture)?;
    let kept = tap::tap(device, frames, SCHEDULER, &stop)?;
    print_json(&kept)
}

pub struct CallHosts {
    near: LabHost,
    far: LabHost,
    clock: HostTimeline,
    /// Numbers the run's cables.
    calls: u32,
    uncapped: Option<String>,
}

impl CallHosts {
    pub fn at(far: &HostPlace, stop: &Stop) -> Result<Self, HostError> {
        let mut far = LabHost::at(far.clone(), stop)?;
        let near = LabHost::at(HostPlace::Local, stop)?;
        let clock = far.timeline()?;
        Ok(Self { near, far, clock, calls: 0, uncapped: None })
    }
}

impl CaseHosts for CallHosts {
    fn replace_silent(&mut self) -> Result<(), HostError> {
        self.near.replace_silent()?;
        self.far.replace_silent()
    }
}

const NOTE: &str = "measured between virtual cards, from ADC to DAC: excludes the speaker, \
                    microphone and air that the paper's figures include; each delay is measured \
                    on 4 ms of sound, or 8 at 16 kHz";
const CAP: &str = "10 % simulates the paper's 624 MHz ARM: 24 % of 2.6 GHz by clock rate, and \
                   less than half the work per cycle, as it issues at most one instruction";

fn lasts(cases: &[CaseOrNot], flags: &MouthToEarFlags) -> Span {
    let each = cases.iter().flatten().map(|case| {
        let latency = case.latency.unwrap_or(Span::ZERO);
        flags.settle + flags.duration + latency.times(2) + Span::from_secs(2)
    });
    let alone = if flags.bulk { flags.settle + flags.duration } else { Span::ZERO };
    each.fold(alone, |all, one| all + one)
}
