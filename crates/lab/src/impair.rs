//! Network emulation: delays, drops and repeats datagrams.
//!
//! [`Impairer`] decides without I/O or clock; [`Relay`] runs it between sockets. It uses the
//! simulator's [`PathModel`].

mod parse;
mod presets;
mod relay;
mod report;

use core::cmp::Ordering;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fastrand::Rng;
use tautline_engine::plan::address::{Address, Resolved};
use tautline_io::clock::now;
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtcp::hide_clocks;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Path, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::trace::Trace;
use tautline_ui::failure::Failure;
use tautline_ui::readers::span;
use tautline_ui::report_file::PlainKind;
use tautline_ui::{answer, screen, stop_on_signals};

pub use parse::{BitRate, Outage, PathChanges, Reordering, Share, WordError};
pub use relay::{Relay, RelayOptions};
pub use report::{LegReport, PortReport, RelayReport};

const SHORT_HELP: &str = r#"Examples:
  taut lab impair --listen 127.0.0.1:6004 --to 127.0.0.1:5004 \
      --preset wifi-5ghz --loss 5%

All options, presets and records: taut lab impair --help"#;

const IMPAIR: &str = r#"A stream through a bad network, in three terminals, the receiver first:
  taut recv --from rtp://0.0.0.0:5004 --output file:heard.wav --exit-on-bye
  taut lab impair --listen 127.0.0.1:6004 --to 127.0.0.1:5004 \
      --preset wifi-5ghz --loss 5% --seed 7
  taut send --input file:song.flac --to rtp://127.0.0.1:6004 --latency 40ms
Ctrl-C ends the relay, which reports how many packets it changed and how
punctual it was. Then listen to heard.wav, or count the missing frames:
  taut compare song.flac heard.wav

RTP uses the given UDP ports, and RTCP the next ones. Packets of the reverse
path go to the last sender. The forward path consists of
  a bottleneck with its queue (--rate), then --delay and --jitter, then loss
Packets stay in order unless --reorder holds some back.

PRESETS
Jitter is an average, or from..to. Held is the maximum time, and how often on
average. 2% by 3 are lost in bursts of three on average. Narrowest is the
bandwidth of the bottleneck. An option such as --loss overrides the preset's.

More examples:
  # Only loss, in bursts; reports return unimpaired:
  taut lab impair --listen 127.0.0.1:6004 --to 10.0.0.2:5004 --loss 20% \
      --burst 3 --back ideal
  # A cable that is pulled out twice, to a multicast group:
  taut lab impair --listen 127.0.0.1:6004 --to "239.69.1.1:5004?iface=eth0" \
      --outage 10s+2s --outage 30s+500ms
  # Another network, as recorded with `taut recv --packet-log heard.csv`:
  taut lab impair --listen 127.0.0.1:6004 --to 127.0.0.1:5004 --trace heard.csv

Records, for --trace, are lines of text; # starts a comment. The first line is
the format of the following lines, one for each packet:
  delay_us every 1ms   delay in microseconds, - for a lost packet
  sent_s,arrived_s     two times in seconds, the second empty for a lost packet
A receiver's packet log works as well. Its time starts with the relay."#;

fn help() -> String {
    IMPAIR.replace("PRESETS", &presets::table())
}

/// `taut lab impair`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = help())]
pub struct ImpairFlags {
    /// Address to receive the stream at: HOST:PORT or a group
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_listen_at)]
    listen: Address,
    /// Address of the receiver: HOST:PORT or a group
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_relay_to)]
    to: Address,
    /// Imitate wired, switch-under-load, wifi-5ghz, wifi-bad, wan or satellite
    ///
    /// Other options override the preset. By default, nothing is impaired.
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    preset: Option<Preset>,
    #[command(flatten)]
    changes: PathChanges,
    /// Recorded delays and losses of another network: see Records
    #[arg(long, value_name = "FILE.csv", help_heading = "Network")]
    trace: Option<PathBuf>,
    /// Play the record once instead of repeating it
    #[arg(long, requires = "trace", help_heading = "Network", hide_short_help = true)]
    once: bool,
    /// Impairment of the reverse path, which carries RTCP
    #[arg(
        long,
        value_name = "HOW",
        default_value = "same",
        help_heading = "Network",
        hide_short_help = true
    )]
    back: Back,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Run")]
    seed: u64,
    /// Stop after this time, such as 10s [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Run")]
    duration: Option<Span>,
    /// Priority of the relay's thread; must exceed a local sender's and receiver's
    #[arg(
        long,
        value_name = "CLASS",
        default_value = "fifo:75",
        help_heading = "Run",
        hide_short_help = true
    )]
    scheduler: Scheduler,
    /// Final report: text, json or none [default: text]
    #[arg(
        long,
        value_name = "KIND",
        default_value = "text",
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Run"
    )]
    report: PlainKind,
}

/// Impairment of the reverse path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Back {
    /// Same as the forward path
    Same,
    /// Only the delay
    Ideal,
}

const BEAT: Span = Span::from_millis(50);

pub(crate) fn run(flags: &ImpairFlags) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let begun = now();
    let relay = Relay::start(&options(flags)?)?;
    if flags.report != PlainKind::None {
        screen::notify(&format!("relaying rtp://{} to {}", relay.address(), flags.to));
    }
    let ends = flags.duration.map(|duration| begun + duration);
    while !stop.is_requested() && ends.is_none_or(|ends| now() < ends) {
        let next = now() + BEAT;
        tautline_io::clock::sleep_until(ends.map_or(next, |ends| ends.min(next)));
    }
    let Some(report) = relay.stop() else {
        return Err(Failure::running("the relay failed (see the message above)"));
    };
    answer(flags.report, &report.to_string(), report.to_json())
}

fn options(flags: &ImpairFlags) -> Result<RelayOptions, Failure> {
    let (listen, to) = (flags.listen.resolve()?, flags.to.resolve()?);
    refuse_loop(flags, &listen, &to)?;
    let path = flags.preset.map_or(PathModel::ideal(Span::ZERO), |preset| preset.path());
    let trace = flags.trace.as_deref().map(read_trace).transpose()?;
    let mut there = flags.changes.of(path).map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(trace) = trace {
        there.trace = Some(if flags.once { trace.once() } else { trace });
    }
    let (from, onward) = (by_udp(&flags.listen, &listen)?, by_udp(&flags.to, &to)?);
    let mut options = RelayOptions::between(from.0, onward.0);
    options.back = match flags.back {
        Back::Same => there.clone(),
        Back::Ideal => PathModel::ideal(there.delay),
    };
    options.there = there;
    options.seed = flags.seed;
    options.scheduler = flags.scheduler;
    options.listen.interface.clone_from(&flags.listen.interface);
    options.listen.sources.clone_from(&flags.listen.sources);
    options.onward = UdpOptions {
        interface: flags.to.interface.clone(),
        ttl: flags.to.ttl.unwrap_or(options.onward.ttl),
        loopback: flags.to.loopback.unwrap_or(options.onward.loopback),
        ..options.onward
    };
    Ok(options)
}

fn by_udp(address: &Address, resolved: &Resolved) -> Result<(SocketAddr, SocketAddr), Failure> {
    resolved.media().zip(resolved.reports()).ok_or_else(|| {
        Failure::usage(format!("unsupported address {address}: the relay forwards only UDP"))
    })
}

/// A relay that receives its own datagrams would loop.
fn refuse_loop(flags: &ImpairFlags, listen: &Resolved, to: &Resolved) -> Result<(), Failure> {
    // Relaying a group between networks is not a loop.
    let (listen, to) = (by_udp(&flags.listen, listen)?, by_udp(&flags.to, to)?);
    let apart = flags.listen.interface != flags.to.interface && to.0.ip().is_multicast();
    let at = listen.0.ip();
    let handles = |ip: IpAddr| {
        at == ip || (at.is_unspecified() || ip.is_unspecified()) && is_own(at) && is_own(ip)
    };
    let ours = [listen.0.port(), listen.1.port()];
    let received = [to.0, to.1].into_iter().find(|to| ours.contains(&to.port()));
    let Some(received) = received.filter(|received| !apart && handles(received.ip())) else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "--to {}: the relay itself receives {received} at --listen {}, an endless loop\nhint: use the \
         receiver's address, with UDP ports at least two apart from the relay's",
        flags.to, flags.listen
    )))
}

fn is_own(ip: IpAddr) -> bool {
    !ip.is_multicast() && UdpSocket::bind((ip, 0)).is_ok()
}

fn read_trace(path: &std::path::Path) -> Result<Trace, Failure> {
    let failed = |why: String| Failure::open(format!("cannot read {}: {why}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| failed(format!("{error}\nhint: check the path")))?;
    Trace::read(&text).map_err(|error| failed(error.to_string()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leg {
    There,
    Back,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpPort {
    Media,
    Control,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatagramCounters {
    pub received: u64,
    pub lost: u64,
    pub bursts: u64,
    pub duplicated: u64,
    pub overflowed: u64,
    pub released: u64,
}

/// Maximum queued bytes of both directions: 5 s of 100 Mbit/s, more than audio needs.
const MAX_WAITING: usize = 64 << 20;

struct LegState {
    path: Path,
    counters: [DatagramCounters; 2],
    losing: [bool; 2],
}

/// Deterministic for a seed and the same datagrams.
pub struct Impairer {
    start: LocalTime,
    there: LegState,
    back: LegState,
    waiting: BinaryHeap<Waiting>,
    waiting_bytes: usize,
    spare: Vec<Vec<u8>>,
    order: u64,
    /// Latest arrival: paths need rising times.
    newest: LocalTime,
}

/// Ordered so that the datagram that is due first is the greatest.
struct Waiting {
    due: LocalTime,
    order: u64,
    leg: Leg,
    port: UdpPort,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
pub struct Released<'a> {
    pub leg: Leg,
    pub port: UdpPort,
    pub datagram: &'a [u8],
    pub due: LocalTime,
}

impl Impairer {
    pub fn new(there: PathModel, back: PathModel, seed: u64, start: LocalTime) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut leg = |model| LegState {
            path: Path::new(model, rng.u64(..)),
            counters: [DatagramCounters::default(); 2],
            losing: [false; 2],
        };
        Self {
            start,
            there: leg(there),
            back: leg(back),
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            spare: Vec::new(),
            order: 0,
            newest: start,
        }
    }

    /// `at` is the arrival time; an earlier time counts as the latest time so far.
    pub fn take(&mut self, leg: Leg, port: UdpPort, datagram: &[u8], at: LocalTime) {
        self.newest = self.newest.max(at);
        let entered = TrueTime::from_nanos((self.newest - self.start).as_nanos());
        let one = match leg {
            Leg::There => &mut self.there,
            Leg::Back => &mut self.back,
        };
        let counters = &mut one.counters[port as usize];
        let losing = &mut one.losing[port as usize];
        counters.received += 1;
        let mut copies = 0;
        one.path.carry(datagram.len(), entered, |when| {
            copies += 1;
            if self.waiting_bytes + datagram.len() > MAX_WAITING {
                counters.overflowed += 1;
                return;
            }
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.extend_from_slice(datagram);
            if port == UdpPort::Control {
                // The ends of a network share no clock.
                hide_clocks(&mut bytes);
            }
            self.waiting_bytes += datagram.len();
            self.order += 1;
            let due = self.start + when.since(TrueTime::ZERO);
            self.waiting.push(Waiting { due, order: self.order, leg, port, bytes });
        });
        counters.lost += u64::from(copies == 0);
        counters.bursts += u64::from(copies == 0 && !*losing);
        counters.duplicated += u64::from(copies > 1);
        *losing = copies == 0;
    }

    pub fn next_due(&self) -> LocalTime {
        self.waiting.peek().map_or(LocalTime::NEVER, |waiting| waiting.due)
    }

    pub fn release(&mut self, now: LocalTime, mut hand_on: impl FnMut(Released<'_>)) {
        while self.next_due() <= now {
            let Some(Waiting { due, leg, port, mut bytes, .. }) = self.waiting.pop() else {
                return;
            };
            let one = match leg {
                Leg::There => &mut self.there,
                Leg::Back => &mut self.back,
            };
            one.counters[port as usize].released += 1;
            hand_on(Released { leg, port, datagram: &bytes, due });
            self.waiting_bytes -= bytes.len();
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    pub const fn counters(&self, leg: Leg, port: UdpPort) -> DatagramCounters {
        match leg {
            Leg::There => self.there.counters[port as usize],
            Leg::Back => self.back.counters[port as usize],
        }
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl DatagramCounters {
    pub fn mean_burst(&self) -> f64 {
        self.lost as f64 / self.bursts.max(1) as f64
    }

    pub fn loss(&self) -> Share {
        Share(self.lost as f64 / self.received.max(1) as f64)
    }
}

#[cfg(test)]
mod tests;
