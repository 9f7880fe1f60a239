//! Processor time of a packet through the whole program. The baseline is a bare
//! `sendmmsg`/`recvmmsg` loop with equal sockets, batches, control messages and clock readings, and
//! one sample conversion.
//!
//! Our side is the code of `taut`: a 1 ms packet of stereo L16 per stream and period, without
//! waiting for periods. Both sides alternate on one thread, and medians are compared.
//!
//! Arguments: numbers of streams. `streams` have a UDP port each, `senders` share one. The bare
//! loop always has a socket per stream. `fan-out 200` sends one stream to 200 destinations instead.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up is over")]

mod bare;
mod fan_out;
mod lender;
mod ours;

use bare::Bare;
use ours::{Ours, Received};

const FRAMES: usize = 48;
const SAMPLES: usize = 2 * FRAMES;
const WARM_UP: usize = 200;
const CHUNK: usize = 100;
const TURNS: usize = 61;

fn main() {
    let requested: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    if std::env::args().any(|word| word == "fan-out") {
        return requested.into_iter().for_each(fan_out::fan_out);
    }
    let streams = if requested.is_empty() { vec![1, 10, 100] } else { requested };
    let both = [Received::EachAtItsPort, Received::AllAtOne];
    for (streams, received) in streams.into_iter().flat_map(|n| both.map(|received| (n, received)))
    {
        let mut ours = Ours::open(streams, received);
        let mut bare = Bare::open(streams);
        let overhead = overhead();
        let periods = (CHUNK / streams).max(20);
        for _ in 0..WARM_UP {
            ours.period();
            bare.period();
        }
        let (mut costs_ours, mut costs_bare) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            costs_ours.push(chunk(periods, streams, overhead, || ours.period()));
            costs_bare.push(chunk(periods, streams, overhead, || bare.period()));
            ours.wait();
        }
        for (direction, pick) in [("send", Cost::send as fn(&Cost) -> f64), ("recv", Cost::recv)] {
            let (ours, bare) = (median(&costs_ours, pick), median(&costs_bare, pick));
            let of = match received {
                Received::EachAtItsPort => "streams",
                Received::AllAtOne => "senders",
            };
            println!(
                "{direction} {streams:3} {of}: taut {ours:7.1} ns, bare {bare:7.1} ns, \
                 ratio {:.3}",
                bare / ours
            );
        }
        ours.close();
    }
}

#[derive(Clone, Copy, Default)]
struct Cost {
    send: f64,
    recv: f64,
}

impl Cost {
    fn send(&self) -> f64 {
        self.send
    }

    fn recv(&self) -> f64 {
        self.recv
    }
}

fn chunk(periods: usize, streams: usize, overhead: f64, mut period: impl FnMut() -> Cost) -> Cost {
    let mut sum = Cost::default();
    for _ in 0..periods {
        let cost = period();
        sum.send += cost.send - overhead;
        sum.recv += cost.recv - overhead;
    }
    let packets = (periods * streams) as f64;
    Cost { send: sum.send / packets, recv: sum.recv / packets }
}

fn median(costs: &[Cost], pick: fn(&Cost) -> f64) -> f64 {
    median_of(costs.iter().map(pick).collect())
}

fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn processor() -> f64 {
    tautline_io::clock::thread_time().as_nanos() as f64
}

fn overhead() -> f64 {
    let mut pairs: Vec<f64> = (0..1000)
        .map(|_| {
            let before = processor();
            processor() - before
        })
        .collect();
    pairs.sort_by(f64::total_cmp);
    pairs[pairs.len() / 2]
}
