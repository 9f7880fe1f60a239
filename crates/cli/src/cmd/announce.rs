//! `taut page`, `taut play`, `taut say` and `taut stop`.

mod speech;
mod talk;
#[cfg(test)]
mod tests;
mod watch;

use std::path::{Path, PathBuf};

use serde::Serialize;
use tautline_api::trust::usual_folder;
use tautline_api::v1::{AnnouncementResult, ZoneChange};
use tautline_audio::DeviceSpec;
use tautline_dsp::chime::Chime;
use tautline_engine::plan::zone::AnnouncementPlan;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;
use tautline_proto::zone::{AnnouncementId, Priority, Queue, QueueStep, ZoneEvent};
use tautline_site::{
    Announced, Capture, LOG_NAME, NodeClient, Place, Site, Station, StationHost, Transmission,
    append_log, capture, transmit, unix_nanos,
};

use self::speech::speech;
use self::talk::talk;
use self::watch::{AnnouncedZone, Watched, are_free, playing, watched};
use super::node::{changes, failure, file_device, run_options};
use super::site::building;
use super::stop_on_signals;
use super::zones::zones;
use crate::cmd::answer;
use crate::failure::{Failure, on_one_line};
use crate::flags::{AnnounceFlags, PageFlags, PlayFlags, SayFlags, StopFlags};
use crate::screen;

pub(crate) fn page(flags: &PageFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.announce.site)?;
    let from = station(&site, &flags.announce)?;
    let input = flags.input.clone().or_else(|| from.station.input.clone()).ok_or_else(|| {
        Failure::usage(format!(
            "station {} has no input\nhint: add --input DEVICE, or input = to the station in the building file",
            from.name
        ))
    })?;
    let call = Call::new(&site, &from, &flags.zones, &flags.announce)?;
    let (end_after, duration) = (flags.end_after, flags.duration);
    let voice = flags.announce.voice.voice();
    if flags.announce.queue.is_none() {
        let sound = Sound { input, duration, end_after, is_live: true, repeats: false };
        let (stop, page) = (user_stop(flags.until_eof)?, |stop: &Stop| call.announce(&sound, stop));
        return if flags.talk { talk(voice, &stop, page) } else { page(&stop) };
    }
    let folder = temporary()?;
    let file = folder.path().join("page.wav");
    voice.notify("recording: speak; Ctrl-C ends the page, and again cancels it");
    let spoken = Capture { input, to: &file, duration, end_after };
    capture(&site, spoken, Scheduler::Fifo(70), &user_stop(flags.until_eof)?)
        .map_err(|error| failure(&error))?;
    call.announce(&Sound::of(&file), &stop_on_signals()?)
}

/// Requested when the user, or the end of standard input, ends the announcement.
fn user_stop(until_eof: bool) -> Result<Stop, Failure> {
    let stop = stop_on_signals()?;
    if until_eof {
        changes(&stop)?;
    }
    Ok(stop)
}

pub(crate) fn play(flags: &PlayFlags) -> Result<(), Failure> {
    let (path, site) = building(&flags.announce.site)?;
    let from = station(&site, &flags.announce)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let file = recording(&site, folder, &flags.recording)?;
    let call = Call::new(&site, &from, &flags.zones, &flags.announce)?;
    let sound = Sound { duration: flags.duration, repeats: flags.repeat, ..Sound::of(&file) };
    call.announce(&sound, &user_stop(flags.until_eof)?)
}

/// File of a message, or the file of this path.
fn recording(site: &Site, folder: &Path, name: &Path) -> Result<PathBuf, Failure> {
    if let Some(message) = name.to_str().filter(|name| site.messages.contains_key(*name)) {
        return site.recording(message, folder).map_err(|fault| Failure::open(fault.to_string()));
    }
    if name.try_exists().is_ok_and(|exists| !exists) {
        let hint = match listed(site.messages.keys()) {
            known if known.is_empty() => "add [message.NAME] to the building file".to_owned(),
            known => format!("its messages are {known}"),
        };
        return Err(Failure::open(format!(
            "the building file has no message {:?}, and there is no such file\nhint: {hint}",
            name.display().to_string()
        )));
    }
    Ok(name.to_owned())
}

fn listed<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

pub(crate) fn say(flags: &SayFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.announce.site)?;
    let from = station(&site, &flags.announce)?;
    let call = Call::new(&site, &from, &flags.zones, &flags.announce)?;
    let folder = temporary()?;
    let file = folder.path().join("speech.wav");
    speech(&flags.command, &flags.text, &file)?;
    call.announce(&Sound::of(&file), &stop_on_signals()?)
}

/// Ends the announcement with a given number wherever it plays, or all announcements in given
/// zones.
pub(crate) fn stop(flags: &StopFlags) -> Result<(), Failure> {
    let (_, site) = building(&flags.site)?;
    let id = flags.what.parse::<AnnouncementId>().ok().filter(|_| flags.what.len() == ID_DIGITS);
    let chosen = match id {
        Some(_) => site.zones.keys().map(String::as_str).collect(),
        None => zones(&site, &flags.what)?,
    };
    let client = NodeClient::new(&site)?;
    let (mut stopped, mut failed) = (0, Vec::new());
    for (zone, plays) in playing(&site, &client, &chosen) {
        let plays = match plays {
            Ok(plays) => plays.filter(|plays| id.is_none_or(|id| *plays == id.to_string())),
            // The announcement may have played there.
            Err(why) => {
                failed.push(format!("zone {zone}: {why}"));
                continue;
            }
        };
        let Some(plays) = plays else { continue };
        let change = ZoneChange {
            zone: zone.to_owned(),
            stop: Some(plays.clone()),
            ..ZoneChange::default()
        };
        match client.change(&change) {
            Ok(_) => {
                stopped += 1;
                screen::emit(&format!("{zone}: announcement {plays} ends"));
            }
            Err(why) => failed.push(format!("zone {zone}: {}", on_one_line(&why.to_string()))),
        }
    }
    match (failed.is_empty(), stopped) {
        (false, _) => Err(Failure::running(failed.join("; "))),
        (true, 0) => {
            Err(Failure::running(format!("no announcement plays in {}", chosen.join(", "))))
        }
        (true, _) => Ok(()),
    }
}

/// Maximum duration of a repeated recording. An evacuation message repeats until an operator stops
/// it.
const MAX_REPEATED: Span = Span::from_secs(24 * 3600);
/// Digits of an announcement's number.
const ID_DIGITS: usize = 16;

fn temporary() -> Result<tempfile::TempDir, Failure> {
    tempfile::tempdir().map_err(|error| {
        let folder = std::env::temp_dir();
        Failure::open(format!("creating a folder in {}: {error}", folder.display()))
    })
}

/// Station of this machine.
struct From<'a> {
    name: &'a str,
    station: &'a Station,
    place: Option<Place>,
}

fn station<'a>(site: &'a Site, flags: &AnnounceFlags) -> Result<From<'a>, Failure> {
    let here = site.place(None);
    let (name, station) = match &flags.station {
        Some(name) => site.stations.get_key_value(name).ok_or_else(|| {
            let known = listed(site.stations.keys());
            Failure::usage(format!(
                "the building file has no station {name:?}\nhint: it has {known}"
            ))
        })?,
        None => {
            let fitting = usual(site, here.as_ref().ok());
            match fitting.as_slice() {
                [only] => *only,
                [] => {
                    return Err(Failure::usage(
                        "the building file has no station of this machine\n\
                         hint: add [station.NAME] with its node to the building file",
                    ));
                }
                several => {
                    return Err(Failure::usage(format!(
                        "this machine has {} stations\nhint: add --station NAME: {}",
                        several.len(),
                        listed(several.iter().map(|(name, _)| *name))
                    )));
                }
            }
        }
    };
    let place = match &station.host {
        StationHost::Node(node) => {
            if let Some(here) = here.as_ref().ok().filter(|here| here.name != *node) {
                return Err(Failure::usage(format!(
                    "station {name} belongs to node {node}, and this machine is {}\nhint: run the command on {node}",
                    here.name
                )));
            }
            Some(site.place(Some(node)).map_err(|why| failure(&why.into()))?)
        }
        StationHost::Key(_) => here.ok(),
    };
    Ok(From { name, station, place })
}

/// Stations of this machine without `--station`: the stations of its node, else the stations with a
/// key.
fn usual<'a>(site: &'a Site, here: Option<&Place>) -> Vec<(&'a String, &'a Station)> {
    let of = |is_meant: &dyn Fn(&StationHost) -> bool| -> Vec<_> {
        site.stations.iter().filter(|(_, station)| is_meant(&station.host)).collect()
    };
    let own = of(&|host| match host {
        StationHost::Node(node) => here.is_some_and(|place| place.name == *node),
        StationHost::Key(_) => false,
    });
    if own.is_empty() { of(&|host| matches!(host, StationHost::Key(_))) } else { own }
}

/// Sound of an announcement.
struct Sound {
    input: DeviceSpec,
    duration: Option<Span>,
    end_after: Option<Span>,
    /// A user speaks, and waits for the prompt to begin.
    is_live: bool,
    /// The recording begins again at its end.
    repeats: bool,
}

impl Sound {
    fn of(file: &Path) -> Self {
        let input = file_device(file);
        Self { input, duration: None, end_after: None, is_live: false, repeats: false }
    }
}

/// An announcement that the building file permits.
struct Call<'a> {
    site: &'a Site,
    from: &'a From<'a>,
    /// Zones as the user wrote them.
    names: &'a str,
    zones: Vec<&'a str>,
    targets: Vec<u16>,
    flags: &'a AnnounceFlags,
}

/// Zones of one transmission.
struct Attempt<'a> {
    zones: Vec<&'a str>,
    targets: Vec<u16>,
    record: Option<PathBuf>,
}

/// `--report json`; scripts rely on the names.
#[derive(Serialize)]
struct Report {
    schema: u32,
    id: String,
    zones: Vec<AnnouncedZone>,
}

/// Interval between requests whether the zones are free.
const QUEUED: Span = Span::from_millis(250);

impl<'a> Call<'a> {
    fn new(
        site: &'a Site,
        from: &'a From<'a>,
        names: &'a str,
        flags: &'a AnnounceFlags,
    ) -> Result<Self, Failure> {
        let zones = zones(site, names)?;
        let permitted = site.zones_of(from.station.to.iter().map(String::as_str));
        if let Some(forbidden) = zones.iter().find(|zone| !permitted.contains(zone)) {
            return Err(Failure::usage(format!(
                "station {} is not allowed to announce in zone {forbidden}\nhint: add it to `to` of the station in the building file",
                from.name
            )));
        }
        let targets = site.numbers(names.split(',').map(str::trim)).unwrap_or_default();
        Ok(Self { site, from, names, zones, targets, flags })
    }

    fn chime(&self) -> Option<Chime> {
        self.flags.chime.or(self.from.station.chime).filter(|_| !self.flags.no_chime)
    }

    fn first(&self) -> Attempt<'a> {
        let (zones, targets) = (self.zones.clone(), self.targets.clone());
        Attempt { zones, targets, record: self.flags.record.clone() }
    }

    /// Announces at once, or when the zones are free; reports the results.
    fn announce(&self, sound: &Sound, stop: &Stop) -> Result<(), Failure> {
        let client = NodeClient::new(self.site)?;
        let Some(limit) = self.flags.queue else {
            let (id, results) = self.send(&client, sound, &self.first(), stop)?;
            return self.conclude(id, results);
        };
        let mut queue = Queue::new(limit, now());
        let (mut results, mut last) = (Vec::<AnnouncedZone>::new(), None);
        let mut is_noted = false;
        while !stop.is_requested() {
            // Skip zones that have received the whole announcement.
            let left: Vec<_> =
                self.zones.iter().copied().filter(|zone| !has_it(&results, zone)).collect();
            match queue.poll(are_free(self.site, &client, &left), now()) {
                Some(QueueStep::Send) => {
                    let attempt = match last {
                        None => self.first(),
                        Some(_) => {
                            let targets = self.site.numbers(left.iter().copied());
                            let targets = targets.unwrap_or_default();
                            Attempt { zones: left, targets, record: None }
                        }
                    };
                    let (id, new) = self.send(&client, sound, &attempt, stop)?;
                    queue.sent(id);
                    results.retain(|before| !new.iter().any(|it| it.zone == before.zone));
                    results.extend(new);
                    last = Some(id);
                    match results.iter().any(AnnouncedZone::lost) {
                        true => queue.handle_event(&ZoneEvent::Refused { id, by: id }),
                        false => return self.conclude(id, results),
                    }
                }
                Some(QueueStep::GiveUp) => break,
                Some(QueueStep::Withdraw(_)) => {}
                None => {
                    if !is_noted {
                        is_noted = true;
                        self.flags.voice.voice().notify(&format!(
                            "waiting until other announcements end in {}, for at most {limit}",
                            left.join(", ")
                        ));
                    }
                    sleep_until(now() + QUEUED);
                }
            }
        }
        match last {
            Some(id) => self.conclude(id, results),
            None => Err(Failure::running(format!(
                "not announced: another announcement plays in {}\nhint: write a longer --queue, or end it with taut stop",
                self.zones.join(", ")
            ))),
        }
    }

    /// Sends until the sound ends, `stop`, or no zone wants more.
    fn send(
        &self,
        client: &NodeClient<'_>,
        sound: &Sound,
        attempt: &Attempt<'_>,
        stop: &Stop,
    ) -> Result<(AnnouncementId, Vec<AnnouncedZone>), Failure> {
        let Self { site, from, flags, .. } = self;
        let plan = AnnouncementPlan::new(attempt.targets.clone(), Priority(from.station.priority));
        let plan = plan.map_err(|error| failure(&error.into()))?;
        let longest = if sound.repeats { MAX_REPEATED } else { plan.longest };
        let plan = AnnouncementPlan { rank: from.station.rank, longest, ..plan };
        let (id, opens, over) = (plan.id, Stop::default(), stop.part());
        let transmission = Transmission {
            input: sound.input.clone(),
            looped: sound.repeats,
            to: site.announcements,
            interface: from.place.as_ref().map(|place| place.address),
            begins: None,
            announcement: Some(Announced {
                plan,
                chime: self.chime(),
                opens: opens.clone(),
                end_after: sound.end_after,
                record: attempt.record.clone(),
            }),
        };
        let voice = flags.voice.voice();
        voice.detail(&format!("announcement {id}: taut stop {id} ends it"));
        let watch = Watched { site, client, zones: &attempt.zones, id, opens, over, voice };
        let options = run_options(Scheduler::Fifo(70), sound.duration);
        let mut is_cancelled = false;
        let mut results = watched(&watch, sound.is_live, |over| {
            let sent = transmit(site, transmission, &options, over);
            // A live page or a repeated recording has no end of its own.
            is_cancelled = !sound.is_live && !sound.repeats && stop.is_requested();
            sent.map_err(|error| failure(&error))
        })?;
        if is_cancelled {
            results.iter_mut().for_each(AnnouncedZone::cancel);
        }
        Ok((id, results))
    }

    fn conclude(&self, id: AnnouncementId, zones: Vec<AnnouncedZone>) -> Result<(), Failure> {
        let reached = zones.iter().filter(|it| it.fault.is_none()).count();
        let failed = failed(&zones);
        let unknown = zones.iter().filter(|it| it.result == AnnouncementResult::Unknown).count();
        let unknown = if unknown > 0 { format!(", unknown in {unknown}") } else { String::new() };
        let text = format!("announced in {reached} of {} zones{unknown}\n", zones.len());
        let report = Report { schema: 1, id: id.to_string(), zones };
        self.log(&report);
        let json = serde_json::to_string_pretty(&report);
        answer(self.flags.report, &text, json.map(|text| text + "\n"))?;
        failed.map_or(Ok(()), |failed| Err(Failure::running(failed)))
    }

    fn log(&self, report: &Report) {
        let entry = StationEntry {
            time_ns: unix_nanos(),
            station: self.from.name,
            priority: self.from.station.priority,
            targets: self.names.split(',').map(str::trim).collect(),
            report,
        };
        let Ok(path) = usual_folder().map(|folder| folder.join(LOG_NAME)) else { return };
        if let Err(error) = append_log(&path, &entry) {
            let (path, id) = (path.display(), &report.id);
            let voice = self.flags.voice.voice();
            voice.notify(&format!("writing {path}: {error}; the log lacks {id}"));
        }
    }
}

/// Failed zones: with the fault, or only with the name if the fault was printed before.
fn failed(zones: &[AnnouncedZone]) -> Option<String> {
    // A page to the room of the microphone alone sounds nowhere.
    let is_nowhere = zones.iter().all(|it| it.fault.is_some());
    let failed = zones.iter().filter(|it| is_nowhere || !it.is_own_room);
    let failed: Vec<_> = failed.filter_map(|it| Some((it, it.fault.as_ref()?))).collect();
    let (told, new): (Vec<_>, Vec<_>) = failed.into_iter().partition(|(it, _)| it.is_told);
    let told = told.into_iter().map(|(it, _)| &it.zone);
    let told = Some(listed(told)).filter(|told| !told.is_empty());
    let told = told.map(|told| format!("the announcement failed in {told}"));
    let new = new.into_iter().map(|(it, fault)| format!("zone {}: {fault}", it.zone));
    let all: Vec<_> = told.into_iter().chain(new).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The announcement in the log of the station.
#[derive(Serialize)]
struct StationEntry<'a> {
    time_ns: i64,
    station: &'a str,
    priority: u8,
    targets: Vec<&'a str>,
    #[serde(flatten)]
    report: &'a Report,
}

fn has_it(results: &[AnnouncedZone], zone: &str) -> bool {
    results.iter().any(|it| it.zone == zone && !it.lost())
}
