//! Delay between two taps of one sound: two channels of a recording.
//!
//! In each window, `correlation` (or `periodic`) finds the delay to a frame, and `fitting` refines
//! it. An unclear window is invalid. `series` finds drift and steps.
//!
//! No I/O. Times are frames of the first tap. Delays are positive if the second tap is later.

mod correlation;
mod fitting;
mod messages;
mod periodic;
mod series;
#[cfg(test)]
mod tests;

use core::cmp::Ordering;
use std::path::{Path, PathBuf};

use clap::Args;
use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_compare::Sound;
use tautline_dsp::align::energy;
use tautline_proto::device::Direction;
use tautline_proto::time::{FineFrames, Frames, Span};
use tautline_proto::units::{Channels, Ppm, Rate};
use tautline_ui::failure::Failure;
use tautline_ui::read_sound;
use tautline_ui::readers::{device, span};

use crate::answer::{Answer, Reporting, check_room};
use crate::devices::{DevicePace, at_ports, open_measured};
use crate::recording::{DeviceRecording, RecordOptions, record};
use crate::report::LabReport;
pub use messages::QUESTION;

const SHORT_HELP: &str = r#"Examples:
  taut lab align recording.wav --channels 1,3 --max-delay 250ms
  taut lab align --device alsa:hw:0 --channels 1,2 --duration 10s

All options, details and exit status: taut lab align --help"#;

const HELP: &str = r#"How much later the second tap has the sound than the first: two channels of one
recording, such as the input and the output of a box:
  taut lab align recording.wav
  # The third channel relative to the first, up to a quarter of a second:
  taut lab align recording.wav --channels 1,3 --max-delay 250ms --report json
  # Two files that start at the same instant, the first channel of each:
  taut lab align before.wav --second after.wav
  # Two channels of a card for ten seconds, as a page:
  taut lab align --device alsa:hw:0 --channels 1,2 --duration 10s \
      --report-file align.html

Each window gives one delay with sub-frame resolution, from cross-correlation
and the phase of the cross spectrum. The result is the median of the windows.
The value after ± covers 95 % of them, so it includes a drift. Drift is the
growth of the delay, with its 95 % uncertainty. Steps are frames inserted or
dropped between the taps, with the frame of the first tap.

In periodic sound, such as a sine, delays that differ by a period look the same.
An onset, an ending or a change of level in both taps decides between them.
Other windows then take the delay of the nearest decided one (carried_windows),
and a step between such windows may be wrong by whole periods. If nothing
decides, the report has no delay, but the period and the possible delay nearest
to 0.

A window without a delay is invalid, and each reason is a row: a tap is silent;
the taps have no common sound (unlike); several delays match equally well, as
with an echo or a tone (ambiguous, with up to eight of them); the best is at the
end of --max-delay (end of range); the recording ends before the second tap has
the sound (recording too short); the delay steps within the window. A delay that
both taps share, such as that of a card's converter, is not measured.

Exit status: 0 if a delay was found, 1 if no window has one, 2 for wrong usage."#;

/// `taut lab align`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct AlignFlags {
    /// WAV or FLAC file with both taps, or with the first
    #[arg(required_unless_present = "device")]
    recording: Option<PathBuf>,
    /// File with the second tap, starting at the same instant
    #[arg(long, value_name = "FILE")]
    second: Option<PathBuf>,
    /// Record both taps from this device instead
    #[arg(long, value_name = "DEVICE", value_parser = device(),
          conflicts_with_all = ["recording", "second"], help_heading = "Devices")]
    device: Option<DeviceSpec>,
    /// Recording time; Ctrl-C ends it early
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span,
          help_heading = "Devices")]
    duration: Span,
    /// Channels of both taps, from 1 [default: 1,2; with two files 1,1]
    #[arg(long, value_name = "N,N", value_parser = two_channels)]
    channels: Option<[usize; 2]>,
    /// Maximum delay, in either direction [default: 100ms, or the recording]
    #[arg(long, value_name = "TIME", value_parser = span)]
    max_delay: Option<Span>,
    /// Window per delay; longer is more precise
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = span)]
    window: Span,
    #[command(flatten)]
    pace: DevicePace,
    #[command(flatten)]
    reporting: Reporting,
}

fn two_channels(text: &str) -> Result<[usize; 2], String> {
    let channel =
        |text: &str| text.trim().parse().ok().filter(|channel| (1..=64).contains(channel));
    let two =
        text.split_once(',').and_then(|(first, second)| Some([channel(first)?, channel(second)?]));
    two.ok_or_else(|| {
        format!("invalid channels '{text}': must be two, counted from 1, such as 1,2")
    })
}

pub(crate) fn run(flags: &AlignFlags) -> Result<(), Failure> {
    let answer = match flags.recording {
        Some(_) => Answer::of_file(&flags.reporting)?,
        None => Answer::open(&flags.reporting)?,
    };
    let report = match (&flags.recording, &flags.device) {
        (Some(recording), _) => of_files(flags, recording)?,
        (None, Some(device)) => of_device(flags, device, &answer)?,
        (None, None) => {
            return Err(Failure::usage("no recording: name a file, or a device with --device"));
        }
    };
    answer.give(report)
}

fn of_files(flags: &AlignFlags, recording: &Path) -> Result<LabReport, Failure> {
    let other = flags.second.as_deref();
    let channels = flags.channels.unwrap_or(if other.is_some() { [1, 1] } else { [1, 2] });
    let sound = read_sound(recording)?;
    let second = other.map(|path| Ok::<_, Failure>((path, read_sound(path)?))).transpose()?;
    let second = second.as_ref().map_or((recording, &sound), |(path, sound)| (*path, sound));
    if sound.rate != second.1.rate {
        return Err(Failure::usage(format!(
            "{} has {} and {} {}: both must have the same rate\nhint: convert one, for example with sox",
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

fn taps(
    flags: &AlignFlags,
    rate: Rate,
    [first, second]: [&[f32]; 2],
    channels: [usize; 2],
) -> Result<LabReport, Failure> {
    let shorter = rate.span_of(Frames::from_len(first.len().min(second.len())));
    if let Some(max_delay) = flags.max_delay.filter(|max_delay| *max_delay > shorter) {
        return Err(Failure::usage(format!(
            "cannot find a delay of {max_delay} in {shorter} of sound\nhint: use a smaller --max-delay or a \
             longer recording"
        )));
    }
    let max_delay = flags.max_delay.unwrap_or(Span::from_millis(100));
    let [window, max_delay] = [flags.window, max_delay].map(|span| rate.frames_within(span));
    let found = between(first, second, &AlignOptions { rate, window, max_delay });
    let mut report = found.report(&name(channels));
    let why = match found.window.cmp(&window) {
        Ordering::Less => "the recording is shorter",
        Ordering::Equal => return Ok(report),
        Ordering::Greater => "the minimum is 64 frames",
    };
    let taken = rate.span_of(found.window);
    report.notes.push(format!("the window is {taken} instead of {}: {why}", flags.window));
    Ok(report)
}

fn of_device(flags: &AlignFlags, spec: &DeviceSpec, answer: &Answer) -> Result<LabReport, Failure> {
    if matches!(spec, DeviceSpec::Software(SoftwareSpec::Standard(_))) {
        return Err(Failure::usage(
            "file:- has no clock\nhint: name a device, or a recording without --device",
        ));
    }
    let channels = flags.channels.unwrap_or([1, 2]);
    let max_delay = channels[0].max(channels[1]) as u32;
    let count = Channels::new(max_delay).map_err(|error| Failure::usage(error.to_string()))?;
    let opened = open_measured(spec, Direction::Capture, flags.pace.settings(count))?;
    let frames = opened.device.settings().rate.frames_within(flags.duration);
    check_room(frames.as_len())?;
    answer.notify(&format!("recording {spec} for {}", flags.duration));
    let options = RecordOptions {
        channels: channels.map(|channel| channel - 1).into(),
        frames,
        scheduler: flags.pace.scheduler,
    };
    let DeviceRecording { sound, notes, .. } =
        record(opened.device, &options, &answer.stop, |taken| {
            answer.notify(&format!("{taken} of {}", flags.duration));
        })?;
    let [first, second] = [0, 1].map(|tap| &*sound.channels[tap]);
    let mut report = taps(flags, sound.rate, [first, second], channels)?;
    report.notes.extend(at_ports(spec).into_iter().chain(notes).chain(opened.notes.take()));
    Ok(report)
}

fn tap<'a>(path: &Path, sound: &'a Sound, channel: usize) -> Result<&'a [f32], Failure> {
    sound.channels.get(channel - 1).map(Vec::as_slice).ok_or_else(|| {
        Failure::usage(format!(
            "{} has no channel {channel}, only {}\nhint: choose the channels with --channels 1,2, or \
             the second file with --second",
            path.display(),
            sound.channels.len()
        ))
    })
}

fn name([first, second]: [usize; 2]) -> String {
    format!("channel {first} to {second}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlignOptions {
    pub rate: Rate,
    /// Frames per delay; a shorter recording is one window.
    pub window: Frames,
    pub max_delay: Frames,
}

impl AlignOptions {
    pub fn new(rate: Rate) -> Self {
        let [window, max_delay] =
            [500, 100].map(|millis| rate.frames_within(Span::from_millis(millis)));
        Self { rate, window, max_delay }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TapDelays {
    pub rate: Rate,
    pub window: Frames,
    pub windows: Vec<TapWindow>,
    pub steps: Vec<DelayStep>,
    pub drift: Option<DelayDrift>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TapWindow {
    /// Frame of the first tap in the middle of the window.
    pub at: Frames,
    pub delay: Result<TapDelay, InvalidWindow>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TapDelay {
    pub delay: FineFrames,
    pub uncertainty: FineFrames,
    pub drift: DelayDrift,
    /// Distance to the next best delay in dB: at least 3, less for periodic sound.
    pub confidence_db: f64,
    /// Gain of the second tap relative to the first; negative if inverted.
    pub gain: f64,
    /// Set if the delay may be wrong by whole periods.
    pub modulo: Option<FineFrames>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayDrift {
    /// Drift per recorded frame; positive if the delay grows.
    pub ppm: Ppm,
    /// ± 95 % bound.
    pub uncertainty: Ppm,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidWindow {
    /// The window is silent: below −100 dBFS.
    Silent(Tap),
    Unlike,
    Ambiguous {
        /// Delays, the best first; for periodic sound, the delay nearest to 0 first.
        delays: Vec<FineFrames>,
        /// Period of the sound, if no onset or envelope proves a delay.
        period: Option<FineFrames>,
    },
    /// A better delay may lie beyond the searched range.
    EndOfRange,
    PastEnd,
    Stepped,
    Unsettled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tap {
    First,
    Second,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayStep {
    /// First frame of the first tap with the new delay.
    pub at: Frames,
    /// Frames of the step; positive if frames were inserted in the second tap.
    pub by: FineFrames,
    /// Set if the step may be wrong by whole periods.
    pub modulo: Option<FineFrames>,
}

impl TapDelays {
    pub fn found(&self) -> impl Iterator<Item = (Frames, &TapDelay)> {
        self.windows.iter().filter_map(|window| Some((window.at, window.delay.as_ref().ok()?)))
    }
}

pub fn between(first: &[f32], second: &[f32], options: &AlignOptions) -> TapDelays {
    if !has_offset(first) && !has_offset(second) {
        return series::TapSeries::of(first, second, options).reported();
    }
    // Filters both taps, because the filter delays low tones.
    let [first, second] = [first, second].map(|tap| without_offset(tap, options.rate));
    series::TapSeries::of(&first, &second, options).reported()
}

/// Maximum energy of a DC offset relative to the tap: −20 dB, far above the mean of sound without
/// an offset. Such an offset leaves correlation and energy almost unchanged.
const OFFSET: f64 = 0.01;
/// Cutoff of the DC blocker: far below any sound, so that it keeps the shape of onsets.
const OFFSET_BELOW_HZ: f64 = 1.0;
/// Sound whose mean is the offset at the beginning.
const OFFSET_FROM: Span = Span::from_secs(1);

fn mean(tap: &[f32]) -> f64 {
    tap.iter().copied().map(f64::from).sum::<f64>() / tap.len().max(1) as f64
}

/// Whether a DC offset, which has no timing, disturbs correlation and energy.
fn has_offset(tap: &[f32]) -> bool {
    mean(tap).powi(2) * tap.len() as f64 > OFFSET * energy(tap)
}

/// DC blocker: a one-pole high-pass filter.
fn without_offset(tap: &[f32], rate: Rate) -> Vec<f32> {
    let follows = core::f64::consts::TAU * OFFSET_BELOW_HZ / f64::from(rate.hertz());
    let begin = rate.frames_within(OFFSET_FROM).as_len();
    let mut offset = mean(&tap[..tap.len().min(begin)]);
    let sample = |sample: &f32| {
        let sample = f64::from(*sample);
        offset += follows * (sample - offset);
        (sample - offset) as f32
    };
    tap.iter().map(sample).collect()
}

fn fine(frames: f64) -> FineFrames {
    FineFrames::from_parts((frames * FineFrames::ONE as f64).round() as i64)
}

fn ppm(drift: f64) -> Ppm {
    Ppm::from_f64(drift * 1e6)
}
