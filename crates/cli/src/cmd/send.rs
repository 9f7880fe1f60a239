//! `taut send`

use tautline_audio::{DeviceSpec, Extras, FileFormat, Opened};
use tautline_dsp::format::SampleFormat;
use tautline_dsp::map::ChannelMap;
use tautline_engine::plan::{LinkKind, SendPlan};
use tautline_engine::send::{SendEngine, random_identity};
use tautline_io::udp::{FragmentPolicy, UdpOptions, header_bytes, path_mtu};
use tautline_proto::device::{Direction, Settings};
use tautline_proto::stream::{StreamFormat, packet_frames};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Channels;
use tautline_proto::wire::rtp::{HEADER_BYTES, STAMPED_HEADER_BYTES};

use super::{as_specified, device_settings, run_options, stop_on_signals};
use crate::address::Resolved;
use crate::failure::Failure;
use crate::flags::{Fragment, LinkFlag, Send};
use crate::screen;
use crate::show::Show;

/// What is promised where nobody says otherwise.
pub(crate) const DEFAULT_LATENCY: Span = Span::from_millis(5);
/// Left for the network, a receiver's period and its wake-up where the latency is not chosen.
const SPARE: Span = Span::from_millis(4);

pub(crate) fn run(flags: &Send) -> Result<(), Failure> {
    let file = probe(&flags.input)?;
    let wanted =
        device_settings(&flags.timing, flags.stream.rate, flags.stream.channels, file.as_ref());
    let device = as_specified(&flags.input, wanted);
    let map = match &flags.sound.map {
        Some(map) => map.clone(),
        None => ChannelMap::identity(device.channels.count()),
    };
    map.check(device.channels.count()).map_err(|error| Failure::usage(error.to_string()))?;
    let format = stream_format(flags, device, &map, file.as_ref())?;
    let latency = latency(flags.timing.latency, &format, &device)?;
    let to: Vec<Resolved> = flags.to.iter().map(|to| to.resolve()).collect::<Result<_, _>>()?;
    let udp = sockets(flags, &to, &format)?;
    let options = run_options(&flags.timing, &flags.running);
    let opened = open_source(flags, device)?;
    let plan = SendPlan {
        address: flags.to.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        reports_to: to.iter().map(|to| to.rtcp).collect(),
        udp,
        link: match flags.link {
            LinkFlag::Auto => LinkKind::Auto,
            LinkFlag::Direct => LinkKind::Direct,
            LinkFlag::Ringed => LinkKind::Ringed,
        },
        format,
        link_offset: latency,
        stamps: !flags.no_stamps,
        redundancy: tautline_proto::redundancy::Layout::NONE,
        gain: flags.sound.volume,
        map,
        device,
        identity: random_identity()?,
        ledger: flags.running.ledger.clone(),
    };
    if let Some(path) = &flags.sdp {
        super::sdp::write(path, &plan, &to, flags)?;
    }
    let engine = SendEngine::open(plan, &options)?;
    let mut show = Show::open("send", &flags.running)?;
    show.listen_to(opened.notes);
    tell_of_packets(flags, &to, &format);
    let stop = stop_on_signals()?;
    let report = engine.run(opened.device, &options, &stop, &mut |progress| show.on(progress))?;
    show.end(report)
}

fn open_source(flags: &Send, device: Settings) -> Result<Opened, Failure> {
    let extras = Extras { listener: None, record_format: SampleFormat::L24 };
    Ok(tautline_audio::open_supervised(&flags.input, Direction::Capture, device, extras)?)
}

/// What the file says of itself, if the device is one.
pub(crate) fn probe(spec: &DeviceSpec) -> Result<Option<FileFormat>, Failure> {
    match spec {
        DeviceSpec::File(path) => Ok(Some(tautline_audio::probe(path)?)),
        _ => Ok(None),
    }
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
                refuse_loss(flags, file, sample)?;
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

/// A file's samples must fit the wire as they are, unless a volume changes them anyway.
fn refuse_loss(flags: &Send, file: &FileFormat, sample: SampleFormat) -> Result<(), Failure> {
    let needs = file.coding.exact_format();
    if sample.bytes() >= needs.bytes() {
        return Ok(());
    }
    let (bits, name) = (8 * sample.bytes(), tautline_engine::format_name(needs));
    let convert = match &flags.input {
        DeviceSpec::File(path) => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let coarser = path.with_file_name(format!("{stem}-{bits}-bit.wav"));
            format!(": sox {} -b {bits} {}", path.display(), coarser.display())
        }
        _ => String::new(),
    };
    Err(Failure::usage(format!(
        "{} has finer samples than {bits} bits carry; send it with --format {name}, or convert it \
         first{convert}",
        flags.input
    )))
}

fn latency(
    chosen: Option<Span>,
    format: &StreamFormat,
    device: &Settings,
) -> Result<Span, Failure> {
    let least = format.packing_age(device.period);
    match chosen {
        Some(latency) if latency < least => Err(Failure::usage(format!(
            "--latency {latency} is less than the {least} that packets of {} take at a period of \
             {} frames; use --latency {least} or more, a shorter --ptime or a shorter --period",
            format.ptime(),
            device.period
        ))),
        Some(latency) => Ok(latency),
        None => Ok(DEFAULT_LATENCY.max(least + SPARE)),
    }
}

fn sockets(flags: &Send, to: &[Resolved], format: &StreamFormat) -> Result<UdpOptions, Failure> {
    let bytes = datagram_bytes(flags, format);
    let mut udp = UdpOptions::sender(to.iter().map(|to| to.rtp).collect());
    let packets = format.rate.hertz() / format.packet.count().max(1) as u32 + 1;
    super::way::set(&mut udp, &flags.to, to)?;
    udp.dscp = flags.dscp;
    udp.datagram_bytes = bytes;
    udp.packets_per_second = packets;
    udp.batch = (flags.timing.period as usize / format.packet.as_len().max(1) + 2).max(4);
    udp.transmit_stamp_every = (packets / 20).max(1);
    udp.fragment = match flags.fragment {
        Fragment::Allow => FragmentPolicy::Allow,
        Fragment::Never => FragmentPolicy::Never,
    };
    let allowed = flags.fragment == Fragment::Allow && bytes <= MOST_BYTES;
    match too_long(to, bytes, format).next() {
        Some(TooLong { what, shorter, .. }) if !allowed => {
            Err(Failure::usage(format!("{what}; use --ptime {shorter} or less")))
        }
        _ => Ok(udp),
    }
}

/// The longest UDP payload that any network carries, in fragments or not: 65535 bytes of IPv4
/// packet (RFC 791 §3.1) less its header and UDP's.
const MOST_BYTES: usize = 65_507;

/// UDP payload of every packet.
fn datagram_bytes(flags: &Send, format: &StreamFormat) -> usize {
    let header = if flags.no_stamps { HEADER_BYTES } else { STAMPED_HEADER_BYTES };
    header + format.payload_bytes()
}

/// Packets that the path to a destination does not carry whole.
struct TooLong {
    what: String,
    fragments: usize,
    /// The longest packet time that it carries.
    shorter: Span,
}

/// The destinations that these packets are too long for.
fn too_long(to: &[Resolved], bytes: usize, format: &StreamFormat) -> impl Iterator<Item = TooLong> {
    to.iter().filter_map(move |to| {
        let (headers, mtu) = (header_bytes(&to.rtp), path_mtu(to.rtp)?);
        let whole = bytes + headers;
        let overhead = headers + bytes - format.payload_bytes();
        let fits = mtu.saturating_sub(overhead) / format.frame_bytes().max(1);
        (whole > mtu).then(|| TooLong {
            what: format!(
                "packets of {whole} bytes are longer than the {mtu} that the path to {} carries \
                 whole",
                to.rtp
            ),
            // A fragment's payload is a multiple of eight bytes (RFC 791 §3.2).
            fragments: (whole - 20).div_ceil((mtu - 20) / 8 * 8),
            shorter: format.rate.span_of(Frames::from_len(fits)),
        })
    })
}

/// Says what the packets come to, where that is not what was asked for.
fn tell_of_packets(flags: &Send, to: &[Resolved], format: &StreamFormat) {
    let (ptime, packet, rate) = (format.ptime(), format.packet, format.rate);
    if ptime != flags.ptime {
        let asked = flags.ptime;
        screen::tell(&format!(
            "{asked} holds {packet} whole frames at {rate}, so packets carry {ptime}"
        ));
    }
    for TooLong { what, fragments, shorter } in too_long(to, datagram_bytes(flags, format), format)
    {
        screen::tell(&format!(
            "{what}: each goes as {fragments} IP fragments, one lost fragment loses {ptime}, and \
             some switches drop them; --ptime {shorter} or less avoids it"
        ));
    }
}
