//! `taut recv`

use std::sync::{Arc, OnceLock};

use tautline_audio::Extras;
use tautline_dsp::format::SampleFormat;
use tautline_dsp::map::ChannelMap;
use tautline_engine::address::{Address, Resolved};
use tautline_engine::control::{RecvChange, Requests, requests};
use tautline_engine::learn::{Learnt, learn};
use tautline_engine::plan::RecvPlan;
use tautline_engine::recv::RecvEngine;
use tautline_engine::run::RunError;
use tautline_engine::way;
use tautline_io::clock::now;
use tautline_io::pair::open_pair;
use tautline_proto::device::{Direction, Settings, Stop};
use tautline_proto::stream::{LONGEST_LINK_OFFSET, StreamFormat, packet_frames};
use tautline_proto::time::Span;
use tautline_proto::units::Channels;
use tautline_proto::wire::rtcp::Announcement;
use tautline_proto::wire::sdp::Description;

use super::recv_changes::RecvLines;
use super::streams::{check_alike, latency, stream};
use super::{device_settings, run_options, settled, stop_on_signals};
use crate::control;
use crate::failure::Failure;
use crate::flags::{Recv, ReportKind};
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
    let unheard = layout(flags, described, None)?;
    latency(flags.timing.latency, None, &unheard.0, &unheard.1)?;
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
    let (format, device, map) = match announced {
        Some(announced) => layout(flags, described, Some(announced.format))?,
        None => unheard,
    };
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
    let report = engine.run(opened.device, &options, &stop, &mut |progress| {
        opened.latency.set(progress.link_offset);
        show.on_receiving(progress);
    })?;
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
        .map(|(address, resolved)| Ok(open_pair(&way::reception(address, resolved))?))
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
    let wanted = device_settings(&flags.timing, rate, channels, None);
    let mut device = settled(&flags.output, Direction::Playback, wanted, rate)?;
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
