//! Workers as threads, with a plugin that only takes time.

use std::net::Ipv4Addr;
use std::thread::JoinHandle;

use tautline_engine::offload::offloaded::Far;
use tautline_engine::offload::sound_set::SoundSet;
use tautline_engine::offload::working::{Work, work};
use tautline_io::link::direct::DirectLink;
use tautline_io::thread::halt::Halt;
use tautline_io::thread::{Scheduler, spawn};
use tautline_io::udp::UdpOptions;
use tautline_proto::offload::block::{BlockLeg, BlockSet, ByteOrder, get_f32};
use tautline_proto::offload::inbound::BlockTurn;
use tautline_proto::offload::worker::{Worker, WorkerConfig};
use tautline_proto::time::Span;

use super::OpenedWorker;
use crate::capacity::master::Passing;
use crate::kept::would_run_as;

#[derive(Debug)]
pub(super) struct WorkerHere {
    halt: Halt,
    thread: Option<JoinHandle<()>>,
}

const KEPT: usize = 256;

impl WorkerHere {
    pub(super) fn start(
        set: &SoundSet,
        (datagram_bytes, blocks_per_second): (usize, u32),
        scheduler: Scheduler,
    ) -> Result<(Self, Far), String> {
        const STREAM: u32 = 1;
        let failed = |why: &dyn core::fmt::Display| format!("cannot start a worker: {why}");
        let blocks = set.block_set().map_err(|error| failed(&error))?;
        let mut worker = Worker::new(WorkerConfig {
            set: blocks.clone(),
            stream: STREAM,
            order: ByteOrder::NATIVE,
            datagram_bytes,
            history: KEPT,
            copies: 0,
            hold: KEPT,
            memory: None,
        })
        .map_err(|error| failed(&error))?;
        let here = (Ipv4Addr::LOCALHOST, 0).into();
        let options = UdpOptions {
            datagram_bytes,
            packets_per_second: blocks_per_second,
            max_destinations: 1,
            ..UdpOptions::receiver(here)
        };
        let mut link = DirectLink::open(&options).map_err(|error| failed(&error))?;
        let to = UdpOptions {
            datagram_bytes,
            packets_per_second: blocks_per_second,
            ..UdpOptions::sender(vec![link.local()])
        };
        let far = DirectLink::open(&to).map_err(|error| failed(&error))?;
        let halt = Halt::new().map_err(|error| failed(&error))?;
        let requested = halt.clone();
        let mut wasting = WastingWork { set: *set, blocks };
        let (thread, granted) = spawn("taut-worker", scheduler, STACK, move || {
            work(&mut link, &mut worker, &mut wasting, &requested);
        })
        .map_err(|error| failed(&error))?;
        let started = Self { halt, thread: Some(thread) };
        match granted.is_granted() {
            true => Ok((started, Far::new(Box::new(far), STREAM))),
            false => Err(failed(&would_run_as("its thread", granted))),
        }
    }
}

impl OpenedWorker for WorkerHere {
    fn pids(&self) -> Vec<u32> {
        Vec::new()
    }
}

impl Drop for WorkerHere {
    fn drop(&mut self) {
        self.halt.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct WastingWork {
    set: SoundSet,
    blocks: BlockSet,
}

impl Work for WastingWork {
    fn restart(&mut self) {}

    fn work(&mut self, turn: &BlockTurn, input: &[u8], output: &mut [u8]) -> u32 {
        let place = |leg, block: Option<usize>| self.blocks.place(leg, block?, turn.frames);
        let mut controls = [0.0; 2];
        if let Some(bytes) = place(BlockLeg::There, self.set.controls_in()) {
            // Native byte order; the worker's machine converts.
            get_f32(&input[bytes.start..bytes.start + 8], &mut controls, ByteOrder::NATIVE);
        }
        let cost = Span::from_nanos((f64::from(controls[0]) * 1000.0) as i64);
        Passing { cost, real: controls[1] <= 0.0 }.pass();
        let received = place(BlockLeg::There, Some(self.set.input(0)));
        let played = place(BlockLeg::Back, Some(self.set.output(0)));
        if let (Some(received), Some(played)) = (received, played) {
            output[played].copy_from_slice(&input[received]);
        }
        0
    }
}

const STACK: usize = 256 << 10;
