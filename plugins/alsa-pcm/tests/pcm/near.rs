//! Reference: the engine sends from a card that knows when each impulse met its ADC.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tautline_dsp::format::SampleFormat;
use tautline_engine::monitor::run::RunOptions;
use tautline_engine::plan::SendPlan;
use tautline_engine::send_engine::SendEngine;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::open_stream;
use tautline_proto::card_clock::{CaptureRing, CardClock};
use tautline_proto::device::{Cycle, Device, Direction, Ended, Flow, Process, Settings, Stop};
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Ppm, Rate};

const PERIOD: usize = 48;
const DEVICE: Settings = Settings {
    rate: Rate::HZ_48000,
    channels: Channels::MONO,
    period: Frames::new(PERIOD as i64),
    periods: 4,
};
const OPTIONS: RunOptions = RunOptions {
    scheduler: Scheduler::Fifo(70),
    duration: None,
    stall_monitor: false,
    lock_memory: false,
    words: |note| Some(format!("{note:?}")),
};

struct Card {
    impulses: Vec<f32>,
    met: Arc<Mutex<Vec<LocalTime>>>,
}

const APART: usize = 100;

impl Device for Card {
    fn settings(&self) -> Settings {
        DEVICE
    }

    fn run(&mut self, mut process: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
        let clock = CardClock::new(now(), DEVICE.rate, Ppm::ZERO);
        let mut ring = CaptureRing::new(clock, &DEVICE).patient(Frames::new(48_000));
        for period in 1..=(self.impulses.len() + 1) * APART {
            sleep_until(ring.wakes());
            let woke = now();
            let turn = ring.begin(woke);
            let mut block = [0.0; PERIOD];
            if let Some(impulse) = self.impulses.get((period / APART).wrapping_sub(1))
                && period % APART == 0
            {
                block[0] = *impulse;
                self.met.lock().unwrap().push(turn.meets);
            }
            let side = turn.side(&mut block);
            if process.process(&mut Cycle::one_way(Direction::Capture, woke, side, 0))
                == Flow::Finished
            {
                break;
            }
        }
        (process, Ended::Finished)
    }
}

/// Times at the ADC.
pub(crate) fn send(port: u16, link_offset: Span, impulses: Vec<f32>) -> Vec<LocalTime> {
    let to = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let sample = SampleFormat::L24;
    let udp = UdpOptions::sender(vec![to(port)]);
    let opened = open_stream(&udp, None).unwrap();
    let format = StreamFormat {
        codec: None,
        rate: DEVICE.rate,
        channels: DEVICE.channels,
        sample,
        packet: DEVICE.period,
        payload_type: StreamFormat::default_payload_type(sample),
    };
    let mut plan = SendPlan::new(port.to_string(), opened, format, DEVICE).unwrap();
    plan.reports_to = vec![to(port + 1).into()];
    plan.policy.link_offset = link_offset;
    plan.policy.latency = LatencyRule::Chosen(link_offset);
    let met = Arc::<Mutex<Vec<LocalTime>>>::default();
    let card = Box::new(Card { impulses, met: Arc::clone(&met) });
    let engine = SendEngine::new(plan).unwrap();
    engine.run(card, &OPTIONS, &Stop::default(), &mut |_| {}).unwrap();
    std::mem::take(&mut *met.lock().unwrap())
}
