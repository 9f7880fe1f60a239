//! What both ends of a call have: two devices, and the engines that send from the one and play on the other, by
//! halves of one link whose transport is exchanged as calls come and go. The devices notice nothing of that.

mod coding;
mod devices;
mod echo;
mod ended;
mod keys;
mod line;
mod recordings;
mod shared_sound;
mod sound;
mod status;
mod terms;
mod told;
pub(super) mod trust_watch;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use tautline_api::srtp::Profile;
use tautline_audio::DeviceSpec;
use tautline_dsp::gain::Gain;
use tautline_dsp::resample::Quality;
use tautline_engine::control::{Asker, CannotChange, RecvChange, SendChange, requests};
use tautline_engine::error::RunError;
use tautline_engine::plan::{RecvPlan, SendPlan, StreamPlan, lay};
use tautline_engine::receiving::RecvEngine;
use tautline_engine::sending::SendEngine;
use tautline_engine::watching::observers::{Observers, Onlooker};
use tautline_engine::watching::run::{Progress, RunOptions};
use tautline_io::control::Control;
use tautline_io::link::Link;
use tautline_io::link::destinations::Outbound;
use tautline_io::link::muxed::{LineSwitch, LineTransport, Muxed, muxed};
use tautline_io::link::ringed::{Ringed, WireOptions};
use tautline_io::udp::pair::OpenedStream;
use tautline_io::udp::{FragmentPolicy, UdpOptions};
use tautline_proto::call::terms::{CallLatency, StreamTerms};
use tautline_proto::device::{Device, Direction, Settings, Stop};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::latency::enough_latency;
use tautline_proto::pacing::is_spaced;
use tautline_proto::packet::Codings;
use tautline_proto::receiver::ReceiverConfig;
use tautline_proto::stream::StreamFormat;
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_proto::wire::{PacketHeads, WireForm};
use tautline_report::Report;

use super::run_options;
use crate::codecs;
use crate::failure::Failure;
use crate::flags::EndFlags;
use crate::voice::Voice;

use coding::CodingWatch;
pub(super) use devices::{DeviceChoice, EndDevices, devices};
pub(super) use echo::without_echo;
pub(super) use ended::EndedSound;
pub(super) use keys::{Pressed, PressedKeys};
pub(super) use line::{CallSide, tcp_line, udp_line};
pub(super) use recordings::CallRecordings;
pub(super) use shared_sound::{EndPart, SharedSound, SoundSharing};
pub(super) use sound::EndSound;
use sound::SoundSide;
pub(super) use status::{CallStatus, FarStatus};
use terms::adopt_coding;
pub(super) use terms::{bits_in_words, directions, in_words, latency_by, offer, raised};
use told::NoteTeller;
pub(super) use told::tell_reports;

/// By what the sound of all calls is sealed, as reports have it.
const SEALED: &str = Profile::AeadAes256Gcm.name();

/// What stands for the far end of a call wherever an address is asked for: there is one.
const FAR: Endpoint = Endpoint::Connection(1);

/// How an end begins.
pub(super) struct EndSetup<'a> {
    pub(super) name: &'static str,
    /// The other end, for reports.
    pub(super) far: String,
    pub(super) flags: &'a EndFlags,
    pub(super) input: &'a DeviceSpec,
    pub(super) output: &'a DeviceSpec,
    pub(super) devices: EndDevices,
    pub(super) sent: StreamTerms,
    pub(super) heard: StreamTerms,
    pub(super) latency: CallLatency,
    /// Whether silence is sent at first.
    pub(super) muted: bool,
    /// Whether a call begins with it, and its recording.
    pub(super) in_call: bool,
    /// Whether it watches for stalls of the host: of several calls one does for all.
    pub(super) witness: bool,
    /// Calls that sound on these devices with it, itself among them.
    pub(super) sounding: usize,
    /// Calls that were recorded before it.
    pub(super) recorded_before: u32,
    /// Who looks at what is sent and at what is heard, from within this program.
    pub(super) onlookers: Vec<[Onlooker; 2]>,
}

impl EndSetup<'_> {
    /// Those who look at one direction.
    fn observers(&self, voice: Voice, own: usize) -> Observers {
        let observers = crate::show::observers(self.name, voice);
        let onlookers = self.onlookers.iter().map(|onlookers| onlookers[own].clone());
        onlookers.fold(observers, Observers::and)
    }
}

/// What the transports of an end are given to.
pub(super) struct CallLink {
    pub(super) switch: LineSwitch,
    /// What its UDP sockets are opened for.
    pub(super) udp: UdpOptions,
    /// Packets heard, and sent.
    heard: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
}

impl CallLink {
    /// Packets that were heard.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Packets that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
impl CallLink {
    /// One by which nobody sends or hears.
    pub(super) fn of_nobody() -> Self {
        let udp = UdpOptions::default();
        let Muxed { switch, .. } = muxed(udp.datagram_bytes, FAR).unwrap();
        Self { switch, udp, heard: Arc::default(), sent: Arc::default() }
    }
}

/// An engine that runs, to its report.
type EngineThread = JoinHandle<Result<Report, RunError>>;

/// An end that runs.
pub(super) struct CallEnd {
    pub(super) link: CallLink,
    pub(super) send: Asker<SendChange>,
    pub(super) recv: Asker<RecvChange>,
    /// Where calls are recorded, if they are.
    pub(super) recordings: Option<CallRecordings>,
    coding: CodingWatch,
    stop: Stop,
    threads: Vec<EngineThread>,
}

impl CallEnd {
    /// Begins on a part of devices that are open, or opens devices of its own, after `first` gave it a transport, or not:
    /// what is sent goes to nobody, and silence is played, until there is one.
    pub(super) fn begin<T>(
        setup: &EndSetup<'_>,
        sound: EndSound,
        stop: &Stop,
        first: impl FnOnce(&mut CallLink) -> Result<T, Failure>,
    ) -> Result<(Self, T), Failure> {
        let EndSetup { flags, devices, .. } = setup;
        let EndDevices { capture, playback } = *devices;
        let sent = stream_format(setup.sent)?;
        let heard = stream_format(setup.heard)?;
        let coding = CodingWatch::new(setup);
        coding.adopts(Direction::Capture, &sent);
        coding.adopts(Direction::Playback, &heard);
        let udp = udp_options(&sent, capture);
        let made = muxed(udp.datagram_bytes, FAR)?;
        let Muxed { sending, receiving, controls: [sends, hears], switch } = made;
        // Several packets of one period are spaced by a thread of their own.
        let ringed = is_spaced(&sent, capture.period);
        let sender: Box<dyn Link> = match ringed {
            true => {
                let below = WireOptions::below(flags.timing.scheduler, udp.ring_packets());
                Box::new(Ringed::start(sending, below)?)
            }
            false => Box::new(sending),
        };
        let outbound = Outbound {
            destinations: vec![FAR],
            networks: None,
            datagram_bytes: udp.datagram_bytes,
            ringed,
        };
        let control = Some(Box::new(sends) as Box<dyn Control>);
        let opened = OpenedStream { link: sender, control, outbound, local: None };
        let latency = setup.latency.rule();
        let mut plan = SendPlan::new(setup.far.clone(), opened, sent, capture)?;
        plan.reports_to = vec![FAR];
        plan.encoders = codecs::encoders(&sent, true, None)?;
        plan.sealed = Some(SEALED);
        plan.policy.latency = latency;
        plan.policy.link_offset = setup.latency.kept().unwrap_or(plan.policy.link_offset);
        plan.probes = flags.running.probes;
        if setup.muted {
            plan.gain = Gain::SILENCE;
        }
        let begins = lay::kept(latency, None, &heard, &playback).map_err(|short| {
            let least = enough_latency(short.least);
            Failure::usage(format!(
                "--latency {} is less than packets and device take; use --latency {least} or more, a shorter --ptime or \
                 a shorter --period",
                short.asked
            ))
        })?;
        let mut receiver =
            ReceiverConfig::new(RtpUnpack::taking(Codings::ByConvention), heard, begins);
        receiver.resampler = Quality::default();
        receiver.decoders = Some(codecs::DECODERS);
        let control = Some(Box::new(hears) as Box<dyn Control>);
        let stream = StreamPlan::new(setup.far.clone(), receiver, Box::new(receiving), control);
        let stream = StreamPlan { latency, sealed: Some(SEALED), ..stream };
        let recv_plan =
            RecvPlan { probes: flags.running.probes, ..RecvPlan::new(vec![stream], playback) };
        let (counted, counted_sent) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (heard, sent) = (Arc::clone(&counted), Arc::clone(&counted_sent));
        let mut link = CallLink { switch, udp, heard, sent };
        let first = first(&mut link)?;
        let transport = link.switch.transport();
        let usual = run_options(&flags.timing, &flags.running);
        let options = RunOptions {
            words: crate::words::in_a_call,
            witness: usual.witness && setup.witness,
            ..usual
        };
        let stop = stop.part();
        let voice = flags.running.voice();
        let folder = flags.record.as_ref();
        let recordings = folder.map(|folder| CallRecordings::in_folder(folder, voice));
        let mut recordings = recordings.transpose()?;
        if let (Some(recordings), true) = (&mut recordings, setup.in_call) {
            recordings.after(setup.recorded_before);
            recordings.begin();
        }
        let (captures, plays) = sound.of_each();
        let run = EndRun {
            options,
            stop: &stop,
            voice,
            recordings: &mut recordings,
            of: plays,
            transport: transport.clone(),
        };
        let (recv, recv_thread) = Self::hear(setup, recv_plan, counted, run)?;
        let run = EndRun {
            options,
            stop: &stop,
            voice,
            recordings: &mut recordings,
            of: captures,
            transport,
        };
        let (send, send_thread) = Self::send(setup, plan, counted_sent, run)?;
        let threads = vec![recv_thread, send_thread];
        if setup.muted {
            // Silent from the first packet on; what `unmute` restores is the gain of one.
            send.ask(SendChange::Mute(true))
                .and_then(|_| send.ask(SendChange::Volume(Gain::UNITY)))
                .map_err(|why| Failure::running(crate::words::cannot_change(&why)))?;
        }
        Ok((Self { link, send, recv, recordings, coding, stop, threads }, first))
    }

    fn hear(
        setup: &EndSetup<'_>,
        plan: RecvPlan,
        counted: Arc<AtomicU64>,
        run: EndRun<'_>,
    ) -> Result<(Asker<RecvChange>, EngineThread), Failure> {
        let EndRun { options, stop, voice, recordings, of, transport } = run;
        let mut engine = RecvEngine::new(plan)?;
        engine.show_to(setup.observers(voice, 1).going_by(transport));
        let (asker, asked) = requests();
        engine.listen(asked);
        let opened = of.open(setup, Direction::Playback, engine.listener())?;
        let device = kept(opened.device, Direction::Playback, recordings)?;
        let stop = stop.clone();
        let thread = ordinary("taut-call-hear", move || {
            let mut teller = NoteTeller::new(voice);
            engine.run(device, &options, &stop, &mut |progress: &Progress<'_>| {
                opened.latency.set(progress.link_offset);
                counted.store(progress.packets, Ordering::Relaxed);
                teller.tell(progress.notes.iter().chain(&opened.notes.take()));
            })
        })?;
        Ok((asker, thread))
    }

    fn send(
        setup: &EndSetup<'_>,
        plan: SendPlan,
        counted: Arc<AtomicU64>,
        run: EndRun<'_>,
    ) -> Result<(Asker<SendChange>, EngineThread), Failure> {
        let EndRun { options, stop, voice, recordings, of, transport } = run;
        let mut engine = SendEngine::new(plan)?;
        engine.show_to(setup.observers(voice, 0).going_by(transport));
        let (asker, asked) = requests();
        engine.listen(asked);
        let opened = of.open(setup, Direction::Capture, None)?;
        let device = kept(opened.device, Direction::Capture, recordings)?;
        let stop = stop.clone();
        // One witness watches for both.
        let options = RunOptions { witness: false, ..options };
        let thread = ordinary("taut-call-send", move || {
            let mut teller = NoteTeller::new(voice);
            engine.run(device, &options, &stop, &mut |progress: &Progress<'_>| {
                opened.latency.set(progress.link_offset);
                counted.store(progress.packets, Ordering::Relaxed);
                teller.tell(progress.notes.iter().chain(&opened.notes.take()));
            })
        })?;
        Ok((asker, thread))
    }

    /// Sounds by these terms from now on. What a policy refuses is told.
    pub(super) fn adopt(
        &self,
        (sent, heard): (StreamTerms, StreamTerms),
        latency: CallLatency,
    ) -> Result<(), CannotChange> {
        for (direction, terms) in [(Direction::Capture, sent), (Direction::Playback, heard)] {
            // What has no format is refused below.
            stream_format(terms).iter().for_each(|format| self.coding.adopts(direction, format));
        }
        adopt_coding(&|change| self.send.ask(change), sent.ptime, sent.coding)?;
        self.send.ask(SendChange::Latency(latency.rule()))?;
        self.recv.ask(RecvChange::Latency(None, latency.rule()))?;
        Ok(())
    }

    /// Whether nothing more is played: the device is gone for good.
    pub(super) fn is_over(&self) -> bool {
        self.threads.first().is_some_and(JoinHandle::is_finished)
    }

    /// Whether all is sent that there was: a file is over.
    pub(super) fn has_sent_all(&self) -> bool {
        self.threads.last().is_some_and(JoinHandle::is_finished)
    }

    /// Asks both engines to end. Waits for nothing.
    pub(super) fn stop(&self) {
        self.stop.request();
    }

    /// Whether both engines have ended: [`CallEnd::end`] waits for nothing, then.
    pub(super) fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Ends both engines; their reports, of what is heard first, and what became of the recordings.
    pub(super) fn end(self) -> Result<(Vec<Report>, Result<(), Failure>), Failure> {
        self.stop.request();
        let mut reports = Vec::new();
        for thread in self.threads {
            match thread.join() {
                Ok(report) => reports.push(report?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let recorded = self.recordings.map_or(Ok(()), CallRecordings::finish);
        Ok((reports, recorded))
    }
}

/// With what the two runs of an end are begun.
struct EndRun<'a> {
    options: RunOptions,
    stop: &'a Stop,
    voice: Voice,
    recordings: &'a mut Option<CallRecordings>,
    of: SoundSide,
    transport: LineTransport,
}

/// The device, and what goes by it is kept if it is to be.
fn kept(
    device: Box<dyn Device>,
    direction: Direction,
    recordings: &mut Option<CallRecordings>,
) -> Result<Box<dyn Device>, Failure> {
    match recordings {
        Some(recordings) => recordings.of(device, direction),
        None => Ok(device),
    }
}

fn ordinary<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|error| {
        Failure::running(format!(
            "starting a thread: {error}; end other programs, or raise ulimit -u"
        ))
    })
}

fn stream_format(terms: StreamTerms) -> Result<StreamFormat, Failure> {
    let coding = terms.coding;
    let payload_type = StreamFormat::usual_payload_type(coding.sample, coding.coder);
    terms.format(payload_type).ok_or_else(|| {
        Failure::usage(format!(
            "no whole frame fits packets of {} at {}; use a longer --ptime",
            terms.ptime, terms.rate
        ))
    })
}

/// Sockets for whatever packets may be agreed on while it runs.
fn udp_options(sent: &StreamFormat, capture: Settings) -> UdpOptions {
    let mut udp = UdpOptions::default();
    let heads = PacketHeads { form: WireForm::Rtp, stamps: true };
    udp.fragment = FragmentPolicy::Allow;
    udp.dscp = tautline_io::udp::DSCP_MEDIA;
    lay::make_room(&mut udp, sent, capture.period, heads);
    lay::make_room_for_changes(&mut udp, sent, capture.period, heads);
    udp
}

/// A UDP socket at this address.
pub(super) fn bind(at: std::net::SocketAddr) -> Result<UdpSocket, Failure> {
    UdpSocket::bind(at).map_err(|error| {
        Failure::open(format!(
            "binding UDP {at} for the sound: {error}; another taut serve may run there, which takes as many ports as --callers \
             says, 8 if it says none: choose another with --listen HOST:PORT"
        ))
    })
}
