//! Stations and messages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tautline_api::trust::is_name;
use tautline_audio::DeviceSpec;
use tautline_dsp::chime::Chime;
use tautline_proto::zone::{Class, Priority};

use super::{Checker, DEVICE};
use crate::mistake::MistakeKind;
use crate::section::{At, Section};
use crate::{Message, Station, StationHost};

const STATION: &[&str] = &["node", "key", "input", "priority", "rank", "to", "mutes", "chime"];
const MESSAGE: &[&str] = &["file", "sha256"];

const KEY: &str = "a name in the list of taut trust --list";
const RANK: &str = "a whole number from 1 to 65535";
const TO: &str = "a list of zones and groups, such as [\"hall\"]";
const CHIME: &str = "\"one-tone\", \"two-tone\" or \"three-tone\"";
const SHA256: &str = "64 hexadecimal digits, as printed by sha256sum";

impl<'a> Checker<'a> {
    pub(super) fn stations(&mut self, file: &Section<'a>) -> BTreeMap<String, Station> {
        let mut stations = BTreeMap::new();
        for (name, station) in file.tables("station", STATION, &mut self.mistakes) {
            self.exactly_one(&station, &["node", "key"], "node and key");
            for (key, example) in
                [("priority", "\"PRIORITY\""), ("rank", "1"), ("to", "[\"ZONE\"]")]
            {
                station.require(key, example, &mut self.mistakes);
            }
            let key = station.read("key", KEY, &mut self.mistakes, |text| {
                is_name(text).then(|| StationHost::Key(text.to_owned()))
            });
            let node = self.node(&station).map(StationHost::Node);
            let host = node.or(key.map(|key| key.value));
            let mistakes = &mut self.mistakes;
            let input = station.parse("input", DEVICE, mistakes, str::parse::<DeviceSpec>);
            let to = self.zones_and_groups(&station, "to", TO);
            let station = Station {
                host: host.unwrap_or(StationHost::Node(String::new())),
                input,
                priority: self.priority(&station),
                rank: self.rank(&station),
                to: to.into_iter().map(|name| name.value.to_owned()).collect(),
                mutes: self.mutes(&station),
                chime: station
                    .read("chime", CHIME, &mut self.mistakes, Chime::named)
                    .map(|it| it.value),
            };
            stations.insert(name.to_owned(), station);
        }
        stations
    }

    fn priority(&mut self, station: &Section<'a>) -> u8 {
        let write = "the name of a priority";
        let Some(name) = station.text("priority", write, &mut self.mistakes) else { return 0 };
        let found = self.names.priorities.get(name.value).copied();
        self.known("priority", name, found.is_some(), |names| {
            names.priorities.keys().copied().collect()
        });
        let value = found.flatten();
        if let Some(value) = value.filter(|value| Priority(*value).class() == Class::Background) {
            let name_of = name.value.to_owned();
            self.mistakes.add(name.at, MistakeKind::BackgroundPriority { name: name_of, value });
        }
        value.unwrap_or_default()
    }

    fn rank(&mut self, station: &Section<'a>) -> u16 {
        let range = 1..=u16::MAX.into();
        let given = station.integer("rank", range, RANK, &mut self.mistakes);
        let Some(At { at, value }) = given else { return 0 };
        let rank = u16::try_from(value).unwrap_or_default();
        let mut ranks = core::mem::take(&mut self.ranks);
        let fix = "write a rank that no other station has";
        self.once(&mut ranks, "rank", At { at, value: rank }, station, fix);
        self.ranks = ranks;
        rank
    }

    fn mutes(&mut self, station: &Section<'a>) -> Option<String> {
        let zone = station.text("mutes", "the name of a zone", &mut self.mistakes)?;
        let known = self.names.zones.contains(zone.value);
        self.known("zone", zone, known, |names| names.zones.iter().copied().collect());
        Some(zone.value.to_owned())
    }

    pub(super) fn messages(&mut self, file: &Section<'a>) -> BTreeMap<String, Message> {
        let mut messages = BTreeMap::new();
        for (name, message) in file.tables("message", MESSAGE, &mut self.mistakes) {
            let mistakes = &mut self.mistakes;
            message.require("file", "\"messages/NAME.wav\"", mistakes);
            let path = message.text("file", "a path, such as \"messages/fire.wav\"", mistakes);
            let file = path.map(|path| PathBuf::from(path.value)).unwrap_or_default();
            let sha256 = message.read("sha256", SHA256, mistakes, sha256);
            let sha256 = sha256.map(|hash| hash.value);
            messages.insert(name.to_owned(), Message { file, sha256 });
        }
        messages
    }
}

fn sha256(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes().iter().map(|byte| (*byte as char).to_digit(16));
    let digits: Vec<u8> = digits.map(|digit| digit?.try_into().ok()).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    bytes.try_into().ok().filter(|_| rest.is_empty())
}
