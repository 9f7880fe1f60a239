//! Worker threads, whose UDP sockets outlive them.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use tautline_engine::offload::working::{Work, WorkStanding, work};
use tautline_io::link::direct::DirectLink;
use tautline_io::thread::float_mode::FloatMode;
use tautline_io::thread::halt::Halt;
use tautline_io::thread::realtime::permit;
use tautline_io::udp::UdpOptions;
use tautline_proto::offload::block::ByteOrder;
use tautline_proto::offload::datagram::{Flags, Head};
use tautline_proto::offload::inbound::BlockTurn;
use tautline_proto::offload::worker::{Worker, WorkerConfig};

use crate::filter::{Filter, SET};
use crate::road::Progress;

pub(crate) const STREAM: u32 = 7;
pub(crate) const DATAGRAM_BYTES: usize = 1400;

pub(crate) struct Crew {
    socket: UdpSocket,
    pub(crate) progress: Arc<Progress>,
    held: Arc<Mutex<()>>,
    pub(crate) modes: Arc<Mutex<Vec<FloatMode>>>,
    pub(crate) latency: Arc<AtomicU32>,
    running: Option<(Halt, JoinHandle<()>)>,
    memory: Option<u64>,
}

impl Crew {
    pub(crate) fn new(memory: Option<u64>) -> Self {
        let mut crew = Self {
            socket: UdpSocket::bind("127.0.0.1:0").unwrap(),
            progress: Arc::default(),
            held: Arc::default(),
            modes: Arc::default(),
            latency: Arc::new(OWN_LATENCY.into()),
            running: None,
            memory,
        };
        crew.begin();
        crew
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    pub(crate) fn begin(&mut self) {
        self.end();
        self.progress.notify(0, 0);
        let options = UdpOptions {
            datagram_bytes: DATAGRAM_BYTES,
            max_destinations: 1,
            packets_per_second: 20_000,
            ..UdpOptions::default()
        };
        let socket = self.socket.try_clone().unwrap();
        let mut link = DirectLink::over_socket(socket, &options, None).unwrap();
        let mut worker = Worker::new(WorkerConfig {
            set: SET.block_set().unwrap(),
            stream: STREAM,
            order: ByteOrder::NATIVE,
            datagram_bytes: DATAGRAM_BYTES,
            history: 64,
            copies: 0,
            hold: 256,
            memory: self.memory,
        })
        .unwrap();
        let mut hand = Hand {
            filter: Filter::default(),
            progress: Arc::clone(&self.progress),
            held: Arc::clone(&self.held),
            modes: Arc::clone(&self.modes),
            latency: Arc::clone(&self.latency),
        };
        let halt = Halt::new().unwrap();
        let reported = halt.clone();
        let thread = std::thread::spawn(move || work(&mut link, &mut worker, &mut hand, &reported));
        self.running = Some((halt, thread));
    }

    pub(crate) fn end(&mut self) {
        if let Some((halt, thread)) = self.running.take() {
            halt.request();
            thread.join().unwrap();
        }
    }

    pub(crate) fn left_over(&self) -> LeftOver {
        let socket = self.socket.try_clone().unwrap();
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        LeftOver(socket)
    }

    pub(crate) fn hold(held: &Arc<Mutex<()>>) -> MutexGuard<'_, ()> {
        held.lock().unwrap()
    }

    pub(crate) fn hold_of(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.held)
    }
}

pub(crate) struct LeftOver(UdpSocket);

impl LeftOver {
    /// Waits for a retransmission, which shows that the host's thread waits.
    pub(crate) fn await_insisting(&self) {
        let mut room = [0; DATAGRAM_BYTES];
        loop {
            let len = self.0.recv(&mut room).expect("the socket has no timeout");
            let read = Head::read(&room[..len]);
            if read.is_ok_and(|(head, _)| head.flags.has(Flags::REPLAY)) {
                return;
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.end();
    }
}

struct Hand {
    filter: Filter,
    progress: Arc<Progress>,
    held: Arc<Mutex<()>>,
    modes: Arc<Mutex<Vec<FloatMode>>>,
    latency: Arc<AtomicU32>,
}

impl Work for Hand {
    fn restart(&mut self) {
        self.filter = Filter::default();
    }

    fn work(&mut self, turn: &BlockTurn, input: &[u8], output: &mut [u8]) -> u32 {
        {
            let _permit = permit("the test holds the worker up and asks what it saw");
            drop(self.held.lock().unwrap());
            if let Some(mode) = FloatMode::current() {
                let mut modes = self.modes.lock().unwrap();
                if modes.last() != Some(&mode) {
                    modes.push(mode);
                }
            }
        }
        self.filter.block(turn.frames, input, output);
        self.latency.load(Ordering::Relaxed)
    }

    fn rest(&mut self, standing: &WorkStanding) {
        let _permit = permit("the test follows the progress");
        self.progress.notify(standing.link.received, standing.link.sent);
    }
}

pub(crate) const OWN_LATENCY: u32 = 3;
