//! Its own test binary: the whole process is locked.
#![expect(clippy::unwrap_used, reason = "a test that cannot open its socket has failed")]

use tautline_io::link::direct::DirectLink;
use tautline_io::link::threaded::{ThreadedLink, WireOptions};
use tautline_io::thread::Scheduler;
use tautline_io::thread::memory::{lock, release_start};
use tautline_io::thread::stall::StallMonitor;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::open_pair;
use tautline_trial::{Lack, skipped};

fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_process_with_links_and_locked_memory_stays_small() {
    let before = status("RssFile");
    release_start();
    let released = before - status("RssFile");
    assert!(released > 200, "{released} of {before} kB of the program were given back");
    let before = status("RssAnon");
    for megabytes in 1..8 {
        drop(std::hint::black_box(vec![1_u8; megabytes << 20]));
    }
    let kept = status("RssAnon").saturating_sub(before);
    assert!(kept < 1 << 10, "{kept} kB of large blocks were not given back");
    let before = status("VmSize");
    let all = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let block = std::hint::black_box(vec![1_u8; 1 << 10]);
                all.wait();
                drop(block);
            });
        }
    });
    // An arena takes 64 MB of addresses, a thread 2 MB.
    let grown = status("VmSize").saturating_sub(before);
    assert!(grown < 60 << 10, "{grown} kB of addresses are taken for arenas");
    if let Err(refused) = lock() {
        return skipped(Lack::Privilege, &refused.to_string());
    }
    let options = UdpOptions::receiver("127.0.0.1:0".parse().unwrap());
    let (direct, control) = open_pair(&options).unwrap();
    let wire = WireOptions::below(Scheduler::Fifo(70), options.ring_packets());
    let ringed = ThreadedLink::start(DirectLink::open(&options).unwrap(), wire).unwrap();
    let monitor = StallMonitor::start();
    assert!(status("VmLck") > 0);
    // Of 12 MB for a receiver, most is for audio and reports.
    let resident = status("VmRSS");
    assert!(resident <= 8 << 10, "{resident} kB are resident");
    drop((direct, control, ringed, monitor));
}
