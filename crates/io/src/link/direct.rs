//! A link whose system calls are made on the caller's own thread, by sockets of whatever network.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::stream::Outgoing;

use crate::clock::now;
use crate::link::batch::Batch;
use crate::link::destinations::Destinations;
use crate::link::seal::{Seal, room};
use crate::link::told::{LinkEvent, Teller};
use crate::link::{Arrival, Link, LinkCounters, OpenError, Pollable, TransmitStamp};
use crate::rights::granting;
use crate::socket::descriptor::Socket;
use crate::socket::incoming::Incoming;
use crate::socket::launch::{self, LaunchOptions, Launcher};
use crate::socket::outlet::{Outlet, Sent};
use crate::socket::transmit::TransmitSampler;

/// What a link makes room for.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectRoom {
    /// The largest datagram in bytes.
    pub(crate) datagram_bytes: usize,
    /// Packets that one system call sends, and datagrams that one fetches.
    pub(crate) batch: usize,
    /// Room for so many destinations if they are changed while sending.
    pub(crate) most_destinations: usize,
    /// Every how many packets one is sampled for its transmit stamp; 0 for none.
    pub(crate) transmit_stamp_every: u32,
    /// The only hosts to hear; all where there are none.
    pub(crate) sources: Box<[Host]>,
}

/// A link whose every call is the caller's own: [`Link::flush`] is one `sendmmsg` and
/// [`Link::receive`] one `recvmmsg` that does not wait (another only after a full batch).
///
/// The kernel's socket queue is the queue, and its stamp the arrival time.
pub struct DirectLink {
    local: Endpoint,
    batch: Batch,
    outlet: Outlet,
    /// The second network, by which everything goes too.
    also: Option<Box<Outlet>>,
    seal: Option<Box<dyn Seal>>,
    incoming: Incoming,
    teller: Option<Teller>,
    /// The `errno` that was told last.
    failed: i32,
    counters: LinkCounters,
    sampler: TransmitSampler,
    launcher: Option<Launcher>,
}

impl DirectLink {
    /// Lays out everything that will ever be needed to use a socket, and a second one by which everything goes
    /// too, each with its destinations. Datagrams are sealed by `seal` if there is one: what is sent is longer
    /// by its room.
    pub(crate) fn over(
        first: (Socket, Vec<Endpoint>),
        also: Option<(Socket, Vec<Endpoint>)>,
        layout: DirectRoom,
        (local, seal): (Endpoint, Option<Box<dyn Seal>>),
    ) -> Self {
        let DirectRoom { datagram_bytes, batch, most_destinations, transmit_stamp_every, sources } =
            layout;
        let seal_room = room(seal.as_deref());
        let sends = !first.1.is_empty() || most_destinations > 0;
        let capacity = if sends { batch.max(2) } else { 1 };
        let outlet = |(socket, destinations): (Socket, Vec<Endpoint>)| {
            Outlet::new(socket, capacity, &destinations, most_destinations, local)
        };
        Self {
            local,
            batch: Batch::new(capacity, datagram_bytes, seal_room),
            outlet: outlet(first),
            also: also.map(outlet).map(Box::new),
            seal,
            incoming: Incoming::new(batch, datagram_bytes + seal_room, sources),
            teller: None,
            failed: 0,
            counters: LinkCounters::default(),
            sampler: TransmitSampler::every(transmit_stamp_every),
            launcher: None,
        }
    }

    /// Has the kernel launch every packet from now on, if it is to.
    pub(crate) fn launching(mut self, options: Option<LaunchOptions>) -> Result<Self, OpenError> {
        let Some(options) = options else { return Ok(self) };
        let refused = |error: io::Error| {
            let tried = "asking the kernel for launch times".to_owned();
            let mend =
                format!("ETF takes CAP_NET_ADMIN: {}, or use pacing fq", granting("cap_net_admin"));
            OpenError::new(tried, &error, mend)
        };
        self.launcher = Some(Launcher::of(options, &self.outlet.socket, now()).map_err(refused)?);
        self.outlet.launch_all();
        if let Some(also) = &mut self.also {
            launch::ask(options, &also.socket).map_err(refused)?;
            also.launch_all();
        }
        Ok(self)
    }

    fn count(&mut self, outcome: Sent) {
        self.counters.sent += outcome.sent;
        self.counters.send_errors += outcome.refused;
        self.fail(outcome.last_error);
    }

    /// A system call failed, if `errno` is not 0. That the same goes on is no news.
    fn fail(&mut self, errno: i32) {
        if errno == 0 {
            return;
        }
        self.counters.last_error = errno;
        if let Some(teller) = self.teller.as_mut().filter(|_| self.failed != errno) {
            self.failed = errno;
            teller.event(LinkEvent::Error(errno));
        }
    }

    /// The place that the socket is bound to.
    pub const fn place(&self) -> Endpoint {
        self.local
    }

    /// The bytes that the kernel gave the receive and the send buffer, its own book-keeping
    /// included.
    pub fn buffers(&self) -> (usize, usize) {
        let bytes = |name| {
            self.outlet.socket.option(libc::SOL_SOCKET, name).map_or(0, |n| n.max(0) as usize)
        };
        (bytes(libc::SO_RCVBUF), bytes(libc::SO_SNDBUF))
    }
}

impl AsFd for DirectLink {
    /// For waiting on the socket in a poll of the caller's own. Reading it by other means loses
    /// what is read to the link.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outlet.socket.as_fd()
    }
}

impl Pollable for DirectLink {
    fn datagram_bytes(&self) -> usize {
        self.batch.datagram_bytes()
    }

    fn is_full(&self) -> bool {
        self.batch.is_full()
    }
}

impl Link for DirectLink {
    fn tell(&mut self, teller: Teller) {
        self.teller = Some(teller);
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        let taken = self.outlet.sends() && self.batch.queue(packet);
        self.counters.dropped += u64::from(!taken);
        taken
    }

    fn flush(&mut self) {
        if self.batch.queued() == 0 {
            return;
        }
        let handed = now();
        match &mut self.launcher {
            None => self.batch.finish(handed, |_| handed, self.seal.as_deref_mut()),
            Some(launcher) => {
                launcher.refresh(handed);
                let launch = |due| launcher.launch(due, handed);
                self.batch.finish(handed, launch, self.seal.as_deref_mut());
                for (packet, departure) in self.batch.departures().enumerate() {
                    let time = launcher.time(&departure);
                    self.outlet.launch(packet, time);
                    self.also.iter().for_each(|also| also.launch(packet, time));
                }
            }
        }
        self.sampler.choose(&self.batch, &mut self.outlet);
        let outcome = self.outlet.send(&self.batch);
        self.count(outcome);
        if outcome.last_error != 0 {
            self.sampler.start_over(&self.outlet.socket);
        }
        if let Some(also) = &mut self.also {
            let outcome = also.send(&self.batch);
            self.counters.also.0 += outcome.sent;
            self.counters.also.1 += outcome.refused;
            self.count(outcome);
        }
        if let Some(teller) = self.teller.as_mut().filter(|teller| teller.tells_departures()) {
            for departure in self.batch.departures() {
                self.counters.departures_lost += u64::from(!teller.departure(departure));
            }
        }
        self.batch.clear();
    }

    fn set_destinations(&mut self, destinations: &Destinations) -> bool {
        // Two networks have destinations of their own.
        if self.also.is_some() {
            return false;
        }
        let kind = core::mem::discriminant(&self.local);
        if destinations.iter().any(|to| core::mem::discriminant(&to) != kind) {
            return false;
        }
        // What was queued goes where it was meant to go.
        self.flush();
        self.outlet.set_destinations(destinations.iter())
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        let (socket, seal) = (&self.outlet.socket, self.seal.as_deref_mut());
        let errno = self.incoming.receive(socket, &mut self.counters, seal, deliver);
        self.fail(errno);
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        let Self { outlet, incoming, launcher, counters, sampler, teller, .. } = self;
        // What the queue dropped comes back there as well.
        let mut unlaunched = |time| {
            counters.unlaunched += 1;
            let packet = launcher.as_ref().and_then(|launcher| launcher.packet(time));
            if let (Some(teller), Some(packet)) = (teller.as_mut(), packet) {
                teller.event(LinkEvent::Unlaunched(packet));
            }
        };
        let dropped = launcher.is_some().then_some(&mut unlaunched as &mut dyn FnMut(u64));
        sampler.collect(&outlet.socket, &mut incoming.clock, dropped, deliver);
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}
