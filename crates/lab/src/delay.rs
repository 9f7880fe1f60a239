//! Measures the delay between two sound devices from the sound.
//!
//! A player plays time marks (`dsp::timecode`) and records their DAC times. A recorder keeps the
//! sound with its ADC times. Devices report both, on their own threads. An ordinary thread finds
//! the marks; [`Judge`] decides their outcome without I/O.

mod apart;
mod bound;
mod clocks;
mod joined;
mod judge;
mod log;
mod player;
mod recorder;
mod report;
mod sweep;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use clap::{Args, ValueEnum};
use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_dsp::timecode::{Finder, MarkStretch, Marker, RunNumber};
use tautline_engine::error::RunError;
use tautline_engine::monitor::run::Running;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_proto::device::{
    Cycle, Device, DeviceError, Direction, Directions, Flow, Process, Settings, Stop,
};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_ui::failure::Failure;
use tautline_ui::readers::{channels, rate, span};

use crate::answer::{Answer, Reporting};
use crate::devices::{at_ports, open_measured};
use crate::hosts::HostPlace;
use crate::kept::lock_memory;
use crate::runner::ClockFlags;
use crate::signals::stop_with_agent;
use apart::{MarkPart, PartError};
pub use joined::{DelayBetween, measure_between};
pub use judge::{Exactness, Judge, JudgedMark, Outcome, Played};
use player::{Marks, PlayedSound, Player};
use recorder::{MarkReader, MarkRecorder, MarkSearch};
pub use report::{MeasuredDelay, QUESTION};
use sweep::{SweepFinder, Sweeper};

const SHORT_HELP: &str = r#"Examples:
  taut lab delay --output alsa:hw:0 --input alsa:hw:0 --duration 10s
  taut lab delay --output alsa:hw:0 --input alsa:hw:1 --mark sweep

All options, details and more examples: taut lab delay --help"#;

const HELP: &str = r#"From the DAC of one device to the ADC of another, at the times that both devices
report: through a cable, or any path for sound. A jack: client or a pipewire:
node is measured at its ports, including everything beyond them.
  # A cable from the output of a card to its input:
  taut lab delay --output alsa:hw:0 --input alsa:hw:0 --duration 10s
  # A sender with --input "virtual:?cable=in" and a receiver with
  # --output "virtual:?cable=out" on this machine, without any card:
  taut lab delay --output "virtual:?cable=in" --input "virtual:?cable=out" \
      --configured 5ms --duration 60s
  # From snd-aloop into `taut send --input alsa:hw:Loopback,1,0` and out
  # of `taut recv --output alsa:hw:Loopback,0,1` into another:
  taut lab delay --output alsa:hw:Loopback,0,0 --input alsa:hw:Loopback,1,1 \
      --configured 5ms --duration 60s --report json
  # Through a voice codec, softly, during a call:
  taut lab delay --output alsa:hw:0 --input alsa:hw:1 --mark voice --level -30
  # From a speaker to a microphone, through the air:
  taut lab delay --output alsa:hw:0 --input alsa:hw:1 --mark sweep
  # Recorded at another host, if both clocks are known to 100 us:
  taut lab delay --output alsa:hw:0 --input alsa:hw:0 --with ssh:studio \
      --max-uncertainty 100us --duration 60s

Every 480 frames are a mark: they carry a number, which is still read after a
change of gain or sample rate, with inverted polarity, with dither, and 10 dB
below music. A mark that is not recorded is missed. If the distance of two marks
in the recording is shorter or longer than when they were played, frames were
dropped or repeated in between. Marks of another run are counted but not
measured. Exit status 1 if no mark was recorded.

With --with or --played-at, each side is a program at its host, started by an
agent there. Their logs are joined after the run. The difference of the clocks
is read during the run. Its uncertainty is half of the round trip of a reading.
The row is invalid if that is too much, or if a clock jumped."#;

/// `taut lab delay`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct DelayFlags {
    /// Device that plays the marks
    #[arg(long, short, value_name = "DEVICE")]
    output: NamedDevice,
    /// Device that records the marks
    #[arg(long, short, value_name = "DEVICE")]
    input: NamedDevice,
    /// Configured latency, shown with the measured one
    #[arg(long, value_name = "TIME", value_parser = span)]
    configured: Option<Span>,
    /// Recording host: local, netns:NAME, ssh:HOST
    ///
    /// The host must have the same version of `taut`.
    #[arg(long, value_name = "PLACE", help_heading = "Hosts")]
    with: Option<HostPlace>,
    /// Playing host: local, netns:NAME, ssh:HOST
    #[arg(long, value_name = "PLACE", help_heading = "Hosts")]
    played_at: Option<HostPlace>,
    #[command(flatten)]
    clocks: ClockFlags,
    #[command(flatten)]
    shape: MarkShape,
    /// Time before marks count, while streams and servos settle
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span,
          help_heading = "Run")]
    settle: Span,
    /// Time during which marks count; Ctrl-C ends it early
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span,
          help_heading = "Run")]
    duration: Span,
    #[command(flatten)]
    reporting: Reporting,
}

/// Marks, and settings of the devices that play and record them.
#[derive(Debug, Args)]
pub struct MarkShape {
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate,
          help_heading = "Devices")]
    rate: Rate,
    /// Channels of each device; all play the same
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels,
          help_heading = "Devices", hide_short_help = true)]
    channels: Channels,
    /// Channel to search, from 1
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Devices",
          value_parser = clap::value_parser!(u32).range(1..=64), hide_short_help = true)]
    channel: u32,
    /// Device period: 48 frames are 1ms at 48000 Hz
    #[arg(long, value_name = "FRAMES", default_value_t = 48, help_heading = "Devices",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    period: u32,
    /// Periods in the device buffer
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Devices",
          value_parser = clap::value_parser!(u32).range(2..=64), hide_short_help = true)]
    periods: u32,
    /// Priority of the device threads
    #[arg(
        long,
        value_name = "CLASS",
        default_value = "fifo:70",
        help_heading = "Devices",
        hide_short_help = true
    )]
    scheduler: Scheduler,
    /// Kind of marks
    #[arg(long, value_name = "KIND", default_value = "wide", help_heading = "Run")]
    mark: MarkKind,
    /// Peak level of the marks in dBFS, -60 to -1
    #[arg(long, value_name = "DB", default_value_t = -18, help_heading = "Run",
          allow_hyphen_values = true, value_parser = clap::value_parser!(i8).range(-60..=-1))]
    level: i8,
}

/// One side of a delay between two hosts.
#[derive(Debug, Args)]
pub struct MarkSide {
    /// Device that plays or records the marks
    #[arg(value_name = "DEVICE")]
    device: NamedDevice,
    /// Number that identifies this run's marks
    #[arg(long, value_name = "N")]
    run: u32,
    /// Maximum number of marks kept
    #[arg(long, value_name = "N", default_value_t = 360_000,
          value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    maximum: u32,
    /// Time limit if no program ends it
    #[arg(long, value_name = "TIME", value_parser = span)]
    longest: Option<Span>,
    #[command(flatten)]
    shape: MarkShape,
}

#[derive(Debug, Clone)]
pub struct NamedDevice {
    spec: DeviceSpec,
    given: String,
}

impl FromStr for NamedDevice {
    type Err = DeviceError;

    fn from_str(given: &str) -> Result<Self, DeviceError> {
        Ok(Self { spec: given.parse()?, given: given.to_owned() })
    }
}

/// Rejects `file:-`, and a set of unconnected virtual cards.
fn check(devices: &[&NamedDevice], shape: &MarkShape) -> Result<(), Failure> {
    let (channel, channels) = (shape.channel, shape.channels);
    if channel as usize > channels.count() {
        return Err(Failure::usage(format!(
            "--channel {channel} exceeds --channels {channels}\nhint: use --channel {channels} or less, \
             or --channels {channel}"
        )));
    }
    for device in devices {
        if matches!(device.spec, DeviceSpec::Software(SoftwareSpec::Standard(_))) {
            return Err(Failure::usage(
                "file:- has no clock\nhint: choose devices that `taut devices` lists",
            ));
        }
    }
    if devices.iter().all(|device| is_joined_to_nothing(&device.spec)) {
        return Err(Failure::usage(
            "these virtual cards are not connected\nhint: use virtual:?cable=NAME for both, or one with \
             virtual:?loopback=48",
        ));
    }
    Ok(())
}

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

pub(crate) fn run(flags: &DelayFlags) -> Result<(), Failure> {
    let (shape, [output, input]) = (&flags.shape, [&flags.output, &flags.input]);
    check(&[output, input], shape)?;
    let answer = Answer::open(&flags.reporting)?;
    let wanted = settings(shape);
    let options = DelayOptions {
        configured: flags.configured,
        settle: flags.settle,
        duration: Some(flags.duration),
        scheduler: shape.scheduler,
        channel: shape.channel as usize - 1,
        mark: shape.mark,
        level_db: f64::from(shape.level),
    };
    let devices = [&output.spec, &input.spec].map(|spec| format!("{spec:#}"));
    let notify = || {
        let [output, input] = &devices;
        answer.notify(&format!("playing marks on {output} and recording them on {input}"));
    };
    if flags.with.is_some() || flags.played_at.is_some() {
        let places = [&flags.played_at, &flags.with];
        let places = places.map(|place| place.clone().unwrap_or(HostPlace::Local));
        let plan = DelayBetween {
            devices: [output, input].map(|device| device.given.clone()),
            settings: wanted,
            options,
            max_uncertainty: flags.clocks.maximum(),
        };
        notify();
        let mut report = measure_between(places, &plan, &answer.stop);
        report
            .notes
            .extend([output, input].into_iter().filter_map(|device| at_ports(&device.spec)));
        return answer.give(report);
    }
    let found = if output.spec.is_same(&input.spec) {
        let device = open_measured(&output.spec, Directions::Both, wanted)?;
        notify();
        let mut found = measure_both_ways(device.device, &options, &answer.stop)?;
        found.notes.extend(at_ports(&output.spec));
        found.notes.extend(device.notes.take());
        found
    } else {
        let played = open_measured(&output.spec, Direction::Playback, wanted)?;
        let received = open_measured(&input.spec, Direction::Capture, wanted)?;
        notify();
        let mut found = measure(played.device, received.device, &options, &answer.stop)?;
        found.notes.extend([&output.spec, &input.spec].into_iter().filter_map(at_ports));
        found.notes.extend(played.notes.take().into_iter().chain(received.notes.take()));
        found
    };
    answer.give(found.report(devices.each_ref().map(String::as_str)))
}

pub(crate) fn play(flags: &MarkSide) -> Result<(), Failure> {
    side(flags, Direction::Playback, apart::play)
}

pub(crate) fn handle(flags: &MarkSide) -> Result<(), Failure> {
    side(flags, Direction::Capture, apart::handle)
}

type SideRun = fn(MarkPart<'_>, &mut dyn std::io::Write) -> Result<(), PartError>;

fn side(flags: &MarkSide, direction: Direction, run: SideRun) -> Result<(), Failure> {
    check(&[&flags.device], &flags.shape)?;
    let stop = stop_with_agent()?;
    let device = open_measured(&flags.device.spec, direction, settings(&flags.shape))?;
    let device_notes = device.notes;
    let mut notes = || device_notes.take();
    let part = MarkPart { device: device.device, side: flags, stop: &stop, notes: &mut notes };
    run(part, &mut std::io::stdout().lock()).map_err(|error| Failure::running(error.to_string()))
}

#[derive(Debug, Clone, Copy)]
pub struct DelayOptions {
    pub configured: Option<Span>,
    /// Marks count after this time: streams start and servos lock.
    pub settle: Span,
    /// After settling; `None` until stopped.
    pub duration: Option<Span>,
    pub scheduler: Scheduler,
    pub channel: usize,
    pub mark: MarkKind,
    /// Peak in dBFS; default [`Marker::LEVEL_DB`].
    pub level_db: f64,
}

/// Time that single marks are kept without a duration, up to `MAX_KEPT`.
const DEFAULT_TIME: Span = Span::from_secs(3600);
const MAX_KEPT: i64 = 1 << 22;

impl DelayOptions {
    fn max_marks(&self, rate: Rate) -> usize {
        let time = self.duration.unwrap_or(DEFAULT_TIME);
        let spacing = self.mark.spacing(rate) as i64;
        (rate.frames_within(time).count() / spacing + 1).clamp(0, MAX_KEPT) as usize
    }

    fn until(&self, begun: LocalTime) -> LocalTime {
        self.duration.map_or(LocalTime::NEVER, |span| begun + self.settle + span)
    }

    fn judge(&self, begun: LocalTime, rate: Rate) -> Judge {
        let judge = Judge::new(rate, begun + self.settle)
            .with_marks(self.mark.spacing(rate), self.level_db)
            .until(self.until(begun))
            .with_room(self.max_marks(rate));
        if self.mark == MarkKind::Sweep { judge.with_sweeps() } else { judge }
    }

    /// The last counted mark is found only after the next mark was received.
    fn ends(&self, begun: LocalTime, rate: Rate) -> LocalTime {
        let tail = Frames::from_len(TAIL * self.mark.spacing(rate));
        self.duration.map_or(LocalTime::NEVER, |_| self.until(begun) + rate.span_of(tail))
    }
}

tautline_dsp::named_enum! {
    /// Which time marks are played.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
    pub enum MarkKind {
        /// 480 frames each, with sound up to a quarter of the rate
        #[default]
        Wide = "wide",
        /// 60 ms each, with sound below 3 kHz
        Voice = "voice",
        /// Sweeps, for a speaker and a microphone, below 0.6 s of delay
        Sweep = "sweep",
    }
}

impl MarkKind {
    fn stretch(self, rate: Rate) -> MarkStretch {
        match self {
            Self::Wide | Self::Sweep => MarkStretch::NONE,
            Self::Voice => MarkStretch::for_voice(rate.hertz()),
        }
    }

    fn sound(self, rate: Rate, run: RunNumber, level_db: f64) -> PlayedSound {
        match self {
            Self::Sweep => PlayedSound::Sweeps(Sweeper::at_level(rate, level_db)),
            Self::Wide | Self::Voice => {
                PlayedSound::of(Marker::stretched(run, self.stretch(rate)).at_level(level_db))
            }
        }
    }

    fn search(self, rate: Rate, run: RunNumber) -> MarkSearch {
        match self {
            Self::Sweep => MarkSearch::Sweeps(Box::new(SweepFinder::at(rate))),
            Self::Wide | Self::Voice => MarkSearch::of(Finder::stretched(run, self.stretch(rate))),
        }
    }

    fn spacing(self, rate: Rate) -> usize {
        match self {
            Self::Sweep => sweep::spacing(rate),
            Self::Wide | Self::Voice => self.stretch(rate).spacing(),
        }
    }

    fn note(self, rate: Rate) -> Option<String> {
        let spacing = rate.span_of(Frames::from_len(self.spacing(rate))).as_nanos();
        let frames = (judge::MAX_SWEPT_DRIFT * self.spacing(rate) as f64).ceil();
        (self == Self::Sweep).then(|| {
            format!(
                "all sweeps are alike: the true delay may be {:.0} ms longer; fewer than {frames} \
                 dropped or repeated frames between two sweeps count as drift",
                spacing as f64 / 1e6
            )
        })
    }
}

/// Marks played after the duration, to find the last counted mark.
const TAIL: usize = 2;
const BEAT: Span = Span::from_millis(20);

pub fn measure(
    output: Box<dyn Device>,
    input: Box<dyn Device>,
    options: &DelayOptions,
    stop: &Stop,
) -> Result<MeasuredDelay, RunError> {
    let (player, recorder, measured) = set_up([output.settings(), input.settings()], options);
    // Start the recorder first, so that no mark is missed.
    let handles = Running::start(input, Box::new(recorder), options.scheduler, stop)?;
    let plays = Running::start(output, Box::new(player), options.scheduler, stop)?;
    measured.run(vec![("output", plays), ("input", handles)], options, stop)
}

pub fn measure_both_ways(
    device: Box<dyn Device>,
    options: &DelayOptions,
    stop: &Stop,
) -> Result<MeasuredDelay, RunError> {
    let (player, recorder, measured) = set_up([device.settings(); 2], options);
    let process = Box::new(BothWays { player, recorder });
    let running = Running::start(device, process, options.scheduler, stop)?;
    measured.run(vec![("device", running)], options, stop)
}

struct BothWays {
    player: Player,
    recorder: MarkRecorder,
}

impl Process for BothWays {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        match self.recorder.process(cycle) {
            Flow::Continue => self.player.process(cycle),
            Flow::Finished => Flow::Finished,
        }
    }
}

struct Measured {
    settings: [Settings; 2],
    notes: Vec<String>,
    begun: LocalTime,
    marks: Marks,
    ear: MarkReader,
    judge: Judge,
}

fn set_up(settings: [Settings; 2], options: &DelayOptions) -> (Player, MarkRecorder, Measured) {
    // A page fault must not delay the devices.
    let notes = Vec::from_iter(lock_memory());
    let begun = now();
    let run = RunNumber::new(fastrand::u32(..));
    let rate = settings[0].rate;
    let sound = options.mark.sound(rate, run, options.level_db);
    let (player, marks) = player::player(&settings[0], sound);
    let search = options.mark.search(rate, run);
    let (recorder, ear) = recorder::recorder(&settings[1], options.channel, search);
    let judge = options.judge(begun, rate);
    (player, recorder, Measured { settings, notes, begun, marks, ear, judge })
}

impl Measured {
    fn run(
        mut self,
        devices: Vec<(&'static str, Running)>,
        options: &DelayOptions,
        stop: &Stop,
    ) -> Result<MeasuredDelay, RunError> {
        let granted: Vec<_> =
            devices.iter().map(|(name, device)| (*name, device.granted)).collect();
        let ends = options.ends(self.begun, self.settings[0].rate);
        let is_over = || devices.iter().any(|(_, device)| device.is_over());
        while !stop.is_requested() && now() < ends && !is_over() {
            sleep_until(ends.min(now() + BEAT));
            self.look();
        }
        let ended: Vec<_> = devices.into_iter().map(|(_, device)| device.end().err()).collect();
        self.look();
        if let Some(error) = ended.into_iter().flatten().next() {
            return Err(error);
        }
        let Self { settings, notes, marks, ear, judge, .. } = self;
        let outcome = judge.finish(ear.end());
        let foreign = ear.foreign() + outcome.foreign;
        let mut found = MeasuredDelay::new(settings, options.configured, outcome);
        found.devices(marks.faults(), ear.faults(), ear.unread());
        found.foreign(foreign);
        found.best_unclear_db = ear.best_unclear_db();
        found.notes.extend(notes);
        found.notes.extend(options.mark.note(settings[0].rate));
        for (name, granted) in granted {
            if !granted.is_granted() {
                found.notes.push(format!("the thread of the {name} runs as {granted}"));
            }
        }
        Ok(found)
    }

    fn look(&mut self) {
        // Marks in received sound are already in the ring.
        let until = self.ear.listen();
        self.marks.read(|played| self.judge.played(played));
        self.ear.find(until, |received| self.judge.received(received));
    }
}

/// 100 ppm, as crystals have.
const fn off_rate(within: Span) -> Span {
    within.divided(10_000)
}

fn part_of_a_frame(rate: Rate, part: f64) -> Span {
    Span::from_nanos((part * 1e9 / f64::from(rate.hertz())).round() as i64)
}
