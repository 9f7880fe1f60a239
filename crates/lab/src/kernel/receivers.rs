use std::net::{IpAddr, SocketAddr};
use std::thread::JoinHandle;

use tautline_io::clock::{now, sleep_until};
use tautline_io::link::direct::DirectLink;
use tautline_io::link::{Datagram, Link};
use tautline_io::thread::Scheduler;
use tautline_io::thread::memory::prefault;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::blocked::BlockedUdp;
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};

use super::case::KernelCase;
use super::{HEADER, Way};
use crate::kept::spawn_on;
use crate::schedule::OpenSchedule;

/// The log index is the packet's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArrivalRecord {
    pub(super) arrival: LocalTime,
    /// [`Span::MAX`] without a timestamp.
    pub(super) uncertainty: Span,
    /// Time at which a blocked reader's call returned.
    pub(super) woke: LocalTime,
    pub(super) read: LocalTime,
}

impl ArrivalRecord {
    pub(super) fn is_stamped(&self) -> bool {
        self.uncertainty != Span::MAX
    }
}

pub(super) struct Log {
    pub(super) received: Vec<Option<ArrivalRecord>>,
    /// `errno`, or 0.
    pub(super) error: i32,
}

const TIMEOUT: Span = Span::from_millis(50);

pub(super) struct KernelReceiver {
    socket: OpenedSocket,
    local: SocketAddr,
    run: u32,
    received: Vec<Option<ArrivalRecord>>,
    over: Stop,
}

enum OpenedSocket {
    Blocked(Box<BlockedUdp>),
    Direct(Box<DirectLink>, OpenSchedule),
}

impl KernelReceiver {
    pub(super) fn open(
        case: &KernelCase,
        begins: LocalTime,
        over: Stop,
        at: IpAddr,
    ) -> Result<Self, String> {
        let ptime = case.packets.ptime.as_nanos().max(1);
        let options = UdpOptions {
            datagram_bytes: HEADER + case.packets.payload,
            packets_per_second: (1_000_000_000 / ptime).clamp(1, 100_000) as u32,
            ..UdpOptions::receiver((at, 0).into())
        };
        let (socket, local) = match case.way {
            Way::Blocked => BlockedUdp::open(&options, TIMEOUT).map(|socket| {
                let local = socket.local();
                (OpenedSocket::Blocked(Box::new(socket)), local)
            }),
            Way::Direct => DirectLink::open(&options).map(|socket| {
                let local = socket.local();
                let ticks = OpenSchedule::new(begins, case.tick, LocalTime::NEVER);
                (OpenedSocket::Direct(Box::new(socket), ticks), local)
            }),
        }
        .map_err(|error| error.to_string())?;
        let mut received = vec![None; case.count];
        prefault(&mut received);
        Ok(Self { socket, local, run: case.run, received, over })
    }

    pub(super) const fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn start(
        self,
        core: usize,
        scheduler: Scheduler,
    ) -> Result<JoinHandle<Option<Log>>, String> {
        spawn_on(core, "taut-hears", scheduler, move || self.read())
    }

    fn read(self) -> Log {
        let Self { socket, run, mut received, over, .. } = self;
        let error = match socket {
            OpenedSocket::Blocked(mut socket) => {
                let mut note = |datagram: Datagram<'_>| {
                    note(&mut received, run, &datagram, datagram.arrival.read)
                };
                loop {
                    let requested = over.is_requested();
                    match socket.receive(&mut note) {
                        Ok(false) if requested => break socket.counters().last_error,
                        Ok(_) => {}
                        Err(_) => break socket.counters().last_error,
                    }
                }
            }
            OpenedSocket::Direct(mut link, mut ticks) => {
                let mut left = None;
                while let Some(due) = ticks.next().filter(|due| left.is_none_or(|end| *due < end)) {
                    sleep_until(due);
                    let woke = now();
                    ticks.pass(woke, |_| {});
                    link.receive(&mut |datagram| note(&mut received, run, &datagram, woke));
                    if left.is_none() && over.is_requested() {
                        left = Some(woke + TIMEOUT);
                    }
                }
                link.counters().last_error
            }
        };
        Log { received, error }
    }
}

fn note(
    received: &mut [Option<ArrivalRecord>],
    run: u32,
    datagram: &Datagram<'_>,
    woke: LocalTime,
) {
    let word = |at: usize| datagram.bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let (Some(named), Some(number)) = (word(0), word(4)) else { return };
    let place = received.get_mut(number as usize).filter(|place| named == run && place.is_none());
    if let Some(place) = place {
        *place = Some(ArrivalRecord {
            arrival: datagram.arrival.at,
            uncertainty: datagram.arrival.uncertainty,
            woke,
            read: datagram.arrival.read,
        });
    }
}
