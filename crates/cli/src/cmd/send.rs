//! `taut send`

use std::net::SocketAddr;

use tautline_audio::{DeviceSpec, Extras, FileFormat, Opened, SoftwareSpec, Wanted};
use tautline_dsp::format::SampleFormat;
use tautline_dsp::map::ChannelMap;
use tautline_engine::control::requests;
use tautline_engine::plan::address::Resolved;
use tautline_engine::plan::too_long::{datagram_bytes, too_long};
use tautline_engine::plan::{LinkKind, SendPlan};
use tautline_engine::plan::{lay, sockets};
use tautline_engine::sending::SendEngine;
use tautline_io::udp::pair::open_stream;
use tautline_io::udp::{FragmentPolicy, UdpOptions};
use tautline_proto::device::{Direction, Settings};
use tautline_proto::latency::{usual_latency, usual_latency_in_graph};
use tautline_proto::stream::{MOST_DATAGRAM_BYTES, StreamFormat, packet_frames};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Channels;

use super::send_changes::{SendLines, refuse_loss};
use super::{device_settings, run_options, settled, stop_on_signals, tell_stream};
use crate::control;
use crate::failure::Failure;
use crate::flags::{Fragment, LinkFlag, Send};
use crate::redundancy::{self, Budget};
use crate::show::Show;
use crate::words::{fragments, longer};

pub(crate) fn run(flags: &Send) -> Result<(), Failure> {
    refuse_two_readers(flags)?;
    flags.running.refuse_a_ledger_of_few()?;
    let said = Wanted { rate: flags.stream.rate, channels: flags.stream.channels };
    let file = tautline_audio::probe(&flags.input, said)?;
    let wanted =
        device_settings(&flags.timing, flags.stream.rate, flags.stream.channels, file.as_ref());
    let rate = flags.stream.rate.or(file.as_ref().map(|file| file.rate));
    let device = settled(&flags.input, Direction::Capture, wanted, rate)?;
    let map = match &flags.sound.map {
        Some(map) => map.clone(),
        None => ChannelMap::identity(device.channels.count()),
    };
    map.check(device.channels.count()).map_err(|error| Failure::usage(error.to_string()))?;
    let format = stream_format(flags, device, &map, file.as_ref())?;
    let budget = redundancy::budget(flags, &format, &device)?;
    let latency = latency(flags, &format, &device, &budget)?;
    let to: Vec<Resolved> = flags.to.iter().map(|to| to.resolve()).collect::<Result<_, _>>()?;
    let regulator = redundancy::regulator(flags, &to, budget.first);
    let mut udp = sockets(flags, &to, &format)?;
    if flags.running.control {
        lay::make_room_for_changes(&mut udp, &format, device.period, !flags.no_stamps);
    }
    let options = run_options(&flags.timing, &flags.running);
    let opened = open_source(flags, device)?;
    let link = match flags.link {
        LinkFlag::Auto => LinkKind::Auto,
        LinkFlag::Direct => LinkKind::Direct,
        LinkFlag::Ringed => LinkKind::Ringed,
    };
    let wire_below = link.wire_below(options.scheduler, &format, device.period);
    let limits = redundancy::limits(flags)?;
    let opened_stream = open_stream(&udp, wire_below)?;
    let local = opened_stream.local;
    let address = flags.to.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let plan = SendPlan {
        reports_to: to.iter().map(|to| to.rtcp.into()).collect(),
        link_offset: latency,
        latency: flags.timing.latency.unwrap_or_default(),
        stamps: !flags.no_stamps,
        redundancy: regulator,
        repair_budget: budget.asked,
        limits,
        gain: flags.sound.volume,
        map,
        probes: flags.running.probes,
        ledger: flags.running.ledger.clone(),
        ..SendPlan::new(address, opened_stream, format, device)?
    };
    let described = flags.sdp.as_ref().zip(super::sdp::describe(&plan, &udp, &to, flags));
    let mut engine = SendEngine::new(plan)?;
    // Of sockets that cannot be opened there is no stream to describe.
    if let Some((path, description)) = described {
        super::sdp::write(path, &description)?;
    }
    let mut show = Show::open("send", &flags.running)?;
    show.listen_to(opened.notes);
    engine.show_to(show.observers());
    tell_details(flags, local, &format, &device, latency);
    tell_of_packets(flags, &to, &format);
    redundancy::tell(flags, &regulator, &format);
    let stop = stop_on_signals()?;
    if flags.running.control {
        let (asker, requests) = requests();
        engine.listen(requests);
        let needs = file.map(|file| file.coding.exact_format());
        let lines = SendLines { udp, input: flags.input.clone(), needs };
        control::listen(asker, show.answers(), stop.clone(), move |verb, rest| {
            lines.read(verb, rest)
        })?;
    }
    let report = engine.run(opened.device, &options, &stop, &mut |progress| {
        opened.latency.set(progress.link_offset);
        show.on(progress);
    })?;
    show.end(report)
}

fn open_source(flags: &Send, device: Settings) -> Result<Opened, Failure> {
    let extras = Extras { listener: None, record_format: SampleFormat::L24 };
    Ok(tautline_audio::open_supervised(&flags.input, Direction::Capture, device, extras)?)
}

/// Standard input holds sound or changes, not both.
fn refuse_two_readers(flags: &Send) -> Result<(), Failure> {
    if flags.running.control
        && matches!(flags.input, DeviceSpec::Software(SoftwareSpec::Standard(_)))
    {
        return Err(Failure::usage(
            "--control and --input file:- both read standard input; leave --control out, or send a \
             file by its name",
        ));
    }
    Ok(())
}

fn stream_format(
    flags: &Send,
    device: Settings,
    map: &ChannelMap,
    file: Option<&FileFormat>,
) -> Result<StreamFormat, Failure> {
    let sample = match (flags.stream.format, file) {
        (Some(coding), file) => {
            let sample = coding.into();
            if let Some(file) = file {
                refuse_loss(&flags.input, file.coding.exact_format(), sample)?;
            }
            sample
        }
        (None, Some(file)) => file.coding.exact_format().max(SampleFormat::L24),
        (None, None) => SampleFormat::L24,
    };
    let packet = packet_frames(device.rate, flags.ptime)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let channels =
        Channels::new(map.outputs() as u32).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(StreamFormat {
        rate: device.rate,
        channels,
        sample,
        packet,
        payload_type: flags
            .stream
            .payload_type
            .unwrap_or_else(|| StreamFormat::default_payload_type(sample)),
    })
}

fn latency(
    flags: &Send,
    format: &StreamFormat,
    device: &Settings,
    budget: &Budget,
) -> Result<Span, Failure> {
    let usual = match flags.input {
        DeviceSpec::Jack(_) | DeviceSpec::PipeWire(_) => usual_latency_in_graph,
        _ => usual_latency,
    };
    let repair = if budget.latency > Span::ZERO { budget.first } else { Span::ZERO };
    let usual = (usual(format, device.period) + repair).max(budget.latency);
    let least = format.packing_age(device.period);
    lay::promised(flags.timing.latency.unwrap_or_default(), usual, least).map_err(|short| {
        let (latency, least) = (short.asked, short.least);
        Failure::usage(format!(
            "--latency {latency} is less than the {least} that packets of {} take at a period of \
             {} frames; use --latency {least} or more, a shorter --ptime or a shorter --period",
            format.ptime(),
            device.period
        ))
    })
}

fn sockets(flags: &Send, to: &[Resolved], format: &StreamFormat) -> Result<UdpOptions, Failure> {
    let bytes = datagram_bytes(format, !flags.no_stamps);
    let mut udp = UdpOptions::sender(to.iter().map(|to| to.rtp).collect());
    sockets::set(&mut udp, &flags.to, to)?;
    udp.dscp = flags.dscp;
    lay::make_room(&mut udp, format, Frames::new(flags.timing.period.into()), !flags.no_stamps);
    udp.fragment = match flags.fragment {
        Fragment::Allow => FragmentPolicy::Allow,
        Fragment::Never => FragmentPolicy::Never,
    };
    let allowed = flags.fragment == Fragment::Allow && bytes <= MOST_DATAGRAM_BYTES;
    match too_long(to.iter().map(|to| to.rtp), bytes, format).next() {
        Some(too_long) if !allowed => {
            let (what, shorter) = (longer(&too_long), too_long.shorter);
            Err(Failure::usage(format!("{what}; use --ptime {shorter} or less")))
        }
        _ => redundancy::by_networks(&flags.redundancy.paths, udp),
    }
}

/// Says what was decided.
fn tell_details(
    flags: &Send,
    local: (SocketAddr, SocketAddr),
    format: &StreamFormat,
    device: &Settings,
    latency: Span,
) {
    let (voice, (rtp, rtcp)) = (flags.running.voice(), local);
    let to = flags.to.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    voice.detail(&format!("sockets: RTP leaves from {rtp}, RTCP from {rtcp}, to {to}"));
    tell_stream(voice, &flags.input, device, format, datagram_bytes(format, !flags.no_stamps));
    voice.detail(&format!(
        "latency: {latency} promised; packets are up to {} old when they leave",
        format.packing_age(device.period)
    ));
}

/// Says what the packets come to, where that is not what was asked for.
fn tell_of_packets(flags: &Send, to: &[Resolved], format: &StreamFormat) {
    let voice = flags.running.voice();
    let (ptime, packet, rate) = (format.ptime(), format.packet, format.rate);
    if ptime != flags.ptime {
        let asked = flags.ptime;
        voice.tell(&format!(
            "{asked} holds {packet} whole frames at {rate}, so packets carry {ptime}"
        ));
    }
    let bytes = datagram_bytes(format, !flags.no_stamps);
    for long in too_long(to.iter().map(|to| to.rtp), bytes, format) {
        voice.tell(&fragments(&long, ptime));
    }
}
