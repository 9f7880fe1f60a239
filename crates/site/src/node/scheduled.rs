//! The node's part of the schedule.

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::PoisonError;

use jiff::Timestamp;
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
    /// Nominal time of its first frame in Unix nanoseconds; it sounds the latency of the building
    /// later.
    pub at_ns: i64,
    /// Number, the same on all nodes.
    pub id: u64,
}

/// Clocks before this time were never set: 2024-01-01.
const SET: i64 = 1_704_067_200;

impl BuildingNode {
    /// Plays what the schedule has now. Call about 20 times a second.
    pub fn play_schedule(&self) {
        let now = Timestamp::now();
        let (site, _) = self.building();
        let mut held = self.player.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(player) = held.as_mut() else {
            drop(held);
            return self.set_fault(FaultKind::Clock, "", None);
        };
        let is_set = now.as_second() >= SET;
        let is_synchronized =
            is_set && (site.any_clock || KernelClock::read().is_some_and(|it| it.synchronised));
        let steps = player.poll(now, is_synchronized);
        let journal = (!steps.is_empty()).then(|| player.journal().clone());
        drop(held);
        let reason = || "it is not synchronized, so the schedule is not played".to_owned();
        self.set_fault(FaultKind::Clock, "", (!is_synchronized).then(reason));
        let Some(journal) = journal else { return };
        // Before it plays: a restart repeats nothing.
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
        faults.iter().for_each(|fault| self.note(fault));
        let journal: Journal = disk::read_json(&self.journal_path()).unwrap_or_default();
        Some(Player::new(schedule, journal, Timestamp::now()))
    }

    fn journal_path(&self) -> PathBuf {
        self.config.saved.with_extension("journal.json")
    }

    pub(super) fn note(&self, note: &str) {
        (self.config.notify)(note);
    }

    fn carry_out(&self, site: &Site, step: Step) {
        match step {
            Step::Skip(Play { rule, at, .. }, SkipReason::Missed) => {
                self.note(&format!("schedule {rule}: {at} was missed; it is not played"));
            }
            Step::Skip(Play { rule, at, .. }, SkipReason::Clock) => {
                self.note(&format!(
                    "schedule {rule}: {at} is not played: the clock is not synchronized; start an NTP client"
                ));
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
                self.note(&format!("schedule {rule}: zone {}: {why}", change.zone));
            }
        }
    }

    /// A process plays it to the zones of this node.
    fn announce(&self, site: &Site, rule: String, announcement: &ScheduledAnnouncement) {
        let (_, place) = self.building();
        let zones = site.zones_of(announcement.zones.iter().map(String::as_str));
        let is_own = |zone: &&str| site.zones.get(*zone).is_some_and(|it| it.node == place.name);
        if !zones.iter().any(is_own) {
            return;
        }
        let mut command = (self.config.announce)(announcement);
        command.stdin(Stdio::null());
        self.start_announcement(format!("schedule {rule}"), command, || ());
    }

    /// Starts the process of an announcement, and logs its error. Calls `ended` at its end. Returns
    /// its input, if that is a pipe.
    pub(super) fn start_announcement(
        &self,
        what: String,
        mut command: Command,
        ended: impl FnOnce() + Send + 'static,
    ) -> Option<ChildStdin> {
        let started = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = started.inspect_err(|error| self.note(&format!("{what}: {error}"))).ok()?;
        let input = child.stdin.take();
        let notify = std::sync::Arc::clone(&self.config.notify);
        let wait = move || {
            let output = child.wait_with_output();
            ended();
            let Ok(output) = output else { return };
            if !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                let error = errors.lines().find(|line| line.starts_with("error: "));
                let line = error.or(errors.lines().next()).unwrap_or_default();
                notify(&format!("{what}: {}: {line}", output.status));
            }
        };
        let started = std::thread::Builder::new().name("taut-announce".to_owned()).spawn(wait);
        started.inspect_err(|error| self.note(&format!("starting a thread: {error}"))).ok()?;
        input
    }
}

/// The same on all nodes, so that zones recognise a duplicate.
fn id(rule: &str, at: Timestamp) -> u64 {
    let hash = digest(&SHA256, format!("{rule}\0{}", at.as_second()).as_bytes());
    hash.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}
