//! From the mouth at one end of a call to the ear at the other: the sound's two branches in one recording.
//!
//! The paper's measurement (see `published`): a sound is split in two. One branch is recorded directly, the other goes
//! through the call and is recorded beside it, and the difference is read. Here the sound is played on a cable (`audio::
//! software::cable`), by which the near end of a call hears it; a tap hears the same cable, and another the cable
//! on which the far end plays. Both taps tell when their first frame met the ADC, so both branches lie in one recording,
//! whose channels are held against each other as `between` holds those of any. The call's own figures stand beside what the recording
//! says, and are no part of it.

mod branches;
mod bulk;
mod grid;
mod published;
mod row;
mod started;
mod tap;
mod transport;
mod try_call;

use std::path::PathBuf;

use tautline_proto::device::Stop;
use tautline_proto::time::Span;

use crate::cases::{CaseHosts, Cases};
use crate::hosts::{HostError, HostPlace, HostTimeline, LabHost};
use crate::report::{LabReport, ReportRow};

pub use bulk::BULK;
pub use grid::{CallCase, CaseOrNot, PaperSound, SlotPoint, full, short, usual};
pub use tap::{BranchTap, beside, mouth, tap};
pub use transport::CallTransport;

pub const QUESTION: &str =
    "how long does sound take from the mouth at one end of a call to the ear at the other?";

/// How each call is measured.
#[derive(Debug, Clone)]
pub struct MouthToEarOptions {
    /// How long a call sounds before it is recorded, beyond its latency.
    pub settle: Span,
    /// How much of it is recorded, beyond its latency.
    pub duration: Span,
    /// Percent of one processor that the near end of the paper's points has; from 100 on there is no cap.
    pub cpu: u32,
    /// Priority of the devices' threads of the call; of a near end that is capped none, or no cap would bind it.
    pub scheduler: Option<String>,
    /// By which address the far end is called.
    pub at: Option<std::net::IpAddr>,
    /// The ear is tapped so much later: a known delay, by which this measurement itself is tried.
    pub ear_delay: Span,
    /// A bulk TCP flow runs beside each call, from the mouth's host to the ear's, and once alone.
    pub bulk: bool,
    /// Recordings are kept in this folder.
    pub keep: Option<PathBuf>,
    /// A row is void if its median may be off by more, where two clocks lie between.
    pub max_uncertainty: Span,
}

/// The host of the mouth, which is this one, and that of the ear, with its clock.
pub struct CallHosts {
    near: LabHost,
    far: LabHost,
    clock: HostTimeline,
    /// Calls so far: cables of one run have names of their own.
    calls: u32,
    /// Why this host caps nothing, if that was found.
    uncapped: Option<String>,
}

impl CallHosts {
    /// Starts an agent at each.
    pub fn at(far: &HostPlace, stop: &Stop) -> Result<Self, HostError> {
        // The one that may refuse first.
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

/// Measures each of these calls, and tells each as it is done; `false` ends it. What is no call is a void row.
pub fn run(
    hosts: &mut CallHosts,
    cases: &[CaseOrNot],
    options: &MouthToEarOptions,
    mut tell: impl FnMut(&ReportRow) -> bool,
) -> LabReport {
    let mut told = Cases::of("mouth-to-ear", QUESTION, &mut tell);
    told.note(NOTE);
    let mut notes = Vec::new();
    if options.bulk {
        told.run(bulk::ALONE, hosts, |hosts| hosts.bulk_alone(options));
    }
    for (case, number) in cases.iter().zip(1..) {
        match case {
            Ok(case) => told.run(&case.name, hosts, |hosts| {
                hosts.measure(case, number, options).map(|measured| {
                    notes
                        .extend(measured.notes.iter().map(|note| format!("{}: {note}", case.name)));
                    row::row(case, &measured, options)
                })
            }),
            Err((name, why)) if !told.is_over() => told.row(ReportRow::void(name, why)),
            Err(_) => {}
        }
    }
    let capped = cases.iter().flatten().any(|case| case.is_capped) && options.cpu < 100;
    match &hosts.uncapped {
        Some(why) => told.note(format!("NOT CAPPED: the near end had as much processor as there is: {why}")),
        None if capped => told.note(format!(
            "in the paper's points the near end has {} % of one processor, by a control group and without real time; {CAP}",
            options.cpu
        )),
        None => {}
    }
    notes.into_iter().for_each(|note| told.note(note));
    LabReport {
        hosts: [&hosts.near, &hosts.far].map(LabHost::description).into(),
        ..told.into_report()
    }
}

/// What a reader should know.
const NOTE: &str = "measured between virtual cards, from ADC to DAC: no speaker, microphone or air is in it, as they \
                    are in the paper's figures; each delay is of 4 ms of sound, or 8 at 16 kHz";
const CAP: &str = "10 % stands for the paper's 624 MHz ARM: 24 % of 2.6 GHz by the clock, and less than half of the \
                   work in each cycle, as it starts one instruction in it at most";

/// How long the calls take together, about: what each sounds for, and two seconds to begin and end.
pub fn lasts(cases: &[CaseOrNot], options: &MouthToEarOptions) -> Span {
    let each = cases.iter().flatten().map(|case| {
        let latency = case.latency.unwrap_or(Span::ZERO);
        options.settle + options.duration + latency.times(2) + Span::from_secs(2)
    });
    let alone = if options.bulk { options.settle + options.duration } else { Span::ZERO };
    each.fold(alone, |all, one| all + one)
}
