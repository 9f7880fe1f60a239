//! `taut zones`, `taut zone` and `taut ack`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tautline_api::client::AskError;
use tautline_api::v1::{
    AnnouncementResult, AnnouncementState, FaultState, FaultsAck, NodeState, ZoneChange,
    ZonePlayback, ZoneState,
};
use tautline_io::clock::{WallClock, now};
use tautline_proto::time::{Span, WallTime};
use tautline_site::{AskFailed, Asked, DEFAULT_SETTING, NodeClient, Site, unix_nanos};

use super::site::building;
use crate::cmd::answer;
use crate::failure::{Failure, on_one_line};
use crate::flags::{AckFlags, ZoneFlags, ZoneVerb, ZonesFlags};
use crate::screen;

pub(crate) fn list(flags: &ZonesFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.site)?;
    let asked = NodeClient::new(&site)?.states(site.nodes.keys().map(String::as_str));
    let json = serde_json::to_string_pretty(&listed(&asked)).map(|text| text + "\n");
    let mut text = table(&site, &asked);
    if flags.verbose {
        let zones = asked.iter().filter_map(|it| it.state.as_ref().ok()).flat_map(|it| &it.zones);
        zones.for_each(|state| text += &format!("{}\n", all_settings(&site, state)));
    }
    answer(flags.report, &text, json)?;
    concluded(&faults(&site, &asked))
}

/// Prints faults. Fails if there are any.
fn concluded(faults: &[String]) -> Result<(), Failure> {
    faults.iter().for_each(|fault| screen::notify(fault));
    match faults.len() {
        0 => Ok(()),
        1 => Err(Failure::running("1 fault")),
        count => Err(Failure::running(format!("{count} faults"))),
    }
}

pub(crate) fn acknowledge(flags: &AckFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.site)?;
    let requests = match &flags.names {
        Some(names) => requests(&site, names)?,
        None => site.nodes.keys().map(|node| (node.as_str(), FaultsAck::default())).collect(),
    };
    let client = NodeClient::new(&site)?;
    let mut faults = Vec::new();
    for (node, request) in requests {
        match client.acknowledge(node, &request) {
            Ok(done) => {
                let cleared =
                    |fault: &FaultState| format!("{node}: cleared: {fault}: {}", fault.reason);
                done.cleared.iter().for_each(|it| screen::emit(&on_one_line(&cleared(it))));
                let lasting = |fault: &FaultState| {
                    format!("node {node}: {fault}: {}; it lasts", fault.reason)
                };
                faults.extend(done.lasting.iter().map(lasting));
            }
            Err(why) => faults.push(format!("node {node}: {why}")),
        }
    }
    let faults: Vec<_> = faults.iter().map(|fault| on_one_line(fault)).collect();
    concluded(&faults)
}

/// Requests to nodes. A name of a node and of a zone means both.
fn requests<'a>(site: &'a Site, names: &'a str) -> Result<BTreeMap<&'a str, FaultsAck>, Failure> {
    let mut requests = BTreeMap::new();
    for name in names.split(',').map(str::trim) {
        let node = site.nodes.get_key_value(name).map(|(node, _)| node.as_str());
        let zones = match zones(site, name) {
            Ok(zones) => zones,
            Err(_) if node.is_some() => Vec::new(),
            Err(unknown) => return Err(unknown),
        };
        for zone in zones {
            let Some(node) = site.zones.get(zone).map(|it| it.node.as_str()) else { continue };
            let none = || FaultsAck { zones: Some(Vec::new()) };
            let request: &mut FaultsAck = requests.entry(node).or_insert_with(none);
            request.zones.iter_mut().for_each(|zones| zones.push(zone.to_owned()));
        }
        requests.extend(node.map(|node| (node, FaultsAck::default())));
    }
    Ok(requests)
}

pub(crate) fn change(flags: &ZoneFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.site)?;
    let zones = zones(&site, &flags.zones)?;
    let Some(verb) = &flags.change else { return show(&site, &zones) };
    if let ZoneVerb::Equalizer { bands } = verb
        && bands != DEFAULT_SETTING
    {
        tautline_site::parse_bands(bands, site.rate).map_err(Failure::usage)?;
    }
    let changes: Vec<_> = zones.iter().map(|zone| changed(zone, verb)).collect();
    change_all(&site, &changes)
}

/// Prints the settings of zones.
fn show(site: &Site, zones: &[&str]) -> Result<(), Failure> {
    let asked = NodeClient::new(site)?.states(nodes(site, zones));
    let states = asked.iter().filter_map(|it| it.state.as_ref().ok()).flat_map(|it| &it.zones);
    for zone in zones {
        let state = states.clone().find(|state| state.zone == *zone);
        state.into_iter().for_each(|state| screen::emit(&all_settings(site, state)));
    }
    let absent = |it: &Asked| Some(format!("node {}: {}", it.node, it.state.as_ref().err()?));
    let absent: Vec<_> = asked.iter().filter_map(absent).collect();
    match absent.as_slice() {
        [] => Ok(()),
        [one] => Err(Failure::running(one)),
        several => {
            let lines: Vec<_> = several.iter().map(|it| on_one_line(it)).collect();
            Err(Failure::running(lines.join("; ")))
        }
    }
}

/// Nodes of these zones.
pub(super) fn nodes<'a>(site: &'a Site, zones: &[&str]) -> BTreeSet<&'a str> {
    zones.iter().filter_map(|zone| Some(site.zones.get(*zone)?.node.as_str())).collect()
}

/// Applies all changes, and reports the changes that fail. All zones change their source at one
/// time.
///
/// Absent zones stay as they are: this machine need not run when they return.
pub(super) fn change_all(site: &Site, changes: &[ZoneChange]) -> Result<(), Failure> {
    let client = NodeClient::new(site)?;
    let switched = changes.iter().filter(|it| it.source.is_some());
    let switched: Vec<_> = switched.map(|it| it.zone.as_str()).collect();
    let switch = (!switched.is_empty()).then(|| Switch::new(site, &client, &switched));
    let mut failed = Vec::new();
    for change in changes {
        let switch = switch.as_ref().filter(|_| change.source.is_some());
        let at_ns = switch.and_then(|switch| switch.at(site, &change.zone));
        let change = ZoneChange { at_ns, ..change.clone() };
        match client.change(&change) {
            Ok(state) => screen::emit(&settings(&state, None)),
            Err(why) => failed.push((change.zone, why)),
        }
    }
    match (failed.as_slice(), changes) {
        ([], _) => Ok(()),
        ([(zone, why)], [_]) => Err(Failure::running(format!("zone {zone}: {why}"))),
        (failed, changes) => {
            for (zone, why) in failed {
                screen::notify(&on_one_line(&format!("zone {zone}: {why}")));
            }
            let zones: Vec<_> = failed.iter().map(|(zone, _)| zone.as_str()).collect();
            let is_refused =
                |why: &AskFailed| matches!(why, AskFailed::Ask(AskError::Refused { .. }));
            let hint = match failed.iter().all(|(_, why)| is_refused(why)) {
                true => "",
                false => "\nhint: run the command again once taut zones shows them",
            };
            Err(Failure::running(format!(
                "{} of {} zones did not change: {}{hint}",
                failed.len(),
                changes.len(),
                zones.join(", ")
            )))
        }
    }
}

/// Time at which all zones switch to another source.
struct Switch {
    at: WallTime,
    asked: Vec<Asked>,
}

impl Switch {
    /// Time for a zone to join the source and to synchronize with its sender's clock.
    const JOINS: Span = Span::from_millis(1500);

    fn new(site: &Site, client: &NodeClient<'_>, zones: &[&str]) -> Self {
        let begins = now();
        let asked = client.states(nodes(site, zones));
        // The zones are changed one after the other. Each change takes at most as long as these
        // parallel requests.
        let each = now() - begins;
        let needs = Self::JOINS + site.latency + each.times(zones.len() as i64);
        let at = WallTime::of_local(now() + needs, WallClock::frozen().offset());
        Self { at, asked }
    }

    /// On the clock of the zone's node, in Unix nanoseconds.
    fn at(&self, site: &Site, zone: &str) -> Option<i64> {
        let node = &site.zones.get(zone)?.node;
        let asked = self.asked.iter().find(|asked| asked.node == *node)?;
        Some((self.at + asked.clock).as_unix_nanos())
    }
}

/// Zones of these names, which are separated by commas.
pub(super) fn zones<'a>(site: &'a Site, names: &'a str) -> Result<Vec<&'a str>, Failure> {
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    site.numbers(names.iter().copied()).map_err(|unknown| {
        let known: Vec<_> =
            site.zones.keys().chain(site.groups.keys()).map(String::as_str).collect();
        Failure::usage(format!(
            "the building file has no zone or group {unknown:?}\nhint: it has {}",
            known.join(", ")
        ))
    })?;
    Ok(site.zones_of(names))
}

fn changed(zone: &str, verb: &ZoneVerb) -> ZoneChange {
    let change = ZoneChange { zone: zone.to_owned(), ..ZoneChange::default() };
    match verb {
        ZoneVerb::Volume { gain } => ZoneChange { volume: Some(gain.clone()), ..change },
        ZoneVerb::PageVolume { gain } => ZoneChange { page_volume: Some(gain.clone()), ..change },
        ZoneVerb::Mute => ZoneChange { muted: Some(true), ..change },
        ZoneVerb::Unmute => ZoneChange { muted: Some(false), ..change },
        ZoneVerb::Delay { delay } => ZoneChange { delay: Some(delay.clone()), ..change },
        ZoneVerb::Equalizer { bands } => ZoneChange { equalizer: Some(bands.clone()), ..change },
        ZoneVerb::Limiter { ceiling } => ZoneChange { limiter: Some(ceiling.clone()), ..change },
        ZoneVerb::Source { source } => ZoneChange { source: Some(source.clone()), ..change },
    }
}

/// All settings of a zone, and those of the building file that differ.
fn all_settings(site: &Site, state: &ZoneState) -> String {
    settings(state, Some(&site.settings_of(&state.zone).unwrap_or_else(|| state.clone())))
}

type Setting = fn(&ZoneState) -> &String;

/// Settings of a zone: all settings, compared with `file`, or only settings that are not usual.
fn settings(state: &ZoneState, file: Option<&ZoneState>) -> String {
    let named = |state: &ZoneState| state.source.clone().unwrap_or_else(|| "no source".to_owned());
    let compared = |value: &str, of_file: Option<String>| match of_file {
        Some(file) if file != value => format!("{value} (default {file})"),
        _ => value.to_owned(),
    };
    let volume = compared(&state.volume, file.map(|file| file.volume.clone()));
    let muted = if state.muted { ", muted" } else { "" };
    let source = compared(&named(state), file.map(named));
    let mut text = format!("{}: {volume}{muted}, {source}", state.zone);
    let others: [(&str, Setting, &str); 4] = [
        ("page-volume", |it| &it.page_volume, "0dB"),
        ("delay", |it| &it.delay, "0ms"),
        ("equalizer", |it| &it.equalizer, "flat"),
        ("limiter", |it| &it.limiter, "off"),
    ];
    for (name, setting, usual) in others {
        let value = setting(state);
        // A node of an earlier version does not report these settings.
        if !value.is_empty() && (file.is_some() || value != usual) {
            text += &format!(", {name} {}", compared(value, file.map(setting).cloned()));
        }
    }
    text
}

/// `--report json`; scripts rely on the names.
#[derive(Serialize)]
struct Listed<'a> {
    schema: u32,
    nodes: Vec<ListedNode<'a>>,
}

#[derive(Serialize)]
struct ListedNode<'a> {
    #[serde(flatten)]
    state: std::borrow::Cow<'a, NodeState>,
    fault: Option<String>,
}

fn listed(asked: &[Asked]) -> Listed<'_> {
    let nodes = asked.iter().map(|Asked { node, state, .. }| match state {
        Ok(state) => ListedNode { state: std::borrow::Cow::Borrowed(state), fault: None },
        Err(why) => {
            let state = NodeState { node: node.clone(), ..NodeState::default() };
            let fault = Some(on_one_line(&why.to_string()));
            ListedNode { state: std::borrow::Cow::Owned(state), fault }
        }
    });
    Listed { schema: 1, nodes: nodes.collect() }
}

const COLUMNS: usize = 9;
const HEAD: [&str; COLUMNS] =
    ["ZONE", "NODE", "STATE", "SINCE", "SOURCE", "VOLUME", "LATENCY", "LOST", "ANNOUNCED"];

fn table(site: &Site, asked: &[Asked]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for (name, zone) in &site.zones {
        let of_node = asked.iter().find(|asked| asked.node == zone.node);
        let state = of_node.and_then(|asked| asked.state.as_ref().ok());
        let state = state.and_then(|state| state.zones.iter().find(|state| state.zone == *name));
        rows.push(match state {
            Some(state) => row(state, &zone.node),
            None => {
                let absent = [name, &zone.node, "unreachable", "", "", "", "", "", ""];
                absent.map(str::to_owned)
            }
        });
    }
    screen::columns(&rows).join("\n") + "\n"
}

fn row(state: &ZoneState, node: &str) -> [String; COLUMNS] {
    let plays = match (&state.announcement, state.state) {
        (Some(_), _) => "announcement",
        (None, ZonePlayback::Playing) => "playing",
        (None, ZonePlayback::Silent) => "silent",
        (None, ZonePlayback::Waiting) => "waiting",
        (None, ZonePlayback::Idle) => "idle",
        (None, ZonePlayback::Failed) => "failed",
        (None, ZonePlayback::Unknown) => "starting",
    };
    let muted = if state.muted { " muted" } else { "" };
    let latency = state
        .latency_ns
        .map(|nanos| format!("{:.1}ms", Span::from_nanos(nanos).as_nanos() as f64 / 1e6));
    [
        state.zone.clone(),
        node.to_owned(),
        plays.to_owned(),
        since_state(state),
        state.source.clone().unwrap_or_else(|| "-".to_owned()),
        format!("{}{muted}", state.volume),
        latency.unwrap_or_else(|| "-".to_owned()),
        state.lost.to_string(),
        state.announcements.last().map_or_else(|| "-".to_owned(), announced),
    ]
}

fn announced(last: &AnnouncementState) -> String {
    let result = match last.result {
        AnnouncementResult::Playing => "playing",
        AnnouncementResult::Played => "played",
        AnnouncementResult::Muted => "muted",
        AnnouncementResult::Refused => "refused",
        AnnouncementResult::Rejected => "rejected",
        AnnouncementResult::Preempted => "pre-empted",
        AnnouncementResult::Cut => "cut",
        AnnouncementResult::Stopped => "stopped",
        AnnouncementResult::Unknown => "unknown",
    };
    match last.started_ns {
        Some(started) => format!("{result} {} ago", age(started / 1_000_000_000)),
        None => result.to_owned(),
    }
}

/// Time since this Unix second, on this machine's clock.
fn age(unix: i64) -> String {
    since((unix_nanos() / 1_000_000_000 - unix).max(0).unsigned_abs())
}

fn since_state(state: &ZoneState) -> String {
    let started = state.announcements.last().and_then(|last| last.started_ns);
    match started.filter(|_| state.announcement.is_some()) {
        Some(started) => age(started / 1_000_000_000),
        None => since(state.seconds),
    }
}

fn since(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}min", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn faults(site: &Site, asked: &[Asked]) -> Vec<String> {
    let mut faults = Vec::new();
    for Asked { node, state, .. } in asked {
        let state = match state {
            Ok(state) => state,
            Err(why) => {
                faults.push(on_one_line(&format!("node {node}: {why}")));
                continue;
            }
        };
        if state.epoch != site.epoch {
            faults.push(format!(
                "node {node} has epoch {} of the building file, and this file epoch {}; taut site push copies the newer one",
                state.epoch, site.epoch
            ));
        } else if state.hash != site.hash.to_string() {
            faults.push(format!(
                "node {node} has another building file of epoch {}; write a higher epoch, then taut site push",
                site.epoch
            ));
        }
        faults.extend(state.faults.iter().map(|fault| on_one_line(&fault_line(fault, node))));
    }
    faults
}

fn fault_line(fault: &FaultState, node: &str) -> String {
    let (reason, first) = (&fault.reason, age(fault.first_s));
    let place = if fault.zone().is_some() { String::new() } else { format!("node {node}: ") };
    let times = if fault.times > 1 { format!(", {} times", fault.times) } else { String::new() };
    if fault.lasts {
        return format!("{place}{fault}: {reason}; for {first}{times}");
    }
    let (last, name) = (age(fault.last_s), fault.zone().unwrap_or(node));
    format!("{place}{fault}: {reason}; began {first} ago, ended {last} ago{times}: taut ack {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_from_the_file_are_shown_with_its_value() {
        let file = ZoneState {
            zone: "hall".into(),
            volume: "-6dB".into(),
            source: Some("music".into()),
            delay: "12ms".into(),
            ..ZoneState::default()
        };
        let now = ZoneState { volume: "-12dB".into(), delay: "0ms".into(), ..file.clone() };
        let shown = "hall: -12dB (default -6dB), music, delay 0ms (default 12ms)";
        assert_eq!(settings(&now, Some(&file)), shown);
        assert_eq!(settings(&file, Some(&file)), "hall: -6dB, music, delay 12ms");
        assert_eq!(settings(&now, None), "hall: -12dB, music");
    }

    #[test]
    fn announcement_is_as_old_as_its_start() {
        let last = AnnouncementState {
            id: "7".into(),
            started_ns: Some(unix_nanos() - 30_000_000_000),
            ..AnnouncementState::default()
        };
        let announced = |announcement: Option<String>| {
            let announcements = vec![last.clone()];
            since_state(&ZoneState {
                seconds: 7200,
                announcement,
                announcements,
                ..ZoneState::default()
            })
        };
        assert_eq!(announced(None), "2h");
        let age = announced(Some("7".into()));
        assert!(age.ends_with('s') && age.starts_with('3'), "{age}");
    }
}
