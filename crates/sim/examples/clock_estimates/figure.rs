//! Figure in docs/internals/time.md: the bounds from 30 s of exchanges, and the estimate.

use core::fmt::Write;

use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::preset::Preset;

use super::exchanges::Talk;
use super::{Estimate, Ours};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
/// Width in seconds, and half the height in microseconds.
const SECONDS: f64 = 30.0;
const MICROS: f64 = 600.0;

fn place(seconds: f64, micros: f64) -> (f64, f64) {
    (40.0 + seconds / SECONDS * (WIDTH - 50.0), HEIGHT / 2.0 * (1.0 - micros / MICROS))
}

/// SVG of each exchange's two bounds, the estimate and its uncertainty, relative to the truth.
pub(crate) fn svg() -> String {
    let mut talk = Talk::new(Preset::SwitchUnderLoad.path(), 0.01, 3);
    let mut ours = Ours::default();
    let (mut bounds, mut line, mut edges) =
        (String::new(), String::new(), [const { String::new() }; 2]);
    let mut at = TrueTime::ZERO;
    while at < TrueTime::from_nanos((SECONDS * 1e9) as i64) {
        at = at.after(Span::from_millis(100));
        let mut arrived = Vec::new();
        talk.run(at, |exchange| arrived.push(exchange));
        let (local, truth) = talk.clocks(at);
        let seconds = at.as_nanos() as f64 / 1e9;
        for exchange in arrived {
            // The clocks run 100 ppm apart, so each bound is compared with the truth at its own
            // time.
            let ahead = |wall: i64, here: i64| {
                let now = truth.as_unix_nanos() - local.as_nanos();
                let drifted = (local.as_nanos() - here) as f64 * 100e-6;
                ((wall - here - now) as f64 - drifted) / 1e3
            };
            let above =
                ahead(exchange.peer_received.as_unix_nanos(), exchange.requested.as_nanos());
            let below = ahead(exchange.peer_answered.as_unix_nanos(), exchange.answered.as_nanos());
            for (micros, colour) in [(above, "#c05020"), (below, "#2060c0")] {
                let (x, y) = place(seconds, micros.clamp(-MICROS, MICROS));
                let _ = writeln!(
                    bounds,
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="2.2" fill="{colour}"/>"#
                );
            }
            ours.observe(exchange);
        }
        let (Some(wall), Some(unsure)) = (ours.wall(local), ours.uncertainty(local)) else {
            continue;
        };
        let error = (wall - truth).as_micros_f64();
        let (x, y) = place(seconds, error.clamp(-MICROS, MICROS));
        let _ = write!(line, "{x:.1},{y:.1} ");
        for (edge, side) in edges.iter_mut().zip([1.0, -1.0]) {
            let micros = error + side * unsure.as_micros_f64();
            let (x, y) = place(seconds, micros.clamp(-MICROS, MICROS));
            let _ = write!(edge, "{x:.1},{y:.1} ");
        }
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         fill=\"white\"/>\n"
    );
    for micros in [-400, -200, 0, 200, 400] {
        let (x, y) = place(0.0, micros.into());
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" x2=\"{WIDTH}\" y1=\"{y:.0}\" y2=\"{y:.0}\" stroke=\"#ddd\"/>\
             <text x=\"2\" y=\"{:.0}\">{micros}</text>",
            y + 4.0
        );
    }
    out += &bounds;
    for edge in edges {
        let _ = writeln!(out, "<polyline points=\"{edge}\" fill=\"none\" stroke=\"#999\"/>");
    }
    let _ = writeln!(
        out,
        "<polyline points=\"{line}\" fill=\"none\" stroke=\"black\" stroke-width=\"1.5\"/>"
    );
    let texts = [
        (60.0, 14.0, "path there: upper bound of the offset", "#c05020"),
        (60.0, HEIGHT - 6.0, "path back: lower bound", "#2060c0"),
        (330.0, 14.0, "grey: reported uncertainty; black: estimate", "black"),
        (590.0, HEIGHT - 6.0, "error in us, over 30 s", "black"),
    ];
    for (x, y, text, colour) in texts {
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{text}</text>");
    }
    out + "</svg>\n"
}
