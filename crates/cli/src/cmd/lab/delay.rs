//! `taut lab delay`

use tautline_audio::{DeviceSpec, Extras, Opened, SoftwareSpec};
use tautline_lab::delay::{
    self, DelayBetween, DelayOptions, MarkPart, PartError, PartOptions, measure, measure_between,
    measure_both_ways,
};
use tautline_lab::hosts::HostPlace;
use tautline_proto::device::{Direction, Directions, Settings};
use tautline_proto::time::Frames;

use super::answer::ExperimentAnswer;
use crate::cmd::{settled, stop_on_signals};
use crate::failure::Failure;
use crate::flags::{Delay, MarkShape, MarkSide, NamedDevice};

/// What a delay that was measured at the ports of this device is made of, if it has some.
pub(super) fn at_ports(spec: &DeviceSpec) -> Option<String> {
    let cycle = match spec {
        DeviceSpec::Jack(_) => "",
        DeviceSpec::PipeWire(_) => {
            "; the cycle that taut send and taut recv count for a card at each end in PipeWire is not"
        }
        _ => return None,
    };
    Some(format!(
        "{spec}: measured at its ports, so what lies beyond them, a card too, is in the delay{cycle}"
    ))
}

/// Opens a device whose sound is measured: at its ports, if it has some.
pub(super) fn open_measured(
    spec: &DeviceSpec,
    directions: impl Into<Directions>,
    wanted: Settings,
) -> Result<Opened, Failure> {
    let (spec, directions) = (&spec.clone().at_ports(), directions.into());
    let settings = settled(spec, directions, wanted, Some(wanted.rate))?;
    Ok(tautline_audio::open(spec, directions, settings, Extras::default())?)
}

/// What a delay is measured with; it needs two devices that others can be joined to.
fn check(devices: &[&NamedDevice], shape: &MarkShape) -> Result<(), Failure> {
    let (channel, channels) = (shape.channel, shape.channels);
    if channel as usize > channels.count() {
        return Err(Failure::usage(format!(
            "--channel {channel} is to be listened to, and both devices have {channels}; use \
             --channel {channels} or less, or --channels {channel}"
        )));
    }
    for device in devices {
        if matches!(device.spec, DeviceSpec::Software(SoftwareSpec::Standard(_))) {
            return Err(Failure::usage(
                "file:- is for taut send and taut recv: a delay is measured between two devices; \
                 taut devices lists them",
            ));
        }
    }
    if devices.iter().all(|device| is_joined_to_nothing(&device.spec)) {
        return Err(Failure::usage(
            "no sound goes from one virtual card to another: join both by virtual:?cable=NAME, or use one alone \
             with virtual:?loopback=48",
        ));
    }
    Ok(())
}

/// Whether it is a virtual card of which nothing is heard elsewhere, and which hears nothing.
fn is_joined_to_nothing(device: &DeviceSpec) -> bool {
    let DeviceSpec::Software(SoftwareSpec::Virtual(card)) = device else { return false };
    card.cable.is_none() && card.loopback.is_none() && card.source.is_none()
}

fn settings(shape: &MarkShape) -> Settings {
    Settings {
        rate: shape.rate,
        channels: shape.channels,
        period: Frames::new(i64::from(shape.period)),
        periods: shape.periods,
    }
}

pub(crate) fn run(flags: &Delay) -> Result<(), Failure> {
    let (shape, [output, input]) = (&flags.shape, [&flags.output, &flags.input]);
    check(&[output, input], shape)?;
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    let wanted = settings(shape);
    let options = DelayOptions {
        configured: flags.configured,
        settle: flags.settle,
        duration: Some(flags.duration),
        scheduler: shape.scheduler,
        channel: shape.channel as usize - 1,
        mark: shape.mark.kind(),
        level_db: f64::from(shape.level),
    };
    let devices = [&output.spec, &input.spec].map(|spec| format!("{spec:#}"));
    let tell = || {
        let [output, input] = &devices;
        answer.tell(&format!("marks are played at {output} and listened for at {input}"));
    };
    if flags.with.is_some() || flags.played_at.is_some() {
        let places = [&flags.played_at, &flags.with];
        let places = places.map(|place| place.clone().unwrap_or(HostPlace::Local));
        let plan = DelayBetween {
            devices: [output, input].map(|device| device.given.clone()),
            settings: wanted,
            options,
            max_uncertainty: flags.clocks.most(),
        };
        tell();
        let mut report = measure_between(places, &plan, &stop);
        report
            .notes
            .extend([output, input].into_iter().filter_map(|device| at_ports(&device.spec)));
        return answer.give(report);
    }
    let found = if output.spec.is_same(&input.spec) {
        let device = open_measured(&output.spec, Directions::Both, wanted)?;
        tell();
        let mut found = measure_both_ways(device.device, &options, &stop)?;
        found.notes.extend(at_ports(&output.spec));
        found.notes.extend(device.notes.take());
        found
    } else {
        let played = open_measured(&output.spec, Direction::Playback, wanted)?;
        let heard = open_measured(&input.spec, Direction::Capture, wanted)?;
        tell();
        let mut found = measure(played.device, heard.device, &options, &stop)?;
        found.notes.extend([&output.spec, &input.spec].into_iter().filter_map(at_ports));
        found.notes.extend(played.notes.take().into_iter().chain(heard.notes.take()));
        found
    };
    answer.give(found.report(devices.each_ref().map(String::as_str)))
}

/// What one side of a delay between two hosts does with its device.
type SideRun = fn(MarkPart<'_>, &mut dyn std::io::Write) -> Result<(), PartError>;

pub(crate) fn play(flags: &MarkSide) -> Result<(), Failure> {
    side(flags, Direction::Playback, delay::play)
}

pub(crate) fn hear(flags: &MarkSide) -> Result<(), Failure> {
    side(flags, Direction::Capture, delay::hear)
}

fn side(flags: &MarkSide, direction: Direction, run: SideRun) -> Result<(), Failure> {
    let shape = &flags.shape;
    check(&[&flags.device], shape)?;
    let stop = super::stop_with_agent()?;
    let device = open_measured(&flags.device.spec, direction, settings(shape))?;
    let options = PartOptions {
        scheduler: shape.scheduler,
        channel: shape.channel as usize - 1,
        mark: shape.mark.kind(),
        level_db: f64::from(shape.level),
        run: flags.run,
        most: flags.most as usize,
        longest: flags.longest,
    };
    let device_notes = device.notes;
    let mut notes = || device_notes.take();
    let part =
        MarkPart { device: device.device, options: &options, stop: &stop, notes: &mut notes };
    run(part, &mut std::io::stdout().lock()).map_err(|error| Failure::running(error.to_string()))
}
