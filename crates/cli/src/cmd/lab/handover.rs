//! `taut lab handover`

use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_lab::handover::{HandoverOptions, OpenedSide, measure};
use tautline_proto::device::{Direction, Directions};

use super::answer::ExperimentAnswer;
use super::delay::{at_ports, open_measured};
use super::room::check_room;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::Handover;

pub(crate) fn run(flags: &Handover) -> Result<(), Failure> {
    let both = flags.device.iter().map(|spec| (spec, Directions::Both));
    let played = flags.output.iter().map(|spec| (spec, Direction::Playback.into()));
    let captured = flags.input.iter().map(|spec| (spec, Direction::Capture.into()));
    let asked: Vec<(&DeviceSpec, Directions)> = both.chain(played).chain(captured).collect();
    if asked.iter().any(|(spec, _)| matches!(spec, DeviceSpec::Software(SoftwareSpec::Standard(_))))
    {
        return Err(Failure::usage(
            "file:- is for taut send and taut recv, and has no clock of its own; taut devices lists \
             what has",
        ));
    }
    let options = HandoverOptions {
        settle: flags.settle,
        duration: flags.duration,
        scheduler: flags.shape.pace.scheduler,
    };
    let stop = stop_on_signals()?;
    let (mut devices, mut notes, mut told) = (Vec::new(), Vec::new(), Vec::new());
    for (spec, directions) in asked {
        let opened = open_measured(spec, directions, flags.shape.settings())?;
        check_room(options.calls(&opened.device.settings()))?;
        notes.extend(at_ports(spec));
        told.push(opened.notes);
        let same = devices
            .iter()
            .filter(|device: &&OpenedSide| device.name.starts_with(&spec.to_string()));
        let name = match same.count() {
            0 => spec.to_string(),
            before => format!("{spec} ({})", before + 1),
        };
        devices.push(OpenedSide { name, directions, device: opened.device });
    }
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    let plural = if devices.len() == 1 { "" } else { "s" };
    let time = options.settle + options.duration;
    answer.tell(&format!("{} device{plural} for {time}", devices.len()));
    let mut report = measure(devices, &options, &stop)?;
    report.notes.extend(notes);
    report.notes.extend(told.iter().flat_map(|notes| notes.take()));
    answer.give(report)
}
