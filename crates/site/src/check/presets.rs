//! Presets.

use std::collections::BTreeMap;

use tautline_api::v1::ZoneChange;
use tautline_dsp::gain::Gain;

use super::Checker;
use super::zones::VOLUME;
use crate::Site;
use crate::mistake::MistakeKind;
use crate::section::{At, Section};
use crate::settings::VolumeLimits;

const CHANGE: &[&str] = &["source", "volume", "page-volume", "mute"];

impl<'a> Checker<'a> {
    /// Presets, with a change for each zone. A later entry of the file changes a zone again.
    pub(super) fn presets(
        &mut self,
        file: &Section<'a>,
        site: &Site,
    ) -> BTreeMap<String, Vec<ZoneChange>> {
        let mut presets = BTreeMap::new();
        let known: Vec<&str> = self.names.zones.union(&self.names.groups).copied().collect();
        for (name, preset) in file.tables("preset", &known, &mut self.mistakes) {
            let mut changes: BTreeMap<&str, ZoneChange> = BTreeMap::new();
            let mut volumes = BTreeMap::new();
            for (target, entry) in preset.inner(&known, CHANGE, &mut self.mistakes) {
                let change = self.change(&entry);
                for zone in site.zones_of([target]) {
                    let given = (0..).zip(&change.1).filter_map(|(kind, it)| Some((kind, (*it)?)));
                    volumes.extend(given.map(|(kind, volume)| ((zone, kind), volume)));
                    let of_zone = ZoneChange { zone: zone.to_owned(), ..change.0.clone() };
                    changes.entry(zone).or_default().merge(&of_zone);
                }
            }
            for ((name, kind), volume) in volumes {
                let limits =
                    site.zones.get(name).map(|zone| [zone.limits(), zone.page_limits()][kind]);
                self.within_limits(name, limits, volume);
            }
            presets.insert(name.to_owned(), changes.into_values().collect());
        }
        presets
    }

    /// Reads the change of a zone, with its volumes of the program and of announcements.
    fn change(&mut self, entry: &Section<'a>) -> (ZoneChange, [Option<At<Gain>>; 2]) {
        let parse = |text: &str| text.parse::<Gain>().ok();
        let volumes =
            ["volume", "page-volume"].map(|key| entry.read(key, VOLUME, &mut self.mistakes, parse));
        let muted = entry.boolean("mute", &mut self.mistakes);
        let source = self.source(entry);
        let [volume, page_volume] = volumes.map(|it| it.map(|volume| volume.value.to_string()));
        let change = ZoneChange { volume, page_volume, muted, source, ..ZoneChange::default() };
        (change, volumes)
    }

    fn within_limits(&mut self, name: &str, limits: Option<VolumeLimits>, volume: At<Gain>) {
        let Some(limits) = limits.filter(|limits| !limits.contain(volume.value)) else { return };
        let [text, min, max] = [volume.value, limits.min, limits.max].map(|it| it.to_string());
        let zone = format!("zone '{name}'");
        let kind = MistakeKind::VolumeOutsideLimits { zone, volume: text, min, max };
        self.mistakes.add(volume.at, kind);
    }
}
