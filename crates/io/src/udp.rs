//! RTP's usual way: UDP, the system calls made on the caller's own thread.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use rtrb::Producer;
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::Span;

use crate::clock::now;
use crate::control::ControlSocket;
use crate::link::{Arrival, Link, LinkCounters, TransmitStamp};
use crate::open::open;
pub use crate::open::{DSCP_MEDIA, FragmentPolicy, OpenError, UdpOptions, header_bytes, path_mtu};
use crate::receive_batch::{ReceiveBatch, Received};
use crate::send_batch::SendBatch;
use crate::socket::Socket;
use crate::timestamp::StampClock;
use crate::transmit::TransmitSampler;

/// Full batches that one [`Link::receive`] fetches at most, so that a flood cannot hold a
/// real-time thread for ever.
const RECEIVE_ROUNDS: usize = 64;

/// A UDP link whose every call is the caller's own: [`Link::flush`] is one `sendmmsg` and
/// [`Link::receive`] one `recvmmsg` that does not wait (another only after a full batch).
///
/// The kernel's socket queue is the queue, and its stamp the arrival time.
pub struct DirectUdp {
    socket: Socket,
    local: SocketAddr,
    outgoing: SendBatch,
    incoming: Incoming,
    departures: Option<Producer<Departure>>,
    counters: LinkCounters,
    sampler: TransmitSampler,
}

impl DirectUdp {
    /// Opens the socket and lays out everything that will ever be needed.
    pub fn open(options: &UdpOptions) -> Result<Self, OpenError> {
        let socket = open(options)?;
        let local = socket.local().unwrap_or(options.bind);
        Ok(Self {
            local,
            outgoing: SendBatch::new(options.batch, options.datagram_bytes, &options.destinations),
            incoming: Incoming::new(options),
            departures: None,
            counters: LinkCounters::default(),
            sampler: TransmitSampler::every(options.transmit_stamp_every),
            socket,
        })
    }

    /// Opens a link for RTP and a socket for RTCP on the UDP port above (RFC 3550 §11). For UDP
    /// port 0 a free pair is found whose first is even.
    pub fn open_pair(options: &UdpOptions) -> Result<(Self, ControlSocket), OpenError> {
        if options.bind.port() != 0 {
            return Self::open_pair_at(options, options.bind.port());
        }
        let mut tries = 0;
        loop {
            let free = open(options)?.local().map_or(0, |local| local.port());
            let even = free & !1;
            match Self::open_pair_at(options, even) {
                Err(error) if error.errno == libc::EADDRINUSE && tries < PAIR_TRIES => tries += 1,
                answer => return answer,
            }
        }
    }

    fn open_pair_at(options: &UdpOptions, port: u16) -> Result<(Self, ControlSocket), OpenError> {
        let mut media = options.clone();
        media.bind.set_port(port);
        let Some(above) = port.checked_add(1) else {
            return Err(OpenError {
                tried: format!("binding UDP port {port} and the one above for RTCP"),
                answer: "there is none above".into(),
                mend: "use an even UDP port below 65535".into(),
                errno: 0,
            });
        };
        let control = ControlSocket::open(&options.for_control(above))?;
        Ok((Self::open(&media)?, control))
    }

    /// The address that the socket is bound to.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The largest datagram in bytes that the link was opened for.
    pub const fn datagram_bytes(&self) -> usize {
        self.outgoing.datagram_bytes()
    }

    /// Gives the link the ring into which it puts the instants of each packet once it is handed
    /// over.
    pub fn record_departures(&mut self, ring: Producer<Departure>) {
        self.departures = Some(ring);
    }

    /// The bytes that the kernel gave the receive and the send buffer, its own book-keeping
    /// included.
    pub fn buffers(&self) -> (usize, usize) {
        let bytes =
            |name| self.socket.option(libc::SOL_SOCKET, name).map_or(0, |n| n.max(0) as usize);
        (bytes(libc::SO_RCVBUF), bytes(libc::SO_SNDBUF))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.outgoing.is_full()
    }
}

impl AsRawFd for DirectUdp {
    /// For waiting on the socket in a poll of the caller's own. Reading it by other means loses
    /// what is read to the link.
    fn as_raw_fd(&self) -> RawFd {
        self.socket.fd()
    }
}

/// Pairs of UDP ports that are tried before giving up: each fails only if somebody holds one.
const PAIR_TRIES: usize = 64;

impl Link for DirectUdp {
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        let taken = self.outgoing.queue(packet);
        self.counters.dropped += u64::from(!taken);
        taken
    }

    fn flush(&mut self) {
        if self.outgoing.queued() == 0 {
            return;
        }
        let handed = now();
        self.outgoing.stamp(handed);
        self.sampler.choose(&mut self.outgoing);
        let outcome = self.outgoing.send(&self.socket);
        if let Some(ring) = &mut self.departures {
            for departure in self.outgoing.departures() {
                self.counters.departures_lost += u64::from(ring.push(departure).is_err());
            }
        }
        self.outgoing.clear();
        self.counters.sent += outcome.sent;
        if outcome.last_error != 0 {
            self.counters.send_errors += outcome.refused;
            self.counters.last_error = outcome.last_error;
            self.sampler.start_over(&self.socket);
        }
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        self.incoming.receive(&self.socket, &mut self.counters, deliver);
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.sampler.collect(&self.socket, &mut self.incoming.clock, deliver);
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

/// The receiving half of a socket, media or control.
pub(crate) struct Incoming {
    batch: ReceiveBatch,
    pub(crate) clock: StampClock,
    source: Option<IpAddr>,
    overflow: u32,
}

impl Incoming {
    pub(crate) fn new(options: &UdpOptions) -> Self {
        Self {
            batch: ReceiveBatch::new(options.batch, options.datagram_bytes),
            clock: StampClock::new(now()),
            source: options.source_filter,
            overflow: 0,
        }
    }

    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        counters: &mut LinkCounters,
        deliver: &mut dyn FnMut(Arrival<'_>),
    ) {
        for _ in 0..RECEIVE_ROUNDS {
            let count = match self.batch.receive(socket) {
                Ok(count) => count,
                Err(libc::EAGAIN) => return,
                // An error left by an earlier datagram is reported once and then gone.
                Err(error) => {
                    counters.last_error = error;
                    continue;
                }
            };
            let read = now();
            self.clock.refresh(read);
            for index in 0..count {
                let message = self.batch.message(index);
                if self.source.is_some_and(|wanted| message.source.map(|s| s.ip()) != Some(wanted))
                {
                    counters.foreign += 1;
                    continue;
                }
                if let Some(arrival) = place(&message, &mut self.clock, read) {
                    count_arrival(&arrival, counters);
                    deliver(arrival);
                }
                if let Some(overflow) = message.told.overflow {
                    counters.kernel_drops += u64::from(overflow.wrapping_sub(self.overflow));
                    self.overflow = overflow;
                }
            }
            self.batch.rearm(count);
            if count < self.batch.capacity() {
                return;
            }
        }
    }
}

fn place<'a>(
    message: &Received<'a>,
    clock: &mut StampClock,
    read: tautline_proto::time::LocalTime,
) -> Option<Arrival<'a>> {
    let stamp = message.told.stamp.and_then(|stamp| clock.localise(stamp, read));
    let (arrival, stamp_uncertainty) = stamp.unwrap_or((read, Span::MAX));
    Some(Arrival {
        datagram: message.datagram,
        source: message.source?,
        arrival,
        stamp_uncertainty,
        read,
        truncated: message.truncated,
    })
}

fn count_arrival(arrival: &Arrival<'_>, counters: &mut LinkCounters) {
    counters.received += 1;
    counters.truncated += u64::from(arrival.truncated);
    counters.unstamped += u64::from(arrival.stamp_uncertainty == Span::MAX);
}
