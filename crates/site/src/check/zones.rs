//! Zones and their numbers.

use std::collections::BTreeMap;

use tautline_dsp::gain::Gain;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

use super::Checker;
use crate::Zone;
use crate::mistake::MistakeKind;
use crate::section::{At, Section};
use crate::settings::{DELAY, ceiling, delay};

const ZONE: &[&str] = &[
    "number",
    "node",
    "card",
    "channels",
    "map",
    "volume",
    "min-volume",
    "max-volume",
    "page-volume",
    "emergency-volume",
    "mute",
    "delay",
    "equalizer",
    "limiter",
    "source",
];

const NUMBER: &str = "a whole number from 1 to 65535";
pub(super) const VOLUME: &str = "a level from -144dB to 40dB, such as \"-6dB\", or \"-inf\"";
const LIMITER: &str = "a level from -144dB to 0dB, such as \"-3dB\"";
const CHANNELS: &str = "a list of channels, counted from 1, such as [1, 2]";

impl<'a> Checker<'a> {
    pub(super) fn zones(
        &mut self,
        file: &Section<'a>,
        rate: Option<Rate>,
    ) -> BTreeMap<String, Zone> {
        let mut zones = BTreeMap::new();
        for (name, zone) in file.tables("zone", ZONE, &mut self.mistakes) {
            let number = self.number(&zone);
            for (key, example) in
                [("node", "\"NODE\""), ("card", "\"CARD\""), ("channels", "[1, 2]")]
            {
                zone.require(key, example, &mut self.mistakes);
            }
            let node = self.node(&zone);
            let (card, channels) = self.place(&zone, node.as_deref());
            let mono = self.is_mono(&zone, channels.len());
            let [volume, min_volume, max_volume] = self.volumes(&zone);
            let parse = |text: &str| text.parse::<Gain>().ok();
            let [page, emergency] = ["page-volume", "emergency-volume"]
                .map(|key| zone.read(key, VOLUME, &mut self.mistakes, parse));
            let usual = if max_volume.factor() < 1.0 { max_volume } else { Gain::UNITY };
            let limits_emergencies = emergency.is_none() && max_volume.factor() < 1.0;
            let emergency_volume = emergency.map_or(usual, |it| it.value);
            let mute = zone.boolean("mute", &mut self.mistakes).unwrap_or(false);
            let delay = zone.read("delay", DELAY, &mut self.mistakes, delay);
            let equalizer = self.equalizer(&zone, rate);
            let limiter = zone.read("limiter", LIMITER, &mut self.mistakes, ceiling);
            let source = self.source(&zone);
            let zone = Zone {
                number,
                node: node.unwrap_or_default(),
                card,
                channels,
                mono,
                volume,
                min_volume,
                max_volume,
                page_volume: page.map_or(usual, |it| it.value),
                emergency_volume,
                limits_emergencies,
                mute,
                delay: delay.map_or(Span::ZERO, |delay| delay.value),
                equalizer,
                limiter: limiter.map(|ceiling| ceiling.value),
                source,
            };
            zones.insert(name.to_owned(), zone);
        }
        zones
    }

    /// The number of a zone or group.
    pub(super) fn number(&mut self, section: &Section<'a>) -> u16 {
        section.require("number", self.free.to_string(), &mut self.mistakes);
        let range = 1..=u16::MAX.into();
        let Some(given) = section.integer("number", range, NUMBER, &mut self.mistakes) else {
            return 0;
        };
        let number = u16::try_from(given.value).unwrap_or_default();
        match self.numbers.get(&number) {
            Some(other) => {
                let (other, free) = (other.clone(), self.free);
                self.mistakes.add(given.at, MistakeKind::NumberTaken { number, other, free });
            }
            None => {
                self.numbers.insert(number, section.title.clone());
            }
        }
        number
    }

    /// Card and channels.
    fn place(&mut self, zone: &Section<'a>, node: Option<&str>) -> (String, Vec<u16>) {
        let range = 1..=Channels::MAX.into();
        let channels = zone.integers("channels", range, CHANNELS, &mut self.mistakes);
        let channels: Vec<At<u16>> = channels
            .into_iter()
            .flatten()
            .map(|At { at, value }| At { at, value: value.try_into().unwrap_or_default() })
            .collect();
        let numbers = channels.iter().map(|channel| channel.value).collect();
        let Some(card) = zone.text("card", "the name of a card", &mut self.mistakes) else {
            return (String::new(), numbers);
        };
        let found = node.and_then(|node| self.names.nodes.get_key_value(node));
        let Some((&node, cards)) = found else { return (card.value.to_owned(), numbers) };
        let Some(&available) = cards.get(card.value) else {
            self.known("card", card, false, |names| names.nodes[node].keys().copied().collect());
            return (card.value.to_owned(), numbers);
        };
        for At { at, value: channel } in channels {
            let place = (node, card.value, channel);
            let shown = card.value.to_owned();
            let beyond = available.filter(|it| usize::from(channel) > it.count());
            if let Some(channels) = beyond {
                let kind = MistakeKind::ChannelBeyondCard { channel, channels, card: shown };
                self.mistakes.add(at, kind);
            } else if let Some(other) = self.channels.insert(place, zone.title.clone()) {
                self.mistakes.add(at, MistakeKind::ChannelTaken { channel, card: shown, other });
            }
        }
        (card.value.to_owned(), numbers)
    }

    fn is_mono(&mut self, zone: &Section<'a>, channels: usize) -> bool {
        let write =
            if channels == 1 { "\"mono\", for one channel" } else { "\"stereo\" or \"mono\"" };
        let map = zone.read("map", write, &mut self.mistakes, |text| match text {
            "mono" => Some(true),
            "stereo" if channels != 1 => Some(false),
            _ => None,
        });
        map.map_or(channels == 1, |map| map.value)
    }

    /// Volume, minimum, maximum.
    fn volumes(&mut self, zone: &Section<'a>) -> [Gain; 3] {
        let mut read = |key| {
            let parse = |text: &str| text.parse::<Gain>().ok();
            zone.read(key, VOLUME, &mut self.mistakes, parse)
        };
        let [given, min_given, max_given] = ["volume", "min-volume", "max-volume"].map(&mut read);
        let min = min_given.map_or(Gain::SILENCE, |min| min.value);
        let max = max_given.map_or(Gain::UNITY, |max| max.value);
        let is_above = |one: Gain, other: Gain| one.factor() > other.factor();
        if is_above(min, max) {
            let at = min_given.or(max_given).map_or(zone.at, |given| given.at);
            let [min, max] = [min, max].map(|gain| gain.to_string());
            self.mistakes.add(at, MistakeKind::LimitsReversed { min, max });
            return [Gain::UNITY; 3];
        }
        let usual = if is_above(Gain::UNITY, max) { max } else { Gain::UNITY };
        let usual = if is_above(min, usual) { min } else { usual };
        let volume = given.map_or(usual, |given| given.value);
        if let Some(At { at, .. }) =
            given.filter(|_| is_above(min, volume) || is_above(volume, max))
        {
            let [volume, min, max] = [volume, min, max].map(|gain| gain.to_string());
            let zone = zone.title.clone();
            self.mistakes.add(at, MistakeKind::VolumeOutsideLimits { zone, volume, min, max });
        }
        [volume, min, max]
    }

    pub(super) fn source(&mut self, zone: &Section<'a>) -> Option<String> {
        let given = zone.text("source", "the name of a source", &mut self.mistakes)?;
        let known = self.names.sources.contains(given.value);
        self.known("source", given, known, |names| names.sources.iter().copied().collect());
        Some(given.value.to_owned())
    }
}
