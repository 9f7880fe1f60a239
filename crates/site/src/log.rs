//! Log of announcements: JSON lines.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use tautline_api::v1::{AnnouncementResult, AnnouncementState};

/// File with the newest entries, in the folder of the node or station.
pub const LOG_NAME: &str = "announcements.jsonl";

/// The file becomes `announcements.jsonl.1` at this size, and replaces the previous such file:
/// about 3000 announcements of a zone.
const MAX_BYTES: u64 = 1 << 20;

/// An announcement that ended in a zone.
#[derive(Debug, Serialize)]
pub(crate) struct ZoneEntry<'a> {
    time_ns: i64,
    node: &'a str,
    zone: &'a str,
    #[serde(flatten)]
    announcement: &'a AnnouncementState,
}

impl<'a> ZoneEntry<'a> {
    pub(crate) fn new(node: &'a str, zone: &'a str, announcement: &'a AnnouncementState) -> Self {
        Self { time_ns: unix_nanos(), node, zone, announcement }
    }
}

/// Announcements that are over `after`, but not `before`.
pub(crate) fn newly_over(
    before: &[AnnouncementState],
    after: &[AnnouncementState],
) -> Vec<AnnouncementState> {
    let is_over = |it: &AnnouncementState| {
        !matches!(it.result, AnnouncementResult::Playing | AnnouncementResult::Unknown)
    };
    let is_known = |it: &AnnouncementState| {
        before.iter().any(|old| (&old.id, old.result) == (&it.id, it.result))
    };
    after.iter().filter(|it| is_over(it) && !is_known(it)).cloned().collect()
}

/// Appends an entry. Several processes may share the file.
///
/// # Errors
///
/// Error if the file cannot be written, as on a full disk. The file then has no part of the entry.
pub fn append_log(path: &Path, entry: &impl Serialize) -> io::Result<()> {
    append(path, entry, MAX_BYTES)
}

fn append(path: &Path, entry: &impl Serialize, max_bytes: u64) -> io::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    let mut file = open(path)?;
    // Only one process replaces a full file; the other processes write to the file that they
    // opened.
    if file.metadata()?.len() >= max_bytes && file.try_lock().is_ok() && is_at(&file, path)? {
        fs::rename(path, older(path))?;
        file = open(path)?;
    }
    let length = file.metadata()?.len();
    file.write_all(&line).inspect_err(|_| drop(file.set_len(length)))
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (file, path) = (file.metadata()?, fs::metadata(path)?);
    Ok((file.dev(), file.ino()) == (path.dev(), path.ino()))
}

fn older(path: &Path) -> PathBuf {
    let mut older = path.as_os_str().to_owned();
    older.push(".1");
    older.into()
}

/// Unix nanoseconds of the system clock.
pub fn unix_nanos() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(id: &str, result: AnnouncementResult) -> AnnouncementState {
        AnnouncementState { id: id.to_owned(), result, ..AnnouncementState::default() }
    }

    #[test]
    fn only_new_results_are_logged() {
        use AnnouncementResult::{Played, Playing, Preempted};
        let before = [announcement("a", Played), announcement("b", Playing)];
        let ended = announcement("b", Preempted);
        let after = [before[0].clone(), ended.clone(), announcement("c", Playing)];
        assert_eq!(newly_over(&before, &after), [ended]);
        assert_eq!(newly_over(&after, &after), []);
    }

    #[test]
    fn full_file_replaces_the_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOG_NAME);
        for number in 0..10 {
            append(&path, &format!("entry {number}"), 20).unwrap();
        }
        let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
        // A line has 10 bytes: two fill a file.
        assert_eq!((lines(&path), lines(&older(&path))), (2, 2));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(fs::read_to_string(&path).unwrap().ends_with("entry 9\"\n"));
    }

    #[test]
    fn entry_of_a_locked_full_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOG_NAME);
        append(&path, &1, 1).unwrap();
        let other = open(&path).unwrap();
        other.lock().unwrap();
        append(&path, &2, 1).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n");
    }
}
