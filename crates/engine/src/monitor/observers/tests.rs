use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tautline_report::snapshot::StreamSnapshot;

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("taut-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn only_socket(folder: &Path) -> PathBuf {
    let mut sockets = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let socket = sockets.next().unwrap();
    assert_eq!((sockets.next(), process_of(&socket)), (None, Some(std::process::id())));
    socket
}

fn standing(count: usize) -> Snapshot {
    let stream = StreamSnapshot { address: "x".repeat(100), ..Default::default() };
    Snapshot { elapsed_ns: 1_000_000_000, streams: vec![stream; count], ..Snapshot::default() }
}

impl Observers {
    fn publish_now(&self, count: usize) {
        self.served.as_ref().unwrap().lock().unwrap().next = LocalTime::ZERO;
        self.notify(|| standing(count));
    }
}

#[test]
fn snapshots_are_made_only_for_observers_one_line_each() {
    let folder = Folder::new("told");
    let observers = Observers::open_in(&folder.0, "recv").unwrap();
    assert!(!observers.are_here());
    observers.notify(|| unreachable!("there is no observer"));
    let stream = UnixStream::connect(only_socket(&folder.0)).unwrap();
    assert!(observers.are_here());
    observers.publish_now(2);
    observers.notify(|| unreachable!("it is not time yet"));
    let mut lines = BufReader::new(stream).lines();
    let reported: Snapshot = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(
        (reported.schema, reported.pid, &*reported.role),
        (SCHEMA, std::process::id(), "recv")
    );
    assert_eq!((reported.elapsed_ns, reported.streams.len()), (1_000_000_000, 2));
    drop(lines);
    assert!(!observers.are_here(), "it hung up");
}

#[test]
fn observer_that_never_reads_is_dropped_without_blocking() {
    let folder = Folder::new("deaf");
    let observers = Observers::open_in(&folder.0, "send").unwrap();
    let mut deaf = UnixStream::connect(only_socket(&folder.0)).unwrap();
    assert!(observers.are_here());
    (0..50).for_each(|_| observers.publish_now(2_000));
    {
        let served = observers.served.as_ref().unwrap();
        let mut served = served.lock().unwrap();
        let rest = served.readers[0].rest.len();
        assert!((1..2_000_000).contains(&rest), "{rest}");
        served.meet(now() + Span::from_secs(3));
    }
    assert!(!observers.are_here());
    let mut received = Vec::new();
    deaf.read_to_end(&mut received).unwrap();
    assert!(!received.is_empty() && !received.ends_with(b"\n"), "{}", received.len());
}

#[test]
fn extra_observers_are_rejected_until_a_place_is_free() {
    let folder = Folder::new("many");
    let observers = Observers::open_in(&folder.0, "send").unwrap();
    let socket = only_socket(&folder.0);
    let mut all: Vec<_> = (0..=MAX).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    assert!(observers.are_here());
    assert_eq!(all.pop().unwrap().read(&mut [0]).unwrap(), 0, "one too many");
    all.pop();
    let next = UnixStream::connect(&socket).unwrap();
    assert!(observers.are_here());
    observers.publish_now(1);
    assert!(BufReader::new(next).lines().next().unwrap().unwrap().starts_with("{\"schema\":2"));
}

#[test]
fn sockets_of_dead_processes_and_own_socket_are_removed() {
    let folder = Folder::new("stale");
    let stale = folder.0.join("4194305.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let observers = Observers::open_in(&folder.0, "send").unwrap();
    let again = observers.clone();
    let socket = only_socket(&folder.0);
    drop(observers);
    assert!(socket.exists(), "a clone of it is left");
    drop(again);
    assert!(!socket.exists());
}

#[test]
fn listening_sockets_of_invisible_processes_stay() {
    let folder = Folder::new("unseen");
    let unseen = folder.0.join("4194305.sock");
    let listener = UnixListener::bind(&unseen).unwrap();
    assert_eq!(sockets_in(&folder.0), [unseen.as_path()]);
    drop(listener);
    assert!(sockets_in(&folder.0).is_empty());
}

#[test]
fn process_with_equal_pid_keeps_its_sockets() {
    let folder = Folder::new("double");
    let names = || (1..1000).map(|more| format!("{}.{more}.sock", std::process::id()));
    let theirs = names().take(60).map(|name| folder.0.join(name)).collect::<Vec<_>>();
    let listeners = theirs.iter().map(|at| UnixListener::bind(at).unwrap()).collect::<Vec<_>>();
    let mut ours = Vec::new();
    while ours.len() < 2 {
        let observers = Observers::open_in(&folder.0, "send").unwrap();
        ours.push(observers.served.as_ref().unwrap().lock().unwrap().socket.clone());
    }
    assert!(ours.iter().all(|socket| !theirs.contains(socket)), "{ours:?}");
    assert!(theirs.iter().all(|socket| UnixStream::connect(socket).is_ok()));
    drop(listeners);
}

#[test]
fn a_folder_that_others_may_look_into_is_refused() {
    let folder = Folder::new("open");
    let inner = folder.0.join("tautline");
    Observers::open_in(&inner, "send").unwrap();
    assert!(is_private(&inner));
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o750)).unwrap();
    assert!(matches!(Observers::open_in(&inner, "send"), Err(Unobservable::Folder(_))));
    let link = folder.0.join("link");
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&inner, &link).unwrap();
    assert!(matches!(Observers::open_in(&link, "send"), Err(Unobservable::Folder(_))));
    let nowhere = folder.0.join("none/none");
    assert!(matches!(Observers::open_in(&nowhere, "send"), Err(Unobservable::System { .. })));
}

#[test]
fn a_socket_is_born_under_a_name_that_no_sweeper_takes() {
    let folder = Folder::new("born");
    let observers = Observers::open_in(&folder.0, "send").unwrap();
    let served = observers.served.as_ref().unwrap().lock().unwrap();
    let address = served.listener.local_addr().unwrap();
    let born = address.as_pathname().unwrap();
    assert_eq!((born.parent(), process_of(born)), (Some(&*folder.0), None));
    assert_eq!(only_socket(&folder.0), served.socket, "and has one name only");
}

#[test]
fn old_unnamed_socket_of_a_dead_process_is_removed() {
    let folder = Folder::new("stillborn");
    let [dead, alive, listened] = [
        format!("{}.born", u32::MAX),
        format!("{}.born", std::process::id()),
        format!("{}.1.born", u32::MAX),
    ]
    .map(|name| folder.0.join(name));
    drop(UnixListener::bind(&dead).unwrap());
    drop(UnixListener::bind(&alive).unwrap());
    let listener = UnixListener::bind(&listened).unwrap();
    let now = SystemTime::now();
    place::sweep_newborn(&folder.0, now);
    assert!(dead.exists(), "it may have been born just now, by one whom we do not see");
    place::sweep_newborn(&folder.0, now + Duration::from_secs(61));
    assert_eq!([&dead, &alive, &listened].map(|path| path.exists()), [false, true, true]);
    drop(listener);
}

#[test]
fn in_process_observer_alone_gets_snapshots_at_the_usual_rate() {
    let onlooker = Onlooker::default();
    let observers = Observers::none().and(onlooker.clone());
    assert!(observers.are_here());
    let mut requested = 0;
    for _ in 0..2 {
        observers.notify(|| {
            requested += 1;
            Snapshot { elapsed_ns: requested, ..Snapshot::default() }
        });
    }
    assert_eq!(onlooker.newest().map(|newest| newest.elapsed_ns), Some(1));
    assert_eq!(onlooker.newest(), None, "it is reported once");
    assert!(requested == 1 || !onlooker.is_due(tautline_io::clock::now()), "ten times a second");
}
