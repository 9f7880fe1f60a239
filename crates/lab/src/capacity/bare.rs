//! Minimum exchange time: as many equal datagrams to echo programs.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use tautline_io::udp::any;
use tautline_proto::device::Stop;
use tautline_proto::time::LocalTime;

use super::master::{MasterLog, PeriodCycle};

#[derive(Debug)]
pub(super) struct BareCycle {
    sockets: Vec<(UdpSocket, SocketAddr)>,
    datagram: Vec<u8>,
    room: Vec<u8>,
    pub(super) answered: u64,
}

impl BareCycle {
    pub(super) fn open(far: &[SocketAddr], bytes: usize) -> Result<Self, String> {
        let open = |far: &SocketAddr| {
            let socket = UdpSocket::bind((any(far.is_ipv6()), 0))?;
            socket.set_nonblocking(true)?;
            Ok((socket, *far))
        };
        let sockets: io::Result<Vec<_>> = far.iter().map(open).collect();
        let sockets = sockets.map_err(|error| {
            format!("cannot open sockets for a bare exchange: {error}\nhint: raise ulimit -n")
        })?;
        Ok(Self { sockets, datagram: vec![0; bytes], room: vec![0; bytes], answered: 0 })
    }
}

impl PeriodCycle for BareCycle {
    fn blocks(&self) -> usize {
        self.sockets.len()
    }

    fn run(&mut self, _due: LocalTime, _log: &mut MasterLog) {
        for (socket, far) in &self.sockets {
            if socket.recv_from(&mut self.room).is_ok() {
                self.answered += 1;
            }
            let _ = socket.send_to(&self.datagram, far);
        }
    }
}

/// Echoes until stopped; `timeout` is the receive timeout.
pub(super) fn echo(
    socket: &UdpSocket,
    stop: &Stop,
    timeout: core::time::Duration,
) -> io::Result<()> {
    socket.set_read_timeout(Some(timeout))?;
    let mut room = vec![0; MAX_BYTES];
    while !stop.is_requested() {
        if let Ok((bytes, from)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..bytes], from);
        }
    }
    Ok(())
}

/// RFC 768.
const MAX_BYTES: usize = 65_535;
