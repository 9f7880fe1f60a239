use std::net::{SocketAddr, UdpSocket};

use serde::{Deserialize, Serialize};
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::memory::prefault;
use tautline_io::thread::{Scheduler, spawn};
use tautline_io::udp::any;
use tautline_proto::device::Stop;
use tautline_proto::time::LocalTime;

use super::{AHEAD, HEADER, LARGEST, PacketShape};
use crate::kept::would_run_as;
use crate::schedule::OpenSchedule;

/// The log index is the packet's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentDatagram {
    pub(super) due: LocalTime,
    pub(super) handed: LocalTime,
    pub(super) taken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRun {
    pub packets: PacketShape,
    pub count: usize,
    pub run: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentPackets {
    pub schema: u32,
    /// Accepted by its kernel.
    pub taken: u64,
    pub late_max_ns: Option<i64>,
}

impl PacketRun {
    pub(super) fn words(&self, to: SocketAddr, scheduler: Scheduler) -> Vec<String> {
        let PacketShape { ptime, payload } = self.packets;
        let Self { count, run, .. } = self;
        let words = format!(
            "lab packets --to {to} --ptime {ptime} --payload {payload} --count {count} --run {run} \
             --scheduler {scheduler}"
        );
        words.split(' ').map(str::to_owned).collect()
    }

    pub fn send(
        &self,
        to: SocketAddr,
        scheduler: Scheduler,
        stop: &Stop,
    ) -> Result<SentPackets, String> {
        let PacketShape { ptime, payload } = self.packets;
        if payload.saturating_add(HEADER) > LARGEST {
            return Err(format!("{payload} bytes do not fit a datagram\nhint: use fewer"));
        }
        let begins = now() + AHEAD;
        let ends = begins + ptime.times(self.count as i64);
        let sender = KernelSender::open(self, OpenSchedule::new(begins, ptime, ends), to)?;
        let requested = stop.clone();
        let (thread, granted) = spawn("taut-sends", scheduler, 0, move || sender.run(&requested))
            .map_err(|error| {
            format!("cannot start its thread: {error}\nhint: end other programs there")
        })?;
        if !granted.is_granted() {
            stop.request();
        }
        let sent = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if !granted.is_granted() {
            return Err(would_run_as("its thread", granted));
        }
        Ok(SentPackets {
            schema: 2,
            taken: sent.iter().filter(|sent| sent.taken).count() as u64,
            late_max_ns: sent.iter().map(|sent| (sent.handed - sent.due).as_nanos()).max(),
        })
    }
}

pub(super) struct KernelSender {
    socket: UdpSocket,
    schedule: OpenSchedule,
    datagram: Vec<u8>,
    log: Vec<SentDatagram>,
}

impl KernelSender {
    pub(super) fn open(
        run: &PacketRun,
        schedule: OpenSchedule,
        receiver: SocketAddr,
    ) -> Result<Self, String> {
        let socket = UdpSocket::bind((any(receiver.is_ipv6()), 0)).map_err(|error| {
            format!("cannot open a socket: {error}\nhint: end other programs or raise ulimit -n")
        })?;
        socket.connect(receiver).map_err(|error| {
            format!("cannot send to {receiver}: {error}\nhint: set a reachable address with --at")
        })?;
        let never = SentDatagram { due: LocalTime::NEVER, handed: LocalTime::NEVER, taken: false };
        let mut log = vec![never; run.count];
        prefault(&mut log);
        log.clear();
        let mut datagram = vec![0; HEADER + run.packets.payload];
        datagram[..4].copy_from_slice(&run.run.to_be_bytes());
        Ok(Self { socket, schedule, datagram, log })
    }

    /// Overdue packets follow immediately.
    pub(super) fn run(mut self, stop: &Stop) -> Vec<SentDatagram> {
        let Self { socket, schedule, datagram, log } = &mut self;
        while let Some(due) = schedule.next().filter(|_| !stop.is_requested()) {
            sleep_until(due);
            schedule.pass(now(), |due| {
                datagram[4..8].copy_from_slice(&(log.len() as u32).to_be_bytes());
                let handed = now();
                let taken = socket.send(datagram).is_ok();
                if log.len() < log.capacity() {
                    log.push(SentDatagram { due, handed, taken });
                }
            });
        }
        self.log
    }
}
