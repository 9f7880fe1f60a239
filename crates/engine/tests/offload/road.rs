//! A link over real sockets that loses, duplicates and delays datagrams as planned, and can wait
//! until all are processed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tautline_io::clock::now;
use tautline_io::link::destinations::Destinations;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::{Datagram, Link, LinkCounters, TransmitStamp};
use tautline_io::thread::realtime::permit;
use tautline_io::udp::UdpOptions;
use tautline_proto::endpoint::{Arrival, Endpoint};
use tautline_proto::ledger::Departure;
use tautline_proto::offload::block::BlockLeg;
use tautline_proto::offload::datagram::{DatagramKind, Flags, Head};
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{MediaTime, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Goes,
    Lost,
    Twice,
    Held(u64),
}

pub(crate) type Plan = Box<dyn FnMut(BlockLeg, &Head) -> Fate + Send>;

pub(crate) fn smooth() -> Plan {
    Box::new(|_, _| Fate::Goes)
}

#[derive(Default)]
pub(crate) struct Progress {
    done: Mutex<(u64, u64)>,
    changed: Condvar,
}

impl Progress {
    pub(crate) fn notify(&self, received: u64, sent: u64) {
        *self.done.lock().unwrap() = (received, sent);
        self.changed.notify_all();
    }
}

struct Inner {
    link: DirectLink,
    plan: Plan,
    run: u64,
    sent: u64,
    read: u64,
    here: Vec<Vec<u8>>,
    held: Vec<(u64, BlockLeg, Vec<u8>)>,
    live: bool,
    epoch: u32,
    arrived: BTreeMap<u64, (BTreeSet<u16>, u16, u64)>,
}

#[derive(Clone)]
pub(crate) struct Road(Arc<Mutex<Inner>>, Arc<OwnedFd>);

const TIMEOUT: Duration = Duration::from_secs(20);

impl Road {
    pub(crate) fn to(worker: SocketAddr, datagram_bytes: usize, plan: Plan) -> Self {
        let options = UdpOptions {
            datagram_bytes,
            packets_per_second: 20_000,
            ..UdpOptions::sender(vec![worker])
        };
        let link = DirectLink::open(&options).unwrap();
        let socket = Arc::new(link.as_fd().try_clone_to_owned().unwrap());
        let inner = Mutex::new(Inner {
            link,
            plan,
            run: 0,
            sent: 0,
            read: 0,
            here: Vec::new(),
            held: Vec::new(),
            live: false,
            epoch: 0,
            arrived: BTreeMap::new(),
        });
        Self(Arc::new(inner), socket)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(crate) fn at_run(&self, run: u64) {
        let mut inner = self.inner();
        inner.run = run;
        let (due, held): (Vec<_>, Vec<_>) =
            core::mem::take(&mut inner.held).into_iter().partition(|one| one.0 <= run);
        inner.held = held;
        for (_, leg, bytes) in due {
            match leg {
                BlockLeg::There => inner.send(&bytes),
                BlockLeg::Back => inner.here.push(bytes),
            }
        }
        inner.link.flush();
    }

    pub(crate) fn settle(&self, progress: &Progress) {
        loop {
            let mut done = progress.done.lock().unwrap();
            loop {
                let mut inner = self.inner();
                inner.read();
                if *done == (inner.sent, inner.read) {
                    return;
                }
                let behind = done.0 < inner.sent;
                drop(inner);
                if !behind {
                    std::thread::yield_now();
                    break;
                }
                let (next, wait) = progress.changed.wait_timeout(done, TIMEOUT).unwrap();
                assert!(!wait.timed_out(), "the worker does nothing");
                done = next;
            }
        }
    }

    pub(crate) fn begin(&self) {
        let mut inner = self.inner();
        inner.read();
        (inner.sent, inner.read) = (0, 0);
    }

    pub(crate) fn arrived(&self, block: u64) -> Option<u64> {
        let inner = self.inner();
        let (parts, all, run) = inner.arrived.get(&block)?;
        (parts.len() == usize::from(*all)).then_some(*run)
    }

    /// Delivers arrivals within the same run. Otherwise results would depend on the machine's load.
    pub(crate) fn live(&self) {
        self.inner().live = true;
    }

    pub(crate) fn set_plan(&self, plan: Plan) {
        self.inner().plan = plan;
    }
}

impl Inner {
    fn send(&mut self, bytes: &[u8]) {
        let at = now();
        let instants = Departure::at_once(MediaTime::ZERO, at);
        let mut datagram = bytes.to_vec();
        let outgoing = Outgoing { datagram: &mut datagram, instants, handed_at: None, again: None };
        if !self.link.queue(&outgoing) {
            self.link.flush();
            assert!(self.link.queue(&outgoing));
        }
        self.sent += 1;
    }

    fn meets(&mut self, leg: BlockLeg, bytes: &[u8]) {
        let (head, _) = Head::read(bytes).expect("one of ours");
        let fate = (self.plan)(leg, &head);
        let times = match fate {
            Fate::Lost => 0,
            Fate::Goes => 1,
            Fate::Twice => 2,
            Fate::Held(run) if run <= self.run => 1,
            Fate::Held(run) => {
                self.held.push((run, leg, bytes.to_vec()));
                0
            }
        };
        for _ in 0..times {
            match leg {
                BlockLeg::There => self.send(bytes),
                BlockLeg::Back => self.here.push(bytes.to_vec()),
            }
        }
    }

    fn note(&mut self, datagram: &[u8]) {
        let (head, _) = Head::read(datagram).expect("one of ours");
        if head.kind != DatagramKind::Block || head.flags.has(Flags::DIRTY) {
            return;
        }
        if head.epoch != self.epoch {
            self.epoch = head.epoch;
            self.arrived.clear();
        }
        let run = self.run;
        let arrived = self.arrived.entry(head.block).or_insert((BTreeSet::new(), head.parts, run));
        if arrived.0.insert(head.part) {
            arrived.2 = run;
        }
    }

    fn read(&mut self) {
        let mut arrived = Vec::new();
        self.link.receive(&mut |datagram| arrived.push(datagram.bytes.to_vec()));
        self.read += arrived.len() as u64;
        arrived.iter().for_each(|bytes| self.meets(BlockLeg::Back, bytes));
    }
}

/// The test's link is not under real-time rules.
const OF_THE_TEST: &str = "the test's own link allocates as it likes";

impl Link for Road {
    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        let _permit = permit(OF_THE_TEST);
        let mut inner = self.inner();
        inner.meets(BlockLeg::There, packet.datagram);
        true
    }

    fn flush(&mut self) {
        let _permit = permit(OF_THE_TEST);
        self.inner().link.flush();
    }

    fn set_destinations(&mut self, destinations: &Destinations) -> bool {
        self.inner().link.set_destinations(destinations)
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        let permit = permit(OF_THE_TEST);
        let here = {
            let mut inner = self.inner();
            if inner.live {
                inner.read();
            }
            let here = core::mem::take(&mut inner.here);
            here.iter().for_each(|datagram| inner.note(datagram));
            here
        };
        let read = now();
        for datagram in &here {
            let arrival =
                Arrival { from: Endpoint::UNKNOWN, at: read, uncertainty: Span::MAX, read };
            permit.lifted(|| deliver(Datagram { bytes: datagram, arrival, truncated: false }));
        }
    }

    fn awaited(&mut self) -> Option<BorrowedFd<'_>> {
        Some(self.1.as_fd())
    }

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    fn counters(&self) -> LinkCounters {
        self.inner().link.counters()
    }
}
