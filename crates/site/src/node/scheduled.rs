//! The node's part of the schedule.

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tautline_api::v1::{FaultKind, NodeService as _};
use tautline_io::clock::disciplined::KernelClock;

use super::BuildingNode;
use crate::schedule::{Journal, Play, Player, RuleAction, Schedule, SkipReason, Step};
use crate::{Site, disk};

/// An announcement that a node plays to its own zones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledAnnouncement {
    /// Message.
    pub message: String,
    /// Station, for its priority and rank.
    pub station: String,
    /// Zones and groups.
    pub zones: Vec<String>,
    /// Nominal time of the first frame in Unix nanoseconds; it sounds later by the latency of the
    /// building.
    pub at_ns: i64,
    /// Number of the announcement, the same on all nodes.
    pub id: u64,
}

/// Clocks before this time were never set: 2024-01-01.
const SET: i64 = 1_704_067_200;

impl BuildingNode {
    /// Plays the due announcements and presets of the schedule. Call about 20 times a second.
    pub fn play_schedule(self: &Arc<Self>) {
        let now = Timestamp::now();
        let (site, _) = self.building();
        let mut held = self.player.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(player) = held.as_mut() else {
            drop(held);
            return self.set_fault(FaultKind::Clock, "", None);
        };
        let is_synchronized = is_usable(now, site.any_clock, || {
            KernelClock::read().is_some_and(|it| it.synchronised)
        });
        let steps = player.poll(now, is_synchronized);
        let journal = (!steps.is_empty()).then(|| player.journal().clone());
        drop(held);
        let reason = || {
            "it is not synchronized, so announcements of the schedule are not played; start an NTP client"
                .to_owned()
        };
        self.set_fault(FaultKind::Clock, "", (!is_synchronized).then(reason));
        let Some(journal) = journal else { return };
        // Stored before the announcement plays: a restart repeats nothing.
        let path = self.journal_path();
        let written = disk::write_json(&path, &journal);
        self.note_written(&mut self.standing(), &path, written);
        for step in steps {
            self.carry_out(&site, step);
        }
    }

    /// The schedule of this file, with the journal of the last run. `None` without rules.
    pub(super) fn new_player(&self, site: &Site) -> Option<Player> {
        if site.schedule.is_empty() {
            return None;
        }
        let folder = self.config.path.parent().unwrap_or(Path::new(""));
        let (schedule, faults) = Schedule::load(site, folder);
        for rule in site.schedule.keys() {
            let reasons = faults.iter().filter(|fault| fault.rule == *rule);
            let reasons: Vec<_> = reasons.map(|fault| fault.reason.as_str()).collect();
            let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
            self.set_fault(FaultKind::Schedule, rule, reason);
        }
        let journal: Journal = disk::read_json(&self.journal_path()).unwrap_or_default();
        Some(Player::new(schedule, journal, Timestamp::now()))
    }

    fn journal_path(&self) -> PathBuf {
        self.config.saved.with_extension("journal.json")
    }

    pub(super) fn note(&self, note: &str) {
        (self.config.notify)(note);
    }

    /// Enters a play that the schedule has but that did not happen as a fault.
    fn unplayed(&self, rule: &str, why: String) {
        self.add_fault(FaultKind::Schedule, rule, why);
    }

    fn carry_out(self: &Arc<Self>, site: &Site, step: Step) {
        match step {
            Step::Skip(Play { rule, at, .. }, reason) => {
                let zone = site.timezone.clone().unwrap_or(TimeZone::UTC);
                let at = at.to_zoned_datetime(zone).strftime("%Y-%m-%d %H:%M:%S").to_string();
                let why = match reason {
                    SkipReason::Missed => "the node was not running",
                    SkipReason::Clock => "the clock was not synchronized; start an NTP client",
                };
                self.unplayed(&rule, format!("{at} was not played: {why}"));
            }
            Step::Play(Play { rule, at, action }) => match action {
                RuleAction::Preset(preset) => self.apply(site, &rule, &preset),
                RuleAction::Announce { zones, station, message } => {
                    let announcement = ScheduledAnnouncement {
                        message: message.unwrap_or_default(),
                        station,
                        zones,
                        at_ns: i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX),
                        id: id(&rule, at),
                    };
                    self.announce(site, rule, &announcement);
                }
            },
        }
    }

    fn apply(&self, site: &Site, rule: &str, preset: &str) {
        let (_, place) = self.building();
        let changes = site.presets.get(preset).into_iter().flatten();
        let own = changes
            .filter(|it| site.zones.get(&it.zone).is_some_and(|zone| zone.node == place.name));
        for change in own {
            if let Err(why) = self.change(change.clone()) {
                self.unplayed(rule, format!("zone {}: {why}", change.zone));
            }
        }
    }

    /// A process plays the announcement to the zones of this node.
    fn announce(self: &Arc<Self>, site: &Site, rule: String, announcement: &ScheduledAnnouncement) {
        let (_, place) = self.building();
        let zones = site.zones_of(announcement.zones.iter().map(String::as_str));
        let is_own = |zone: &&str| site.zones.get(*zone).is_some_and(|it| it.node == place.name);
        if !zones.iter().any(is_own) {
            return;
        }
        let mut command = (self.config.announce)(announcement);
        command.stdin(Stdio::null());
        let node = Arc::clone(self);
        let ended = move |failed: Option<String>| {
            if let Some(why) = failed {
                node.unplayed(&rule, why);
            }
        };
        self.start_announcement(command, ended);
    }

    /// Starts the process of an announcement. Calls `ended` when the process ends, with its error
    /// if it failed. Returns the standard input of the process, if it is a pipe.
    pub(super) fn start_announcement(
        &self,
        mut command: Command,
        ended: impl FnOnce(Option<String>) + Send + 'static,
    ) -> Option<ChildStdin> {
        let mut child = match command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => {
                ended(Some(format!("starting a process: {error}")));
                return None;
            }
        };
        let input = child.stdin.take();
        let wait = move || {
            let failed = match child.wait_with_output() {
                Ok(output) if output.status.success() => None,
                Ok(output) => {
                    let errors = String::from_utf8_lossy(&output.stderr);
                    let line = errors.lines().find_map(|line| line.strip_prefix("error: "));
                    let line = line.or(errors.lines().next()).unwrap_or_default();
                    Some(format!("{}: {line}", output.status))
                }
                Err(error) => Some(error.to_string()),
            };
            ended(failed);
        };
        let started = std::thread::Builder::new().name("taut-announce".to_owned()).spawn(wait);
        started.inspect_err(|error| self.note(&format!("starting a thread: {error}"))).ok()?;
        input
    }
}

/// Whether the schedule can use this clock. `any` allows an unsynchronized clock, but not one that
/// was never set.
fn is_usable(now: Timestamp, any: bool, is_synchronized: impl FnOnce() -> bool) -> bool {
    now.as_second() >= SET && (any || is_synchronized())
}

/// Number of the announcement, the same on all nodes, so that zones recognise a duplicate.
fn id(rule: &str, at: Timestamp) -> u64 {
    let hash = digest(&SHA256, format!("{rule}\0{}", at.as_second()).as_bytes());
    hash.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_in_1970_plays_nothing() {
        let usable = |second, any, is_synchronized| {
            is_usable(Timestamp::from_second(second).unwrap(), any, || is_synchronized)
        };
        let year_2026 = 1_767_225_600;
        assert_eq!([true, false].map(|any| usable(60, any, true)), [false; 2]);
        assert_eq!([true, false].map(|any| usable(year_2026, any, false)), [true, false]);
        assert!(usable(year_2026, false, true));
    }
}
