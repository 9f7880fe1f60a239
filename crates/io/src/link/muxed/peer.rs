//! A UDP peer's address, configured or learned.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Whether a datagram is RTCP: payload types 64 to 95 with marker bit, unused by multiplexed RTP
/// (RFC 5761 §4).
pub fn is_report(datagram: &[u8]) -> bool {
    datagram.get(1).is_some_and(|kind| (192..=223).contains(kind))
}

/// The peer's address as a seqlock. Reads are wait-free; of two concurrent writers, one gives up.
#[derive(Debug)]
pub(crate) struct PeerAddress {
    version: AtomicU64,
    words: [AtomicU64; 4],
    writing: AtomicBool,
}

/// Read attempts during a write. After that the reader keeps its old value.
const TRIES: usize = 4;

impl PeerAddress {
    pub(crate) fn new(at: Option<SocketAddr>) -> Self {
        let peer = Self {
            version: AtomicU64::new(0),
            words: Default::default(),
            writing: AtomicBool::new(false),
        };
        peer.set(at);
        peer
    }

    pub(crate) fn set(&self, at: Option<SocketAddr>) -> bool {
        if self.writing.swap(true, Ordering::Acquire) {
            return false;
        }
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip(encode(at)) {
            word.store(value, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
        self.writing.store(false, Ordering::Release);
        true
    }

    pub(crate) fn news(&self, seen: &mut u64) -> Option<Option<SocketAddr>> {
        for _ in 0..TRIES {
            let before = self.version.load(Ordering::Acquire);
            if before == *seen {
                return None;
            }
            let words = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                *seen = before;
                return Some(decode(words));
            }
        }
        None
    }
}

fn encode(at: Option<SocketAddr>) -> [u64; 4] {
    match at {
        None => [0; 4],
        Some(SocketAddr::V4(four)) => {
            [4 << 16 | u64::from(four.port()), u64::from(four.ip().to_bits()), 0, 0]
        }
        Some(SocketAddr::V6(six)) => {
            let bits = six.ip().to_bits();
            let alongside = u64::from(six.flowinfo()) << 32 | u64::from(six.scope_id());
            [6 << 16 | u64::from(six.port()), (bits >> 64) as u64, bits as u64, alongside]
        }
    }
}

fn decode([kind, high, low, alongside]: [u64; 4]) -> Option<SocketAddr> {
    let port = kind as u16;
    match kind >> 16 {
        4 => Some(SocketAddrV4::new(Ipv4Addr::from_bits(high as u32), port).into()),
        6 => {
            let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
            Some(SocketAddrV6::new(ip, port, (alongside >> 32) as u32, alongside as u32).into())
        }
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Newest(Option<(u32, u16)>);

impl Newest {
    /// Whether this decrypted datagram is the newest. Reports count only until the first RTP
    /// packet.
    pub(crate) fn is(&mut self, datagram: &[u8]) -> bool {
        let [_, _, a, b, _, _, _, _, ssrc @ ..] = datagram else { return false };
        let Some(ssrc) = ssrc.first_chunk().copied().map(u32::from_be_bytes) else {
            return self.0.is_none() && is_report(datagram);
        };
        if is_report(datagram) {
            return self.0.is_none();
        }
        let number = u16::from_be_bytes([*a, *b]);
        let newer = match self.0 {
            // Ahead by less than half the number space (RFC 3550 appendix A.1).
            Some((stream, newest)) if stream == ssrc => number.wrapping_sub(newest) as i16 > 0,
            _ => true,
        };
        if newer {
            self.0 = Some((ssrc, number));
        }
        newer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_address_of_either_family_is_read_once() {
        let peer = PeerAddress::new(None);
        let mut seen = 0;
        assert_eq!(peer.news(&mut seen), Some(None));
        let all = ["1.2.3.4:5", "255.254.253.252:65535", "[fe80::1:2:3%7]:9", "[::1]:65534"];
        for at in all.map(|at| at.parse::<SocketAddr>().ok()) {
            assert!(at.is_some() && peer.set(at));
            assert_eq!(peer.news(&mut seen), Some(at));
            assert_eq!(peer.news(&mut seen), None);
        }
    }

    #[test]
    fn no_reader_sees_half_of_an_address() {
        let at = |n: u16| -> SocketAddr {
            SocketAddrV6::new(Ipv6Addr::from([n; 8]), n, n.into(), n.into()).into()
        };
        let peer = PeerAddress::new(Some(at(0)));
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=20_000).for_each(|n| assert!(peer.set(Some(at(n))))));
            let (mut seen, mut last) = (0, 0);
            while last < 20_000 {
                if let Some(Some(found)) = peer.news(&mut seen) {
                    assert_eq!(found, at(found.port()));
                    assert!(found.port() >= last);
                    last = found.port();
                }
            }
        });
    }

    fn rtp(ssrc: u32, number: u16) -> Vec<u8> {
        let [a, b] = number.to_be_bytes();
        [&[0x80, 96, a, b, 0, 0, 0, 0][..], &ssrc.to_be_bytes()].concat()
    }

    #[test]
    fn reports_are_newest_only_before_the_first_packet() {
        let report = [0x80, 201, 0, 1, 0, 0, 0, 1];
        let mut newest = Newest::default();
        assert!(newest.is(&report) && newest.is(&report));
        assert!(!newest.is(&[0x80, 96, 0]), "it is too short");
        for (ssrc, number, is) in [
            (7, 65_534, true),
            (7, 65_534, false),
            (7, 65_533, false),
            (7, 2, true),
            (7, 65_535, false),
            (8, 0, true),
            (8, 0, false),
        ] {
            assert_eq!(newest.is(&rtp(ssrc, number)), is, "{ssrc} {number}");
        }
        assert!(!newest.is(&report));
    }
}
