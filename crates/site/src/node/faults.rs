//! Faults of a node, which stay until a user acknowledges them.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use tautline_api::v1::{Acknowledged, FaultKind, FaultState, FaultsAck, ZonePlayback, ZoneState};
use tautline_proto::text::on_one_line;
use tautline_proto::time::Span;

use crate::disk;

/// A zone that is silent for this long has a fault. Restarts of a source are shorter.
const SILENT_SECONDS: u64 = 5;
/// The same for a zone that has not played yet: the machines of a building start one after the
/// other.
const START_SECONDS: u64 = 60;

/// At most one fault per kind and name, so their number has a bound.
#[derive(Debug, Default)]
pub(super) struct NodeFaults {
    faults: Vec<FaultState>,
    /// Whether the file is older.
    is_new: bool,
    /// Begins and ends for the log of the node.
    log: Vec<String>,
    /// Zones that have played.
    played: BTreeSet<String>,
}

impl NodeFaults {
    /// Reads the file. The faults in it count as ended until they are set again. An unreadable file
    /// counts as a file without faults, with a message.
    pub(super) fn read(path: &Path) -> (Self, Option<String>) {
        let read = disk::read_json::<Vec<FaultState>>(path);
        let why = read.as_ref().err().map(|error| {
            format!("reading {}: {error}; earlier faults are forgotten", path.display())
        });
        let mut faults = read.unwrap_or_default();
        faults.iter_mut().for_each(|fault| fault.lasts = false);
        (Self { faults, ..Self::default() }, why)
    }

    /// Writes the file if faults changed.
    pub(super) fn write(&mut self, path: &Path) -> io::Result<()> {
        if self.is_new {
            disk::write_json(path, &self.faults)?;
            self.is_new = false;
        }
        Ok(())
    }

    pub(super) fn all(&self) -> &[FaultState] {
        &self.faults
    }

    /// Lines for the log since the last call.
    pub(super) fn take_log(&mut self) -> Vec<String> {
        core::mem::take(&mut self.log)
    }

    /// Enters a fault that is over, from when to when: a user sees it until the acknowledgement.
    pub(super) fn happened(
        &mut self,
        kind: FaultKind,
        name: &str,
        reason: String,
        [from, to]: [i64; 2],
    ) {
        self.set(kind, name, Some(reason), from);
        if let Some(fault) = self.faults.iter_mut().find(|it| it.kind == kind && it.name == name) {
            (fault.last_s, fault.lasts, self.is_new) = (to, false, true);
        }
    }

    /// Enters a fault with its reason, or ends it, at `now` in Unix seconds.
    pub(super) fn set(&mut self, kind: FaultKind, name: &str, reason: Option<String>, now: i64) {
        let known = self.faults.iter_mut().find(|it| it.kind == kind && it.name == name);
        let Some(reason) = reason else {
            return self.end_others(now, |it| !(it.kind == kind && it.name == name));
        };
        let Some(known) = known else {
            let (name, first_s, last_s, times) = (name.to_owned(), now, now, 1);
            let fault = FaultState { kind, name, reason, first_s, last_s, lasts: true, times };
            self.log.push(begun(&fault));
            self.faults.push(fault);
            self.is_new = true;
            return;
        };
        let begins = !known.lasts;
        let is_new = begins || known.reason != reason;
        if begins {
            (known.first_s, known.times) = (now, known.times.saturating_add(1));
        }
        (known.reason, known.last_s, known.lasts) = (reason, now, true);
        if is_new {
            self.log.push(begun(known));
            self.is_new = true;
        }
    }

    /// Enters or ends the faults that the state of a zone shows.
    pub(super) fn set_zone(&mut self, state: &ZoneState, now: i64) {
        let failed = state.state == ZonePlayback::Failed;
        let reason = failed.then(|| state.fault.clone().unwrap_or_default());
        self.set(FaultKind::Card, &state.zone, reason, now);
        if state.state == ZonePlayback::Playing && !self.played.contains(&state.zone) {
            self.played.insert(state.zone.clone());
        }
        let waits = state.state == ZonePlayback::Waiting;
        let silent = waits || state.state == ZonePlayback::Silent;
        let has_played = self.played.contains(&state.zone);
        if !silent || state.seconds >= if has_played { SILENT_SECONDS } else { START_SECONDS } {
            let source = state.source.as_deref().unwrap_or_default();
            let plays_on = if waits { "; the earlier source plays on" } else { "" };
            let reason = silent.then(|| format!("no packets from source {source}{plays_on}"));
            self.set(FaultKind::Silent, &state.zone, reason, now);
        }
    }

    /// Ends other faults, such as those of parts that a newer building file lacks.
    pub(super) fn end_others(&mut self, now: i64, has: impl Fn(&FaultState) -> bool) {
        for fault in self.faults.iter_mut().filter(|it| it.lasts && !has(it)) {
            let lasted = Span::from_secs((now - fault.first_s).max(0));
            self.log.push(format!("fault ended: {fault}, after {lasted}"));
            (fault.last_s, fault.lasts, self.is_new) = (now, false, true);
        }
    }

    /// Clears the requested faults that ended.
    pub(super) fn acknowledge(&mut self, request: &FaultsAck) -> Acknowledged {
        let is_requested = |fault: &FaultState| match &request.zones {
            None => true,
            Some(zones) => fault.zone().is_some_and(|zone| zones.iter().any(|it| it == zone)),
        };
        let cleared: Vec<_> =
            self.faults.extract_if(.., |it| !it.lasts && is_requested(it)).collect();
        self.is_new |= !cleared.is_empty();
        let lasting = self.faults.iter().filter(|it| is_requested(it)).cloned().collect();
        Acknowledged { cleared, lasting }
    }
}

fn begun(fault: &FaultState) -> String {
    on_one_line(format!("fault: {fault}: {}", fault.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hall(state: ZonePlayback, seconds: u64) -> ZoneState {
        let source = Some("radio".to_owned());
        ZoneState { zone: "hall".into(), state, seconds, source, ..ZoneState::default() }
    }

    fn shown(faults: &NodeFaults) -> Vec<(FaultKind, i64, i64, bool)> {
        faults.all().iter().map(|it| (it.kind, it.first_s, it.last_s, it.lasts)).collect()
    }

    #[test]
    fn fault_stays_after_its_end_until_acknowledged() {
        let mut faults = NodeFaults::default();
        let why = || Some("no card".to_owned());
        faults.set(FaultKind::Card, "hall", why(), 10);
        faults.set(FaultKind::Card, "hall", why(), 11);
        assert_eq!(faults.acknowledge(&FaultsAck::default()).cleared, []);
        faults.set(FaultKind::Card, "hall", None, 12);
        faults.set(FaultKind::Card, "hall", None, 13);
        assert_eq!(shown(&faults), [(FaultKind::Card, 10, 12, false)]);
        // It begins again.
        faults.set(FaultKind::Card, "hall", why(), 20);
        assert_eq!(shown(&faults), [(FaultKind::Card, 20, 20, true)]);
        assert_eq!(faults.all()[0].times, 2);
        faults.set(FaultKind::Card, "hall", None, 21);
        assert_eq!(faults.acknowledge(&FaultsAck::default()).cleared.len(), 1);
        assert_eq!(shown(&faults), []);
    }

    #[test]
    fn begins_ends_and_reasons_are_logged_once() {
        let mut faults = NodeFaults::default();
        let mut logged = |reason: Option<&str>, now| {
            faults.set(FaultKind::Source, "music", reason.map(str::to_owned), now);
            faults.take_log()
        };
        assert_eq!(logged(None, 1), [""; 0]);
        assert_eq!(logged(Some("no a.wav"), 10), ["fault: source music: no a.wav"]);
        assert_eq!(logged(Some("no a.wav"), 11), [""; 0]);
        assert_eq!(logged(Some("no b.wav"), 12), ["fault: source music: no b.wav"]);
        assert_eq!(logged(None, 40), ["fault ended: source music, after 30s"]);
        assert_eq!(logged(None, 41), [""; 0]);
        faults.happened(FaultKind::Outage, "", "off".to_owned(), [50, 60]);
        assert_eq!(faults.take_log(), ["fault: outage: off"]);
        assert_eq!(shown(&faults)[1], (FaultKind::Outage, 50, 60, false));
    }

    #[test]
    fn acknowledgement_clears_only_ended_faults_of_its_zones() {
        let mut faults = NodeFaults::default();
        for (kind, name, lasts) in [
            (FaultKind::Card, "hall", false),
            (FaultKind::Silent, "hall", true),
            (FaultKind::Card, "bar", false),
            (FaultKind::Source, "hall", false),
        ] {
            faults.set(kind, name, Some(String::new()), 1);
            if !lasts {
                faults.set(kind, name, None, 2);
            }
        }
        let done = faults.acknowledge(&FaultsAck { zones: Some(vec!["hall".into()]) });
        let kinds = |faults: &[FaultState]| faults.iter().map(|it| it.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&done.cleared), [FaultKind::Card]);
        assert_eq!(kinds(&done.lasting), [FaultKind::Silent]);
        let stay = [FaultKind::Silent, FaultKind::Card, FaultKind::Source];
        assert_eq!(kinds(faults.all()), stay);
    }

    #[test]
    fn short_silence_is_no_fault() {
        let mut faults = NodeFaults::default();
        faults.set_zone(&hall(ZonePlayback::Playing, 9), 9);
        faults.set_zone(&hall(ZonePlayback::Silent, SILENT_SECONDS - 1), 10);
        assert_eq!(shown(&faults), []);
        faults.set_zone(&hall(ZonePlayback::Silent, SILENT_SECONDS), 11);
        assert_eq!(shown(&faults), [(FaultKind::Silent, 11, 11, true)]);
        // Silence after another fault does not end the fault before its time.
        faults.set_zone(&hall(ZonePlayback::Silent, 0), 12);
        assert!(faults.all()[0].lasts);
        faults.set_zone(&hall(ZonePlayback::Playing, 0), 13);
        assert_eq!(shown(&faults), [(FaultKind::Silent, 11, 13, false)]);
    }

    #[test]
    fn fault_of_a_card_ends_when_its_zone_plays() {
        let mut faults = NodeFaults::default();
        faults.set_zone(&hall(ZonePlayback::Failed, 0), 5);
        assert_eq!(shown(&faults), [(FaultKind::Card, 5, 5, true)]);
        faults.set_zone(&hall(ZonePlayback::Playing, 0), 6);
        assert_eq!(shown(&faults), [(FaultKind::Card, 5, 6, false)]);
    }

    #[test]
    fn zone_that_waits_for_its_new_source_has_a_fault() {
        let mut faults = NodeFaults::default();
        faults.set_zone(&hall(ZonePlayback::Playing, 9), 9);
        faults.set_zone(&hall(ZonePlayback::Waiting, SILENT_SECONDS), 11);
        assert_eq!(shown(&faults), [(FaultKind::Silent, 11, 11, true)]);
        faults.set_zone(&hall(ZonePlayback::Playing, 0), 12);
        assert!(!faults.all()[0].lasts);
    }

    #[test]
    fn silence_before_the_first_sound_is_a_fault_later() {
        let mut faults = NodeFaults::default();
        faults.set_zone(&hall(ZonePlayback::Silent, START_SECONDS - 1), 10);
        assert_eq!(shown(&faults), []);
        faults.set_zone(&hall(ZonePlayback::Silent, START_SECONDS), 11);
        assert_eq!(shown(&faults), [(FaultKind::Silent, 11, 11, true)]);
    }

    #[test]
    fn fault_of_a_part_that_a_newer_file_lacks_ends() {
        let mut faults = NodeFaults::default();
        for name in ["hall", "bar"] {
            faults.set(FaultKind::Card, name, Some(String::new()), 1);
        }
        faults.end_others(5, |fault| fault.name == "bar");
        assert_eq!(shown(&faults), [(FaultKind::Card, 1, 5, false), (FaultKind::Card, 1, 1, true)]);
    }

    #[test]
    fn faults_outlive_the_node_and_have_ended_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("faults.json");
        let (mut faults, why) = NodeFaults::read(&path);
        assert_eq!(why, None);
        faults.write(&path).unwrap();
        assert!(!path.exists(), "nothing changed");
        faults.set(FaultKind::Source, "music", Some("no file".into()), 5);
        faults.write(&path).unwrap();
        let stored = || {
            let read: Vec<FaultState> = disk::read_json(&path).unwrap();
            read.into_iter()
                .map(|it| (it.first_s, it.last_s, it.lasts, it.reason))
                .collect::<Vec<_>>()
        };
        let (read, why) = NodeFaults::read(&path);
        assert_eq!(why, None);
        assert_eq!(shown(&read), [(FaultKind::Source, 5, 5, false)]);
        // Each later change is stored, too.
        let steps =
            [(None, 5, 6, false), (Some("no disk"), 7, 7, true), (Some("no file"), 7, 8, true)];
        for (reason, first, now, lasts) in steps {
            faults.set(FaultKind::Source, "music", reason.map(str::to_owned), now);
            faults.write(&path).unwrap();
            let reason = reason.unwrap_or("no file").to_owned();
            assert_eq!(stored(), [(first, now, lasts, reason)]);
        }
        faults.set(FaultKind::Source, "music", None, 9);
        faults.write(&path).unwrap();
        faults.acknowledge(&FaultsAck::default());
        faults.write(&path).unwrap();
        assert_eq!(stored(), []);
        std::fs::write(&path, "[{").unwrap();
        assert!(NodeFaults::read(&path).1.is_some());
    }
}
