//! Processor time of a zone with as many announcements as it may know.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tautline_dsp::format::{SampleFormat, decode};
use tautline_io::clock::{now, sleep_until, thread_time};
use tautline_proto::device::Stop;
use tautline_proto::time::Span;
use tautline_proto::zone::Arbiter;

use crate::station::Sender;
use crate::zone::Zone;
use crate::{PAGE, Pace, READY, STEADY, pause};

/// The least that a receiver does: once per period it takes all packets and converts their samples.
struct Bare {
    socket: UdpSocket,
    used: Arc<AtomicI64>,
    packets: Arc<AtomicI64>,
}

impl Bare {
    fn run(self, stop: &Stop) {
        let pace = Pace::USUAL;
        let period = pace.device().rate.span_of(pace.period);
        let payload = pace.format().payload_bytes();
        let (mut bytes, mut samples) = ([0; 2048], vec![0.0; payload / 3]);
        let mut next = now();
        while !stop.is_requested() {
            next += period;
            sleep_until(next);
            while let Ok(length) = self.socket.recv(&mut bytes) {
                let from = length.saturating_sub(payload);
                decode(SampleFormat::L24, &bytes[from..from + payload], &mut samples);
                std::hint::black_box(&samples);
                self.packets.fetch_add(1, Ordering::Relaxed);
            }
            self.used.store(thread_time().as_nanos(), Ordering::Relaxed);
        }
    }
}

/// Shares of a core, in per cent, of the zone and the bare loop, and the loop's packets.
fn shares(zone: &Zone, [used, packets]: [&AtomicI64; 2], seconds: usize) -> (f64, f64, i64) {
    let bare_used = || Span::from_nanos(used.load(Ordering::Relaxed));
    let packets = || packets.load(Ordering::Relaxed);
    let (began, zone_before, bare_before, before) = (now(), zone.used(), bare_used(), packets());
    pause(Span::from_secs(seconds as i64));
    let took = (now() - began).as_nanos() as f64;
    let share = |used: Span| 100.0 * used.as_nanos() as f64 / took;
    (share(zone.used() - zone_before), share(bare_used() - bare_before), packets() - before)
}

pub(crate) fn busy(seconds: usize) {
    let pace = Pace::USUAL;
    let zone = Zone::start(1, pace, 0);
    let program = Sender::program(&[zone.program], pace, STEADY);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let tap = socket.local_addr().unwrap();
    let (used, packets, stop) = (Arc::<AtomicI64>::default(), Arc::default(), Stop::default());
    let bare = Bare { socket, used: Arc::clone(&used), packets: Arc::clone(&packets) };
    let ends = stop.clone();
    let loops = std::thread::spawn(move || bare.run(&ends));
    pause(READY);
    let (idle, bare_idle, _) = shares(&zone, [&*used, &*packets], seconds);
    let announcements = Arbiter::MAX_ANNOUNCEMENTS;
    let to = ([zone.announcements], [tap]);
    let stations: Vec<Sender> =
        (0..announcements).map(|_| Sender::station((&to.0, &to.1), pace, PAGE)).collect();
    pause(READY);
    for station in &stations {
        station.press();
        pause(Span::from_millis(20));
    }
    pause(READY);
    let (share, bare_share, received) = shares(&zone, [&*used, &*packets], seconds);
    let expected = seconds * 1000 * announcements;
    println!(
        "busy: {announcements} announcements, zone {share:.2} %, bare {bare_share:.2} %, \
         without announcements {idle:.2} %, bare {bare_idle:.2} %, packets {received} of {expected}"
    );
    stations.into_iter().for_each(Sender::release);
    program.release();
    zone.end();
    stop.request();
    loops.join().unwrap();
}
