//! One sender, its receivers, and the paths between them, in virtual time.
//!
//! The state machines of `proto` get events with the time on their own host's clock. Each captured
//! frame has a unique value, so each played frame can be identified.

pub mod duplex;
mod faults;
mod hosts;
pub mod shared;

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use tautline_dsp::format::SampleFormat;
use tautline_proto::device::Settings;
use tautline_proto::endpoint::{Arrival, Endpoint};
use tautline_proto::jitter_buffer::PullTimes;
use tautline_proto::latency::LatencyRule;
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer};
use tautline_proto::placement::Basis;
use tautline_proto::policy::Context;
use tautline_proto::redundancy::{Bounds, Redundancy, Repeats};
use tautline_proto::rtcp_session::{MAX_DATAGRAM, ReportArrival};
use tautline_proto::send_policy::{
    Limits, Regulator, SendCommand, SendNote, SendPolicy, SendPolicyConfig, SendRefused,
};
use tautline_proto::stream::{MAX_DATAGRAM_BYTES, Outgoing, StreamFormat};
use tautline_proto::time::{Frames, LocalTime, MediaPoint, Span};
use tautline_proto::wire::rtp::PACK;

use crate::beat::BEAT;
use crate::clock::TrueTime;
use crate::codec::codings;
use crate::fault::{Intruder, Lie, SenderFault, Timeline, home};
use crate::received::{Received, is_sound, value};
use crate::scenario::{OTHER_CHANNELS, RealSound, ReceiverEnd, ReceiverModel, Scenario};
use faults::sender_of;
use hosts::{SimHost, SimReceiver};

enum SimEvent {
    Capture,
    Join(usize),
    Play(usize),
    Media(usize, Vec<u8>, Endpoint),
    ReportTo(usize, Vec<u8>),
    ReportFrom(Vec<u8>),
    Speak,
    Answer(usize),
    End(usize, ReceiverEnd),
}

pub struct World {
    now: TrueTime,
    events: BTreeMap<(TrueTime, u64), SimEvent>,
    order: u64,
    scenario: Scenario,
    host: SimHost,
    sender: Packetizer,
    leaving: Leaving,
    policy: SendPolicy,
    looks: LocalTime,
    listeners: Vec<SimReceiver>,
    identity: Identity,
    places: [Endpoint; 2],
    timeline: Timeline,
    faults: VecDeque<(TrueTime, SenderFault)>,
    /// Lie in reports and its end, then the true and false reports sent since its start.
    lie: Option<(Lie, TrueTime)>,
    truths: u32,
    lies: u32,
    intruding: Option<(Intruder, Packetizer)>,
    sequence: u16,
    speaks: TrueTime,
    block: Vec<f32>,
    noted: Vec<(TrueTime, SendNote)>,
}

pub const IDENTITY: Identity =
    Identity { stream: StreamId(0x5EED), sequence: 65_000, timestamp: u32::MAX - 9_999 };

impl World {
    pub fn new(scenario: Scenario) -> Self {
        let mut rng = Rng::with_seed(scenario.seed);
        let host = SimHost::new(&scenario.sender, &scenario, IDENTITY.stream.ssrc(), &mut rng);
        let wall = host.wall;
        let sender = sender_of(&scenario, IDENTITY, wall);
        let listeners = scenario
            .receivers
            .iter()
            .zip(1..)
            .map(|(model, number)| SimReceiver::new(model, &scenario, number, &mut rng))
            .collect();
        let mut world = Self {
            now: TrueTime::ZERO,
            events: BTreeMap::new(),
            order: 0,
            block: Vec::new(),
            noted: Vec::new(),
            host,
            sender,
            leaving: Leaving::new(),
            policy: SendPolicy::new(promised(&scenario, IDENTITY)),
            looks: LocalTime::ZERO,
            listeners,
            identity: IDENTITY,
            places: home(),
            timeline: Timeline::default(),
            faults: scenario.faults.clone().into(),
            lie: None,
            truths: 0,
            lies: 0,
            intruding: scenario
                .intruder
                .map(|model| (model, sender_of(&scenario, model.identity, wall))),
            sequence: IDENTITY.sequence,
            speaks: TrueTime::ZERO,
            scenario,
        };
        world.timeline.begin(IDENTITY.timestamp, 0);
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.decide();
        if self.scenario.reports {
            self.at(TrueTime::ZERO, SimEvent::Speak);
        }
        for number in 0..self.listeners.len() {
            let model = &self.scenario.receivers[number];
            let (joins, ends) = (model.joins, model.ends);
            self.at(joins, SimEvent::Join(number));
            ends.iter().for_each(|(when, how)| self.at(*when, SimEvent::End(number, *how)));
        }
        // Reports begin 50 ms before the sound, as in a real sender.
        self.at(TrueTime::from_nanos(50_000_000), SimEvent::Capture);
    }

    pub fn run(&mut self, span: Span) {
        let until = self.now.after(span);
        while self.next() <= until {
            self.step();
        }
        self.now = until;
    }

    fn step(&mut self) {
        if let Some(((when, _), event)) = self.events.pop_first() {
            self.now = when;
            self.happen(event);
        }
    }

    fn next(&self) -> TrueTime {
        self.events.first_key_value().map_or(TrueTime::from_nanos(i64::MAX), |((when, _), _)| *when)
    }

    pub const fn sends(&self) -> StreamFormat {
        self.policy.format()
    }

    pub fn received(&self) -> impl Iterator<Item = &Received> {
        self.listeners.iter().map(|listener| &listener.received)
    }

    pub fn finish(self) -> Vec<Received> {
        self.listeners.into_iter().map(SimReceiver::finish).collect()
    }

    pub const fn now(&self) -> TrueTime {
        self.now
    }

    fn at(&mut self, when: TrueTime, event: SimEvent) {
        self.order += 1;
        self.events.insert((when.max(self.now), self.order), event);
    }

    fn happen(&mut self, event: SimEvent) {
        match event {
            SimEvent::Capture => self.capture(),
            SimEvent::Join(number) => self.next_play(number),
            SimEvent::Media(number, ..) | SimEvent::ReportTo(number, _)
                if self.now < self.scenario.receivers[number].joins => {}
            SimEvent::Media(number, ..)
            | SimEvent::ReportTo(number, _)
            | SimEvent::Play(number)
            | SimEvent::Answer(number)
                if self.has_ended(number) => {}
            SimEvent::End(number, how) => self.end(number, how),
            SimEvent::Play(number) => self.play(number),
            SimEvent::Media(number, bytes, from) => {
                let listener = &mut self.listeners[number];
                let stamp = listener.host.local(self.now);
                listener.arrived.push_back((bytes, from, stamp));
            }
            SimEvent::ReportTo(number, bytes) => self.report_to(number, &bytes),
            SimEvent::ReportFrom(bytes) => self.report_from(&bytes),
            SimEvent::Speak if self.now < self.speaks => {}
            SimEvent::Speak => self.speak(),
            SimEvent::Answer(number) => self.answer(number),
        }
    }

    fn capture(&mut self) {
        self.apply_faults();
        let Self { host, sender, leaving, block, scenario, now, .. } = self;
        let (first, met, skipped) = host.card.capture(*now);
        let frames = scenario.sender.card.period.count();
        block.clear();
        for index in first..first + frames {
            let sound = scenario.sound.as_ref().map(|RealSound { samples, .. }| {
                samples[index.rem_euclid(samples.len() as i64) as usize]
            });
            block.push(sound.unwrap_or_else(|| value(index)));
            let other = sound.unwrap_or(OTHER_CHANNELS);
            block.extend((1..scenario.format.channels.count()).map(|_| other));
        }
        let local = host.local(*now);
        let times = BlockTimes { capture: host.local(met), taken: local, now: local };
        let mut packets = Vec::new();
        let mut keep = |packet: Outgoing<'_>| packets.extend(leaving.finish(packet, local));
        sender.skip(skipped, local, &mut keep);
        sender.push(block, times, &mut keep);
        for packet in packets {
            self.sequence = u16::from_be_bytes([packet[2], packet[3]]);
            self.carry(&packet, self.places);
        }
        self.intrude(times);
        if local >= self.looks {
            self.looks = local + BEAT;
            self.decide();
        }
        let wakes = self.host.card.capture_wake(self.now);
        let wakes = self.host.freezes.end_of(wakes);
        self.at(wakes, SimEvent::Capture);
    }

    fn carry(&mut self, packet: &[u8], places: [Endpoint; 2]) {
        for number in 0..self.listeners.len() {
            let mut arrivals = Vec::new();
            let SimReceiver { there, also_there, received, .. } = &mut self.listeners[number];
            for (path, from) in core::iter::once(there).chain(also_there).zip(places) {
                path.borrow_mut().carry(packet.len(), self.now, |when| {
                    arrivals.push((when, from));
                });
                received.bytes += packet.len() as u64;
            }
            received.carried.push(!arrivals.is_empty());
            for (when, from) in arrivals {
                self.at(when, SimEvent::Media(number, packet.to_vec(), from));
            }
        }
    }

    fn play(&mut self, number: usize) {
        let format = self.scenario.format;
        let channels = format.channels.count();
        let model = &self.scenario.receivers[number];
        let (clock, silent_until) = (model.host.pace, model.silent_until);
        let Self { listeners, timeline, host: sending, now, .. } = self;
        let listener = &mut listeners[number];
        let woke = listener.host.local(*now);
        while let Some((bytes, from, at)) = listener.arrived.pop_front() {
            let arrived = Arrival::exact(from, at, woke);
            let receiver = &mut listener.receiver;
            if let Some(passage) = receiver.handle_with(&bytes, &arrived, &mut |_| {}).late() {
                listener.ordinary.take(&passage);
            }
        }
        let (_, meets, skipped) = listener.host.card.play(*now);
        let mut out = vec![0.0; listener.host.card.model.period.as_len() * channels];
        let times = PullTimes { now: woke, meets: listener.host.local(meets), skipped, clock };
        let resampled = listener.receiver.counters().resampled_frames;
        let SimReceiver { receiver, ordinary, received, host, .. } = listener;
        receiver.set_silent(*now < silent_until);
        let pulled = receiver.pull(&mut out, times, |passage| ordinary.take(&passage));
        received.digest(&out);
        if self.scenario.sound.is_some() {
            received.played.extend(out.iter().step_by(channels));
        }
        let offset = receiver.placement().link_offset();
        let starved = skipped > Frames::ZERO;
        ordinary.look(receiver, &mut host.session, (*now, woke), starved, received);
        let speaks = ordinary.speaks(&host.session, woke);
        listener.received.starved += skipped;
        let missing =
            listener.receiver.counters().missing_frames - listener.received.counters.missing_frames;
        listener.received.misses(Frames::new(missing as i64));
        listener.received.counters = *listener.receiver.counters();
        if let Some(reason) = pulled.resync {
            listener.received.resyncs.push((*now, reason));
        }
        if let Some(media) = pulled.media {
            let begin = timeline.frame(media.frame, sending.card.next_frame());
            let sound: Vec<f32> = out.iter().step_by(channels).copied().collect();
            let disturbed = pulled.resync.is_some() || skipped + pulled.missing > Frames::ZERO;
            let copied = resampled == listener.receiver.counters().resampled_frames;
            listener.received.take(&sound, (begin, copied), *now, disturbed);
            if is_sound(sound[0], begin, copied) {
                let captured = sending.card.met(begin, *now);
                let part = format.rate.span_of_fine(media - MediaPoint::from(media.frame));
                listener.received.errors.push(meets.since(captured) - part - offset);
            }
        }
        if speaks {
            self.next_answer(number);
        }
        self.next_play(number);
    }

    fn next_play(&mut self, number: usize) {
        let SimReceiver { host, ordinary, .. } = &mut self.listeners[number];
        let due = host.card.playback_wake(self.now);
        let wakes = host.freezes.end_of(due);
        if wakes > due && self.scenario.stall_monitor {
            ordinary.stall(host.local(due), host.local(wakes));
        }
        self.at(wakes, SimEvent::Play(number));
    }

    fn has_ended(&self, number: usize) -> bool {
        self.scenario.receivers[number].ends.is_some_and(|(when, _)| when <= self.now)
    }

    fn end(&mut self, number: usize, how: ReceiverEnd) {
        let mut buffer = [0; MAX_DATAGRAM];
        let SimReceiver { host, back, .. } = &mut self.listeners[number];
        let local = host.local(self.now);
        let goodbye = match how {
            ReceiverEnd::Goodbye => host.session.leave(local, &mut buffer),
            ReceiverEnd::Killed => None,
        };
        let mut arrivals = Vec::new();
        let bytes = goodbye.unwrap_or(0);
        goodbye.iter().for_each(|bytes| {
            back.borrow_mut().carry(*bytes, self.now, |when| arrivals.push(when));
        });
        for when in arrivals {
            self.at(when, SimEvent::ReportFrom(buffer[..bytes].to_vec()));
        }
    }

    pub fn format(&self) -> StreamFormat {
        self.policy.format()
    }

    pub fn noted(&self) -> &[(TrueTime, SendNote)] {
        &self.noted
    }

    fn decide(&mut self) {
        let (state, pace) = (self.sender.state(), self.scenario.sender.pace);
        self.by_policy(|policy, context| {
            policy.follow(state, pace, context);
            policy.poll(context);
        });
        let noted = self.policy.notes();
        self.noted.extend(noted.into_iter().map(|note| (self.now, note)));
    }

    fn by_policy<T>(
        &mut self,
        decide: impl FnOnce(&mut SendPolicy, &mut Context<'_, SendCommand>) -> T,
    ) -> T {
        let now = self.host.local(self.now);
        let Self { policy, sender, host, scenario, .. } = self;
        let mut command = |command| {
            sender.apply(command);
            true
        };
        let session = scenario.reports.then_some(&mut host.session);
        decide(policy, &mut Context { now, session, command: &mut command })
    }

    fn speak(&mut self) {
        let mut buffer = [0; MAX_DATAGRAM];
        self.decide();
        let local = self.host.local(self.now);
        if let Some(bytes) = self.host.session.poll(local, &mut buffer) {
            self.tamper(&mut buffer[..bytes]);
            for number in 0..self.listeners.len() {
                let mut arrivals = Vec::new();
                let path = &self.listeners[number].there;
                path.borrow_mut().carry(bytes, self.now, |when| arrivals.push(when));
                for when in arrivals {
                    self.at(when, SimEvent::ReportTo(number, buffer[..bytes].to_vec()));
                }
            }
        }
        self.speak_again();
    }

    /// Plans the next report, at most once.
    fn speak_again(&mut self) {
        let next = self.host.when(self.host.session.deadline(), self.now).max(self.now);
        if next < self.speaks || self.speaks <= self.now {
            self.speaks = next;
            self.at(next, SimEvent::Speak);
        }
    }

    fn answer(&mut self, number: usize) {
        let mut buffer = [0; MAX_DATAGRAM];
        let listener = &mut self.listeners[number];
        let local = listener.host.local(self.now);
        if local < listener.host.session.deadline() {
            return;
        }
        let mut arrivals = Vec::new();
        if let Some(bytes) = listener.host.session.poll(local, &mut buffer) {
            listener.back.borrow_mut().carry(bytes, self.now, |when| arrivals.push(when));
            for when in arrivals {
                self.at(when, SimEvent::ReportFrom(buffer[..bytes].to_vec()));
            }
        }
        self.next_answer(number);
    }

    fn next_answer(&mut self, number: usize) {
        let host = &mut self.listeners[number].host;
        let next = host.when(host.session.deadline(), self.now);
        self.at(next, SimEvent::Answer(number));
    }

    fn report_to(&mut self, number: usize, bytes: &[u8]) {
        let host = self.places[0].host();
        let listener = &mut self.listeners[number];
        let local = listener.host.local(self.now);
        let SimReceiver { ordinary, receiver, host: SimHost { session, .. }, .. } = listener;
        let mut events = Vec::new();
        // Paths carry only what the peer wrote.
        let _whole = session
            .handle(bytes, ReportArrival::exact(host, local), |reported| events.push(reported));
        ordinary.handle((host, events), receiver, session, local);
        self.next_answer(number);
    }

    fn report_from(&mut self, bytes: &[u8]) {
        let local = self.host.local(self.now);
        let Self { policy, host, .. } = self;
        let from = Endpoint::UNKNOWN.host();
        let _whole = host.session.handle(bytes, ReportArrival::exact(from, local), |reported| {
            policy.handle(from, &reported, local);
        });
        self.decide();
        self.speak_again();
    }
}

fn promised(scenario: &Scenario, identity: Identity) -> SendPolicyConfig {
    let paths = |model: &ReceiverModel| {
        model.also_there.iter().fold(model.there.mtu, |minimum, also| minimum.min(also.mtu))
    };
    let mtu = scenario.receivers.iter().map(paths).min().unwrap_or(1500);
    let bounds = Bounds {
        wire: PACK,
        budget: scenario.budget,
        stamps: scenario.stamps,
        max_bytes: mtu.saturating_sub(28),
        max_asked: Limits::SYMBOLS,
    };
    let (format, card) = (scenario.format, &scenario.sender.card);
    let device = Settings {
        rate: format.rate,
        channels: format.channels,
        period: card.period,
        periods: card.periods as u32,
    };
    // No maximum datagram length, because paths carry fragments.
    SendPolicyConfig {
        latency: scenario.promises,
        stamps: scenario.stamps,
        spaced: true,
        redundancy: Regulator::new(scenario.redundancy, bounds),
        repairs_after_loss: scenario.repairs_after_loss,
        repair_budget: (scenario.budget > Span::ZERO).then_some(scenario.budget),
        destinations: vec![Endpoint::UNKNOWN.host()],
        compressed: codings(scenario).collect(),
        adapts: scenario.adapts.clone(),
        probes_path: scenario.probes_path,
        ..SendPolicyConfig::new(format, identity, scenario.latency, device)
    }
}

pub fn play(scenario: Scenario, span: Span) -> Vec<Received> {
    let mut world = World::new(scenario);
    world.run(span);
    world.finish()
}

struct Leaving(Repeats);

impl Leaving {
    fn new() -> Self {
        Self(Repeats::within(vec![0; Repeats::room_for(MAX_DATAGRAM_BYTES)].into()))
    }

    /// Completes a packet and writes its departure time `at`. Also returns an earlier packet to
    /// repeat, if any.
    fn finish(
        &mut self,
        packet: Outgoing<'_>,
        at: LocalTime,
    ) -> impl Iterator<Item = Vec<u8>> + use<> {
        let mut datagram = packet.datagram.to_vec();
        if let Some(place) = packet.handed_at {
            let since = (at - packet.instants.capture).as_nanos().max(0) as u32;
            datagram[place..place + 4].copy_from_slice(&since.to_be_bytes());
        }
        let again = if let Some(before) = packet.again {
            self.0.keep(&datagram, packet.instants);
            self.0.again(before, packet.instants.due).map(|(bytes, _)| bytes.to_vec())
        } else {
            self.0.pass();
            None
        };
        [datagram].into_iter().chain(again)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Age on the sender's clock minus the link offset.
    pub error: Span,
    pub uncertainty: Span,
    pub precision: Option<Span>,
    pub basis: Basis,
    pub steps: u32,
    pub path_changes: u32,
    pub refused: u32,
}

impl World {
    /// `None` before the receiver's first packet.
    pub fn look(&mut self, number: usize) -> Option<Look> {
        let listener = &mut self.listeners[number];
        let local = listener.host.local(self.now);
        let placement = listener.receiver.placement();
        let due = placement.due(local)?;
        let index = due.point.frame.as_frames() - i64::from(IDENTITY.timestamp);
        let part = due.point - MediaPoint::from(due.point.frame);
        let part = self.scenario.format.rate.span_of_fine(part);
        let captured = self.host.card.met(index, self.now).after(part);
        let age = self.host.local(self.now) - self.host.local(captured);
        let session = &listener.host.session;
        Some(Look {
            error: age - placement.link_offset(),
            uncertainty: due.uncertainty,
            precision: due.precision,
            basis: due.basis,
            steps: session.clock_steps(IDENTITY.stream.ssrc()),
            path_changes: session.path_changes(IDENTITY.stream.ssrc()),
            refused: session.refused_exchanges(IDENTITY.stream.ssrc()),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Packet(Frames),
    /// L24 or float: their frame values are unique.
    Sample(SampleFormat),
    Redundancy(Redundancy),
    Latency(Span),
}

impl World {
    /// Returns the error of the sender's policy.
    ///
    /// # Panics
    /// If a receiver's policy refuses a latency.
    pub fn change(&mut self, change: Change) -> Result<(), SendRefused> {
        if let Change::Latency(latency) = change {
            for SimReceiver { ordinary, receiver, .. } in &mut self.listeners {
                ordinary.choose(LatencyRule::Chosen(latency), receiver);
            }
        }
        let rate = self.scenario.format.rate;
        let changed = self.by_policy(|policy, context| match change {
            Change::Packet(packet) => policy.set_ptime(rate.span_of(packet), context).map(|_| ()),
            Change::Sample(sample) => policy.set_coding(sample.into(), context),
            Change::Redundancy(requested) => policy.set_redundancy(requested),
            Change::Latency(latency) => policy.set_latency(LatencyRule::Chosen(latency), context),
        });
        self.scenario.format = self.policy.format();
        self.decide();
        changed
    }
}
