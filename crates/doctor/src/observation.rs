//! Observes the interface of a node: IGMP queries, and the DSCP of the building's streams.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use tautline_io::clock::now;
use tautline_io::network::tap::{FrameTap, RETIRES};
use tautline_io::udp::DSCP_MEDIA;
use tautline_proto::time::Span;

use crate::Finding;
use crate::Verdict::{Unknown, Warning};

/// A querier answers the departure from a group with a query for it (RFC 2236 §3), so a check need
/// not wait for the query interval of 125 s. Of the network for documentation (RFC 6676).
const PROBE: Ipv4Addr = Ipv4Addr::new(233, 252, 0, 77);
/// Has the Ethernet address of [`PROBE`]: after the departure, the card still receives the answer.
const SAME_ADDRESS: Ipv4Addr = Ipv4Addr::new(239, 124, 0, 77);
/// Time from joining to leaving [`PROBE`].
const JOINED: Span = Span::from_millis(300);
/// Bytes of the ring: the streams of a building within [`RETIRES`].
const ROOM: usize = 1 << 20;

/// Observes for at most `time`; ends when nothing more can be learned.
pub(crate) fn network(
    (interface, name): (u32, &str),
    address: Ipv4Addr,
    groups: &[Ipv4Addr],
    time: Span,
) -> Vec<(&'static str, Finding)> {
    match observe(interface, address, groups, time) {
        Ok(observed) => observed.findings(name, time),
        Err(error) => {
            let what = format!("IGMP queries and DSCP on {name} are not checked: {error}");
            let why = "without a querier, a switch stops groups after minutes";
            let finding = Finding::new(Unknown, what, why).details("sudo taut doctor");
            vec![("igmp-queries", finding)]
        }
    }
}

fn observe(
    interface: u32,
    address: Ipv4Addr,
    groups: &[Ipv4Addr],
    time: Span,
) -> io::Result<Observed> {
    let mut tap = FrameTap::open(ROOM)?;
    let begins = now();
    // A socket for each group: the kernel limits the groups of a socket (igmp_max_memberships).
    let join = |group: &Ipv4Addr| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.join_multicast_v4(group, &address).map(|()| socket)
    };
    let _joined: Vec<_> = groups.iter().chain([&SAME_ADDRESS]).map(join).collect();
    let mut probe = join(&PROBE).ok();
    let mut observed = Observed::new(groups);
    while now() - begins < time && !observed.is_complete() {
        tap.wait(RETIRES)?;
        tap.read(&mut |frame| {
            // 1: Ethernet (ARPHRD_ETHER, linux/if_arp.h).
            if frame.interface == interface && frame.hardware == 1 {
                observed.see(frame.head, frame.outgoing);
            }
        });
        if now() - begins > JOINED {
            probe = None;
        }
    }
    drop(probe);
    Ok(observed)
}

/// Observed state of the network.
#[derive(Debug)]
struct Observed {
    querier: Option<Ipv4Addr>,
    /// Newest DSCP of each group; `None` before its first packet.
    streams: BTreeMap<Ipv4Addr, Option<u8>>,
}

impl Observed {
    fn new(groups: &[Ipv4Addr]) -> Self {
        Self { querier: None, streams: groups.iter().map(|group| (*group, None)).collect() }
    }

    fn is_complete(&self) -> bool {
        self.querier.is_some() && self.streams.values().all(Option::is_some)
    }

    /// Takes a frame with its Ethernet header.
    fn see(&mut self, frame: &[u8], is_sent: bool) {
        const IPV4: [u8; 2] = [0x08, 0x00];
        const UDP: u8 = 17;
        const IGMP: u8 = 2;
        const QUERY: u8 = 0x11;
        let Some((ethernet, packet)) = frame.split_first_chunk::<14>() else { return };
        let Some(head) = packet.first_chunk::<20>() else { return };
        if ethernet[12..] != IPV4 || head[0] >> 4 != 4 {
            return;
        }
        let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
        let content = packet.get(4 * usize::from(head[0] & 0xF)..).unwrap_or_default();
        match head[9] {
            IGMP if content.first() == Some(&QUERY) => self.querier = Some(address(12)),
            UDP if !is_sent => {
                if let Some(dscp) = self.streams.get_mut(&address(16)) {
                    *dscp = Some(head[1] >> 2);
                }
            }
            _ => {}
        }
    }

    fn findings(&self, name: &str, time: Span) -> Vec<(&'static str, Finding)> {
        let queries = match self.querier {
            Some(querier) => Finding::passed(format!("{querier} sends IGMP queries on {name}")),
            None => {
                let what = format!("no querier: no IGMP query on {name} within {time}");
                let why = "a switch with IGMP snooping stops groups after minutes; enable the \
                           querier of one switch";
                let look = format!("sudo timeout 180 tcpdump -ni {name} 'igmp[0] = 0x11'");
                Finding::new(Warning, what, why).details(look)
            }
        };
        let seen = self.streams.iter().filter_map(|(group, dscp)| Some((group, (*dscp)?)));
        let streams = seen.map(|(group, dscp)| {
            if dscp == DSCP_MEDIA {
                return Finding::passed(format!("{group} arrives with DSCP {dscp}"));
            }
            let what = format!("{group} arrives with DSCP {dscp}, not {DSCP_MEDIA}");
            let why = "a switch on the way changed it and no longer sends this sound first; set \
                       the ports of the switches to trust DSCP";
            let look = format!("sudo tcpdump -c 1 -vni {name} dst {group}");
            Finding::new(Warning, what, why).details(look)
        });
        [("igmp-queries", queries)].into_iter().chain(streams.map(|it| ("dscp", it))).collect()
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::Verdict::{self, Passed};

    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 78, 1);
    const QUERIER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

    /// An IPv4 packet with the router alert option of IGMP if `options`.
    fn packet(to: Ipv4Addr, tos: u8, protocol: u8, options: bool, content: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, if options { 0x46 } else { 0x45 }, tos]);
        frame.extend([0, 0, 0, 0, 0, 0, 1, protocol, 0, 0]);
        frame.extend(QUERIER.octets());
        frame.extend(to.octets());
        frame.extend(if options { &[0x94, 4, 0, 0][..] } else { &[] });
        frame.push(content);
        frame
    }

    fn query() -> Vec<u8> {
        packet(Ipv4Addr::new(224, 0, 0, 1), 0xC0, 2, true, 0x11)
    }

    fn sound(dscp: u8) -> Vec<u8> {
        packet(GROUP, dscp << 2 | 1, 17, false, 0x80)
    }

    fn verdicts(observed: &Observed) -> Vec<(&'static str, Verdict)> {
        let found = observed.findings("eth0", Span::from_secs(10)).into_iter();
        found.map(|(check, finding)| (check, finding.verdict)).collect()
    }

    #[test]
    fn observation_is_complete_with_a_query_and_a_packet_of_each_stream() {
        let mut observed = Observed::new(&[GROUP]);
        observed.see(&query(), false);
        assert!(!observed.is_complete());
        assert_eq!(verdicts(&observed), [("igmp-queries", Passed)]);
        observed.see(&sound(DSCP_MEDIA), true);
        assert!(!observed.is_complete(), "sent by this machine");
        observed.see(&sound(DSCP_MEDIA), false);
        assert!(observed.is_complete());
        assert_eq!(verdicts(&observed), [("igmp-queries", Passed), ("dscp", Passed)]);
        assert_eq!(observed.querier, Some(QUERIER));
    }

    #[test]
    fn network_without_a_querier_is_reported() {
        let mut observed = Observed::new(&[GROUP]);
        // A report of a member, and a query cut off.
        observed.see(&packet(GROUP, 0xC0, 2, true, 0x22), false);
        observed.see(&query()[..query().len() - 1], false);
        let found = observed.findings("eth0", Span::from_secs(10));
        let [(check, finding)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((*check, finding.verdict), ("igmp-queries", Warning));
        snapshot!("querier", format!("{}; {}", finding.message, finding.reason.as_ref().unwrap()));
    }

    #[test]
    fn changed_dscp_is_reported_with_its_fix() {
        let mut observed = Observed::new(&[GROUP]);
        observed.see(&query(), false);
        observed.see(&sound(DSCP_MEDIA), false);
        observed.see(&sound(0), false);
        assert_eq!(verdicts(&observed), [("igmp-queries", Passed), ("dscp", Warning)]);
        let (_, finding) = observed.findings("eth0", Span::from_secs(10)).remove(1);
        snapshot!("dscp", format!("{}; {}", finding.message, finding.reason.unwrap()));
    }

    #[test]
    fn cut_frames_are_ignored() {
        for frame in [query(), sound(0)] {
            let mut observed = Observed::new(&[GROUP]);
            (0..frame.len().min(34)).for_each(|end| observed.see(&frame[..end], false));
            assert_eq!((observed.querier, observed.streams[&GROUP]), (None, None));
        }
    }
}
