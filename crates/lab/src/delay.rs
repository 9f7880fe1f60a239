//! How long sound takes from one device to another, from the sound itself.
//!
//! A player plays time marks (`dsp::timecode`) on one device and says when each meets the DAC, a
//! recorder keeps what another device hears and when it met the ADC, both by their devices' own
//! word and on the devices' own threads. Where both are one device they are one process, which it
//! calls with both sides of each period. An ordinary thread finds the marks and hands both to
//! [`Judge`], which decides what became of each and touches nothing.

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

use tautline_dsp::timecode::{Finder, MarkStretch, Marker, RunNumber};
use tautline_engine::error::RunError;
use tautline_engine::watching::run::Running;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_proto::device::{Cycle, Device, Flow, Process, Settings, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use crate::kept::lock_memory;
use player::{Marks, PlayedSound, Player};
use recorder::{MarkReader, MarkRecorder, MarkSearch};
use sweep::{SweepFinder, Sweeper};

pub use apart::{MarkPart, PartError, PartOptions, hear, play};
pub use joined::{DelayBetween, measure_between};
pub use judge::{Exactness, HeardMark, Judge, Outcome, Played};
pub use report::{MarkCounts, MeasuredDelay, QUESTION};

/// How a delay is measured.
#[derive(Debug, Clone, Copy)]
pub struct DelayOptions {
    /// What the latency was set to, to compare with.
    pub configured: Option<Span>,
    /// Marks played this soon after the start do not count: streams begin, servos find their rate.
    pub settle: Span,
    /// From then on; `None` until asked to stop.
    pub duration: Option<Span>,
    /// Of both devices' threads.
    pub scheduler: Scheduler,
    /// Which channel is listened to, counted from 0.
    pub channel: usize,
    pub mark: MarkKind,
    /// The peak of it, in dB of full scale; [`Marker::LEVEL_DB`] unless something else is to be heard.
    pub level_db: f64,
}

/// Marks that are kept one by one where nobody says how long: of an hour, and at most.
const USUAL_TIME: Span = Span::from_secs(3600);
const MOST_KEPT: i64 = 1 << 22;

impl DelayOptions {
    /// So many are kept one by one; the figures are of all.
    fn most_marks(&self, rate: Rate) -> usize {
        let time = self.duration.unwrap_or(USUAL_TIME);
        let spacing = self.mark.spacing(rate) as i64;
        (rate.frames_within(time).count() / spacing + 1).clamp(0, MOST_KEPT) as usize
    }

    /// Marks played from then on do not count; that begins at this instant.
    fn until(&self, begun: LocalTime) -> LocalTime {
        self.duration.map_or(LocalTime::NEVER, |span| begun + self.settle + span)
    }

    /// Who decides what became of marks that count once that has begun.
    fn judge(&self, begun: LocalTime, rate: Rate) -> Judge {
        let judge = Judge::new(rate, begun + self.settle)
            .with_marks(self.mark.spacing(rate), self.level_db)
            .until(self.until(begun))
            .with_room(self.most_marks(rate));
        if self.mark == MarkKind::Sweep { judge.with_sweeps() } else { judge }
    }

    /// When playing ends: the last mark that counts is found when the next one was heard.
    fn ends(&self, begun: LocalTime, rate: Rate) -> LocalTime {
        let tail = Frames::from_len(TAIL * self.mark.spacing(rate));
        self.duration.map_or(LocalTime::NEVER, |_| self.until(begun) + rate.span_of(tail))
    }
}

/// For which paths marks are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MarkKind {
    /// That carry sound up to a quarter of the rate: 480 frames.
    #[default]
    Wide,
    /// That carry voices, up to 3 kHz: 60 ms.
    Voice,
    /// Of a speaker and a microphone: sweeps of a third of a second. A delay is known modulo
    /// what lies from one to the next, 0.68 s at 48 kHz.
    Sweep,
}

impl MarkKind {
    fn stretch(self, rate: Rate) -> MarkStretch {
        match self {
            Self::Wide | Self::Sweep => MarkStretch::NONE,
            Self::Voice => MarkStretch::for_voice(rate.hertz()),
        }
    }

    /// What is played, of this run.
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

    /// Frames from one to the next.
    fn spacing(self, rate: Rate) -> usize {
        match self {
            Self::Sweep => sweep::spacing(rate),
            Self::Wide | Self::Voice => self.stretch(rate).spacing(),
        }
    }

    /// As on the command line.
    const fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Voice => "voice",
            Self::Sweep => "sweep",
        }
    }

    /// What cannot be known by them.
    fn note(self, rate: Rate) -> Option<String> {
        let spacing = rate.span_of(Frames::from_len(self.spacing(rate))).as_nanos();
        let frames = (judge::MOST_SWEPT_DRIFT * self.spacing(rate) as f64).ceil();
        (self == Self::Sweep).then(|| {
            format!(
                "all sweeps are alike: add {:.0} ms if the way may be longer; fewer than {frames} frames \
                 that were dropped or repeated between two are taken for drift",
                spacing as f64 / 1e6
            )
        })
    }
}

/// Marks that are played while a measurement ends, beyond its duration.
const TAIL: usize = 2;
/// How often the ordinary thread looks for marks.
const BEAT: Span = Span::from_millis(20);

/// Plays marks on `output`, finds them on `input`, and says what became of them. Both run at one
/// nominal rate.
pub fn measure(
    output: Box<dyn Device>,
    input: Box<dyn Device>,
    options: &DelayOptions,
    stop: &Stop,
) -> Result<MeasuredDelay, RunError> {
    let (player, recorder, measured) = set_up([output.settings(), input.settings()], options);
    // The ear first: no mark is missed because nobody listened yet.
    let hears = Running::start(input, Box::new(recorder), options.scheduler, stop)?;
    let plays = Running::start(output, Box::new(player), options.scheduler, stop)?;
    measured.run(vec![("output", plays), ("input", hears)], options, stop)
}

/// As [`measure`] on one device that goes both ways: one process plays the marks and hears them, and
/// no two clocks lie between.
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

/// What is called once a period, with both sides of it.
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

/// What is done while marks are played and heard.
struct Measured {
    settings: [Settings; 2],
    /// What was refused beforehand.
    notes: Vec<String>,
    begun: LocalTime,
    marks: Marks,
    ear: MarkReader,
    judge: Judge,
}

/// For devices that run like this: the output's and the input's.
fn set_up(settings: [Settings; 2], options: &DelayOptions) -> (Player, MarkRecorder, Measured) {
    // What is kept of the marks is written down when they have been played.
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
    /// Until it is to end, or a device does. Each is named.
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
        // What was heard by now has been played, and its line is there.
        let until = self.ear.listen();
        self.marks.read(|played| self.judge.played(played));
        self.ear.find(until, |heard| self.judge.heard(heard));
    }
}

/// What a clock may have run beside its nominal rate within a span: 100 ppm, as crystals do.
const fn off_rate(within: Span) -> Span {
    within.divided(10_000)
}

/// Of a whole frame, as many nanoseconds as this part.
fn part_of_a_frame(rate: Rate, part: f64) -> Span {
    Span::from_nanos((part * 1e9 / f64::from(rate.hertz())).round() as i64)
}
