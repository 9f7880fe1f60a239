//! Sockets, format and latency of each stream of `taut recv`.

use tautline_audio::DeviceSpec;
use tautline_engine::plan::address::{Address, EthernetPlace, Resolved};
use tautline_engine::plan::alongside::follow;
use tautline_engine::plan::lay;
use tautline_engine::plan::sockets;
use tautline_engine::plan::{ClockPlan, LinkKind, StreamPlan};
use tautline_engine::receive_engine::learn::PlayableStream;
use tautline_io::ethernet::own_address;
use tautline_io::thread::Scheduler;
use tautline_proto::device::Settings;
use tautline_proto::packet::Codings;
use tautline_proto::receive_policy::ReceivePolicyConfig;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Span;
use tautline_proto::wire::WireForm;
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::rtp::RtpUnpack;

use crate::failure::Failure;
use crate::flags::Recv;
use crate::messages::counted;
use crate::sealing::StreamKey;

pub(super) struct ReceiveAddress<'a> {
    pub(super) address: &'a Address,
    pub(super) resolved: Resolved,
    /// First packets, if they determined the format.
    pub(super) begun: Option<PlayableStream>,
}

pub(super) fn check_alike(
    ReceiveAddress { address, resolved, .. }: &ReceiveAddress<'_>,
    format: &StreamFormat,
) -> Result<(), Failure> {
    let Some(described) = &resolved.description else { return Ok(()) };
    if (described.rate, described.channels) == (format.rate, format.channels) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{address} has {} with {}, but the device runs at {} with {}\nhint: leave --rate and \
         --channels out, or run one taut for each format",
        described.rate,
        counted(described.channels),
        format.rate,
        format.channels
    )))
}

pub(super) fn stream(
    flags: &Recv,
    ReceiveAddress { address, resolved, begun }: &mut ReceiveAddress<'_>,
    promised: Option<Span>,
    (format, proven): (StreamFormat, bool),
    device: &Settings,
) -> Result<StreamPlan, Failure> {
    let described = resolved.description.as_ref();
    let promised = described.and_then(|d| d.link_offset).or(promised);
    let link_offset = latency(flags, promised, &format, device)?;
    let format = lay::described(resolved, format);
    let codings = match (flags.stream.payload_type, flags.stream.format) {
        (Some(_), _) => Codings::Exactly,
        (None, Some(_)) => Codings::Any,
        (None, None) if proven => Codings::Any,
        (None, None) => Codings::ByConvention,
    };
    let mut receiver = lay::receiver(resolved, format, link_offset);
    receiver.resampler = flags.resampler;
    receiver.decoders = Some(tautline_codec::decoder);
    if described.is_none() && resolved.form == WireForm::Rtp {
        receiver.wire = RtpUnpack::taking(codings);
    }
    let key = StreamKey::of(flags.srtp_key_file.as_deref(), [(*address, &*resolved)])?;
    let open = |succeeds| {
        let options = sockets::receiving((address, resolved), &format).succeeding(succeeds);
        key.open(&options, wire_thread(flags, address))
    };
    let opened = match begun.take() {
        Some(PlayableStream::Opened(opened)) => opened,
        Some(PlayableStream::Kept(listened)) => listened.succeed(open)?,
        Some(PlayableStream::Anew) | None => open(false)?,
    };
    if let Some((packets, reports)) = opened.local {
        let words = format!("sockets: packets at {packets}, RTCP at {reports}, for {address}");
        flags.running.voice().detail(&words);
    }
    Ok(StreamPlan {
        policy: ReceivePolicyConfig {
            latency: flags.latency.unwrap_or_default(),
            loss_target: flags.loss_target,
            sender_adapts: false,
        },
        sealed: key.profile(),
        ..StreamPlan::of(address, receiver, opened)
    })
}

/// The device thread's scheduler, if a wire thread should read below it.
pub(super) const fn wire_thread(flags: &Recv, from: &Address) -> Option<Scheduler> {
    match flags.io_thread {
        LinkKind::Threaded => Some(flags.timing.scheduler),
        // TCP has no kernel timestamps, so a thread must read immediately.
        LinkKind::Auto if from.is_by_tcp() => Some(flags.timing.scheduler),
        LinkKind::Auto | LinkKind::Direct => None,
    }
}

/// A followed clock refers to TAI, as only AVTP does.
pub(super) fn check_clock(flags: &Recv) -> Result<(), Failure> {
    let other = |from: &&Address| !matches!(from.form(), WireForm::Avtp(_));
    match flags.from.iter().find(other) {
        Some(from) if flags.clock.is_some() => Err(Failure::usage(format!(
            "--clock is for AVTP streams, but {from} is not one\nhint: leave --clock out, or receive from avtp://"
        ))),
        _ => Ok(()),
    }
}

/// AVTP via Ethernet has no goodbye, so `--exit-on-bye` would wait forever.
pub(super) fn check_goodbye(flags: &Recv, from: &Address) -> Result<(), Failure> {
    if !flags.exit_on_bye || from.form() != WireForm::Avtp(Encapsulation::Ethernet) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--exit-on-bye: {from} is AVTP over Ethernet, which has no goodbye\n\
         hint: use --duration, or end with Ctrl-C"
    )))
}

/// Warns about Ethernet addresses of other machines: only mirroring would deliver their packets.
pub(super) fn print_others(flags: &Recv, from: &[ReceiveAddress<'_>]) {
    for ReceiveAddress { address, resolved, .. } in from {
        let Some(EthernetPlace { interface, address: requested, .. }) = resolved.ethernet() else {
            continue;
        };
        let own =
            own_address(interface).ok().filter(|own| own != requested && !is_group(requested));
        if let Some([a, b, c, d, e, f]) = own {
            flags.running.voice().notify(&format!(
                "{address} is neither a group nor the address of {interface}, which is \
                 {a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{f:02X}: switches do not forward it here\nhint: use that \
                 address, or the group of the stream"
            ));
        }
    }
}

/// Whether the MAC address is multicast (IEEE 802 §8.2.2).
const fn is_group(address: &[u8; 6]) -> bool {
    address[0] & 1 == 1
}

/// The followed clock has its own socket, or shares the socket of a stream with its address.
pub(super) fn clock(
    flags: &Recv,
    from: &[ReceiveAddress<'_>],
    streams: Vec<StreamPlan>,
) -> Result<(Vec<StreamPlan>, Option<ClockPlan>), Failure> {
    let Some(address) = &flags.clock else { return Ok((streams, None)) };
    let resolved = address.resolve()?;
    let places: Vec<_> =
        from.iter().map(|received| (received.address, &received.resolved)).collect();
    Ok(follow((address, &resolved), &places, streams)?)
}

/// Chosen, announced or default latency, or the initial adaptive one. At least the possible
/// minimum.
pub(super) fn latency(
    flags: &Recv,
    promised: Option<Span>,
    format: &StreamFormat,
    device: &Settings,
) -> Result<Span, Failure> {
    let rule = flags.latency.unwrap_or_default();
    lay::kept(rule, promised, format, device).map_err(|short| {
        Failure::usage(format!(
            "--latency {} is too short: {}\nhint: use --latency {} or more, shorter packets at the sender or a \
             shorter {}",
            short.requested,
            short.needs,
            short.needs.total(),
            match flags.output {
                DeviceSpec::Jack(_) => "period of the JACK server (jackd -p)",
                _ => "--period",
            }
        ))
    })
}
