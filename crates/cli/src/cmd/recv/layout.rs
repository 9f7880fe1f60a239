//! Playout settings of `taut recv`: stream format, device and channel map.

use tautline_audio::{ChannelsOffered, DeviceSpec};
use tautline_dsp::format::SampleFormat;
use tautline_dsp::map::ChannelMap;
use tautline_engine::plan::address::Address;
use tautline_proto::device::{Direction, Settings};
use tautline_proto::stream::{Coding, StreamFormat, packet_frames};
use tautline_proto::units::Channels;
use tautline_proto::wire::WireForm;
use tautline_proto::wire::sdp::Description;

use super::streams::ReceiveAddress;
use crate::cmd::{device_settings, settled};
use crate::failure::Failure;
use crate::flags::{Recv, StreamFlags};

pub(super) struct PlayoutSetup {
    pub(super) format: StreamFormat,
    pub(super) device: Settings,
    pub(super) map: ChannelMap,
}

/// Whether the format is known before any packet. `--format` implies a sender without announcement.
pub(super) fn knows_shape(flags: &Recv, from: &[ReceiveAddress<'_>]) -> bool {
    shape_is_said(flags) || from.iter().any(|from| from.resolved.description.is_some())
}

fn shape_is_said(flags: &Recv) -> bool {
    let stream = &flags.stream;
    (stream.rate.is_some() && stream.channels.is_some())
        || stream.format.is_some()
        || stream.payload_type.is_some()
}

pub(super) fn check_reported(flags: &Recv, theirs: &StreamFormat) -> Result<(), Failure> {
    let StreamFlags { rate, channels, .. } = flags.stream;
    let (option, reported, has) = match (rate, channels) {
        (_, Some(reported)) if reported != theirs.channels => {
            ("--channels", reported.to_string(), format!("{} channels", theirs.channels))
        }
        (Some(reported), _) if reported != theirs.rate => {
            ("--rate", reported.hertz().to_string(), theirs.rate.to_string())
        }
        _ => return Ok(()),
    };
    let other = match option {
        "--channels" => ", and choose the channels with --map, such as --map 1,2",
        _ => "",
    };
    Err(Failure::usage(format!(
        "{option} {reported}, but the stream has {has}\nhint: leave {option} out{other}"
    )))
}

/// `None` if the device supports the channels. Otherwise the nearest supported count, and an error
/// that suggests a map.
fn fitting(
    output: &DeviceSpec,
    map: &ChannelMap,
    carried: Channels,
) -> Option<(Option<Channels>, Failure)> {
    let ChannelsOffered { minimum, maximum, converter } =
        tautline_audio::channels(output, Direction::Playback)?;
    let wanted = map.outputs() as u32;
    if (minimum..=maximum).contains(&wanted) {
        return None;
    }
    let has = match (minimum, maximum) {
        (1, 1) => "1 channel".to_owned(),
        (minimum, maximum) if minimum == maximum => format!("{maximum} channels"),
        (minimum, maximum) => format!("{minimum} to {maximum} channels"),
    };
    let fits = wanted.clamp(minimum, maximum);
    let entries: Vec<String> = (0..fits as usize).map(|to| entry(map, carried, to)).collect();
    let convert =
        converter.map_or(String::new(), |name| format!(", or use {name}, which converts"));
    let refusal = Failure::open(format!(
        "{output}: it has {has}, not {wanted}\nhint: add --map {}{convert}",
        entries.join(",")
    ));
    Some((Channels::new(fits).ok(), refusal))
}

fn entry(map: &ChannelMap, carried: Channels, to: usize) -> String {
    match map.source_of(to) {
        Some(from) => (from + 1).to_string(),
        None if to >= map.outputs() && carried == Channels::MONO => "1".to_owned(),
        None => "-".to_owned(),
    }
}

pub(super) fn layout(
    flags: &Recv,
    described: Option<&Description>,
    announced: Option<StreamFormat>,
) -> Result<PlayoutSetup, Failure> {
    let stream = &flags.stream;
    let rate = stream.rate.or(described.map(|d| d.rate)).or(announced.map(|a| a.rate));
    let channels = stream.channels.or(described.map(|d| d.channels));
    let channels = channels.or(announced.map(|a| a.channels));
    let wanted = device_settings(&flags.timing, rate, channels, None);
    let carried = wanted.channels;
    let mut map = match &flags.sound.map {
        Some(map) => map.clone(),
        None => ChannelMap::identity(carried.count()),
    };
    let unknown = channels.is_none() && !shape_is_said(flags);
    if !unknown {
        map.check(carried.count()).map_err(|error| Failure::usage(error.to_string()))?;
    }
    let played = Channels::new(map.outputs() as u32);
    let played = played.map_err(|error| Failure::usage(error.to_string()))?;
    let device = match settled(
        &flags.output,
        Direction::Playback,
        Settings { channels: played, ..wanted },
        rate,
    ) {
        Ok(device) => device,
        Err(failure) => match fitting(&flags.output, &map, carried) {
            // The sender may have the device's channel count.
            Some((Some(fits), _)) if unknown => settled(
                &flags.output,
                Direction::Playback,
                Settings { channels: fits, ..wanted },
                rate,
            )?,
            Some((Some(fits), _)) if carried == Channels::MONO && flags.sound.map.is_none() => {
                map = ChannelMap::spread(fits.count());
                let spread = Settings { channels: fits, ..wanted };
                settled(&flags.output, Direction::Playback, spread, rate)?
            }
            Some((_, refusal)) => return Err(refusal),
            None => return Err(failure),
        },
    };
    let form = flags.from.first().map_or(WireForm::Rtp, Address::form);
    let coding = stream.format.map(received_as);
    let coding = coding.or(described.map(|d| Coding { sample: d.sample, codec: d.codec }));
    let coding = coding.or(announced.map(|a| a.coding()));
    let Coding { sample, codec } = coding.unwrap_or(SampleFormat::L24.into());
    if let (Some(codec), false) = (codec, unknown) {
        let fits = codec.check_shape(device.rate, carried);
        fits.map_err(|error| Failure::usage(error.to_string()))?;
    }
    let packet = packet_frames(device.rate, flags.ptime)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let format = StreamFormat {
        codec,
        rate: device.rate,
        channels: carried,
        sample,
        packet: described.and_then(|d| d.packet).unwrap_or(packet),
        payload_type: stream.payload_type.or(described.map(|d| d.payload_type)).unwrap_or_else(
            || match codec {
                None => form.coding(sample),
                Some(_) => StreamFormat::usual_payload_type(sample, codec),
            },
        ),
    };
    Ok(PlayoutSetup { format, device, map })
}

/// One decoder reads every tuning of Opus.
fn received_as(coding: Coding) -> Coding {
    let payload_type = coding.row().payload_type;
    Coding::find(|row| row.payload_type == payload_type).unwrap_or(coding)
}

pub(super) fn check_fits(output: &DeviceSpec, layout: &PlayoutSetup) -> Result<(), Failure> {
    let PlayoutSetup { format, device, map } = layout;
    if map.outputs() == device.channels.count() {
        return Ok(());
    }
    fitting(output, map, format.channels).map_or(Ok(()), |(_, refusal)| Err(refusal))
}
