//! What was tapped, counted: by interface, way and protocol, step by step of time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tautline_io::network::tap::TappedFrame;
use tautline_proto::time::{LocalTime, Span};

use super::frames::{FramePart, LayerBytes, Parted, TapLink, TrafficKind, read_frame};
use super::tap::FrameCounter;

/// What is counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MixKey {
    pub(super) interface: u32,
    pub(super) outgoing: bool,
    pub(super) kind: TrafficKind,
    /// As an entry has them.
    pub(super) port: Option<u16>,
    pub(super) from_port: Option<u16>,
}

/// What one step of time has of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixEntry {
    pub interface: String,
    /// Whether frames have a checksum on the wire, which is not counted.
    pub ethernet: bool,
    /// They were sent; else they came.
    pub outgoing: bool,
    pub kind: TrafficKind,
    /// Of UDP to or from the address that is watched: the port there, and the one that it goes to where both
    /// ends are at that address, as they are on the loopback.
    pub port: Option<u16>,
    /// The port that it comes from, where both ends are there.
    pub from_port: Option<u16>,
    pub layers: LayerBytes,
}

/// Ports at the address that are told apart, so that whoever tries all of them takes no room.
const PORTS: usize = 64;
/// Packets whose later parts may still come.
const PARTED: usize = 64;

/// What came so far.
pub(super) struct TrafficMix {
    address: IpAddr,
    begins: LocalTime,
    every: Span,
    steps: Vec<BTreeMap<MixKey, LayerBytes>>,
    pub(super) links: BTreeMap<u32, TapLink>,
    ports: BTreeSet<u16>,
    /// There were more than that.
    pub(super) more_ports: bool,
    parted: VecDeque<(u32, bool, Parted, FirstPart)>,
}

/// Where the first part of a packet was counted: the others belong there.
#[derive(Debug, Clone, Copy)]
struct FirstPart {
    step: usize,
    key: MixKey,
    is_rtp: bool,
}

impl TrafficMix {
    /// Of streams to this address, or at it.
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

    /// All of it, by the interfaces' names.
    pub(super) fn told(self, names: &BTreeMap<u32, String>) -> Vec<Vec<MixEntry>> {
        let Self { steps, links, .. } = self;
        let entry = |(key, layers): (MixKey, LayerBytes)| MixEntry {
            // One that was gone before it could be asked for its name.
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
