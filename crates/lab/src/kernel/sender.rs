//! Sends numbered packets to a schedule.

use std::net::{SocketAddr, UdpSocket};

use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::memory::prefault;
use tautline_proto::device::Stop;
use tautline_proto::time::LocalTime;

use super::HEADER;
use super::case::KernelCase;
use crate::schedule::OpenSchedule;

/// A packet that was sent; its number is its place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentDatagram {
    /// When it was to be.
    pub(super) due: LocalTime,
    /// When the kernel was called with it.
    pub(super) handed: LocalTime,
    /// Whether it took it.
    pub(super) taken: bool,
}

/// What sends.
pub(super) struct KernelSender {
    socket: UdpSocket,
    schedule: OpenSchedule,
    datagram: Vec<u8>,
    log: Vec<SentDatagram>,
}

impl KernelSender {
    /// To `receiver`, with all room taken.
    pub(super) fn open(
        case: &KernelCase,
        schedule: OpenSchedule,
        receiver: SocketAddr,
    ) -> Result<Self, String> {
        let socket = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
            socket.connect(receiver)?;
            Ok(socket)
        });
        let socket = socket.map_err(|error| {
            format!("a socket to send from: {error}; end other programs or raise ulimit -n")
        })?;
        let never = SentDatagram { due: LocalTime::NEVER, handed: LocalTime::NEVER, taken: false };
        let mut log = vec![never; case.count];
        prefault(&mut log);
        log.clear();
        let mut datagram = vec![0; HEADER + case.packets.payload];
        datagram[..4].copy_from_slice(&case.run.to_be_bytes());
        Ok(Self { socket, schedule, datagram, log })
    }

    /// Until the schedule is over or it is asked to stop: what it missed follows at once.
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
