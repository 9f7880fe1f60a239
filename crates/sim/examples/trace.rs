//! Generates the records in `crates/sim/traces`.
//!
//! `trace spikes SEED` writes a minute with spikes. `trace ledger FILE.csv SECONDS` reduces a
//! `--packet-log` of `taut recv` to one delay per millisecond.
#![expect(clippy::print_stdout, reason = "it prints the record")]

use std::error::Error;

use tautline_proto::time::Span;
use tautline_sim::recipe::{spikes, write_delays};
use tautline_sim::trace::Trace;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["spikes", seed] => print!("{}", spikes(seed.parse()?)),
        ["ledger", file, seconds] => print!("{}", shortened(file, seconds.parse()?)?),
        _ => return Err("give: spikes SEED, or: ledger FILE.csv SECONDS".into()),
    }
    Ok(())
}

fn shortened(file: &str, seconds: i64) -> Result<String, Box<dyn Error>> {
    let whole = Trace::read(&std::fs::read_to_string(file)?)?;
    let length = Span::from_secs(seconds);
    let kept = whole.packets().iter().copied().filter(|packet| packet.sent < length).collect();
    let explained = "Hand-over to arrival of a stream of taut between two network namespaces \
                     joined by a veth pair,\non a virtual machine of two cores, a packet each \
                     millisecond; the sender's clock as the\nreceiver mapped it. The seven that \
                     are marked lost came, but the host stood still and no card\nasked for \
                     them. Made by:\n  \
                     taut recv --from rtp://10.77.0.2:5004 --output null: --exit-on-bye --packet-log \
                     heard.csv\n  cargo run -p tautline-sim --example trace -- ledger heard.csv \
                     10";
    Ok(write_delays(&Trace::new(kept)?, Span::from_millis(1), explained))
}
