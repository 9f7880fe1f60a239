//! One sender, any number of receivers, and the paths between them, in virtual time.
//!
//! Nothing here decides: cards wake, packets arrive, and the machines of `proto` are handed what
//! happened with the time by the clock of their own host. What came of it is told from the sound:
//! each captured frame has a value of its own, so each played frame says which one it was.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use tautline_dsp::format::SampleFormat;
use tautline_proto::receiver::{
    Counters, PayloadTypes, PullTimes, Receiver, ReceiverConfig, Resync,
};
use tautline_proto::sender::{BlockTimes, Identity, Sender, SenderConfig};
use tautline_proto::session::{Event as Told, Receiving, Sending, Session, SessionConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::ExtensionIds;

use crate::card::{Card, CardModel};
use crate::clock::{ClockError, ClockEvent, SimClock, TrueTime};
use crate::link::{Holds, Path, PathModel, Pauses};

/// One computer.
#[derive(Debug, Clone, PartialEq)]
pub struct HostModel {
    /// How its monotonic clock errs.
    pub clock: ClockError,
    /// What happens to that clock, in order.
    pub events: Vec<(TrueTime, ClockEvent)>,
    /// Its sound card.
    pub card: CardModel,
    /// Times in which the whole host stands still.
    pub freezes: Option<Holds>,
}

impl HostModel {
    /// A host that is right, with a card that is.
    pub const IDEAL: Self =
        Self { clock: ClockError::NONE, events: Vec::new(), card: CardModel::IDEAL, freezes: None };

    /// The same with another card.
    pub fn with_card(card: CardModel) -> Self {
        Self { card, ..Self::IDEAL }
    }
}

/// A receiver and the way to it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiverModel {
    /// Where it runs.
    pub host: HostModel,
    /// What happens to packets on the way there.
    pub there: PathModel,
    /// What happens to its reports on the way back.
    pub back: PathModel,
}

/// A world to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Of everything that is drawn.
    pub seed: u64,
    /// What is sent. L24, so that each frame has a value of its own.
    pub format: StreamFormat,
    /// The link offset.
    pub latency: Span,
    /// Who sends.
    pub sender: HostModel,
    /// Who receives.
    pub receivers: Vec<ReceiverModel>,
    /// Whether the two ends talk RTCP.
    pub reports: bool,
}

impl Scenario {
    /// One receiver at the end of a path that is alike both ways, in packets of 1 ms of one
    /// channel at 48 kHz, 5 ms after capture; everything else is right.
    pub fn one_way(path: PathModel, seed: u64) -> Self {
        let sample = SampleFormat::L24;
        let format = StreamFormat {
            rate: Rate::HZ_48000,
            channels: Channels::MONO,
            sample,
            packet: Frames::new(48),
            payload_type: StreamFormat::default_payload_type(sample),
        };
        let receiver = ReceiverModel { host: HostModel::IDEAL, there: path.clone(), back: path };
        Self {
            seed,
            format,
            latency: Span::from_millis(5),
            sender: HostModel::IDEAL,
            receivers: vec![receiver],
            reports: true,
        }
    }

    /// Plays so much time of it and tells what each receiver heard.
    pub fn play(self, span: Span) -> Vec<Heard> {
        let mut world = World::new(self);
        world.run(span);
        world.listeners.into_iter().map(|listener| listener.heard).collect()
    }
}

/// What one receiver played, held against what was captured, by true time.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// What the receiver counted.
    pub counters: Counters,
    /// Blocks that were played while the stream ran.
    pub blocks: u64,
    /// True latency of the first frame of each block that began with sound, less the link offset.
    pub errors: Vec<Span>,
    /// Runs of frames that were not heard as they were captured, by length: holes and the fades at
    /// their ends.
    pub spoilt: BTreeMap<i64, u64>,
    /// Times the playout was laid anew, with their reasons.
    pub resyncs: Vec<(TrueTime, Resync)>,
    /// Frames of silence that the card played since its program was late.
    pub starved: Frames,
    /// The first frame that was neither the one that was due nor silence: when, which was due, and
    /// which was heard.
    pub first_wrong: Option<(TrueTime, i64, i64)>,
    /// Whether any frame was heard yet.
    begun: bool,
    /// Frames of the present run that is not as it was captured.
    run: i64,
    /// Frames that may still be those of a fade.
    fading: i64,
}

impl fmt::Display for Heard {
    /// For the words of a failing scenario.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |share| self.error_at(share).unwrap_or(Span::MAX);
        write!(
            f,
            "first wrong frame {:?}; off by {} (p50), {} (p99); spoilt {:?}; resyncs {:?}; {:?}",
            self.first_wrong,
            at(0.5),
            at(0.99),
            self.spoilt,
            self.resyncs,
            self.counters
        )
    }
}

impl Heard {
    /// The longest run of frames that were not heard as they were captured.
    pub fn longest_spoilt(&self) -> Frames {
        Frames::new(self.spoilt.keys().next_back().copied().unwrap_or(0))
    }

    /// The error that this share of the blocks do not exceed, either way.
    pub fn error_at(&self, share: f64) -> Option<Span> {
        let mut errors: Vec<Span> = self.errors.iter().map(|error| error.abs()).collect();
        errors.sort_unstable();
        let rank = (errors.len() as f64 * share).ceil() as usize;
        errors.get(rank.checked_sub(1)?.min(errors.len() - 1)).copied()
    }
}

enum Event {
    Capture,
    Play(usize),
    Media(usize, Vec<u8>),
    ReportTo(usize, Vec<u8>),
    ReportFrom(Vec<u8>),
    Speak,
    Answer(usize),
}

struct Host {
    clock: SimClock,
    card: Card,
    freezes: Pauses,
    session: Session,
    wall: Span,
}

struct Listener {
    host: Host,
    there: Path,
    back: Path,
    receiver: Receiver,
    arrived: VecDeque<(Vec<u8>, LocalTime)>,
    heard: Heard,
}

/// A world that runs.
pub struct World {
    now: TrueTime,
    events: BTreeMap<(TrueTime, u64), Event>,
    order: u64,
    scenario: Scenario,
    host: Host,
    sender: Sender,
    listeners: Vec<Listener>,
    /// Frames captured and lost by the sender's card so far, to know each frame by its media time.
    block: Vec<f32>,
}

const IDENTITY: Identity = Identity { ssrc: 0x5EED, sequence: 65_000, timestamp: u32::MAX - 9_999 };
/// Values of frames repeat after this many: 87 s at 48 kHz.
const VALUES: i64 = 1 << 22;

/// The value that frame `index` has in its first channel: odd, so never silence, and exact in 24
/// bits.
fn value(index: i64) -> f32 {
    (2 * index.rem_euclid(VALUES) + 1 - VALUES) as f32 / 8_388_608.0
}

/// Which frame near `expected` has this value.
fn index_of(value: f32, expected: i64) -> Option<i64> {
    let scaled = f64::from(value) * 8_388_608.0;
    let number = scaled as i64;
    if number as f64 != scaled || number % 2 == 0 {
        return None;
    }
    let away = ((number - 1 + VALUES) / 2 - expected).rem_euclid(VALUES);
    Some(expected + if away >= VALUES / 2 { away - VALUES } else { away })
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(scenario: Scenario) -> Self {
        let mut rng = Rng::with_seed(scenario.seed);
        let host = Host::new(&scenario.sender, &scenario, IDENTITY.ssrc, &mut rng);
        let sender = Sender::new(SenderConfig {
            format: scenario.format,
            identity: IDENTITY,
            period: scenario.sender.card.period,
            stamps: true,
            wall_offset: host.wall,
        });
        let listeners = scenario
            .receivers
            .iter()
            .zip(1..)
            .map(|(model, number)| Listener::new(model, &scenario, number, &mut rng))
            .collect();
        let mut world = Self {
            now: TrueTime::ZERO,
            events: BTreeMap::new(),
            order: 0,
            block: Vec::new(),
            host,
            sender,
            listeners,
            scenario,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        if self.scenario.reports {
            self.set_sending();
            self.at(TrueTime::ZERO, Event::Speak);
        }
        for number in 0..self.listeners.len() {
            self.next_play(number);
        }
        // The reports have fifty milliseconds' start, as they have in a real sender.
        self.at(TrueTime::from_nanos(50_000_000), Event::Capture);
    }

    /// Lets so much time pass.
    pub fn run(&mut self, span: Span) {
        let until = self.now.after(span);
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((when, _), event) = entry.remove_entry();
            self.now = when;
            self.happen(event);
        }
        self.now = until;
    }

    /// What each receiver played so far.
    pub fn heard(&self) -> impl Iterator<Item = &Heard> {
        self.listeners.iter().map(|listener| &listener.heard)
    }

    /// The time that has passed.
    pub const fn now(&self) -> TrueTime {
        self.now
    }

    fn at(&mut self, when: TrueTime, event: Event) {
        self.order += 1;
        self.events.insert((when.max(self.now), self.order), event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Capture => self.capture(),
            Event::Play(number) => self.play(number),
            Event::Media(number, bytes) => {
                let listener = &mut self.listeners[number];
                let stamp = listener.host.local(self.now);
                listener.arrived.push_back((bytes, stamp));
            }
            Event::ReportTo(number, bytes) => self.report_to(number, &bytes),
            Event::ReportFrom(bytes) => self.report_from(&bytes),
            Event::Speak => self.speak(),
            Event::Answer(number) => self.answer(number),
        }
    }

    fn capture(&mut self) {
        let Self { host, sender, block, scenario, now, .. } = self;
        let (first, met, skipped) = host.card.capture(*now);
        let frames = scenario.sender.card.period.count();
        block.clear();
        for index in first..first + frames {
            block.push(value(index));
            block.extend((1..scenario.format.channels.count()).map(|_| 0.25));
        }
        let local = host.local(*now);
        let times = BlockTimes { capture: host.local(met), taken: local, now: local };
        let mut packets = Vec::new();
        let mut keep = |packet: tautline_proto::stream::Outgoing<'_>| {
            packets.push(packet.datagram.to_vec());
        };
        sender.skip(skipped, local, &mut keep);
        sender.push(block, times, &mut keep);
        for packet in packets {
            self.carry(&packet);
        }
        self.set_sending();
        let wakes = self.host.card.capture_wake(self.now);
        let wakes = self.host.freezes.end_of(wakes);
        self.at(wakes, Event::Capture);
    }

    fn carry(&mut self, packet: &[u8]) {
        for number in 0..self.listeners.len() {
            let mut arrivals = Vec::new();
            let path = &mut self.listeners[number].there;
            path.carry(packet.len(), self.now, |when| arrivals.push(when));
            for when in arrivals {
                self.at(when, Event::Media(number, packet.to_vec()));
            }
        }
    }

    fn play(&mut self, number: usize) {
        let format = self.scenario.format;
        let channels = format.channels.count();
        let Self { listeners, host: sending, scenario, now, .. } = self;
        let listener = &mut listeners[number];
        let woke = listener.host.local(*now);
        while let Some((bytes, stamp)) = listener.arrived.pop_front() {
            listener.receiver.handle(&bytes, stamp, woke);
        }
        let (_, meets, skipped) = listener.host.card.play(*now);
        let mut out = vec![0.0; listener.host.card.model.period.as_len() * channels];
        let times = PullTimes { now: woke, meets: listener.host.local(meets), skipped };
        let pulled = listener.receiver.pull(&mut out, times, |_| {});
        listener.heard.starved += skipped;
        listener.heard.counters = *listener.receiver.counters();
        if let Some(reason) = pulled.resync {
            listener.heard.resyncs.push((*now, reason));
        }
        if let Some(media) = pulled.media {
            let begin = media.as_frames() - i64::from(IDENTITY.timestamp);
            let sound: Vec<f32> = out.iter().step_by(channels).copied().collect();
            let disturbed = pulled.resync.is_some() || skipped + pulled.missing > Frames::ZERO;
            listener.heard.take(&sound, begin, (*now, disturbed));
            if let Some(index) = index_of(sound[0], begin).filter(|index| *index == begin) {
                let captured = sending.card.met(index, *now);
                listener.heard.errors.push(meets.since(captured) - scenario.latency);
            }
        }
        self.next_play(number);
    }

    fn next_play(&mut self, number: usize) {
        let host = &mut self.listeners[number].host;
        let wakes = host.card.playback_wake(self.now);
        let wakes = host.freezes.end_of(wakes);
        self.at(wakes, Event::Play(number));
    }

    fn set_sending(&mut self) {
        let Scenario { format, latency, .. } = self.scenario;
        self.host.session.set_sending(Sending {
            format,
            link_offset: latency,
            packing_age: format.packing_age(self.scenario.sender.card.period),
            timestamp: IDENTITY.timestamp,
            state: self.sender.state(),
        });
    }

    fn speak(&mut self) {
        let mut buffer = [0; 1400];
        let local = self.host.local(self.now);
        if let Some(bytes) = self.host.session.poll(local, &mut buffer) {
            for number in 0..self.listeners.len() {
                let mut arrivals = Vec::new();
                self.listeners[number].there.carry(bytes, self.now, |when| arrivals.push(when));
                for when in arrivals {
                    self.at(when, Event::ReportTo(number, buffer[..bytes].to_vec()));
                }
            }
        }
        let next = self.host.when(self.host.session.deadline(), self.now);
        self.at(next, Event::Speak);
    }

    fn answer(&mut self, number: usize) {
        let mut buffer = [0; 1400];
        let listener = &mut self.listeners[number];
        let local = listener.host.local(self.now);
        if local < listener.host.session.deadline() {
            return;
        }
        let mut arrivals = Vec::new();
        if let Some(bytes) = listener.host.session.poll(local, &mut buffer) {
            listener.back.carry(bytes, self.now, |when| arrivals.push(when));
            for when in arrivals {
                self.at(when, Event::ReportFrom(buffer[..bytes].to_vec()));
            }
        }
        self.next_answer(number);
    }

    fn next_answer(&mut self, number: usize) {
        let host = &mut self.listeners[number].host;
        let next = host.when(host.session.deadline(), self.now);
        self.at(next, Event::Answer(number));
    }

    fn report_to(&mut self, number: usize, bytes: &[u8]) {
        let listener = &mut self.listeners[number];
        let local = listener.host.local(self.now);
        let receiver = &mut listener.receiver;
        // What the paths carry, the other end wrote.
        let _whole = listener.host.session.handle(bytes, local, Span::ZERO, |told| match told {
            Told::Mapped { ssrc, mapping } => receiver.set_clock(ssrc, mapping),
            Told::Captured { ssrc, rtp_timestamp, wall } => {
                receiver.observe_report(ssrc, rtp_timestamp, wall);
            }
            _ => {}
        });
        if let Some(source) = listener.receiver.source() {
            listener.host.session.set_receiving(Receiving {
                ssrc: source.ssrc(),
                expected: source.expected(),
                received: source.received(),
                highest_sequence: source.highest() as u32,
                jitter: 0,
                effective: None,
            });
        }
        self.next_answer(number);
    }

    fn report_from(&mut self, bytes: &[u8]) {
        let local = self.host.local(self.now);
        let _whole = self.host.session.handle(bytes, local, Span::ZERO, |_| {});
        let next = self.host.when(self.host.session.deadline(), self.now);
        self.at(next, Event::Speak);
    }
}

impl Host {
    fn new(model: &HostModel, scenario: &Scenario, ssrc: u32, rng: &mut Rng) -> Self {
        let wall = Span::from_secs(1_700_000_000);
        let cname = format!("{ssrc:08x}");
        Self {
            clock: SimClock::new(model.clock, model.events.clone(), rng.u64(..)),
            card: Card::new(model.card, scenario.format.rate, rng.u64(..)),
            freezes: Pauses::new(model.freezes, rng.u64(..)),
            session: Session::new(SessionConfig { ssrc, cname, wall_offset: wall }),
            wall,
        }
    }

    fn local(&mut self, at: TrueTime) -> LocalTime {
        self.clock.reading(at)
    }

    /// When this host's clock will show `local`: a second from now at the latest, so that a clock
    /// that is stepped is asked again.
    fn when(&mut self, local: LocalTime, now: TrueTime) -> TrueTime {
        let second = now.after(Span::from_secs(1));
        if local.is_never() { second } else { self.clock.when(local, now).min(second) }
    }
}

impl Listener {
    fn new(model: &ReceiverModel, scenario: &Scenario, number: u32, rng: &mut Rng) -> Self {
        let receiver = Receiver::new(ReceiverConfig {
            format: scenario.format,
            payload_types: PayloadTypes::Exactly,
            extensions: ExtensionIds::DEFAULT,
            link_offset: scenario.latency,
        });
        let host = Host::new(&model.host, scenario, number, rng);
        Self {
            there: Path::new(model.there.clone(), rng.u64(..)),
            back: Path::new(model.back.clone(), rng.u64(..)),
            arrived: VecDeque::new(),
            heard: Heard::default(),
            receiver,
            host,
        }
    }
}

/// Frames of a fade, in which the sound is not its own.
const FADE: i64 = 40;

impl Heard {
    /// Takes the first channel of a block whose first frame is `begin` by the receiver's word.
    fn take(&mut self, sound: &[f32], begin: i64, (now, disturbed): (TrueTime, bool)) {
        self.blocks += 1;
        if disturbed {
            self.fading = sound.len() as i64 + FADE;
        }
        for (index, sample) in (begin..).zip(sound) {
            self.fading -= 1;
            let heard = index_of(*sample, index);
            if heard == Some(index) {
                self.begun = true;
                if self.run > 0 {
                    *self.spoilt.entry(self.run).or_default() += 1;
                    self.run = 0;
                }
            } else if self.begun {
                self.run += 1;
                let silent = *sample == 0.0;
                if let (false, false, None) = (silent, self.fading >= 0, self.first_wrong) {
                    self.first_wrong = Some((now, index, heard.unwrap_or(i64::MIN)));
                }
            }
        }
    }
}
