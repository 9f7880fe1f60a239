//! Prints a device's times per period: wake-up, block at the converter, uncertainty. `cargo run -p
//! tautline-audio --example card_times -- alsa:hw:0 playback 48 2 5`
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::env;
use std::error::Error;

use tautline_audio::{DeviceSpec, Extras};
use tautline_io::thread::{self, Scheduler};
use tautline_proto::device::{Cycle, Direction, Flow, Process, Settings, Side, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

#[derive(Clone, Copy)]
struct Line {
    now: LocalTime,
    meets: LocalTime,
    uncertainty: Span,
    xruns: u32,
    skipped: Frames,
}

struct Noted {
    lines: Vec<Line>,
    direction: Direction,
}

impl Process for Noted {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let Cycle { now, xruns, .. } = *cycle;
        let side = match self.direction {
            Direction::Capture => &cycle.capture,
            Direction::Playback => &cycle.playback,
        };
        let Side { meets, uncertainty, skipped, .. } = *side;
        self.lines.push(Line { now, meets, uncertainty, xruns, skipped });
        if self.lines.len() < self.lines.capacity() { Flow::Continue } else { Flow::Finished }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        println!("woke_us,meets_us,uncertainty_us,xruns,skipped");
        let start = self.lines.first().map_or(LocalTime::ZERO, |line| line.now);
        for line in &self.lines {
            println!(
                "{:.3},{:.3},{:.3},{},{}",
                (line.now - start).as_micros_f64(),
                (line.meets - start).as_micros_f64(),
                line.uncertainty.as_micros_f64(),
                line.xruns,
                line.skipped
            );
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = env::args().skip(1).collect();
    let [device, direction, period, periods, seconds] = given.as_slice() else {
        return Err("give DEVICE capture|playback PERIOD PERIODS SECONDS".into());
    };
    let direction = match direction.as_str() {
        "capture" => Direction::Capture,
        _ => Direction::Playback,
    };
    let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
    let (period, periods) = (Frames::new(period.parse()?), periods.parse()?);
    let settings = Settings { rate, channels, period, periods };
    let spec: DeviceSpec = device.parse()?;
    let extras = Extras::default();
    let mut opened = tautline_audio::open(&spec, direction, settings, extras)?;
    let cycles = seconds.parse::<i64>()? * i64::from(rate.hertz()) / period.count();
    let noted = Noted { lines: Vec::with_capacity(cycles as usize), direction };
    let (running, _granted) =
        thread::spawn("taut-device", Scheduler::Fifo(70), 256 << 10, move || {
            let (process, ended) = opened.device.run(Box::new(noted), &Stop::default());
            // Closing may wait for work that needs this core.
            let _ = Scheduler::Other.apply();
            drop((opened, process));
            ended
        })?;
    println!("# {:?}", running.join());
    Ok(())
}
