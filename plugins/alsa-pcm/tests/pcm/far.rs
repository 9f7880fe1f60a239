//! The far end: a card without hardware records when each frame met its DAC.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use tautline_engine::monitor::run::RunOptions;
use tautline_engine::plan::{RecvPlan, StreamPlan};
use tautline_engine::receive_engine::RecvEngine;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::{OpenedStream, open_stream};
use tautline_proto::card_clock::{CardClock, PlaybackRing};
use tautline_proto::device::{Cycle, Device, Ended, Process, Settings, Side, Stop};
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Ppm, Rate};
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_report::Report;

const DEVICE: Settings = Settings {
    rate: Rate::HZ_48000,
    channels: Channels::MONO,
    period: Frames::new(48),
    periods: 4,
};

pub(crate) type Frame = (LocalTime, f32);

pub(crate) struct Far {
    pub(crate) port: u16,
    received: Arc<Mutex<Vec<Frame>>>,
    stop: Stop,
    thread: Option<JoinHandle<Report>>,
}

struct Card {
    received: Arc<Mutex<Vec<Frame>>>,
    ready: mpsc::Sender<()>,
}

impl Device for Card {
    fn settings(&self) -> Settings {
        DEVICE
    }

    fn run(&mut self, mut process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let clock = CardClock::new(now(), DEVICE.rate, Ppm::ZERO);
        let mut ring = PlaybackRing::new(clock, &DEVICE).patient(Frames::new(48_000));
        let mut block = [0.0_f32; 48];
        self.ready.send(()).unwrap();
        while !stop.is_requested() {
            sleep_until(ring.wakes());
            let woke = now();
            let turn = ring.begin(woke);
            block.fill(0.0);
            let playback = Side {
                samples: &mut block,
                meets: turn.meets,
                uncertainty: CardClock::UNCERTAINTY,
                skipped: turn.skipped,
            };
            process.process(&mut Cycle {
                now: woke,
                capture: Side::absent(),
                playback,
                xruns: 0,
                clock: None,
            });
            ring.finish(now());
            let mut received = self.received.lock().unwrap();
            for (sample, frame) in block.iter().zip(turn.frame..) {
                if *sample != 0.0 {
                    received.push((clock.instant_of(frame), *sample));
                }
            }
        }
        (process, Ended::Stopped)
    }
}

impl Far {
    /// 24-bit mono, regardless of the announced latency.
    pub(crate) fn listen(latency: Span) -> Self {
        let options = UdpOptions::receiver("127.0.0.1:0".parse().unwrap());
        let opened = open_stream(&options, None).unwrap();
        let local = opened.addresses();
        let OpenedStream { link, control, .. } = opened;
        let port = local.0.port();
        let sample = tautline_dsp::format::SampleFormat::L24;
        let format = StreamFormat {
            codec: None,
            rate: DEVICE.rate,
            channels: DEVICE.channels,
            sample,
            packet: Frames::new(48),
            payload_type: StreamFormat::default_payload_type(sample),
        };
        let stream = StreamPlan::new(
            port.to_string(),
            JitterBufferConfig::new(RtpUnpack::usual(), format, latency),
            link,
            control,
        );
        let engine = RecvEngine::new(RecvPlan::new(vec![stream], DEVICE)).unwrap();
        let (received, stop) = (Arc::<Mutex<Vec<Frame>>>::default(), Stop::default());
        let (ready, waits) = mpsc::channel();
        let card = Box::new(Card { received: Arc::clone(&received), ready });
        let requested = stop.clone();
        let thread = std::thread::spawn(move || {
            let options = RunOptions {
                scheduler: Scheduler::Fifo(60),
                duration: None,
                stall_monitor: false,
                lock_memory: false,
                words: |note| Some(format!("{note:?}")),
            };
            engine.run(card, &options, &requested, &mut |_| {}).unwrap()
        });
        waits.recv().unwrap();
        Self { port, received, stop, thread: Some(thread) }
    }

    pub(crate) fn received(&self) -> Vec<Frame> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn end(mut self) -> (Vec<Frame>, Report) {
        self.stop.request();
        let report = self.thread.take().unwrap().join().unwrap();
        let received = self.received.lock().unwrap().clone();
        (received, report)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.stop.request();
    }
}
