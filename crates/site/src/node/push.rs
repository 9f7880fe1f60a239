//! A newer building file from another machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use tautline_api::v1::{FaultKind, PushRefused, SitePush, SitePushed};
use tautline_proto::text::on_one_line;

use super::{BuildingNode, NANOS, Role, Standing};
use crate::files::{is_copied, is_private, sha256};
use crate::{Place, Site, Source, disk, unix_nanos};

/// Files that were missing in the last push, by their SHA-256.
pub(super) type Awaited = BTreeSet<String>;

/// Folder for files that were missing in a push, next to the building file.
const STAGED: &str = ".taut-push";

impl BuildingNode {
    pub(super) fn take_push(&self, push: SitePush) -> Result<SitePushed, PushRefused> {
        // One push after the other.
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = self.standing().pushed.clone();
        let (old, place) = pending.unwrap_or_else(|| self.building());
        let new = checked(&push.text, &place.name)?;
        let is_same = new.0.hash == old.hash;
        if new.0.epoch < old.epoch {
            return Err(PushRefused::LowerEpoch { has: old.epoch, given: new.0.epoch });
        }
        if new.0.epoch == old.epoch && !is_same {
            let refused = PushRefused::OtherFile { epoch: old.epoch };
            self.add_fault(FaultKind::Epoch, "", refused.to_string());
            return Err(refused);
        }
        let path = &self.config.path;
        let folder = path.parent().unwrap_or(Path::new(""));
        *awaited = lacking(folder, &new.0, &push.files)?;
        let staged = |hash: &str| folder.join(STAGED).join(hash);
        awaited.retain(|hash| !staged(hash).exists());
        if !awaited.is_empty() {
            let missing = awaited.iter().cloned().collect();
            return Ok(SitePushed { epoch: old.epoch, missing });
        }
        for (file, hash) in &push.files {
            // Two paths can have the same bytes.
            if let Ok(bytes) = std::fs::read(staged(hash)) {
                let to = folder.join(file);
                let replace = if is_private(&to) { disk::replace_private } else { disk::replace };
                replace(&to, &bytes).map_err(|error| storage(&to, &error))?;
            }
        }
        // Files that are still there belong to pushes that were given up.
        let _ = std::fs::remove_dir_all(folder.join(STAGED));
        let epoch = new.0.epoch;
        if !is_same {
            let stored = disk::replace(path, push.text.as_bytes());
            stored.map_err(|error| storage(path, &error))?;
            (self.config.notify)(&format!("new building file: epoch {epoch}"));
        }
        // Also for an unchanged file: a calendar may be new, and on the operator's machine the file
        // changes before the push.
        self.standing().pushed = Some(new);
        Ok(SitePushed { epoch, missing: Vec::new() })
    }

    pub(super) fn take_file(&self, hash: &str, bytes: &[u8]) -> Result<(), PushRefused> {
        let awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        if !awaited.contains(hash) {
            return Err(PushRefused::Unrequested(hash.chars().take(64).collect()));
        }
        if sha256(bytes) != hash {
            return Err(PushRefused::Hash(hash.to_owned()));
        }
        let folder = self.config.path.parent().unwrap_or(Path::new(""));
        let path = folder.join(STAGED).join(hash);
        disk::replace_private(&path, bytes).map_err(|error| storage(&path, &error))
    }

    /// Uses a pushed building file: restarts the processes whose part changed. Returns new
    /// processes for [`Self::keep`].
    pub fn update(&self) -> Vec<Role> {
        let Some((site, place)) = self.standing().pushed.take() else { return Vec::new() };
        let before = self.parts();
        *self.building.lock().unwrap_or_else(PoisonError::into_inner) = (site, place);
        let (site, place) = self.building();
        let player = self.new_player(&site);
        *self.player.lock().unwrap_or_else(PoisonError::into_inner) = player;
        let now = self.parts();
        let mut standing = self.standing();
        standing.saved.fit(&site);
        let own: BTreeMap<_, _> =
            site.zones.iter().filter(|(_, zone)| zone.node == place.name).collect();
        standing.zones.retain(|name, _| own.contains_key(name));
        standing.sources.retain(|name, _| now.contains_key(&Role::Source(name.clone())));
        for (name, zone) in own {
            let first = zone.changed(&site, &standing.saved.of(name)).first_state(name);
            standing.zones.entry(name.clone()).or_insert(first);
        }
        let Standing { zones, sources, faults, .. } = &mut *standing;
        faults.end_others(unix_nanos() / NANOS, |fault| match fault.kind {
            FaultKind::Card | FaultKind::Silent => zones.contains_key(&fault.name),
            FaultKind::Source => sources.contains_key(&fault.name),
            FaultKind::Schedule => site.schedule.contains_key(&fault.name),
            _ => true,
        });
        for (role, child) in &mut standing.children {
            if now.get(role) != before.get(role) {
                child.end();
            }
        }
        now.into_keys().filter(|role| standing.kept.insert(role.clone())).collect()
    }

    fn parts(&self) -> BTreeMap<Role, String> {
        self.roles().into_iter().map(|role| (role.clone(), self.part(&role))).collect()
    }

    /// Values of the building file that a process uses, in text for comparison.
    pub(super) fn part(&self, role: &Role) -> String {
        let (site, place) = self.building();
        let key = site.srtp_key_file.as_ref().map(|file| {
            let folder = self.config.path.parent().unwrap_or(Path::new(""));
            std::fs::read(folder.join(file)).ok().map(|key| sha256(&key))
        });
        let common = (site.announcements, site.rate, site.latency, &site.srtp_key_file, key);
        let common = format!("{common:?} {place:?}");
        match role {
            Role::Card(card) => {
                let device = site.nodes.get(&place.name).map(|node| node.cards.get(card));
                let zones = site.zones.iter();
                let zones = zones.filter(|(_, zone)| zone.node == place.name && zone.card == *card);
                let claims = |name: &str| (site.numbers_of(name), site.muted_by(name));
                let zones: Vec<_> = zones.map(|(name, zone)| (name, zone, claims(name))).collect();
                // A zone can change to any source.
                let sources: BTreeMap<_, _> =
                    site.sources.iter().map(|(name, source)| (name, received(source))).collect();
                format!("{common} {device:?} {zones:?} {sources:?}")
            }
            Role::Source(source) => format!("{common} {:?}", site.sources.get(source)),
        }
    }
}

/// The part of a source that receivers depend on.
fn received(source: &Source) -> String {
    match source {
        Source::Stream(address) => format!("{address:?}"),
        Source::Own { address, .. } => address.to_string(),
    }
}

fn checked(text: &str, node: &str) -> Result<(Arc<Site>, Place), PushRefused> {
    let site = Site::check(text.as_bytes()).map_err(|mistakes| {
        let first = mistakes.first().map(|it| format!("line {}: {}", it.line, on_one_line(it)));
        PushRefused::Invalid(format!(
            "the building file has mistakes: {}, {}",
            mistakes.len(),
            first.unwrap_or_default()
        ))
    })?;
    let place = site.place(Some(node)).map_err(|why| PushRefused::Invalid(on_one_line(&why)))?;
    Ok((Arc::new(site), place))
}

/// Files of the push that the folder lacks, by their hash.
fn lacking(
    folder: &Path,
    site: &Site,
    files: &BTreeMap<String, String>,
) -> Result<Awaited, PushRefused> {
    let named: BTreeSet<&Path> = site.files().collect();
    let mut lacking = Awaited::new();
    for (file, hash) in files {
        let path = PathBuf::from(file);
        let is_hash = hash.len() == 64 && hash.bytes().all(|it| it.is_ascii_hexdigit());
        if !named.contains(path.as_path()) || !is_copied(&path) || !is_hash {
            return Err(PushRefused::Path(file.chars().take(200).collect()));
        }
        let has = std::fs::read(folder.join(path)).is_ok_and(|bytes| sha256(&bytes) == *hash);
        if !has {
            lacking.insert(hash.clone());
        }
    }
    Ok(lacking)
}

fn storage(path: &Path, error: &std::io::Error) -> PushRefused {
    PushRefused::Storage { path: path.display().to_string(), error: error.to_string() }
}
