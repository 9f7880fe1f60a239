//! A connection as a [`MuxedTransport`]: RFC 4571 frames with RTP and RTCP.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Producer, PushError};
use tautline_proto::call::window::{WindowGrowth, WindowStep};
use tautline_proto::endpoint::{Arrival, Endpoint};
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::framed::{FrameReader, LENGTH_BYTES, MAX_FRAMED};

use super::connection::{Connection, ConnectionLost, TcpWatch};
use super::outflow::QueuedReport;
use super::outflow::WaitingFrames;
use super::{TcpOptions, unusable};
use crate::clock::now;
use crate::link::event_queue::EventSender;
use crate::link::muxed::transport::{
    Half, Hears, MuxedTransport, ReceivingTransport, ReportTransport, Seals, SendingTransport,
    Speak,
};
use crate::link::{Datagram, Link, LinkCounters, OpenError, Pollable};
use crate::socket::batch::Batch;
use crate::socket::seal::{Seal, room};
use crate::system::errno;
use crate::thread::realtime::permit;

const READ_BYTES: usize = 64 << 10;
/// Reads per [`Link::receive`]: a flood must not occupy a real-time thread.
const ROUNDS: usize = 16;

impl MuxedTransport {
    /// Creates a transport, and a watch for its loss.
    pub fn tcp(
        stream: TcpStream,
        options: &TcpOptions,
        seals: Seals,
    ) -> Result<(Self, TcpWatch), OpenError> {
        let Seals { sending, receiving, reports } = seals;
        let datagram_bytes = options.datagram_bytes;
        let sealed = |seal: Option<&dyn Seal>| (datagram_bytes + room(seal)).min(MAX_FRAMED);
        let frame_bytes = LENGTH_BYTES + sealed(sending.as_deref());
        let peer = stream.peer_addr().map_err(|error| unusable(&error))?;
        let (connection, [one, other]) = Connection::new(stream, peer, options, frame_bytes)
            .map_err(|error| unusable(&error))?;
        let reader = FrameReader::new(sealed(receiving.as_deref()), READ_BYTES);
        let sender = TcpSender {
            batch: Batch::new(options.batch.max(2), datagram_bytes, room(sending.as_deref())),
            waiting: WaitingFrames::new(options.waiting(), frame_bytes),
            max_wait: options.max_wait,
            growth: options.grows_window.then(WindowGrowth::default),
            packets: 0,
            seal: sending,
            event_sender: None,
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
        let report = |reports: Producer<QueuedReport>, seal| ReportTransport {
            way: Box::new(TcpReports { reports, connection: Arc::clone(&connection) }),
            seal,
            peer: None,
        };
        let line = Self {
            reports: [report(one, seal), report(other, other_seal)],
            sending: SendingTransport { link: Box::new(sender), peer: None, seen: 0 },
            receiving: ReceivingTransport { link: Box::new(receiver), handles: Hears::Anyone },
            peer: None,
        };
        Ok((line, TcpWatch(connection)))
    }
}

/// Unaccepted packets wait here; old packets are dropped, so the delay never grows.
struct TcpSender {
    batch: Batch,
    waiting: WaitingFrames,
    max_wait: Span,
    growth: Option<WindowGrowth>,
    packets: u64,
    seal: Option<Box<dyn Seal>>,
    event_sender: Option<EventSender>,
    counters: LinkCounters,
    connection: Arc<Connection>,
}

impl TcpSender {
    fn finish(&mut self) {
        if self.batch.queued() == 0 {
            return;
        }
        let handed = now();
        self.batch.finish(handed, |_| handed, self.seal.as_deref_mut());
        for index in 0..self.batch.queued() {
            self.counters.overdue += self.waiting.push(self.batch.datagram(index), handed);
        }
        if let Some(event_sender) = &mut self.event_sender {
            self.counters.departures_lost += event_sender.all_departures(self.batch.departures());
        }
        self.batch.clear();
    }

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
        outflow.try_lock().map(|mut outflow| outflow.fill(socket, segments)).unwrap_or(Ok(()))?;
        Ok(false)
    }
}

impl Drop for TcpSender {
    fn drop(&mut self) {
        self.connection.unsent.store(true, Ordering::Relaxed);
        let Connection { socket, outflow, .. } = &*self.connection;
        let _ = outflow.try_lock().map(|mut outflow| outflow.settle(socket));
    }
}

impl AsFd for TcpSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Link for TcpSender {
    fn notify(&mut self, event_sender: EventSender) {
        self.event_sender = Some(event_sender);
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
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
        self.counters.overdue += self.waiting.drop_before(now - self.max_wait);
        let grown = self.grow(now);
        let Self { connection, waiting, counters, .. } = self;
        let Connection { socket, outflow, .. } = &**connection;
        let sent = match grown {
            Ok(true) => outflow.try_lock().map(|mut outflow| match waiting.len() {
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
            None => {}
        }
    }

    fn receive(&mut self, _: &mut dyn FnMut(Datagram<'_>)) {}

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
    fn release(&mut self) -> Option<EventSender> {
        self.event_sender.take()
    }
}

/// Arrival is the time of reading: kernel timestamps are per segment, and may precede a lost one's
/// retransmission.
struct TcpReceiver {
    reader: FrameReader,
    datagram_bytes: usize,
    seal: Option<Box<dyn Seal>>,
    is_over: bool,
    counters: LinkCounters,
    connection: Arc<Connection>,
}

impl TcpReceiver {
    fn read(&mut self) -> bool {
        let room = self.reader.room();
        let answer = {
            let _permit = permit("MSG_DONTWAIT: the call does not wait");
            let fd = self.connection.socket.fd();
            // SAFETY: the buffer is writable and of this length.
            unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) }
        };
        match answer {
            1.. => {
                let (count, maximum) = (answer.unsigned_abs(), room.len());
                self.reader.filled(count);
                count == maximum
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

    fn deliver(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) -> Result<(), ConnectionLost> {
        let read = now();
        let source = Endpoint::from(self.connection.peer);
        let mut any = false;
        loop {
            let frame =
                self.reader.next_frame().map_err(|long| ConnectionLost::TooLong(long.length))?;
            let Some(frame) = frame else { break };
            let bytes = match &mut self.seal {
                None => &*frame,
                Some(seal) => {
                    let Some(opened) = seal.open(frame) else {
                        self.counters.auth_failed += 1;
                        continue;
                    };
                    opened
                }
            };
            any = true;
            self.counters.received += 1;
            self.counters.unstamped += 1;
            let arrival = Arrival { from: source, at: read, uncertainty: Span::MAX, read };
            deliver(Datagram { bytes, arrival, truncated: false });
        }
        if any {
            self.connection.handles(read);
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

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
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
    fn is_over(&self) -> bool {
        self.is_over
    }
}

struct TcpReports {
    reports: Producer<QueuedReport>,
    connection: Arc<Connection>,
}

/// Retries while another thread sends a report.
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
            match outflow.try_lock().map(|mut outflow| outflow.settle(socket)) {
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
