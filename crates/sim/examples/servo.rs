//! Draws how the servo synchronises a card, as an SVG:
//!
//! ```text
//! cargo run --release -p tautline-sim --example servo > docs/figures/servo.svg
//! ```

use std::fmt::Write as _;
use std::io::Write as _;

use tautline_proto::time::Span;
use tautline_proto::units::Ppm;
use tautline_sim::card::CardModel;
use tautline_sim::clock::{ClockEvent, TrueTime};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::play;

const SECONDS: i64 = 45;
const STEP: i64 = 20;
const SIZE: (f64, f64) = (720.0, 300.0);
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 260.0;
const TOP: f64 = 30.0;
/// Upper and lower edge in microseconds.
const MAX: f64 = 300.0;

fn across(second: f64) -> f64 {
    LEFT + second / SECONDS as f64 * (SIZE.0 - LEFT - 20.0)
}

fn down(micros: f64) -> f64 {
    TOP + (MAX - micros) / (2.0 * MAX) * (BOTTOM - TOP)
}

fn main() -> std::io::Result<()> {
    let mut scenario = Scenario::one_way(Preset::Wired.path(), 24);
    let step = TrueTime::from_nanos(STEP * 1_000_000_000);
    scenario.receivers[0].host = HostModel {
        card_events: vec![(step, ClockEvent::Rate(Ppm::from_f64(-50.0)))],
        ..HostModel::with_card(CardModel::off_by(50.0))
    };
    let received = &play(scenario, Span::from_secs(SECONDS))[0];
    let mut line = String::new();
    for (index, error) in received.errors.iter().enumerate().step_by(50) {
        let (x, y) = (across(index as f64 / 1000.0), down(error.as_micros_f64()));
        let _ = write!(line, "{x:.1},{y:.1} ");
    }
    let mut axes = String::new();
    for micros in [-300_i32, -200, -100, -50, 0, 50, 100, 200, 300] {
        let (y, right) = (down(f64::from(micros)), SIZE.0 - 20.0);
        let colour = if micros.abs() == 50 { "#c44" } else { "#ccc" };
        let _ = writeln!(axes, "<path d='M{LEFT} {y:.1}H{right}' stroke='{colour}'/>");
        let _ = writeln!(
            axes,
            "<text x='{}' y='{:.1}' text-anchor='end'>{micros}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    for second in (0..=SECONDS).step_by(5) {
        let x = across(second as f64);
        let _ = writeln!(
            axes,
            "<text x='{x:.1}' y='{}' text-anchor='middle'>{second} s</text>",
            BOTTOM + 18.0
        );
    }
    let (width, height) = SIZE;
    let at = across(STEP as f64);
    write!(
        std::io::stdout(),
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' font-family='sans-serif' \
         font-size='12' fill='#333'>\n<rect width='{width}' height='{height}' fill='#fff'/>\n{axes}\
         <path d='M{at:.1} {TOP}V{BOTTOM}' stroke='#888' stroke-dasharray='4'/>\n\
         <text x='{:.1}' y='{}'>the card, 50 ppm fast, becomes 50 ppm slow</text>\n\
         <text x='{LEFT}' y='18'>heard later than promised, in microseconds, by true time</text>\n\
         <polyline points='{}' fill='none' stroke='#06c' stroke-width='1.5'/>\n</svg>\n",
        at + 6.0,
        TOP + 14.0,
        line.trim_end()
    )
}
