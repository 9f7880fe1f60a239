//! Results of an announcement in its zones, while it is sent and after it.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde::Serialize;
use tautline_api::v1::{AnnouncementResult, AnnouncementState, ZoneState};
use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::zone::{AnnouncementId, ClaimRefused};
use tautline_site::{Asked, NodeClient, Site};

use crate::cmd::zones::nodes;
use crate::failure::{Failure, on_one_line};
use crate::messages::claim_refused;
use crate::screen;
use crate::voice::Voice;

/// A zone in the report.
#[derive(Debug, Clone, Serialize)]
pub(super) struct AnnouncedZone {
    pub(super) zone: String,
    pub(super) result: AnnouncementResult,
    pub(super) by: Option<String>,
    pub(super) started_ns: Option<i64>,
    pub(super) fault: Option<String>,
    /// The node answered, or cannot answer.
    #[serde(skip)]
    pub(super) is_known: bool,
    /// The zone is the room of the station, so it is muted as intended.
    #[serde(skip)]
    pub(super) is_own_room: bool,
    /// A line has the fault.
    #[serde(skip)]
    pub(super) is_told: bool,
}

impl AnnouncedZone {
    /// Whether another announcement took precedence.
    pub(super) fn lost(&self) -> bool {
        matches!(self.result, AnnouncementResult::Refused | AnnouncementResult::Preempted)
    }

    /// The user ended the recording before its end.
    pub(super) fn cancel(&mut self) {
        if matches!(self.result, AnnouncementResult::Playing | AnnouncementResult::Played) {
            self.result = AnnouncementResult::Cut;
            self.fault.get_or_insert_with(|| "cancelled before its end".to_owned());
        }
    }

    /// Whether the zone needs no more of the announcement.
    fn is_over(&self) -> bool {
        self.lost() || self.result == AnnouncementResult::Stopped
    }
}

/// Intervals between requests to the nodes, before and after the start.
const FIRST: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(1);
/// Timeout for the reports of all zones that the announcement ended. Covers the longest latency and
/// a lost goodbye.
const LAST: Span = Span::from_secs(3);
/// Timeout after the chime: until then, a zone without an answer delays the prompt to speak.
const AWAITED: Span = Span::from_secs(1);

/// An announcement that is being sent.
pub(super) struct Watched<'a> {
    pub(super) site: &'a Site,
    pub(super) client: &'a NodeClient<'a>,
    pub(super) zones: &'a [&'a str],
    pub(super) id: AnnouncementId,
    /// Requested when the microphone is sent.
    pub(super) opens: Stop,
    /// Ends the transmission.
    pub(super) over: Stop,
    pub(super) voice: Voice,
}

/// Sends the announcement, and meanwhile prints news of the zones. Returns the results.
pub(super) fn watched(
    watch: &Watched<'_>,
    is_live: bool,
    send: impl FnOnce(&Stop) -> Result<(), Failure>,
) -> Result<Vec<AnnouncedZone>, Failure> {
    let (ended, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watching = scope.spawn(move || {
            let mut news = ZoneNews::new(watch.zones.len(), is_live);
            let mut ends = LocalTime::NEVER;
            loop {
                let pause = if news.is_settled() { LATER } else { FIRST };
                if wait.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) && ends.is_never() {
                    ends = now() + LAST;
                }
                if !ends.is_never() {
                    sleep_until(now() + Span::from_millis(50));
                }
                let mut results = results(watch);
                let is_open = watch.opens.is_requested();
                for line in news.lines(&results, is_open, now()) {
                    watch.voice.notify(&line);
                }
                if news.take_ready() {
                    watch.voice.notify("ready: speak");
                    screen::bell();
                }
                if results.iter().all(AnnouncedZone::is_over) {
                    watch.over.request();
                }
                let plays = results.iter().any(|it| it.result == AnnouncementResult::Playing);
                if now() >= ends || (!ends.is_never() && !plays) {
                    if watch.voice != Voice::Quiet {
                        news.mark_told(&mut results);
                    }
                    return results;
                }
            }
        });
        let sent = send(&watch.over);
        drop(ended);
        let results = watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.map(|()| results)
    })
}

/// News of the zones for the user.
#[derive(Debug)]
pub(super) struct ZoneNews {
    zones: usize,
    /// Number of zones that play the announcement or have played it, as last reported.
    has_it: usize,
    /// Faults of the zones, as reported.
    faulty: BTreeMap<String, String>,
    /// A user waits for the prompt to speak.
    awaits: bool,
    is_ready: bool,
    opened: LocalTime,
}

impl ZoneNews {
    pub(super) fn new(zones: usize, awaits: bool) -> Self {
        let (faulty, opened) = (BTreeMap::new(), LocalTime::NEVER);
        Self { zones, has_it: 0, faulty, awaits, is_ready: false, opened }
    }

    /// Whether each zone was reported and the user was prompted to speak.
    pub(super) fn is_settled(&self) -> bool {
        self.has_it + self.faulty.len() >= self.zones && !self.awaits
    }

    /// Lines about what changed.
    pub(super) fn lines(
        &mut self,
        results: &[AnnouncedZone],
        is_open: bool,
        now: LocalTime,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let have: Vec<_> = results
            .iter()
            .filter(|it| it.started_ns.is_some() && it.fault.is_none())
            .map(|it| it.zone.as_str())
            .collect();
        if have.len() > self.has_it {
            let (count, zones) = (have.len(), self.zones);
            lines.push(format!("on air in {count} of {zones} zones: {}", have.join(", ")));
        }
        self.has_it = have.len();
        for AnnouncedZone { zone, fault, .. } in results.iter().filter(|it| it.is_known) {
            if let Some(fault) = fault.as_ref().filter(|_| !self.faulty.contains_key(zone)) {
                self.faulty.insert(zone.clone(), fault.clone());
                lines.push(format!("zone {zone}: {fault}"));
            }
        }
        if is_open && self.opened.is_never() {
            self.opened = now;
        }
        let is_known = self.has_it + self.faulty.len() >= self.zones;
        let is_awaited = !is_known && now < self.opened + AWAITED;
        if self.awaits && is_open && self.has_it > 0 && !is_awaited {
            (self.awaits, self.is_ready) = (false, true);
        }
        lines
    }

    /// Marks the faults that were printed.
    pub(super) fn mark_told(&self, results: &mut [AnnouncedZone]) {
        for it in results {
            it.is_told = it.fault.is_some() && it.fault.as_ref() == self.faulty.get(&it.zone);
        }
    }

    /// Whether to prompt the user to speak; `true` once.
    pub(super) const fn take_ready(&mut self) -> bool {
        core::mem::replace(&mut self.is_ready, false)
    }
}

/// Whether no announcement plays in these zones. Unreachable zones delay nothing.
pub(super) fn are_free(site: &Site, client: &NodeClient<'_>, zones: &[&str]) -> bool {
    playing(site, client, zones).iter().all(|(_, plays)| !matches!(plays, Ok(Some(_))))
}

/// Announcement that plays in each zone, or why that is unknown.
pub(super) fn playing<'z>(
    site: &Site,
    client: &NodeClient<'_>,
    zones: &[&'z str],
) -> Vec<(&'z str, Result<Option<String>, String>)> {
    let asked = client.states(nodes(site, zones));
    let of_zone = |zone: &str| {
        let of_node = asked.iter().find(|asked| asked.node == node(site, zone));
        let Some(Asked { state, .. }) = of_node else { return Ok(None) };
        let state = state.as_ref().map_err(|why| on_one_line(&why.to_string()))?;
        let state = state.zones.iter().find(|state| state.zone == zone);
        Ok(state.and_then(|state| state.announcement.clone()))
    };
    zones.iter().map(|zone| (*zone, of_zone(zone))).collect()
}

fn node<'a>(site: &'a Site, zone: &str) -> &'a str {
    site.zones.get(zone).map_or("", |zone| zone.node.as_str())
}

fn results(watch: &Watched<'_>) -> Vec<AnnouncedZone> {
    let Watched { site, client, zones, id, .. } = watch;
    let (asked, id) = (client.states(nodes(site, zones)), id.to_string());
    zones.iter().map(|zone| of_zone(zone, node(site, zone), &asked, &id)).collect()
}

pub(super) fn of_zone(zone: &str, node: &str, asked: &[Asked], id: &str) -> AnnouncedZone {
    let absent = |fault: String, is_known| AnnouncedZone {
        zone: zone.to_owned(),
        result: AnnouncementResult::Unknown,
        by: None,
        started_ns: None,
        fault: Some(fault),
        is_known,
        is_own_room: false,
        is_told: false,
    };
    let Some(asked) = asked.iter().find(|asked| asked.node == node) else {
        return absent("its node is unknown".to_owned(), true);
    };
    let state = match &asked.state {
        Ok(state) => state.zones.iter().find(|state| state.zone == zone),
        Err(why) => return absent(on_one_line(&why.to_string()), true),
    };
    let found = state.and_then(|state| Some((state, announcement(state, id)?)));
    let Some((state, AnnouncementState { result, by, reason, started_ns, .. })) = found else {
        return absent("the zone did not receive it".to_owned(), false);
    };
    let is_own_room = *result == AnnouncementResult::Muted && by.as_deref() == Some(id);
    let other = || station(state, by.as_deref());
    let fault = match result {
        AnnouncementResult::Refused => Some(format!("{} announces there", other())),
        AnnouncementResult::Preempted => Some(format!("{} ended it", other())),
        AnnouncementResult::Rejected => Some(rejected(reason.as_deref())),
        AnnouncementResult::Stopped => Some("stopped with taut stop".to_owned()),
        AnnouncementResult::Cut => Some("its packets stopped".to_owned()),
        AnnouncementResult::Muted if is_own_room => {
            Some("muted, as the microphone of this station is there".to_owned())
        }
        AnnouncementResult::Muted if by.is_some() => {
            Some(format!("muted, as the microphone of {} is there", other()))
        }
        AnnouncementResult::Muted => Some(format!("it is muted: taut zone {zone} unmute")),
        _ => None,
    };
    AnnouncedZone {
        zone: zone.to_owned(),
        result: *result,
        by: by.clone(),
        started_ns: *started_ns,
        fault,
        is_known: true,
        is_own_room,
        is_told: false,
    }
}

fn announcement<'a>(state: &'a ZoneState, id: &str) -> Option<&'a AnnouncementState> {
    state.announcements.iter().find(|it| it.id == id)
}

/// Station and priority of an announcement.
fn station(state: &ZoneState, id: Option<&str>) -> String {
    let known = id.and_then(|id| announcement(state, id));
    match known.and_then(|it| Some((it.station.as_ref()?, it.priority?))) {
        Some((station, priority)) => format!("station {station} with priority {priority}"),
        None => "another station".to_owned(),
    }
}

fn rejected(reason: Option<&str>) -> String {
    let why = reason.and_then(ClaimRefused::named);
    let reason = why.map_or_else(|| reason.unwrap_or("unknown").to_owned(), claim_refused);
    format!("the zone rejected its claim: {reason}")
}
