//! A JACK client with one port per channel. `jack:NAME` never starts a server. The server sets rate
//! and buffer. A server may never answer, so only the thread of `client_thread` waits for it; that
//! thread can be abandoned.

mod client;
mod client_thread;
mod cycle;
mod cycle_clock;
mod latency;
mod library;
mod notified;
mod ports;
mod processing;
mod signals;
pub(crate) mod spec;

use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{env, fs};

use tautline_io::clock::{host_clock, now, sleep_until};
use tautline_proto::clock::ClockId;
use tautline_proto::device::{
    Device, DeviceError, Direction, Directions, Ended, Process, Settings, Stop,
};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

use self::client::{Client, JackStatus};
use self::client_thread::{ClientThread, NoClient};
use self::cycle::Adaptor;
use self::library::{Library, SERVER_FAILED, VERSION_ERROR};
pub use self::signals::ServerWord;
use self::spec::Connect;
pub use self::spec::JackSpec;
use crate::toolbox::callback::CallWatch;
use crate::toolbox::{
    DeviceDescription, DeviceSide, Notes, Offers, Sides, StreamLatency, spawn_error,
};

/// Timeout for a server, which usually answers within milliseconds.
const TIMEOUT: Duration = Duration::from_secs(1);
const LIST_TIMEOUT: Duration = Duration::from_millis(300);
const LOOK: Span = Span::from_millis(10);

const STALLED: &str = "check whether it is stopped (state T in `ps`), and resume or kill it";

pub(crate) fn settle(
    spec: &JackSpec,
    directions: Directions,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    let requested = spec.clone();
    let work = move |client: &mut Client| settings(&requested, client, wanted.channels);
    Ok(enter(spec, directions, TIMEOUT, work)?.1)
}

pub(crate) fn open(
    spec: &JackSpec,
    directions: Directions,
    settled: Settings,
    notes: &Notes,
    latency: &StreamLatency,
) -> Result<Box<dyn Device>, DeviceError> {
    let (notes, latency) = (notes.clone(), latency.clone());
    let device = JackDevice::new(spec.clone(), directions, settled);
    Ok(Box::new(JackDevice { notes, latency, ..device }.opened()?))
}

/// Opens a playing client, and returns the driver's wake-ups, which device times filter.
pub fn open_with_word(
    spec: &JackSpec,
    wanted: Settings,
) -> Result<(Box<dyn Device>, ServerWord), DeviceError> {
    let directions = Direction::Playback.into();
    let settled = settle(spec, directions, wanted)?;
    let device = JackDevice::new(spec.clone(), directions, settled).opened()?;
    let word = device.word.clone();
    Ok((Box::new(device), word))
}

/// A running JACK server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JackServer {
    /// Rate in Hz.
    pub rate: u32,
    /// Frames per period.
    pub period: Frames,
    /// Real-time priority of client threads; `None` without real-time scheduling.
    pub priority: Option<u64>,
    /// Input and output ports of its card.
    card_ports: [usize; 2],
}

impl JackServer {
    /// Creates a description without ports.
    pub const fn new(rate: u32, period: Frames, priority: Option<u64>) -> Self {
        Self { rate, period, priority, card_ports: [0; 2] }
    }
}

/// The running JACK server of this user, if it answers within 0.3 s.
pub fn server() -> Option<JackServer> {
    looked_at(&JackSpec::named("taut"))
}

pub(crate) fn list() -> Vec<DeviceDescription> {
    let spec = JackSpec::named("taut");
    let Some(found) = looked_at(&spec) else { return Vec::new() };
    let JackServer { rate: hertz, period, card_ports: [inputs, outputs], .. } = found;
    let side = |direction| DeviceSide {
        direction,
        offers: Offers::These {
            rates: Rate::new(hertz).into_iter().map(Rate::hertz).collect(),
            formats: vec!["FLOAT".to_owned()],
            channels: 1..=u32::from(Channels::MAX),
            min_period: period,
        },
    };
    vec![DeviceDescription {
        name: spec.to_string(),
        sides: vec![side(Direction::Capture), side(Direction::Playback)],
        says: format!(
            "a client of the running JACK server, at {hertz} Hz with periods of {period} frames; its card has {inputs} \
             capture ports and {outputs} playback ports"
        ),
    }]
}

pub(crate) fn card_ports() -> Option<[usize; 2]> {
    server().map(|server| server.card_ports)
}

fn looked_at(spec: &JackSpec) -> Option<JackServer> {
    let look = |client: &mut Client| {
        let card_ports = [Direction::Capture, Direction::Playback]
            .map(|direction| client.counterparts(direction, true).len());
        let period = Frames::new(i64::from(client.buffer()));
        let (rate, priority) = (client.rate(), client.priority());
        Ok(JackServer { rate, period, priority, card_ports })
    };
    let found = enter(spec, Direction::Capture.into(), LIST_TIMEOUT, look);
    found.ok().map(|(_, found)| found)
}

fn enter<T: Send + 'static>(
    spec: &JackSpec,
    directions: Directions,
    timeout: Duration,
    work: impl FnOnce(&mut Client) -> Result<T, DeviceError> + Send + 'static,
) -> Result<(ClientThread, T), DeviceError> {
    let library = Library::get()
        .map_err(|error| DeviceError { tried: format!("{spec}: {}", error.tried), ..error })?;
    let longest = Client::longest_name(library);
    if spec.client.len() > longest {
        return Err(spec.error(
            format!("a name of {} bytes is too long", spec.client.len()),
            format!("use {longest} bytes or fewer"),
        ));
    }
    let text = |text: &str| {
        CString::new(text).map_err(|_| spec.error("it contains a zero byte", "remove it"))
    };
    let name = text(&spec.client)?;
    let server = spec.server.as_deref().map(text).transpose()?;
    let open = move || Client::open(library, &name, server.as_deref(), directions);
    ClientThread::begin(spec.server.as_deref(), timeout, open, work).map_err(
        |failed| match failed {
            NoClient::Work(error) => error,
            NoClient::Refused(refused) => not_taken_in(spec, refused),
            NoClient::Thread(error) => spawn_error(&spec.to_string(), &error),
            NoClient::Stalled => {
                spec.error(format!("the JACK server did not answer within {timeout:?}"), STALLED)
            }
        },
    )
}

fn not_taken_in(spec: &JackSpec, JackStatus(status): JackStatus) -> DeviceError {
    let server = match &spec.server {
        Some(name) => format!("no JACK server named '{name}'"),
        None => "no JACK server".to_owned(),
    };
    if status & VERSION_ERROR != 0 {
        return spec.error(
            "the JACK server and its library differ in version".to_owned(),
            "install both from one package, then start the server again",
        );
    }
    if status & SERVER_FAILED != 0 {
        return spec.error(
            format!("{server} accepts this user"),
            "start one, such as jackd -d alsa, select one with ?server=NAME, or run pw-jack taut … with PipeWire",
        );
    }
    spec.error(
        format!("the JACK server refused the client (status {status:#x})"),
        "see the server's messages, and end other clients if its limit is reached",
    )
}

fn settings(spec: &JackSpec, client: &Client, channels: Channels) -> Result<Settings, DeviceError> {
    let hertz = client.rate();
    let rate = Rate::new(hertz).map_err(|_| {
        spec.error(
            format!("the JACK server runs at {hertz} Hz, which is unsupported"),
            "start the server at another rate, such as jackd -d alsa -r 48000",
        )
    })?;
    let period = Frames::new(i64::from(client.buffer().max(1)));
    let direction = last(client.directions());
    let latency = client.latency_to(direction, &counterparts(spec, client, direction, channels));
    Ok(Settings { rate, channels, period, periods: latency.periods(period) })
}

fn last(directions: Directions) -> Direction {
    match directions {
        Directions::One(direction) => direction,
        Directions::Both => Direction::Playback,
    }
}

fn add_ports(
    spec: &JackSpec,
    client: &mut Client,
    direction: Direction,
    channels: Channels,
) -> Result<(), DeviceError> {
    for channel in 1..=channels.count() {
        let name = match direction {
            Direction::Capture => format!("in_{channel}"),
            Direction::Playback => format!("out_{channel}"),
        };
        let added = CString::new(name).is_ok_and(|name| client.add_port(direction, &name));
        if !added {
            return Err(spec.error(
                format!("the JACK server cannot create port {channel}"),
                "use fewer --channels, or start the server with more ports: jackd -p 1024",
            ));
        }
    }
    Ok(())
}

fn other_rate(spec: &JackSpec, was: Rate, hertz: u32) -> DeviceError {
    spec.error(
        format!("the JACK server now runs at {hertz} Hz instead of {was}"),
        "restore its rate, or restart taut",
    )
}

fn counterparts(
    spec: &JackSpec,
    client: &Client,
    direction: Direction,
    channels: Channels,
) -> Vec<String> {
    let mut counterparts = match &spec.connect {
        Connect::Nothing => Vec::new(),
        Connect::Card => client.counterparts(direction, true),
        Connect::To(begin) => {
            let mut all = client.counterparts(direction, false);
            all.retain(|name| name.starts_with(begin.as_str()));
            all
        }
    };
    counterparts.truncate(channels.count());
    counterparts
}

fn connect(
    spec: &JackSpec,
    client: &Client,
    direction: Direction,
    counterparts: &[String],
    notes: &Notes,
) {
    if let (Connect::To(begin), true) = (&spec.connect, counterparts.is_empty()) {
        notes.add(format!(
            "{}: not connected: no port of the JACK server begins with '{begin}'; jack_lsp lists them",
            spec
        ));
    }
    for (channel, counterpart) in counterparts.iter().enumerate() {
        if !client.connect(direction, channel, counterpart) {
            notes.add(format!(
                "{}: the JACK server did not connect channel {} with {counterpart}; connect it with jack_connect",
                spec,
                channel + 1
            ));
        }
    }
}

struct JackDevice {
    spec: JackSpec,
    directions: Directions,
    settings: Settings,
    notes: Notes,
    latency: StreamLatency,
    /// `None` before opening. Dropping closes the client, which can take long.
    client: Option<ClientThread>,
    pace: Option<ClockId>,
    word: ServerWord,
    has_run: bool,
}

impl JackDevice {
    fn new(spec: JackSpec, directions: Directions, settings: Settings) -> Self {
        let (notes, latency, word) = Default::default();
        let (client, pace, has_run) = (None, None, false);
        Self { spec, directions, settings, notes, latency, client, pace, word, has_run }
    }

    fn opened(mut self) -> Result<Self, DeviceError> {
        self.client = Some(self.enter()?);
        self.pace = of_server(self.spec.server.as_deref());
        Ok(self)
    }

    fn enter(&self) -> Result<ClientThread, DeviceError> {
        let (spec, directions, wanted) = (self.spec.clone(), self.directions, self.settings);
        let work = move |client: &mut Client| {
            let found = settings(&spec, client, wanted.channels)?;
            if found.rate != wanted.rate {
                return Err(other_rate(&spec, wanted.rate, found.rate.hertz()));
            }
            for direction in directions.each() {
                add_ports(&spec, client, direction, wanted.channels)?;
            }
            Ok((client.name(), found, client.card_latency(last(directions))))
        };
        let (client, (name, found, card)) = enter(&self.spec, directions, TIMEOUT, work)?;
        let way = match last(directions) {
            Direction::Playback => "to",
            Direction::Capture => "from",
        };
        self.notes.add(format!(
            "{}: client '{name}' of a JACK server at {}, {} frames per period, {card} frames {way} the card",
            self.spec, found.rate, found.period,
        ));
        Ok(client)
    }

    fn wait(&self, client: &ClientThread, stop: &Stop) -> Ended {
        let signals = client.signals();
        let mut watch = CallWatch::new(signals.seat.calls(), now());
        let mut period = self.settings.period;
        let mut freewheels = false;
        loop {
            let rate = signals.rate.load(Ordering::Relaxed);
            if stop.is_requested() {
                return Ended::Stopped;
            } else if signals.finished.load(Ordering::Relaxed) {
                return Ended::Finished;
            } else if signals.refused.load(Ordering::Relaxed) {
                let answer = "the JACK server did not activate the client";
                return Ended::Gone(self.spec.error(answer, "see the server's messages"));
            } else if signals.shut_down.load(Ordering::Relaxed) {
                let answer = "the JACK server ended, or removed this client";
                return Ended::Gone(self.spec.error(answer, "start it again"));
            } else if rate != 0 && rate != self.settings.rate.hertz() {
                return Ended::Gone(other_rate(&self.spec, self.settings.rate, rate));
            }
            let buffer = Frames::new(i64::from(signals.buffer.load(Ordering::Relaxed)));
            if buffer > Frames::ZERO && buffer != period {
                period = buffer;
                self.note_period(period);
            }
            if signals.freewheels.load(Ordering::Relaxed) != freewheels {
                freewheels = !freewheels;
                self.note_freewheel(freewheels);
            }
            let cycle = self.settings.rate.span_of(period);
            if watch.is_silent(signals.seat.calls(), now(), cycle) && !freewheels {
                let answer = "the JACK server stalled: it no longer calls this client";
                return Ended::Gone(self.spec.error(answer, STALLED));
            }
            let latency = self.latency.get();
            if latency != signals.stream() || signals.stale.swap(false, Ordering::Relaxed) {
                signals.set_stream(latency);
                client.request(|client| client.notify());
            }
            sleep_until(now() + LOOK);
        }
    }

    fn note_period(&self, period: Frames) {
        let hint = match period > self.settings.period {
            true => "; the latency may be too short: restart taut to check it",
            false => "",
        };
        self.notes
            .add(format!("{}: the JACK server's buffer now has {period} frames{hint}", self.spec));
    }

    fn note_freewheel(&self, begins: bool) {
        let does = if begins { "started to freewheel: silence" } else { "stopped freewheeling" };
        self.notes.add(format!("{}: the JACK server {does}", self.spec));
    }
}

impl Device for JackDevice {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn clock(&self) -> Option<ClockId> {
        self.pace
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        if std::mem::replace(&mut self.has_run, true) {
            self.client = None;
        }
        let client = match self.client.take().map_or_else(|| self.enter(), Ok) {
            Ok(client) => client,
            Err(error) => return (process, Ended::Gone(error)),
        };
        client.signals().seat.give(process);
        let (spec, notes, settings) = (self.spec.clone(), self.notes.clone(), self.settings);
        let adaptor = Adaptor::new(self.directions, settings).by(self.pace);
        let adaptor = if spec.at_ports { adaptor.at_ports() } else { adaptor };
        let (directions, word) = (self.directions, self.word.clone());
        client.request(move |client| {
            client.send_to(word);
            let counterparts = Sides::each(|direction| match directions.has(direction) {
                true => counterparts(&spec, client, direction, settings.channels),
                false => Vec::new(),
            });
            if client.run(adaptor, settings.rate, &counterparts) {
                for direction in directions.each() {
                    let counterparts = counterparts.of(direction);
                    connect(&spec, client, direction, counterparts, &notes);
                }
            } else {
                client.signals().refused.store(true, Ordering::Relaxed);
            }
        });
        let ended = self.wait(&client, stop);
        let process = client.signals().seat.take();
        self.client = Some(client);
        (process.expect("it was put in above, and only this takes it out"), ended)
    }
}

const REGISTRY: &str = "/dev/shm/jack-shm-registry";

/// Clock of a server; a user has one per name. `None` for PipeWire's library: clients can have
/// different cards.
fn of_server(name: Option<&str>) -> Option<ClockId> {
    Library::get().ok().filter(|library| library.is_jacks())?;
    let usual = || env::var("JACK_DEFAULT_SERVER").unwrap_or_else(|_| "default".to_owned());
    let name = name.map_or_else(usual, str::to_owned);
    let registry = fs::metadata(REGISTRY).ok()?;
    let user = fs::metadata("/proc/self").ok()?.uid();
    let numbers = [registry.dev(), registry.ino(), user.into()].map(u64::to_be_bytes);
    let parts = [b"jack", name.as_bytes(), &numbers[0], &numbers[1], &numbers[2]];
    Some(host_clock()?.id().with(&parts))
}
