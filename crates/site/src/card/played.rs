//! A zone with its engine.

use std::collections::BTreeMap;
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
use tautline_engine::plan::zone::{VolumeControl, ZonePlan};
use tautline_engine::plan::{RecvPlan, StreamPlan, lay, sockets};
use tautline_engine::receive_engine::RecvEngine;
use tautline_io::clock::{WallClock, now};
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::open_stream;
use tautline_proto::device::{Settings, Stop};
use tautline_proto::latency::LatencyRule;
use tautline_proto::packet::Codings;
use tautline_proto::time::{LocalTime, Span, WallTime};
use tautline_proto::wire::WireForm;
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_proto::zone::{
    AnnouncementId, Claim, ClaimRefused, Class, EndReason, Targets, ZoneEvent,
};
use tautline_report::snapshot::{Snapshot, StreamState};

use crate::{Error, Place, Site, Source, Zone};

type Building<'a> = (&'a Site, &'a Place);

/// Place of the program among the streams of a zone.
const PROGRAM: usize = 0;
/// Announcements in the state.
const REMEMBERED: usize = 16;

/// Timeout for the engine's report that a timed change ended, from the start of the change.
const SWITCHED: Span = Span::from_millis(500);

/// What the engine's thread leaves for the process.
#[derive(Default)]
struct Left {
    announcements: Vec<AnnouncementState>,
    /// Announcement that plays. It is taken from the same events as the list, so that an
    /// announcement in the list is never missing here.
    playing: Option<AnnouncementId>,
    notes: Vec<String>,
    /// Notes of the engine so far.
    noted: usize,
}

impl Left {
    fn follow(&mut self, event: &ZoneEvent) {
        match *event {
            ZoneEvent::Started { id, .. } => self.playing = Some(id),
            ZoneEvent::Preempted { id, .. } | ZoneEvent::Ended { id, .. } => {
                self.playing = self.playing.filter(|playing| *playing != id);
            }
            ZoneEvent::Refused { .. } | ZoneEvent::Rejected { .. } => {}
        }
    }
}

type Shared = Arc<Mutex<Left>>;

/// A change of the source.
struct Switch {
    /// Address of the new source.
    address: String,
    /// Time at which the engine has reported that it plays.
    over: LocalTime,
    /// Whether a delay was logged.
    is_logged: bool,
}

pub(super) struct PlayedZone {
    zone: Zone,
    /// A change of the source, until the new source plays.
    switch: Option<Switch>,
    state: ZoneState,
    since: LocalTime,
    device: Settings,
    control: OutputControl,
    volumes: VolumeControl,
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
            ..stream(building, &site.received_at(site.announcements, place)?, &settings, true)?
        };
        let numbers = site.numbers_of(name).into_iter().collect();
        let volumes = VolumeControl::default();
        volumes.set(zone.volumes());
        let plan = RecvPlan {
            zone: Some(ZonePlan {
                numbers,
                muted_by: site.muted_by(name),
                volumes: volumes.clone(),
            }),
            probes: Probes::OneIn64,
            ..RecvPlan::new(vec![program, announcements], settings)
        };
        let (onlooker, left, (changes, requests)) =
            (Onlooker::default(), Shared::default(), requests());
        let mut engine = RecvEngine::new(plan)?;
        engine.listen(requests);
        engine.show_to(Observers::none().and(onlooker.clone()));
        let (events, names, wall) = (Arc::clone(&left), Names::of(site), WallClock::frozen());
        let set = volumes.clone();
        engine.on_zone_event(Box::new(move |event, claim| {
            locked(&events, |left| {
                left.follow(event);
                let known = remember(&mut left.announcements, event, &wall);
                let claimed = known.zip(claim.as_ref());
                if let Some((known, claim)) = claimed {
                    names.describe(known, claim);
                    let sounds = claim.0.priority.class() == Class::Emergency;
                    let begins = known.result == AnnouncementResult::Playing;
                    if begins && !sounds && set.volumes().announcement == Gain::SILENCE {
                        known.result = AnnouncementResult::Muted;
                    }
                }
            });
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
        let zone = zone.clone();
        Ok(Self {
            zone,
            switch: None,
            state,
            since,
            device: settings,
            control,
            volumes,
            changes,
            onlooker,
            left,
            run,
        })
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
        let (site, _) = building;
        if let Some(id) = change.stop.as_ref().and_then(|id| id.parse().ok()) {
            let stopped = self.changes.request(RecvChange::EndAnnouncement(id));
            stopped.map_err(|why| format!("announcement {id}: {why:?}"))?;
        }
        let source = self.zone.source.clone();
        if let Some(refused) = self.zone.change(site, change).first() {
            return Err(refused.to_string());
        }
        let settings = self.zone.output(site.rate);
        self.control.change(|it| *it = settings);
        self.volumes.set(self.zone.volumes());
        let at = change.at_ns.map(|nanos| {
            LocalTime::from_nanos(nanos.saturating_sub(WallClock::frozen().offset().as_nanos()))
        });
        let switched = if self.zone.source == source { Ok(()) } else { self.switch(building, at) };
        if switched.is_err() {
            self.zone.source = source;
        }
        self.zone.show(&mut self.state);
        switched
    }

    /// Plays the source of the zone from presentation time `at` on, or as soon as it has sound.
    fn switch(&mut self, building: Building<'_>, at: Option<LocalTime>) -> Result<(), String> {
        let Some(source) = &self.zone.source else { return Ok(()) };
        let plan = program(building, source, &self.device).map_err(|error| error.to_string())?;
        let (address, over) = (plan.address.clone(), at.unwrap_or_else(now) + SWITCHED);
        self.switch = Some(Switch { address, over, is_logged: false });
        let change = RecvChange::From(Some(PROGRAM), Box::new(StreamPlan { joins: at, ..plan }));
        self.changes.request(change).map(|_| ()).map_err(|why| format!("{source}: {why:?}"))
    }

    /// Whether the earlier source plays on after the time of a switch, as the new source is silent.
    fn awaits_source(&mut self, snapshot: &Snapshot) -> bool {
        let address = snapshot.streams.get(PROGRAM).map(|program| &program.address);
        self.switch.take_if(|switch| Some(&switch.address) == address);
        let Some(switch) = self.switch.as_mut().filter(|switch| now() >= switch.over) else {
            return false;
        };
        if let (false, Some(source)) = (switch.is_logged, &self.zone.source) {
            let note =
                format!("source {source} had no sound at the requested time; it follows later");
            locked(&self.left, |left| left.notes.push(note));
        }
        switch.is_logged = true;
        true
    }

    /// Reads the engine's newest state; `fault` is the card's fault. Returns whether more of the
    /// state changed than its figures.
    pub(super) fn look(&mut self, fault: Option<&str>) -> bool {
        let mut before = self.state.clone();
        (self.state.announcements, self.state.announcement) = locked(&self.left, |left| {
            (left.announcements.clone(), left.playing.map(|id| id.to_string()))
        });
        if let Some(snapshot) = self.onlooker.newest() {
            self.follow(&snapshot);
        }
        if fault.is_some() {
            self.state.state = ZonePlayback::Failed;
        }
        if fault != self.state.fault.as_deref() {
            self.state.fault = fault.map(str::to_owned);
        }
        if self.state.state != before.state {
            self.since = now();
        }
        let seconds = (now() - self.since).as_nanos() / 1_000_000_000;
        self.state.seconds = seconds.unsigned_abs();
        let ZoneState { seconds, latency_ns, lost, refused_claims, .. } = self.state;
        (before.seconds, before.latency_ns, before.lost) = (seconds, latency_ns, lost);
        before.refused_claims = refused_claims;
        before != self.state
    }

    fn follow(&mut self, snapshot: &Snapshot) {
        let awaits = self.awaits_source(snapshot);
        let Some(program) = snapshot.streams.get(PROGRAM) else { return };
        let state = &mut self.state;
        state.state = match (program.state, &state.source) {
            (_, None) => ZonePlayback::Idle,
            _ if awaits => ZonePlayback::Waiting,
            (StreamState::Connected, _) => ZonePlayback::Playing,
            _ => ZonePlayback::Silent,
        };
        let plays = matches!(state.state, ZonePlayback::Playing | ZonePlayback::Waiting);
        let latency = program.latency.measured_ns.or(program.latency.configured_ns);
        state.latency_ns = latency.filter(|_| plays);
        state.lost = program.count("lost") + program.count("late");
        state.refused_claims = snapshot.zone.as_ref().map_or(0, |zone| zone.refused_claims);
    }
}

fn locked<T>(left: &Shared, see: impl FnOnce(&mut Left) -> T) -> T {
    see(&mut left.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Names of the zones and groups in claims, by number.
struct Names(BTreeMap<u16, String>);

impl Names {
    fn of(site: &Site) -> Self {
        let zones = site.zones.iter().map(|(name, zone)| (zone.number, name.clone()));
        let groups = site.groups.iter().map(|(name, group)| (group.number, name.clone()));
        Self(zones.chain(groups).collect())
    }

    fn describe(&self, state: &mut AnnouncementState, (claim, targets): &(&Claim, Targets<'_>)) {
        let numbers = targets.as_bytes().iter().map(|number| u16::from_be_bytes(*number));
        let name = |number| self.0.get(&number).cloned().unwrap_or(number.to_string());
        state.targets = numbers.map(name).collect();
        state.rank = Some(claim.rank);
        state.priority = Some(claim.priority.0);
        state.planned_ns = Some(claim.starts.as_unix_nanos());
    }
}

/// Adds an event to the newest announcements. Returns its entry unless the announcement was
/// rejected.
fn remember<'a>(
    all: &'a mut Vec<AnnouncementState>,
    event: &ZoneEvent,
    wall: &WallClock,
) -> Option<&'a mut AnnouncementState> {
    let (id, result, by) = match *event {
        ZoneEvent::Started { id, muted_by: Some(by), .. } => {
            (id, AnnouncementResult::Muted, Some(by))
        }
        ZoneEvent::Started { id, .. } => (id, AnnouncementResult::Playing, None),
        ZoneEvent::Refused { id, by } => (id, AnnouncementResult::Refused, Some(by)),
        ZoneEvent::Rejected { id, why } => {
            reject(all, id.to_string(), why);
            return None;
        }
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
    // The end of a silenced announcement changes nothing.
    if known.result != AnnouncementResult::Muted {
        (known.result, known.by, known.reason) = (result, by.map(|by| by.to_string()), None);
    }
    if let ZoneEvent::Started { at, .. } = *event {
        let started = WallTime::of_local(at, wall.offset());
        known.started_ns = Some(started.as_unix_nanos());
    }
    Some(known)
}

/// Adds a rejected announcement. A flood of rejected announcements displaces no other entries.
fn reject(all: &mut Vec<AnnouncementState>, id: String, why: ClaimRefused) {
    const REJECTED: usize = 4;
    let reason = Some(why.name().to_owned());
    let is_rejected = |it: &AnnouncementState| it.result == AnnouncementResult::Rejected;
    if let Some(known) = all.iter_mut().find(|it| it.id == id) {
        // A repeated claim of an announcement that played adds no entry.
        if is_rejected(known) {
            known.reason = reason;
        }
        return;
    }
    let is_full =
        all.len() == REMEMBERED || all.iter().filter(|it| is_rejected(it)).count() == REJECTED;
    if is_full {
        let Some(oldest) = all.iter().position(is_rejected) else { return };
        all.remove(oldest);
    }
    let result = AnnouncementResult::Rejected;
    all.push(AnnouncementState { id, result, reason, ..AnnouncementState::default() });
}

fn program(building: Building<'_>, source: &str, device: &Settings) -> Result<StreamPlan, Error> {
    let (site, place) = building;
    match site.sources.get(source) {
        Some(Source::Stream(address)) => stream(building, address, device, false),
        Some(Source::Own { address, .. }) => {
            stream(building, &site.received_at(*address, place)?, device, true)
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

/// A stream at the latency of the building. The building's own streams are encrypted if the
/// building has a key.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn results(all: &[AnnouncementState]) -> Vec<AnnouncementResult> {
        all.iter().map(|it| it.result).collect()
    }

    fn started(id: u64) -> ZoneEvent {
        ZoneEvent::Started { id: AnnouncementId(id), at: LocalTime::ZERO, muted_by: None }
    }

    fn ended(id: u64) -> ZoneEvent {
        let (id, at) = (AnnouncementId(id), LocalTime::ZERO);
        ZoneEvent::Ended { id, at, why: EndReason::Station }
    }

    #[test]
    fn announcement_that_began_muted_stays_muted() {
        let (mut all, wall) = (Vec::new(), WallClock::frozen());
        if let Some(known) = remember(&mut all, &started(1), &wall) {
            known.result = AnnouncementResult::Muted;
        }
        remember(&mut all, &ended(1), &wall);
        let (id, muted_by) = (AnnouncementId(2), Some(AnnouncementId(7)));
        let at = LocalTime::ZERO;
        remember(&mut all, &ZoneEvent::Started { id, at, muted_by }, &wall);
        remember(&mut all, &ended(2), &wall);
        assert_eq!(results(&all), [AnnouncementResult::Muted; 2]);
        let by = all.iter().map(|it| it.by.as_deref()).collect::<Vec<_>>();
        assert_eq!(by, [None, Some("0000000000000007")]);
    }

    #[test]
    fn newest_announcement_plays_until_its_own_end() {
        let (at, by) = (LocalTime::ZERO, AnnouncementId(2));
        let mut left = Left::default();
        let mut playing = |event| {
            left.follow(&event);
            left.playing.map(|AnnouncementId(id)| id)
        };
        assert_eq!(playing(started(1)), Some(1));
        assert_eq!(playing(started(2)), Some(2));
        assert_eq!(playing(ZoneEvent::Preempted { id: AnnouncementId(1), by, at }), Some(2));
        assert_eq!(playing(ZoneEvent::Refused { id: AnnouncementId(3), by }), Some(2));
        assert_eq!(playing(ended(2)), None);
        assert_eq!(playing(started(4)), Some(4));
    }

    #[test]
    fn flood_of_rejected_claims_displaces_no_announcement() {
        let (mut all, wall) = (Vec::new(), WallClock::frozen());
        let mut take = |event| {
            remember(&mut all, &event, &wall);
        };
        take(started(1));
        let why = ClaimRefused::Clock;
        (0..1000).for_each(|id| take(ZoneEvent::Rejected { id: AnnouncementId(id), why }));
        take(started(999));
        take(ZoneEvent::Rejected { id: AnnouncementId(999), why });
        let (playing, rejected) = (AnnouncementResult::Playing, AnnouncementResult::Rejected);
        assert_eq!(results(&all), [playing, rejected, rejected, rejected, playing]);
        assert_eq!((all[3].reason.as_deref(), all[4].reason.as_deref()), (Some("clock"), None));
    }
}
