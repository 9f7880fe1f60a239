//! `taut zones` and `taut zone`.

use serde::Serialize;
use tautline_api::v1::{NodeState, ZoneChange, ZonePlayback, ZoneState};
use tautline_proto::time::Span;
use tautline_site::{Asked, NodeClient, Site};

use super::site::building;
use crate::cmd::answer;
use crate::failure::{Failure, on_one_line};
use crate::flags::{ZoneFlags, ZoneVerb, ZonesFlags};
use crate::screen;

pub(crate) fn list(flags: &ZonesFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.site)?;
    let asked = NodeClient::new(&site)?.states(site.nodes.keys().map(String::as_str));
    let json = serde_json::to_string_pretty(&listed(&asked)).map(|text| text + "\n");
    answer(flags.report, &table(&site, &asked), json)?;
    let faults = faults(&site, &asked);
    faults.iter().for_each(|fault| screen::notify(fault));
    match faults.len() {
        0 => Ok(()),
        1 => Err(Failure::running("1 fault")),
        count => Err(Failure::running(format!("{count} faults"))),
    }
}

pub(crate) fn change(flags: &ZoneFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.site)?;
    let zones = zones(&site, &flags.zones)?;
    let changes = zones.into_iter().map(|zone| changed(zone, &flags.change));
    change_all(&NodeClient::new(&site)?, changes)
}

/// Applies all changes, and reports those that fail.
pub(super) fn change_all(
    client: &NodeClient<'_>,
    changes: impl Iterator<Item = ZoneChange>,
) -> Result<(), Failure> {
    let mut failed = None;
    for change in changes {
        match client.change(&change) {
            Ok(state) => screen::emit(&said(&state)),
            Err(why) => {
                failed.iter().for_each(|before: &String| screen::notify(&on_one_line(before)));
                failed = Some(format!("zone {}: {why}", change.zone));
            }
        }
    }
    failed.map_or(Ok(()), |why| Err(Failure::running(why)))
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
        ZoneVerb::Volume { gain } => ZoneChange { volume: Some(gain.to_string()), ..change },
        ZoneVerb::Mute => ZoneChange { muted: Some(true), ..change },
        ZoneVerb::Unmute => ZoneChange { muted: Some(false), ..change },
        ZoneVerb::Source { source } => ZoneChange { source: Some(source.clone()), ..change },
    }
}

fn said(state: &ZoneState) -> String {
    let source = state.source.as_deref().unwrap_or("no source");
    let muted = if state.muted { ", muted" } else { "" };
    format!("{}: {}{muted}, {source}", state.zone, state.volume)
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
    let nodes = asked.iter().map(|Asked { node, state }| match state {
        Ok(state) => ListedNode { state: std::borrow::Cow::Borrowed(state), fault: None },
        Err(why) => {
            let state = NodeState { node: node.clone(), ..NodeState::default() };
            let fault = Some(on_one_line(&why.to_string()));
            ListedNode { state: std::borrow::Cow::Owned(state), fault }
        }
    });
    Listed { schema: 1, nodes: nodes.collect() }
}

const HEAD: [&str; 8] = ["ZONE", "NODE", "STATE", "SINCE", "SOURCE", "VOLUME", "LATENCY", "LOST"];

fn table(site: &Site, asked: &[Asked]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for (name, zone) in &site.zones {
        let of_node = asked.iter().find(|asked| asked.node == zone.node);
        let state = of_node.and_then(|asked| asked.state.as_ref().ok());
        let state = state.and_then(|state| state.zones.iter().find(|state| state.zone == *name));
        rows.push(match state {
            Some(state) => row(state, &zone.node),
            None => {
                let absent = [name, &zone.node, "unreachable", "", "", "", "", ""];
                absent.map(str::to_owned)
            }
        });
    }
    screen::columns(&rows).join("\n") + "\n"
}

fn row(state: &ZoneState, node: &str) -> [String; 8] {
    let plays = match (&state.announcement, state.state) {
        (Some(_), _) => "announcement",
        (None, ZonePlayback::Playing) => "playing",
        (None, ZonePlayback::Silent) => "silent",
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
        since(state.seconds),
        state.source.clone().unwrap_or_else(|| "-".to_owned()),
        format!("{}{muted}", state.volume),
        latency.unwrap_or_else(|| "-".to_owned()),
        state.lost.to_string(),
    ]
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
    for Asked { node, state } in asked {
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
        let of_zones =
            state.zones.iter().filter_map(|zone| Some((&zone.zone, zone.fault.as_ref()?)));
        let of_zones = of_zones.map(|(zone, fault)| format!("zone {zone}: {fault}"));
        let of_sources =
            state.sources.iter().filter_map(|it| Some((&it.source, it.fault.as_ref()?)));
        let of_sources = of_sources.map(|(source, fault)| format!("source {source}: {fault}"));
        faults.extend(of_zones.chain(of_sources).map(|fault| on_one_line(&fault)));
    }
    faults
}
