//! A link that makes its system calls on the caller's thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;

use crate::clock::now;
use crate::link::destinations::Destinations;
use crate::link::event_queue::{EventSender, LinkEvent};
use crate::link::muxed::transport::Half;
use crate::link::{Datagram, Link, LinkCounters, OpenError, Pollable, TransmitStamp, queue_from};
use crate::socket::batch::Batch;
use crate::socket::descriptor::Socket;
use crate::socket::incoming::Incoming;
use crate::socket::launch::{self, Dropped, LaunchOptions, Launcher};
use crate::socket::outlet::{Outlet, Sent};
use crate::socket::seal::{Seal, room};
use crate::socket::transmit::{
    AT_ONCE, AT_ONCE_EARLY, ErrorReading, TransmitSampler, read_dropped,
};
use crate::system::granting;
use crate::thread::realtime::permit;

#[derive(Debug, Clone, Default)]
pub(crate) struct DirectRoom {
    pub(crate) datagram_bytes: usize,
    pub(crate) batch: usize,
    pub(crate) max_destinations: usize,
    pub(crate) transmit_stamp_every: u32,
    pub(crate) sources: Box<[Host]>,
}

/// A link without its own thread. [`Link::flush`] is one `sendmmsg`, [`Link::receive`] one
/// non-blocking `recvmmsg` (another only after a full batch).
pub struct DirectLink {
    local: Endpoint,
    batch: Batch,
    outlet: Outlet,
    also: Option<Box<Outlet>>,
    seal: Option<Box<dyn Seal>>,
    incoming: Incoming,
    event_sender: Option<EventSender>,
    failed: i32,
    counters: LinkCounters,
    sampler: TransmitSampler,
    launcher: Option<Launcher>,
}

impl DirectLink {
    pub(crate) fn over(
        first: (Socket, Vec<Endpoint>),
        also: Option<(Socket, Vec<Endpoint>)>,
        layout: DirectRoom,
        (local, seal): (Endpoint, Option<Box<dyn Seal>>),
    ) -> Self {
        let DirectRoom { datagram_bytes, batch, max_destinations, transmit_stamp_every, sources } =
            layout;
        let seal_room = room(seal.as_deref());
        let sends = !first.1.is_empty() || max_destinations > 0;
        let capacity = if sends { batch.max(2) } else { 1 };
        let outlet = |(socket, destinations): (Socket, Vec<Endpoint>)| {
            Outlet::new(socket, capacity, &destinations, max_destinations, local)
        };
        Self {
            local,
            batch: Batch::new(capacity, datagram_bytes, seal_room),
            outlet: outlet(first),
            also: also.map(outlet).map(Box::new),
            seal,
            incoming: Incoming::new(batch, datagram_bytes + seal_room, sources),
            event_sender: None,
            failed: 0,
            counters: LinkCounters::default(),
            sampler: TransmitSampler::every(transmit_stamp_every),
            launcher: None,
        }
    }

    pub(crate) fn launching(mut self, options: Option<LaunchOptions>) -> Result<Self, OpenError> {
        let Some(options) = options else { return Ok(self) };
        let refused = |error: io::Error| {
            let tried = "enabling launch times".to_owned();
            let hint =
                format!("ETF needs CAP_NET_ADMIN: {}, or use pacing fq", granting("cap_net_admin"));
            OpenError::new(tried, &error, hint)
        };
        self.launcher = Some(Launcher::of(options, &self.outlet.socket, now()).map_err(refused)?);
        self.outlet.launch_all();
        if let Some(also) = &mut self.also {
            launch::request(options, &also.socket).map_err(refused)?;
            also.launch_all();
        }
        Ok(self)
    }

    fn send(&mut self) {
        let Self {
            batch, outlet, also, incoming, counters, launcher, sampler, event_sender, ..
        } = self;
        let (launcher, event_sender) = (launcher.as_mut(), event_sender.as_mut());
        let mut tally = DropTally { launcher, counters, event_sender };
        let first = outlet.send(batch, |socket, time| {
            tally.dropped_with(time, |dropped| {
                let reading = ErrorReading { clock: &mut incoming.clock, always: true, dropped };
                sampler.collect_early(socket, reading);
            })
        });
        if first.last_error != 0 {
            sampler.start_over(&outlet.socket);
        }
        let second = also.as_mut().map(|also| {
            also.send(batch, |socket, time| {
                tally.dropped_with(time, |dropped| read_dropped(socket, AT_ONCE_EARLY, dropped))
            })
        });
        self.count(first);
        if let Some(outcome) = second {
            self.counters.also.0 += outcome.sent;
            self.counters.also.1 += outcome.refused;
            self.count(outcome);
        }
    }

    fn read_back(&mut self, always: bool, deliver: &mut dyn FnMut(TransmitStamp)) {
        let Self { outlet, also, incoming, counters, launcher, sampler, event_sender, .. } = self;
        // The error queue also reports drops of the launch queue.
        let always = always || launcher.is_some();
        let (launcher, event_sender) = (launcher.as_mut(), event_sender.as_mut());
        let mut tally = DropTally { launcher, counters, event_sender };
        let mut dropped = |time| tally.dropped(time);
        if let Some(also) = also.as_ref().filter(|_| always) {
            read_dropped(&also.socket, AT_ONCE, &mut dropped);
        }
        let reading = ErrorReading { clock: &mut incoming.clock, always, dropped: &mut dropped };
        sampler.collect(&outlet.socket, reading, deliver);
    }

    fn count(&mut self, outcome: Sent) {
        self.counters.sent += outcome.sent;
        self.counters.send_errors += outcome.refused;
        self.fail(outcome.last_error);
    }

    fn fail(&mut self, errno: i32) {
        if errno == 0 {
            return;
        }
        self.counters.last_error = errno;
        if let Some(event_sender) = self.event_sender.as_mut().filter(|_| self.failed != errno) {
            self.failed = errno;
            event_sender.event(LinkEvent::Error(errno));
        }
    }

    /// The bound address.
    pub const fn place(&self) -> Endpoint {
        self.local
    }

    /// Receive and send buffer bytes, including kernel overhead.
    pub fn buffers(&self) -> (usize, usize) {
        let bytes = |name| {
            self.outlet.socket.option(libc::SOL_SOCKET, name).map_or(0, |n| n.max(0) as usize)
        };
        (bytes(libc::SO_RCVBUF), bytes(libc::SO_SNDBUF))
    }
}

impl AsFd for DirectLink {
    /// For the caller's own poll. Data read from it directly is lost to the link.
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

    fn second(&self) -> Option<BorrowedFd<'_>> {
        self.also.as_ref().map(|also| also.socket.as_fd())
    }

    fn read_errors(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.read_back(true, deliver);
        // A pending error would end every poll immediately; `receive` clears only the first
        // network's.
        let left = |also: &Outlet| {
            let _permit = permit("the call takes a number from the socket and waits for nothing");
            also.socket.option(libc::SOL_SOCKET, libc::SO_ERROR)
        };
        let errno = self.also.as_deref().map_or(0, |also| left(also).unwrap_or(0));
        self.fail(errno);
    }
}

impl Half for DirectLink {
    fn release(&mut self) -> Option<EventSender> {
        self.event_sender.take()
    }
}

impl Link for DirectLink {
    fn notify(&mut self, event_sender: EventSender) {
        self.event_sender = Some(event_sender);
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        if !self.outlet.sends() {
            self.counters.let_go += 1;
            return false;
        }
        let taken = self.batch.queue(packet);
        self.counters.dropped += u64::from(!taken);
        taken
    }

    fn queue_written(
        &mut self,
        instants: Departure,
        room: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        let place = self.batch.place(room.len()).filter(|_| self.outlet.sends());
        let Some(place) = place else {
            return queue_from(room, instants, write, |packet| self.queue(packet));
        };
        let len = write(place).filter(|len| (1..=place.len()).contains(len))?;
        self.batch.written(instants, len);
        Some(len)
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
        self.send();
        if let Some(event_sender) = &mut self.event_sender {
            self.counters.departures_lost += event_sender.all_departures(self.batch.departures());
        }
        self.batch.clear();
    }

    fn set_destinations(&mut self, destinations: &Destinations) -> bool {
        if self.also.is_some() {
            return false;
        }
        let kind = core::mem::discriminant(&self.local);
        if destinations.iter().any(|to| core::mem::discriminant(&to) != kind) {
            return false;
        }
        self.flush();
        self.outlet.set_destinations(destinations.iter())
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        let (socket, seal) = (&self.outlet.socket, self.seal.as_deref_mut());
        let errno = self.incoming.receive(socket, &mut self.counters, seal, deliver);
        self.fail(errno);
    }

    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.outlet.socket.as_fd())
    }

    fn transmit_stamps(&mut self, deliver: &mut dyn FnMut(TransmitStamp)) {
        self.read_back(false, deliver);
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

struct DropTally<'a> {
    launcher: Option<&'a mut Launcher>,
    counters: &'a mut LinkCounters,
    event_sender: Option<&'a mut EventSender>,
}

impl DropTally<'_> {
    fn dropped(&mut self, time: u64) {
        let found = self.launcher.as_mut().map_or(Dropped::Unknown, |known| known.dropped(time));
        let named = match found {
            Dropped::Again => return,
            Dropped::Packet(packet) => self
                .event_sender
                .as_mut()
                .is_some_and(|event_sender| event_sender.dropped_by_queue(packet)),
            Dropped::Unknown => false,
        };
        self.counters.dropped_by_queue += 1;
        self.counters.unnamed += u64::from(!named);
    }

    fn dropped_with(&mut self, time: u64, read: impl FnOnce(&mut dyn FnMut(u64))) -> bool {
        let mut reported = false;
        read(&mut |of| {
            reported |= of == time;
            self.dropped(of);
        });
        reported
    }
}

#[cfg(test)]
mod tests;
