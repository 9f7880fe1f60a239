//! `taut node`: the zones and sources of this machine.

use std::io::{BufRead as _, stdin};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tautline_api::trust::{TrustStore, usual_folder};
use tautline_api::v1::{NODE_PORT, NodeService as _, NodeState, ZoneChange, ZonePlayback};
use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_engine::monitor::run::RunOptions;
use tautline_engine::plan::zone::AnnouncementPlan;
use tautline_io::clock::{WallClock, now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::zone::{AnnouncementId, Priority};
use tautline_serving::{ApiServer, Listening, serve_node};
use tautline_site::{
    Announced, BuildingNode, CardNews, Contact, ContactAction, LOG_NAME, NodeConfig, Place, Role,
    ScheduledAnnouncement, Site, Transmission, run_card, send_source, transmit,
};

use super::site::building;
use super::stop_on_signals;
use crate::failure::Failure;
use crate::flags::NodeFlags;
use crate::messages::words;
use crate::screen;
use crate::systemd::{NOTIFY_SOCKET, ServiceManager};
use crate::voice::Voice;

const STEP: Span = Span::from_millis(50);
const WATCH: Span = Span::from_secs(1);

pub(crate) fn run(flags: &NodeFlags) -> Result<(), Failure> {
    let (path, site) = building(&flags.site)?;
    let place = site.place(flags.node.as_deref()).map_err(|why| failure(&why.into()))?;
    if let Some(announcement) = &flags.announce {
        return play_scheduled(flags, (&site, &place), &path, announcement);
    }
    match (&flags.card, &flags.source) {
        (Some(card), _) => play_card(flags, (&site, &place), card),
        (None, Some(source)) => play_source(flags, (&site, &place), source),
        (None, None) => keep(flags, &path, site, place),
    }
}

pub(super) fn run_options(scheduler: Scheduler, duration: Option<Span>) -> RunOptions {
    RunOptions { scheduler, duration, stall_monitor: false, lock_memory: true, words }
}

fn keep(flags: &NodeFlags, path: &Path, site: Site, place: Place) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let voice = flags.voice.voice();
    let [saved, faults] = [file(&place, "zones")?, file(&place, "faults")?];
    let path = path.to_owned();
    let (own_path, site_path) = (path.clone(), path.clone());
    let (scheduler, name) = (flags.scheduler.to_string(), place.name.clone());
    let begin_program = || {
        let mut command = Command::new("/proc/self/exe");
        command.env_remove(NOTIFY_SOCKET);
        command
    };
    let begin = move || {
        let mut command = begin_program();
        command.args(["node", "--scheduler", &scheduler, "--node", &name, "--site"]).arg(&path);
        command
    };
    let begin_announcement = begin.clone();
    let announce = move |announcement: &ScheduledAnnouncement| {
        let mut command = begin_announcement();
        command.arg("--announce").arg(serde_json::to_string(announcement).unwrap_or_default());
        command
    };
    let command = move |role: &Role| {
        let mut command = begin();
        match role {
            Role::Card(card) => command.args(["--card", card]),
            Role::Source(source) => command.args(["--source", source]),
        };
        command
    };
    let contact = move |contact: &Contact| {
        let mut command = begin_program();
        let recording = match &contact.action {
            ContactAction::Page => {
                command.args(["page", "--until-eof"]);
                None
            }
            ContactAction::Play(recording) => {
                command.arg("play");
                Some(recording)
            }
            ContactAction::Repeat(recording) => {
                command.args(["play", "--repeat", "--until-eof"]);
                Some(recording)
            }
        };
        // The error of the process then has the faults of the zones.
        command.args(["--quiet", "--report", "none", "--site"]).arg(&site_path);
        command.args(contact.station.iter().map(|name| format!("--station={name}")));
        command.arg("--").arg(contact.to.join(",")).args(recording);
        command
    };
    let site = Arc::new(site);
    let node = BuildingNode::new(NodeConfig {
        site: Arc::clone(&site),
        place: place.clone(),
        path: own_path,
        command: Box::new(command),
        announce: Box::new(announce),
        contact: Box::new(contact),
        saved,
        faults,
        log: usual_folder()?.join(LOG_NAME),
        notify: Arc::new(move |note: &str| voice.notify(note)),
    });
    let server = listen(&place, voice, &node)?;
    let roles = node.roles();
    let keep = |roles: Vec<Role>| {
        let kept: Result<Vec<_>, _> = roles.into_iter().map(|role| node.keep(role)).collect();
        kept.map_err(|error| Failure::running(format!("starting a thread: {error}")))
    };
    let mut kept = keep(roles)?;
    let contacts = node
        .watch_contacts(Contact::all())
        .map_err(|error| Failure::running(format!("watching contacts: {error}")))?;
    screen::emit(&format!("node {} at {}", place.name, server.address()));
    let manager = ServiceManager::connect().unwrap_or_else(|error| {
        voice.notify(&format!("{NOTIFY_SOCKET}: {error}; the service manager gets no messages"));
        ServiceManager::none()
    });
    manager.send("READY=1");
    let mut next = now() + WATCH;
    while !stop.is_requested() {
        sleep_until(now() + STEP);
        kept.extend(keep(node.update())?);
        node.play_schedule();
        if now() >= next {
            let fed = if node.watch() { "\nWATCHDOG=1" } else { "" };
            manager.send(&format!("STATUS={}{fed}", status(&node.state())));
            next = now() + WATCH;
        }
    }
    manager.send("STOPPING=1");
    server.stop();
    drop(contacts);
    node.end(kept);
    Ok(())
}

fn status(state: &NodeState) -> String {
    let playing = state.zones.iter().filter(|zone| zone.state == ZonePlayback::Playing).count();
    let (zones, faults) = (state.zones.len(), state.faults.len());
    format!("{playing} of {zones} zones playing, {faults} faults")
}

/// Machines that are paired later can use the node, too.
fn listen(place: &Place, voice: Voice, node: &Arc<BuildingNode>) -> Result<ApiServer, Failure> {
    let trust = TrustStore::usual()?;
    if trust.trusted().hosts()?.is_empty() {
        voice.notify(
            "no machine is trusted, so only this one can change the zones; taut pair adds others",
        );
    }
    let any: IpAddr = match place.address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let listening = Listening { address: (any, NODE_PORT).into(), trust: Some(trust) };
    let served = serve_node(&listening, Arc::clone(node) as _, move |news| {
        voice.detail(&format!("{news:?}"));
    });
    served.map_err(|error| Failure::open(error.to_string()))
}

/// File of this node for `content`.
fn file(place: &Place, content: &str) -> Result<PathBuf, Failure> {
    let name: String = place.name.chars().map(|c| if c == '/' { '_' } else { c }).collect();
    Ok(usual_folder()?.join(format!("{content}-{name}.json")))
}

fn play_card(flags: &NodeFlags, building: (&Site, &Place), card: &str) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let mut first = String::new();
    let read = stdin().lock().read_line(&mut first);
    let before: Vec<ZoneChange> =
        read.ok().and_then(|_| serde_json::from_str(&first).ok()).unwrap_or_default();
    let changes = changes(&stop)?;
    let mut notify = |news: CardNews| {
        if let Ok(line) = serde_json::to_string(&news) {
            screen::print(&format!("{line}\n"));
        }
    };
    let steering = (&stop, &changes);
    run_card(building, card, &run_options(flags.scheduler, None), &before, steering, &mut notify)
        .map_err(|error| failure(&error))
}

fn play_source(
    flags: &NodeFlags,
    (site, place): (&Site, &Place),
    name: &str,
) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    // The end of standard input ends the process.
    let _changes = changes(&stop)?;
    let sending = &mut |fault| {
        if let Ok(line) = serde_json::to_string(&CardNews::Sending { fault }) {
            screen::print(&format!("{line}\n"));
        }
    };
    send_source((site, place), name, &run_options(flags.scheduler, None), &stop, sending)
        .map_err(|error| failure(&error))
}

/// Plays an announcement of the schedule to the zones of this node, and to no other machine.
fn play_scheduled(
    flags: &NodeFlags,
    (site, place): (&Site, &Place),
    path: &Path,
    announcement: &str,
) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let invalid = |error: serde_json::Error| Failure::usage(format!("--announce: {error}"));
    let announcement: ScheduledAnnouncement =
        serde_json::from_str(announcement).map_err(invalid)?;
    let ScheduledAnnouncement { message, station, zones, at_ns, id } = announcement;
    let unknown = |what: &str| Failure::usage(format!("the building file has no {what}"));
    let file = site.recording(&message, path.parent().unwrap_or(Path::new("")));
    let file = file.map_err(|fault| Failure::open(fault.to_string()))?;
    let station =
        site.stations.get(&station).ok_or_else(|| unknown(&format!("station {station}")))?;
    let targets = site.numbers(zones.iter().map(String::as_str)).map_err(unknown)?;
    let plan = AnnouncementPlan::new(targets, Priority(station.priority));
    let plan = plan.map_err(|error| failure(&error.into()))?;
    let plan = AnnouncementPlan { id: AnnouncementId(id), rank: station.rank, ..plan };
    let begins = LocalTime::from_nanos(at_ns) - WallClock::frozen().offset();
    let transmission = Transmission {
        input: file_device(&file),
        looped: false,
        to: site.announcements,
        interface: Some(place.address),
        begins: Some(begins),
        announcement: Some(Announced { chime: station.chime, ..plan.into() }),
    };
    transmit(site, transmission, &run_options(flags.scheduler, None), &stop)
        .map_err(|error| failure(&error))
}

pub(super) fn file_device(path: &Path) -> DeviceSpec {
    DeviceSpec::Software(SoftwareSpec::File(path.to_owned().into()))
}

/// Changes from standard input, whose end requests the stop.
pub(super) fn changes(stop: &Stop) -> Result<Receiver<ZoneChange>, Failure> {
    let (sender, receiver) = channel();
    let stop = stop.clone();
    let read = move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            if let Ok(change) = serde_json::from_str(&line) {
                let _ = sender.send(change);
            }
        }
        stop.request();
    };
    let started = std::thread::Builder::new().name("taut-changes".to_owned()).spawn(read);
    started.map_err(|error| Failure::running(format!("starting a thread: {error}")))?;
    Ok(receiver)
}

pub(super) fn failure(error: &tautline_site::Error) -> Failure {
    use tautline_site::Error;
    match error {
        Error::NotHere(_) | Error::Usage(_) | Error::Address(_) => {
            Failure::usage(error.to_string())
        }
        Error::Run(_) | Error::Local(_) | Error::Ended(_) => Failure::running(error.to_string()),
        Error::Device(_) | Error::Open(_) | Error::Pacing(_) | Error::Key(_) => {
            Failure::open(error.to_string())
        }
    }
}
