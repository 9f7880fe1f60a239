//! A tap of all interfaces beside a stream.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tautline_io::clock::now;
use tautline_io::network::tap::{FrameTap, RETIRES, TapStatistics, TappedFrame, interface_name};
use tautline_proto::time::{LocalTime, Span};

use super::frames::{LayerBytes, TrafficKind};
use super::mix::{MixEntry, TrafficMix};

/// What came to a tap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TappedTraffic {
    /// When its first step began, on the monotonic clock.
    pub begin_ns: i64,
    /// From one step to the next.
    pub step_ns: i64,
    /// What each step had.
    pub steps: Vec<Vec<MixEntry>>,
    /// Frames that it saw.
    pub seen: u64,
    /// Frames for which it had no room, so that they are not among those.
    pub dropped: u64,
    /// Whether packets that went or came as one frame could be told apart.
    pub sized: bool,
    /// Whether there were more ports at the address than are told apart.
    pub more_ports: bool,
}

/// Bytes for what was not read yet: 37 000 frames, so a third of a second of 100 000 a second.
const ROOM: usize = 8 << 20;
const STEP: Span = Span::from_millis(200);
/// What was tapped when it ends is told of by then: a block is handed over in the kernel's own time.
const LAST: Span = RETIRES.times(4);

/// Counts what a tap sees.
pub(super) trait FrameCounter {
    fn see(&mut self, frame: &TappedFrame<'_>);
}

/// An open tap, and what it counted.
pub(super) struct TrafficTap<C> {
    tap: FrameTap,
    pub(super) counter: C,
    names: BTreeMap<u32, String>,
    begins: LocalTime,
}

/// What a tap had seen when it ended.
pub(super) struct SeenFrames<C> {
    pub(super) counter: C,
    /// Of interfaces, by number.
    pub(super) names: BTreeMap<u32, String>,
    pub(super) begins: LocalTime,
    pub(super) statistics: TapStatistics,
    /// Whether packets that went or came as one frame could be told apart.
    pub(super) sized: bool,
}

impl<C: FrameCounter> TrafficTap<C> {
    /// With what counts from this instant on; or why there is none, with the mend.
    pub(super) fn open(counter: impl FnOnce(LocalTime) -> C) -> Result<Self, String> {
        let tap = FrameTap::open(ROOM).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "tapping the interfaces takes CAP_NET_RAW; run taut as root there, or give it to the program \
                 (sudo setcap cap_net_raw+ep \"$(command -v taut)\")"
                    .to_owned()
            }
            _ => format!("tapping the interfaces: {error}; the kernel needs CONFIG_PACKET"),
        })?;
        let begins = now();
        Ok(Self { tap, counter: counter(begins), names: BTreeMap::new(), begins })
    }

    /// Counts what comes until then.
    pub(super) fn until(&mut self, due: LocalTime) {
        loop {
            self.count();
            let left = due - now();
            if left <= Span::ZERO {
                return;
            }
            if self.tap.wait(left).is_err() {
                tautline_io::clock::sleep_until(due);
            }
        }
    }

    fn count(&mut self) {
        let Self { tap, counter, names, .. } = self;
        tap.read(&mut |frame| {
            counter.see(&frame);
            if !names.contains_key(&frame.interface)
                && let Some(name) = interface_name(frame.interface)
            {
                names.insert(frame.interface, name);
            }
        });
    }

    /// All that came before this call.
    pub(super) fn finish(mut self) -> SeenFrames<C> {
        self.until(now() + LAST);
        let statistics = self.tap.statistics().unwrap_or_default();
        let sized = self.tap.knows_segments();
        let Self { counter, names, begins, .. } = self;
        SeenFrames { counter, names, begins, statistics, sized }
    }
}

impl TrafficTap<TrafficMix> {
    /// Of streams to this address, or at it.
    pub(super) fn beside(address: IpAddr) -> Result<Self, String> {
        Self::open(|begins| TrafficMix::of(address, begins, STEP))
    }

    /// All that came before this call.
    pub(super) fn end(self) -> TappedTraffic {
        let SeenFrames { counter: mix, names, begins, statistics, sized } = self.finish();
        TappedTraffic {
            begin_ns: (begins - LocalTime::ZERO).as_nanos(),
            step_ns: STEP.as_nanos(),
            more_ports: mix.more_ports,
            steps: mix.told(&names),
            seen: statistics.seen,
            dropped: statistics.dropped,
            sized,
        }
    }
}

/// Which part of what a network carries something is, in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MixPart {
    /// Packets of sound of the stream that is watched.
    Sound,
    /// What its ends say to each other.
    Control,
    Of(TrafficKind),
}

impl MixPart {
    /// Of an entry beside a stream to this UDP port.
    fn of(entry: &MixEntry, stream: Option<u16>) -> Self {
        let part = |port: u16| match Some(port) {
            port if port == stream => Some(Self::Sound),
            port if port == stream.and_then(control) => Some(Self::Control),
            _ => None,
        };
        let mut ports = [entry.port, entry.from_port].into_iter().flatten();
        ports.find_map(part).unwrap_or(Self::Of(entry.kind))
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound (RTP)",
            Self::Control => "control (RTCP)",
            Self::Of(TrafficKind::Udp) => "other UDP",
            Self::Of(TrafficKind::Mdns) => "mDNS",
            Self::Of(TrafficKind::Multicast) => "other multicast",
            Self::Of(TrafficKind::Broadcast) => "broadcast",
            Self::Of(TrafficKind::Tcp) => "TCP",
            Self::Of(TrafficKind::Icmp) => "ICMP",
            Self::Of(TrafficKind::NeighbourDiscovery) => "neighbour discovery",
            Self::Of(TrafficKind::Membership) => "IGMP and MLD",
            Self::Of(TrafficKind::Arp) => "ARP",
            Self::Of(TrafficKind::Fragment) => "fragments",
            Self::Of(TrafficKind::OtherIp) => "other IP",
            Self::Of(TrafficKind::Other) => "no IP",
            Self::Of(TrafficKind::Unread) => "not understood",
        }
    }
}

/// The port of what the ends of a stream to this one say to each other (RFC 3550 §11).
const fn control(stream: u16) -> Option<u16> {
    stream.checked_add(1)
}

/// What one interface carried of one part: what came, and what was sent.
pub type MixWays = [LayerBytes; 2];

/// Whole steps of a tap.
#[derive(Debug, Clone, Copy)]
pub struct TappedWindow<'a> {
    steps: &'a [Vec<MixEntry>],
    length: Span,
}

impl TappedTraffic {
    /// Whether nothing of a stream to this UDP port can be among other UDP.
    pub fn knows(&self, stream: u16) -> bool {
        let named = |port: u16| {
            let mut entries = self.steps.iter().flatten();
            entries.any(|entry| [entry.port, entry.from_port].contains(&Some(port)))
        };
        !self.more_ports || named(stream) && control(stream).is_none_or(named)
    }

    /// Those within these instants of the same clock; none where there is not one.
    pub fn within(&self, [begin, end]: [i64; 2]) -> Option<TappedWindow<'_>> {
        let step = self.step_ns.max(1);
        // The first that begins within, and the first that does not end so.
        let first = (begin - self.begin_ns).max(0).saturating_add(step - 1) / step;
        // A step without frames at the end of the run is one all the same.
        let last = (end - self.begin_ns).div_euclid(step);
        (first < last).then(|| {
            let known = self.steps.len();
            let [from, to] = [first, last].map(|at| usize::try_from(at).unwrap_or(0).min(known));
            TappedWindow {
                steps: &self.steps[from..to],
                length: Span::from_nanos((last - first).saturating_mul(step)),
            }
        })
    }
}

impl TappedWindow<'_> {
    /// A count, per second.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.length.as_nanos().max(1) as f64
    }

    /// What each interface carried, part by part, beside a stream to this UDP port; with the interface
    /// whether it is of Ethernet.
    pub fn parts(
        &self,
        stream: Option<u16>,
    ) -> BTreeMap<(String, bool), BTreeMap<MixPart, MixWays>> {
        let mut all: BTreeMap<_, BTreeMap<_, MixWays>> = BTreeMap::new();
        for entry in self.steps.iter().flatten() {
            let parts = all.entry((entry.interface.clone(), entry.ethernet)).or_default();
            let ways = parts.entry(MixPart::of(entry, stream)).or_default();
            ways[usize::from(entry.outgoing)] += entry.layers;
        }
        all
    }
}
