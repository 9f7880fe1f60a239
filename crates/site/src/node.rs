//! A node: starts the processes of its cards and sources, restarts them, and knows its zones.

mod child;
mod contacts;
mod faults;
mod push;
mod saved;
mod scheduled;
mod signs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_api::v1::{
    Acknowledged, AnnouncementResult, AnnouncementState, FaultKind, FaultsAck, NodeService,
    NodeState, PushRefused, SitePush, SitePushed, SourceState, ZoneChange, ZonePlayback,
    ZoneRefused, ZoneState,
};
use tautline_io::clock::now;
use tautline_proto::text::on_one_line;
use tautline_proto::time::Span;

use self::child::RunningChild;
pub use self::contacts::ContactWatch;
use self::faults::NodeFaults;
use self::saved::SavedZones;
pub use self::scheduled::ScheduledAnnouncement;
use self::signs::SignsOfLife;
use crate::card::CardNews;
use crate::log::{ZoneEntry, append_log, newly_over, unix_nanos};
use crate::schedule::Player;
use crate::{Contact, Place, Site, Source, Zone};

/// A process of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Plays all zones of this card. Reads [`ZoneChange`]s from standard input, a line each, the
    /// first line a list; writes [`CardNews`] to standard output. Ends with its input.
    Card(String),
    /// Sends this source, and writes [`CardNews::Sending`]. Ends with its standard input.
    Source(String),
}

/// What a node needs to run.
pub struct NodeConfig {
    /// The building file.
    pub site: Arc<Site>,
    /// The node.
    pub place: Place,
    /// Path of the building file; a pushed file replaces it.
    pub path: PathBuf,
    /// Creates the command of a process.
    pub command: Box<dyn Fn(&Role) -> Command + Send + Sync>,
    /// Creates the command that plays an announcement of the schedule to the zones of the node.
    pub announce: Box<dyn Fn(&ScheduledAnnouncement) -> Command + Send + Sync>,
    /// Creates the command of a contact's announcement. The end of its standard input ends a page.
    pub contact: Box<dyn Fn(&Contact) -> Command + Send + Sync>,
    /// File of the changes to zones, which outlives the node.
    pub saved: PathBuf,
    /// File of the faults, which outlives the node.
    pub faults: PathBuf,
    /// Log of announcements.
    pub log: PathBuf,
    /// Takes messages for the log.
    pub notify: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A running node.
pub struct BuildingNode {
    config: NodeConfig,
    /// The building file in use. Never locked while another lock is awaited.
    building: Mutex<(Arc<Site>, Place)>,
    /// Files for the next push.
    awaited: Mutex<push::Awaited>,
    standing: Mutex<Standing>,
    /// The schedule, if there is one.
    player: Mutex<Option<Player>>,
    signs: Mutex<SignsOfLife>,
    /// Wakes pauses between restarts at the end.
    stopping: Condvar,
}

#[derive(Default)]
struct Standing {
    zones: BTreeMap<String, ZoneState>,
    /// Reasons why sources are not sent, or faults of their files.
    sources: BTreeMap<String, Option<String>>,
    children: BTreeMap<Role, RunningChild>,
    /// Roles with a thread.
    kept: BTreeSet<Role>,
    /// A building file for [`BuildingNode::update`].
    pushed: Option<(Arc<Site>, Place)>,
    saved: SavedZones,
    faults: NodeFaults,
    is_over: bool,
}

/// First pause and longest pause before a restart.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// After a run of this duration, the next pause is as short as the first pause.
const STEADY: Span = Span::from_secs(10);
/// A card process whose device plays reports each second. A process that does not report for this
/// long hangs: a user sees the fault within 10 s.
const HANGS: Span = Span::from_secs(8);
/// Faults have Unix seconds.
const NANOS: i64 = 1_000_000_000;
/// Time to end before a process is killed.
const FAREWELL: Duration = Duration::from_secs(5);

impl BuildingNode {
    /// A node without processes.
    pub fn new(config: NodeConfig) -> Arc<Self> {
        let (mut saved, why) = SavedZones::read(&config.saved);
        saved.fit(&config.site);
        let (faults, lost) = NodeFaults::read(&config.faults);
        let (signs, unread) = SignsOfLife::read(&config.saved);
        why.iter().chain(&lost).chain(&unread).for_each(|why| (config.notify)(why));
        let folder = config.path.parent().unwrap_or(Path::new(""));
        let faulty = config.site.faulty_recordings(folder);
        faulty.iter().for_each(|fault| (config.notify)(&on_one_line(fault)));
        let own = config.site.zones.iter().filter(|(_, zone)| zone.node == config.place.name);
        let zones = own.map(|(name, zone)| {
            let zone = zone.changed(&config.site, &saved.of(name));
            (name.clone(), zone.first_state(name))
        });
        let standing = Standing { zones: zones.collect(), saved, faults, ..Standing::default() };
        let building = Mutex::new((Arc::clone(&config.site), config.place.clone()));
        let (standing, awaited) = (Mutex::new(standing), Mutex::default());
        let (player, signs, stopping) = (Mutex::default(), Mutex::new(signs), Condvar::new());
        let node = Self { config, building, awaited, standing, player, signs, stopping };
        let player = node.new_player(&node.config.site);
        *node.player.lock().unwrap_or_else(PoisonError::into_inner) = player;
        Arc::new(node)
    }

    /// Processes of the node: one per card with zones, and one per own source.
    pub fn roles(&self) -> Vec<Role> {
        let (site, place) = self.building();
        let of_zones = site.zones.values().filter(|zone| zone.node == place.name);
        let mut roles: Vec<_> = of_zones.map(|zone| Role::Card(zone.card.clone())).collect();
        roles.sort_unstable();
        roles.dedup();
        let sent = site.sources.iter().filter(
            |(_, source)| matches!(source, Source::Own { node, .. } if *node == place.name),
        );
        roles.extend(sent.map(|(name, _)| Role::Source(name.clone())));
        roles
    }

    /// Runs a process, again and again, until [`Self::end`] or until a newer building file lacks it.
    pub fn keep(self: &Arc<Self>, role: Role) -> std::io::Result<JoinHandle<()>> {
        let node = Arc::clone(self);
        node.standing().kept.insert(role.clone());
        std::thread::Builder::new().name("taut-child".to_owned()).spawn(move || {
            let [first, longest] = PAUSES;
            let mut pause = first;
            while node.keeps(&role) {
                let began = now();
                let Some(fault) = node.run_once(&role) else { continue };
                if node.standing().is_over {
                    return;
                }
                node.fail(&role, &fault);
                if now() - began >= STEADY {
                    pause = first;
                }
                node.rest(pause);
                pause = (2 * pause).min(longest);
            }
        })
    }

    /// Kills card processes that report nothing, and child processes that ended processes left
    /// behind. Writes the faults and signs of life. Call about once a second. Returns whether the
    /// device of each running card process makes progress.
    pub fn watch(&self) -> bool {
        self.show_life();
        let now = now();
        let mut standing = self.standing();
        let mut is_well = true;
        for (role, child) in &standing.children {
            if child.is_over() {
                child.kill();
            } else if let Role::Card(card) = role
                && now - child.reported > HANGS
            {
                (self.config.notify)(&format!("card {card} hangs: killed"));
                child.kill();
                is_well = false;
            }
        }
        self.write_faults(&mut standing);
        is_well
    }

    /// Enters a fault of the node that is over.
    fn add_fault(&self, kind: FaultKind, name: &str, reason: String) {
        self.standing().faults.happened(kind, name, reason, [unix_nanos() / NANOS; 2]);
    }

    /// Sets a fault of the node with its reason, or ends the fault (`None`). `name` is the name in
    /// [`FaultState`].
    ///
    /// [`FaultState`]: tautline_api::v1::FaultState
    fn set_fault(&self, kind: FaultKind, name: &str, reason: Option<String>) {
        self.standing().faults.set(kind, name, reason, unix_nanos() / NANOS);
    }

    /// Ends all processes, and waits for their threads.
    pub fn end(&self, kept: Vec<JoinHandle<()>>) {
        let mut standing = self.standing();
        standing.is_over = true;
        standing.children.values_mut().for_each(RunningChild::end);
        self.write_faults(&mut standing);
        drop(standing);
        self.stopping.notify_all();
        let until = std::time::Instant::now() + FAREWELL;
        while kept.iter().any(|thread| !thread.is_finished()) && std::time::Instant::now() < until {
            let standing = self.standing();
            standing.children.values().filter(|it| it.is_over()).for_each(RunningChild::kill);
            drop(standing);
            std::thread::park_timeout(Duration::from_millis(10));
        }
        self.standing().children.values().for_each(RunningChild::kill);
        for thread in kept {
            let _ = thread.join();
        }
        self.show_end();
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn building(&self) -> (Arc<Site>, Place) {
        self.building.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the thread of this role continues.
    fn keeps(&self, role: &Role) -> bool {
        let mut standing = self.standing();
        let keeps = !standing.is_over && self.roles().contains(role);
        if !keeps {
            standing.kept.remove(role);
        }
        keeps
    }

    fn rest(&self, pause: Duration) {
        let standing = self.standing();
        let wait = self.stopping.wait_timeout_while(standing, pause, |it| !it.is_over);
        drop(wait);
    }

    /// Returns why the process ended, unless the node ended it.
    fn run_once(&self, role: &Role) -> Option<String> {
        let part = self.part(role);
        let before = match role {
            Role::Card(_) => serde_json::to_string(&self.standing().saved.all()),
            Role::Source(_) => Ok(String::new()),
        };
        let command = (self.config.command)(role);
        let started = RunningChild::start(command, &before.unwrap_or_default());
        let (mut child, mut lines) = match started {
            Ok(started) => started,
            Err(error) => return Some(format!("starting a process: {error}")),
        };
        let mut standing = self.standing();
        if standing.is_over {
            child.kill();
            return Some(child.fault(&[]));
        }
        if self.part(role) != part {
            // A newer building file arrived while the process started.
            child.end();
        }
        standing.children.insert(role.clone(), child);
        if let Role::Source(source) = role {
            // A fault lasts until packets leave: a program may end at once, again and again.
            standing.sources.entry(source.clone()).or_default();
        }
        drop(standing);
        while let Some(line) = lines.next() {
            self.take(role, &line);
        }
        // A process without standard output is of no use.
        self.standing().children.get(role).into_iter().for_each(RunningChild::kill);
        let errors = lines.errors();
        let ended = self.standing().children.remove(role);
        errors.iter().for_each(|line| (self.config.notify)(line));
        let ended = ended?;
        let is_planned = ended.has_no_input();
        let fault = ended.fault(&errors);
        (!is_planned).then_some(fault)
    }

    fn take(&self, role: &Role, line: &str) {
        let Ok(mut news) = serde_json::from_str::<CardNews>(line) else { return };
        if let CardNews::State(state) = &mut news {
            let (site, _) = self.building();
            name_stations(&site, &mut state.announcements);
        }
        let mut standing = self.standing();
        if let Some(child) = standing.children.get_mut(role) {
            child.reported = now();
        }
        match news {
            CardNews::State(state) => {
                let Standing { zones, faults, .. } = &mut *standing;
                // A zone that a newer file lacks has no entry.
                let Some(known) = zones.get_mut(&state.zone) else { return };
                faults.set_zone(&state, unix_nanos() / NANOS);
                let over = newly_over(&known.announcements, &state.announcements);
                *known = *state;
                let zone = known.zone.clone();
                drop(standing);
                self.log(&zone, &over);
            }
            CardNews::Sending { fault } => {
                if let Role::Source(source) = role {
                    let now = unix_nanos() / NANOS;
                    standing.faults.set(FaultKind::Source, source, fault.clone(), now);
                    standing.sources.insert(source.clone(), fault);
                }
            }
            CardNews::Note(note) => {
                drop(standing);
                (self.config.notify)(&note);
            }
        }
    }

    /// A slow disk blocks only the thread that reads from the card's process.
    fn log(&self, zone: &str, announcements: &[AnnouncementState]) {
        let NodeConfig { place, log, .. } = &self.config;
        for announcement in announcements {
            let written = append_log(log, &ZoneEntry::new(&place.name, zone, announcement));
            self.note_written(&mut self.standing(), log, written);
        }
    }

    fn fail(&self, role: &Role, fault: &str) {
        let (site, place) = self.building();
        let now = unix_nanos() / NANOS;
        let mut standing = self.standing();
        let Standing { zones, sources, faults, .. } = &mut *standing;
        let mut cut = Vec::new();
        match role {
            Role::Card(card) => {
                let of_card = |zone: &Zone| zone.card == *card && zone.node == place.name;
                for (name, state) in zones {
                    if site.zones.get(name).is_some_and(of_card) {
                        state.state = ZonePlayback::Failed;
                        state.fault = Some(fault.to_owned());
                        (state.latency_ns, state.announcement, state.seconds) = (None, None, 0);
                        faults.set_zone(state, now);
                        cut.push((name.clone(), cut_off(&mut state.announcements)));
                    }
                }
            }
            Role::Source(source) => {
                faults.set(FaultKind::Source, source, Some(fault.to_owned()), now);
                sources.insert(source.clone(), Some(fault.to_owned()));
            }
        }
        drop(standing);
        cut.iter().for_each(|(zone, cut)| self.log(zone, cut));
    }

    /// Writes the faults to their file, and their begins and ends to the log.
    fn write_faults(&self, standing: &mut Standing) {
        let path = &self.config.faults;
        let written = standing.faults.write(path);
        self.note_written(standing, path, written);
        standing.faults.take_log().iter().for_each(|line| self.note(line));
    }

    /// Enters a failed write as a fault; a later success ends it.
    fn note_written(&self, standing: &mut Standing, path: &Path, written: std::io::Result<()>) {
        let reason = written.err().map(|error| error.to_string());
        let path = path.display().to_string();
        standing.faults.set(FaultKind::Disk, &path, reason, unix_nanos() / NANOS);
    }

    /// The zone in the building file, with its saved changes.
    fn zone(&self, name: &str, saved: &SavedZones) -> Result<Zone, ZoneRefused> {
        let (site, place) = self.building();
        let zone = site.zones.get(name).filter(|zone| zone.node == place.name);
        let zone = zone.ok_or_else(|| ZoneRefused::NoZone {
            node: place.name.clone(),
            zone: name.to_owned(),
        })?;
        Ok(zone.changed(&site, &saved.of(name)))
    }
}

/// Names stations by their ranks. A card may continue with an older building file, which lacks new
/// stations.
fn name_stations(site: &Site, announcements: &mut [AnnouncementState]) {
    for announcement in announcements {
        let mut stations = site.stations.iter();
        let named = stations.find(|(_, known)| announcement.rank == Some(known.rank));
        announcement.station = named.map(|(name, _)| name.clone());
    }
}

/// Marks the playing announcements as ended, and returns them.
fn cut_off(announcements: &mut [AnnouncementState]) -> Vec<AnnouncementState> {
    let playing = announcements.iter_mut().filter(|it| it.result == AnnouncementResult::Playing);
    let cut = playing.map(|it| {
        it.result = AnnouncementResult::Cut;
        it.clone()
    });
    cut.collect()
}

impl NodeService for BuildingNode {
    fn state(&self) -> NodeState {
        let (site, place) = self.building();
        let standing = self.standing();
        let sources = standing
            .sources
            .iter()
            .map(|(source, fault)| SourceState { source: source.clone(), fault: fault.clone() });
        NodeState {
            node: place.name.clone(),
            epoch: site.epoch,
            hash: site.hash.to_string(),
            now_ns: unix_nanos(),
            zones: standing.zones.values().cloned().collect(),
            sources: sources.collect(),
            faults: standing.faults.all().to_vec(),
        }
    }

    fn acknowledge(&self, request: FaultsAck) -> Acknowledged {
        let mut standing = self.standing();
        let done = standing.faults.acknowledge(&request);
        self.write_faults(&mut standing);
        done
    }

    fn change(&self, change: ZoneChange) -> Result<ZoneState, ZoneRefused> {
        let (site, _) = self.building();
        let mut standing = self.standing();
        let mut zone = self.zone(&change.zone, &standing.saved)?;
        if let Some(refused) = zone.change(&site, &change).into_iter().next() {
            return Err(refused);
        }
        standing.saved.merge(&change);
        standing.saved.fit(&site);
        let written = standing.saved.write(&self.config.saved);
        self.note_written(&mut standing, &self.config.saved, written);
        let child = standing.children.get_mut(&Role::Card(zone.card.clone()));
        if let (Some(child), Ok(line)) = (child, serde_json::to_string(&change)) {
            // A process that died starts again with the saved changes.
            child.tell(&line);
        }
        let state = standing.zones.entry(change.zone).or_default();
        zone.show(state);
        Ok(state.clone())
    }

    fn push(&self, push: SitePush) -> Result<SitePushed, PushRefused> {
        self.take_push(push)
    }

    fn stage(&self, sha256: &str, bytes: &[u8]) -> Result<(), PushRefused> {
        self.take_file(sha256, bytes)
    }
}
