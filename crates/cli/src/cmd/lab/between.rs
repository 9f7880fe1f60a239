//! `taut lab between`: how far apart two taps of one sound are.

use core::cmp::Ordering;
use std::path::Path;

use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_compare::Sound;
use tautline_lab::between::{BetweenOptions, between};
use tautline_lab::recording::{DeviceRecording, RecordOptions, record};
use tautline_lab::report::LabReport;
use tautline_proto::device::Direction;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

use super::answer::ExperimentAnswer;
use super::delay::{at_ports, open_measured};
use super::room::check_room;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::BetweenFlags;
use tautline_ui::read_sound as read;

pub(crate) fn run(flags: &BetweenFlags) -> Result<(), Failure> {
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    let report = match (&flags.recording, &flags.device) {
        (Some(recording), _) => of_files(flags, recording)?,
        (None, Some(device)) => of_device(flags, device, &answer)?,
        (None, None) => return Err(Failure::usage("name a recording, or a card with --device")),
    };
    answer.give(report)
}

fn of_files(flags: &BetweenFlags, recording: &Path) -> Result<LabReport, Failure> {
    let other = flags.second.as_deref();
    let channels = flags.channels.unwrap_or(if other.is_some() { [1, 1] } else { [1, 2] });
    let sound = read(recording)?;
    let second = other.map(|path| Ok::<_, Failure>((path, read(path)?))).transpose()?;
    let second = second.as_ref().map_or((recording, &sound), |(path, sound)| (*path, sound));
    if sound.rate != second.1.rate {
        return Err(Failure::usage(format!(
            "{} has {} and {} {}, and no delay is the same in both; convert one, such as by sox",
            recording.display(),
            sound.rate,
            second.0.display(),
            second.1.rate
        )));
    }
    let first = tap(recording, &sound, channels[0])?;
    let second = tap(second.0, second.1, channels[1])?;
    taps(flags, sound.rate, [first, second], channels)
}

/// What is found between two taps, with what became of what was asked for.
fn taps(
    flags: &BetweenFlags,
    rate: Rate,
    [first, second]: [&[f32]; 2],
    channels: [usize; 2],
) -> Result<LabReport, Failure> {
    let shorter = rate.span_of(Frames::from_len(first.len().min(second.len())));
    if let Some(most) = flags.most.filter(|most| *most > shorter) {
        return Err(Failure::usage(format!(
            "no delay of {most} can be found in {shorter} of sound; give a smaller --most, or more sound"
        )));
    }
    let most = flags.most.unwrap_or(Span::from_millis(100));
    let [window, most] = [flags.window, most].map(|span| rate.frames_within(span));
    let found = between(first, second, &BetweenOptions { rate, window, most });
    let mut report = found.report(&name(channels));
    let why = match found.window.cmp(&window) {
        Ordering::Less => "there is no more sound",
        Ordering::Equal => return Ok(report),
        Ordering::Greater => "64 frames are the least",
    };
    let taken = rate.span_of(found.window);
    report.notes.push(format!("a window is {taken} and not {}, as {why}", flags.window));
    Ok(report)
}

/// Of a device as it hears now.
fn of_device(
    flags: &BetweenFlags,
    spec: &DeviceSpec,
    answer: &ExperimentAnswer,
) -> Result<LabReport, Failure> {
    if matches!(spec, DeviceSpec::Software(SoftwareSpec::Standard(_))) {
        return Err(Failure::usage(
            "file:- has no clock of its own; name a device, or a recording without --device",
        ));
    }
    let channels = flags.channels.unwrap_or([1, 2]);
    let most = channels[0].max(channels[1]) as u32;
    let count = Channels::new(most).map_err(|error| Failure::usage(error.to_string()))?;
    let stop = stop_on_signals()?;
    let opened = open_measured(spec, Direction::Capture, flags.pace.settings(count))?;
    let frames = opened.device.settings().rate.frames_within(flags.duration);
    check_room(frames.as_len())?;
    answer.tell(&format!("recording {spec} for {}", flags.duration));
    let options = RecordOptions {
        channels: channels.map(|channel| channel - 1).into(),
        frames,
        scheduler: flags.pace.scheduler,
    };
    let DeviceRecording { sound, notes, .. } = record(opened.device, &options, &stop, |taken| {
        answer.tell(&format!("{taken} of {}", flags.duration));
    })?;
    let [first, second] = [0, 1].map(|tap| &*sound.channels[tap]);
    let mut report = taps(flags, sound.rate, [first, second], channels)?;
    report.notes.extend(at_ports(spec).into_iter().chain(notes).chain(opened.notes.take()));
    Ok(report)
}

fn name([first, second]: [usize; 2]) -> String {
    format!("channel {first} to {second}")
}

fn tap<'a>(path: &Path, sound: &'a Sound, channel: usize) -> Result<&'a [f32], Failure> {
    sound.channels.get(channel - 1).map(Vec::as_slice).ok_or_else(|| {
        Failure::usage(format!(
            "{} has no channel {channel}, only {}; say which are the taps by --channels 1,2, or \
             which file has the second by --second",
            path.display(),
            sound.channels.len()
        ))
    })
}
