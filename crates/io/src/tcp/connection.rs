//! A connection, shared by its users.

use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use rtrb::Producer;
use tautline_proto::call::window::WindowState;
use tautline_proto::time::{LocalTime, Span};

use super::TcpOptions;
use super::outflow::{Outflow, QueuedReport};
use crate::clock::now;
use crate::socket::descriptor::Socket;
use crate::thread::realtime::permit;
use crate::thread::sentence;
use try_lock::TryLock;

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionLost {
    /// The peer closed it.
    Ended,
    /// The system failed it with this `errno`.
    Error(i32),
    /// A frame above the maximum: the peer is foreign or out of sync.
    TooLong(usize),
}

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the peer closed it"),
            Self::Error(errno) => f.write_str(&sentence(*errno)),
            Self::TooLong(length) => write!(f, "invalid frame length {length} (RFC 4571)"),
        }
    }
}

const GIVEN_UP: Span = Span::from_secs(10);
const ASKED_AFTER: Span = Span::from_secs(4);
const ASKED: i32 = 3;

pub(super) struct Connection {
    pub(super) socket: Socket,
    pub(super) peer: SocketAddr,
    pub(super) outflow: TryLock<Outflow>,
    flushed: AtomicI64,
    received: AtomicI64,
    pub(super) unsent: AtomicBool,
    lost: AtomicU64,
}

/// For this time after its last flush, the sending link also sends reports, so that two threads do
/// not contend.
const FLUSHES: Span = Span::from_millis(100);

impl Connection {
    pub(super) fn new(
        stream: impl Into<OwnedFd>,
        peer: SocketAddr,
        options: &TcpOptions,
        frame_bytes: usize,
    ) -> io::Result<(Arc<Self>, [Producer<QueuedReport>; 2])> {
        let socket = Socket::adopt(stream.into())?;
        let tcp = libc::IPPROTO_TCP;
        socket.set(tcp, libc::TCP_NODELAY, 1)?;
        // Further packets wait here, where they can be dropped.
        socket.set(tcp, libc::TCP_NOTSENT_LOWAT, i32::try_from(frame_bytes).unwrap_or(i32::MAX))?;
        socket.set(tcp, libc::TCP_USER_TIMEOUT, millis(GIVEN_UP))?;
        socket.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        let seconds = millis(ASKED_AFTER) / 1000;
        socket.set(tcp, libc::TCP_KEEPIDLE, seconds)?;
        socket.set(tcp, libc::TCP_KEEPINTVL, seconds / 2)?;
        socket.set(tcp, libc::TCP_KEEPCNT, ASKED)?;
        // Disables exponential back-off for few packets in flight.
        socket.set(tcp, libc::TCP_THIN_LINEAR_TIMEOUTS, 1)?;
        let class = i32::from(options.dscp) << 2;
        match peer.is_ipv4() {
            true => socket.set(libc::IPPROTO_IP, libc::IP_TOS, class)?,
            false => socket.set(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class)?,
        }
        let (outflow, reports) = Outflow::new(frame_bytes);
        let connection = Self {
            socket,
            peer,
            outflow: TryLock::new(outflow),
            flushed: AtomicI64::new(0),
            received: AtomicI64::new(now().as_nanos()),
            unsent: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        };
        Ok((Arc::new(connection), reports))
    }

    pub(super) fn window(&self) -> Option<WindowState> {
        let _permit = permit("the call waits for nothing but the socket's own lock");
        let reported =
            self.socket.plain::<libc::tcp_info>(libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
        Some(WindowState {
            window: reported.tcpi_snd_cwnd,
            unacknowledged: reported.tcpi_unacked,
            round_trip: Span::from_micros(reported.tcpi_rtt.into()),
            sent_again: reported.tcpi_total_retrans,
        })
    }

    pub(super) fn flushes(&self, at: LocalTime) {
        self.flushed.store(at.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn is_flushed(&self) -> bool {
        let last = LocalTime::from_nanos(self.flushed.load(Ordering::Relaxed));
        !self.unsent.load(Ordering::Relaxed) && now() - last < FLUSHES
    }

    pub(super) fn handles(&self, at: LocalTime) {
        self.received.store(at.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn received(&self) -> LocalTime {
        LocalTime::from_nanos(self.received.load(Ordering::Relaxed))
    }

    pub(super) fn lose(&self, why: ConnectionLost) {
        let code = match why {
            ConnectionLost::Ended => 1 << 32,
            ConnectionLost::Error(errno) => 2 << 32 | u64::from(errno.unsigned_abs()),
            ConnectionLost::TooLong(length) => 3 << 32 | length as u64,
        };
        let first = self.lost.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
        if first.is_ok() && why != ConnectionLost::Ended {
            let _permit = permit("the call shuts the socket and waits for nothing");
            // SAFETY: the call takes no pointers.
            unsafe { libc::shutdown(self.socket.fd(), libc::SHUT_RDWR) };
        }
    }

    pub(super) fn lost(&self) -> Option<ConnectionLost> {
        let code = self.lost.load(Ordering::Acquire);
        match code >> 32 {
            1 => Some(ConnectionLost::Ended),
            2 => Some(ConnectionLost::Error(code as u32 as i32)),
            3 => Some(ConnectionLost::TooLong(code as u32 as usize)),
            _ => None,
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn millis(span: Span) -> i32 {
    i32::try_from(span.as_nanos() / 1_000_000).unwrap_or(i32::MAX)
}

/// Detects the loss of a connection, on an ordinary thread.
pub struct TcpWatch(pub(super) Arc<Connection>);

impl TcpWatch {
    pub(super) fn close(&self) {
        self.0.lose(ConnectionLost::Error(libc::ETIMEDOUT));
    }

    pub(crate) fn polled(&self) -> libc::pollfd {
        libc::pollfd { fd: self.0.socket.as_fd().as_raw_fd(), events: libc::POLLRDHUP, revents: 0 }
    }

    /// The reason, if lost.
    pub fn lost(&self) -> Option<ConnectionLost> {
        if let Some(lost) = self.0.lost() {
            return Some(lost);
        }
        let mut polled = [self.polled()];
        // A reader notices only after the remaining data.
        if !crate::socket::descriptor::poll(&mut polled, LocalTime::ZERO) {
            return None;
        }
        let error = self.0.socket.option(libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
        Some(if error == 0 { ConnectionLost::Ended } else { ConnectionLost::Error(error) })
    }

    /// Time of the last data received.
    pub fn received(&self) -> LocalTime {
        self.0.received()
    }

    /// Returns the address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_exclusive_and_free_after_a_panic() {
        let claimed = TryLock::new(1);
        assert_eq!(
            claimed.try_lock().map(|_lock| claimed.try_lock().map(|value| *value)),
            Some(None)
        );
        let panicked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            let locked = claimed.try_lock();
            assert!(locked.is_none(), "on purpose");
        }));
        assert!(panicked.is_err());
        let counted = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if claimed.try_lock().map(|mut value| *value += 1).is_some() {
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(claimed.try_lock().map(|value| *value), Some(1 + counted.into_inner()));
    }
}
