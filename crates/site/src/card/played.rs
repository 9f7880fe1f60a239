//! A zone with its engine.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tautline_api::v1::{
    AnnouncementResult, AnnouncementState, ZoneChange, ZonePlayback, ZoneState,
};
use tautline_audio::{Output, OutputControl};
use tautline_dsp::gain::Gain;
use tautline_engine::control::{ChangeSender, RecvChange, requests};
use tautline_engine::monitor::observers::{Observers, Onlooker};
use tautline_engine::monitor::run::RunOptions;
use tautline_engine::plan::address::Address;
use tautline_engine::plan::probes::Probes;
use tautline_engine::plan::zone::ZonePlan;
use tautline_engine::plan::{RecvPlan, StreamPlan, lay, sockets};
use tautline_engine::receive_engine::RecvEngine;
use tautline_io::clock::{WallClock, now};
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::open_stream;
use tautline_proto::device::{Settings, Stop};
use tautline_proto::latency::LatencyRule;
use tautline_proto::packet::Codings;
use tautline_proto::time::{LocalTime, WallTime};
use tautline_proto::wire::WireForm;
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_proto::zone::{EndReason, ZoneEvent};
use tautline_report::snapshot::{Snapshot, StreamState};

use crate::{Error, Place, Site, Source, Zone};

type Building<'a> = (&'a Site, &'a Place);

/// Place of the program among the streams of a zone.
const PROGRAM: usize = 0;
/// Announcements in the state.
const REMEMBERED: usize = 16;

/// What the engine's thread leaves for the process.
#[derive(Default)]
struct Left {
    announcements: Vec<AnnouncementState>,
    notes: Vec<String>,
    /// Notes of the engine so far.
    noted: usize,
}

type Shared = Arc<Mutex<Left>>;

pub(super) struct PlayedZone {
    state: ZoneState,
    since: LocalTime,
    device: Settings,
    control: OutputControl,
    changes: ChangeSender<RecvChange>,
    onlooker: Onlooker,
    left: Shared,
    run: JoinHandle<Result<(), Error>>,
}

impl PlayedZone {
    pub(super) fn begin(
        building: Building<'_>,
        (name, zone): (&str, &Zone),
        output: &Output,
        options: &RunOptions,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let (site, place) = building;
        let taken = || Error::Usage(format!("zone {name} runs already"));
        let (device, control) = (output.device().ok_or_else(taken)?, output.control());
        let settings = device.settings();
        let program = match &zone.source {
            Some(source) => program(building, source, &settings)?,
            None => no_program(site)?,
        };
        let announcements = StreamPlan {
            announces: true,
            ..stream(building, &site.heard_at(site.announcements, place)?, &settings, true)?
        };
        let numbers = site.numbers_of(name).into_iter().collect();
        let plan = RecvPlan {
            zone: Some(ZonePlan { numbers }),
            probes: Probes::OneIn64,
            ..RecvPlan::new(vec![program, announcements], settings)
        };
        let (onlooker, left, (changes, requests)) =
            (Onlooker::default(), Shared::default(), requests());
        let mut engine = RecvEngine::new(plan)?;
        engine.listen(requests);
        engine.show_to(Observers::none().and(onlooker.clone()));
        let (events, wall) = (Arc::clone(&left), WallClock::frozen());
        engine.on_zone_event(Box::new(move |event| {
            locked(&events, |left| remember(&mut left.announcements, event, &wall));
        }));
        let (options, stop, news) = (*options, stop.clone(), Arc::clone(&left));
        let run = std::thread::Builder::new().name("taut-zone".to_owned()).spawn(move || {
            let mut take = |progress: &tautline_engine::monitor::run::Progress<'_>| {
                locked(&news, |left| {
                    left.notes.extend(progress.notes.iter().skip(left.noted).cloned());
                    left.noted = progress.notes.len();
                });
            };
            engine.run(device, &options, &stop, &mut take).map(|_| ()).map_err(Error::from)
        });
        let run = run.map_err(|error| {
            tautline_engine::error::RunError::System("starting the thread of a zone", error)
        })?;
        let (state, since) = (zone.first_state(name), now());
        Ok(Self { state, since, device: settings, control, changes, onlooker, left, run })
    }

    pub(super) const fn state(&self) -> &ZoneState {
        &self.state
    }

    /// Whether the engine ended, which it does only after an error or a stop.
    pub(super) fn is_over(&self) -> bool {
        self.run.is_finished()
    }

    pub(super) fn end(self) -> Result<(), Error> {
        self.run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let zone = &self.state.zone;
        let notes = locked(&self.left, |left| core::mem::take(&mut left.notes));
        notes.into_iter().map(|note| format!("zone {zone}: {note}")).collect()
    }

    /// Applies a change that the node has checked.
    pub(super) fn change(
        &mut self,
        building: Building<'_>,
        change: &ZoneChange,
    ) -> Result<(), String> {
        let ZoneChange { volume, muted, source, stop, .. } = change;
        if let Some(id) = stop.as_ref().and_then(|id| id.parse().ok()) {
            let stopped = self.changes.request(RecvChange::EndAnnouncement(id));
            stopped.map_err(|why| format!("announcement {id}: {why:?}"))?;
        }
        if let Some(volume) = volume {
            let gain: Gain = volume.parse().map_err(|error| format!("{error}"))?;
            self.control.volume(gain);
            self.state.volume = gain.to_string();
        }
        if let Some(muted) = *muted {
            self.control.mute(muted);
            self.state.muted = muted;
        }
        if let Some(source) = source.as_ref().filter(|it| self.state.source.as_ref() != Some(it)) {
            let plan =
                program(building, source, &self.device).map_err(|error| error.to_string())?;
            let change = RecvChange::From(Some(PROGRAM), Box::new(plan));
            self.changes.request(change).map_err(|why| format!("{source}: {why:?}"))?;
            self.state.source = Some(source.clone());
        }
        Ok(())
    }

    /// Reads the engine's newest state. Returns whether more changed than its figures.
    pub(super) fn look(&mut self) -> bool {
        let mut before = self.state.clone();
        self.state.announcements = locked(&self.left, |left| left.announcements.clone());
        if let Some(snapshot) = self.onlooker.newest() {
            self.follow(&snapshot);
        }
        if self.state.state != before.state {
            self.since = now();
        }
        let seconds = (now() - self.since).as_nanos() / 1_000_000_000;
        self.state.seconds = seconds.unsigned_abs();
        let ZoneState { seconds, latency_ns, lost, .. } = self.state;
        (before.seconds, before.latency_ns, before.lost) = (seconds, latency_ns, lost);
        before != self.state
    }

    fn follow(&mut self, snapshot: &Snapshot) {
        let Some(program) = snapshot.streams.get(PROGRAM) else { return };
        let state = &mut self.state;
        state.state = match (program.state, &state.source) {
            (_, None) => ZonePlayback::Idle,
            (StreamState::Connected, _) => ZonePlayback::Playing,
            _ => ZonePlayback::Silent,
        };
        let plays = state.state == ZonePlayback::Playing;
        let latency = program.latency.measured_ns.or(program.latency.configured_ns);
        state.latency_ns = latency.filter(|_| plays);
        let counted = |name: &str| program.counters.get(name).copied().unwrap_or_default();
        state.lost = counted("lost") + counted("late");
        state.announcement = snapshot.zone.as_ref().and_then(|zone| zone.announcement.clone());
    }
}

fn locked<T>(left: &Shared, see: impl FnOnce(&mut Left) -> T) -> T {
    see(&mut left.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Adds an event to the newest announcements.
fn remember(all: &mut Vec<AnnouncementState>, event: &ZoneEvent, wall: &WallClock) {
    let (id, result, by) = match *event {
        ZoneEvent::Started { id, .. } => (id, AnnouncementResult::Playing, None),
        ZoneEvent::Refused { id, by } => (id, AnnouncementResult::Refused, Some(by)),
        ZoneEvent::Preempted { id, by, .. } => (id, AnnouncementResult::Preempted, Some(by)),
        ZoneEvent::Ended { id, why: EndReason::Station, .. } => {
            (id, AnnouncementResult::Played, None)
        }
        ZoneEvent::Ended { id, why: EndReason::Stopped, .. } => {
            (id, AnnouncementResult::Stopped, None)
        }
        ZoneEvent::Ended { id, .. } => (id, AnnouncementResult::Cut, None),
    };
    let id = id.to_string();
    let known = match all.iter().position(|it| it.id == id) {
        Some(known) => known,
        None => {
            if all.len() == REMEMBERED {
                all.remove(0);
            }
            all.push(AnnouncementState { id, ..AnnouncementState::default() });
            all.len() - 1
        }
    };
    let known = &mut all[known];
    (known.result, known.by) = (result, by.map(|by| by.to_string()));
    if let ZoneEvent::Started { at, .. } = *event {
        let started = WallTime::of_local(at, wall.offset());
        known.started_ns = Some(started.as_unix_nanos());
    }
}

fn program(building: Building<'_>, source: &str, device: &Settings) -> Result<StreamPlan, Error> {
    let (site, place) = building;
    match site.sources.get(source) {
        Some(Source::Stream(address)) => stream(building, address, device, false),
        Some(Source::Own { address, .. }) => {
            stream(building, &site.heard_at(*address, place)?, device, true)
        }
        None => Err(Error::Usage(format!("the building file has no source {source}"))),
    }
}

/// A stream without a sender, whose place a source can take later.
fn no_program(site: &Site) -> Result<StreamPlan, Error> {
    let options = UdpOptions::receiver(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
    let opened = open_stream(&options, None)?;
    let receiver = tautline_proto::jitter_buffer::JitterBufferConfig::new(
        RtpUnpack::usual(),
        site.format(),
        site.latency,
    );
    Ok(StreamPlan::new("no source".to_owned(), receiver, opened.link, opened.control))
}

/// A stream at the latency of the building. The building's own ones are encrypted if it has a key.
fn stream(
    (site, _): Building<'_>,
    address: &Address,
    device: &Settings,
    own: bool,
) -> Result<StreamPlan, Error> {
    let resolved = address.resolve()?;
    let format = lay::described(&resolved, site.format());
    let latency = lay::kept(LatencyRule::Chosen(site.latency), None, &format, device);
    let latency = latency.map_err(|short| {
        Error::Usage(format!(
            "latency {} is too short: {}\nhint: write latency = \"{}\" or more, or \
             a shorter period of the card",
            short.requested,
            short.needs,
            short.needs.total()
        ))
    })?;
    let mut receiver = lay::receiver(&resolved, format, latency);
    receiver.decoders = Some(tautline_codec::decoder);
    if resolved.description.is_none() && resolved.form == WireForm::Rtp {
        receiver.wire = RtpUnpack::taking(Codings::ByConvention);
    }
    let options = sockets::receiving((address, &resolved), &format);
    let (opened, sealed) =
        if own { site.open(&options, None)? } else { (options.open(None)?, None) };
    Ok(StreamPlan { sealed, ..StreamPlan::of(address, receiver, opened) })
}
