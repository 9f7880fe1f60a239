//! A plugin's cost: A + B·N nanoseconds for N frames, measured here, as the LADSPA header
//! recommends.

pub(crate) mod book;

use tautline_api::v1::PluginCost;
use tautline_io::clock::thread_time;
use tautline_proto::time::Span;

use crate::chain::ChainNode;

const RUNS: usize = 24;
const MAX: Span = Span::from_millis(150);
/// Maximum time per length. A long run leaves less time for the others.
const MAX_EACH: Span = Span::from_millis(30);
/// Frames of the longest run measured. Short runs alone determine no line.
pub const MEASURED_FRAMES: usize = 1024;
const LENGTHS: u32 = 5;
/// Percentile of the counted run. The host mostly delayed slower runs.
const PERCENT: usize = 90;
const LEVEL: f32 = 0.1;

pub fn measure(node: &mut ChainNode) -> PluginCost {
    let mut noise = 1u32;
    for channel in 0..node.inputs() {
        node.input_mut(channel).fill_with(|| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise as f32 / u32::MAX as f32 - 0.5) * LEVEL
        });
    }
    let begun = thread_time();
    let mut measured = Vec::new();
    for shorter in 0..LENGTHS {
        let frames = MEASURED_FRAMES >> shorter;
        let each = thread_time();
        node.run(frames);
        let mut times = Vec::with_capacity(RUNS);
        while times.len() < RUNS && (times.is_empty() || thread_time() - each < MAX_EACH) {
            let before = thread_time();
            node.run(frames);
            times.push((thread_time() - before).as_nanos());
        }
        times.sort_unstable();
        let counts = times[(times.len() - 1) * PERCENT / 100];
        measured.push((frames as f64, counts as f64));
        // At least two lengths: one alone would put everything into A.
        if measured.len() > 1 && thread_time() - begun >= MAX {
            break;
        }
    }
    fit(&measured)
}

pub fn of_run(cost: PluginCost, frames: f64) -> f64 {
    cost.fixed_ns + cost.per_frame_ns * frames
}

fn fit(measured: &[(f64, f64)]) -> PluginCost {
    let count = measured.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| measured.iter().map(of).sum::<f64>() / count;
    let (frames, time) = (mean(|of| of.0), mean(|of| of.1));
    let spread: f64 = measured.iter().map(|of| (of.0 - frames).powi(2)).sum();
    let slope: f64 = measured.iter().map(|of| (of.0 - frames) * (of.1 - time)).sum();
    let per_frame_ns = if spread > 0.0 { (slope / spread).max(0.0) } else { 0.0 };
    let above = |(frames, time): &(f64, f64)| time - per_frame_ns * frames;
    let fixed_ns = measured.iter().map(above).fold(0.0, f64::max);
    PluginCost { fixed_ns, per_frame_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_fits_points_on_a_line() {
        let cost = fit(&[64.0, 128.0, 256.0].map(|frames| (frames, 500.0 + 3.0 * frames)));
        assert!((cost.fixed_ns - 500.0).abs() < 1e-6 && (cost.per_frame_ns - 3.0).abs() < 1e-9);
    }

    #[test]
    fn cost_of_every_length_is_below_the_line() {
        let measured = [(64.0, 900.0), (128.0, 700.0), (256.0, 2000.0), (512.0, 2100.0)];
        let cost = fit(&measured);
        assert!(
            measured.iter().all(|(frames, time)| of_run(cost, *frames) >= time - 1e-6),
            "{cost:?}"
        );
    }

    #[test]
    fn falling_or_single_costs_are_per_run() {
        let falls = fit(&[(64.0, 900.0), (128.0, 700.0)]);
        assert_eq!((falls.fixed_ns, falls.per_frame_ns), (900.0, 0.0));
        let once = fit(&[(64.0, 900.0)]);
        assert_eq!((once.fixed_ns, once.per_frame_ns), (900.0, 0.0));
        assert_eq!(fit(&[]), PluginCost { fixed_ns: 0.0, per_frame_ns: 0.0 });
    }
}
