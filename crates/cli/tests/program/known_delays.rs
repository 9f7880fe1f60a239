//! Random known delays, measured over cables between cards, and over a stream across a network with
//! jitter.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use serde_json::Value;

use crate::common::host::alone;
use crate::common::lab::Lab;
use crate::common::program::{taut, words};
use crate::common::{PATIENT, median};

/// Concurrent runs: they mostly wait.
const AT_ONCE: usize = 6;
/// Environment variable for the number of runs, and its default.
const CASES: (&str, u64) = ("KNOWN_DELAYS", 200);
const SEED: &str = "KNOWN_DELAYS_SEED";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Cable,
    Programs,
    /// A sender, a relay with delay and jitter, and a receiver, with a cable on each side.
    Stream {
        relay_us: u64,
        jitter_us: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct KnownDelay {
    between: Between,
    cable_ns: i64,
    /// Rate errors of the playing and recording cards.
    ppm: [i32; 2],
    seed: u64,
}

impl KnownDelay {
    fn drawn(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let between = match rng.u32(..4) {
            0 => Between::Cable,
            1 => Between::Programs,
            _ => Between::Stream { relay_us: rng.u64(0..50_000), jitter_us: rng.u64(0..10_000) },
        };
        Self {
            between,
            cable_ns: rng.i64(0..100_000_000),
            ppm: [0; 2].map(|_| rng.i32(-100..=100)),
            seed,
        }
    }

    /// Measured minus true delay, and the stated uncertainty, in nanoseconds.
    fn read_back(self) -> (i64, i64) {
        let (known, report) = match self.between {
            Between::Cable => (0, self.marks("--settle 1s", &self.cable("i"), &self.cable("i"))),
            Between::Programs => {
                let run = "--settle 1s --with local";
                (0, self.marks(run, &self.cable("i"), &self.cable("i")))
            }
            Between::Stream { relay_us, jitter_us } => self.by_stream(relay_us, jitter_us),
        };
        let row = &report["rows"][0];
        assert_eq!(row["invalid"], Value::Null, "{self:?}: {report:#}");
        let nanos = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("{self:?}: {row:#}"));
        let known = known + self.cable_ns;
        (nanos(&row["measured"]["p50_ns"]) - known, nanos(&row["uncertainty_95_ns"]))
    }

    fn by_stream(self, relay_us: u64, jitter_us: u64) -> (i64, Value) {
        let seed = self.seed;
        let mut lab =
            Lab::start(&format!("--delay {relay_us}us --jitter {jitter_us}us --seed {seed}"));
        let (into, out, patient) = (self.cable("i"), self.cable("o"), PATIENT.join(" "));
        let recv = lab.recv_to(&out, &format!("--packet-log heard.csv {patient}"));
        let send = lab.send(&format!("--input {into} --ptime 1ms --packet-log sent.csv {patient}"));
        let report = self.marks("--settle 2s", &into, &out);
        send.signal("-INT");
        let _ = (send.end().well(), recv.end(), lab.end());
        // The relay's delay is unknown, so both ledgers supply the times at the cards, by this
        // machine's clock.
        let captured = instants(&lab.folder.file("sent.csv"), "capture");
        let played = instants(&lab.folder.file("heard.csv"), "dac");
        let last = captured.values().max().expect("packets");
        let marked = last - COUNTED_NS..=last - ENDING_NS;
        let both = captured.iter().filter(|(_, at)| marked.contains(at));
        let took = both.filter_map(|(stamp, at)| Some(played.get(stamp)? - at));
        (median(took), report)
    }

    fn cable(&self, end: &str) -> String {
        format!("virtual:?cable={end}{}-{}", std::process::id(), self.seed)
    }

    fn marks(&self, run: &str, output: &str, input: &str) -> Value {
        let [plays, handles] = self.ppm;
        let line = format!(
            "lab delay {run} --duration 2s --period 240 --periods 32 --report json \
             --output {output}&ppm={plays} --input {input}&ppm={handles}&delay={}ns",
            self.cable_ns
        );
        taut(words(&line)).run().report().0
    }
}

const FRAME_NS: i64 = 20_834;
/// Time range of valid marks, before the last packet.
const COUNTED_NS: i64 = 2_300_000_000;
const ENDING_NS: i64 = 300_000_000;

fn instants(ledger: &Path, column: &str) -> BTreeMap<u32, i64> {
    let text = std::fs::read_to_string(ledger).unwrap();
    let mut lines = text.lines();
    let head: Vec<_> = lines.next().expect("a head").split(',').collect();
    let [stamp, at] = ["rtp_timestamp", column]
        .map(|name| head.iter().position(|head| *head == name).expect("a column"));
    let each = lines.map(|line| line.split(',').collect::<Vec<_>>());
    each.filter_map(|row| Some((row[stamp].parse().ok()?, row[at].parse().ok()?))).collect()
}

fn asked_for(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

mod exclusive {
    use super::*;

    #[test]
    #[ignore = "soak: two hundred runs of several programs, some minutes"]
    fn known_delays_are_within_their_bound_95_times_of_100() {
        let _turn = alone();
        let cases = asked_for(CASES.0).unwrap_or(CASES.1);
        let seed = asked_for(SEED).unwrap_or_else(|| Rng::new().u64(..1 << 32));
        println!("{cases} known delays; again by {SEED}={seed}");
        let (next, found) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    loop {
                        let case = next.fetch_add(1, Ordering::Relaxed);
                        if case >= cases {
                            return;
                        }
                        let known = KnownDelay::drawn(seed + case);
                        let (off, bound) = known.read_back();
                        println!("{off} of {bound} ns: {known:?}");
                        found.lock().unwrap().push((off, bound));
                    }
                });
            }
        });
        let found = found.into_inner().unwrap();
        let ratios = found.iter().map(|(off, bound)| off.abs() as f64 / *bound as f64);
        let inside = ratios.clone().filter(|ratio| *ratio <= 1.0).count();
        let maximum = ratios.fold(0.0, f64::max);
        let narrow = found.iter().filter(|(_, bound)| *bound <= FRAME_NS).count();
        let reported = format!(
            "{inside} of {cases} inside, at most {maximum:.2} times the bound, {narrow} of them of a frame at most"
        );
        println!("{reported}");
        // At 95 % coverage, all but one of 200 such runs have at least 181 of 200. The actual
        // coverage is higher, because the bound includes noise that is absent here.
        let share = |count: usize| count as f64 / cases as f64;
        let (inside, narrow) = (share(inside), share(narrow));
        assert!(inside >= 0.905 && maximum <= 2.0 && narrow >= 0.9, "{reported}; {SEED}={seed}");
    }
}
