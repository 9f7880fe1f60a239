//! One sender per stream and one receiver: real engines whose devices lend their processes to the
//! bench.

use std::hint::black_box;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::thread::JoinHandle;

use tautline_dsp::format::SampleFormat;
use tautline_engine::monitor::run::RunOptions;
use tautline_engine::plan::{RecvPlan, SendPlan, StreamPlan};
use tautline_engine::receive_engine::RecvEngine;
use tautline_engine::send_engine::SendEngine;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::{OpenedStream, open_stream};
use tautline_proto::device::{Cycle, Settings, Side, Stop};
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::{RtpUnpack, STAMPED_HEADER_BYTES};
use tautline_report::Report;

use crate::lender::{Loan, clock, lender};
use crate::{Cost, FRAMES, SAMPLES, processor};

const PERIOD: Span = Span::from_millis(1);
const LATENCY: Span = Span::from_millis(5);
/// Time for reports before the first packet, until receivers know their senders' clocks.
const EXCHANGE: Span = Span::from_millis(2500);

const LEAD: Span = Span::from_secs(1);

pub(crate) const DEVICE: Settings = Settings {
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    period: Frames::new(FRAMES as i64),
    periods: 2,
};

pub(crate) const FORMAT: StreamFormat = StreamFormat {
    codec: None,
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    sample: SampleFormat::L16,
    packet: Frames::new(FRAMES as i64),
    payload_type: StreamFormat::default_payload_type(SampleFormat::L16),
};

pub(crate) const OPTIONS: RunOptions = RunOptions {
    scheduler: Scheduler::Other,
    duration: None,
    stall_monitor: false,
    lock_memory: true,
    words: |note| Some(format!("{note:?}")),
};

pub(crate) fn sending(to: SocketAddr) -> UdpOptions {
    let mut options = UdpOptions::sender(vec![to]);
    options.datagram_bytes = STAMPED_HEADER_BYTES + FORMAT.payload_bytes();
    options.transmit_stamp_every = 50;
    options
}

pub(crate) fn receiving() -> UdpOptions {
    let mut options = UdpOptions::receiver("127.0.0.1:0".parse().unwrap());
    options.datagram_bytes = 20 * FORMAT.payload_bytes() + STAMPED_HEADER_BYTES;
    options
}

pub(crate) struct Ours {
    senders: Vec<Loan>,
    receiver: Loan,
    stop: Stop,
    sending: Vec<JoinHandle<Report>>,
    receiving: JoinHandle<Report>,
    block: [f32; SAMPLES],
    capture: LocalTime,
    periods: u64,
    received: Received,
    streams: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    EachAtItsPort,
    AllAtOne,
}

impl Ours {
    pub(crate) fn open(streams: usize, received: Received) -> Self {
        let stop = Stop::default();
        let (plans, addresses): (Vec<_>, Vec<_>) = match received {
            Received::EachAtItsPort => (0..streams).map(|_| incoming(None)).unzip(),
            Received::AllAtOne => {
                let (plan, address) = incoming(NonZeroUsize::new(streams));
                (vec![plan], vec![address; streams])
            }
        };
        let (receiver, receiving) = receive(plans, stop.clone());
        let (senders, sending) = addresses.into_iter().map(|to| send(to, stop.clone())).unzip();
        let mut ours = Self {
            senders,
            receiver,
            stop,
            sending,
            receiving,
            block: std::array::from_fn(|index| (index as f32 * 0.37).sin() * 0.5),
            capture: now(),
            periods: 0,
            received,
            streams: streams as u64,
        };
        ours.exchange();
        ours
    }

    fn exchange(&mut self) {
        let end = now() + EXCHANGE;
        while self.received == Received::AllAtOne && now() < end {
            sleep_until(self.capture);
            self.period();
        }
        while now() < end {
            self.play(now() + PERIOD);
            sleep_until(now() + Span::from_millis(5));
        }
        if self.received == Received::EachAtItsPort {
            self.capture = now();
        }
    }

    pub(crate) fn period(&mut self) -> Cost {
        let capture = self.capture;
        self.capture += PERIOD;
        self.periods += 1;
        let begin = processor();
        for sender in &mut self.senders {
            let captured = Side {
                samples: &mut self.block,
                meets: capture,
                uncertainty: Span::ZERO,
                skipped: Frames::ZERO,
            };
            let (now, playback, xruns) = (now(), Side::absent(), 0);
            sender.process.process(&mut Cycle {
                now,
                capture: captured,
                playback,
                xruns,
                clock: Some(clock()),
            });
        }
        let sent = processor();
        self.play(capture + LATENCY - PERIOD.times(2));
        let received = processor();
        Cost { send: sent - begin, recv: received - sent }
    }

    pub(crate) fn wait(&self) {
        sleep_until(self.capture - LEAD);
    }

    fn play(&mut self, meets: LocalTime) {
        let mut samples = [0.0; SAMPLES];
        let playback =
            Side { samples: &mut samples, meets, uncertainty: Span::ZERO, skipped: Frames::ZERO };
        let (now, capture) = (now(), Side::absent());
        self.receiver.process.process(&mut Cycle {
            now,
            capture,
            playback,
            xruns: 0,
            clock: Some(clock()),
        });
        black_box(&samples);
    }

    pub(crate) fn close(self) {
        sleep_until(now() + Span::from_millis(50));
        self.receiver.end();
        self.senders.into_iter().for_each(Loan::end);
        self.stop.request();
        for report in self.sending {
            let report = report.join().unwrap();
            assert_eq!(report.streams[0].counters.send_errors, 0);
        }
        let report = self.receiving.join().unwrap();
        let mut all = 0;
        for stream in &report.streams {
            assert_eq!(stream.latency.basis, "clock");
            let counted = &stream.counters;
            let strange = [counted.lost, counted.invalid, counted.other_source];
            assert_eq!(strange, [0; 3], "{counted:?}");
            match self.received {
                Received::EachAtItsPort => {
                    let arrived = (counted.received, counted.late);
                    assert_eq!(arrived, (self.periods, 0), "{counted:?}");
                }
                // Placed by arrival until the clock is known; a busy host makes some late.
                Received::AllAtOne => assert!(counted.late < self.periods / 20, "{counted:?}"),
            }
            all += counted.received + counted.over_stream_limit;
        }
        assert_eq!(all, self.periods * self.streams, "{:#?}", report.streams[0].counters);
    }
}

fn incoming(senders: Option<NonZeroUsize>) -> (StreamPlan, SocketAddr) {
    let mut options = receiving();
    options.packets_per_second *= senders.map_or(1, NonZeroUsize::get) as u32;
    let opened = open_stream(&options, None).unwrap();
    let local = opened.addresses();
    let OpenedStream { link, control, .. } = opened;
    let address = local.0;
    let plan = StreamPlan::new(
        address.to_string(),
        JitterBufferConfig::new(RtpUnpack::usual(), FORMAT, LATENCY),
        link,
        control,
    );
    (StreamPlan { senders, ..plan }, address)
}

fn receive(streams: Vec<StreamPlan>, stop: Stop) -> (Loan, JoinHandle<Report>) {
    let engine = RecvEngine::new(RecvPlan::new(streams, DEVICE));
    let (device, loan) = lender(DEVICE);
    let engine = engine.unwrap();
    let running = std::thread::spawn(move || {
        engine.run(Box::new(device), &OPTIONS, &stop, &mut |_| {}).unwrap()
    });
    (loan(), running)
}

fn send(to: SocketAddr, stop: Stop) -> (Loan, JoinHandle<Report>) {
    let control = SocketAddr::new(to.ip(), to.port() + 1);
    let reports_to = vec![control.into()];
    let opened = open_stream(&sending(to), None).unwrap();
    let mut plan = SendPlan::new(to.to_string(), opened, FORMAT, DEVICE).unwrap();
    (plan.reports_to, plan.policy.link_offset) = (reports_to, LATENCY);
    let engine = SendEngine::new(plan).unwrap();
    let (device, loan) = lender(DEVICE);
    let running = std::thread::spawn(move || {
        engine.run(Box::new(device), &OPTIONS, &stop, &mut |_| {}).unwrap()
    });
    (loan(), running)
}
