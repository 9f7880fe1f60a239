//! An endpoint's two devices, its own or shared.

use tautline_audio::echo::WithoutEcho;
use tautline_audio::{
    DeviceSpec, Extras, Notes, Opened, SharedParts, StreamLatency, open_supervised, settings_now,
    shared,
};
use tautline_dsp::format::SampleFormat;
use tautline_engine::monitor::run::Running;
use tautline_io::thread::Scheduler;
use tautline_proto::call::terms::StreamTerms;
use tautline_proto::device::{Device, Direction, Listener, Process, Settings, Stop};
use tautline_proto::latency::min_latency;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

use crate::{Config, Error, Event, Events, NoteSender, running};

/// Two devices of equal rate and channels.
#[derive(Debug, Clone, Copy)]
pub struct DevicePair {
    /// Capture.
    pub capture: Settings,
    /// Playback.
    pub playback: Settings,
}

impl DevicePair {
    /// The devices' share of sent and received latency, as known before they start.
    pub fn take(&self) -> [Span; 2] {
        let Self { capture, playback } = self;
        [capture.rate.span_of(capture.period), min_latency(Span::ZERO, playback)]
    }

    /// The settings now, of open devices. Asks a JACK server, which waits a second for an answer.
    pub(crate) fn now(&self, config: &Config) -> Self {
        Self {
            capture: settings_now(&config.input, Direction::Capture, self.capture),
            playback: settings_now(&config.output, Direction::Playback, self.playback),
        }
    }

    /// Rate and channels.
    pub const fn shape(&self) -> (Rate, Channels) {
        (self.capture.rate, self.capture.channels)
    }

    /// Whether this pair's latency share is at most that of `other`.
    pub fn takes_no_more_than(&self, other: &Self) -> bool {
        self.take().iter().zip(other.take()).all(|(this, other)| *this <= other)
    }

    pub(crate) const fn of(&self, direction: Direction) -> &Settings {
        match direction {
            Direction::Capture => &self.capture,
            Direction::Playback => &self.playback,
        }
    }
}

/// Possible settings, preferred first, never empty. Both directions have equal rate and channels,
/// for echo cancellers and conferences.
#[derive(Debug, Clone)]
pub struct DeviceChoice {
    /// Preferred.
    pub first: DevicePair,
    /// Others.
    pub others: Vec<DevicePair>,
}

impl DeviceChoice {
    /// Fixed settings.
    pub const fn alone(devices: DevicePair) -> Self {
        Self { first: devices, others: Vec::new() }
    }

    fn all(&self) -> impl Iterator<Item = &DevicePair> {
        core::iter::once(&self.first).chain(&self.others)
    }

    /// Rates with the preferred channels.
    pub fn rates(&self) -> Vec<Rate> {
        let (_, channels) = self.first.shape();
        self.all().map(DevicePair::shape).filter(|one| one.1 == channels).map(|one| one.0).collect()
    }

    /// Channels at the preferred rate.
    pub fn channels(&self) -> Vec<Channels> {
        let (rate, _) = self.first.shape();
        self.all().map(DevicePair::shape).filter(|one| one.0 == rate).map(|one| one.1).collect()
    }

    /// Settings for agreed terms.
    pub fn at(&self, sent: &StreamTerms, received: &StreamTerms) -> Result<DevicePair, Error> {
        let of = |terms: &StreamTerms| {
            let shape = (terms.rate, terms.channels);
            self.all().find(|devices| devices.shape() == shape).ok_or_else(|| {
                let (rate, channels) = shape;
                let plural = if channels == Channels::MONO { "" } else { "s" };
                Error::Open(format!(
                    "the devices do not support {rate} with {channels} channel{plural}\nhint: call with --rate and \
                     --channels that they support"
                ))
            })
        };
        Ok(DevicePair { capture: of(sent)?.capture, playback: of(received)?.playback })
    }
}

pub(crate) enum Sound {
    /// A part of a shared device. Its owner takes the notes and needs the latency.
    Part(Box<dyn Device>, StreamLatency),
    Own(Option<Tap>),
}

pub(crate) type Tap = Box<dyn FnOnce(Box<dyn Device>) -> Box<dyn Device>>;

pub(crate) fn taps(echo: Option<WithoutEcho>) -> [Option<Tap>; 2] {
    let Some(WithoutEcho { microphone, loudspeaker }) = echo else { return [None, None] };
    [
        Some(Box::new(|device| microphone.on(device))),
        Some(Box::new(|device| loudspeaker.on(device))),
    ]
}

pub(crate) fn echo(config: &Config, devices: &DevicePair) -> Result<Option<WithoutEcho>, Error> {
    let Some(required) = config.cancel_echo else { return Ok(None) };
    match WithoutEcho::new(devices.capture, devices.playback) {
        Ok(without) => {
            config.notify(Event::EchoCancelled);
            Ok(Some(without))
        }
        Err(why) if required => Err(Error::Usage(why.to_string())),
        Err(why) => {
            config.notify(Event::Note(why.to_string()));
            Ok(None)
        }
    }
}

fn open(
    config: &Config,
    direction: Direction,
    settings: Settings,
    (listener, record_format): (Option<Box<dyn Listener>>, SampleFormat),
    tap: Option<Tap>,
) -> Result<Opened, Error> {
    let spec: &DeviceSpec = match direction {
        Direction::Capture => &config.input,
        Direction::Playback => &config.output,
    };
    let extras = Extras { listener, record_format, looped: config.looped, begins: None };
    let mut opened = open_supervised(spec, direction, settings, extras)?;
    if let Some(tap) = tap {
        opened.device = tap(opened.device);
    }
    Ok(opened)
}

impl Sound {
    pub(crate) fn open(
        self,
        config: &Config,
        direction: Direction,
        settings: Settings,
        extras: (Option<Box<dyn Listener>>, SampleFormat),
    ) -> Result<(Box<dyn Device>, Notes, StreamLatency), Error> {
        match self {
            Self::Part(device, latency) => Ok((device, Notes::default(), latency)),
            Self::Own(tap) => {
                let opened = open(config, direction, settings, extras, tap)?;
                Ok((opened.device, opened.notes, opened.latency))
            }
        }
    }
}

/// Spare parts per device. An ended call returns its part a moment later.
const SPARE: usize = 4;

type StillDevice = (Box<dyn Device>, Box<dyn Process>);

pub(crate) struct SharedDevices {
    parts: SharedParts,
    sides: [(Notes, StreamLatency); 2],
    still: Option<[StillDevice; 2]>,
    running: Option<[Running; 2]>,
    stop: Stop,
    scheduler: Scheduler,
    taken: Vec<[StreamLatency; 2]>,
    event_sender: NoteSender,
}

impl SharedDevices {
    /// Opens for this many calls, which hear each other if `bridged`. Recordings use these formats.
    pub(crate) fn open(
        config: &Config,
        devices: &DevicePair,
        (calls, bridged): (usize, bool),
        [captured, played]: [SampleFormat; 2],
    ) -> Result<Self, Error> {
        let [microphone, loudspeaker] = taps(echo(config, devices)?);
        let DevicePair { capture, playback } = *devices;
        let playback = open(config, Direction::Playback, playback, (None, played), loudspeaker)?;
        let capture = open(config, Direction::Capture, capture, (None, captured), microphone)?;
        let parts = calls.saturating_add(SPARE);
        let (processes, parts) =
            shared(capture.device.as_ref(), playback.device.as_ref(), parts, bridged);
        Ok(Self {
            parts,
            sides: [(capture.notes, capture.latency), (playback.notes, playback.latency)],
            still: Some([
                (capture.device, processes.capture),
                (playback.device, processes.playback),
            ]),
            running: None,
            stop: Stop::default(),
            scheduler: config.scheduler,
            taken: Vec::new(),
            event_sender: NoteSender::new(Events::clone(&config.events)),
        })
    }

    pub(crate) fn run(&mut self) -> Result<(), Error> {
        let Some([capture, playback]) = self.still.take() else { return Ok(()) };
        let playback = Running::start(playback.0, playback.1, self.scheduler, &self.stop)?;
        let capture = Running::start(capture.0, capture.1, self.scheduler, &self.stop)?;
        self.running = Some([capture, playback]);
        Ok(())
    }

    pub(crate) fn take(&mut self) -> Result<[Sound; 2], Error> {
        let part = self.parts.take().ok_or_else(|| {
            running("too many calls use these devices\nhint: call again in a moment")
        })?;
        let [sent, received] = <[StreamLatency; 2]>::default();
        self.taken.push([sent.clone(), received.clone()]);
        Ok([Sound::Part(part.capture, sent), Sound::Part(part.playback, received)])
    }

    pub(crate) fn are_bridged(&self) -> bool {
        self.parts.are_bridged()
    }

    /// Mutes captured sound for the peers; bridged calls still hear each other.
    pub(crate) fn mute(&self, muted: bool) {
        self.parts.mute(muted);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.running.as_ref().is_some_and(|[_, playback]| playback.is_over())
    }

    pub(crate) fn turn(&mut self) {
        self.taken.retain(|[sent, received]| sent.is_shared() || received.is_shared());
        for (way, (_, latency)) in self.sides.iter().enumerate() {
            let longest = self.taken.iter().map(|taken| taken[way].get()).max();
            latency.set(longest.unwrap_or(Span::ZERO));
        }
        let notes = self.sides.each_ref().map(|(notes, _)| notes.take());
        self.event_sender.notify_all(notes.iter().rev().flatten());
    }

    /// Returns how often other callers' sound was searched again, and its missing periods.
    pub(crate) fn end(self) -> Result<[u64; 2], Error> {
        let bridged = [self.parts.realigned(), self.parts.missed()];
        self.stop.request();
        self.parts.end();
        for running in self.running.into_iter().flatten().rev() {
            running.end()?;
        }
        Ok(bridged)
    }
}

pub(crate) struct OnDemand {
    devices: DevicePair,
    calls: usize,
    bridged: bool,
    formats: [SampleFormat; 2],
    open: Option<SharedDevices>,
    pub(crate) begun: bool,
}

impl OnDemand {
    pub(crate) const fn new(
        devices: DevicePair,
        (calls, bridged): (usize, bool),
        formats: [SampleFormat; 2],
    ) -> Self {
        Self { devices, calls, bridged, formats, open: None, begun: false }
    }

    pub(crate) fn opened(&mut self, config: &Config) -> Result<&mut SharedDevices, Error> {
        let devices = match self.open.take() {
            Some(devices) => devices,
            None => {
                self.begun = false;
                let calls = (self.calls, self.bridged);
                SharedDevices::open(config, &self.devices, calls, self.formats)?
            }
        };
        Ok(self.open.insert(devices))
    }

    /// Starts the devices for a call; closes them when no call has sound.
    pub(crate) fn turn(&mut self, config: &Config, is_used: bool) -> Result<(), Error> {
        // A reopened file starts again.
        if self.begun && !is_used && !config.has_files() {
            return self.close();
        }
        let Some(devices) = &mut self.open else { return Ok(()) };
        if self.begun {
            devices.run()?;
        }
        devices.turn();
        Ok(())
    }

    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.open.take().map_or(Ok(()), |devices| devices.end().map(drop))
    }
}
