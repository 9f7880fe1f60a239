//! Plugins that try to escape their process.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tautline_host::confinement::Confinement;
use tautline_host::offers::PluginOffers;
use tautline_host::scan::{Scan, TIMEOUT, scan};
use tautline_host::workshop::{PluginWorkshop, WorkshopOptions};
use tautline_io::thread::Scheduler;
use tautline_trial::{Lack, skipped};
use tempfile::TempDir;

use crate::common::{Shelf, program};
use crate::master::request;
use crate::worked::{opened, options, workshop_of};

/// Errors in `fixtures/hostile.c`, in its order: a private file, the parent's environment, a new
/// file in its library's directory, its library's mode; IP and Unix sockets; another program,
/// another process; signals to its parent, with `kill`, `tgkill` and a descriptor; its parent
/// traced, read, limited and scheduled; terminal input. Its own scheduler, cores and priority; a
/// life beyond its parent's; standard error truncated, seeked, written at an offset, copied twice,
/// and changed; a filter. Then allowed calls: another descriptor copied, its library, /dev/null, a
/// thread, a signal to itself.
const CONFINED: [i32; 32] = [
    libc::EACCES,
    libc::EACCES,
    libc::EACCES,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    libc::EPERM,
    0,
    0,
    0,
    0,
    0,
];

/// A private file, and a library that tries to read it; `None` if unsupported.
fn scene() -> Option<(TempDir, Shelf)> {
    let kernel = Confinement::of_this_kernel();
    if !kernel.is_whole() {
        skipped(Lack::Host, &format!("plugins are {kernel}"));
        return None;
    }
    let private = TempDir::with_prefix("taut-private-").unwrap();
    let secret = private.path().join("identity.pem");
    std::fs::write(&secret, "a key").unwrap();
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let shelf = Shelf::new();
    let secret = format!("SECRET=\"{}\"", secret.display());
    let own = format!("OWN=\"{}\"", shelf.path().join("hostile.so").display());
    shelf.built("hostile", "hostile.c", &[&secret, &own])?;
    Some((private, shelf))
}

fn words(errors: &[i32]) -> String {
    errors.iter().map(i32::to_string).collect::<Vec<_>>().join(" ")
}

fn name(found: &Scan) -> &str {
    assert_eq!(found.skipped, []);
    &found.libraries[0].plugins[0].name
}

#[test]
fn library_that_is_scanned_reaches_nothing_outside() {
    let Some((_private, shelf)) = scene() else { return };
    let found = scan(&program(), &[shelf.path().to_owned()], TIMEOUT);
    assert_eq!(name(&found), words(&CONFINED));
}

#[test]
fn plugin_of_a_stream_reaches_nothing_outside_and_plays() {
    let Some((_private, shelf)) = scene() else { return };
    let workshop = workshop_of(shelf.path().to_owned(), options());
    let (id, mut far) = opened(&workshop, request("hostile:hostile", 48_000, 64));
    for sample in [0.25, 0.5] {
        let worked = far.run(&[vec![sample]], &[]);
        assert_eq!(worked.outputs, [[sample]]);
        let errors: Vec<i32> = worked.reported.iter().map(|value| *value as i32).collect();
        assert_eq!(errors, CONFINED);
    }
    let files = std::fs::read_dir(shelf.path()).unwrap().count();
    assert_eq!(files, 1, "nothing is written beside the library");
    let state = tautline_api::v1::Workshop::stream(&workshop, id).unwrap();
    assert_eq!((state.restarts, state.reason), (0, None));
}

#[test]
fn readable_folder_grants_reading_only() {
    let Some((private, shelf)) = scene() else { return };
    let program = program().reading(vec![private.path().to_owned()]);
    let found = scan(&program, &[shelf.path().to_owned()], TIMEOUT);
    let mut errors = CONFINED;
    errors[0] = 0;
    assert_eq!(name(&found), words(&errors));
    let options = WorkshopOptions { program, ..options() };
    let workshop = PluginWorkshop::new(options, PluginOffers::new(&found, None).unwrap());
    let (_, mut far) = opened(&workshop, request("hostile:hostile", 48_000, 64));
    let reported = far.run(&[vec![1.0]], &[]).reported;
    assert_eq!(reported.iter().map(|value| *value as i32).collect::<Vec<_>>(), errors);
}

fn scheduling(process: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let is_plugin = |task: &PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "plugin")
    };
    let task = tasks.map(|task| task.unwrap().path()).find(is_plugin).unwrap();
    let shown = Command::new("chrt").arg("-p").arg(task.file_name().unwrap()).output().unwrap();
    String::from_utf8(shown.stdout).unwrap()
}

#[test]
fn plugin_cannot_change_or_pass_on_its_priority() {
    let Some((_private, shelf)) = scene() else { return };
    let scheduler = Scheduler::Fifo(3);
    let granted = std::thread::spawn(move || scheduler.apply()).join().unwrap();
    if !granted.is_granted() {
        return skipped(Lack::Host, &granted.to_string());
    }
    let options = WorkshopOptions { scheduler, ..options() };
    let workshop = workshop_of(shelf.path().to_owned(), options);
    let (id, mut far) = opened(&workshop, request("hostile:hostile", 48_000, 64));
    let reported = far.run(&[vec![1.0]], &[]).reported;
    assert_eq!(reported.iter().map(|value| *value as i32).collect::<Vec<_>>(), CONFINED);
    let shown = scheduling(workshop.process(id).unwrap());
    assert!(shown.contains("SCHED_FIFO|SCHED_RESET_ON_FORK"), "{shown}");
    assert!(shown.contains("priority: 3"), "{shown}");
}
