//! The impaired path between real sockets, on one thread.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tautline_io::clock::now;
use tautline_io::control::wait;
use tautline_io::link::OpenError;
use tautline_io::thread::{Granted, Scheduler, spawn};
use tautline_io::udp::pair::open_plain_pair;
use tautline_io::udp::{ControlSocket, UdpOptions};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::distribution::Distribution;
use tautline_sim::link::PathModel;

use super::report::{LegReport, PortReport, RelayReport};
use super::{DatagramCounters, Impairer, Leg, Released, UdpPort};

#[derive(Debug, Clone, PartialEq)]
pub struct RelayOptions {
    /// RTCP uses the next port; port 0 chooses two free ports.
    pub listen: UdpOptions,
    pub onward: UdpOptions,
    pub to: SocketAddr,
    pub there: PathModel,
    pub back: PathModel,
    pub seed: u64,
    pub scheduler: Scheduler,
}

impl RelayOptions {
    /// Unimpaired both ways, on a thread with a higher priority than the devices' threads.
    pub fn between(listen: SocketAddr, to: SocketAddr) -> Self {
        let roomy = |options: UdpOptions| UdpOptions {
            datagram_bytes: LONGEST,
            packets_per_second: PACKETS_PER_SECOND,
            ..options
        };
        Self {
            listen: roomy(UdpOptions::receiver(listen)),
            onward: roomy(UdpOptions::sender(vec![to])),
            to,
            there: PathModel::ideal(Span::ZERO),
            back: PathModel::ideal(Span::ZERO),
            seed: 1,
            scheduler: Scheduler::Fifo(75),
        }
    }
}

const UNPUNCTUAL: Span = Span::from_millis(1);
const LONGEST: usize = 65_507;
/// Packet rate for the socket's buffer: packets of 125 µs.
const PACKETS_PER_SECOND: u32 = 8_000;
const BEAT: Span = Span::from_millis(20);
/// Stack of the thread, whose deepest call is a system call.
const STACK_BYTES: usize = 256 << 10;

/// Relay on a thread. It stops on drop and loses datagrams in flight.
pub struct Relay {
    address: SocketAddr,
    granted: Granted,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<RelayReport>>,
}

impl Relay {
    pub fn start(options: &RelayOptions) -> Result<Self, OpenError> {
        let (media, control) = open_plain_pair(&options.listen)?;
        let (onward_media, onward_control) = open_plain_pair(&options.onward)?;
        let address = media.local();
        let start = now();
        let above = SocketAddr::new(options.to.ip(), options.to.port().saturating_add(1));
        let stop = Arc::new(AtomicBool::new(false));
        let worker = RelayWorker {
            sockets: [media, control, onward_media, onward_control],
            sender: [None; 2],
            to: [options.to, above].map(Endpoint::from),
            impairer: Impairer::new(
                options.there.clone(),
                options.back.clone(),
                options.seed,
                start,
            ),
            lateness: Distribution::default(),
            unaddressed: 0,
            start,
            stop: Arc::clone(&stop),
        };
        let seed = options.seed;
        let (thread, granted) =
            spawn("taut-impair", options.scheduler, STACK_BYTES, move || worker.run(seed))
                .map_err(|error| OpenError {
                    tried: "starting the relay's thread".into(),
                    errno: error.raw_os_error().unwrap_or(0),
                    answer: error.to_string(),
                    hint: "raise the limit of processes (ulimit -u)".into(),
                })?;
        Ok(Self { address, granted, stop, thread: Some(thread) })
    }

    /// RTP address with the actual port; loopback if the relay listens at all addresses.
    pub fn address(&self) -> SocketAddr {
        let mut address = self.address;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => {
                address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
            }
            IpAddr::V6(ip) if ip.is_unspecified() => {
                address.set_ip(std::net::Ipv6Addr::LOCALHOST.into());
            }
            _ => {}
        }
        address
    }

    pub const fn granted(&self) -> Granted {
        self.granted
    }

    pub fn stop(mut self) -> Option<RelayReport> {
        self.end()
    }

    fn end(&mut self) -> Option<RelayReport> {
        self.stop.store(true, Ordering::Release);
        let mut report = self.thread.take()?.join().ok()?;
        if !self.granted.is_granted() {
            report.notes.push(format!("the relay runs as {}", self.granted));
        }
        Some(report)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}

struct RelayWorker {
    sockets: [ControlSocket; 4],
    sender: [Option<Endpoint>; 2],
    to: [Endpoint; 2],
    impairer: Impairer,
    lateness: Distribution,
    unaddressed: u64,
    start: LocalTime,
    stop: Arc<AtomicBool>,
}

const LEGS: [(Leg, UdpPort); 4] = [
    (Leg::There, UdpPort::Media),
    (Leg::There, UdpPort::Control),
    (Leg::Back, UdpPort::Media),
    (Leg::Back, UdpPort::Control),
];

impl RelayWorker {
    fn run(mut self, seed: u64) -> RelayReport {
        while !self.stop.load(Ordering::Acquire) {
            let until = self.impairer.next_due().min(now() + BEAT);
            let [a, b, c, d] = &self.sockets;
            if wait(&[a, b, c, d], until) {
                self.take();
            }
            self.hand_on();
        }
        self.report(seed)
    }

    fn take(&mut self) {
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            let (leg, port) = LEGS[index];
            let impairer = &mut self.impairer;
            let sender = &mut self.sender;
            socket.receive(&mut |datagram| {
                if leg == Leg::There {
                    sender[port as usize] = Some(datagram.arrival.from);
                }
                impairer.take(leg, port, datagram.bytes, datagram.arrival.at);
            });
        }
    }

    fn hand_on(&mut self) {
        let Self { sockets, sender, to, impairer, lateness, unaddressed, .. } = self;
        impairer.release(now(), |Released { leg, port, datagram, due }| {
            let (first, destination) = match leg {
                Leg::There => (2, Some(to[port as usize])),
                Leg::Back => (0, sender[port as usize]),
            };
            let Some(destination) = destination else {
                *unaddressed += 1;
                return;
            };
            lateness.record(now() - due);
            // A network does not report errors; the socket counts them.
            let _ = sockets[first + port as usize].send_to(datagram, destination);
        });
    }

    fn report(&self, seed: u64) -> RelayReport {
        let port = |leg, port, leaves: usize| {
            let refused = self.sockets[leaves].counters().send_errors;
            let counters = self.impairer.counters(leg, port);
            let (loss, mean_burst) = (counters.loss().0, counters.mean_burst());
            let DatagramCounters { received, lost, duplicated, overflowed, released, .. } =
                counters;
            PortReport {
                received,
                released,
                lost,
                loss,
                mean_burst,
                duplicated,
                overflowed,
                refused,
            }
        };
        let leg = |leg, leaves| LegReport {
            media: port(leg, UdpPort::Media, leaves),
            control: port(leg, UdpPort::Control, leaves + 1),
        };
        let (there, back) = (leg(Leg::There, 2), leg(Leg::Back, 0));
        let kernel_drops = self.sockets.iter().map(|socket| socket.counters().kernel_drops).sum();
        let mut notes = Vec::new();
        if let Some(late) = self.lateness.percentile(0.99).filter(|late| *late > UNPUNCTUAL) {
            notes.push(format!(
                "1 % of the datagrams were forwarded more than {late} late: the host is busy or \
                 stalls, and caused part of the result"
            ));
        }
        let overflowed = [there, back].map(|leg| leg.media.overflowed + leg.control.overflowed);
        if kernel_drops + overflowed.iter().sum::<u64>() > 0 {
            notes.push(
                "datagrams were dropped by the relay, not by the path: too many arrived at \
                        once"
                    .into(),
            );
        }
        RelayReport {
            schema: 2,
            experiment: "impair",
            seed,
            duration_ns: (now() - self.start).as_nanos(),
            there,
            back,
            lateness: self.lateness.summary(),
            kernel_drops,
            unaddressed: self.unaddressed,
            notes,
        }
    }
}
