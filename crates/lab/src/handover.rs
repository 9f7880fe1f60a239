//! How regular blocks are on both sides of a sound device: when it calls its process, against the
//! call before and against the grid that its own clock lays.
//!
//! The device says when the first frame of each block met the ADC or will meet the DAC. A block is
//! due to be handed over a fixed time from that instant, which one depends on the device; so lateness
//! is from the earliest hand-over of the run, and what the fixed time is stands beside it.

mod clerk;
mod figures;
#[cfg(test)]
mod tests;

use tautline_engine::error::RunError;
use tautline_engine::watching::run::Running;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_proto::device::{Device, Direction, Directions, Settings, Stop};
use tautline_proto::time::Span;

use crate::kept::lock_memory;
use crate::report::{HostDescription, LabReport, ReportRow};

use clerk::{Call, clerk};

pub const QUESTION: &str = "how regular are blocks on both sides of the sound device?";

/// How it is measured.
#[derive(Debug, Clone, Copy)]
pub struct HandoverOptions {
    /// Calls this soon after the start do not count: streams begin, servos find their rate.
    pub settle: Span,
    pub duration: Span,
    /// Of the devices' threads.
    pub scheduler: Scheduler,
}

impl HandoverOptions {
    /// Calls that are kept of a device.
    pub fn calls(&self, settings: &Settings) -> usize {
        let period = settings.rate.span_of(settings.period).as_nanos().max(1);
        let calls = (self.settle + self.duration).as_nanos() / period;
        // A device that runs fast, or catches up, calls more often.
        (calls.max(0) as usize).saturating_mul(9) / 8 + 64
    }
}

/// A device that was opened, and which ways.
pub struct OpenedSide {
    /// As it is called in the report.
    pub name: String,
    /// What it was opened for.
    pub directions: Directions,
    pub device: Box<dyn Device>,
}

/// How often the ordinary thread looks whether it is over.
const BEAT: Span = Span::from_millis(20);

/// Runs the devices beside each other, with silence. One that goes is a void row with its reason.
pub fn measure(
    devices: Vec<OpenedSide>,
    options: &HandoverOptions,
    stop: &Stop,
) -> Result<LabReport, RunError> {
    let mut report = LabReport::of("handover", QUESTION);
    report.hosts.push(HostDescription::here("here"));
    report.notes.extend(lock_memory());
    let begins = now() + options.settle;
    let mut running = Vec::new();
    for OpenedSide { name, directions, device } in devices {
        let settings = device.settings();
        let (clerk, calls) = clerk(&settings, options.calls(&settings));
        let runs = Running::start(device, Box::new(clerk), options.scheduler, stop)?;
        if !runs.granted.is_granted() {
            report.notes.push(format!("the thread of {name} runs as {}", runs.granted));
        }
        running.push((HandoverSide { name, directions, settings }, calls, runs));
    }
    let ends = begins + options.duration;
    let is_over =
        |running: &[(HandoverSide, _, Running)]| running.iter().all(|(.., runs)| runs.is_over());
    while !stop.is_requested() && now() < ends && !is_over(&running) {
        sleep_until(ends.min(now() + BEAT));
    }
    for (side, calls, runs) in running {
        let ended = runs.end();
        let (calls, unkept) = calls.take();
        let counted: Vec<Call> = calls.into_iter().filter(|call| call.at >= begins).collect();
        match ended {
            Ok(_) if counted.len() >= 2 => {
                report.rows.extend(figures::rows(&side, &counted, unkept))
            }
            Ok(_) => report.rows.push(ReportRow::void(
                side.name,
                "it called fewer than twice; use a longer --duration, or look whether it runs",
            )),
            Err(error) => report.rows.push(ReportRow::void(side.name, error.to_string())),
        }
    }
    Ok(report)
}

/// What is known of a device whose calls were noted.
struct HandoverSide {
    name: String,
    directions: Directions,
    settings: Settings,
}

impl HandoverSide {
    fn each(&self) -> impl Iterator<Item = Direction> {
        self.directions.each()
    }
}
