//! How long sound takes from one device to another, from the sound itself.
//!
//! A player plays time marks (`dsp::timecode`) on one device and says when each meets the DAC, a
//! recorder keeps what another device hears and when it met the ADC, both by their devices' own
//! word and on the devices' own threads. Where both are one device they are one process, which it
//! calls with both sides of each period. An ordinary thread finds the marks and hands both to
//! [`Judge`], which decides what became of each and touches nothing.

mod judge;
mod player;
mod recorder;
mod report;
#[cfg(test)]
mod tests;

use tautline_engine::watching::run::{RunError, Running};
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_proto::device::{Cycle, Device, Flow, Process, Settings, Stop};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

use player::{Marks, Player};
use recorder::{MarkReader, MarkRecorder};

pub use judge::{HeardMark, Judge, Outcome, Played};
pub use report::{DelayReport, MarkCounts};

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
}

/// How often the ordinary thread looks for marks.
const BEAT: Span = Span::from_millis(20);

/// Plays marks on `output`, finds them on `input`, and says what became of them. Both run at one
/// nominal rate.
pub fn measure(
    output: Box<dyn Device>,
    input: Box<dyn Device>,
    options: &DelayOptions,
    stop: &Stop,
) -> Result<DelayReport, RunError> {
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
) -> Result<DelayReport, RunError> {
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
    begun: LocalTime,
    marks: Marks,
    ear: MarkReader,
    judge: Judge,
}

/// For devices that run like this: the output's and the input's.
fn set_up(settings: [Settings; 2], options: &DelayOptions) -> (Player, MarkRecorder, Measured) {
    let begun = now();
    let (player, marks) = player::player(&settings[0]);
    let (recorder, ear) = recorder::recorder(&settings[1], options.channel);
    let judge = Judge::new(settings[0].rate, begun + options.settle);
    (player, recorder, Measured { settings, begun, marks, ear, judge })
}

impl Measured {
    /// Until it is to end, or a device does. Each is named.
    fn run(
        mut self,
        devices: Vec<(&'static str, Running)>,
        options: &DelayOptions,
        stop: &Stop,
    ) -> Result<DelayReport, RunError> {
        let granted: Vec<_> =
            devices.iter().map(|(name, device)| (*name, device.granted)).collect();
        let span = options.duration.map(|span| self.begun + options.settle + span);
        let ends = span.unwrap_or(LocalTime::NEVER);
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
        let Self { settings, begun, marks, ear, judge } = self;
        let outcome = judge.finish(ear.end());
        let mut report = DelayReport::new(settings, options.configured, now() - begun, &outcome);
        report.devices(marks.faults(), ear.faults(), ear.unread());
        for (name, granted) in granted {
            if !granted.is_granted() {
                report.notes.push(format!("the thread of the {name} runs as {granted}"));
            }
        }
        Ok(report)
    }

    fn look(&mut self) {
        // What was heard by now has been played, and its line is there.
        let until = self.ear.listen();
        self.marks.read(&mut self.judge);
        self.ear.find(until, &mut self.judge);
    }
}

/// Of a whole frame, as many nanoseconds as this part.
fn part_of_a_frame(rate: Rate, part: f64) -> Span {
    Span::from_nanos((part * 1e9 / f64::from(rate.hertz())).round() as i64)
}
