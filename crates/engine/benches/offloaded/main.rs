//! Cost of offloaded plugins for a master. The baseline is a bare `sendmmsg`/`recvmmsg` exchange of
//! equal datagrams and sockets. Measures the program's processor time per worker and block, and
//! extra time in the host's callback. Neither side encrypts.
//!
//! One worker process per kind: ours copies input, the bare one echoes. All alternate in turns of
//! thirty periods of 210 frames at 96 kHz, in real time if permitted. Sleeping is measured and
//! subtracted. Arguments: numbers of workers.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up is over")]

mod bare;
mod ours;
mod workers;

use tautline_io::clock::{now, processor_time, sleep_until};
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::time::{LocalTime, Span};

use bare::Bare;
use ours::{Kind, Ours};
use workers::Workers;

const FRAMES: usize = 210;
const PERIOD: Span = Span::from_nanos(2_187_500);
const CHANNELS: usize = 2;
const CONTROLS: usize = 2;
const BYTES: usize = 4 * (CHANNELS * FRAMES + CONTROLS);
const HEAD: usize = 40;
const PARTS: usize = 2;
const PART: usize = BYTES / PARTS + HEAD;
const TURN: usize = 30;
const TURNS: usize = 20;
const STACK: usize = 1 << 20;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, count] = &words[..]
        && word == "workers"
    {
        return workers::serve(count.parse().unwrap());
    }
    let requested: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let counts = if requested.is_empty() { vec![1, 2, 3, 4, 5, 6, 7] } else { requested };
    let run = move || {
        for count in counts {
            compare(count);
        }
    };
    let (thread, granted) = spawn("taut-device", Scheduler::Fifo(70), STACK, run).unwrap();
    if !granted.is_granted() {
        println!("as an ordinary program: {granted}");
    }
    thread.join().unwrap();
}

#[derive(Default)]
struct Taken {
    processor: Vec<f64>,
    callback: Vec<f64>,
}

fn compare(count: usize) {
    let workers = Workers::start(count);
    let mut direct = Ours::open(&workers.ours[..count], Kind::Direct);
    let mut ringed = Ours::open(&workers.ours[count..], Kind::ThreadedLink);
    let mut bare = Bare::open(&workers.bare, false);
    let mut copying = Bare::open(&workers.bare, true);
    let [mut idle, mut one, mut other, mut plain, mut copied] = [(); 5].map(|()| Taken::default());
    for turn in 0..=TURNS {
        idle.turn(|| {});
        one.turn(|| direct.period());
        other.turn(|| ringed.period());
        plain.turn(|| bare.period());
        copied.turn(|| copying.period());
        if turn == 0 {
            for taken in [&mut idle, &mut one, &mut other, &mut plain, &mut copied] {
                *taken = Taken::default();
            }
            direct.forget();
            ringed.forget();
        }
    }
    let cost = |taken: &Taken| (taken.processor() - idle.processor()) / count as f64;
    let bare_cost = cost(&plain);
    println!(
        "{count} workers, bare with copies: {:5.1} us, of bare {:.2}",
        cost(&copied),
        cost(&copied) / bare_cost
    );
    for (kind, taken, ours) in [("direct", &one, &mut direct), ("ringed", &other, &mut ringed)] {
        let late = ours.late();
        println!(
            "{count} workers, {kind}: {:5.1} us a worker and block, bare {bare_cost:5.1} us, ratio {:.2}; callback p50 {:5.1} us, p99 \
             {:5.1} us, bare {:5.1} us, {:5.1} us; {late} of {} answers late",
            cost(taken),
            cost(taken) / bare_cost,
            taken.callback(50),
            taken.callback(99),
            plain.callback(50),
            plain.callback(99),
            TURN * TURNS * count,
        );
    }
}

impl Taken {
    fn turn(&mut self, mut period: impl FnMut()) {
        let (mut due, begun) = (now() + PERIOD, processor_time());
        for _ in 0..TURN {
            sleep_until(due);
            let began: LocalTime = now();
            period();
            self.callback.push((now() - began).as_micros_f64());
            due += PERIOD;
        }
        sleep_until(due);
        self.processor.push((processor_time() - begun).as_micros_f64() / TURN as f64);
    }

    fn processor(&self) -> f64 {
        percentile(&self.processor, 50)
    }

    fn callback(&self, percent: usize) -> f64 {
        percentile(&self.callback, percent)
    }
}

fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * percent / 100]
}
