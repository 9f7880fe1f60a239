//! UDP ports that nobody has.

use core::ops::Range;
use core::sync::atomic::{AtomicU16, Ordering};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};

/// An even UDP port of this range that is free together with the one above, given once by this process.
/// Processes begin at different ones of it.
///
/// A range below 32768, where `ip_local_port_range` begins, is not given to sockets that ask for any: so
/// it stays free until the program that is to use it binds it.
///
/// # Panics
///
/// Where no pair is free.
pub fn free_udp_ports(range: Range<u16>) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let pairs = range.len() as u32 / 2;
    for _ in 0..pairs {
        // A program that is started for each test has a number that is little above the last one's.
        let start = std::process::id().wrapping_mul(97);
        let pair = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed).into()) % pairs;
        let port = range.start + 2 * pair as u16;
        if is_free(port) && is_free(port + 1) {
            return port;
        }
    }
    panic!("no two neighbouring UDP ports of {range:?} are free");
}

/// Whether a socket can have it, and none has.
fn is_free(port: u16) -> bool {
    // What this process starts in another thread has all that is open here until it is executed, and this
    // very socket with it: the system lists it then, although it is closed here.
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() && !is_listed(port)
}

/// Whether a UDP socket has this port, as /proc/net/udp lists them: `sl local_address …`, in hex.
pub fn is_listed(port: u16) -> bool {
    let listed = fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let has = format!(":{port:04X}");
    listed.lines().filter_map(|line| line.split_whitespace().nth(1)).any(|at| at.ends_with(&has))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::thread;

    #[test]
    fn ports_are_free_while_other_threads_start_programs() {
        let range = 29_000..29_800;
        thread::scope(|scope| {
            // A program that is to run as somebody is started by a fork, and holds what was open a while.
            let user = fs::metadata("/proc/self").unwrap().uid();
            let starts =
                move || (0..100).for_each(|_| drop(Command::new("true").uid(user).status()));
            for _ in 0..4 {
                scope.spawn(starts);
            }
            for _ in 0..200 {
                let port = free_udp_ports(range.clone());
                assert!(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok(), "{port}");
            }
        });
    }

    #[test]
    fn a_port_that_somebody_has_is_given_to_nobody() {
        let one = free_udp_ports(28_000..29_000);
        // Others ask for ports meanwhile.
        let near = one..one + 40;
        let _has = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, one + 1)).unwrap();
        assert!(is_listed(one + 1));
        for _ in 0..20 {
            assert_ne!(free_udp_ports(near.clone()), one);
        }
    }
}
