//! Sends a source or an announcement to a group of the building.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use tautline_audio::{
    DeviceSpec, Extras, MicrophoneOptions, OnlyRecorded, SoftwareSpec, SoundFile, Wanted,
    microphone, offered, open_supervised, probe, recorded,
};
use tautline_codec::encoder;
use tautline_dsp::chime::Chime;
use tautline_dsp::format::SampleFormat;
use tautline_dsp::map::ChannelMap;
use tautline_engine::monitor::run::{Progress, RunOptions, Running};
use tautline_engine::plan::pacing;
use tautline_engine::plan::sockets::{self, LinkOptions};
use tautline_engine::plan::zone::AnnouncementPlan;
use tautline_engine::plan::{LinkKind, SendPlan, lay};
use tautline_engine::send_engine::SendEngine;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_io::udp::{DSCP_MEDIA, UdpOptions};
use tautline_proto::device::{DeviceError, Direction, Settings, Stop};
use tautline_proto::latency::LatencyRule;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Channels;
use tautline_proto::wire::PacketHeads;

use crate::local::{LocalProgram, LocalSource};
use crate::{Error, Place, Site, Source, SourceInput};

/// What a node or a station sends.
#[derive(Debug, Clone)]
pub struct Transmission {
    /// Input. Files have one or two channels.
    pub input: DeviceSpec,
    /// Whether a file begins again at its end.
    pub looped: bool,
    /// Group to send to.
    pub to: SocketAddr,
    /// Own address, which chooses the network interface; `None` for the system's choice.
    pub interface: Option<IpAddr>,
    /// Presentation time minus latency of the first frame of a file. The packets then stay on this
    /// machine.
    pub begins: Option<LocalTime>,
    /// For an announcement.
    pub announcement: Option<Announced>,
}

/// What makes a transmission an announcement.
#[derive(Debug, Clone)]
pub struct Announced {
    /// Claims.
    pub plan: AnnouncementPlan,
    /// Sound that precedes the input. The microphone is sent after this sound.
    pub chime: Option<Chime>,
    /// Requested when the microphone is sent.
    pub opens: Stop,
    /// Ends after this time below −50 dBFS.
    pub end_after: Option<Span>,
    /// New WAV file for the sent sound.
    pub record: Option<PathBuf>,
}

const PERIOD: Frames = Frames::new(48);
const PERIODS: u32 = 2;

/// Sends until the input ends or `stop`. Files may have any rate.
pub fn transmit(
    site: &Site,
    transmission: Transmission,
    options: &RunOptions,
    stop: &Stop,
) -> Result<(), Error> {
    send(site, transmission, options, stop, &mut |_| ()).map(drop)
}

/// Sends a source of this node until `stop`. Once packets leave, calls `sending` with the faults of
/// its files, and again when they change. Returns an error if the sound ends.
pub fn send_source(
    (site, place): (&Site, &Place),
    name: &str,
    options: &RunOptions,
    stop: &Stop,
    sending: &mut dyn FnMut(Option<String>),
) -> Result<(), Error> {
    let Some(Source::Own { input, address, .. }) = site.sources.get(name) else {
        let why = format!("the building file has no source {name} of a node");
        return Err(Error::Usage(why));
    };
    let mut program = None;
    let (input, looped) = match input {
        SourceInput::Device(device) => (device.clone(), false),
        SourceInput::Files(files) => {
            (DeviceSpec::Software(SoftwareSpec::File(SoundFile::sequence(files))), true)
        }
        SourceInput::Local(name) => {
            let started = LocalProgram::start(LocalSource::find(name, site.rate)?)?;
            (program.insert(started).device(), false)
        }
    };
    let (to, interface) = (*address, Some(place.address));
    let transmission =
        Transmission { input, looped, to, interface, begins: None, announcement: None };
    let sent = send(site, transmission, options, stop, sending);
    match (program, sent) {
        _ if stop.is_requested() => Ok(()),
        (Some(program), sent) => Err(program.fault(sent.map(drop))),
        (None, Ok(notes)) if notes.is_empty() => Err(Error::Ended("the input ended".to_owned())),
        (None, Ok(notes)) => Err(Error::Ended(notes.join("; "))),
        (None, Err(error)) => Err(error),
    }
}

/// Returns the faults of the files.
fn send(
    site: &Site,
    transmission: Transmission,
    options: &RunOptions,
    stop: &Stop,
    sending: &mut dyn FnMut(Option<String>),
) -> Result<Vec<String>, Error> {
    let Transmission { input, looped, to, interface, begins, announcement } = transmission;
    let mut input = input.fitted();
    let device = settings(site, &input)?;
    let (format, heads) = (site.format(), PacketHeads::rtp(true));
    let address = site.sent_to(to, interface, begins.is_some())?;
    let resolved = address.resolve()?;
    let mut udp = UdpOptions::sender(resolved.media().into_iter().collect());
    sockets::set(&mut udp, std::slice::from_ref(&address), std::slice::from_ref(&resolved))?;
    udp.dscp = DSCP_MEDIA;
    lay::make_room(&mut udp, &format, device.period, heads);
    let mut by = LinkOptions::Udp(Box::new(udp));
    let age = format.packing_age(device.period);
    let period = (&format, device.period);
    let spare = (site.latency - age, options.scheduler);
    let paced = pacing::pace(&mut by, (LinkKind::Auto, None), period, spare)?;
    let (stream, sealed) = site.open(&by, paced.by_wire_thread.then_some(options.scheduler))?;
    let map = match device.channels {
        Channels::MONO => ChannelMap::spread(Channels::STEREO.count()),
        _ => ChannelMap::identity(Channels::STEREO.count()),
    };
    let mut plan = SendPlan::new(address.to_string(), stream, format, device)?;
    plan.policy.link_offset = site.latency;
    plan.policy.latency = LatencyRule::Chosen(site.latency);
    plan.stream.sealed = sealed;
    plan.stream.pacing = Some(paced);
    let encoders = encoder(&format).map_err(|error| Error::Usage(error.to_string()))?;
    let plan = SendPlan {
        reports_to: resolved.reports().into_iter().map(Into::into).collect(),
        encoders: encoders.into_iter().collect(),
        map,
        announcement: announcement.as_ref().map(|it| it.plan.clone()),
        ..plan
    };
    let chime = announcement.as_ref().and_then(|it| it.chime);
    let mut chime = chime.map(|chime| chime.samples(site.rate.hertz())).unwrap_or_default();
    if let DeviceSpec::Software(SoftwareSpec::File(file)) = &mut input {
        *file = file.clone().after(core::mem::take(&mut chime));
    }
    let extras = Extras { looped, begins, ..Extras::default() };
    let opened = open_supervised(&input, Direction::Capture, device, extras)?;
    let engine = SendEngine::new(plan)?;
    let Some(Announced { opens, end_after, record, .. }) = announcement else {
        let mut before = None;
        let mut look = |progress: &Progress<'_>| {
            let faults = Some(opened.notes.failed()).filter(|_| progress.packets > 0);
            if faults != before {
                let text = faults.as_ref().map(|faults| faults.join("; "));
                sending(text.filter(|text| !text.is_empty()));
                before = faults;
            }
        };
        engine.run(opened.device, options, stop, &mut look)?;
        return Ok(opened.notes.failed());
    };
    let device = microphone(opened.device, MicrophoneOptions { chime, opens, end_after });
    let (device, mut recording) = recorded(device, Direction::Capture, SampleFormat::L24);
    record.iter().try_for_each(|path| recording.begin(path))?;
    engine.run(device, options, stop, &mut |_| recording.turn())?;
    Ok(opened.notes.failed())
}

impl From<AnnouncementPlan> for Announced {
    fn from(plan: AnnouncementPlan) -> Self {
        Self { plan, chime: None, opens: Stop::default(), end_after: None, record: None }
    }
}

/// Sound to record.
#[derive(Debug, Clone)]
pub struct Capture<'a> {
    /// Input.
    pub input: DeviceSpec,
    /// New WAV file.
    pub to: &'a Path,
    /// Maximum duration.
    pub duration: Option<Span>,
    /// Ends after this time below −50 dBFS.
    pub end_after: Option<Span>,
}

/// Records until the input ends or `stop`.
pub fn capture(
    site: &Site,
    sound: Capture<'_>,
    scheduler: Scheduler,
    stop: &Stop,
) -> Result<(), Error> {
    /// Interval at which the recording is written and the end is checked.
    const STEP: Span = Span::from_millis(20);
    let Capture { input, to, duration, end_after } = sound;
    let device = settings(site, &input)?;
    let opened = open_supervised(&input, Direction::Capture, device, Extras::default())?;
    let device =
        microphone(opened.device, MicrophoneOptions { end_after, ..MicrophoneOptions::default() });
    let (device, mut recording) = recorded(device, Direction::Capture, SampleFormat::L24);
    recording.begin(to)?;
    let running = Running::start(device, Box::new(OnlyRecorded), scheduler, stop)?;
    let ends = now() + duration.unwrap_or(AnnouncementPlan::LONGEST);
    while !stop.is_requested() && !running.is_over() && now() < ends {
        sleep_until(now() + STEP);
        recording.turn();
    }
    stop.request();
    running.end()?;
    Ok(())
}

/// Stereo, or mono if the input has only one channel.
fn settings(site: &Site, input: &DeviceSpec) -> Result<Settings, Error> {
    let with = |channels| Settings { rate: site.rate, channels, period: PERIOD, periods: PERIODS };
    let wanted = Wanted { rate: Some(site.rate), channels: None };
    let file = probe(input, wanted)?;
    let choice = match file {
        Some(file) => vec![with(file.channels)],
        None => vec![with(Channels::STEREO), with(Channels::MONO)],
    };
    let mut found = offered(input, Direction::Capture, &choice)?.into_iter();
    let found = found.find(|settings| settings.rate == site.rate);
    found.ok_or_else(|| {
        let (rate, tried) = (site.rate, input.to_string());
        let answer =
            format!("it does not capture stereo or mono at {rate}, the rate of the building file");
        let hint = "use another input".to_owned();
        DeviceError { tried, answer, hint }.into()
    })
}
