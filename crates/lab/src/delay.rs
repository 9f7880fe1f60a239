//! How long sound takes from one device to another, from the sound itself.
//!
//! A player plays time marks (`dsp::timecode`) on one device and says when each meets the DAC, a
//! recorder keeps what another device hears and when it met the ADC, both by their devices' own
//! word and on the devices' own threads. An ordinary thread finds the marks and hands both to
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
use tautline_proto::device::{Device, Stop};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

pub use judge::{Heard, Judge, Outcome, Played};
pub use report::{DelayReport, Row};

/// How a delay is measured.
#[derive(Debug, Clone, Copy)]
pub struct DelayOptions {
    /// What the way was set to, to compare with.
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
    (output, input): (Box<dyn Device>, Box<dyn Device>),
    options: &DelayOptions,
    stop: &Stop,
) -> Result<DelayReport, RunError> {
    let settings = [output.settings(), input.settings()];
    let rate = settings[0].rate;
    let begun = now();
    let (player, mut marks) = player::player(&settings[0]);
    let (recorder, mut ear) = recorder::recorder(&settings[1], options.channel);
    let mut judge = Judge::new(rate, begun + options.settle);
    // The ear first: no mark is missed because nobody listened yet.
    let hears = Running::start(input, Box::new(recorder), options.scheduler, stop)?;
    let plays = Running::start(output, Box::new(player), options.scheduler, stop)?;
    let granted = [plays.granted, hears.granted];
    let ends = options.duration.map_or(LocalTime::NEVER, |span| begun + options.settle + span);
    while !stop.is_requested() && now() < ends && !plays.is_over() && !hears.is_over() {
        sleep_until(ends.min(now() + BEAT));
        // What was heard by now has been played, and its line is there.
        let until = ear.listen();
        marks.read(&mut judge);
        ear.find(until, &mut judge);
    }
    let ended = [plays.end().err(), hears.end().err()];
    let until = ear.listen();
    marks.read(&mut judge);
    ear.find(until, &mut judge);
    if let Some(error) = ended.into_iter().flatten().next() {
        return Err(error);
    }
    let mut report =
        DelayReport::new(settings, options.configured, now() - begun, &judge.finish(ear.end()));
    report.devices(marks.faults(), ear.faults(), ear.unread());
    for (granted, which) in granted.iter().zip(["output", "input"]) {
        if !granted.is_granted() {
            report.notes.push(format!("the thread of the {which} runs as {granted}"));
        }
    }
    Ok(report)
}

/// Of a whole frame, as many nanoseconds as this part.
fn part_of_a_frame(rate: Rate, part: f64) -> Span {
    Span::from_nanos((part * 1e9 / f64::from(rate.hertz())).round() as i64)
}
