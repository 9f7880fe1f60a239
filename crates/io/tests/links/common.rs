//! Helpers shared by the link tests.

use std::net::SocketAddr;
use std::process::Command;

use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::udp::UdpOptions;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, MediaTime, Span};
use tautline_trial::{Lack, skipped};

pub(crate) struct Got {
    pub(crate) bytes: Vec<u8>,
    pub(crate) source: Endpoint,
    pub(crate) arrival: LocalTime,
    pub(crate) uncertainty: Span,
    pub(crate) read: LocalTime,
    pub(crate) truncated: bool,
}

pub(crate) fn collect(link: &mut impl Link, count: usize) -> Vec<Got> {
    let mut all = Vec::new();
    let until = now() + Span::from_secs(10);
    while all.len() < count {
        assert!(now() < until, "{} of {count} datagrams came: {:?}", all.len(), link.counters());
        link.receive(&mut |a| {
            all.push(Got {
                bytes: a.bytes.to_vec(),
                source: a.arrival.from,
                arrival: a.arrival.at,
                uncertainty: a.arrival.uncertainty,
                read: a.arrival.read,
                truncated: a.truncated,
            });
        });
        std::thread::yield_now();
    }
    all
}

pub(crate) fn drain(link: &mut impl Link) -> usize {
    let mut count = 0;
    link.receive(&mut |_| count += 1);
    count
}

pub(crate) fn sender_to(destination: SocketAddr) -> DirectLink {
    DirectLink::open(&UdpOptions::sender(vec![destination])).unwrap()
}

pub(crate) fn departure(capture: LocalTime, due: LocalTime) -> Departure {
    Departure {
        media: MediaTime::ZERO,
        capture,
        taken: capture,
        packed: capture,
        due,
        handed: LocalTime::NEVER,
        launched: LocalTime::NEVER,
    }
}

pub(crate) fn outgoing(datagram: &mut [u8]) -> Outgoing<'_> {
    let instants = departure(now(), LocalTime::ZERO);
    Outgoing { datagram, instants, handed_at: None, again: None }
}

/// Moves this thread to a network namespace with only `veth0` (`10.77.0.1/24`, MTU 1500) and its
/// peer `veth1`. Prints why if impossible.
pub(crate) fn in_a_network_of_its_own() -> bool {
    // SAFETY: the call takes no pointers. Only this thread leaves the network namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let why = std::io::Error::last_os_error();
        skipped(Lack::Privilege, &format!("a network namespace needs root: {why}"));
        return false;
    }
    let steps = [
        "link add veth0 type veth peer name veth1",
        "link set veth1 up",
        "link set veth0 up",
        "-6 address add fe80::77/64 dev veth0 nodad",
        "address add 10.77.0.1/24 dev veth0",
    ];
    let laid = steps.iter().all(|step| {
        let why = match Command::new("ip").args(step.split(' ')).output() {
            Ok(done) if done.status.success() => return true,
            Ok(done) => String::from_utf8_lossy(&done.stderr).into_owned(),
            Err(why) => why.to_string(),
        };
        skipped(Lack::reported_by(&why), &format!("`ip {step}` of iproute2: {why}"));
        false
    });
    laid && ["veth0", "veth1"].into_iter().all(carries)
}

/// Waits until frames pass: the queue opens after both ends are up.
fn carries(interface: &str) -> bool {
    let until = now() + Span::from_secs(10);
    while now() < until {
        let state = Command::new("ip").args(["-brief", "link", "show", interface]).output();
        if state.is_ok_and(|reported| String::from_utf8_lossy(&reported.stdout).contains(" UP ")) {
            return true;
        }
        std::thread::yield_now();
    }
    panic!("{interface} did not come up within 10 s");
}
