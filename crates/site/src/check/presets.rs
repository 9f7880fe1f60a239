//! Presets.

use std::collections::BTreeMap;

use tautline_api::v1::ZoneChange;
use tautline_dsp::gain::Gain;

use super::Checker;
use super::zones::VOLUME;
use crate::Site;
use crate::mistake::MistakeKind;
use crate::section::{At, Section};

const CHANGE: &[&str] = &["source", "volume", "mute"];

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
            let mut volumes: BTreeMap<&str, At<Gain>> = BTreeMap::new();
            for (target, entry) in preset.inner(&known, CHANGE, &mut self.mistakes) {
                let change = self.change(&entry);
                for zone in site.zones_of([target]) {
                    volumes.extend(change.1.map(|volume| (zone, volume)));
                    let of_zone = ZoneChange { zone: zone.to_owned(), ..change.0.clone() };
                    changes.entry(zone).or_default().merge(&of_zone);
                }
            }
            for (zone, volume) in volumes {
                self.within_limits(zone, site, volume);
            }
            presets.insert(name.to_owned(), changes.into_values().collect());
        }
        presets
    }

    fn change(&mut self, entry: &Section<'a>) -> (ZoneChange, Option<At<Gain>>) {
        let parse = |text: &str| text.parse::<Gain>().ok();
        let volume = entry.read("volume", VOLUME, &mut self.mistakes, parse);
        let muted = entry.boolean("mute", &mut self.mistakes);
        let source = self.source(entry);
        let text = volume.as_ref().map(|volume| volume.value.to_string());
        (ZoneChange { volume: text, muted, source, ..ZoneChange::default() }, volume)
    }

    fn within_limits(&mut self, name: &str, site: &Site, volume: At<Gain>) {
        let Some(zone) = site.zones.get(name) else { return };
        let (at, min, max) = (volume.at, zone.min_volume, zone.max_volume);
        if !(min.factor()..=max.factor()).contains(&volume.value.factor()) {
            let [volume_text, min, max] = [volume.value, min, max].map(|gain| gain.to_string());
            let (zone, volume) = (format!("zone '{name}'"), volume_text);
            let kind = MistakeKind::VolumeOutsideLimits { zone, volume, min, max };
            self.mistakes.add(at, kind);
        }
    }
}
