//! Send engine: captures from one device, sends one stream, and reports.

mod announcement;
mod change;
mod claim;
mod stream;
mod transmitter;

use tautline_dsp::gain::Volume;
use tautline_io::clock::{WallClock, host_clock, now, sleep_until};
use tautline_io::link::event_queue::event_channel;
use tautline_io::thread::memory;
use tautline_proto::device::{Device, ReplacedTime, Stop};
use tautline_proto::faults::{Faults, UnjudgedFaults};
use tautline_proto::latency::LatencyRule;
use tautline_proto::packetizer::Packetizer;
use tautline_proto::rtcp_session::{Session, SessionConfig};
use tautline_proto::send_policy::{PRELUDE, SendPolicy};
use tautline_proto::stream::PTIME_RANGE;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::Report;
use tautline_report::distribution::Distribution;

use crate::control::{Fader, Requests, SendChange, VOLUME_RAMP};
use crate::conversation::{Audience, Conversation, cname, wait_for};
use crate::error::RunError;
use crate::link_news::LinkNews;
use crate::monitor::ledger_file::LedgerFile;
use crate::monitor::levels::levels;
use crate::monitor::machine;
use crate::monitor::note::Note;
use crate::monitor::observed::Observed;
use crate::monitor::observers::Observers;
use crate::monitor::run::{Progress, RunOptions, RunWatch, Running};
use crate::monitor::xruns::XrunTimes;
use crate::plan::SendPlan;
use crate::plan::pacing::Paced;
use crate::plan::probes::Probes;
use crate::plan::random;
use crate::send_engine::announcement::SentAnnouncement;
use crate::send_engine::claim::FollowedClaim;
use crate::send_engine::stream::{PresentationClock, SentStream};
use crate::send_engine::transmitter::{Transmitter, TxStatus};

pub use crate::send_engine::stream::LostHook;

/// Capacity for transmit timestamps: half a second of class A packets.
const STAMPS: usize = 4096;

/// A sender that is ready to run.
pub struct SendEngine {
    transmitter: Transmitter,
    stream: SentStream,
    drain: Span,
    requests: Option<Requests<SendChange>>,
    observers: Observers,
}

impl SendEngine {
    /// Allocates everything for the run.
    pub fn new(plan: SendPlan) -> Result<Self, RunError> {
        let wall = if plan.policy.form.presents() { WallClock::tai() } else { WallClock::frozen() };
        // Capacity: a quarter of a second of the shortest packets, about twelve beats.
        let (event_sender, reported) = event_channel(2048);
        let measures = plan.stream.probes != Probes::Off;
        let mut link = plan.link;
        link.notify(if measures { event_sender } else { event_sender.without_departures() });
        let (status_in, status) = memory::ring(64);
        let (commands, commanded) = memory::ring(64);
        let (stamps_in, stamps) = memory::ring(STAMPS);
        let (levels, level_reader) = levels(plan.map.outputs());
        let random = random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
        let session = Session::new(SessionConfig {
            ssrc: plan.policy.identity.stream.ssrc(),
            cname: cname(&random),
            wall_offset: wall.offset(),
            host: host_clock(),
        });
        let mut config = plan.policy;
        let (device, identity) = (config.device, config.identity);
        config.compressed = plan.encoders.iter().map(|encoder| encoder.coding()).collect();
        config.held = plan.stream.pacing.as_ref().map_or(Span::ZERO, Paced::lead);
        if plan.announcement.is_some() {
            // Claimed times need a constant latency.
            config.latency = LatencyRule::Chosen(config.link_offset);
        }
        if !matches!(config.latency, LatencyRule::Chosen(_)) {
            config.usual = config.link_offset;
        }
        let sender = Packetizer::compressing(config.sender(wall.offset()), plan.encoders);
        let block = plan.map.outputs() * device.period.as_len().max(4096);
        let transmitter = Transmitter {
            sender,
            link,
            volume: Volume::over(plan.gain, VOLUME_RAMP),
            gain: plan.gain,
            map: plan.map,
            channels: device.channels.count(),
            mapped: vec![0.0; block].into(),
            commands: commanded,
            status: status_in,
            stamps: stamps_in,
            levels,
            xruns: 0,
            faults: Faults::NONE,
            woke: now(),
            clock: None,
            first: None,
            reported: LocalTime::ZERO,
        };
        let packing_age = config.format.packing_age(device.period);
        let drain =
            if plan.stream.outbound.ringed { packing_age.max(PTIME_RANGE.1) } else { Span::ZERO };
        let drain = drain + config.held;
        let presented = config.form.presents().then(PresentationClock::default);
        let policy = SendPolicy::new(config);
        let announcement = plan.announcement.map(SentAnnouncement::new).transpose()?;
        let claim = plan.claim.map(|claim| FollowedClaim::of(claim, &plan.stream.outbound));
        let stream = SentStream {
            config: plan.stream,
            policy,
            identity,
            fader: Fader { gain: plan.gain, muted: false },
            destined: None,
            conversation: Conversation::new(session, plan.control, Audience::All(plan.reports_to)),
            commands,
            departures: reported.departures,
            news: LinkNews::of(reported.events),
            dropped_by_queue: Vec::new(),
            departed: None,
            left: 0,
            stamps,
            status,
            last: TxStatus::default(),
            replaced: ReplacedTime::default(),
            xruns: XrunTimes::default(),
            unjudged: UnjudgedFaults::default(),
            stalled: 0,
            stages: Default::default(),
            lateness: Distribution::default(),
            transmit: Distribution::default(),
            observed: Observed::new(level_reader),
            ledger: plan.ledger.as_deref().map(LedgerFile::create).transpose()?,
            presented,
            claim,
            announcement,
            on_lost: None,
        };
        Ok(Self { transmitter, stream, drain, requests: None, observers: Observers::none() })
    }

    /// Publishes snapshots.
    pub fn show_to(&mut self, observers: Observers) {
        self.observers = observers;
    }

    /// Sets the hook for receivers that stop reporting without a goodbye.
    pub fn on_lost(&mut self, hook: LostHook) {
        self.stream.on_lost = Some(hook);
    }

    /// Applies changes from `requests` during the run.
    pub fn listen(&mut self, requests: Requests<SendChange>) {
        self.requests = Some(requests);
    }

    /// Runs until the source ends or `stop`.
    pub fn run(
        self,
        device: Box<dyn Device>,
        options: &RunOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Report, RunError> {
        let Self { transmitter, mut stream, drain, requests, observers } = self;
        let mut watch = RunWatch::begin(options);
        stream.last.clock = device.clock();
        stream.replaced = device.replaced();
        stream.note(&mut watch);
        let prelude = now() + PRELUDE;
        // Receivers answer the first report, so it precedes any wait.
        stream.turn(&mut watch);
        while now() < prelude && !stop.is_requested() {
            wait_for(&stream.conversation, prelude);
            stream.turn(&mut watch);
        }
        let running = Running::start(device, Box::new(transmitter), options.scheduler, stop)?;
        watch.start(options);
        machine::note_priority(&mut watch.refused, &running.granted);
        let scheduler = running.granted.effective().to_string();
        while !watch.is_over(stop) && !running.is_over() {
            wait_for(&stream.conversation, watch.beat().min(stream.claim_due()));
            if let Some(requests) = &requests {
                requests.serve(|change| stream.change(change, &mut watch));
            }
            stream.turn(&mut watch);
            progress(&stream.progress(&watch));
            stream.publish(&observers, watch.began);
        }
        let ended = now();
        let process = running.end()?;
        sleep_until(now() + drain + drain);
        stream.turn(&mut watch);
        drop(process);
        stream.turn(&mut watch);
        stream.claim_end();
        stream.finish(&mut watch);
        // A short run reported no progress.
        progress(&stream.progress(&watch));
        stream.conversation.leave();
        stream.note_refusals(&mut watch);
        let report = stream.report();
        let incomplete_files: Vec<_> =
            stream.ledger.and_then(LedgerFile::finish).into_iter().collect();
        incomplete_files.iter().for_each(|flaw| watch.note(&Note::Unwritten(flaw)));
        Ok(Report {
            schema: 2,
            role: "send".into(),
            started_ns: watch.began.as_nanos(),
            duration_ns: (ended - watch.began).as_nanos(),
            streams: vec![report],
            clock: None,
            host: machine::host(scheduler, watch.stall_monitor.log().total(), watch.refused),
            incomplete_files,
            notes: watch.notes,
        })
    }
}
