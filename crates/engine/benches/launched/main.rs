//! Processor time of class A packets with launch times: eight streams of eight channels. The
//! baseline is a bare `sendmmsg` with `SCM_TXTIME` of equal packets and sockets, with one sample
//! conversion.
//!
//! Our side is the code of `taut --io-thread no`, without waiting for periods. Both sides alternate
//! on one thread; medians are compared. Loopback ignores launch times.
//!
//! With `auto`, both sides run in real time, and all threads count. The baseline wakes once per
//! period, with one thread or with one per socket. AVTP needs `CAP_NET_RAW`.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up is over")]

mod bare;
#[path = "../packets/lender.rs"]
mod lender;
mod ours;

use std::sync::Barrier;

use tautline_dsp::format::SampleFormat;
use tautline_io::clock::{now, processor_time, sleep_until, thread_time};
use tautline_io::link::threaded::Spacing;
use tautline_io::socket::launch::{LaunchClock, LaunchOptions};
use tautline_proto::device::Settings;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

use bare::Bare;
use ours::{Ours, PERIOD};

const STREAMS: usize = 8;
const CHANNELS: usize = 8;
const FRAMES: usize = 6;
const PACKETS: usize = 8;
const SAMPLES: usize = FRAMES * CHANNELS;
const BLOCK: usize = PACKETS * SAMPLES;
const WARM_UP: usize = 200;
const CHUNK: usize = 20;
const TURNS: usize = 61;
const IN_TIME: usize = 1000;
const ROUNDS: usize = 5;
const SPACING: Spacing = Spacing { together: PACKETS / 2, lead: Span::from_micros(200) };

fn device() -> Settings {
    Settings {
        rate: Rate::HZ_48000,
        channels: Channels::new(CHANNELS as u32).unwrap(),
        period: Frames::new((FRAMES * PACKETS) as i64),
        periods: 2,
    }
}

fn format() -> StreamFormat {
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::new(CHANNELS as u32).unwrap(),
        sample: SampleFormat::L24,
        packet: Frames::new(FRAMES as i64),
        payload_type: StreamFormat::default_payload_type(SampleFormat::L24),
    }
}

const LAUNCH: LaunchOptions = LaunchOptions {
    clock: LaunchClock::Monotonic,
    lead: Span::from_millis(1),
    minimum: Span::ZERO,
    ahead: Span::ZERO,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BenchWire {
    Rtp,
    Avtp,
}

fn main() {
    for (name, wire) in [("rtp", BenchWire::Rtp), ("avtp", BenchWire::Avtp)] {
        let (Some(mut ours), Some(mut bare)) = (Ours::open(wire, None), Bare::open(wire, STREAMS))
        else {
            continue;
        };
        for _ in 0..WARM_UP {
            ours.period();
            bare.period();
        }
        let (mut costs_ours, mut costs_bare) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            costs_ours.push(chunk(|| ours.period()));
            costs_bare.push(chunk(|| bare.period()));
            ours.wait();
        }
        let (taut, bare) = (median(costs_ours), median(costs_bare));
        println!("{name}: taut {taut:.0} ns, bare {bare:.0} ns, ratio {:.3}", taut / bare);
        ours.close();
        in_time(name, wire);
    }
}

fn in_time(name: &str, wire: BenchWire) {
    let [mut taut, mut alone, mut each] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let Some(mut ours) = Ours::open(wire, Some(SPACING)) else { return };
        (0..WARM_UP).for_each(|_| ours.period_in_time());
        taut.push(of_process(|| (0..IN_TIME).for_each(|_| ours.period_in_time())));
        ours.close();
        let mut all = Bare::open(wire, STREAMS).unwrap();
        bare_in_time(&mut all, WARM_UP);
        alone.push(of_process(|| bare_in_time(&mut all, IN_TIME)));
        let warm = Barrier::new(STREAMS + 1);
        let single = || {
            let mut bare = Bare::open(wire, 1).unwrap();
            bare_in_time(&mut bare, WARM_UP);
            warm.wait();
            bare_in_time(&mut bare, IN_TIME);
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..STREAMS).map(|_| scope.spawn(single)).collect();
            warm.wait();
            let join = || threads.into_iter().for_each(|thread| thread.join().unwrap());
            each.push(of_process(join));
        });
    }
    let [taut, alone, each] = [taut, alone, each].map(median);
    for (way, bare) in [("one thread", alone), ("a thread each", each)] {
        println!(
            "{name}, wire threads: taut {taut:.0} ns, bare {way} {bare:.0} ns, ratio {:.3}",
            taut / bare
        );
    }
}

fn bare_in_time(bare: &mut Bare, periods: usize) {
    let begin = now();
    for period in 1..=periods {
        sleep_until(begin + PERIOD.times(period as i64));
        bare.period();
    }
}

fn of_process(run: impl FnOnce()) -> f64 {
    let begin = processor_time();
    run();
    (processor_time() - begin).as_nanos() as f64 / (IN_TIME * STREAMS * PACKETS) as f64
}

fn chunk(mut period: impl FnMut()) -> f64 {
    let begin = thread_time();
    (0..CHUNK).for_each(|_| period());
    (thread_time() - begin).as_nanos() as f64 / (CHUNK * STREAMS * PACKETS) as f64
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}
