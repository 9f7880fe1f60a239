//! `taut recv`

use std::sync::{Arc, OnceLock};

use tautline_audio::Extras;
use tautline_dsp::format::SampleFormat;
use tautline_dsp::map::ChannelMap;
use tautline_engine::control::{RecvChange, Requests, requests};
use tautline_engine::learn::{Learnt, learn};
use tautline_engine::plan::{LatencyRule, RecvPlan, StreamPlan, least_latency};
use tautline_engine::recv::RecvEngine;
use tautline_engine::run::RunError;
use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_io::pair::open_pair;
use tautline_io::udp::UdpOptions;
use tautline_io::wire_thread::{Ringed, WireOptions};
use tautline_proto::device::{Direction, Settings, Stop};
use tautline_proto::receiver::{PayloadTypes, ReceiverConfig};
use tautline_proto::stream::{LONGEST_LINK_OFFSET, PTIME_RANGE, StreamFormat, packet_frames};
use tautline_proto::time::Span;
use tautline_proto::units::Channels;
use tautline_proto::wire::rtcp::Announcement;
use tautline_proto::wire::rtp::{ExtensionIds, STAMPED_HEADER_BYTES};
use tautline_proto::wire::sdp::Description;

use super::recv_changes::RecvLines;
use super::send::DEFAULT_LATENCY;
use super::{as_specified, device_settings, run_options, stop_on_signals};
use crate::address::{Address, Resolved};
use crate::control;
use crate::failure::Failure;
use crate::flags::{Latency, LinkFlag, Recv, ReportKind};
use crate::screen::{self, Answers};
use crate::show::Show;

pub(crate) fn run(flags: &Recv) -> Result<(), Failure> {
    super::takes::refuse_to_overwrite(&flags.output, flags.overwrite)?;
    let from: Vec<(&Address, Resolved)> = flags
        .from
        .iter()
        .map(|address| Ok((address, address.resolve()?)))
        .collect::<Result<_, Failure>>()?;
    let stop = stop_on_signals()?;
    let described = from.iter().find_map(|(_, resolved)| resolved.description.as_ref());
    // What cannot work is said before a sender is waited for.
    let (format, device, _) = layout(flags, described, None)?;
    latency(flags.timing.latency, None, &format, &device)?;
    if let Some(path) = &flags.running.ledger {
        let created = std::fs::File::create(path);
        created.map_err(|error| RunError::Ledger { path: path.clone(), error })?;
    }
    let mut show = Show::open("recv", &flags.running)?;
    let shape = Arc::<OnceLock<_>>::default();
    let requests = match flags.running.control {
        true => Some(take_changes(flags, &shape, (show.answers(), stop.clone()))?),
        false => None,
    };
    let until = flags.running.duration.map(|duration| now() + duration);
    let over = || stop.is_requested() || until.is_some_and(|until| now() >= until);
    let announced = announced(flags, &from, over)?;
    let (format, device, map) = layout(flags, described, announced.map(|a| a.format))?;
    // What a sender says must not take all memory.
    let promised = announced.map(|a| a.link_offset.min(LONGEST_LINK_OFFSET));
    shape.get_or_init(|| (format, device));
    for (address, resolved) in &from {
        check_alike(address, resolved, &format)?;
    }
    let mut options = run_options(&flags.timing, &flags.running);
    // What was spent on waiting for the sender is a part of it.
    options.duration = until.map(|until| (until - now()).max(Span::from_nanos(1)));
    let streams = from
        .iter()
        .map(|(address, resolved)| stream(flags, (address, resolved), promised, format, &device))
        .collect::<Result<Vec<_>, Failure>>()?;
    let plan = RecvPlan {
        streams,
        select: flags.select,
        gain: flags.sound.volume,
        map,
        device,
        until_bye: flags.until_bye,
        ledger: flags.running.ledger.clone(),
    };
    let mut engine = RecvEngine::new(plan)?;
    if let Some(requests) = requests {
        engine.listen(requests);
    }
    let extras = Extras { listener: engine.listener(), record_format: format.sample };
    let opened =
        tautline_audio::open_supervised(&flags.output, Direction::Playback, device, extras)?;
    show.listen_to(opened.notes);
    if knows_shape(flags, &from) {
        tell_listening(flags);
    }
    let report =
        engine.run(opened.device, &options, &stop, &mut |progress| show.on_receiving(progress))?;
    show.end(report)
}

/// Takes changes from here on: also while a sender is waited for.
fn take_changes(
    flags: &Recv,
    shape: &Arc<OnceLock<(StreamFormat, Settings)>>,
    (answers, stop): (Answers, Stop),
) -> Result<Requests<RecvChange>, Failure> {
    let (asker, requests) = requests();
    let lines = RecvLines { flags: flags.clone(), shape: Arc::clone(shape) };
    control::listen(asker, (answers, stop), move |verb, rest| lines.read(verb, rest))?;
    Ok(requests)
}

/// Whether it is settled what the stream is before a sender is heard: it was described, or said
/// here. Who names a coding speaks of a sender that announces nothing, and wants the usual rest.
fn knows_shape(flags: &Recv, from: &[(&Address, Resolved)]) -> bool {
    let stream = &flags.stream;
    (stream.rate.is_some() && stream.channels.is_some())
        || stream.format.is_some()
        || stream.payload_type.is_some()
        || from.iter().any(|(_, resolved)| resolved.description.is_some())
}

fn tell_listening(flags: &Recv) {
    if flags.running.report != ReportKind::None {
        flags.from.iter().for_each(|from| screen::tell(&format!("listening at {from}")));
    }
}

/// What the first sender says of its stream, where nobody said it here.
fn announced(
    flags: &Recv,
    from: &[(&Address, Resolved)],
    over: impl Fn() -> bool,
) -> Result<Option<Announcement>, Failure> {
    if knows_shape(flags, from) {
        return Ok(None);
    }
    let mut pairs = from
        .iter()
        .map(|(address, resolved)| Ok(open_pair(&reception(address, resolved))?))
        .collect::<Result<Vec<_>, Failure>>()?;
    tell_listening(flags);
    match learn(&mut pairs, over) {
        Learnt::Announced(announcement) => Ok(Some(announcement)),
        Learnt::Unannounced => {
            screen::tell(
                "the sender does not say what its stream is: 48000 Hz and 2 channels are assumed \
                 where --rate and --channels say nothing else",
            );
            Ok(None)
        }
        Learnt::Nothing => Ok(None),
    }
}

/// The format expected, the device that plays it and the map between.
fn layout(
    flags: &Recv,
    described: Option<&Description>,
    announced: Option<StreamFormat>,
) -> Result<(StreamFormat, Settings, ChannelMap), Failure> {
    let stream = &flags.stream;
    let rate = stream.rate.or(described.map(|d| d.rate)).or(announced.map(|a| a.rate));
    let channels = stream.channels.or(described.map(|d| d.channels));
    let channels = channels.or(announced.map(|a| a.channels));
    let mut device =
        as_specified(&flags.output, device_settings(&flags.timing, rate, channels, None));
    let sample = stream.format.map(SampleFormat::from).or(described.map(|d| d.sample));
    let sample = sample.or(announced.map(|a| a.sample));
    let sample = sample.unwrap_or(SampleFormat::L24);
    let packet = packet_frames(device.rate, flags.ptime)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let format = StreamFormat {
        rate: device.rate,
        channels: device.channels,
        sample,
        packet: described.and_then(|d| d.packet).unwrap_or(packet),
        payload_type: stream
            .payload_type
            .or(described.map(|d| d.payload_type))
            .unwrap_or_else(|| StreamFormat::default_payload_type(sample)),
    };
    let map = match &flags.sound.map {
        Some(map) => map.clone(),
        None => ChannelMap::identity(device.channels.count()),
    };
    map.check(device.channels.count()).map_err(|error| Failure::usage(error.to_string()))?;
    device.channels =
        Channels::new(map.outputs() as u32).map_err(|error| Failure::usage(error.to_string()))?;
    Ok((format, device, map))
}

/// All streams of one device have its rate and channels.
pub(super) fn check_alike(
    address: &Address,
    resolved: &Resolved,
    format: &StreamFormat,
) -> Result<(), Failure> {
    let Some(described) = &resolved.description else { return Ok(()) };
    if (described.rate, described.channels) == (format.rate, format.channels) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{address} is {} with {} channels and the device is to run at {} with {}; leave --rate and \
         --channels out, or receive streams that differ in programs of their own",
        described.rate, described.channels, format.rate, format.channels
    )))
}

pub(super) fn stream(
    flags: &Recv,
    (address, resolved): (&Address, &Resolved),
    promised: Option<Span>,
    format: StreamFormat,
    device: &Settings,
) -> Result<StreamPlan, Failure> {
    let described = resolved.description.as_ref();
    let promised = described.and_then(|d| d.link_offset).or(promised);
    let link_offset = latency(flags.timing.latency, promised, &format, device)?;
    let mut format = format;
    if let Some(described) = described {
        format.sample = described.sample;
        format.payload_type = described.payload_type;
        format.packet = described.packet.unwrap_or(format.packet);
    }
    let exact = described.is_some() || flags.stream.payload_type.is_some();
    let payload_types = match (exact, flags.stream.format) {
        (true, _) => PayloadTypes::Exactly,
        (false, Some(_)) => PayloadTypes::Any,
        (false, None) => PayloadTypes::ByConvention,
    };
    let receiver = ReceiverConfig {
        format,
        payload_types,
        extensions: described.map_or(ExtensionIds::DEFAULT, |d| d.extensions),
        link_offset,
        resampler: flags.resampler,
    };
    let options = sockets(address, resolved, &format);
    let (direct, control) = open_pair(&options)?;
    let link: Box<dyn Link> = match flags.link {
        LinkFlag::Ringed => {
            let wire = WireOptions::below(flags.timing.scheduler, &options);
            Box::new(Ringed::start(direct, wire)?)
        }
        LinkFlag::Auto | LinkFlag::Direct => Box::new(direct),
    };
    Ok(StreamPlan {
        address: address.to_string(),
        receiver,
        latency: match flags.timing.latency {
            None => LatencyRule::Sender,
            Some(Latency::Kept(_)) => LatencyRule::Chosen,
            Some(Latency::Auto) => LatencyRule::Arrivals,
        },
        loss_target: flags.loss_target,
        link,
        control,
        gain: address.gain,
    })
}

/// The latency chosen, promised, or the usual one, where it is to follow the packets to begin with:
/// but never less than can work here.
fn latency(
    chosen: Option<Latency>,
    promised: Option<Span>,
    format: &StreamFormat,
    device: &Settings,
) -> Result<Span, Failure> {
    let least = least_latency(format.ptime(), device);
    match chosen {
        Some(Latency::Kept(latency)) if latency < least => Err(Failure::usage(format!(
            "--latency {latency} is less than packets of {} and {} periods of {} frames take; use \
             --latency {least} or more, shorter packets at the sender or a shorter --period",
            format.ptime(),
            device.periods,
            device.period
        ))),
        Some(Latency::Kept(latency)) => Ok(latency),
        None | Some(Latency::Auto) => Ok(promised.unwrap_or(DEFAULT_LATENCY).max(least)),
    }
}

fn reception(address: &Address, resolved: &Resolved) -> UdpOptions {
    let mut options = UdpOptions::receiver(resolved.rtp);
    let described = resolved.description.as_ref();
    let mut interfaces = address.interface.iter().flat_map(|names| names.split(','));
    options.interface = interfaces.next().map(str::to_owned);
    options.also_heard_at = interfaces.map(str::to_owned).collect();
    options.source_filter =
        address.source.or_else(|| described.and_then(|d| d.sources.first().copied()));
    options
}

fn sockets(address: &Address, resolved: &Resolved, format: &StreamFormat) -> UdpOptions {
    let mut options = reception(address, resolved);
    // Packets of any length are taken, so there is room for the longest.
    let longest = format.rate.frames_within(PTIME_RANGE.1);
    // In whatever coding: the sender may change it.
    let widest = StreamFormat { sample: SampleFormat::F32, ..*format };
    let bytes = longest.as_len() * widest.frame_bytes() + STAMPED_HEADER_BYTES;
    options.datagram_bytes = bytes.clamp(1472, 65_507);
    options.packets_per_second = format.rate.hertz() / format.packet.count().max(1) as u32 + 1;
    options
}
