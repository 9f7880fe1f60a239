//! Bytes of an audio packet per layer.

use tautline_proto::wire::rtp::{HEADER_BYTES, STAMPED_HEADER_BYTES};

/// RFC 768.
const UDP: usize = 8;
/// IPv4 without options (RFC 791 §3.1), IPv6 (RFC 8200 §3).
const IP: [usize; 2] = [20, 40];
/// IPv6 (RFC 8200 §4.5).
const FRAGMENT: usize = 8;
/// Interfaces do not count the checksum (IEEE 802.3 §3.1.1).
const ETHERNET: usize = 14;
const CHECKSUM: usize = 4;
/// RFC 791 §3.2.
const MIN_MTU: usize = 68;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    pub stamped: bool,
    pub v6: bool,
    pub mtu: usize,
    /// Loopback counts IP packets only.
    pub ethernet: bool,
}

/// Each layer includes those within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub payload: usize,
    pub rtp: usize,
    pub udp: usize,
    pub ip: usize,
    pub ethernet: usize,
    pub counted: usize,
}

impl Layers {
    pub fn of(self, payload: usize) -> Sizes {
        let rtp = payload + if self.stamped { STAMPED_HEADER_BYTES } else { HEADER_BYTES };
        let udp = rtp + UDP;
        let head = IP[usize::from(self.v6)];
        let mtu = self.mtu.max(MIN_MTU);
        let (parts, each) = match head + udp <= mtu {
            true => (1, head),
            false => {
                let each = head + if self.v6 { FRAGMENT } else { 0 };
                // All but the last have a multiple of eight bytes.
                let room = (mtu - each) / 8 * 8;
                (udp.div_ceil(room), each)
            }
        };
        let ip = udp + parts * each;
        let frame = if self.ethernet { ETHERNET } else { 0 };
        Sizes {
            payload,
            rtp,
            udp,
            ip,
            ethernet: ip + parts * (ETHERNET + CHECKSUM),
            counted: ip + parts * frame,
        }
    }
}

impl Sizes {
    pub fn overhead(&self) -> f64 {
        1.0 - self.payload as f64 / self.ethernet as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Layers = Layers { stamped: false, v6: false, mtu: 1500, ethernet: true };

    #[test]
    fn plain_packets_have_the_sizes_that_the_thesis_lists() {
        // Table 3.2; its `RTP` is the payload.
        let listed = [
            (3840, [3860, 3920, 3974]),
            (1920, [1940, 1980, 2016]),
            (960, [980, 1000, 1018]),
            (192, [212, 232, 250]),
        ];
        for (payload, [udp, ip, ethernet]) in listed {
            let sizes = PLAIN.of(payload);
            assert_eq!((sizes.udp, sizes.ip, sizes.ethernet), (udp, ip, ethernet));
        }
        let share = |payload| (PLAIN.of(payload).overhead() * 1000.0).round() / 10.0;
        assert_eq!((share(3840), share(192)), (3.4, 23.2));
    }

    #[test]
    fn stamps_and_longer_addresses_are_counted_too() {
        let stamped = Layers { stamped: true, ..PLAIN };
        let more = STAMPED_HEADER_BYTES - HEADER_BYTES;
        assert_eq!(stamped.of(192).ethernet, 250 + more);
        let v6 = Layers { v6: true, ..PLAIN };
        assert_eq!(v6.of(192).ethernet, 270);
        // The largest that fits, then one byte more.
        assert_eq!(v6.of(1440).ip, 1500);
        assert_eq!(v6.of(1441).ip, 1461 + 2 * 48);
        assert_eq!(PLAIN.of(192).counted, 246);
        assert_eq!(Layers { ethernet: false, mtu: 65_536, ..PLAIN }.of(3840).counted, 3880);
    }

    #[test]
    fn interface_without_an_mtu_does_not_panic() {
        assert!(Layers { mtu: 0, ..PLAIN }.of(192).ip >= 212);
    }
}
