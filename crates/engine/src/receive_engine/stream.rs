//! A received stream on the ordinary thread.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer};
use tautline_io::clock::{WallClock, host_clock, now, tai};
use tautline_io::control::Waiter;
use tautline_io::link::event_queue::event_channel;
use tautline_io::thread::memory;
use tautline_proto::clock::{ClockMapping, ReportedRate};
use tautline_proto::device::Settings;
use tautline_proto::endpoint::{Author, Host};
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, ReceiveCommand};
use tautline_proto::latency::LatencyRule;
use tautline_proto::ledger::{Outcome, PacketTrace, Stage};
use tautline_proto::policy::Context;
use tautline_proto::receive_policy::{LatencyRefused, ReceiveNote, ReceivePolicy};
use tautline_proto::rtcp_session::{Event, Session, SessionConfig};
use tautline_proto::time::{Frames, LocalTime, Span, WallTime};
use tautline_report::ledger::ReceivedEntry;
use tautline_report::snapshot::{
    ClockSnapshot, LatencySnapshot, SENDER_XRUNS, StreamSnapshot, StreamState,
};
use tautline_report::{GapReport, StreamEnd};

use crate::control::{CannotChange, Fader};
use crate::conversation::{Audience, Conversation, cname};
use crate::error::RunError;
use crate::link_news::LinkNews;
use crate::monitor::ledger_file::LedgerFile;
use crate::monitor::levels::levels;
use crate::monitor::note::Note;
use crate::monitor::run::RunWatch;
use crate::monitor::sound::{FoundPacket, Hearing, Measurement, PacketTap};
use crate::plan::probes::Probes;
use crate::plan::random;
use crate::plan::{StreamPlan, packets_within};
use crate::receive_engine::mixer::{LabelMark, LabelMarks, MixerCommand, MixerInput, RxStatus};
use crate::receive_engine::sharing::{LinkShare, SharedReport};
use crate::receive_engine::statistics::Statistics;
use crate::receive_engine::summary;
use crate::receive_engine::zone::AnnouncedNews;

pub(crate) struct ReceivedStream {
    pub(crate) address: String,
    sealed: Option<&'static str>,
    pub(crate) fader: Fader,
    config: JitterBufferConfig,
    pub(crate) policy: ReceivePolicy,
    pub(crate) conversation: Conversation,
    commands: Producer<MixerCommand>,
    passages: Consumer<PacketTrace>,
    status: Consumer<RxStatus>,
    pub(crate) marks: Option<Consumer<LabelMark>>,
    pub(crate) measurement: Option<Measurement>,
    pub(crate) statistics: Statistics,
    /// Rejected clock answers and clock steps: the maximum over all senders.
    refused_exchanges: u32,
    clock_steps: u32,
    pub(crate) number: usize,
    pub(crate) shares: Option<LinkShare>,
    pub(crate) carries_clock: bool,
    /// At an announcement port.
    pub(crate) announced: Option<AnnouncedNews>,
    pending: VecDeque<PacketTrace>,
    news: LinkNews,
}

/// Capacity for packet traces: about twelve beats.
const LINES_HELD: Span = Span::from_millis(250);

const MARKS: usize = 2048;

pub(crate) struct Mix {
    pub(crate) wall: WallClock,
    pub(crate) device: Settings,
    pub(crate) waiter: Waiter,
    pub(crate) probes: Probes,
    pub(crate) labels: bool,
}

pub(crate) fn connect(
    mut stream: StreamPlan,
    mut receiver: JitterBuffer,
    received: Option<(Measurement, PacketTap)>,
    number: usize,
    mix: &Mix,
) -> Result<(ReceivedStream, MixerInput), RunError> {
    let format = stream.receiver.format;
    let random = random().map_err(|error| RunError::System("reading /dev/urandom", error))?;
    if let Some(control) = &stream.control {
        mix.waiter
            .add(&**control, number as u64)
            .map_err(|error| RunError::System("waiting for reports", error))?;
    }
    let session = Session::new(SessionConfig {
        ssrc: u32::from_ne_bytes([random[0], random[1], random[2], random[3]]),
        cname: cname(&random),
        wall_offset: mix.wall.offset(),
        host: host_clock(),
    });
    let (commands_in, commands) = memory::ring(64);
    let (passages, passages_out) = memory::ring(packets_within(LINES_HELD, format.ptime()));
    let (event_sender, reported) = event_channel(1);
    stream.link.notify(event_sender);
    let (status, status_out) = memory::ring(8);
    let link_offset = stream.receiver.link_offset;
    let mut policy = ReceivePolicy::new(stream.policy, link_offset, mix.device, &mut receiver);
    if policy.presents() {
        // Before the device's first block: packets placed by arrival would start wrong and be
        // resampled into place.
        let command = &mut |command| {
            receiver.apply(command);
            true
        };
        policy.present_by(tai::tai().mapping, &mut Context { now: now(), session: None, command });
    }
    let (measurement, tap) = received.unzip();
    let (link, gain) = (stream.link, stream.gain);
    let mut input = MixerInput::new(number, receiver, link, gain, commands, passages, status);
    let (levels, level_reader) = levels(format.channels.count());
    (input.tap, input.levels) = (tap, levels);
    let (marks, marks_out) = mix.labels.then(|| memory::ring(MARKS)).unzip();
    input.marks = marks.map(LabelMarks::new);
    input.announces = stream.announces.then_some(WallTime::default());
    let audience = match stream.announces {
        true => Audience::Stations(Vec::new()),
        false => Audience::Peer(None),
    };
    let mut conversation = Conversation::new(session, stream.control, audience);
    conversation.claims = stream.announces.then(Vec::new);
    let received = ReceivedStream {
        address: stream.address,
        sealed: stream.sealed,
        fader: Fader { gain: stream.gain, muted: false },
        config: stream.receiver,
        policy,
        conversation,
        commands: commands_in,
        passages: passages_out,
        status: status_out,
        marks: marks_out,
        measurement,
        statistics: Statistics::new(mix.probes, level_reader),
        refused_exchanges: 0,
        clock_steps: 0,
        number,
        shares: None,
        carries_clock: stream.carries_clock,
        announced: stream.announces.then(AnnouncedNews::default),
        pending: VecDeque::new(),
        news: LinkNews::of(reported.events),
    };
    Ok((received, input))
}

/// Later packets after which a packet that was not found is not measured.
const TIMEOUT: usize = 1024;

struct PacketLog<'a> {
    statistics: &'a mut Statistics,
    ledger: Option<&'a mut LedgerFile<ReceivedEntry>>,
    stream: usize,
    pending: &'a mut VecDeque<PacketTrace>,
}

impl PacketLog<'_> {
    fn enter(&mut self, passage: &PacketTrace, found: Option<&FoundPacket>) {
        self.statistics.enter(passage, found);
        self.record(passage, found);
    }

    fn record(&mut self, passage: &PacketTrace, found: Option<&FoundPacket>) {
        if let Some(ledger) = &mut self.ledger {
            let measured = found.map(|found| found.measured);
            ledger.push(ReceivedEntry { stream: self.stream, passage: *passage, measured });
        }
    }

    fn found(&mut self, found: FoundPacket) {
        self.statistics.found(found);
        let same = |p: &PacketTrace| p.media == found.media && !p.is_late();
        let Some(at) = self.pending.iter().position(same) else { return };
        for _ in 0..=at {
            let Some(passage) = self.pending.pop_front() else { return };
            self.enter(&passage, same(&passage).then_some(&found));
        }
    }
}

fn headroom(passage: &PacketTrace) -> Option<Span> {
    match passage.is_late() {
        true => passage.stage(Stage::Device),
        false => Some(passage.taken - passage.arrival),
    }
}

impl ReceivedStream {
    fn decide<T>(
        &mut self,
        decide: impl FnOnce(&mut ReceivePolicy, &mut Context<'_, ReceiveCommand>) -> T,
    ) -> T {
        let Self { policy, conversation, commands, statistics, .. } = self;
        let mut context = Context {
            now: now(),
            session: Some(&mut conversation.session),
            command: &mut |command| commands.push(MixerCommand::Receive(command)).is_ok(),
        };
        let decided = decide(policy, &mut context);
        statistics.clock = policy.clock();
        decided
    }

    pub(crate) fn converse(&mut self, watch: &mut RunWatch) {
        let mut events = Vec::new();
        self.conversation.handle(self.policy.speaker(), |from, event| events.push((from, event)));
        self.answer(events, watch);
    }

    pub(crate) fn converse_about<'a>(
        &mut self,
        said: impl Iterator<Item = &'a SharedReport>,
        watch: &mut RunWatch,
    ) {
        let mut events = Vec::new();
        self.conversation.ask_kernel();
        for said in said {
            let notify = &mut |from, event| events.push((from, event));
            self.conversation.listen(self.policy.speaker(), &said.kept.datagram(), notify);
        }
        self.answer(events, watch);
    }

    fn answer(&mut self, events: Vec<(Host, Event)>, watch: &mut RunWatch) {
        self.count_lies();
        if let Some(announced) = &mut self.announced {
            let left = events.iter().filter(|(_, event)| matches!(event, Event::Left(_)));
            announced.left.extend(left.map(|(_, event)| event.ssrc()));
        }
        let own = self.shares.and_then(|shares| shares.author).filter(|_| self.announced.is_some());
        self.decide(|policy, context| {
            for (from, event) in events {
                // An announcement port also answers stations without packets.
                if own.is_none_or(|own| own.ssrc == event.ssrc()) {
                    policy.handle(from, event, context);
                }
            }
        });
        if let Some(receiving) = self.policy.receiving(self.statistics.recent()) {
            self.conversation.session.set_receiving(receiving);
        }
        self.conversation.speak();
        self.note(watch);
    }

    /// Takes the clock of a station from before its first packet.
    pub(crate) fn adopt(&mut self, author: Author, clock: ClockMapping) {
        let mapped = Event::Mapped(author.ssrc, clock);
        self.decide(|policy, context| policy.handle(author.host, mapped, context));
    }

    pub(crate) fn turn(
        &mut self,
        watch: &mut RunWatch,
        ledger: Option<&mut LedgerFile<ReceivedEntry>>,
        hearing: &Hearing,
    ) {
        self.measure(ledger, hearing);
        while let Ok(status) = self.status.pop() {
            self.statistics.status = Some(status);
            self.statistics.xruns.take(&status.stream.faults);
            let stalled = |from, to| watch.stall_monitor.overlaps(from, to);
            self.decide(|policy, context| policy.follow(&status.stream, stalled, context));
        }
        self.statistics.count_missed(self.policy.sender_device());
        if self.policy.presents() {
            let tai = tai::tai();
            self.statistics.tai_is_uncertain = tai.uncertain;
            self.decide(|policy, context| policy.present_by(tai.mapping, context));
        }
        self.decide(ReceivePolicy::poll);
        self.news.handle(&self.address, |note| watch.note(note), |_| ());
        if let Some(error) = self.news.take_error(&self.address) {
            watch.note(&error);
        }
        self.note(watch);
    }

    /// Resamples by the followed clock, if packets carry presentation times.
    pub(crate) fn keep_pace(&mut self, reported: ReportedRate) {
        if self.policy.presents() {
            self.decide(|policy, context| policy.keep_pace(reported, context));
        }
    }

    fn note(&mut self, watch: &mut RunWatch) {
        for note in &self.policy.notes() {
            watch.note(&Note::Receiving { address: &self.address, note });
        }
    }

    pub(crate) fn finish(
        &mut self,
        watch: &mut RunWatch,
        ledger: Option<&mut LedgerFile<ReceivedEntry>>,
        hearing: &Hearing,
    ) {
        // The sender's last report can follow the last status.
        self.statistics.count_missed(self.policy.sender_device());
        let need = self.policy.finish(|from, to| watch.stall_monitor.overlaps(from, to));
        self.note(watch);
        if let Some(note) = &need {
            watch.conclude(&Note::Receiving { address: &self.address, note });
        }
        let Self { measurement, statistics, pending, number, .. } = self;
        let mut log = PacketLog { statistics, ledger, stream: *number, pending };
        if let Some(measurement) = measurement {
            measurement.finish(hearing, &mut |found| log.found(found));
            log.statistics.unfound.add(core::mem::take(&mut measurement.unfound));
        }
        while let Some(passage) = log.pending.pop_front() {
            log.enter(&passage, None);
        }
        self.conversation.leave();
    }

    fn measure(&mut self, ledger: Option<&mut LedgerFile<ReceivedEntry>>, hearing: &Hearing) {
        let Self { measurement, statistics, policy, pending, number, passages, .. } = self;
        let mut log = PacketLog { statistics, ledger, stream: *number, pending };
        if let Some(measurement) = measurement {
            measurement.listen();
        }
        log.statistics.presented_after = policy.presented_after();
        while let Ok(passage) = passages.pop() {
            if passage.outcome == Outcome::Discarded {
                log.record(&passage, None);
                continue;
            }
            if !policy.take(&passage) || !log.statistics.probe(&passage) {
                continue;
            }
            log.statistics.promise(&passage);
            let measurement = measurement.as_mut().filter(|_| !passage.is_late());
            if !measurement.is_some_and(|measurement| measurement.expect(&passage, hearing)) {
                log.enter(&passage, None);
                continue;
            }
            log.pending.push_back(passage);
            if log.pending.len() > TIMEOUT
                && let Some(oldest) = log.pending.pop_front()
            {
                log.enter(&oldest, None);
            }
        }
        if let Some(measurement) = measurement {
            measurement.search(hearing, &mut |found| log.found(found));
            log.statistics.unfound.add(core::mem::take(&mut measurement.unfound));
        }
    }

    /// Counts the sender before a goodbye clears the session.
    fn count_lies(&mut self) {
        let (Some(ssrc), session) = (self.policy.received(), &self.conversation.session) else {
            return;
        };
        self.refused_exchanges = self.refused_exchanges.max(session.refused_exchanges(ssrc));
        self.clock_steps = self.clock_steps.max(session.clock_steps(ssrc));
    }

    pub(crate) fn set_latency(&mut self, rule: LatencyRule) -> Result<Span, CannotChange> {
        let before = self.policy.link_offset();
        let set = self.decide(|policy, context| policy.set_latency(rule, context));
        self.statistics.is_changed |= set.as_ref().is_ok_and(|latency| *latency != before);
        set.map_err(|refused| match refused {
            LatencyRefused::Busy => CannotChange::Busy,
            refused => CannotChange::Latency { address: self.address.clone(), refused },
        })
    }

    pub(crate) fn set_gain(
        &mut self,
        change: impl FnOnce(&mut Fader),
    ) -> Result<Fader, CannotChange> {
        let mut fader = self.fader;
        change(&mut fader);
        self.commands.push(MixerCommand::Gain(fader.wanted())).map_err(|_| CannotChange::Busy)?;
        self.fader = fader;
        Ok(fader)
    }

    pub(crate) fn inherit(&mut self, other: &Self) {
        self.fader = other.fader;
        self.statistics.timestamp_source = other.statistics.timestamp_source;
        self.decide(|policy, context| policy.inherit(&other.policy, context));
    }

    pub(crate) fn end(&self) -> StreamEnd {
        if self.policy.has_left() { StreamEnd::Goodbye } else { StreamEnd::Silence }
    }

    pub(crate) fn report(&self, watch: &mut RunWatch) -> tautline_report::StreamReport {
        let (policy, address) = (&self.policy, &self.address);
        let refused = policy.refusal().map(|refusal| ReceiveNote::Refused(*refusal));
        let refusal = refused.or_else(|| policy.contradicted());
        let wrong_type = policy.wrong_type().map(ReceiveNote::WrongType);
        let in_words = |note: &ReceiveNote| (watch.words)(&Note::Receiving { address, note });
        let stream = summary::ReportSource {
            refusal: refusal.as_ref().and_then(in_words),
            sounded: refused.is_none() && policy.has_sounded(),
            wrong_type: wrong_type.as_ref().and_then(in_words),
            ..self.source()
        };
        stream.note(watch);
        let silent = policy.recent().silent().filter(|_| !policy.has_left());
        let silent_ns = silent.map(Span::as_nanos);
        let report = stream.report();
        // Without packets, the drift is a guess.
        let drift_ppm = report.drift_ppm.filter(|_| silent.is_none());
        tautline_report::StreamReport { silent_ns, drift_ppm, ..report }
    }

    pub(crate) fn look(&mut self, now: LocalTime, here: bool) {
        let commands = &mut self.commands;
        let request = || commands.push(MixerCommand::Levels(here)).is_ok();
        self.statistics.observed.look(now, here, request);
        if here {
            let counters = self.source().counters();
            self.statistics.observed.follow(now, || counters);
        }
    }

    pub(crate) fn gaps(&self) -> GapReport {
        self.source().gaps()
    }

    pub(crate) fn snapshot(&mut self, now: LocalTime) -> StreamSnapshot {
        let gaps = self.gaps();
        let Self { policy, statistics, address, config, .. } = self;
        let status = statistics.status;
        let format = status.map_or(config.format, |status| status.stream.format);
        let state = match policy.recent() {
            _ if policy.refusal().is_some() || policy.contradicted().is_some() => {
                StreamState::Refused
            }
            recent if !recent.any() || policy.has_left() => StreamState::Waiting,
            recent if recent.silent().is_some() => StreamState::Silent,
            _ => StreamState::Connected,
        };
        // The sound search finds whole frames.
        let rounding = format.rate.span_of(Frames::new(1)).half();
        let nanos = |span: Span| span.as_nanos();
        let headroom = statistics.observed.packets(now).filter_map(headroom).min();
        let mut snapshot = StreamSnapshot {
            address: address.clone(),
            sender: status.as_ref().and_then(summary::sender).map(|sender| sender.from),
            state,
            rate: format.rate.hertz(),
            channels: format.channels.count(),
            format: format.coding_name().to_owned(),
            bitrate: status.and_then(|status| status.stream.bitrate),
            ptime_ns: nanos(format.ptime()),
            latency: LatencySnapshot {
                configured_ns: policy.is_latency_configured().then(|| nanos(policy.link_offset())),
                measured_ns: statistics.recent().map(|(recent, _)| nanos(recent)),
                uncertainty_ns: statistics.known_to().map(|known| nanos(known + rounding)),
                p99_ns: statistics.latency().0.percentile(0.99).map(nanos),
                method: statistics.by().to_owned(),
            },
            gaps: Some(gaps),
            target_delay_ns: policy.arrivals().needed().map(nanos),
            target_delay_has_repair: policy.arrivals().needs_repair(),
            headroom_ns: headroom.map(nanos),
            clock: statistics.clock.as_ref().map(|clock| ClockSnapshot {
                uncertainty_ns: statistics.known_to().map(nanos),
                ..ClockSnapshot::of(clock)
            }),
            ..StreamSnapshot::default()
        };
        let xruns_there = policy.sender_device().xruns;
        statistics.observed.notify(now, summary::worst, &mut snapshot);
        if xruns_there > 0 {
            snapshot.counters.insert(SENDER_XRUNS.to_owned(), xruns_there);
        }
        snapshot
    }

    fn source(&self) -> summary::ReportSource<'_> {
        let (policy, address) = (&self.policy, &self.address);
        summary::ReportSource {
            address,
            sealed: self.sealed,
            config: &self.config,
            link_offset: policy.link_offset(),
            reported: policy.is_latency_reported(),
            configured: policy.is_latency_configured(),
            rule: policy.rule(),
            statistics: &self.statistics,
            arrivals: policy.arrivals(),
            invalid_reports: self.conversation.invalid,
            foreign_reports: self.conversation.session.foreign(),
            refused_exchanges: self.refused_exchanges,
            clock_steps: self.clock_steps,
            refusal: None,
            sounded: true,
            wrong_type: None,
            announced: policy.announced().map(|announced| announced.format),
            sender_device: policy.sender_device(),
        }
    }
}
