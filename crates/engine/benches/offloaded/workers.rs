//! The workers' process: equal numbers for direct and threaded links, and bare.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStdin, Command, Stdio};

use tautline_engine::offload::working::{Work, work};
use tautline_io::link::direct::DirectLink;
use tautline_io::thread::halt::Halt;
use tautline_io::thread::{Scheduler, spawn};
use tautline_io::udp::UdpOptions;
use tautline_proto::offload::block::ByteOrder;
use tautline_proto::offload::inbound::BlockTurn;
use tautline_proto::offload::worker::{Worker, WorkerConfig};

use crate::ours::{SET, STREAM};
use crate::{PART, STACK};

pub(crate) struct Workers {
    child: Child,
    _stop: ChildStdin,
    pub(crate) ours: Vec<SocketAddr>,
    pub(crate) bare: Vec<SocketAddr>,
}

impl Workers {
    pub(crate) fn start(count: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["workers", &count.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut addresses = |count: usize| -> Vec<SocketAddr> {
            (0..count).map(|_| lines.next().unwrap().unwrap().parse().unwrap()).collect()
        };
        let (ours, bare) = (addresses(2 * count), addresses(count));
        let stop = child.stdin.take().unwrap();
        Self { child, _stop: stop, ours, bare }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn serve(count: usize) {
    for number in 0..3 * count {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        println!("{}", socket.local_addr().unwrap());
        let run = move || if number < 2 * count { ours(socket) } else { bare(&socket) };
        drop(spawn("taut-worker", Scheduler::Fifo(60), STACK, run).unwrap());
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

struct Copies;

impl Work for Copies {
    fn restart(&mut self) {}

    fn work(&mut self, _: &BlockTurn, input: &[u8], output: &mut [u8]) -> u32 {
        output.copy_from_slice(input);
        0
    }
}

fn ours(socket: UdpSocket) {
    let options = UdpOptions { max_destinations: 1, ..UdpOptions::default() };
    let mut link = DirectLink::over_socket(socket, &options, None).unwrap();
    let config = WorkerConfig {
        set: SET.block_set().unwrap(),
        stream: STREAM,
        order: ByteOrder::NATIVE,
        datagram_bytes: 1400,
        history: 64,
        copies: 0,
        hold: 256,
        memory: None,
    };
    let mut worker = Worker::new(config).unwrap();
    work(&mut link, &mut worker, &mut Copies, &Halt::new().unwrap());
}

fn bare(socket: &UdpSocket) {
    let mut datagram = [0; PART];
    while let Ok((len, from)) = socket.recv_from(&mut datagram) {
        socket.send_to(&datagram[..len], from).unwrap();
    }
}
