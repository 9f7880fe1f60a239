//! Creates plans with the usual settings and sockets.

use tautline_dsp::gain::Gain;
use tautline_dsp::map::ChannelMap;
use tautline_io::ethernet::own_address;
use tautline_io::link::destinations::Destinations;
use tautline_io::udp::pair::OpenedStream;
use tautline_io::udp::{FragmentPolicy, UdpOptions, header_bytes, path_mtu};
use tautline_proto::device::Settings;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::latency::{
    DEFAULT_LATENCY, LatencyRule, LatencySum, kept_latency, usual_latency,
};
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::Identity;
use tautline_proto::redundancy::ETHERNET;
use tautline_proto::send_policy::SendPolicyConfig;
use tautline_proto::stream::{MAX_DATAGRAM_BYTES, PTIME_RANGE, StreamFormat};
use tautline_proto::time::{Frames, Span};
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_proto::wire::{PacketHeads, WireForm};
use tautline_proto::zone::ProgramRule;

use super::address::{Address, Resolved};
use super::sockets::packets_per_second;
use super::{ClockPlan, RecvPlan, SendPlan, SentConfig, StreamPlan};
use crate::error::RunError;
use crate::plan::probes::Probes;
use crate::plan::random_identity;

/// Requested latency too short for packets and device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooShort {
    /// Requested.
    pub requested: Span,
    /// Sufficient latency.
    pub needs: LatencySum,
}

/// Latency to announce: `usual`, or the chosen latency unless packets are older when they leave.
pub fn promised(rule: LatencyRule, usual: Span, needs: LatencySum) -> Result<Span, TooShort> {
    chosen(rule, usual, needs.packing_age, needs)
}

fn chosen(
    rule: LatencyRule,
    usual: Span,
    minimum: Span,
    needs: LatencySum,
) -> Result<Span, TooShort> {
    match rule {
        LatencyRule::Chosen(requested) if requested < minimum => Err(TooShort { requested, needs }),
        LatencyRule::Chosen(requested) => Ok(requested),
        LatencyRule::Usual | LatencyRule::Auto { .. } => Ok(usual),
    }
}

/// Initial latency of a stream with announced latency `promise`, at this device.
pub fn kept(
    rule: LatencyRule,
    promise: Option<Span>,
    format: &StreamFormat,
    device: &Settings,
) -> Result<Span, TooShort> {
    let needs = LatencySum::of(format.ptime(), device);
    let minimum = needs.without_network();
    chosen(rule, kept_latency(promise.unwrap_or(DEFAULT_LATENCY), minimum), minimum, needs)
}

/// Sizes a socket for a stream with redundancy and retransmissions.
pub fn make_room(udp: &mut UdpOptions, format: &StreamFormat, period: Frames, heads: PacketHeads) {
    let packets = packets_per_second(format.rate, format.packet);
    udp.datagram_bytes = heads.datagram_bytes(format).max(ETHERNET);
    udp.packets_per_second = packets;
    udp.batch = batch(period, format.packet);
    udp.transmit_stamp_every = (packets / 20).max(1);
}

/// Sizes a socket for all packets and destinations that users can request.
pub fn make_room_for_changes(
    udp: &mut UdpOptions,
    format: &StreamFormat,
    period: Frames,
    heads: PacketHeads,
) {
    let (shortest, longest) = PTIME_RANGE;
    let (packet, sample) =
        (format.rate.frames_within(longest), tautline_dsp::format::SampleFormat::F32);
    let widest = StreamFormat { packet, sample, codec: None, ..*format };
    let maximum = heads.datagram_bytes(&widest).min(MAX_DATAGRAM_BYTES);
    let whole = udp
        .destinations
        .iter()
        .filter_map(|to| Some(path_mtu(*to)?.saturating_sub(header_bytes(to))));
    let maximum = match udp.fragment {
        FragmentPolicy::Allow => maximum,
        FragmentPolicy::Never => whole.fold(maximum, usize::min),
    };
    let shortest = format.rate.frames_within(shortest);
    udp.datagram_bytes = udp.datagram_bytes.max(maximum);
    udp.packets_per_second = packets_per_second(format.rate, shortest);
    udp.batch = batch(period, shortest);
    udp.max_destinations = Destinations::MAX;
}

/// Maximum packets per send: two periods with a margin of two packets each, at least 8.
pub fn batch(period: Frames, packet: Frames) -> usize {
    2 * (period.as_len() / packet.as_len().max(1) + 2).max(4)
}

impl SendPlan {
    /// Sends audio unchanged at the usual latency.
    pub fn new(
        address: String,
        opened: OpenedStream,
        format: StreamFormat,
        device: Settings,
    ) -> Result<Self, RunError> {
        let OpenedStream { link, control, outbound, .. } = opened;
        let usual = usual_latency(&format, device.period);
        let policy = SendPolicyConfig {
            spaced: outbound.ringed,
            destinations: outbound.destinations.iter().map(Endpoint::host).collect(),
            by_two_networks: outbound.networks.is_some(),
            max_bytes: outbound.datagram_bytes,
            ..SendPolicyConfig::new(format, random_identity()?, usual, device)
        };
        Ok(Self {
            stream: SentConfig {
                address,
                outbound,
                probes: Probes::All,
                sealed: None,
                pacing: None,
            },
            reports_to: Vec::new(),
            link,
            control,
            policy,
            encoders: Vec::new(),
            gain: Gain::UNITY,
            map: ChannelMap::identity(device.channels.count()),
            ledger: None,
            claim: None,
            announcement: None,
        })
    }
}

impl StreamPlan {
    /// Receives at `address`, with its gain and senders.
    pub fn of(address: &Address, receiver: JitterBufferConfig, opened: OpenedStream) -> Self {
        let OpenedStream { link, control, .. } = opened;
        let Address { gain, senders, tolerance, .. } = *address;
        let presentation_tolerance = tolerance.unwrap_or(receiver.presentation_tolerance);
        let receiver = JitterBufferConfig { presentation_tolerance, ..receiver };
        Self { gain, senders, ..Self::new(address.to_string(), receiver, link, control) }
    }
}

impl ClockPlan {
    /// Clock stream at an address; `None` unless AVTP.
    pub fn of(address: &Address, resolved: &Resolved, opened: OpenedStream) -> Option<Self> {
        let WireForm::Avtp(encapsulation) = resolved.form else { return None };
        let (address, stream) = (address.to_string(), resolved.stream);
        Some(Self { address, link: opened.link, encapsulation, stream })
    }
}

/// Random identity with the requested stream id; on Ethernet with the talker's address (IEEE
/// 1722-2016 §4.4.4.8).
pub fn identity(to: &[Resolved]) -> Result<Identity, RunError> {
    let random = random_identity()?;
    if let Some(stream) = to.iter().find_map(|to| to.stream) {
        return Ok(Identity { stream, ..random });
    }
    let Some(place) = to.iter().find_map(Resolved::ethernet) else { return Ok(random) };
    // If the interface has no address, as on loopback, a random id avoids collisions.
    let Ok([a, b, c, d, e, f]) = own_address(&place.interface) else { return Ok(random) };
    let number = random.stream.0 & u64::from(u16::MAX);
    let stream = StreamId(u64::from_be_bytes([a, b, c, d, e, f, 0, 0]) | number);
    Ok(Identity { stream, ..random })
}

/// Jitter buffer settings; the address's description takes precedence.
pub fn receiver(
    resolved: &Resolved,
    format: StreamFormat,
    link_offset: Span,
) -> JitterBufferConfig {
    let described = resolved.description.as_ref();
    let wire = match described {
        Some(described) => RtpUnpack::described(described.extensions),
        None => resolved.form.unpack(resolved.stream),
    };
    JitterBufferConfig::new(wire, format, link_offset)
}

/// `format`, or the address's description.
pub fn described(resolved: &Resolved, format: StreamFormat) -> StreamFormat {
    let Some(described) = &resolved.description else { return format };
    StreamFormat {
        sample: described.sample,
        codec: described.codec,
        payload_type: described.payload_type,
        packet: described.packet.unwrap_or(format.packet),
        ..format
    }
}

impl RecvPlan {
    /// Mixes and plays streams unchanged.
    pub fn new(streams: Vec<StreamPlan>, device: Settings) -> Self {
        Self {
            streams,
            clock: None,
            select: ProgramRule::Mix,
            zone: None,
            gain: Gain::UNITY,
            map: ChannelMap::identity(device.channels.count()),
            device,
            exit_on_bye: false,
            probes: Probes::All,
            ledger: None,
            labels: None,
        }
    }
}
