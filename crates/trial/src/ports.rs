//! Free UDP ports for tests.

use core::ops::Range;
use core::sync::atomic::{AtomicU16, Ordering};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};

/// An even UDP port in `range` that is free, as is the next one; each time another.
///
/// Use a range below 32768, the start of `ip_local_port_range`.
///
/// # Panics
///
/// If no pair is free.
pub fn free_udp_ports(range: Range<u16>) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let pairs = range.len() as u32 / 2;
    for _ in 0..pairs {
        // Process ids are nearly consecutive.
        let start = std::process::id().wrapping_mul(97);
        let pair = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed).into()) % pairs;
        let port = range.start + 2 * pair as u16;
        if is_free(port) && is_free(port + 1) {
            return port;
        }
    }
    panic!("no two neighbouring UDP ports of {range:?} are free");
}

fn is_free(port: u16) -> bool {
    // A forked child holds a copy of this socket until it calls exec.
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() && !is_listed(port)
}

/// Whether a UDP socket has this port according to /proc/net/udp.
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
            // The fork holds open descriptors for a while.
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
    fn used_port_is_not_assigned_again() {
        let one = free_udp_ports(28_000..29_000);
        // Concurrent tests also take ports.
        let near = one..one + 40;
        let _has = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, one + 1)).unwrap();
        assert!(is_listed(one + 1));
        for _ in 0..20 {
            assert_ne!(free_udp_ports(near.clone()), one);
        }
    }
}
