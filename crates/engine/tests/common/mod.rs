//! Sender and receiver with virtual cards and loopback sockets.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use tautline_audio::pace::{HostPace, Pace};
use tautline_audio::{CardOptions, DeviceSpec, Extras, SoftwareSpec, open_paced};
use tautline_dsp::format::SampleFormat;
use tautline_dsp::gain::Gain;
use tautline_dsp::map::ChannelMap;
use tautline_engine::control::{ChangeSender, RecvChange, SendChange, requests};
use tautline_engine::monitor::note::Note;
use tautline_engine::monitor::run::RunOptions;
use tautline_engine::plan::probes::Probes;
use tautline_engine::plan::zone::ZonePlan;
use tautline_engine::plan::{LinkKind, SendPlan};
use tautline_engine::plan::{RecvPlan, StreamPlan};
use tautline_engine::receive_engine::RecvEngine;
use tautline_engine::send_engine::SendEngine;
use tautline_io::link::Link;
use tautline_io::link::destinations::Outbound;
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::{OpenedStream, open_stream};
use tautline_proto::device::{
    Cycle, Device, Direction, Ended, Flow, Process, Settings, Stop, TimestampSource,
};
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::receive_policy::ReceiveNote;
use tautline_proto::stream::{StreamFormat, packet_frames};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_proto::zone::ProgramRule;
use tautline_report::Report;

const REALTIME: Scheduler = Scheduler::Fifo(60);
pub(crate) type Between = fn(Box<dyn Process>) -> Box<dyn Process>;

#[derive(Clone)]
pub(crate) struct Road {
    pub(crate) period: i64,
    pub(crate) periods: u32,
    pub(crate) ptime: Span,
    pub(crate) latency: Span,
    pub(crate) link: LinkKind,
    pub(crate) ringed_receiver: bool,
    pub(crate) lasts: Span,
    pub(crate) ledger: Option<PathBuf>,
    pub(crate) gain: Gain,
    pub(crate) maps: (ChannelMap, ChannelMap),
    pub(crate) streams: usize,
    pub(crate) senders: usize,
    pub(crate) zone: Option<ZonePlan>,
    pub(crate) labels: Option<PathBuf>,
    pub(crate) probes: Probes,
    pub(crate) between: fn(Box<dyn Link>) -> Box<dyn Link>,
    pub(crate) captures: Option<Between>,
    pub(crate) record: Option<PathBuf>,
    pub(crate) started: [Started; 2],
    pub(crate) asks_sender: fn(&ChangeSender<SendChange>),
    pub(crate) asks_receiver: fn(&ChangeSender<RecvChange>),
}

impl Default for Road {
    /// Buffers longer than host stalls. A shared host lost its cores 20 times a second, and 2 ms
    /// cards had 85 underruns in 1.5 s.
    fn default() -> Self {
        Self {
            period: 48,
            periods: 48,
            ptime: Span::from_millis(1),
            latency: Span::from_millis(100),
            link: LinkKind::Auto,
            ringed_receiver: false,
            lasts: Span::from_millis(1_500),
            ledger: None,
            gain: Gain::UNITY,
            maps: (ChannelMap::identity(2), ChannelMap::identity(2)),
            streams: 1,
            senders: 1,
            zone: None,
            labels: None,
            probes: Probes::All,
            between: |link| link,
            captures: None,
            record: None,
            started: Default::default(),
            asks_sender: |_| {},
            asks_receiver: |_| {},
        }
    }
}

impl Road {
    pub(crate) fn short() -> Self {
        Self { periods: 2, latency: Span::from_millis(20), ..Self::default() }
    }

    pub(crate) fn format(&self) -> StreamFormat {
        let rate = Rate::HZ_48000;
        StreamFormat {
            codec: None,
            rate,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: packet_frames(rate, self.ptime).unwrap(),
            payload_type: StreamFormat::default_payload_type(SampleFormat::L24),
        }
    }

    fn device(&self) -> Settings {
        let period = Frames::new(self.period);
        Settings { rate: Rate::HZ_48000, channels: Channels::STEREO, period, periods: self.periods }
    }

    fn options(&self, duration: Option<Span>) -> RunOptions {
        RunOptions { scheduler: REALTIME, duration, stall_monitor: false, lock_memory: true, words }
    }

    pub(crate) fn stream(&self) -> (SocketAddr, StreamPlan) {
        let options = UdpOptions::receiver("127.0.0.1:0".parse().unwrap());
        let device = self.ringed_receiver.then_some(REALTIME);
        let opened = open_stream(&options, device).unwrap();
        let local = opened.addresses();
        let OpenedStream { link, control, .. } = opened;
        let address = local.0;
        let plan = StreamPlan::new(
            address.to_string(),
            JitterBufferConfig::new(RtpUnpack::usual(), self.format(), self.latency),
            (self.between)(link),
            control,
        );
        (address, plan)
    }

    pub(crate) fn sender(&self, to: &[SocketAddr]) -> SendPlan {
        let mut udp = UdpOptions::sender(to.to_vec());
        udp.transmit_stamp_every = 10;
        (udp.datagram_bytes, udp.batch, udp.max_destinations) = (8_000, 64, 4);
        let period = Frames::new(self.period);
        let device = self.link.spaces(&self.format(), period).then_some(REALTIME);
        let OpenedStream { link, control, outbound, .. } = open_stream(&udp, device).unwrap();
        let reports = to.iter().map(|to| SocketAddr::new(to.ip(), to.port() + 1).into());
        let (reports_to, address) = (reports.collect(), to[0].to_string());
        SendPlan { reports_to, control, ..self.sender_by(link, outbound, address) }
    }

    pub(crate) fn sender_by(
        &self,
        link: Box<dyn Link>,
        outbound: Outbound,
        address: String,
    ) -> SendPlan {
        let opened = OpenedStream { link, control: None, outbound, local: None };
        let mut plan = SendPlan::new(address, opened, self.format(), self.device()).unwrap();
        (plan.policy.link_offset, plan.stream.probes) = (self.latency, self.probes);
        SendPlan { gain: self.gain, map: self.maps.0.clone(), ..plan }
    }

    /// Sends noise. `plays` wraps the receiver's process; `meanwhile` may send to its address.
    /// Returns the receiver's report and the senders'.
    pub(crate) fn run(
        &self,
        plays: impl FnOnce(Box<dyn Process>) -> Box<dyn Process> + Send + 'static,
        meanwhile: impl FnOnce(SocketAddr),
    ) -> (Report, Vec<Report>) {
        let (addresses, streams): (Vec<_>, Vec<_>) =
            (0..self.streams).map(|_| self.stream()).unzip();
        let receiver = self.receive(streams, plays);
        let (sent, reports) = mpsc::channel();
        for (seed, address) in addresses.iter().enumerate() {
            let (road, address, sent) = (self.clone(), *address, sent.clone());
            thread::spawn(move || {
                for sender in 0..road.senders {
                    let _ = sent.send(road.send(road.sender(&[address]), seed + 100 * sender));
                }
            });
        }
        drop(sent);
        meanwhile(addresses[0]);
        let reports = reports.iter().collect();
        (receiver.join().unwrap(), reports)
    }

    pub(crate) fn receive(
        &self,
        streams: Vec<StreamPlan>,
        plays: impl FnOnce(Box<dyn Process>) -> Box<dyn Process> + Send + 'static,
    ) -> thread::JoinHandle<Report> {
        let mut engine = RecvEngine::new(RecvPlan {
            streams,
            clock: None,
            select: ProgramRule::Mix,
            zone: self.zone.clone(),
            gain: self.gain,
            map: self.maps.1.clone(),
            device: self.device(),
            exit_on_bye: true,
            probes: self.probes,
            ledger: self.ledger.clone(),
            labels: self.labels.clone(),
        })
        .unwrap();
        let (asker, requested) = requests();
        engine.listen(requested);
        let requests = self.asks_receiver;
        thread::spawn(move || requests(&asker));
        let options = CardOptions { record: self.record.clone(), ..CardOptions::default() };
        let card = DeviceSpec::Software(SoftwareSpec::Virtual(options));
        let extras = Extras {
            listener: engine.listener(),
            record_format: SampleFormat::L24,
            ..Extras::default()
        };
        let pace = Box::new(self.started[1].clone());
        let opened = open_paced(&card, Direction::Playback, self.device(), extras, pace).unwrap();
        let device = Box::new(Wrapped(opened.device, Some(plays)));
        let options = self.options(Some(Span::from_secs(20)));
        thread::spawn(move || engine.run(device, &options, &Stop::default(), &mut |_| {}).unwrap())
    }

    pub(crate) fn send(&self, plan: SendPlan, seed: usize) -> Report {
        let captures = self.captures;
        self.send_by(plan, move |process| match captures {
            Some(captures) => captures(process),
            None => Box::new(Noise { process, state: 0x9E37_79B9 ^ (seed as u32 + 1) }),
        })
    }

    /// `captures` wraps the sender's process.
    pub(crate) fn send_by(
        &self,
        plan: SendPlan,
        captures: impl FnOnce(Box<dyn Process>) -> Box<dyn Process> + Send + 'static,
    ) -> Report {
        let options = self.options(Some(self.lasts));
        let mut engine = SendEngine::new(plan).unwrap();
        let (asker, requested) = requests();
        engine.listen(requested);
        let requests = self.asks_sender;
        thread::spawn(move || requests(&asker));
        let card = DeviceSpec::Software(SoftwareSpec::Virtual(CardOptions::default()));
        let extras = Extras::default();
        let pace = Box::new(self.started[0].clone());
        let opened = open_paced(&card, Direction::Capture, self.device(), extras, pace).unwrap();
        let device = Box::new(Wrapped(opened.device, Some(captures)));
        engine.run(device, &options, &Stop::default(), &mut |_| {}).unwrap()
    }
}

#[derive(Clone, Default)]
pub(crate) struct Started(pub(crate) Arc<OnceLock<LocalTime>>);

impl Pace for Started {
    fn now(&mut self) -> LocalTime {
        let now = HostPace.now();
        self.0.get_or_init(|| now);
        now
    }

    fn sleep_until(&mut self, due: LocalTime) {
        HostPace.sleep_until(due);
    }
}

struct Wrapped<W>(Box<dyn Device>, Option<W>);

impl<W: FnOnce(Box<dyn Process>) -> Box<dyn Process> + Send> Device for Wrapped<W> {
    fn settings(&self) -> Settings {
        self.0.settings()
    }

    fn timestamp_source(&self) -> TimestampSource {
        self.0.timestamp_source()
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let wrap = self.1.take().expect("a test runs it once");
        self.0.run(wrap(process), stop)
    }
}

struct Noise {
    process: Box<dyn Process>,
    state: u32,
}

impl Process for Noise {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        for sample in &mut *cycle.capture.samples {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 17;
            self.state ^= self.state << 5;
            *sample = 0.5 * (self.state as f32 / u32::MAX as f32 - 0.5);
        }
        self.process.process(cycle)
    }

    fn finish(&mut self) {
        self.process.finish();
    }
}

fn words(note: &Note<'_>) -> Option<String> {
    Some(match note {
        Note::Receiving { note: ReceiveNote::TooShort { needs, latency }, .. } => {
            let maximum = if *latency < needs.without_network() { "most " } else { "" };
            format!(
                "the device here takes {}, so {latency} is too little and {maximum}packets will be \
                 late; use --latency {}",
                needs.device,
                needs.total()
            )
        }
        Note::LinkLost { place, .. } => format!("{place} is not connected any more"),
        Note::LinkFound { place, .. } => format!("{place} is connected again"),
        Note::NoAnswer { .. } => "no receiver has answered".into(),
        other => format!("{other:?}"),
    })
}
