//! Reads the file and reports every mistake.

mod document;
mod equalizer;
mod groups;
mod multicast;
mod presets;
mod schedule;
mod stations;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ring::digest::{SHA256, digest};
use tautline_audio::DeviceSpec;
use tautline_engine::plan::address::Address;
use tautline_proto::text::parse_span;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use toml::de::{DeTable, DeValue};

use self::document::Document;
use self::multicast::Multicast;
use crate::mistake::{Mistake, MistakeKind};
use crate::names::near;
use crate::section::{At, Mistakes, Section, integer};
use crate::{Card, Node, Site, SiteHash, Source, SourceInput};

const FILE: &[&str] = &[
    "epoch",
    "announcements",
    "rate",
    "latency",
    "srtp-key-file",
    "priorities",
    "node",
    "zone",
    "group",
    "source",
    "station",
    "message",
    "preset",
    "schedule",
    "timezone",
    "schedule-clock",
];
const NODE: &[&str] = &["host", "card"];
const CARD: &[&str] = &["device", "channels", "period", "periods"];
const SOURCE: &[&str] = &["stream", "files", "device", "local", "node", "address"];

const HOST: &str = "an IP address or host name, such as \"10.0.0.11\"";
const DEVICE: &str = "a device, such as \"alsa:hw:0\"";
const FILES: &str = "a list of paths, such as [\"morning.flac\"]";
const LOCAL: &str = "the name of a source in local.toml of the node";
const LATENCY: &str = "a time from 2ms to 2s, such as \"20ms\"";
const KEY_FILE: &str = "a path that every node has, such as \"/etc/tautline/group.key\"";
const EPOCH: &str = "a whole number from 1, one more than before";

impl Site {
    /// Reads the file, or returns all its mistakes in the order of their lines.
    pub fn check(bytes: &[u8]) -> Result<Self, Vec<Mistake>> {
        let document = Document::read(bytes)?;
        let mut checker = Checker::new(&document.table);
        let hash = digest(&SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes");
        let site = checker.site(&document.table, SiteHash(hash));
        document.finish(site, checker.mistakes)
    }
}

/// In place of an invalid address.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Names in the file, collected before its tables are checked. So a mistake in a table does not
/// cause a second mistake at each reference to that table.
struct Names<'a> {
    /// Nodes, with their cards and the cards' channels, unless invalid.
    nodes: BTreeMap<&'a str, BTreeMap<&'a str, Option<Channels>>>,
    zones: BTreeSet<&'a str>,
    groups: BTreeSet<&'a str>,
    sources: BTreeSet<&'a str>,
    priorities: BTreeMap<&'a str, Option<u8>>,
    stations: BTreeSet<&'a str>,
    messages: BTreeSet<&'a str>,
    presets: BTreeSet<&'a str>,
}

fn tables<'a>(
    table: &'a DeTable<'a>,
    key: &str,
) -> impl Iterator<Item = (&'a str, &'a DeValue<'a>)> {
    let inner = table.get(key).and_then(|value| value.get_ref().as_table());
    inner.into_iter().flatten().map(|(name, value)| (name.get_ref().as_ref(), value.get_ref()))
}

impl<'a> Names<'a> {
    fn of(file: &'a DeTable<'a>) -> Self {
        let names = |key| tables(file, key).map(|(name, _)| name).collect();
        let channels = |card: &'a DeValue<'a>| {
            let given = card.get("channels").and_then(|channels| integer(channels.get_ref()));
            let given = given.and_then(|count| Channels::new(count.try_into().ok()?).ok());
            let is_given = card.get("channels").is_some();
            given.or((!is_given).then_some(Channels::STEREO))
        };
        let cards = |node: &'a DeValue<'a>| {
            let cards = node.as_table().into_iter().flat_map(|node| tables(node, "card"));
            cards.map(|(name, card)| (name, channels(card))).collect()
        };
        let priority = |value| integer(value).and_then(|value| value.try_into().ok());
        Self {
            nodes: tables(file, "node").map(|(name, node)| (name, cards(node))).collect(),
            zones: names("zone"),
            groups: names("group"),
            sources: names("source"),
            stations: names("station"),
            messages: names("message"),
            presets: names("preset"),
            priorities: tables(file, "priorities").map(|(name, it)| (name, priority(it))).collect(),
        }
    }
}

struct Checker<'a> {
    names: Names<'a>,
    mistakes: Mistakes,
    multicast: Multicast,
    /// Tables by their number, and the next free number.
    numbers: BTreeMap<u16, String>,
    free: u16,
    /// Zones by node, card and channel.
    channels: BTreeMap<(&'a str, &'a str, u16), String>,
    /// Stations by rank.
    ranks: BTreeMap<u16, String>,
}

impl<'a> Checker<'a> {
    fn new(file: &'a DeTable<'a>) -> Self {
        let given = ["zone", "group"].into_iter().flat_map(|key| tables(file, key));
        let given = given.filter_map(|(_, table)| integer(table.get("number")?.get_ref()));
        let given: BTreeSet<i64> = given.collect();
        let free = (1..=u16::MAX).find(|number| !given.contains(&i64::from(*number)));
        Self {
            names: Names::of(file),
            mistakes: Mistakes::default(),
            multicast: Multicast::default(),
            numbers: BTreeMap::new(),
            free: free.unwrap_or(u16::MAX),
            channels: BTreeMap::new(),
            ranks: BTreeMap::new(),
        }
    }

    /// Parts with mistakes are missing or have other values; the caller then drops the result.
    fn site(&mut self, table: &'a DeTable<'a>, hash: SiteHash) -> Site {
        let file = Section::new("the file".to_owned(), 0, table, FILE, &mut self.mistakes);
        file.require("epoch", "1", &mut self.mistakes);
        let epoch = file.integer("epoch", 1..=i64::MAX, EPOCH, &mut self.mistakes);
        file.require("announcements", "\"239.255.77.1:5004\"", &mut self.mistakes);
        let announcements = self.address(&file, "announcements");
        let rate = self.rate(&file);
        let latency = file.read("latency", LATENCY, &mut self.mistakes, latency);
        let key_file = file.text("srtp-key-file", KEY_FILE, &mut self.mistakes);
        let priorities = self.priorities(&file);
        let nodes = self.nodes(&file);
        let sources = self.sources(&file);
        let zones = self.zones(&file, rate);
        let groups = self.groups(&file);
        let stations = self.stations(&file);
        let messages = self.messages(&file);
        let mut site = Site {
            epoch: epoch.map_or(0, |epoch| epoch.value.unsigned_abs()),
            hash,
            announcements: announcements.unwrap_or(NO_ADDRESS),
            rate: rate.unwrap_or(Rate::HZ_48000),
            latency: latency.map_or(Site::LATENCY, |latency| latency.value),
            srtp_key_file: key_file.map(|path| PathBuf::from(path.value)),
            folder: PathBuf::new(),
            priorities,
            nodes,
            zones,
            groups,
            sources,
            stations,
            messages,
            presets: BTreeMap::new(),
            schedule: BTreeMap::new(),
            timezone: self.timezone(&file),
            any_clock: self.any_clock(&file),
        };
        site.presets = self.presets(&file, &site);
        site.schedule = self.schedule(&file, &site);
        site
    }

    fn priorities(&mut self, file: &Section<'a>) -> BTreeMap<String, u8> {
        const WRITE: &str = "a whole number from 0 to 255";
        let mut read = BTreeMap::new();
        for (name, value) in file.entries("priorities", &mut self.mistakes) {
            match integer(value.value).and_then(|value| u8::try_from(value).ok()) {
                Some(priority) => {
                    read.insert(name.value.to_owned(), priority);
                }
                None => {
                    let (key, value, at) =
                        ("priority".into(), crate::section::shown_value(value.value), value.at);
                    self.mistakes.add(at, MistakeKind::Value { key, value, write: WRITE });
                }
            }
        }
        read
    }

    fn nodes(&mut self, file: &Section<'a>) -> BTreeMap<String, Node> {
        let (mut nodes, mut hosts) = (BTreeMap::new(), BTreeMap::new());
        for (name, node) in file.tables("node", NODE, &mut self.mistakes) {
            node.require("host", "\"10.0.0.11\"", &mut self.mistakes);
            let host = node.read("host", HOST, &mut self.mistakes, host);
            if let Some(At { at, value }) = &host {
                let fix = "write the host of this node, or make both one node with two cards";
                self.once(&mut hosts, "host", At { at: *at, value: value.clone() }, &node, fix);
            }
            let cards = self.cards(&node);
            let host = host.map(|host| host.value).unwrap_or_default();
            nodes.insert(name.to_owned(), Node { host, cards });
        }
        nodes
    }

    fn cards(&mut self, node: &Section<'a>) -> BTreeMap<String, Card> {
        let (mut cards, mut devices) = (BTreeMap::new(), BTreeMap::new());
        for (name, card) in node.tables("card", CARD, &mut self.mistakes) {
            let mistakes = &mut self.mistakes;
            card.require("device", "\"alsa:hw:0\"", mistakes);
            let channels = card.integer("channels", 1..=Channels::MAX.into(), "1 to 64", mistakes);
            let period = card.integer("period", 1..=4096, "1 to 4096 frames", mistakes);
            let periods = card.integer("periods", 2..=64, "2 to 64", mistakes);
            let device = card.parse("device", DEVICE, &mut self.mistakes, str::parse::<DeviceSpec>);
            if let Some(given) = card.text("device", DEVICE, &mut Mistakes::default()) {
                let given = At { at: given.at, value: given.value.to_owned() };
                let fix = "use one card, and its channels for several zones";
                self.once(&mut devices, "device", given, &card, fix);
            }
            let channels =
                channels.and_then(|channels| Channels::new(channels.value.try_into().ok()?).ok());
            let card = Card {
                device: device.unwrap_or(DeviceSpec::null()),
                channels: channels.unwrap_or(Channels::STEREO),
                period: Frames::new(period.map_or(48, |period| period.value)),
                periods: periods.map_or(2, |periods| periods.value.try_into().unwrap_or(2)),
            };
            cards.insert(name.to_owned(), card);
        }
        cards
    }

    /// `None` if it is invalid.
    fn rate(&mut self, file: &Section<'a>) -> Option<Rate> {
        const WRITE: &str = "a rate in hertz, such as 48000";
        if !file.has("rate") {
            return Some(Rate::HZ_48000);
        }
        let given = file.integer("rate", 0..=i64::from(u32::MAX), WRITE, &mut self.mistakes)?;
        let rate = Rate::new(u32::try_from(given.value).unwrap_or_default());
        let mut reject = |why: String| {
            self.mistakes.add(given.at, MistakeKind::Rejected { key: "rate", why });
        };
        rate.map_err(|error| reject(error.to_string())).ok()
    }

    fn sources(&mut self, file: &Section<'a>) -> BTreeMap<String, Source> {
        let mut sources = BTreeMap::new();
        for (name, source) in file.tables("source", SOURCE, &mut self.mistakes) {
            const KINDS: [&str; 4] = ["stream", "files", "device", "local"];
            self.exactly_one(&source, &KINDS, "stream, files, device and local");
            if source.has("stream") {
                for key in ["node", "address"].into_iter().filter(|key| source.has(key)) {
                    let kind = MistakeKind::NotApplicable { key, what: "a stream" };
                    self.mistakes.add(source.at, kind);
                }
            } else if KINDS.iter().any(|key| source.has(key)) {
                for (key, example) in [("node", "\"NODE\""), ("address", "\"239.255.78.1:5004\"")] {
                    source.require(key, example, &mut self.mistakes);
                }
            }
            let mistakes = &mut self.mistakes;
            let stream = source.parse(
                "stream",
                "an address, such as \"rtp://239.1.2.3:5004\"",
                mistakes,
                Address::to_hear,
            );
            let files = source.list("files", FILES, mistakes).unwrap_or_default();
            let device = source.parse("device", DEVICE, mistakes, str::parse::<DeviceSpec>);
            let files = files.into_iter().map(|file| PathBuf::from(file.value)).collect();
            let local = source.text("local", LOCAL, mistakes);
            let node = self.node(&source).unwrap_or_default();
            let address = self.address(&source, "address").unwrap_or(NO_ADDRESS);
            let input = match (device, local) {
                (Some(device), _) => SourceInput::Device(device),
                (None, Some(name)) => SourceInput::Local(name.value.to_owned()),
                (None, None) => SourceInput::Files(files),
            };
            let source = match stream {
                Some(stream) => Source::Stream(Box::new(stream)),
                None => Source::Own { input, node, address },
            };
            sources.insert(name.to_owned(), source);
        }
        sources
    }

    /// The key `node`, if the file has this node.
    fn node(&mut self, section: &Section<'a>) -> Option<String> {
        let node = section.text("node", "the name of a node", &mut self.mistakes)?;
        let known = self.names.nodes.contains_key(node.value);
        self.known("node", node, known, |names| names.nodes.keys().copied().collect());
        known.then(|| node.value.to_owned())
    }

    /// Reports a name that no table has.
    fn known(
        &mut self,
        kind: &str,
        name: At<&str>,
        is_known: bool,
        all: impl FnOnce(&Names<'a>) -> Vec<&'a str>,
    ) {
        if is_known || self.mistakes.is_full() {
            return;
        }
        let near = near(name.value, all(&self.names).into_iter());
        let (kind, text) = (kind.to_owned(), name.value.to_owned());
        self.mistakes.add(name.at, MistakeKind::Unknown { kind, name: text, near });
    }

    /// Reports a value that another table has.
    fn once<T: Ord + ToString>(
        &mut self,
        taken: &mut BTreeMap<T, String>,
        key: &'static str,
        given: At<T>,
        section: &Section<'a>,
        fix: &'static str,
    ) {
        match taken.get(&given.value) {
            Some(other) => {
                let (value, other) = (given.value.to_string(), other.clone());
                self.mistakes.add(given.at, MistakeKind::Taken { key, value, other, fix });
            }
            None => {
                taken.insert(given.value, section.title.clone());
            }
        }
    }

    fn exactly_one(&mut self, section: &Section<'a>, keys: &[&str], listed: &'static str) {
        let found = keys.iter().filter(|key| section.has(key)).count();
        // A refused `exec` counts as one of the keys.
        if found != 1 && !section.has("exec") {
            let table = section.title.clone();
            self.mistakes.add(section.at, MistakeKind::ExactlyOne { table, keys: listed, found });
        }
    }
}

fn latency(text: &str) -> Option<Span> {
    let span = parse_span(text).ok()?;
    (Span::from_millis(2)..=Span::from_secs(2)).contains(&span).then_some(span)
}

fn host(text: &str) -> Option<String> {
    let is_name = |text: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        text.len() <= 253 && text.chars().all(letter) && !text.starts_with(['-', '.'])
    };
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    (is_address || is_name(text)).then(|| text.to_owned())
}
