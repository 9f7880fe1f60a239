//! One end of a call: a send and a receive engine on two devices. Their shared link changes its
//! transport with the network.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use tautline_api::srtp::Profile;
use tautline_audio::{FADED_WITHIN, Notes, StreamLatency, fading};
use tautline_codec::{coding_cost, decoder, encoders};
use tautline_dsp::gain::Gain;
use tautline_dsp::resample::Quality;
use tautline_engine::control::{CannotChange, ChangeSender, RecvChange, SendChange, requests};
use tautline_engine::error::RunError;
use tautline_engine::monitor::observers::Observers;
use tautline_engine::monitor::run::{Progress, RunOptions};
use tautline_engine::plan::lay::TooShort;
use tautline_engine::plan::{RecvPlan, SendPlan, StreamPlan, lay};
use tautline_engine::receive_engine::RecvEngine;
use tautline_engine::send_engine::SendEngine;
use tautline_io::clock::{now, sleep_until, thread_time};
use tautline_io::control::Control;
use tautline_io::link::destinations::Outbound;
use tautline_io::link::muxed::{CurrentTransport, Muxed, TransportSwitch, muxed};
use tautline_io::link::threaded::{ThreadedLink, WireOptions};
use tautline_io::link::{Link, Pollable};
use tautline_io::udp::pair::OpenedStream;
use tautline_io::udp::{FragmentPolicy, UdpOptions};
use tautline_proto::call::terms::{CallAdaptation, CallLatency, CallTerms, StreamTerms};
use tautline_proto::congestion::CodingLimits;
use tautline_proto::device::{Direction, Settings, Stop};
use tautline_proto::endpoint::Endpoint as Address;
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::pacing::is_spaced;
use tautline_proto::packet::Codings;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_proto::wire::{PacketHeads, WireForm};
use tautline_report::Report;

use crate::devices::{DevicePair, Sound};
use crate::recordings::Recordings;
use crate::terms::adopt_coding;
use crate::{Config, Ended, Error, Event, Events, NoteSender, Side, Watched, running};

const SEALED: &str = Profile::AeadAes256Gcm.name();

const FAR: Address = Address::Connection(1);

pub(crate) struct Setup<'a> {
    pub(crate) config: &'a Config,
    pub(crate) side: Side,
    pub(crate) far: String,
    pub(crate) devices: DevicePair,
    pub(crate) terms: &'a CallTerms,
    pub(crate) muted: bool,
    pub(crate) sounding: usize,
    pub(crate) monitors_stalls: bool,
    pub(crate) recorded_before: u32,
    pub(crate) watched: Option<&'a Watched>,
}

impl Setup<'_> {
    pub(crate) const fn terms(&self, direction: Direction) -> &StreamTerms {
        self.side.terms(self.terms, direction)
    }

    fn limits(&self) -> Option<CodingLimits> {
        limits(self.terms, self.terms(Direction::Capture))
    }

    fn observers(&self, direction: Direction, transport: CurrentTransport) -> Observers {
        let observers = Observers::open(self.side.role()).unwrap_or_else(|why| {
            self.config.notify(Event::Detail(why.to_string()));
            Observers::none()
        });
        let way = usize::from(direction == Direction::Playback);
        let onlooker = self.watched.map(|watched| watched.onlookers[way].clone());
        onlooker.into_iter().fold(observers, Observers::and).going_by(transport)
    }
}

pub(crate) struct CallLink {
    pub(crate) switch: TransportSwitch,
    pub(crate) udp: UdpOptions,
    received: Arc<EngineState>,
    sent: Arc<EngineState>,
}

#[derive(Default)]
struct EngineState {
    packets: AtomicU64,
    left: AtomicBool,
}

impl CallLink {
    pub(crate) fn received(&self) -> u64 {
        self.received.packets.load(Ordering::Relaxed)
    }

    pub(crate) fn has_left(&self) -> bool {
        self.received.left.load(Ordering::Relaxed)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.packets.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn unused() -> Self {
        let udp = UdpOptions::default();
        let Muxed { switch, .. } = muxed(udp.datagram_bytes, FAR).unwrap();
        Self { switch, udp, received: Arc::default(), sent: Arc::default() }
    }
}

fn limits(terms: &CallTerms, sent: &StreamTerms) -> Option<CodingLimits> {
    terms.adapts.as_ref().map(|adapts| adapts.limits(sent))
}

type EngineThread = JoinHandle<Result<Report, RunError>>;

struct SentRedundancy {
    own: Option<Redundancy>,
    agreed: Redundancy,
    carried: Redundancy,
}

pub(crate) struct Endpoint {
    pub(crate) link: CallLink,
    pub(crate) send: ChangeSender<SendChange>,
    pub(crate) recv: ChangeSender<RecvChange>,
    pub(crate) recordings: Option<Recordings>,
    coding: CodingWatch,
    sent: (StreamTerms, Option<CodingLimits>, CallLatency),
    redundancy: SentRedundancy,
    /// `fades` stops after a fade, `stop` immediately.
    fades: Stop,
    stop: Stop,
    faded_by: Option<LocalTime>,
    receiving: EngineThread,
    sending: EngineThread,
}

impl Endpoint {
    /// Starts after `first` sets a transport. Without one, it plays silence.
    pub(crate) fn begin<T>(
        setup: &Setup<'_>,
        [captures, plays]: [Sound; 2],
        first: impl FnOnce(&mut CallLink) -> Result<T, Error>,
    ) -> Result<(Self, T), Error> {
        let Setup { config, devices, terms, .. } = setup;
        let sent = stream_format(setup.terms(Direction::Capture))?;
        let received = stream_format(setup.terms(Direction::Playback))?;
        let mut coding = CodingWatch {
            devices: *devices,
            sounding: setup.sounding,
            known: Vec::new(),
            events: Events::clone(&config.events),
        };
        coding.adopts(Direction::Capture, &sent);
        coding.adopts(Direction::Playback, &received);
        let udp = udp_options(&sent, devices.capture);
        let made = muxed(udp.datagram_bytes, FAR)?;
        let Muxed { sending, receiving, controls: [sends, handles], switch } = made;
        let (link_packets, own_packets) = <(Arc<EngineState>, Arc<EngineState>)>::default();
        let mut link = CallLink {
            switch,
            udp,
            received: Arc::clone(&link_packets),
            sent: Arc::clone(&own_packets),
        };
        let send_plan = send_plan(setup, sent, &link.udp, sending, Box::new(sends))?;
        let latency = terms.latency.rule();
        let begins = lay::kept(latency, None, &received, &devices.playback).map_err(|short| {
            let TooShort { requested, needs } = short;
            Error::Usage(format!(
                "--latency {requested} is too short: {needs}\nhint: use --latency {} or more, a shorter --ptime or a \
                 shorter device period (--period, or jackd -p)",
                needs.total()
            ))
        })?;
        let mut receiver =
            JitterBufferConfig::new(RtpUnpack::taking(Codings::ByConvention), received, begins);
        receiver.resampler = Quality::default();
        receiver.decoders = Some(decoder);
        let control = Some(Box::new(handles) as Box<dyn Control>);
        let mut stream = StreamPlan::new(setup.far.clone(), receiver, Box::new(receiving), control);
        (stream.policy.latency, stream.sealed) = (latency, Some(SEALED));
        stream.policy.sender_adapts =
            terms.adapts.as_ref().is_some_and(CallAdaptation::is_auto_at_once);
        let recv_plan =
            RecvPlan { probes: config.probes, ..RecvPlan::new(vec![stream], devices.playback) };
        let first = first(&mut link)?;
        let transport = link.switch.transport();
        let (fades, stop) = <(Stop, Stop)>::default();
        let folder = config.record.as_deref();
        let recordings = folder.map(|folder| Recordings::at(folder, &config.events));
        let mut recordings = recordings.transpose()?;
        if let Some(recordings) = &mut recordings {
            recordings.after(setup.recorded_before);
            recordings.begin();
        }
        let options = RunOptions {
            scheduler: config.scheduler,
            duration: None,
            stall_monitor: config.stall_monitor && setup.monitors_stalls,
            lock_memory: true,
            words: config.note_words,
        };
        let mut open = |sound: Sound, direction, listener| {
            let settings = *devices.of(direction);
            let extras = (listener, setup.terms(direction).coding.sample);
            let (device, notes, latency) = sound.open(config, direction, settings, extras)?;
            let device = match &mut recordings {
                Some(recordings) => recordings.of(device, direction)?,
                None => device,
            };
            let device = fading(device, fades.clone());
            Ok::<_, Error>((device, notes, latency))
        };

        let mut engine = RecvEngine::new(recv_plan)?;
        engine.show_to(setup.observers(Direction::Playback, transport.clone()));
        let (recv, requested) = requests();
        engine.listen(requested);
        let (device, notes, latency) = open(plays, Direction::Playback, engine.listener())?;
        let mut follow = Follower::new(config, notes, latency, link_packets);
        let stopped = stop.clone();
        let receiving = ordinary("taut-call-hear", move || {
            engine.run(device, &options, &stopped, &mut |progress| follow.on(progress))
        })?;

        let mut engine = SendEngine::new(send_plan)?;
        engine.show_to(setup.observers(Direction::Capture, transport));
        let (send, requested) = requests();
        engine.listen(requested);
        let (device, notes, latency) = open(captures, Direction::Capture, None)?;
        let mut follow = Follower::new(config, notes, latency, own_packets);
        let stopped = stop.clone();
        let options = RunOptions { stall_monitor: false, ..options };
        let sending = ordinary("taut-call-send", move || {
            engine.run(device, &options, &stopped, &mut |progress| follow.on(progress))
        })?;

        if setup.muted {
            // Muted from the first packet; `unmute` restores unity gain.
            send.request(SendChange::Mute(true))
                .and_then(|_| send.request(SendChange::Volume(Gain::UNITY)))
                .map_err(|why| running((config.refusal_words)(&why)))?;
        }
        let sent = (*setup.terms(Direction::Capture), setup.limits(), terms.latency);
        let agreed = terms.regulator(config.redundancy).requested();
        let redundancy = SentRedundancy { own: config.redundancy, agreed, carried: agreed };
        Ok((
            Self {
                link,
                send,
                recv,
                recordings,
                coding,
                sent,
                redundancy,
                fades,
                stop,
                faded_by: None,
                receiving,
                sending,
            },
            first,
        ))
    }

    pub(crate) fn adopt(&mut self, terms: &CallTerms, side: Side) -> Result<(), CannotChange> {
        for direction in [Direction::Capture, Direction::Playback] {
            if let Ok(format) = stream_format(side.terms(terms, direction)) {
                self.coding.adopts(direction, &format);
            }
        }
        let stream = *side.terms(terms, Direction::Capture);
        let sent = (stream, limits(terms, &stream), terms.latency);
        if sent != self.sent {
            // Current adapted packets may be too long for the latency.
            self.send.request(SendChange::Adapt(None))?;
            let request = |change| self.send.request(change);
            let made = adopt_coding(&request, stream.ptime, stream.coding)
                .and_then(|()| request(SendChange::Latency(terms.latency.rule())).map(drop));
            let adapts = if made.is_ok() { &sent.1 } else { &self.sent.1 };
            self.send.request(SendChange::Adapt(adapts.clone()))?;
            made?;
            self.sent = sent;
        }
        self.redundancy.agreed = terms.regulator(self.redundancy.own).requested();
        self.recv.request(RecvChange::Latency(None, terms.latency.rule()))?;
        Ok(())
    }

    /// Applies redundancy with UDP; call every turn.
    pub(crate) fn follow_transport(&mut self) {
        let SentRedundancy { agreed, carried, .. } = self.redundancy;
        // TCP retransmits, and has less room for copies.
        let wanted = if self.link.switch.transport().is_tcp() { Redundancy::Off } else { agreed };
        // A latency too short for repairs was reported at the start. Shorter packets may fit later.
        if wanted != carried && self.send.request(SendChange::Redundancy(wanted)).is_ok() {
            self.redundancy.carried = wanted;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.receiving.is_finished()
    }

    pub(crate) fn has_sent_all(&self) -> bool {
        self.sending.is_finished()
    }

    /// Fades and ends both engines. Does not block, so endpoints can end concurrently.
    pub(crate) fn stop(&mut self) {
        self.fades.request();
        self.faded_by.get_or_insert_with(|| now() + FADED_WITHIN);
    }

    /// Whether [`Endpoint::end`] returns immediately.
    pub(crate) fn has_ended(&self) -> bool {
        self.receiving.is_finished() && self.sending.is_finished()
    }

    pub(crate) fn end(mut self) -> Result<Ended, Error> {
        self.stop();
        while !self.has_ended() && self.faded_by.is_some_and(|until| now() < until) {
            sleep_until(now() + Span::from_millis(1));
        }
        self.stop.request();
        let mut reports = Vec::new();
        let transport = self.link.switch.transport().name();
        for thread in [self.receiving, self.sending] {
            match thread.join() {
                Ok(report) => {
                    let mut report = report?;
                    for stream in &mut report.streams {
                        stream.transport = transport.map(Into::into);
                    }
                    reports.push(report);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let recorded = self.recordings.map_or(Ok(()), Recordings::finish);
        Ok((reports, recorded))
    }
}

fn send_plan(
    setup: &Setup<'_>,
    sent: StreamFormat,
    udp: &UdpOptions,
    link: impl Pollable + 'static,
    control: Box<dyn Control>,
) -> Result<SendPlan, Error> {
    let Setup { config, devices: DevicePair { capture, .. }, terms, .. } = setup;
    // A wire thread spaces a period's packets.
    let ringed = is_spaced(&sent, capture.period);
    let link: Box<dyn Link> = match ringed {
        true => {
            let below = WireOptions::below(config.scheduler, udp.ring_packets());
            Box::new(ThreadedLink::start(link, below)?)
        }
        false => Box::new(link),
    };
    let outbound = Outbound {
        destinations: vec![FAR],
        networks: None,
        datagram_bytes: udp.datagram_bytes,
        ringed,
    };
    let opened = OpenedStream { link, control: Some(control), outbound, local: None };
    let mut plan = SendPlan::new(setup.far.clone(), opened, sent, *capture)?;
    plan.reports_to = vec![FAR];
    plan.encoders = encoders(&sent, None).map_err(|error| Error::Usage(error.to_string()))?;
    plan.stream.sealed = Some(SEALED);
    plan.policy.latency = terms.latency.rule();
    plan.policy.adapts = setup.limits();
    plan.policy.redundancy = terms.regulator(config.redundancy);
    plan.policy.repairs_after_loss = terms.redundancy.or(config.redundancy).is_none();
    plan.policy.probes_path = true;
    plan.policy.link_offset = terms.latency.kept().unwrap_or(plan.policy.link_offset);
    plan.stream.probes = config.probes;
    if setup.muted {
        plan.gain = Gain::SILENCE;
    }
    Ok(plan)
}

struct Follower {
    event_sender: NoteSender,
    notes: Notes,
    latency: StreamLatency,
    state: Arc<EngineState>,
}

impl Follower {
    fn new(config: &Config, notes: Notes, latency: StreamLatency, state: Arc<EngineState>) -> Self {
        Self { event_sender: NoteSender::new(Events::clone(&config.events)), notes, latency, state }
    }

    fn on(&mut self, progress: &Progress<'_>) {
        self.latency.set(progress.link_offset);
        self.state.packets.store(progress.packets, Ordering::Relaxed);
        self.state.left.store(progress.left, Ordering::Relaxed);
        self.event_sender.notify(progress.notes.iter());
        self.event_sender.notify_all(self.notes.take().iter());
    }
}

struct CodingWatch {
    devices: DevicePair,
    sounding: usize,
    known: Vec<(Direction, Coding, Frames)>,
    events: Events,
}

impl CodingWatch {
    fn adopts(&mut self, direction: Direction, format: &StreamFormat) {
        let one = (direction, format.coding().at_bitrate(0), format.packet);
        if self.known.contains(&one) {
            return;
        }
        self.known.push(one);
        let period = self.devices.of(direction).period;
        let long = coding_cost(format, direction, self.sounding, period, &mut thread_time);
        if let Some(long) = long {
            (self.events)(Event::LongCoding(long, direction, self.sounding, *format));
        }
    }
}

fn ordinary<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(no_thread)
}

pub(crate) fn no_thread(error: std::io::Error) -> Error {
    running(format!("starting a thread: {error}\nhint: end other programs, or raise ulimit -u"))
}

fn stream_format(terms: &StreamTerms) -> Result<StreamFormat, Error> {
    let coding = terms.coding;
    let payload_type = StreamFormat::usual_payload_type(coding.sample, coding.codec);
    terms.format(payload_type).ok_or_else(|| {
        Error::Usage(format!(
            "packets of {} at {} hold no whole frame\nhint: use a longer --ptime",
            terms.ptime, terms.rate
        ))
    })
}

/// Sized for every packet that a call may agree on.
fn udp_options(sent: &StreamFormat, capture: Settings) -> UdpOptions {
    let mut udp = UdpOptions::default();
    let heads = PacketHeads { form: WireForm::Rtp, stamps: true };
    udp.fragment = FragmentPolicy::Allow;
    udp.dscp = tautline_io::udp::DSCP_MEDIA;
    lay::make_room(&mut udp, sent, capture.period, heads);
    lay::make_room_for_changes(&mut udp, sent, capture.period, heads);
    udp
}
