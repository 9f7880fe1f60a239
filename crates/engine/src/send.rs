//! Captures and sends: from one device to one stream with any number of destinations, and the
//! report of it.

use std::net::SocketAddr;

use rtrb::Consumer;
use tautline_dsp::gain::{Gain, Volume};
use tautline_dsp::map::ChannelMap;
use tautline_io::clock::{WallClock, now, sleep_until};
use tautline_io::link::{LinkCounters, TransmitStamp};
use tautline_io::memory;
use tautline_io::pair::open_pair;
use tautline_io::udp::UdpOptions;
use tautline_io::wire_thread::{Ringed, WireOptions};
use tautline_proto::clock::ClockMapping;
use tautline_proto::device::{Device, Settings, Stop};
use tautline_proto::ledger::Departure;
use tautline_proto::sender::{Identity, Sender, SenderConfig};
use tautline_proto::session::{Event, Sending, Session, SessionConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::wire::rtcp::{Effective, ReportBlock};

use crate::distribution::Distribution;
use crate::ledger_file::LedgerFile;
use crate::machine;
use crate::recv::least_latency;
use crate::report::{Counters, Latency, RemoteReceiver, Report, StageSummary, Stream};
use crate::run::{Progress, RunError, RunOptions, Running, Watch};
use crate::session::{Audience, Talk, author, wait_for};
use crate::summary::{cname, format_name};
use crate::tx::{Transmitter, TxStatus};

/// Who makes the system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkKind {
    /// Direct where a period holds one packet at most, else ringed.
    #[default]
    Auto,
    /// The device's thread.
    Direct,
    /// A wire thread, which spaces the packets of a period.
    Ringed,
}

impl LinkKind {
    /// Whether a wire thread is to be used for packets of this length at this period.
    pub fn is_ringed(self, packet: Frames, period: Frames) -> bool {
        match self {
            Self::Auto => period > packet,
            Self::Direct => false,
            Self::Ringed => true,
        }
    }
}

/// What to send and how.
pub struct SendPlan {
    /// As they were given, for the report.
    pub address: String,
    /// Where reports go: the RTCP address of each destination.
    pub reports_to: Vec<SocketAddr>,
    /// The sockets; holds the destinations of the packets.
    pub udp: UdpOptions,
    /// Who makes the system calls.
    pub link: LinkKind,
    /// What the stream is.
    pub format: StreamFormat,
    /// The latency it promises.
    pub link_offset: Span,
    /// Whether packets carry the sender's instants.
    pub stamps: bool,
    /// Gain before packing.
    pub gain: Gain,
    /// Device channels to stream channels.
    pub map: ChannelMap,
    /// How the device runs.
    pub device: Settings,
    /// Of the stream.
    pub identity: Identity,
    /// Writes the ledger of every packet here.
    pub ledger: Option<std::path::PathBuf>,
}

/// A random identity for a stream.
pub fn random_identity() -> Result<Identity, RunError> {
    let random =
        machine::random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
    let word = |at: usize| {
        u32::from_ne_bytes([random[at], random[at + 1], random[at + 2], random[at + 3]])
    };
    Ok(Identity { ssrc: word(0), sequence: word(4) as u16, timestamp: word(8) })
}

/// What a receiver of ours said of itself.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    ssrc: u32,
    block: Option<ReportBlock>,
    effective: Option<Effective>,
    clock: Option<ClockMapping>,
}

/// What the ordinary thread holds.
struct Desk {
    plan: Promise,
    talk: Talk,
    departures: Consumer<Departure>,
    stamps: Consumer<TransmitStamp>,
    status: Consumer<TxStatus>,
    last: TxStatus,
    stages: [Distribution; 3],
    lateness: Distribution,
    transmit: Distribution,
    receivers: Vec<Heard>,
    ledger: Option<LedgerFile>,
}

/// What of the plan outlives its set-up.
struct Promise {
    address: String,
    format: StreamFormat,
    link_offset: Span,
    packing_age: Span,
    /// The least latency of a receiver whose device runs as ours does.
    likewise: Span,
    identity: Identity,
}

/// A sender that is ready to run.
pub struct SendEngine {
    transmitter: Transmitter,
    desk: Desk,
    /// How long after the last block packets may still wait for their departure.
    drain: Span,
}

/// Reports exchanged before the first packet: receivers that are there already then know our
/// clock when it comes.
const PRELUDE: Span = Span::from_millis(50);
/// Receivers remembered for the report.
const RECEIVERS: usize = 64;

impl SendEngine {
    /// Opens the sockets and lays out all that the run will need.
    pub fn open(plan: SendPlan, options: &RunOptions) -> Result<Self, RunError> {
        let wall = WallClock::frozen();
        let (mut direct, control) = open_pair(&plan.udp)?;
        // A quarter of a second of the shortest packets: a dozen times what one beat brings.
        let (departures_in, departures) = memory::ring(2048);
        direct.record_departures(departures_in);
        let ringed = plan.link.is_ringed(plan.format.packet, plan.device.period);
        let link: Box<dyn tautline_io::link::Link> = if ringed {
            Box::new(Ringed::start(direct, WireOptions::below(options.scheduler, &plan.udp))?)
        } else {
            Box::new(direct)
        };
        let (status_in, status) = memory::ring(64);
        let (stamps_in, stamps) = memory::ring(256);
        let random =
            machine::random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
        let session = Session::new(SessionConfig {
            ssrc: plan.identity.ssrc,
            cname: cname(&random),
            wall_offset: wall.offset(),
        });
        let sender = Sender::new(SenderConfig {
            format: plan.format,
            identity: plan.identity,
            period: plan.device.period,
            stamps: plan.stamps,
            wall_offset: wall.offset(),
        });
        let block = plan.map.outputs() * plan.device.period.as_len().max(4096);
        let transmitter = Transmitter {
            sender,
            link,
            volume: Volume::new(plan.gain),
            gain: plan.gain,
            map: plan.map,
            channels: plan.device.channels.count(),
            mapped: vec![0.0; block].into(),
            status: status_in,
            stamps: stamps_in,
            xruns: 0,
        };
        let drain = if ringed { plan.format.packing_age(plan.device.period) } else { Span::ZERO };
        let packing_age = plan.format.packing_age(plan.device.period);
        let desk = Desk {
            talk: Talk::new(session, control, Audience::Everyone(plan.reports_to)),
            plan: Promise {
                address: plan.address,
                format: plan.format,
                link_offset: plan.link_offset,
                packing_age,
                likewise: least_latency(packing_age, &plan.device),
                identity: plan.identity,
            },
            departures,
            stamps,
            status,
            last: TxStatus::default(),
            stages: Default::default(),
            lateness: Distribution::default(),
            transmit: Distribution::default(),
            receivers: Vec::with_capacity(RECEIVERS),
            ledger: plan.ledger.as_deref().map(LedgerFile::create).transpose()?,
        };
        Ok(Self { transmitter, desk, drain })
    }

    /// Runs until the device's source ends or somebody asks to stop, then reports.
    pub fn run(
        self,
        device: Box<dyn Device>,
        options: &RunOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Report, RunError> {
        let Self { transmitter, mut desk, drain } = self;
        let mut watch = Watch::begin(options);
        desk.note_latency(&mut watch);
        let prelude = now() + PRELUDE;
        while now() < prelude && !stop.is_requested() {
            wait_for(std::iter::once(&desk.talk), prelude);
            desk.turn(&mut watch);
        }
        watch.start(options);
        let running = Running::start(device, Box::new(transmitter), options.scheduler, stop)?;
        watch.note_scheduler(&running.granted);
        let scheduler = running.granted.effective().to_string();
        while !watch.is_over(stop) && !running.is_over() {
            wait_for(std::iter::once(&desk.talk), watch.beat());
            desk.turn(&mut watch);
            progress(&desk.progress(&watch));
        }
        let ended = now();
        let process = running.end()?;
        // What the wire thread still spaces goes out before the link goes.
        sleep_until(now() + drain + drain);
        desk.turn(&mut watch);
        // Its last word: there is room for it now.
        drop(process);
        desk.turn(&mut watch);
        desk.talk.leave();
        desk.note_refusals(&mut watch);
        let stream = desk.report();
        if let Some(ledger) = desk.ledger {
            ledger.finish()?;
        }
        Ok(Report {
            schema: 1,
            role: "send",
            duration_ns: (ended - watch.began).as_nanos(),
            streams: vec![stream],
            host: machine::host(scheduler, watch.witness.book().total()),
            notes: watch.notes,
        })
    }
}

impl Desk {
    /// Says so if a receiver like this end could not keep the latency that is promised.
    fn note_latency(&self, watch: &mut Watch) {
        let Promise { link_offset, packing_age, likewise, .. } = self.plan;
        if link_offset < likewise {
            watch.note(format!(
                "packets are up to {packing_age} old when they leave, so a receiver with the periods \
                 of this end needs --latency {likewise} and {link_offset} is promised; use that, or a \
                 shorter --period"
            ));
        }
    }

    /// Says so if the kernel refused most of what was sent.
    fn note_refusals(&self, watch: &mut Watch) {
        let LinkCounters { sent, send_errors, last_error, .. } = self.last.link;
        if send_errors > sent {
            let answer = std::io::Error::from_raw_os_error(last_error);
            watch.note(format!(
                "the system refused {send_errors} of {} packets: {answer}; is the address right, and \
                 a way to it?",
                send_errors + sent
            ));
        }
    }

    fn turn(&mut self, watch: &mut Watch) {
        watch.witness.poll();
        let receivers = &mut self.receivers;
        self.talk.hear(None, |event| hear(receivers, event));
        while let Ok(departure) = self.departures.pop() {
            self.enter(&departure);
        }
        while let Ok(stamp) = self.stamps.pop() {
            self.transmit.record(stamp.left - stamp.handed);
        }
        while let Ok(status) = self.status.pop() {
            self.last = status;
        }
        self.talk.session.set_sending(Sending {
            format: self.plan.format,
            link_offset: self.plan.link_offset,
            packing_age: self.plan.packing_age,
            timestamp: self.plan.identity.timestamp,
            state: self.last.state,
        });
        self.talk.speak();
    }

    fn enter(&mut self, departure: &Departure) {
        let Departure { media, capture, taken, packed, due, handed } = *departure;
        let spans = [taken - capture, packed - taken, handed - packed];
        spans.into_iter().zip(&mut self.stages).for_each(|(span, stage)| stage.record(span));
        self.lateness.record(handed - due);
        if let Some(ledger) = &mut self.ledger {
            let start = self.plan.identity.timestamp;
            let media = tautline_proto::wrap::rtp_timestamp(media.as_frames());
            ledger.sent(start.wrapping_add(media), departure);
        }
    }

    fn progress<'a>(&self, watch: &'a Watch) -> Progress<'a> {
        let effective = self.receivers.iter().find_map(|receiver| receiver.effective);
        Progress {
            elapsed: now() - watch.began,
            packets: self.last.state.packets,
            missed: self.last.link.send_errors + self.last.link.dropped,
            xruns: self.last.xruns,
            latency: effective.map(|effective| (effective.effective, effective.uncertainty)),
            heard: false,
            notes: &watch.notes,
        }
    }

    fn report(&self) -> Stream {
        let Promise { address, format, link_offset, .. } = &self.plan;
        let names = ["capture", "pack", "send"];
        let counted = &self.last;
        Stream {
            address: address.clone(),
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format_name(format.sample),
            ptime_ns: format.ptime().as_nanos(),
            latency: Latency {
                configured_ns: link_offset.as_nanos(),
                measured: Distribution::default().summary(),
                measured_from: "receivers",
                uncertainty_ns: None,
                uncertainty_max_ns: None,
                books_error: Distribution::default().summary(),
                basis: "clock",
            },
            stages: names
                .into_iter()
                .zip(&self.stages)
                .map(|(name, stage)| StageSummary { name, summary: stage.summary() })
                .collect(),
            counters: Counters {
                packets_sent: counted.state.packets,
                invalid: self.talk.invalid,
                xruns: counted.xruns,
                send_errors: counted.link.send_errors + counted.link.dropped,
                ..Counters::default()
            },
            invalid: Vec::new(),
            clock: None,
            worst: Vec::new(),
            receivers: self.receivers.iter().map(|heard| remote(heard, format)).collect(),
            transmit: (self.transmit.count() > 0).then(|| self.transmit.summary()),
            lateness: Some(self.lateness.summary()),
        }
    }
}

fn hear(receivers: &mut Vec<Heard>, event: Event) {
    let ssrc = author(&event);
    let known = receivers.iter().position(|heard| heard.ssrc == ssrc);
    let index = match known {
        Some(index) => index,
        None if receivers.len() < RECEIVERS => {
            receivers.push(Heard { ssrc, ..Heard::default() });
            receivers.len() - 1
        }
        None => return,
    };
    let heard = &mut receivers[index];
    match event {
        Event::Mapped { mapping, .. } => heard.clock = Some(mapping),
        Event::Reception { block, .. } => heard.block = Some(block),
        Event::Effective { effective, .. } => heard.effective = Some(effective),
        Event::Captured { .. } | Event::Announced { .. } | Event::Left { .. } => {}
    }
}

fn remote(heard: &Heard, format: &StreamFormat) -> RemoteReceiver {
    let jitter = heard.block.map_or(0, |block| i64::from(block.jitter));
    RemoteReceiver {
        ssrc: heard.ssrc,
        lost: heard.block.map_or(0, |block| i64::from(block.cumulative_lost)),
        jitter_ns: format.rate.span_of(Frames::new(jitter)).as_nanos(),
        effective_ns: heard.effective.map(|effective| effective.effective.as_nanos()),
        uncertainty_ns: heard.effective.map(|effective| effective.uncertainty.as_nanos()),
        round_trip_ns: heard.clock.map(|clock| clock.round_trip.as_nanos()),
    }
}
