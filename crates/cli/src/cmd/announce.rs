//! `taut page` and `taut play`.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde::Serialize;
use tautline_api::trust::usual_folder;
use tautline_api::v1::{AnnouncementResult, AnnouncementState};
use tautline_audio::DeviceSpec;
use tautline_engine::plan::zone::AnnouncementPlan;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::zone::{ClaimRefused, Priority};
use tautline_site::{
    LOG_NAME, NodeClient, Place, Site, Station, StationHost, Transmission, append_log, transmit,
    unix_nanos,
};

use super::node::{failure, file_device, run_options};
use super::site::building;
use super::stop_on_signals;
use super::zones::zones;
use crate::cmd::answer;
use crate::failure::Failure;
use crate::flags::{AnnounceFlags, PageFlags, PlayFlags};
use crate::messages::claim_refused;

pub(crate) fn page(flags: &PageFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.announce.site)?;
    let from = station(&site, &flags.announce)?;
    let input = flags.input.clone().or_else(|| from.station.input.clone()).ok_or_else(|| {
        Failure::usage(format!(
            "station {} has no input\nhint: add --input DEVICE, or input = to the station in the building file",
            from.name
        ))
    })?;
    announce(&site, &from, &flags.zones, input, flags.duration, &flags.announce)
}

pub(crate) fn play(flags: &PlayFlags) -> Result<(), Failure> {
    let (path, site) = building(&flags.announce.site)?;
    let from = station(&site, &flags.announce)?;
    let message = flags.recording.to_str().filter(|name| site.messages.contains_key(*name));
    let folder = path.parent().unwrap_or(Path::new(""));
    let file = message.map_or_else(
        || Ok(flags.recording.clone()),
        |name| site.recording(name, folder).map_err(|fault| Failure::open(fault.to_string())),
    )?;
    announce(&site, &from, &flags.zones, file_device(&file), None, &flags.announce)
}

/// The station that this machine is.
struct From<'a> {
    name: &'a str,
    station: &'a Station,
    place: Option<Place>,
}

fn station<'a>(site: &'a Site, flags: &AnnounceFlags) -> Result<From<'a>, Failure> {
    let here = site.place(None);
    let is_here = |station: &Station| match &station.host {
        StationHost::Node(node) => here.as_ref().is_ok_and(|place| place.name == *node),
        StationHost::Key(_) => true,
    };
    let listed = |names: Vec<&String>| {
        let names: Vec<_> = names.into_iter().map(String::as_str).collect();
        names.join(", ")
    };
    let (name, station) = match &flags.station {
        Some(name) => site.stations.get_key_value(name).ok_or_else(|| {
            let known = listed(site.stations.keys().collect());
            Failure::usage(format!(
                "the building file has no station {name:?}\nhint: it has {known}"
            ))
        })?,
        None => {
            let mut fitting: Vec<_> =
                site.stations.iter().filter(|(_, station)| is_here(station)).collect();
            match (fitting.pop(), fitting.is_empty()) {
                (Some(only), true) => only,
                (None, _) => {
                    return Err(Failure::usage(
                        "the building file has no station of this machine\n\
                         hint: add [station.NAME] with its node to the building file, or use --station",
                    ));
                }
                (Some(last), false) => {
                    let names = fitting.iter().map(|(name, _)| *name).chain([last.0]).collect();
                    return Err(Failure::usage(format!(
                        "this machine can be several stations\nhint: add --station with one of {}",
                        listed(names)
                    )));
                }
            }
        }
    };
    let place = match &station.host {
        StationHost::Node(node) => {
            Some(site.place(Some(node)).map_err(|why| failure(&why.into()))?)
        }
        StationHost::Key(_) => here.ok(),
    };
    Ok(From { name, station, place })
}

/// `--report json`; scripts rely on the names.
#[derive(Serialize)]
struct Announced {
    schema: u32,
    id: String,
    zones: Vec<AnnouncedZone>,
}

#[derive(Serialize)]
struct AnnouncedZone {
    zone: String,
    result: AnnouncementResult,
    by: Option<String>,
    started_ns: Option<i64>,
    fault: Option<String>,
}

fn announce(
    site: &Site,
    from: &From<'_>,
    names: &str,
    input: DeviceSpec,
    duration: Option<Span>,
    flags: &AnnounceFlags,
) -> Result<(), Failure> {
    let zones = zones(site, names)?;
    let permitted = site.zones_of(from.station.to.iter().map(String::as_str));
    if let Some(forbidden) = zones.iter().find(|zone| !permitted.contains(zone)) {
        return Err(Failure::usage(format!(
            "station {} is not allowed to announce in zone {forbidden}\nhint: add it to `to` of the station in the building file",
            from.name
        )));
    }
    let targets = site.numbers(names.split(',').map(str::trim)).unwrap_or_default();
    let plan = AnnouncementPlan::new(targets, Priority(from.station.priority));
    let plan = plan.map_err(|error| failure(&error.into()))?;
    let plan = AnnouncementPlan { rank: from.station.rank, ..plan };
    let id = plan.id.to_string();
    let options = run_options(Scheduler::Fifo(70), duration);
    let interface = from.place.as_ref().map(|place| place.address);
    let transmission = Transmission {
        input,
        looped: false,
        to: site.announcements,
        interface,
        begins: None,
        announcement: Some(plan),
    };
    let stop = stop_on_signals()?;
    let client = NodeClient::new(site)?;
    let voice = flags.voice.voice();
    let (ended, wait) = mpsc::channel::<()>();
    let results = std::thread::scope(|scope| {
        let (client, zones, id) = (&client, &zones, &id);
        let watching = scope.spawn(move || {
            let (mut told, mut ends) = (0, LocalTime::NEVER);
            loop {
                let pause = if told == zones.len() { LATER } else { FIRST };
                if wait.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) && ends.is_never() {
                    ends = now() + LAST;
                }
                if !ends.is_never() {
                    sleep_until(now() + Span::from_millis(50));
                }
                let results = results(site, client, zones, id);
                let have = results.iter().filter(|it| it.started_ns.is_some()).count();
                if have > told {
                    told = have;
                    voice.notify(&format!("on air in {have} of {} zones", zones.len()));
                }
                let plays = results.iter().any(|it| it.result == AnnouncementResult::Playing);
                if now() >= ends || (!ends.is_never() && !plays) {
                    return results;
                }
            }
        });
        let sent = transmit(site, transmission, &options, &stop);
        drop(ended);
        let results = watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.map(|()| results).map_err(|error| failure(&error))
    })?;
    let announced = Announced { schema: 1, id, zones: results };
    log(from, names, &announced, flags);
    conclude(flags, &announced)
}

/// The announcement in the log of the station.
#[derive(Serialize)]
struct StationEntry<'a> {
    time_ns: i64,
    station: &'a str,
    priority: u8,
    targets: Vec<&'a str>,
    #[serde(flatten)]
    announced: &'a Announced,
}

fn log(from: &From<'_>, names: &str, announced: &Announced, flags: &AnnounceFlags) {
    let entry = StationEntry {
        time_ns: unix_nanos(),
        station: from.name,
        priority: from.station.priority,
        targets: names.split(',').map(str::trim).collect(),
        announced,
    };
    let Ok(path) = usual_folder().map(|folder| folder.join(LOG_NAME)) else { return };
    if let Err(error) = append_log(&path, &entry) {
        let path = path.display();
        flags
            .voice
            .voice()
            .notify(&format!("writing {path}: {error}; the log lacks {}", announced.id));
    }
}

/// Intervals of questions to the nodes, before and after the start.
const FIRST: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(1);
/// Time in which all zones report the end: the longest latency, and a loss of the goodbye.
const LAST: Span = Span::from_secs(3);

fn results(site: &Site, client: &NodeClient<'_>, zones: &[&str], id: &str) -> Vec<AnnouncedZone> {
    let node = |zone: &str| site.zones.get(zone).map_or("", |zone| zone.node.as_str());
    let mut nodes: Vec<_> = zones.iter().map(|zone| node(zone)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let asked = client.states(nodes);
    let of_zone = |zone: &&str| {
        let absent = |fault: String| AnnouncedZone {
            zone: (*zone).to_owned(),
            result: AnnouncementResult::Unknown,
            by: None,
            started_ns: None,
            fault: Some(fault),
        };
        let Some(asked) = asked.iter().find(|asked| asked.node == node(zone)) else {
            return absent("its node is unknown".to_owned());
        };
        let state = match &asked.state {
            Ok(state) => state.zones.iter().find(|state| state.zone == **zone),
            Err(why) => return absent(crate::failure::on_one_line(&why.to_string())),
        };
        let found = state.and_then(|state| state.announcements.iter().find(|it| it.id == id));
        match found {
            Some(AnnouncementState { result, by, reason, started_ns, .. }) => AnnouncedZone {
                zone: (*zone).to_owned(),
                result: *result,
                by: by.clone(),
                started_ns: *started_ns,
                fault: match result {
                    AnnouncementResult::Refused => Some("another announcement plays".to_owned()),
                    AnnouncementResult::Preempted => {
                        Some("an announcement of higher priority ended it".to_owned())
                    }
                    AnnouncementResult::Rejected => Some(rejected(reason.as_deref())),
                    AnnouncementResult::Cut => Some("its packets stopped".to_owned()),
                    _ => None,
                },
            },
            None => absent("the zone did not receive it".to_owned()),
        }
    };
    zones.iter().map(of_zone).collect()
}

fn rejected(reason: Option<&str>) -> String {
    let why = reason.and_then(ClaimRefused::named);
    let reason = why.map_or_else(|| reason.unwrap_or("unknown").to_owned(), claim_refused);
    format!("the zone rejected its claim: {reason}")
}

fn conclude(flags: &AnnounceFlags, announced: &Announced) -> Result<(), Failure> {
    let zones = &announced.zones;
    let missed =
        zones.iter().filter_map(|it| Some(format!("zone {}: {}", it.zone, it.fault.as_ref()?)));
    let missed: Vec<_> = missed.collect();
    let reached = zones.len() - missed.len();
    let text = format!("announced in {reached} of {} zones\n", zones.len());
    let json = serde_json::to_string_pretty(announced);
    answer(flags.report, &text, json.map(|text| text + "\n"))?;
    match missed.is_empty() {
        true => Ok(()),
        false => Err(Failure::running(missed.join("; "))),
    }
}
