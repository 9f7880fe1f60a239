//! A connection as a [`MuxedLine`]: frames of RFC 4571 that hold RTP and RTCP.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Producer, PushError};
use tautline_proto::call::window::{WindowGrowth, WindowStep};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::framed::{FrameReader, LENGTH_BYTES, MOST_FRAMED};

use super::connection::{Connection, ConnectionLost, TcpWatch};
use super::outflow::QueuedReport;
use super::waiting::WaitingFrames;
use super::{TcpOptions, unusable};
use crate::clock::now;
use crate::link::muxed::line::{
    Half, Hears, MuxedLine, ReceivingLine, ReportLine, Seals, SendingLine, Speak,
};
use crate::link::told::Teller;
use crate::link::{Arrival, Link, LinkCounters, OpenError, Pollable, TransmitStamp};
use crate::socket::batch::Batch;
use crate::socket::seal::{Seal, room};
use crate::system::errno;
use crate::thread::realtime::permit;

/// What is read at once: more than a period's packets.
const READ_BYTES: usize = 64 << 10;
/// Reads that one [`Link::receive`] makes at most, so that a flood cannot hold a real-time thread for ever.
const ROUNDS: usize = 16;

impl MuxedLine {
    /// A connection, which is set up for sound, and what tells when it is lost.
    pub fn tcp(
        stream: TcpStream,
        options: &TcpOptions,
        seals: Seals,
    ) -> Result<(Self, TcpWatch), OpenError> {
        let Seals { sending, receiving, reports } = seals;
        let datagram_bytes = options.datagram_bytes;
        let sealed = |seal: Option<&dyn Seal>| (datagram_bytes + room(seal)).min(MOST_FRAMED);
        let frame_bytes = LENGTH_BYTES + sealed(sending.as_deref());
        let peer = stream.peer_addr().map_err(|error| unusable(&error))?;
        let (connection, [one, other]) = Connection::new(stream, peer, options, frame_bytes)
            .map_err(|error| unusable(&error))?;
        let reader = FrameReader::new(sealed(receiving.as_deref()), READ_BYTES);
        let sender = TcpSender {
            batch: Batch::new(options.batch.max(2), datagram_bytes, room(sending.as_deref())),
            waiting: WaitingFrames::new(options.waiting(), frame_bytes),
            most_wait: options.most_wait,
            growth: options.grows_window.then(WindowGrowth::default),
            packets: 0,
            seal: sending,
            teller: None,
            counters: LinkCounters::default(),
            connection: Arc::clone(&connection),
        };
        let receiver = TcpReceiver {
            reader,
            datagram_bytes,
            seal: receiving,
            is_over: false,
            counters: LinkCounters::default(),
            connection: Arc::clone(&connection),
        };
        let [seal, other_seal] = reports;
        let report = |reports: Producer<QueuedReport>, seal| ReportLine {
            way: Box::new(TcpReports { reports, connection: Arc::clone(&connection) }),
            seal,
            peer: None,
        };
        let line = Self {
            reports: [report(one, seal), report(other, other_seal)],
            sending: SendingLine { link: Box::new(sender), peer: None, seen: 0 },
            receiving: ReceivingLine { link: Box::new(receiver), hears: Hears::Anyone },
            peer: None,
        };
        Ok((line, TcpWatch(connection)))
    }
}

/// Frames what is sent. What the connection does not take waits here, and is dropped, the oldest first, once it has
/// waited for too long: the delay never grows. A frame that has begun to leave is ended.
struct TcpSender {
    batch: Batch,
    waiting: WaitingFrames,
    most_wait: Span,
    /// Of a connection whose window is being grown.
    growth: Option<WindowGrowth>,
    /// Packets that were to go meanwhile.
    packets: u64,
    seal: Option<Box<dyn Seal>>,
    teller: Option<Teller>,
    counters: LinkCounters,
    connection: Arc<Connection>,
}

impl TcpSender {
    /// Finishes what was queued and lets it wait.
    fn finish(&mut self) {
        if self.batch.queued() == 0 {
            return;
        }
        let handed = now();
        self.batch.finish(handed, |_| handed, self.seal.as_deref_mut());
        for index in 0..self.batch.queued() {
            self.counters.overdue += self.waiting.push(self.batch.datagram(index), handed);
        }
        if let Some(teller) = self.teller.as_mut().filter(|teller| teller.tells_departures()) {
            for departure in self.batch.departures() {
                self.counters.departures_lost += u64::from(!teller.departure(departure));
            }
        }
        self.batch.clear();
    }

    /// Grows the window by null packets instead of those that wait; whether it is wide enough for these now.
    fn grow(&mut self, now: LocalTime) -> Result<bool, i32> {
        let Some(growth) = &mut self.growth else { return Ok(true) };
        self.packets += self.waiting.len() as u64;
        let Self { connection, waiting, counters, .. } = self;
        let Connection { socket, outflow, .. } = &**connection;
        let step = growth.look(now, self.packets, connection.window());
        let WindowStep::Fill(segments) = step else {
            self.growth = None;
            return Ok(true);
        };
        counters.let_go += waiting.clear();
        // Where a report is being sent just now, these go with the next packets.
        outflow.try_with(|outflow| outflow.fill(socket, segments)).unwrap_or(Ok(()))?;
        Ok(false)
    }
}

impl Drop for TcpSender {
    /// What waits is not sent, but a frame that has begun, and reports.
    fn drop(&mut self) {
        self.connection.unsent.store(true, Ordering::Relaxed);
        let Connection { socket, outflow, .. } = &*self.connection;
        let _ = outflow.try_with(|outflow| outflow.settle(socket));
    }
}

impl AsFd for TcpSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Link for TcpSender {
    fn tell(&mut self, teller: Teller) {
        self.teller = Some(teller);
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        // Until there is another there is nowhere to send to.
        if self.connection.lost().is_some() {
            self.counters.let_go += 1;
            return false;
        }
        let taken = self.batch.queue(packet);
        self.counters.dropped += u64::from(!taken);
        taken
    }

    fn flush(&mut self) {
        self.finish();
        let now = now();
        self.connection.flushes(now);
        if self.connection.lost().is_some() {
            self.counters.let_go += self.waiting.clear();
            return;
        }
        self.counters.overdue += self.waiting.drop_before(now - self.most_wait);
        let grown = self.grow(now);
        let Self { connection, waiting, counters, .. } = self;
        let Connection { socket, outflow, .. } = &**connection;
        let sent = match grown {
            Ok(true) => outflow.try_with(|outflow| match waiting.len() {
                0 => outflow.settle(socket).map(|_| 0),
                _ => outflow.send(socket, waiting),
            }),
            Ok(false) => return,
            Err(errno) => Some(Err(errno)),
        };
        match sent {
            Some(Ok(sent)) => counters.sent += sent,
            Some(Err(errno)) => {
                counters.last_error = errno;
                counters.let_go += waiting.clear();
                connection.lose(ConnectionLost::Error(errno));
            }
            // A report is being sent: what waits goes with the next.
            None => {}
        }
    }

    fn receive(&mut self, _: &mut dyn FnMut(Arrival<'_>)) {}

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl Pollable for TcpSender {
    fn datagram_bytes(&self) -> usize {
        self.batch.datagram_bytes()
    }

    fn is_full(&self) -> bool {
        self.batch.is_full()
    }
}

impl Half for TcpSender {
    fn release(&mut self) -> Option<Teller> {
        self.teller.take()
    }
}

/// Takes frames apart as they come.
///
/// Arrivals bear the instant of their reading and no stamp of the kernel's: what it stamps is a segment, which may have
/// waited for another that was lost, and then a frame's last byte was there long before anybody could have it.
struct TcpReceiver {
    reader: FrameReader,
    datagram_bytes: usize,
    seal: Option<Box<dyn Seal>>,
    is_over: bool,
    counters: LinkCounters,
    connection: Arc<Connection>,
}

impl TcpReceiver {
    /// Reads what there is, or as much as there is room for: whether there may be more.
    fn read(&mut self) -> bool {
        let room = self.reader.room();
        let answer = {
            let _permit = permit("MSG_DONTWAIT: the call does not wait");
            let fd = self.connection.socket.fd();
            // SAFETY: the room is writable and of this length.
            unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) }
        };
        match answer {
            1.. => {
                let (count, most) = (answer.unsigned_abs(), room.len());
                self.reader.filled(count);
                count == most
            }
            0 => self.end(ConnectionLost::Ended),
            _ => match errno() {
                libc::EAGAIN => false,
                libc::EINTR => true,
                errno => {
                    self.counters.last_error = errno;
                    self.end(ConnectionLost::Error(errno))
                }
            },
        }
    }

    fn end(&mut self, why: ConnectionLost) -> bool {
        self.is_over = true;
        self.connection.lose(why);
        false
    }

    /// Delivers the frames that are whole.
    fn deliver(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) -> Result<(), ConnectionLost> {
        let read = now();
        let source = Endpoint::from(self.connection.peer);
        let mut any = false;
        loop {
            let frame =
                self.reader.next_frame().map_err(|long| ConnectionLost::TooLong(long.length))?;
            let Some(frame) = frame else { break };
            let datagram = match &mut self.seal {
                None => &*frame,
                Some(seal) => {
                    let Some(opened) = seal.open(frame) else {
                        self.counters.unopened += 1;
                        continue;
                    };
                    opened
                }
            };
            any = true;
            self.counters.received += 1;
            self.counters.unstamped += 1;
            let (arrival, stamp_uncertainty, truncated) = (read, Span::MAX, false);
            deliver(Arrival { datagram, source, arrival, stamp_uncertainty, read, truncated });
        }
        if any {
            self.connection.hears(read);
        }
        Ok(())
    }
}

impl AsFd for TcpReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Link for TcpReceiver {
    fn queue(&mut self, _: &Outgoing<'_>) -> bool {
        false
    }

    fn flush(&mut self) {}

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        for _ in 0..ROUNDS {
            if self.is_over {
                return;
            }
            let more = self.read();
            if let Err(why) = self.deliver(deliver) {
                self.end(why);
            }
            if !more {
                return;
            }
        }
    }

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl Pollable for TcpReceiver {
    fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    fn is_full(&self) -> bool {
        false
    }
}

impl Half for TcpReceiver {
    fn release(&mut self) -> Option<Teller> {
        None
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Reports by the same connection: sent by the sending link as it flushes, or here where none does.
struct TcpReports {
    reports: Producer<QueuedReport>,
    connection: Arc<Connection>,
}

/// How often another thread that sends a report is waited for: a call of the system of its.
const TRIES: usize = 100;

impl Speak for TcpReports {
    fn speak(&mut self, report: &[u8], _: Option<SocketAddr>) -> io::Result<()> {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        if self.connection.lost().is_some() {
            return refused(libc::ENOTCONN);
        }
        let Some(report) = QueuedReport::of(report) else { return refused(libc::EMSGSIZE) };
        let Connection { socket, outflow, .. } = &*self.connection;
        let mut unplaced = Some(report);
        for _ in 0..TRIES {
            unplaced = unplaced.and_then(|report| match self.reports.push(report) {
                Ok(()) => None,
                Err(PushError::Full(report)) => Some(report),
            });
            if self.connection.is_flushed() {
                break;
            }
            match outflow.try_with(|outflow| outflow.settle(socket)) {
                Some(Ok(_)) if unplaced.is_none() => return Ok(()),
                Some(Err(errno)) => {
                    self.connection.lose(ConnectionLost::Error(errno));
                    return refused(errno);
                }
                _ => std::thread::yield_now(),
            }
        }
        if unplaced.is_some() { refused(libc::EAGAIN) } else { Ok(()) }
    }
}
