//! Two network namespaces with a userspace router between them, which uses the simulator's paths.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::time::{LocalTime, Span};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Bottleneck, Path, PathModel};

use super::{Lack, Namespace, can, remove, skipped};

/// Each direction has a rate, a drop-tail queue and a delay. Removed when dropped.
pub(crate) struct ThinLink {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    rate: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    router: Option<JoinHandle<Vec<(LocalTime, Span)>>>,
}

/// IPv4 and UDP headers, which the simulator adds.
const HEADERS: usize = 28;
/// Poll interval of the router, and maximum error of the delay.
const BEAT: Span = Span::from_micros(500);

impl ThinLink {
    /// `rate` is in bits per second and includes Ethernet headers; `queue` is in bytes. `None`,
    /// with a message, without namespaces.
    pub(crate) fn lay(rate: u64, queue: usize, delay: Span) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}u{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let end = |side, address| Namespace {
            name: format!("taut{id}{side}"),
            interface: format!("t{id}{side}"),
            address,
        };
        let mut link = Self {
            left: end('a', "10.77.2.1"),
            right: end('b', "10.77.2.2"),
            rate: Arc::new(AtomicU64::new(rate)),
            stop: Arc::default(),
            router: None,
        };
        let ends = [&link.left, &link.right];
        let mut tunnels = Vec::new();
        for Namespace { name, interface, address } in ends {
            let tunnel = tunnel(interface).map_err(|error| {
                let why = format!("/dev/net/tun: {error}");
                skipped(Lack::reported_by(&why), &why);
            });
            tunnels.push(tunnel.ok()?);
            can(&[
                format!("netns add {name}"),
                format!("link set {interface} netns {name}"),
                format!("-n {name} address add {address}/24 dev {interface}"),
                format!("-n {name} link set lo up"),
                format!("-n {name} link set {interface} up"),
            ])?;
        }
        let bottleneck = Some(Bottleneck { rate, queue });
        let model = PathModel { bottleneck, ..PathModel::ideal(delay) };
        let ways = tunnels.into_iter().zip(1..).map(|(from, seed)| Way {
            from,
            path: Path::new(model.clone(), seed),
            under_way: VecDeque::new(),
        });
        let router = Router { ways: ways.collect(), begun: now(), delay, waits: Vec::new() };
        let (rate, stop) = (Arc::clone(&link.rate), Arc::clone(&link.stop));
        let spawned = spawn("router", Scheduler::Fifo(75), 0, move || router.run(&rate, &stop));
        link.router = Some(spawned.expect("a machine that runs tests has room for a thread").0);
        Some(link)
    }

    pub(crate) fn carries(&self, rate: u64) {
        self.rate.store(rate, Ordering::Release);
    }

    /// Ends it. Returns each forwarded packet's arrival and queueing time.
    pub(crate) fn waits(mut self) -> Vec<(LocalTime, Span)> {
        self.end()
    }

    fn end(&mut self) -> Vec<(LocalTime, Span)> {
        self.stop.store(true, Ordering::Release);
        let ended = self.router.take().and_then(|router| router.join().ok());
        ended.unwrap_or_default()
    }
}

impl Drop for ThinLink {
    fn drop(&mut self) {
        self.end();
        remove([&self.left, &self.right]);
    }
}

fn tunnel(interface: &str) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open("/dev/net/tun")?;
    // SAFETY: an `ifreq` of zeros is valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: the file is open, and the request outlives the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(file),
        _ => Err(std::io::Error::last_os_error()),
    }
}

struct Way {
    from: File,
    path: Path,
    under_way: VecDeque<(LocalTime, Vec<u8>)>,
}

struct Router {
    ways: Vec<Way>,
    begun: LocalTime,
    delay: Span,
    waits: Vec<(LocalTime, Span)>,
}

impl Router {
    fn run(mut self, rate: &AtomicU64, stop: &AtomicBool) -> Vec<(LocalTime, Span)> {
        let mut has = rate.load(Ordering::Acquire);
        while !stop.load(Ordering::Acquire) {
            let wanted = rate.load(Ordering::Acquire);
            if wanted != has {
                let at = self.at(now());
                self.ways.iter_mut().for_each(|way| way.path.set_rate(wanted, at));
                has = wanted;
            }
            self.take();
            self.hand_on();
            sleep_until(now() + BEAT);
        }
        self.waits
    }

    fn at(&self, at: LocalTime) -> TrueTime {
        TrueTime::from_nanos((at - self.begun).as_nanos())
    }

    fn take(&mut self) {
        let mut packet = [0; 4096];
        for way in 0..2 {
            while let Ok(len @ 1..) = (&self.ways[way].from).read(&mut packet) {
                let (arrived, begun) = (now(), self.begun);
                let at = self.at(arrived);
                let Way { path, under_way, .. } = &mut self.ways[way];
                path.carry(len.saturating_sub(HEADERS), at, |arrives| {
                    let due = begun + arrives.since(TrueTime::ZERO);
                    self.waits.push((arrived, due - arrived - self.delay));
                    under_way.push_back((due, packet[..len].to_vec()));
                });
            }
        }
    }

    fn hand_on(&mut self) {
        let now = now();
        for way in 0..2 {
            while self.ways[way].under_way.front().is_some_and(|(due, _)| *due <= now) {
                let (_, packet) = self.ways[way].under_way.pop_front().expect("a packet");
                let _ = (&self.ways[1 - way].from).write(&packet);
            }
        }
    }
}
