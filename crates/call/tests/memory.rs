//! A server's memory for ended calls.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up is over")]

mod ends;

use std::sync::Arc;
use std::thread::spawn;
use std::time::{Duration, Instant};

use ends::{caller, devices, server};
use tautline_api::trust::TrustStore;
use tautline_call::{Callers, DeviceChoice, Server};
use tautline_proto::device::Stop;
use tautline_proto::time::Span;
use tautline_trial::{CountingAllocator, live_bytes_of_all};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const CALLERS: u16 = 8;
/// Calls per caller and round: more than a server keeps reports of.
const CALLS: u32 = 5;
const ROOM: i64 = 200_000;
const TIMEOUT: Duration = Duration::from_secs(15);

fn call(address: &str, trust: &Arc<TrustStore>) {
    let config = caller(&[address], Some(Span::from_millis(1)));
    let choice = DeviceChoice::alone(devices());
    let mut callers = Callers::new(config, trust, &choice, Stop::default()).unwrap();
    while callers.turn() {}
    callers.finish().unwrap().1.unwrap();
}

fn round(server: &mut Server, trust: &Arc<TrustStore>) {
    let address = server.address().to_string();
    let calling = |_| {
        let (trust, address) = (Arc::clone(trust), address.clone());
        spawn(move || (0..CALLS).for_each(|_| call(&address, &trust)))
    };
    let callers: Vec<_> = (0..CALLERS).map(calling).collect();
    while !callers.iter().all(|caller| caller.is_finished()) {
        assert!(server.turn().unwrap());
    }
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

fn settles(server: &mut Server, maximum: i64) -> i64 {
    let until = Instant::now() + TIMEOUT;
    while (!server.views().is_empty() || live_bytes_of_all() > maximum) && Instant::now() < until {
        assert!(server.turn().unwrap());
    }
    live_bytes_of_all()
}

#[test]
fn calls_that_are_over_leave_no_more_than_the_newest_reports() {
    let folder = tempfile::tempdir().unwrap();
    let trust = TrustStore::open(folder.path()).unwrap();
    let mut called = Server::open(server(CALLERS), Arc::clone(&trust), devices(), |_| ()).unwrap();
    let idle = live_bytes_of_all();
    round(&mut called, &trust);
    let before = settles(&mut called, idle + 4 * ROOM);
    round(&mut called, &trust);
    let after = settles(&mut called, before + ROOM);
    let reported = format!("{idle} bytes before calls, {before} after a round, {after} after two");
    println!("{reported}");
    assert!(after <= before + ROOM, "{reported}");
    called.hang_up();
}
