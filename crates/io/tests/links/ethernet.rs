//! Frames without IP, between the two ends of a cable.

use tautline_io::ethernet::{EthernetAddress, EthernetOptions};
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::ringed::Spacing;
use tautline_proto::packet::StreamId;
use tautline_proto::wire::avtp::ETHERTYPE;

use crate::common::{collect, drain, in_a_network_of_its_own, outgoing};

const GROUP: EthernetAddress = [0x91, 0xE0, 0xF0, 0, 0xFE, 1];
const OTHER: EthernetAddress = [0x91, 0xE0, 0xF0, 0, 0xFE, 2];
/// Of AAF and of CRF.
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

/// A packet of that subtype, stream and number.
fn pdu(subtype: u8, stream: u8, number: u8) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    (bytes[0], bytes[11], bytes[59]) = (subtype, stream, number);
    bytes
}

fn send(link: &mut DirectLink, mut bytes: Vec<u8>) {
    assert!(link.queue(&outgoing(&mut bytes)));
    link.flush();
}

/// On a thread of its own, since it leaves the network.
fn apart(test: fn()) {
    std::thread::spawn(test).join().unwrap();
}

#[test]
fn frames_of_others_never_reach_the_program_however_many_there_are() {
    apart(|| {
        if !in_a_network_of_its_own(
            "frames_of_others_never_reach_the_program_however_many_there_are",
        ) {
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

#[test]
fn a_clock_is_heard_alone_where_sound_goes_to_the_same_address() {
    apart(|| {
        if !in_a_network_of_its_own("a_clock_is_heard_alone_where_sound_goes_to_the_same_address") {
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

/// A frame with a tag of a VLAN of this number and the priority 3, by a socket of its own.
fn send_tagged(vlan: u16, pdu: &[u8]) {
    let tci = (3 << 13 | vlan).to_be_bytes();
    let frame = [tci.as_slice(), &ETHERTYPE.to_be_bytes(), pdu].concat();
    let mut to = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_8021Q as u16).to_be(),
        // SAFETY: the name is a C string.
        sll_ifindex: unsafe { libc::if_nametoindex(c"veth1".as_ptr()) } as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    };
    to.sll_addr[..6].copy_from_slice(&GROUP);
    // SAFETY: the frame and the address are alive through the calls and as long as they are said to be.
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
fn frames_with_and_without_the_tag_of_a_vlan_are_heard_alike() {
    apart(|| {
        if !in_a_network_of_its_own("frames_with_and_without_the_tag_of_a_vlan_are_heard_alike") {
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
