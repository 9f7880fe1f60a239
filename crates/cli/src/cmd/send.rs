mod changes;
mod latency;
mod sdp;

use std::net::SocketAddr;
use std::sync::Arc;

use tautline_audio::{Extras, FileFormat, Opened, Wanted};
use tautline_codec::{encoder, encoders};
use tautline_dsp::format::SampleFormat;
use tautline_dsp::map::ChannelMap;
use tautline_engine::control::requests;
use tautline_engine::monitor::note::messages::claimed;
use tautline_engine::plan::address::{Address, MAX_AHEAD, Resolved};
use tautline_engine::plan::claim::{ClaimError, ClaimedAddress};
use tautline_engine::plan::pacing::{self, Paced, PacingMode};
use tautline_engine::plan::sockets::{LinkOptions, ethernet_sender, sending_by_tcp};
use tautline_engine::plan::too_long::too_long;
use tautline_engine::plan::{LinkKind, SendPlan, lay, sockets};
use tautline_engine::send_engine::SendEngine;
use tautline_io::udp::{DSCP_MEDIA, FragmentPolicy, UdpOptions};
use tautline_proto::device::{Direction, Settings};
use tautline_proto::latency::{LatencyRule, LatencySum};
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::{Coding, MAX_DATAGRAM_BYTES, StreamFormat, packet_frames};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Channels;
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::{PacketHeads, WireForm};

use super::{
    device_settings, print_coding_time, print_period, print_stream, reported_pacing, resolve_all,
    run_options, settled, stop_on_signals, within,
};
pub(crate) use changes::SendLines;
use changes::{in_bits, refuse_two_readers};
use latency::{destinations_of_file, lasting, latency};

use crate::control;
use crate::failure::Failure;
use crate::flags::Send;
use crate::messages::{fragments, longer};
use crate::on_lost::hook;
use crate::redundancy;
use crate::sealing::StreamKey;
use crate::show::Show;
use crate::sound_files;

pub(crate) fn run(flags: &mut Send) -> Result<(), Failure> {
    refuse_two_readers(flags)?;
    sound_files::refuse_to_loop(&flags.input, flags.looped)?;
    flags.running.refuse_partial_packet_log()?;
    let wanted = Wanted { rate: flags.stream.rate, channels: flags.stream.channels };
    let input = flags.input.clone();
    let looked = move || tautline_audio::probe(&input, wanted);
    let is_pipe = sound_files::is_streamed(&flags.input);
    let file = within(&flags.running, (&flags.input, is_pipe), looked)??;
    let wanted =
        device_settings(&flags.timing, flags.stream.rate, flags.stream.channels, file.as_ref());
    let rate = flags.stream.rate.or(file.as_ref().map(|file| file.rate));
    let device = settled(&flags.input, Direction::Capture, wanted, rate)?;
    print_period(flags.running.voice(), &flags.input, &flags.timing, &device);
    let map = match &flags.sound.map {
        Some(map) => map.clone(),
        None => ChannelMap::identity(device.channels.count()),
    };
    map.check(device.channels.count()).map_err(|error| Failure::usage(error.to_string()))?;
    let heads = heads(flags)?;
    let format = stream_format(flags, device, &map, file.as_ref())?;
    let encoders = match flags.running.control {
        true => encoders(&format, flags.bitrate),
        false => encoder(&format).map(|one| one.into_iter().collect()),
    };
    let encoders = encoders.map_err(|error| Failure::usage(error.to_string()))?;
    heads.form.check(&format).map_err(|error| Failure::usage(error.to_string()))?;
    if heads.form.presents() && matches!(flags.latency, Some(LatencyRule::Auto { .. })) {
        return Err(Failure::usage(
            "--latency auto follows the receivers' requests, but AVTP packets carry a fixed presentation time\n\
             hint: use --latency TIME or --max-transit-time",
        ));
    }
    let budget = redundancy::budget(flags, &format, &device)?;
    let file_to = destinations_of_file(flags);
    let latency = latency(flags, (&format, &device), &budget, file_to.as_deref())?;
    refuse_untellable(flags, latency, format.packing_age(device.period))?;
    // Takes 2 s, so other errors come first.
    let claim = claim(flags)?;
    let flags: &Send = flags;
    let to = match file_to {
        Some(to) => to,
        None => resolve_all(&flags.to, &flags.running)?,
    };
    let key = StreamKey::of(flags.srtp_key_file.as_deref(), flags.to.iter().zip(&to))?;
    refuse_what_a_key_forbids(flags, &key)?;
    let regulator = redundancy::regulator(flags, &to, budget.first);
    let mut by = link_options(flags, &to, &format, (heads, key.room()))?;
    if let (true, LinkOptions::Udp(udp)) = (flags.running.control, &mut by) {
        lay::make_room_for_changes(udp, &format, device.period, heads);
    }
    let options = run_options(&flags.timing, &flags.running);
    let opened = open_source(flags, device)?;
    let requested = (link_kind(flags)?, flags.pacing);
    let age = format.packing_age(device.period);
    let spare = flags.transit().unwrap_or(latency - age);
    let paced =
        pacing::pace(&mut by, requested, (&format, device.period), (spare, options.scheduler))?;
    if let Some(every) = flags.tx_timestamp_every {
        by.stamp_every(every);
    }
    let latency = match flags.transit() {
        Some(transit) => age + paced.lead() + transit,
        None => lasting(latency, LatencySum::of(age + paced.lead(), &device), paced.mode)?,
    };
    let wire_below = paced.by_wire_thread.then_some(options.scheduler);
    let limits = redundancy::limits(flags)?;
    let opened_stream = key.open(&by, wire_below)?;
    let local = opened_stream.local;
    let address = flags.to.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let mut plan = SendPlan::new(address, opened_stream, format, device)?;
    let policy = &mut plan.policy;
    policy.link_offset = latency;
    // For receivers, the maximum of auto is a limit; a higher request is reported.
    policy.latency = match flags.latency.unwrap_or_default() {
        LatencyRule::Auto { .. } => LatencyRule::AUTO,
        rule => rule,
    };
    policy.stamps = heads.stamps;
    policy.redundancy = regulator;
    policy.repair_budget = budget.requested;
    policy.limits = limits;
    policy.form = heads.form;
    policy.identity = lay::identity(&to)?;
    plan.stream.probes = flags.running.sample_packets;
    plan.stream.sealed = key.profile();
    plan.stream.pacing = Some(paced.clone());
    let plan = SendPlan {
        reports_to: to.iter().filter_map(Resolved::reports).map(Into::into).collect(),
        encoders,
        gain: flags.sound.volume,
        map,
        ledger: flags.running.packet_log.clone(),
        claim,
        ..plan
    };
    let udp = match &by {
        LinkOptions::Udp(udp) => Some(&**udp),
        LinkOptions::Tcp(_) | LinkOptions::Ethernet(_) => None,
    };
    let description = udp.and_then(|udp| sdp::describe(&plan, udp, &to, (flags, &key)));
    let described = flags.sdp.as_ref().zip(description);
    let mut engine = SendEngine::new(plan)?;
    // Without open sockets there is no stream to describe.
    let awaited = match described {
        Some((path, description)) => sdp::write(path, &description)?,
        None => None,
    };
    flags.on_lost.iter().for_each(|command| engine.on_lost(hook(command.clone())));
    let mut show = Show::open("send", &flags.running)?;
    show.listen_to(opened.notes);
    engine.show_to(show.observers());
    print_details(flags, local, (&format, heads), &device);
    note_packet_size(flags, &to, (&format, heads));
    file.iter().for_each(|file| tell_of_rounding(flags, file, &format));
    print_pacing(flags, &paced, latency, age);
    redundancy::notify(flags, &regulator, &format);
    let stop = stop_on_signals()?;
    if flags.running.control {
        let (asker, requests) = requests();
        engine.listen(requests);
        let lines = SendLines {
            form: heads.form,
            udp: udp.cloned(),
            bitrate: flags.bitrate,
            channels: format.channels,
        };
        control::listen(asker, show.answers(), stop.clone(), move |verb, rest| {
            lines.read(verb, rest)
        })?;
    }
    let report = engine.run(opened.device, &options, &stop, &mut |progress| {
        opened.latency.set(progress.link_offset);
        show.on(progress);
    })?;
    if awaited.is_some_and(|reader| !reader.is_finished()) {
        flags.running.voice().notify("--sdp: no program read the description");
    }
    show.end(report)
}

/// Claims a group address for a stream that names only an interface.
fn claim(flags: &mut Send) -> Result<Option<Arc<ClaimedAddress>>, Failure> {
    let Some(without) = flags.to.iter().find(|to| to.unclaimed().is_some()) else {
        return Ok(None);
    };
    refuse_two_by_ethernet(flags)?;
    let without = without.clone();
    let refused = |error: ClaimError| Failure::open(error.to_string());
    let Some(claim) = ClaimedAddress::begin(&without).map_err(refused)? else { return Ok(None) };
    let goes_to = claim.wait().map_err(refused)?;
    flags.running.voice().notify(&claimed(&without.to_string(), &goes_to.to_string()));
    flags.to = vec![goes_to];
    Ok(Some(Arc::new(claim)))
}

fn refuse_two_by_ethernet(flags: &Send) -> Result<(), Failure> {
    if !flags.redundancy.paths.is_empty() {
        return Err(Failure::usage(format!(
            "{} has one network, so --redundancy paths: is not possible\n\
             hint: leave paths: out, or send to avtp+udp://",
            flags.to[0]
        )));
    }
    if flags.to.len() == 1 {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} is an Ethernet address and must be the only --to\n\
         hint: use a group address, or run one taut for each",
        flags.to[0]
    )))
}

fn form_of(flags: &Send) -> WireForm {
    flags.to.first().map_or(WireForm::Rtp, Address::form)
}

fn heads(flags: &Send) -> Result<PacketHeads, Failure> {
    let form = form_of(flags);
    if let Some(other) = flags.to.iter().find(|to| to.form() != form) {
        return Err(Failure::usage(format!(
            "{} and {other} need different packet formats\nhint: run one taut for each",
            flags.to[0]
        )));
    }
    let refused = [
        ("--redundancy", flags.redundancy.amount != Redundancy::Off),
        ("--payload-type", flags.stream.payload_type.is_some()),
        ("--sdp", flags.sdp.is_some()),
        ("--no-header-extensions", flags.no_header_extensions),
    ];
    if let Some((option, _)) =
        refused.into_iter().find(|(_, requested)| *requested && form.presents())
    {
        return Err(Failure::usage(format!(
            "{option} is for RTP, but {} is AVTP\nhint: leave the option out",
            flags.to[0]
        )));
    }
    if flags.on_lost.is_some() && form == WireForm::Avtp(Encapsulation::Ethernet) {
        let to = &flags.to[0];
        return Err(Failure::usage(format!(
            "--on-lost: receivers of {to} send no reports\nhint: leave the option out"
        )));
    }
    if flags.dscp.is_some() && form == WireForm::Avtp(Encapsulation::Ethernet) {
        return Err(Failure::usage(format!(
            "--dscp is for IP, but {} is Ethernet\nhint: leave the option out, or set the priority with ?prio=3",
            flags.to[0]
        )));
    }
    Ok(PacketHeads { form, stamps: !flags.no_header_extensions })
}

/// Presentation times limit the latency. `age` is the packets' age at departure.
fn refuse_untellable(flags: &Send, latency: Span, age: Span) -> Result<(), Failure> {
    let ahead = flags.transit().map_or(latency, |transit| age + transit);
    if ahead <= MAX_AHEAD || !form_of(flags).presents() {
        return Ok(());
    }
    let limit = format!("AVTP presentation times are at most {MAX_AHEAD} ahead");
    let Some(time) = flags.max_transit_time else {
        return Err(Failure::usage(format!(
            "--latency {latency} is too long: {limit}\nhint: use --latency {MAX_AHEAD} or less"
        )));
    };
    let uncertainty = flags.time_uncertainty;
    let maximum = MAX_AHEAD - age - uncertainty;
    let hint = match Span::from_millis(maximum.as_nanos().div_euclid(1_000_000)) {
        maximum if maximum > Span::ZERO => format!("use --max-transit-time {maximum} or less"),
        _ => "use a shorter --time-uncertainty".to_owned(),
    };
    Err(Failure::usage(format!(
        "--max-transit-time {time} with --time-uncertainty {uncertainty} is too long: {limit}, and packets \
         depart after {age}\nhint: {hint}"
    )))
}

fn open_source(flags: &Send, device: Settings) -> Result<Opened, Failure> {
    let extras = Extras { looped: flags.looped, ..Extras::default() };
    Ok(tautline_audio::open_supervised(&flags.input, Direction::Capture, device, extras)?)
}

fn stream_format(
    flags: &Send,
    device: Settings,
    map: &ChannelMap,
    file: Option<&FileFormat>,
) -> Result<StreamFormat, Failure> {
    let coding = match (flags.stream.format, file) {
        (Some(coding), _) => coding,
        (None, Some(file)) => file.coding.exact_format().max(SampleFormat::L24).into(),
        (None, None) => SampleFormat::L24.into(),
    };
    let packet = packet_frames(device.rate, flags.ptime())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let channels =
        Channels::new(map.outputs() as u32).map_err(|error| Failure::usage(error.to_string()))?;
    let Coding { sample, codec } = in_bits(coding, flags.bitrate, channels)?;
    let usual = || match codec {
        None => form_of(flags).coding(sample),
        Some(_) => StreamFormat::usual_payload_type(sample, codec),
    };
    let payload_type = flags.stream.payload_type.unwrap_or_else(usual);
    Ok(StreamFormat { codec, rate: device.rate, channels, sample, packet, payload_type })
}

/// Rejects redundancy that other programs would play as noise, and `--sdp-key` without a key.
fn refuse_what_a_key_forbids(flags: &Send, key: &StreamKey) -> Result<(), Failure> {
    if flags.redundancy.amount != Redundancy::Off && key.is_misheard_with_redundancy() {
        return Err(Failure::usage(
            "--redundancy with an AES_CM_128_HMAC_SHA1_80 key is loud noise in programs without RFC 9335\n\
             hint: use an AEAD_AES_256_GCM key (taut srtp-key), or leave --redundancy out",
        ));
    }
    if flags.sdp_key && key.profile().is_none() {
        return Err(Failure::usage(
            "--sdp-key needs --srtp-key-file\nhint: add --srtp-key-file, or leave --sdp-key out",
        ));
    }
    Ok(())
}

fn link_options(
    flags: &Send,
    to: &[Resolved],
    format: &StreamFormat,
    (heads, seal_room): (PacketHeads, usize),
) -> Result<LinkOptions, Failure> {
    if let Some(place) = to.iter().find_map(Resolved::tcp) {
        refuse_beside_a_connection(flags)?;
        return Ok(by_tcp(flags, place, (format, flags.timing.period()), heads));
    }
    let Some(place) = to.iter().find_map(Resolved::ethernet) else {
        return Ok(LinkOptions::Udp(Box::new(sockets(flags, to, format, (heads, seal_room))?)));
    };
    refuse_two_by_ethernet(flags)?;
    let batch = lay::batch(flags.timing.period(), format.packet);
    Ok(LinkOptions::Ethernet(ethernet_sender(place, format, batch)))
}

fn by_tcp(
    flags: &Send,
    place: SocketAddr,
    (format, period): (&StreamFormat, Frames),
    heads: PacketHeads,
) -> LinkOptions {
    let mut room = UdpOptions::default();
    lay::make_room(&mut room, format, period, heads);
    if flags.running.control {
        lay::make_room_for_changes(&mut room, format, period, heads);
    }
    let mut link = sending_by_tcp(place, (format, room.datagram_bytes), room.batch);
    if let LinkOptions::Tcp(link) = &mut link {
        link.options.dscp = flags.dscp.unwrap_or(DSCP_MEDIA);
        link.options.packets_per_second = room.packets_per_second;
    }
    link
}

/// A connection has one destination and one path; no session description covers it.
fn refuse_beside_a_connection(flags: &Send) -> Result<(), Failure> {
    let to = &flags.to[0];
    let refused = if flags.to.len() > 1 {
        "is a connection and must be the only --to\nhint: run one taut for each"
    } else if !flags.redundancy.paths.is_empty() {
        "is a connection with one network, so --redundancy paths: is not possible\nhint: leave paths: out"
    } else if flags.sdp.is_some() {
        "is a connection, which --sdp cannot describe\nhint: leave --sdp out"
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!("{to} {refused}")))
}

fn sockets(
    flags: &Send,
    to: &[Resolved],
    format: &StreamFormat,
    (heads, seal_room): (PacketHeads, usize),
) -> Result<UdpOptions, Failure> {
    let bytes = heads.datagram_bytes(format) + seal_room;
    let mut udp = UdpOptions::sender(to.iter().filter_map(Resolved::media).collect());
    sockets::set(&mut udp, &flags.to, to)?;
    udp.dscp = flags.dscp.unwrap_or(DSCP_MEDIA);
    lay::make_room(&mut udp, format, flags.timing.period(), heads);
    // Even encrypted, a packet with its redundancy must fit one frame.
    udp.datagram_bytes = heads.datagram_bytes(format).max(udp.datagram_bytes - seal_room);
    udp.fragment = flags.fragment;
    let allowed = flags.fragment == FragmentPolicy::Allow && bytes <= MAX_DATAGRAM_BYTES;
    match too_long(to.iter().filter_map(Resolved::media), bytes, format).next() {
        Some(too_long) if !allowed => {
            let (what, shorter) = (longer(&too_long), too_long.shorter);
            Err(Failure::usage(format!("{what}\nhint: use --ptime {shorter} or less")))
        }
        _ => redundancy::by_networks(&flags.redundancy.paths, udp),
    }
}

fn print_details(
    flags: &Send,
    local: Option<(SocketAddr, SocketAddr)>,
    (format, heads): (&StreamFormat, PacketHeads),
    device: &Settings,
) {
    let voice = flags.running.voice();
    let to = flags.to.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    if let Some((packets, reports)) = local {
        voice.detail(&format!(
            "sockets: packets leave from {packets}, RTCP from {reports}, to {to}"
        ));
    }
    print_stream(voice, &flags.input, device, format, heads);
    print_coding_time(voice, (&flags.input, device, Direction::Capture), 1, format);
}

fn link_kind(flags: &Send) -> Result<LinkKind, Failure> {
    let wanted = match flags.pacing {
        Some(PacingMode::Sleep) => LinkKind::Threaded,
        Some(PacingMode::Batch) => LinkKind::Direct,
        _ => flags.io_thread,
    };
    if flags.io_thread != LinkKind::Auto && flags.io_thread != wanted {
        let (pacing, link) = (flags.pacing.map_or("auto", PacingMode::name), wanted.name());
        return Err(Failure::usage(format!(
            "--pacing {pacing} implies --io-thread {link}\nhint: leave --io-thread out"
        )));
    }
    Ok(wanted)
}

fn print_pacing(flags: &Send, paced: &Paced, latency: Span, age: Span) {
    let voice = flags.running.voice();
    voice.detail(&reported_pacing(paced));
    let left = age + paced.lead();
    voice.detail(&format!(
        "latency: {latency} announced; packets are up to {left} old when they leave, so the transit may take {} \
         (--max-transit-time)",
        latency - left
    ));
}

fn tell_of_rounding(flags: &Send, file: &FileFormat, format: &StreamFormat) {
    let (needs, sample) = (file.coding.exact_format(), format.sample);
    let coding = format.coding();
    if coding.is_exact_for(needs) || coding.bitrate().is_some() {
        return;
    }
    let dither = if sample == SampleFormat::L16 { " with dither" } else { "" };
    let (input, bits, sample) = (&flags.input, 8 * sample.bytes(), sample.name());
    flags.running.voice().notify(&format!(
        "{input}: samples of more than {bits} bits are rounded to {sample}{dither}"
    ));
}

fn note_packet_size(flags: &Send, to: &[Resolved], (format, heads): (&StreamFormat, PacketHeads)) {
    let voice = flags.running.voice();
    let (ptime, packet, rate) = (format.ptime(), format.packet, format.rate);
    let requested = flags.ptime();
    if (ptime - requested).abs() >= Span::from_micros(1) {
        voice.notify(&format!(
            "--ptime {requested} is {packet} whole frames at {rate}, so packets have {ptime}"
        ));
    }
    let bytes = heads.datagram_bytes(format);
    for long in too_long(to.iter().filter_map(Resolved::media), bytes, format) {
        voice.notify(&fragments(&long, ptime));
    }
}
