//! Taps all interfaces during a stream.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tautline_io::clock::now;
use tautline_io::network::tap::{FrameTap, RETIRES, TapStatistics, TappedFrame, interface_name};
use tautline_proto::time::{LocalTime, Span};

use super::frames::{FramePart, LayerBytes, Parted, TapLink, TrafficKind, read_frame};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TappedTraffic {
    /// On the monotonic clock.
    pub begin_ns: i64,
    pub step_ns: i64,
    pub steps: Vec<Vec<MixEntry>>,
    pub seen: u64,
    pub dropped: u64,
    /// Whether offloaded packets were counted individually.
    pub sized: bool,
    pub more_ports: bool,
}

/// Bytes of the ring: 37,000 frames, 0.37 s at 100,000 a second.
const ROOM: usize = 8 << 20;
const STEP: Span = Span::from_millis(200);
/// Time for the last frames, because the kernel hands over blocks late.
const LAST: Span = RETIRES.times(4);

pub(super) trait FrameCounter {
    fn see(&mut self, frame: &TappedFrame<'_>);
}

pub(super) struct TrafficTap<C> {
    tap: FrameTap,
    pub(super) counter: C,
    names: BTreeMap<u32, String>,
    begins: LocalTime,
}

pub(super) struct FrameCounts<C> {
    pub(super) counter: C,
    pub(super) names: BTreeMap<u32, String>,
    pub(super) begins: LocalTime,
    pub(super) statistics: TapStatistics,
    pub(super) sized: bool,
}

impl<C: FrameCounter> TrafficTap<C> {
    /// `counter` gets the start time. Errors include the fix.
    pub(super) fn open(counter: impl FnOnce(LocalTime) -> C) -> Result<Self, String> {
        let tap = FrameTap::open(ROOM).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "tapping the interfaces needs CAP_NET_RAW\nhint: run taut as root there, or grant it to \
                 the program (sudo setcap cap_net_raw+ep \"$(command -v taut)\")"
                    .to_owned()
            }
            _ => format!("cannot tap the interfaces: {error}\nhint: the kernel needs CONFIG_PACKET"),
        })?;
        let begins = now();
        Ok(Self { tap, counter: counter(begins), names: BTreeMap::new(), begins })
    }

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

    pub(super) fn finish(mut self) -> FrameCounts<C> {
        self.until(now() + LAST);
        let statistics = self.tap.statistics().unwrap_or_default();
        let sized = self.tap.knows_segments();
        let Self { counter, names, begins, .. } = self;
        FrameCounts { counter, names, begins, statistics, sized }
    }
}

impl TrafficTap<TrafficMix> {
    pub(super) fn alongside(address: IpAddr) -> Result<Self, String> {
        Self::open(|begins| TrafficMix::of(address, begins, STEP))
    }

    pub(super) fn end(self) -> TappedTraffic {
        let FrameCounts { counter: mix, names, begins, statistics, sized } = self.finish();
        TappedTraffic {
            begin_ns: (begins - LocalTime::ZERO).as_nanos(),
            step_ns: STEP.as_nanos(),
            more_ports: mix.more_ports,
            steps: mix.reported(&names),
            seen: statistics.seen,
            dropped: statistics.dropped,
            sized,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MixPart {
    Sound,
    Control,
    Of(TrafficKind),
}

impl MixPart {
    fn of(entry: &MixEntry, stream: Option<u16>) -> Self {
        let part = |port: u16| match Some(port) {
            port if port == stream => Some(Self::Sound),
            port if port == stream.and_then(control) => Some(Self::Control),
            _ => None,
        };
        let mut ports = [entry.port, entry.from_port].into_iter().flatten();
        ports.find_map(part).unwrap_or(Self::Of(entry.kind))
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound (RTP)",
            Self::Control => "control (RTCP)",
            Self::Of(kind) => kind.name(),
        }
    }
}

/// RFC 3550 §11.
const fn control(stream: u16) -> Option<u16> {
    stream.checked_add(1)
}

pub type MixWays = [LayerBytes; 2];

#[derive(Debug, Clone, Copy)]
pub struct TappedWindow<'a> {
    steps: &'a [Vec<MixEntry>],
    length: Span,
}

impl TappedTraffic {
    /// Whether a stream to this port is separated from other UDP.
    pub fn knows(&self, stream: u16) -> bool {
        let named = |port: u16| {
            let mut entries = self.steps.iter().flatten();
            entries.any(|entry| [entry.port, entry.from_port].contains(&Some(port)))
        };
        !self.more_ports || named(stream) && control(stream).is_none_or(named)
    }

    /// Steps within these times of the same clock; `None` without any.
    pub fn within(&self, [begin, end]: [i64; 2]) -> Option<TappedWindow<'_>> {
        let step = self.step_ns.max(1);
        let first = (begin - self.begin_ns).max(0).saturating_add(step - 1) / step;
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
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.length.as_nanos().max(1) as f64
    }

    /// The flag marks Ethernet.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MixKey {
    pub(super) interface: u32,
    pub(super) outgoing: bool,
    pub(super) kind: TrafficKind,
    pub(super) port: Option<u16>,
    pub(super) from_port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixEntry {
    pub interface: String,
    /// Frames have an uncounted checksum on the wire.
    pub ethernet: bool,
    pub outgoing: bool,
    pub kind: TrafficKind,
    /// The watched address's UDP port; the destination's if both ends have it.
    pub port: Option<u16>,
    pub from_port: Option<u16>,
    pub layers: LayerBytes,
}

/// Maximum ports. This limits memory in a port scan.
const PORTS: usize = 64;
const PARTED: usize = 64;

pub(super) struct TrafficMix {
    address: IpAddr,
    begins: LocalTime,
    every: Span,
    steps: Vec<BTreeMap<MixKey, LayerBytes>>,
    pub(super) links: BTreeMap<u32, TapLink>,
    ports: BTreeSet<u16>,
    pub(super) more_ports: bool,
    parted: VecDeque<(u32, bool, Parted, FirstPart)>,
}

#[derive(Debug, Clone, Copy)]
struct FirstPart {
    step: usize,
    key: MixKey,
    is_rtp: bool,
}

impl TrafficMix {
    pub(super) fn of(address: IpAddr, begins: LocalTime, every: Span) -> Self {
        Self {
            address,
            begins,
            every,
            steps: Vec::new(),
            links: BTreeMap::new(),
            ports: BTreeSet::new(),
            more_ports: false,
            parted: VecDeque::with_capacity(PARTED),
        }
    }

    fn named(&mut self, port: u16) -> Option<u16> {
        if self.ports.len() < PORTS {
            self.ports.insert(port);
        }
        let known = self.ports.get(&port).copied();
        self.more_ports |= known.is_none();
        known
    }

    pub(super) fn reported(self, names: &BTreeMap<u32, String>) -> Vec<Vec<MixEntry>> {
        let Self { steps, links, .. } = self;
        let entry = |(key, layers): (MixKey, LayerBytes)| MixEntry {
            // Interface removed before its name was known.
            interface: names.get(&key.interface).cloned().unwrap_or(format!("#{}", key.interface)),
            ethernet: links.get(&key.interface) == Some(&TapLink::Ethernet),
            outgoing: key.outgoing,
            kind: key.kind,
            port: key.port,
            from_port: key.from_port,
            layers,
        };
        steps.into_iter().map(|step| step.into_iter().map(entry).collect()).collect()
    }
}

impl FrameCounter for TrafficMix {
    fn see(&mut self, frame: &TappedFrame<'_>) {
        let TappedFrame { interface, hardware, outgoing, at, bytes, segment, head } = *frame;
        let link = TapLink::of(hardware);
        self.links.insert(interface, link);
        let read = read_frame(link, bytes, segment, head);
        let since = (at - self.begins).as_nanos().max(0);
        let mut step = (since / self.every.as_nanos().max(1)) as usize;
        let ends = read.ends.map_or([None; 2], |ends| ends.map(Some));
        let there = ends.map(|end| Some(end.filter(|end| end.ip() == self.address)?.port()));
        let (port, from_port) = match there {
            [Some(from), Some(to)] => (self.named(to), self.named(from)),
            [from, to] => (to.or(from).and_then(|port| self.named(port)), None),
        };
        let mut key = MixKey { interface, outgoing, kind: read.kind, port, from_port };
        let mut layers = read.layers;
        match read.part {
            FramePart::Whole => {}
            FramePart::First(parted) => {
                self.parted.truncate(PARTED - 1);
                let first = FirstPart { step, key, is_rtp: read.rtp.is_some() };
                self.parted.push_front((interface, outgoing, parted, first));
            }
            FramePart::Later(parted) => {
                let mine = (interface, outgoing, parted);
                let mut known = self.parted.iter();
                let first = known.find(|(there, way, packet, _)| (*there, *way, *packet) == mine);
                let is_rtp = first.is_some_and(|(.., first)| first.is_rtp);
                layers.rtp_payload = if is_rtp { layers.rtp_payload } else { 0 };
                if let Some((.., first)) = first {
                    (step, key) = (first.step, first.key);
                }
            }
        }
        if self.steps.len() <= step {
            self.steps.resize_with(step + 1, BTreeMap::new);
        }
        *self.steps[step].entry(key).or_default() += layers;
    }
}
