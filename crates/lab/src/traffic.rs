//! Interface traffic by protocol during a stream: from kernel counters, and from a tap if
//! permitted.

mod ambient;
mod counters;
pub mod frames;
mod layers;
pub mod protocol;
mod routes;
mod tap;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

use clap::Args;
use serde::{Deserialize, Serialize};
use tautline_io::clock::now;
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_ui::failure::Failure;
use tautline_ui::screen;

use crate::answer::print_json;
use crate::signals::stop_with_agent;
pub(crate) use ambient::read_ambient;
pub use ambient::{AmbientPart, AmbientSum, AmbientTraffic, Carried, watch_ambient};
pub use layers::{Layers, Sizes};
pub use tap::MixEntry;
use tap::TrafficTap;
pub use tap::{MixPart, MixWays, TappedTraffic, TappedWindow};

/// `taut lab traffic`: traffic during a stream (`--to`, `--at`), or all ambient traffic.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct TrafficFlags {
    /// The stream goes to this address
    #[arg(long, value_name = "IP")]
    to: Option<IpAddr>,
    /// The stream comes to this address
    #[arg(long, value_name = "IP")]
    at: Option<IpAddr>,
}

pub(crate) fn run(flags: &TrafficFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let begun = || screen::notify("interfaces are watched");
    let end = match (flags.to, flags.at) {
        (Some(to), _) => Some(TrafficEnd::To(to)),
        (None, at) => at.map(TrafficEnd::At),
    };
    match end {
        Some(end) => print_json(&watch(end, &stop, begun)),
        None => print_json(&watch_ambient(&stop, begun).map_err(Failure::open)?),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TrafficSample {
    pub at_ns: i64,
    pub interfaces: BTreeMap<String, TrafficInterface>,
    /// Counters of the network namespace, by kernel name, such as `UdpInDatagrams`.
    pub protocols: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TrafficInterface {
    pub mtu: u32,
    /// Bytes without frame checksum, and packets.
    pub received: [u64; 2],
    pub sent: [u64; 2],
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WatchedTraffic {
    pub schema: u32,
    pub interface: Option<String>,
    pub samples: Vec<TrafficSample>,
    pub tap: Option<TappedTraffic>,
    pub untapped: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficEnd {
    To(IpAddr),
    At(IpAddr),
}

/// Sampling interval, and precision of windows.
const EVERY: Span = Span::from_millis(200);

/// Calls `begun` at the start.
pub fn watch(end: TrafficEnd, stop: &Stop, begun: impl FnOnce()) -> WatchedTraffic {
    let (address, interface) = match end {
        TrafficEnd::To(address) => (address, routes::leads_to(address)),
        TrafficEnd::At(address) => (address, routes::has(address)),
    };
    let (mut tap, untapped) = match TrafficTap::alongside(address) {
        Ok(tap) => (Some(tap), None),
        Err(why) => (None, Some(why)),
    };
    let mut samples = vec![TrafficSample::read()];
    begun();
    let mut due = now() + EVERY;
    while !stop.is_requested() {
        match &mut tap {
            Some(tap) => tap.until(due),
            None => tautline_io::clock::sleep_until(due),
        }
        samples.push(TrafficSample::read());
        due += EVERY;
    }
    WatchedTraffic { schema: 2, interface, samples, tap: tap.map(TrafficTap::end), untapped }
}

impl TrafficSample {
    fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut interfaces = counters::interfaces(&text("/proc/net/dev"));
        let mut protocols = counters::protocols(&text("/proc/net/snmp"));
        protocols.extend(counters::protocols(&text("/proc/net/netstat")));
        protocols.extend(counters::protocols_v6(&text("/proc/net/snmp6")));
        let at_ns = (now() - LocalTime::ZERO).as_nanos();
        for (name, interface) in &mut interfaces {
            let mtu = text(&format!("/sys/class/net/{name}/mtu"));
            interface.mtu = mtu.trim().parse().unwrap_or(0);
        }
        Self { at_ns, interfaces, protocols }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CarriedTraffic {
    pub bytes: u64,
    pub packets: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct TrafficWindow<'a> {
    first: &'a TrafficSample,
    last: &'a TrafficSample,
}

impl WatchedTraffic {
    /// Longest window within these times of the same clock; `None` below one step.
    pub fn within(&self, [begin, end]: [i64; 2]) -> Option<TrafficWindow<'_>> {
        let inside = |sample: &&TrafficSample| (begin..=end).contains(&sample.at_ns);
        let first = self.samples.iter().find(inside)?;
        let last = self.samples.iter().rfind(inside)?;
        (first.at_ns < last.at_ns).then_some(TrafficWindow { first, last })
    }
}

impl TrafficWindow<'_> {
    pub fn span(&self) -> [i64; 2] {
        [self.first.at_ns, self.last.at_ns]
    }

    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / (self.last.at_ns - self.first.at_ns) as f64
    }

    pub fn interfaces(&self) -> Vec<(String, TrafficInterface, [CarriedTraffic; 2])> {
        let each = self.last.interfaces.iter().filter_map(|(name, last)| {
            let first = self.first.interfaces.get(name)?;
            let way = |last: [u64; 2], first: [u64; 2]| CarriedTraffic {
                bytes: last[0].saturating_sub(first[0]),
                packets: last[1].saturating_sub(first[1]),
            };
            let ways = [way(last.received, first.received), way(last.sent, first.sent)];
            ways.iter().any(|way| way.packets > 0).then(|| (name.clone(), *last, ways))
        });
        each.collect()
    }

    pub fn protocol(&self, names: &[&str]) -> u64 {
        let count =
            |sample: &TrafficSample, name: &str| sample.protocols.get(name).copied().unwrap_or(0);
        let step = |name: &&str| count(self.last, name).saturating_sub(count(self.first, name));
        names.iter().map(step).sum()
    }
}

impl TrafficWindow<'_> {
    /// Received IP packets for unjoined groups or other hosts. Fragments count as one.
    pub fn without_receivers(&self) -> u64 {
        let arrived = ["IpInReceives", "Ip6InReceives", "IpReasmOKs", "Ip6ReasmOKs"];
        let handled = [
            "IpInDelivers",
            "Ip6InDelivers",
            "IpReasmReqds",
            "Ip6ReasmReqds",
            "IpForwDatagrams",
            "Ip6OutForwDatagrams",
        ];
        self.protocol(&arrived).saturating_sub(self.protocol(&handled))
    }
}

/// Name, counters of received and of sent packets.
pub type Protocol = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Protocols counted. Multicast counts only joined groups.
pub const PROTOCOLS: [Protocol; 4] = [
    (
        "UDP",
        &["UdpInDatagrams", "Udp6InDatagrams", "UdpInErrors", "Udp6InErrors"],
        &["UdpOutDatagrams", "Udp6OutDatagrams"],
    ),
    ("TCP", &["TcpInSegs"], &["TcpOutSegs"]),
    ("ICMP", &["IcmpInMsgs", "Icmp6InMsgs"], &["IcmpOutMsgs", "Icmp6OutMsgs"]),
    (
        "multicast",
        &["IpExtInMcastPkts", "Ip6InMcastPkts"],
        &["IpExtOutMcastPkts", "Ip6OutMcastPkts"],
    ),
];
