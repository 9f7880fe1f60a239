//! Connects without free descriptors; its own test binary, for the limit.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tautline_io::clock::{now, sleep_until};
use tautline_io::programs::ProgramsName;
use tautline_io::programs::listening::ProgramsSocket;
use tautline_proto::device::{Direction, Settings};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

fn limit(descriptors: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid structure, and outlives both calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let before = limit.rlim_cur;
        limit.rlim_cur = descriptors;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        before
    }
}

fn spent() -> Span {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(answer, 0);
    Span::from_nanos(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

#[test]
fn program_waits_idly_for_a_free_descriptor() {
    let folder = std::env::temp_dir().join(format!("taut-limited-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let (rate, channels) = (Rate::HZ_48000, Channels::MONO);
    let settings = Settings { rate, channels, period: Frames::new(64), periods: 2 };
    let opened =
        ProgramsSocket::open(&folder, &ProgramsName::default(), Direction::Playback, settings);
    let (listening, mut programs) = opened.unwrap();
    programs.begin(LocalTime::from_nanos(1));
    let free = File::open("/dev/null").unwrap().as_raw_fd();
    // For the program's socket, not for accepting.
    let before = limit(free as u64 + 1);
    let program = UnixStream::connect(folder.join("programs-taut.play"));
    let none = File::open("/dev/null");
    let (spent_before, began) = (spent(), now());
    sleep_until(began + Span::from_millis(300));
    let (spent, passed) = (spent() - spent_before, now() - began);
    limit(before);
    assert_eq!(none.unwrap_err().raw_os_error(), Some(libc::EMFILE));
    assert!(spent.as_nanos() < passed.as_nanos() / 4, "{spent:?} of {passed:?} on a core");
    let mut program = program.unwrap();
    program.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut name = [0; 7];
    let read: io::Result<()> = program.read_exact(&mut name);
    read.expect("it is let in");
    assert_eq!(&name, b"tautpcm");
    drop((listening, programs));
    std::fs::remove_dir_all(&folder).unwrap();
}
