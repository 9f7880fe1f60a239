use core::fmt::Write;

use fastrand::Rng;
use tautline_proto::time::Span;

use crate::link::Jitter;
use crate::trace::Trace;

/// Writes a record with a packet every `every`, after lines of explanation.
pub fn write_delays(trace: &Trace, every: Span, explained: &str) -> String {
    let mut text = String::new();
    for line in explained.lines() {
        text.push_str(format!("# {line}").trim_end());
        text.push('\n');
    }
    let _ = writeln!(text, "delay_us every {every}");
    let mut elapsed = Span::ZERO;
    while elapsed < trace.length() {
        let _ = match trace.at(elapsed) {
            Some(delay) => writeln!(text, "{:.1}", delay.as_micros_f64()),
            None => writeln!(text, "-"),
        };
        elapsed += every;
    }
    text
}

const SPIKES_PACKETS: i64 = 60_000;
/// In milliseconds.
const LAST_SPIKE: i64 = 28_000;
/// Peak jitter of a direct cable in Roc's qa report 20250210, `07--ether--spikes`.
const HIGHEST: Span = Span::from_micros(6_150);

/// A minute of a quiet network with spikes until 28 s. A receiver that follows maxima keeps a
/// latency it does not need.
///
/// Packets are 1 ms apart, delayed by 200 µs plus an exponential 60 µs on average. Holds of 2 to
/// 6.15 ms follow every 2 s on average. The first spike, at 3 s, is the highest.
pub fn spikes(seed: u64) -> String {
    let mut rng = Rng::with_seed(seed);
    let mut delays: Vec<Span> = (0..SPIKES_PACKETS)
        .map(|_| {
            let jitter = Jitter::Exponential(Span::from_micros(60));
            Span::from_micros(200) + jitter.draw(&mut rng)
        })
        .collect();
    let (mut at, mut height) = (3_000, HIGHEST);
    while at < LAST_SPIKE {
        for (packet, delay) in (0..).zip(delays.iter_mut().skip(at as usize)) {
            let held = height - Span::from_millis(packet);
            if held < Span::ZERO {
                break;
            }
            *delay = held.max(*delay);
        }
        let pause = Jitter::Exponential(Span::from_secs(2)).draw(&mut rng);
        at += 50 + pause.as_nanos() / 1_000_000;
        let minimum = Span::from_millis(2);
        height = minimum + Jitter::Uniform(HIGHEST - minimum).draw(&mut rng);
    }
    let mut text = format!(
        "# A minute with spikes up to 28 s, made by tautline_sim::recipe::spikes({seed}), which says\n\
         # what they are and after whom. Made again by:\n\
         #   cargo run -p tautline-sim --example trace -- spikes {seed}\n\
         delay_us every 1ms\n"
    );
    for delay in delays {
        let _ = writeln!(text, "{:.0}", delay.as_micros_f64());
    }
    text
}
