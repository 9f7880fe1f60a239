//! Folder of the runs' sockets, private to its user.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tautline_io::local::{NotPrivate, is_private_to, make_private, without_runtime};
use tautline_io::local::{connect, effective_user};
pub use tautline_io::local::{is_private, places};

use super::Unobservable;

/// Sockets that this user may observe: the user's own sockets, or for root all users' sockets,
/// unless `XDG_RUNTIME_DIR` is set. Removes sockets without a listener.
pub fn sockets() -> Vec<PathBuf> {
    let user = effective_user();
    let own = places();
    let usual = own.contains(&without_runtime(user));
    let mut folders: Vec<(PathBuf, u32)> = own.into_iter().map(|place| (place, user)).collect();
    if user == 0 && usual {
        folders.extend(everybodys());
    }
    folders.retain(|(folder, owner)| is_private_to(folder, *owner));
    folders.dedup();
    // Other users could replace files meanwhile, so nothing is removed there.
    let here = |(folder, owner): &(PathBuf, u32)| match *owner == user {
        true => sockets_in(folder),
        false => listed(folder),
    };
    folders.iter().flat_map(here).collect()
}

fn everybodys() -> impl Iterator<Item = (PathBuf, u32)> {
    let listed = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |name: &str| name.parse().ok().filter(|user| *user != 0);
    let run = listed("/run/user").filter_map(move |entry| {
        Some((entry.path().join("tautline"), number(entry.file_name().to_str()?)?))
    });
    let tmp = listed("/tmp").filter_map(move |entry| {
        let name = entry.file_name();
        Some((entry.path(), number(name.to_str()?.strip_prefix("tautline-")?)?))
    });
    run.chain(tmp)
}

/// Sockets by name, after a `sweep`.
pub fn sockets_in(folder: &Path) -> Vec<PathBuf> {
    sweep(folder);
    listed(folder)
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sockets: Vec<_> = listed.filter(|path| process_of(path).is_some()).collect();
    sockets.sort();
    sockets
}

pub(super) fn make(folder: &Path) -> Result<(), Unobservable> {
    make_private(folder).map_err(|refused| match refused {
        NotPrivate::System(error) => Unobservable::System { path: folder.to_owned(), error },
        NotPrivate::Others => Unobservable::Folder(folder.to_owned()),
    })
}

/// PID from `PID.sock` or `PID.N.sock`.
pub fn process_of(socket: &Path) -> Option<u32> {
    process_before(socket, ".sock")
}

fn process_before(socket: &Path, suffix: &str) -> Option<u32> {
    let name = socket.file_name()?.to_str()?.strip_suffix(suffix)?;
    name.split('.').next()?.parse().ok()
}

pub(super) fn is_deserted(socket: &Path) -> bool {
    connect(socket).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Maximum age of a temporary name; renaming takes two system calls.
const BORN_WITHIN: Duration = Duration::from_secs(60);

/// Removes sockets of killed creators, by old temporary names. Called once per start.
pub(super) fn sweep_newborn(folder: &Path, now: SystemTime) {
    let age = |found: &Metadata| now.duration_since(found.modified().ok()?).ok();
    remove_deserted(folder, ".born", |found| age(found).is_some_and(|age| age > BORN_WITHIN));
}

pub(super) fn sweep(folder: &Path) {
    remove_deserted(folder, ".sock", |_| true);
}

fn remove_deserted(folder: &Path, suffix: &str, is_old: impl Fn(&Metadata) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_left = |found: Metadata| found.file_type().is_socket() && is_old(&found);
        // A process in a container has no entry here.
        let is_seen = |process| Path::new(&format!("/proc/{process}")).exists();
        // Connecting disturbs a process, so only unknown processes are checked.
        if process_before(&path, suffix).is_some_and(|process: u32| !is_seen(process))
            && fs::symlink_metadata(&path).is_ok_and(is_left)
            && is_deserted(&path)
        {
            let _ = fs::remove_file(path);
        }
    }
}
