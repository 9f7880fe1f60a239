//! `taut lab mouth-to-ear`, and what it runs beside a call.

use tautline_audio::{DeviceSpec, Extras};
use tautline_io::thread::Scheduler;
use tautline_lab::mouth_to_ear::{
    self, BULK, CallHosts, CaseOrNot, MouthToEarOptions, SlotPoint, beside, full, lasts, short,
    usual,
};
use tautline_lab::report::{LabReport, ReportRow};
use tautline_proto::device::{Device, Direction};
use tautline_proto::time::Span;

use super::answer::ExperimentAnswer;
use super::ends::line;
use super::room::check_room;
use super::stop_with_agent;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{BesideFlags, MouthToEarFlags};
use crate::screen;

pub(crate) fn run(flags: &MouthToEarFlags) -> Result<(), Failure> {
    let cases = cases(flags)?;
    if let Some(folder) = &flags.keep {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::open(format!(
                "making the folder {}: {error}; name one that you may write to",
                folder.display()
            ))
        })?;
    }
    let options = MouthToEarOptions {
        settle: flags.settle,
        duration: flags.duration,
        cpu: flags.cpu,
        scheduler: flags.scheduler.map(|scheduler| scheduler.to_string()),
        at: flags.at,
        ear_delay: flags.ear_delay.unwrap_or(Span::ZERO),
        bulk: flags.bulk,
        keep: flags.keep.clone(),
        max_uncertainty: flags.clocks.most(),
    };
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    let mut hosts = match CallHosts::at(&flags.host, &stop) {
        Ok(hosts) => hosts,
        Err(error) => {
            let empty = LabReport::of("mouth-to-ear", mouth_to_ear::QUESTION);
            answer.write(empty.unusable(flags.host.to_string(), error.to_string()))?;
            return Err(error.into());
        }
    };
    let mut left = cases.len() + usize::from(flags.bulk);
    let about = lasts(&cases, &options).as_nanos() / 60_000_000_000 + 1;
    answer.tell(&format!("{left} rows, {about} min at most; Ctrl-C ends after the one that runs"));
    let report = mouth_to_ear::run(&mut hosts, &cases, &options, |row| {
        left -= 1;
        answer.tell(&format!("{}; {left} more", told(row)));
        !stop.is_requested()
    });
    drop(hosts);
    answer.give(report)
}

/// A row that is done, and what a bulk flow carried in it.
fn told(row: &ReportRow) -> String {
    let carried = row.figures.iter().find(|figure| figure.key == BULK);
    match carried.map(|figure| &figure.value) {
        None => line(row),
        Some(carried) if row.measured.is_none() => format!("{}: {carried} Mbit/s", row.name),
        Some(carried) => format!("{}, bulk TCP {carried} Mbit/s", line(row)),
    }
}

/// The rows that are asked for: calls as they are usual, and the paper's.
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
            "no row is called {}; use --full, or words of these: {}",
            flags.only.join(" or "),
            all().map(|case| name(&case)).collect::<Vec<_>>().join("; ")
        ))),
        false => Ok(cases),
    }
}

/// Of what stands beside a call.
const SCHEDULER: Scheduler = Scheduler::Fifo(70);

fn open(flags: &BesideFlags, direction: Direction) -> Result<Box<dyn Device>, Failure> {
    let BesideFlags { device, rate, channels, .. } = flags;
    let device: &DeviceSpec = device;
    let settings = beside(*rate, *channels);
    Ok(tautline_audio::open(device, direction, settings, Extras::default())?.device)
}

pub(crate) fn mouth(flags: &BesideFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let device = open(flags, Direction::Playback)?;
    Ok(mouth_to_ear::mouth(device, SCHEDULER, &stop)?)
}

pub(crate) fn tap(flags: &BesideFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let frames = flags.rate.frames_within(flags.longest);
    check_room(frames.as_len())?;
    let device = open(flags, Direction::Capture)?;
    let kept = mouth_to_ear::tap(device, frames, SCHEDULER, &stop)?;
    let json = serde_json::to_string(&kept).map_err(|error| Failure::running(error.to_string()))?;
    screen::print(&(json + "\n"));
    Ok(())
}
