//! Frames without IP, between two ends of a cable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tautline_io::clock::now;
use tautline_io::ethernet::{EthernetAddress, EthernetOptions};
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::threaded::Spacing;
use tautline_proto::packet::StreamId;
use tautline_proto::wire::avtp::ETHERTYPE;

use crate::common::{collect, drain, in_a_network_of_its_own, outgoing};

const GROUP: EthernetAddress = [0x91, 0xE0, 0xF0, 0, 0xFE, 1];
const OTHER: EthernetAddress = [0x91, 0xE0, 0xF0, 0, 0xFE, 2];
const SUBTYPES: [u8; 2] = [0x02, 0x04];

fn end(interface: &str, address: EthernetAddress, sends: bool) -> EthernetOptions {
    EthernetOptions {
        interface: interface.to_owned(),
        address,
        sends,
        subtype: SUBTYPES[0],
        stream: (!sends).then_some(StreamId(7)),
        priority: 3,
        datagram_bytes: 1500,
        packets_per_second: 8000,
        batch: 8,
        transmit_stamp_every: 0,
        launch: None,
        spacing: Spacing::default(),
    }
}

fn open(options: &EthernetOptions) -> DirectLink {
    DirectLink::open_ethernet(options).unwrap()
}

fn pdu(subtype: u8, stream: u8, number: u8) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    (bytes[0], bytes[11], bytes[59]) = (subtype, stream, number);
    bytes
}

fn send(link: &mut DirectLink, mut bytes: Vec<u8>) {
    assert!(link.queue(&outgoing(&mut bytes)));
    link.flush();
}

/// On its own thread, which leaves the network namespace.
fn apart(test: fn()) {
    std::thread::spawn(test).join().unwrap();
}

#[test]
fn foreign_frames_never_wake_the_program() {
    apart(|| {
        if !in_a_network_of_its_own() {
            return;
        }
        let mut receiver = open(&end("veth0", GROUP, false));
        let mut ours = open(&end("veth1", GROUP, true));
        let mut elsewhere = open(&end("veth1", OTHER, true));
        for number in 0..100 {
            for flood in 0..200 {
                send(&mut ours, pdu(SUBTYPES[1], 7, flood));
                send(&mut ours, pdu(SUBTYPES[0], 8, flood));
                send(&mut elsewhere, pdu(SUBTYPES[0], 7, flood));
            }
            send(&mut ours, pdu(SUBTYPES[0], 7, number));
            assert_eq!(collect(&mut receiver, 1)[0].bytes, pdu(SUBTYPES[0], 7, number));
        }
        assert_eq!(drain(&mut receiver), 0);
        let counted = receiver.counters();
        assert_eq!((counted.received, counted.kernel_drops, counted.truncated), (100, 0, 0));
    });
}

const AT_ONCE: usize = 64;
/// IPv4, SRP, LLDP, PTP, experimental, AVTP.
const ETHERTYPES: [u16; 6] = [0x0800, 0x22EA, 0x88CC, 0x88F7, 0x88B5, ETHERTYPE];
/// Not this stream's: 61883, AAF's neighbours, CRF, ADP, MAAP.
const OTHER_SUBTYPES: [u8; 6] = [0x00, 0x03, 0x05, SUBTYPES[1], 0xFA, 0xFE];

/// Sends and counts frames that differ only in ethertype or subtype, until `stop`.
fn flood(stop: &AtomicBool, count: &AtomicU64) {
    // SAFETY: the call takes no pointers.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    assert!(socket >= 0, "{}", std::io::Error::last_os_error());
    let kinds = |number: usize| {
        let ethertype = ETHERTYPES[number % ETHERTYPES.len()];
        let other = OTHER_SUBTYPES[number / ETHERTYPES.len() % OTHER_SUBTYPES.len()];
        (ethertype, if ethertype == ETHERTYPE { other } else { SUBTYPES[0] })
    };
    let mut frames: Vec<_> = (0..AT_ONCE)
        .map(|number| {
            let (ethertype, subtype) = kinds(number);
            (group_of(ethertype), pdu(subtype, 7, number as u8))
        })
        .collect();
    let mut vectors: Vec<_> = frames
        .iter_mut()
        .map(|(_, pdu)| libc::iovec { iov_base: pdu.as_mut_ptr().cast(), iov_len: pdu.len() })
        .collect();
    let mut messages: Vec<_> = frames
        .iter_mut()
        .zip(&mut vectors)
        .map(|((to, _), vector)| {
            // SAFETY: all zeros are a valid mmsghdr.
            let mut message: libc::mmsghdr = unsafe { core::mem::zeroed() };
            message.msg_hdr.msg_namelen = size_of_val(to) as u32;
            message.msg_hdr.msg_name = (&raw mut *to).cast();
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (vector, 1);
            message
        })
        .collect();
    while !stop.load(Ordering::Relaxed) {
        // SAFETY: the messages, and the frames and addresses that they point to, are alive and do
        // not move.
        let sent = unsafe { libc::sendmmsg(socket, messages.as_mut_ptr(), AT_ONCE as u32, 0) };
        count.fetch_add(sent.max(0).unsigned_abs().into(), Ordering::Relaxed);
    }
    // SAFETY: this function owns the descriptor.
    unsafe { libc::close(socket) };
}

#[test]
fn flood_of_other_frames_does_not_lose_ours() {
    const BATCH: usize = 100;
    apart(|| {
        if !in_a_network_of_its_own() {
            return;
        }
        let wide = |options| EthernetOptions { batch: BATCH, ..options };
        let mut receiver = open(&wide(end("veth0", GROUP, false)));
        let mut ours = open(&wide(end("veth1", GROUP, true)));
        let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|threads| {
            let flooding = Flooding { stop: &stop };
            threads.spawn(|| flood(&stop, &count));
            let (began, mut batches) = (now(), 0_u64);
            while batches < 100 || count.load(Ordering::Relaxed) < 200_000 {
                let numbered = |number: usize| {
                    let mut bytes = pdu(SUBTYPES[0], 7, number as u8);
                    bytes[50..58].copy_from_slice(&batches.to_be_bytes());
                    bytes
                };
                for number in 0..BATCH {
                    assert!(ours.queue(&outgoing(&mut numbered(number))), "{number}");
                }
                ours.flush();
                let got = collect(&mut receiver, BATCH);
                assert_eq!(got.len(), BATCH);
                for (number, got) in got.iter().enumerate() {
                    assert_eq!(got.bytes, numbered(number), "batch {batches}");
                }
                batches += 1;
            }
            let (frames, nanos) = (count.load(Ordering::Relaxed), (now() - began).as_nanos());
            drop(flooding);
            let rate = i128::from(frames) * 1_000_000_000 / i128::from(nanos.max(1));
            println!(
                "{frames} frames of others, {rate} a second, beside {batches} batches of ours"
            );
            let (sent, received) = (ours.counters(), receiver.counters());
            let all = batches * BATCH as u64;
            assert_eq!((sent.sent, sent.send_errors, sent.dropped), (all, 0, 0));
            assert_eq!((received.received, received.kernel_drops, received.truncated), (all, 0, 0));
        });
        assert_eq!((drain(&mut receiver), receiver.counters().kernel_drops), (0, 0));
    });
}

/// Ends the flood, even after a failure.
struct Flooding<'a> {
    stop: &'a AtomicBool,
}

impl Drop for Flooding<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn clock_is_separated_from_sound_at_the_same_address() {
    apart(|| {
        if !in_a_network_of_its_own() {
            return;
        }
        let clock = EthernetOptions { subtype: SUBTYPES[1], ..end("veth0", GROUP, false) };
        let (mut receiver, mut both) = (open(&clock), open(&end("veth1", GROUP, true)));
        for number in 0..10 {
            send(&mut both, pdu(SUBTYPES[0], 7, number));
            send(&mut both, pdu(SUBTYPES[1], 7, number));
            assert_eq!(collect(&mut receiver, 1)[0].bytes, pdu(SUBTYPES[1], 7, number));
        }
        assert_eq!((drain(&mut receiver), receiver.counters().received), (0, 10));
    });
}

fn group_of(ethertype: u16) -> libc::sockaddr_ll {
    let [a, b, c, d, e, f] = GROUP;
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ethertype.to_be(),
        // SAFETY: the name is a C string.
        sll_ifindex: unsafe { libc::if_nametoindex(c"veth1".as_ptr()) } as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [a, b, c, d, e, f, 0, 0],
    }
}

fn send_tagged(vlan: u16, pdu: &[u8]) {
    let tci = (3 << 13 | vlan).to_be_bytes();
    let frame = [tci.as_slice(), &ETHERTYPE.to_be_bytes(), pdu].concat();
    let to = group_of(libc::ETH_P_8021Q as u16);
    // SAFETY: the frame and the address outlive the calls and have the given lengths.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0);
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        let sent = libc::sendto(
            socket,
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const to).cast(),
            size_of_val(&to) as u32,
        );
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
        libc::close(socket);
    }
}

#[test]
fn frames_with_and_without_a_vlan_tag_are_received() {
    apart(|| {
        if !in_a_network_of_its_own() {
            return;
        }
        let mut receiver = open(&end("veth0", GROUP, false));
        let mut ours = open(&end("veth1", GROUP, true));
        for (number, vlan) in [None, Some(0), Some(5)].into_iter().enumerate() {
            let pdu = pdu(SUBTYPES[0], 7, number as u8);
            match vlan {
                Some(vlan) => send_tagged(vlan, &pdu),
                None => send(&mut ours, pdu.clone()),
            }
            assert_eq!(collect(&mut receiver, 1)[0].bytes, pdu, "{vlan:?}");
        }
    });
}
