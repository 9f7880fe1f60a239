//! Changes to zones that outlive the node.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tautline_api::v1::ZoneChange;

use crate::{DEFAULT_SETTING, Site, disk};

#[derive(Debug, Default)]
pub(super) struct SavedZones(BTreeMap<String, ZoneChange>);

impl SavedZones {
    /// Reads the file. A missing file has no changes; an unreadable file has none either, and
    /// causes a message.
    pub(super) fn read(path: &Path) -> (Self, Option<String>) {
        match disk::read_json::<Vec<_>>(path) {
            Ok(changes) => (Self(changes.into_iter().map(named).collect()), None),
            Err(error) => {
                let why = format!(
                    "reading {}: {error}; the zones begin with the values of the building file",
                    path.display()
                );
                (Self::default(), Some(why))
            }
        }
    }

    pub(super) fn all(&self) -> Vec<&ZoneChange> {
        self.0.values().collect()
    }

    pub(super) fn of(&self, zone: &str) -> ZoneChange {
        self.0.get(zone).cloned().unwrap_or_default()
    }

    pub(super) fn merge(&mut self, change: &ZoneChange) {
        self.0.entry(change.zone.clone()).or_default().merge(change);
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        disk::write_json(path, &self.all())
    }

    /// Drops values that the building file does not permit, and those that are its own.
    pub(super) fn fit(&mut self, site: &Site) {
        self.0.retain(|name, change| {
            let Some(zone) = site.zones.get(name) else { return false };
            for (volume, limits) in
                [(&mut change.volume, zone.limits()), (&mut change.page_volume, zone.page_limits())]
            {
                let permits = |it: &mut String| it.parse().is_ok_and(|it| limits.contain(it));
                *volume = volume.take_if(permits);
            }
            let ZoneChange { delay, equalizer, limiter, .. } = &mut *change;
            for value in [delay, equalizer, limiter] {
                value.take_if(|it| it == DEFAULT_SETTING);
            }
            change.source = change.source.take().filter(|it| site.sources.contains_key(it));
            true
        });
    }
}

fn named(change: ZoneChange) -> (String, ZoneChange) {
    (change.zone.clone(), change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_zone_are_merged_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node/zones.json");
        let (mut saved, why) = SavedZones::read(&path);
        assert_eq!(why, None);
        let zone = || ZoneChange { zone: "hall".to_owned(), ..ZoneChange::default() };
        saved.merge(&ZoneChange { volume: Some("-6dB".into()), ..zone() });
        saved.merge(&ZoneChange { muted: Some(true), ..zone() });
        saved.write(&path).unwrap();
        let (read, _) = SavedZones::read(&path);
        let both = ZoneChange { volume: Some("-6dB".into()), muted: Some(true), ..zone() };
        assert_eq!(read.of("hall"), both);
        assert_eq!(read.of("gym"), ZoneChange::default());
        std::fs::write(&path, "[{").unwrap();
        assert!(SavedZones::read(&path).1.is_some());
    }
}
