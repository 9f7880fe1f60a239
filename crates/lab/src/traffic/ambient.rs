//! Packets and bytes per protocol and second on interfaces, without our stream.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tautline_io::clock::now;
use tautline_io::network::tap::TappedFrame;
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};

use super::EVERY;
use super::frames::{FramePart, Parted, ReadFrame, RtpHead, TapLink, read_frame};
use super::protocol::{Cast, Protocol};
use super::tap::{FrameCounter, TrafficTap};
use crate::capture::{CapturedFrame, LinkType, ReadFrames, read_frames};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmbientTraffic {
    pub schema: u32,
    pub range_ns: [i64; 2],
    pub parts: Vec<AmbientPart>,
    pub dropped: u64,
    /// Whether offloaded packets are counted individually.
    pub sized: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmbientPart {
    pub interface: String,
    pub outgoing: Option<bool>,
    pub protocol: Protocol,
    pub cast: Cast,
    pub seconds: Vec<(i64, Carried)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub packets: u64,
    pub bytes: u64,
}

impl Carried {
    fn add(&mut self, other: Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

const SECOND: i64 = 1_000_000_000;

impl AmbientTraffic {
    pub fn duration(&self) -> Span {
        let [begin, end] = self.range_ns;
        Span::from_nanos(end.saturating_sub(begin).max(1))
    }

    pub fn interfaces(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.parts.iter().map(|part| &part.interface).collect();
        let mut names: Vec<String> = names.into_iter().cloned().collect();
        names.sort_by_key(|name| {
            let all = self.sum(|part| part.interface == *name);
            core::cmp::Reverse(all.carried.bytes)
        });
        names
    }

    pub fn sum(&self, wanted: impl Fn(&AmbientPart) -> bool) -> AmbientSum {
        let mut seconds: BTreeMap<i64, Carried> = BTreeMap::new();
        let parts = self.parts.iter().filter(|part| wanted(part));
        for (second, carried) in parts.flat_map(|part| &part.seconds) {
            seconds.entry(*second).or_default().add(*carried);
        }
        let mut carried = Carried::default();
        seconds.values().for_each(|second| carried.add(*second));
        let [begin, end] = self.range_ns;
        let whole = seconds.iter().filter(|(second, _)| {
            let starts = second.saturating_mul(SECOND);
            starts >= begin && starts.saturating_add(SECOND) <= end
        });
        let busiest = whole.map(|(_, carried)| *carried).reduce(|one, other| Carried {
            packets: one.packets.max(other.packets),
            bytes: one.bytes.max(other.bytes),
        });
        AmbientSum { carried, busiest, seconds }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmbientSum {
    pub carried: Carried,
    /// Max packets and max bytes of a whole second; `None` without a whole second.
    pub busiest: Option<Carried>,
    pub seconds: BTreeMap<i64, Carried>,
}

type AmbientKey = (u32, Option<bool>, Protocol, Cast);

const MAX_PARTED: usize = 64;

pub(super) struct AmbientMix {
    begins: i64,
    /// A tap delivers later frames too.
    ends: Option<i64>,
    range: Option<[i64; 2]>,
    parts: BTreeMap<AmbientKey, BTreeMap<i64, Carried>>,
    rtp: RtpSources,
    parted: VecDeque<(u32, Option<bool>, Parted, Protocol)>,
}

impl AmbientMix {
    pub(super) fn new(begins: i64) -> Self {
        Self {
            begins,
            ends: None,
            range: None,
            parts: BTreeMap::new(),
            rtp: RtpSources::default(),
            parted: VecDeque::with_capacity(MAX_PARTED),
        }
    }

    pub(super) fn count(
        &mut self,
        interface: u32,
        outgoing: Option<bool>,
        at: i64,
        read: &ReadFrame,
    ) {
        let since = at.saturating_sub(self.begins);
        let [first, last] = self.range.unwrap_or([since; 2]);
        self.range = Some([first.min(since), last.max(since)]);
        let mut protocol = match (read.protocol, read.ends, read.rtp) {
            (Protocol::OtherUdp, Some([_, to]), Some(rtp)) if self.rtp.follows(to, rtp) => {
                Protocol::Rtp
            }
            (protocol, ..) => protocol,
        };
        match read.part {
            FramePart::Whole => {}
            FramePart::First(parted) => {
                self.parted.truncate(MAX_PARTED - 1);
                self.parted.push_front((interface, outgoing, parted, protocol));
            }
            FramePart::Later(parted) => {
                let mut known = self.parted.iter();
                let is_this = |(there, way, packet, _): &&(u32, Option<bool>, Parted, Protocol)| {
                    (*there, *way, *packet) == (interface, outgoing, parted)
                };
                protocol = known.find(is_this).map_or(protocol, |(.., first)| *first);
            }
        }
        let seconds = self.parts.entry((interface, outgoing, protocol, read.cast)).or_default();
        let carried = Carried { packets: read.layers.packets, bytes: read.layers.link };
        seconds.entry(since.div_euclid(SECOND)).or_default().add(carried);
    }

    fn reported(self, range_ns: [i64; 2], name: impl Fn(u32) -> String) -> AmbientTraffic {
        let parts =
            self.parts.into_iter().map(|((interface, outgoing, protocol, cast), seconds)| {
                let (interface, seconds) = (name(interface), seconds.into_iter().collect());
                AmbientPart { interface, outgoing, protocol, cast, seconds }
            });
        let parts = parts.collect();
        AmbientTraffic { schema: 2, range_ns, parts, dropped: 0, sized: true }
    }
}

impl FrameCounter for AmbientMix {
    fn see(&mut self, frame: &TappedFrame<'_>) {
        let TappedFrame { interface, hardware, outgoing, at, bytes, segment, head } = *frame;
        let (link, at) = (TapLink::of(hardware), nanos(at));
        let is_counted = at >= self.begins && self.ends.is_none_or(|ends| at <= ends);
        // Loopback frames appear twice.
        if is_counted && (link != TapLink::Loopback || outgoing) {
            self.count(interface, Some(outgoing), at, &read_frame(link, bytes, segment, head));
        }
    }
}

const MAX_SOURCES: usize = 64;
/// Maximum jump of a sequence number. A larger jump is another stream (RFC 3550 A.1).
const MAX_DROPOUT: u16 = 3000;

/// Distinguishes RTP from similar datagrams: packets of one source follow each other.
#[derive(Default)]
struct RtpSources {
    last: VecDeque<(SocketAddr, u32, u16)>,
}

impl RtpSources {
    fn follows(&mut self, to: SocketAddr, rtp: RtpHead) -> bool {
        let is_same = |(there, ssrc, _): &(SocketAddr, u32, u16)| (*there, *ssrc) == (to, rtp.ssrc);
        let before = self.last.iter().position(is_same).and_then(|at| self.last.remove(at));
        self.last.truncate(MAX_SOURCES - 1);
        self.last.push_front((to, rtp.ssrc, rtp.sequence));
        before.is_some_and(|(.., before)| {
            rtp.sequence.wrapping_sub(before).cast_signed().unsigned_abs() < MAX_DROPOUT
        })
    }
}

fn nanos(at: LocalTime) -> i64 {
    (at - LocalTime::ZERO).as_nanos()
}

/// Counts this network namespace's traffic until stopped; calls `begun` at the start.
pub fn watch_ambient(stop: &Stop, begun: impl FnOnce()) -> Result<AmbientTraffic, String> {
    let mut tap = TrafficTap::open(|begins| AmbientMix::new(nanos(begins)))?;
    begun();
    while !stop.is_requested() {
        tap.until(now() + EVERY);
    }
    let ends = now();
    tap.counter.ends = Some(nanos(ends));
    let seen = tap.finish();
    let range = [0, (ends - seen.begins).as_nanos()];
    // Interface removed before its name was known.
    let name = |number: u32| seen.names.get(&number).cloned().unwrap_or(format!("#{number}"));
    let dropped = seen.statistics.dropped;
    Ok(AmbientTraffic { dropped, sized: seen.sized, ..seen.counter.reported(range, name) })
}

/// Counts a pcap or pcapng as one interface. Also returns how far it was read.
pub(crate) fn read_ambient(
    file: impl Read + Send,
    interface: &str,
) -> (AmbientTraffic, ReadFrames) {
    let mut mix: Option<AmbientMix> = None;
    let read = read_frames(file, &mut |frame| {
        let (link, bytes, head) = without_link(frame);
        let mix = mix.get_or_insert_with(|| AmbientMix::new(frame.at_ns));
        mix.count(0, None, frame.at_ns, &read_frame(link, bytes, None, head));
    });
    let mix = mix.unwrap_or_else(|| AmbientMix::new(0));
    let [begin, end] = mix.range.unwrap_or_default();
    // Less than a second gives no useful rate.
    let range = [begin, end.max(begin.saturating_add(SECOND))];
    (mix.reported(range, |_| interface.to_owned()), read)
}

/// Strips the pseudo-headers of Linux's `any` interface and BSD's loopback.
fn without_link<'a>(frame: &CapturedFrame<'a>) -> (TapLink, usize, &'a [u8]) {
    let CapturedFrame { link, bytes, frame, .. } = *frame;
    let behind = |head: usize| (bytes.saturating_sub(head), frame.get(head..).unwrap_or_default());
    let kind = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk());
    let typed = |at: usize, head: usize| {
        let (bytes, rest) = behind(head);
        let kind =
            kind(at).map_or(TapLink::Unknown, |kind| TapLink::Typed(u16::from_be_bytes(*kind)));
        (kind, bytes, rest)
    };
    match link {
        LinkType::Ethernet => (TapLink::Ethernet, bytes, frame),
        LinkType::Raw => (TapLink::Bare, bytes, frame),
        LinkType::Null => {
            let (bytes, rest) = behind(4);
            (TapLink::Bare, bytes, rest)
        }
        LinkType::Cooked => typed(14, 16),
        LinkType::Cooked2 => typed(0, 20),
    }
}
