//! A client of JACK: a port for each channel, called by the server in every cycle.
//!
//! `jack:NAME` becomes the client NAME of the server that runs; none is started. The server's rate
//! and buffer are the device's rate and period. Whoever runs the device waits on its thread while
//! the library's own calls the process (`client`); what a cycle means is worked out by `cycle`.

mod client;
mod cycle;
mod cycle_clock;
mod library;
mod spec;

use std::ffi::CString;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::{Device, DeviceError, Direction, Ended, Process, Settings, Stop};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

use self::client::{Client, Refused, Running};
use self::cycle::Adaptor;
use self::library::{Library, SERVER_FAILED, VERSION_ERROR};
use self::spec::Connect;
pub use self::spec::JackSpec;
use crate::list::Offers;
use crate::{DeviceDescription, Notes, STACK, StreamLatency, Way, spawn_error};

/// A server takes a client in within milliseconds; an open is to take a second at most.
const PATIENCE: Duration = Duration::from_secs(1);
/// People who want a list wait less long.
const LIST_PATIENCE: Duration = Duration::from_millis(300);
/// How often a running client looks at what the server told it.
const LOOK: Span = Span::from_millis(10);

/// How the device would run: the server says.
pub(crate) fn settle(
    spec: &JackSpec,
    direction: Direction,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    settings(spec, &enter(spec, direction, PATIENCE)?, wanted.channels)
}

/// Opens it. A server whose buffer is not the period that was settled is taken all the same.
pub(crate) fn open(
    spec: &JackSpec,
    direction: Direction,
    settled: Settings,
    (notes, latency): (&Notes, &StreamLatency),
) -> Result<Box<dyn Device>, DeviceError> {
    let mut device = JackDevice {
        spec: spec.clone(),
        direction,
        settings: settled,
        notes: notes.clone(),
        latency: latency.clone(),
        client: None,
    };
    device.client = Some(device.enter()?);
    Ok(Box::new(device))
}

/// The server, if one runs.
pub(crate) fn list() -> Vec<DeviceDescription> {
    let spec = JackSpec::named("taut");
    let Ok(client) = enter(&spec, Direction::Capture, LIST_PATIENCE) else { return Vec::new() };
    let (hertz, period) = (client.rate(), Frames::new(i64::from(client.buffer())));
    let way = |direction| Way {
        direction,
        offers: Offers::These {
            rates: Rate::new(hertz).into_iter().map(Rate::hertz).collect(),
            formats: vec!["FLOAT".to_owned()],
            channels: 1..=u32::from(Channels::MAX),
            least_period: period,
        },
    };
    let ports = |direction| client.physical(direction).len();
    vec![DeviceDescription {
        name: spec.to_string(),
        ways: vec![way(Direction::Capture), way(Direction::Playback)],
        says: format!(
            "a client of the JACK server that runs, at {hertz} Hz and {period} frames a period; its card has \
             {} ports to capture from and {} to play to",
            ports(Direction::Capture),
            ports(Direction::Playback),
        ),
    }]
}

/// Becomes a client of the server, if it answers soon enough.
fn enter(spec: &JackSpec, direction: Direction, patience: Duration) -> Result<Client, DeviceError> {
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
        CString::new(text).map_err(|_| spec.error("there is a zero in it", "leave it out"))
    };
    let name = text(&spec.client)?;
    let server = spec.server.as_deref().map(text).transpose()?;
    let (answer, answered) = channel();
    // A server that was stopped answers nobody, and the library waits for ever.
    let asking = thread::Builder::new().name("taut-jack".to_owned()).stack_size(STACK);
    let asked = asking.spawn(move || {
        // A client that comes when nobody waits any more is closed with the channel.
        let _ = answer.send(Client::open(library, &name, server.as_deref(), direction));
    });
    asked.map_err(|error| spawn_error(&spec.to_string(), &error))?;
    match answered.recv_timeout(patience) {
        Ok(answer) => answer.map_err(|refused| not_taken_in(spec, refused)),
        Err(_) => Err(spec.error(
            format!("the JACK server did not answer within {patience:?}"),
            "see whether it was stopped (ps, state T), and end it or let it go on",
        )),
    }
}

fn not_taken_in(spec: &JackSpec, Refused(status): Refused) -> DeviceError {
    let server = match &spec.server {
        Some(name) => format!("no JACK server called ‘{name}’"),
        None => "no JACK server".to_owned(),
    };
    if status & VERSION_ERROR != 0 {
        return spec.error(
            "the JACK server is of another version than its library".to_owned(),
            "install both from one package, then start the server again",
        );
    }
    if status & SERVER_FAILED != 0 {
        return spec.error(
            format!("{server} answers this user"),
            "start one, such as jackd -d alsa, or name one by ?server=NAME; under PipeWire, pw-jack \
             taut … is a client of PipeWire",
        );
    }
    spec.error(
        format!("the JACK server refused the client (status {status:#x})"),
        "see what the server says; it may have as many clients as it takes",
    )
}

/// How a client of this server runs.
fn settings(spec: &JackSpec, client: &Client, channels: Channels) -> Result<Settings, DeviceError> {
    let hertz = client.rate();
    let rate = Rate::new(hertz).map_err(|error| {
        spec.error(
            format!("the JACK server runs at {hertz} Hz, and {error}"),
            "start the server at another rate, such as jackd -d alsa -r 48000",
        )
    })?;
    let period = Frames::new(i64::from(client.buffer().max(1)));
    // What the card takes, rounded up to whole periods, and the one that is being filled.
    let card = client.card_latency().count();
    let periods = (card + period.count() - 1) / period.count() + 1;
    Ok(Settings { rate, channels, period, periods: u32::try_from(periods.max(2)).unwrap_or(2) })
}

/// The device.
struct JackDevice {
    spec: JackSpec,
    direction: Direction,
    settings: Settings,
    notes: Notes,
    latency: StreamLatency,
    /// `None` once it has run.
    client: Option<Client>,
}

impl JackDevice {
    /// A client with its ports, not yet running.
    fn enter(&self) -> Result<Client, DeviceError> {
        let mut client = enter(&self.spec, self.direction, PATIENCE)?;
        let found = settings(&self.spec, &client, self.settings.channels)?;
        if found.rate != self.settings.rate {
            return Err(self.other_rate(found.rate.hertz()));
        }
        for channel in 1..=self.settings.channels.count() {
            let name = match self.direction {
                Direction::Capture => format!("in_{channel}"),
                Direction::Playback => format!("out_{channel}"),
            };
            let added = CString::new(name).is_ok_and(|name| client.add_port(&name));
            if !added {
                return Err(self.spec.error(
                    format!("the JACK server has no room for port {channel}"),
                    "use fewer --channels, or start the server with more ports: jackd -p 1024",
                ));
            }
        }
        self.notes.add(format!(
            "{}: the client ‘{}’ of a JACK server at {}, {} frames a period, {} frames to the card",
            self.spec,
            client.name(),
            found.rate,
            found.period,
            client.card_latency()
        ));
        Ok(client)
    }

    fn other_rate(&self, hertz: u32) -> DeviceError {
        self.spec.error(
            format!("the JACK server runs at {hertz} Hz now and not at {}", self.settings.rate),
            "set its rate as it was, or start taut again",
        )
    }

    /// Connects the ports as the name of the device asks for.
    fn connect(&self, client: &Running) {
        let counterparts = match &self.spec.connect {
            Connect::Nothing => return,
            Connect::Card => client.counterparts(true),
            Connect::To(begin) => {
                let mut all = client.counterparts(false);
                all.retain(|name| name.starts_with(begin.as_str()));
                all
            }
        };
        if let (Connect::To(begin), true) = (&self.spec.connect, counterparts.is_empty()) {
            self.notes.add(format!(
                "{}: no port of the JACK server begins with ‘{begin}’, so none is connected; \
                 jack_lsp lists them",
                self.spec
            ));
        }
        for (channel, counterpart) in (0..self.settings.channels.count()).zip(&counterparts) {
            if !client.connect(channel, counterpart) {
                self.notes.add(format!(
                    "{}: the JACK server did not connect channel {} with {counterpart}; connect it \
                     by hand: jack_connect",
                    self.spec,
                    channel + 1
                ));
            }
        }
    }

    /// Waits until there is a reason to end.
    fn wait(&self, client: &Running, stop: &Stop) -> Ended {
        use std::sync::atomic::Ordering::Relaxed;
        let signals = client.signals();
        let mut period = self.settings.period;
        let mut freewheels = false;
        loop {
            let rate = signals.rate.load(Relaxed);
            if stop.is_requested() {
                return Ended::Stopped;
            } else if signals.finished.load(Relaxed) {
                return Ended::Finished;
            } else if signals.shut_down.load(Relaxed) {
                let answer = "the JACK server went, or dropped this client";
                return Ended::Gone(self.spec.error(answer, "start it again"));
            } else if rate != 0 && rate != self.settings.rate.hertz() {
                return Ended::Gone(self.other_rate(rate));
            }
            let buffer = Frames::new(i64::from(signals.buffer.load(Relaxed)));
            if buffer > Frames::ZERO && buffer != period {
                period = buffer;
                self.note_period(period);
            }
            if signals.freewheels.load(Relaxed) != freewheels {
                freewheels = !freewheels;
                self.note_freewheel(freewheels);
            }
            let latency = self.latency.get();
            if latency != signals.stream() || signals.stale.swap(false, Relaxed) {
                client.tell_stream(latency);
            }
            sleep_until(now() + LOOK);
        }
    }

    fn note_period(&self, period: Frames) {
        let mend = match period > self.settings.period {
            true => "; the latency may be too short for that: start taut again to have it checked",
            false => "",
        };
        self.notes
            .add(format!("{}: the JACK server's buffer has {period} frames now{mend}", self.spec));
    }

    fn note_freewheel(&self, begins: bool) {
        let does = if begins { "began to freewheel: there is silence" } else { "is back in time" };
        self.notes.add(format!("{}: the JACK server {does}", self.spec));
    }
}

impl Device for JackDevice {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let client = match self.client.take().map_or_else(|| self.enter(), Ok) {
            Ok(client) => client,
            Err(error) => return (process, Ended::Gone(error)),
        };
        let adaptor = Adaptor::new(self.direction, self.settings);
        match client.run(adaptor, self.settings.rate, process) {
            Ok(client) => {
                self.connect(&client);
                let ended = self.wait(&client, stop);
                (client.close(), ended)
            }
            Err(process) => {
                let answer = "the JACK server did not activate the client";
                (process, Ended::Gone(self.spec.error(answer, "see what the server says")))
            }
        }
    }
}
