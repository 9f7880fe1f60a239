//! `taut demo building`: three machines with six zones, in network namespaces of this machine.

mod network;
mod skew;
mod sounds;

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tautline_api::srtp::{MasterKey, Profile, write_key};
use tautline_api::trust::TrustStore;
use tautline_io::clock::{WallClock, now, sleep_until};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Channels;
use tautline_site::{FILE_NAME, Site};

use self::network::{Network, SWITCH};
use self::skew::{Microphone, Skew, bounded};
use self::sounds::RATE;
use super::write;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::DemoBuilding;
use crate::screen;

/// `PID` is the process of the demo: cables have one name on the whole machine.
const BUILDING: &str = include_str!("building.toml");

/// Key that encrypts announcements and sources.
const KEY: &str = "building.key";

const LOOK: Span = Span::from_millis(100);
/// Timeout until all zones play.
const PLAYS: Span = Span::from_secs(30);
/// Timeout of a node's end.
const FAREWELL: Span = Span::from_secs(5);
/// Sound that the microphones record before the chime.
const BEFORE: Span = Span::from_millis(500);

pub(super) fn run(flags: &DemoBuilding) -> Result<(), Failure> {
    if !geteuid().is_root() {
        return Err(Failure::open(
            "taut demo building needs root, to create network namespaces\nhint: sudo taut demo building",
        ));
    }
    let stop = stop_on_signals()?;
    let began = now();
    let mut building = RunningBuilding::start(&flags.out)?;
    building.describe();
    if building.wait_until_zones_play(&stop)? {
        building.announce()?;
        screen::emit("running until Ctrl-C");
    }
    while !stop.is_requested() && now() - began < flags.duration {
        building.note_ended();
        sleep_until(now() + LOOK);
    }
    Ok(())
}

/// The fields are dropped in this order: nodes end before their network.
struct RunningBuilding {
    nodes: Vec<RunningNode>,
    network: Network,
    site: Site,
    out: PathBuf,
}

struct RunningNode {
    name: String,
    child: Child,
    log: PathBuf,
}

impl RunningBuilding {
    fn start(out: &Path) -> Result<Self, Failure> {
        let text = BUILDING.replace("PID", &std::process::id().to_string());
        let site = Site::check(text.as_bytes())
            .map_err(|mistakes| Failure::running(format!("building file: {mistakes:?}")))?;
        let create = |error| Failure::open(format!("creating {}: {error}", out.display()));
        std::fs::create_dir_all(out).map_err(create)?;
        let out = out.canonicalize().map_err(create)?;
        let machines = site.nodes.iter().map(|(name, node)| (name.as_str(), node.host.as_str()));
        let network = Network::make(machines)?;
        let mut building = Self { nodes: Vec::new(), network, site, out };
        building.furnish(&text)?;
        for name in building.site.nodes.keys() {
            let log = building.home(name).join("node.log");
            let file = || -> std::io::Result<_> {
                let file = File::create(&log)?;
                Ok((file.try_clone()?, file))
            };
            let started = file().and_then(|(output, errors)| {
                building.on(name, ["node"])?.stdout(output).stderr(errors).spawn()
            });
            let child = started.map_err(|error| {
                Failure::open(format!(
                    "starting the node of {name}: {error}\nhint: apt install util-linux iproute2"
                ))
            })?;
            building.nodes.push(RunningNode { name: name.clone(), child, log });
        }
        Ok(building)
    }

    /// Folder of a machine: its key, trusted machines, building file, sounds and recording.
    fn home(&self, machine: &str) -> PathBuf {
        self.out.join("machines").join(machine)
    }

    fn furnish(&self, building: &str) -> Result<(), Failure> {
        let (music, sport, chime) =
            (sounds::music(RATE / 4, 0.0), sounds::music(RATE / 8, 5.0), sounds::chime());
        let names = || self.site.nodes.keys();
        let key = MasterKey::random(Profile::default())
            .map_err(|error| Failure::open(format!("creating a key: {error}")))?;
        let mut keys = Vec::new();
        for name in names() {
            let home = self.home(name);
            std::fs::create_dir_all(&home)
                .map_err(|error| Failure::open(format!("creating {}: {error}", home.display())))?;
            keys.push((name, TrustStore::open(&home)?));
            // Changes, faults, schedule and signs of life of an earlier demo.
            for state in ["zones-NAME", "faults-NAME", "zones-NAME.journal", "zones-NAME.alive"] {
                let file = state.replace("NAME", name) + ".json";
                let _ = std::fs::remove_file(home.join(file));
            }
            self.keep_old(name)?;
            let file = home.join(KEY);
            let _ = std::fs::remove_file(&file);
            write_key(&file, &key)?;
            write(&home.join(FILE_NAME), building.as_bytes())?;
            sounds::write(&home.join("music.wav"), music.iter().copied())?;
            sounds::write(&home.join("sport.wav"), sport.iter().copied())?;
            sounds::write(&home.join("chime.wav"), chime.iter().map(|sample| [*sample]))?;
            self.write_script(name, &format!("on the machine {name}"), &self.exports(name)?)?;
        }
        self.write_script(SWITCH, "at the switch, whose ports have the names of the machines", "")?;
        for (own, store) in &keys {
            for (other, its) in keys.iter().filter(|(other, _)| other != own) {
                store.trusted().trust(other, its.identity().key())?;
            }
        }
        Ok(())
    }

    /// Keeps the building file of an earlier demo, which a user may have edited.
    fn keep_old(&self, machine: &str) -> Result<(), Failure> {
        let file = self.home(machine).join(FILE_NAME);
        let text = std::fs::read(&file).unwrap_or_default();
        let is_edited =
            Site::check(&text).map_or(!text.is_empty(), |old| old.epoch > self.site.epoch);
        if is_edited {
            let old = file.with_extension("toml.old");
            let failed = |error| Failure::open(format!("writing {}: {error}", old.display()));
            std::fs::rename(&file, &old).map_err(failed)?;
            screen::notify(&format!("the building file of the earlier demo is {}", old.display()));
        }
        Ok(())
    }

    /// Environment of `taut` on a machine, for a shell.
    fn exports(&self, machine: &str) -> Result<String, Failure> {
        let quoted =
            |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
        let program = program()?;
        let folder = program.parent().unwrap_or(Path::new("/"));
        let home = quoted(&self.home(machine));
        Ok(format!("export TAUT_HOME={home} PATH={}:\"$PATH\"\n", quoted(folder)))
    }

    /// Writes a script that runs a command in the namespace of this name.
    fn write_script(&self, name: &str, place: &str, exports: &str) -> Result<(), Failure> {
        let path = self.out.join(name);
        let text = format!(
            "#!/bin/sh\n\
             # Runs a command {place}; without one, a shell.\n\
             [ \"$(id -u)\" = 0 ] || exec sudo \"$0\" \"$@\"\n\
             {exports}exec ip netns exec {} \"${{@:-sh}}\"\n",
            self.network.namespace(name)
        );
        write(&path, text.as_bytes())?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
            .map_err(|error| Failure::open(format!("writing {}: {error}", path.display())))
    }

    /// `taut` on a machine. It ends with the demo, even if the demo is killed, but not with Ctrl-C.
    fn on<'a>(
        &self,
        machine: &str,
        words: impl IntoIterator<Item = &'a str>,
    ) -> std::io::Result<Command> {
        let (home, namespace) = (self.home(machine), self.network.namespace(machine));
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "ip", "netns", "exec", &namespace]);
        command.arg(std::env::current_exe()?).args(words);
        command.env("TAUT_HOME", &home).current_dir(&home).process_group(0);
        Ok(command)
    }

    fn describe(&self) {
        for (name, node) in &self.site.nodes {
            let zones = self.site.zones.iter().filter(|(_, zone)| zone.node == *name);
            let zones: Vec<_> = zones.map(|(zone, _)| zone.as_str()).collect();
            screen::emit(&format!("{name} at {}: {}", node.host, zones.join(", ")));
        }
        let out = self.out.display();
        screen::emit(&format!("run commands on a machine: {out}/office taut zones"));
        screen::emit(&format!("recordings of the cards: {out}/machines/*/*.wav, 4 GB per hour"));
    }

    /// Reports nodes that ended. The other nodes continue, as in a building.
    fn note_ended(&mut self) {
        let out = self.out.display();
        for RunningNode { name, log, .. } in self.nodes.extract_if(.., |it| !is_running(&it.child))
        {
            screen::notify(&format!(
                "the node of {name} ended, see {}; this starts it again: cd {out}/machines/{name} && {out}/{name} taut node",
                log.display()
            ));
        }
    }

    /// Fails if a node ended.
    fn check(&self) -> Result<(), Failure> {
        for RunningNode { name, child, log } in &self.nodes {
            if !is_running(child) {
                let text = std::fs::read_to_string(log).unwrap_or_default();
                let last = text.lines().next_back().unwrap_or("no message");
                return Err(Failure::running(format!(
                    "the node of {name} ended: {last}\nhint: see {}",
                    log.display()
                )));
            }
        }
        Ok(())
    }

    /// Output as JSON.
    fn ask<'a>(
        &self,
        machine: &str,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<Value, Failure> {
        let failed = |why: String| Failure::running(format!("asking {machine}: {why}"));
        let done = self.on(machine, words).and_then(|mut command| command.output());
        let done = done.map_err(|error| failed(error.to_string()))?;
        serde_json::from_slice(&done.stdout)
            .map_err(|_| failed(String::from_utf8_lossy(&done.stderr).trim().to_owned()))
    }

    /// Returns `false` after a stop.
    fn wait_until_zones_play(&self, stop: &Stop) -> Result<bool, Failure> {
        let until = now() + PLAYS;
        while !stop.is_requested() {
            self.check()?;
            let state = self.ask("office", ["zones", "--report", "json"])?;
            let nodes = state["nodes"].as_array().into_iter().flatten();
            let zones = nodes.flat_map(|node| node["zones"].as_array().into_iter().flatten());
            if zones.filter(|zone| zone["state"] == "playing").count() == self.site.zones.len() {
                return Ok(true);
            }
            if now() > until {
                return Err(Failure::running(format!(
                    "after {PLAYS} some zones do not play\nhint: {}/office taut zones",
                    self.out.display()
                )));
            }
            sleep_until(now() + LOOK);
        }
        Ok(false)
    }

    /// Announces a chime in all zones, and measures when each zone starts to play it.
    fn announce(&self) -> Result<(), Failure> {
        let (begins, wall) = (now() + LOOK, WallClock::frozen());
        let microphones: Result<Vec<_>, Failure> = self
            .site
            .nodes
            .iter()
            .map(|(name, node)| {
                let channels =
                    node.cards.get("main").map_or(Channels::STEREO, |card| card.channels);
                let cable = format!("taut-{}-{name}", std::process::id());
                let path = self.home(name).join("microphone.wav");
                Ok((name, Microphone::open((&cable, channels), &path, begins)?))
            })
            .collect();
        let microphones = microphones?;
        sleep_until(begins + BEFORE);
        let announced = self.ask("office", ["play", "all", "chime", "--report", "json"])?;
        let mut received = Vec::new();
        for (name, microphone) in microphones {
            received.push((name, microphone.end()?));
        }
        let zones = announced["zones"].as_array().map_or(&[][..], Vec::as_slice);
        let reached = zones.iter().filter(|zone| zone["result"] == "played").count();
        screen::emit(&format!("chime announced in {reached} of {} zones", self.site.zones.len()));
        let chime = sounds::chime();
        let mut starts = Vec::new();
        for zone in zones {
            let (Some(name), Some(planned)) = (zone["zone"].as_str(), zone["started_ns"].as_i64())
            else {
                continue;
            };
            let Some(known) = self.site.zones.get(name) else { continue };
            let sound = received.iter().find(|(machine, _)| **machine == known.node);
            let channel = known.channels.first().map_or(0, |channel| usize::from(*channel) - 1);
            let planned = LocalTime::from_nanos(planned - wall.offset().as_nanos());
            let from = (planned - begins + known.delay).as_nanos();
            let expected = usize::try_from(from * RATE as i64 / 1_000_000_000).unwrap_or(0);
            let found = sound
                .and_then(|(_, channels)| skew::start_in(channels.get(channel)?, &chime, expected));
            match found {
                Some(frame) => {
                    starts.push(Span::from_nanos((frame * 1e9 / RATE as f64) as i64) - known.delay);
                }
                None => {
                    screen::notify(&format!("the sound of zone {name} has no chime at its start"))
                }
            }
        }
        if let Some(Skew { pairs, median, maximum }) = Skew::of(&starts) {
            screen::emit(&format!(
                "measured skew of its start, {pairs} pairs of zones: p50 {}, maximum {} (± {}us)",
                bounded(median),
                bounded(maximum),
                skew::UNCERTAINTY.as_nanos() / 1000 + 1
            ));
        }
        Ok(())
    }
}

fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::running(format!("finding this program: {error}")))
}

fn is_running(child: &Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), look), Ok(None))
}

impl Drop for RunningBuilding {
    fn drop(&mut self) {
        for node in &self.nodes {
            if is_running(&node.child) {
                let _ = kill_process(Pid::from_child(&node.child), Signal::INT);
            }
        }
        let until = now() + FAREWELL;
        for RunningNode { child, .. } in &mut self.nodes {
            while is_running(child) && now() < until {
                sleep_until(now() + Span::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_site::Schedule;

    use super::*;

    #[test]
    fn building_of_the_demo_is_valid() {
        let site = Site::check(BUILDING.as_bytes()).unwrap();
        assert_eq!((site.nodes.len(), site.zones.len()), (3, 6));
        assert!(site.nodes.values().all(|node| node.cards.contains_key("main")));
        let (schedule, faults) = Schedule::load(&site, Path::new(""));
        assert_eq!((schedule.upcoming(2).len(), faults.len()), (2, 0));
    }
}
