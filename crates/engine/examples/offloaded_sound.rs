//! An offloaded plugin in Rust: an echo on another thread, two blocks behind.
//!
//! ```text
//! cargo run --release -p tautline-engine --example offloaded_sound
//! ```
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::error::Error;
use std::net::UdpSocket;

use tautline_engine::offload::host_block::HostBlock;
use tautline_engine::offload::offloaded::{Far, Offloaded, OffloadedConfig, Which};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_engine::offload::working::{Work, work};
use tautline_io::clock::{now, sleep_until};
use tautline_io::link::direct::DirectLink;
use tautline_io::thread::halt::Halt;
use tautline_io::udp::UdpOptions;
use tautline_proto::offload::block::{ByteOrder, get_f32, put_f32};
use tautline_proto::offload::inbound::BlockTurn;
use tautline_proto::offload::worker::{Worker, WorkerConfig};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;

const FRAMES: usize = 128;
const RATE: Rate = Rate::HZ_48000;
const STREAM: u32 = 1;
const SET: SoundSet = SoundSet {
    inputs: 1,
    outputs: 1,
    controls_in: 1,
    controls_out: 0,
    max_frames: FRAMES as u32,
    onward: 0,
    earlier: 0,
};

fn main() -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let (address, halt) = (socket.local_addr()?, Halt::new()?);
    let reported = halt.clone();
    let worker = std::thread::spawn(move || serve(socket, &reported).map_err(|e| e.to_string()));

    let config = OffloadedConfig::new(SET, RATE, 2);
    let (mut plugin, mut attendant) = Offloaded::new(config)?;
    let link = DirectLink::open(&UdpOptions::sender(vec![address]))?;
    let far = Far::new(Box::new(link), STREAM);
    attendant.attach(Which::Worker, far).map_err(|_| "too many changes wait")?;
    plugin.activate();
    let mut due = now();
    for period in 0..500 {
        let mut block = Block { gain: 0.5, samples: [0.0; FRAMES] };
        block.samples[0] = if period % 100 == 0 { 1.0 } else { 0.0 };
        plugin.run(&mut block, now());
        if let Some(at) = block.samples.iter().position(|sample| *sample == 0.5) {
            println!("period {period}: an impulse comes back at frame {at}");
        }
        due += RATE.span_of(Frames::new(FRAMES as i64));
        sleep_until(due);
    }
    println!("latency: {} frames", plugin.latency());
    while let Some(slack) = attendant.take_slack() {
        if slack.left.is_none_or(|left| left < Span::ZERO) {
            println!("the block at frame {} was not back in time", slack.position);
        }
    }
    while let Some(damage) = attendant.take_damage() {
        println!("damage: {damage:?}");
    }
    halt.request();
    worker.join().map_err(|_| "the worker panicked")??;
    Ok(())
}

/// Buffers of a run, the same for input and output.
struct Block {
    gain: f32,
    samples: [f32; FRAMES],
}

impl HostBlock for Block {
    fn frames(&self) -> usize {
        FRAMES
    }

    fn input(&mut self, _: usize, from: usize, samples: &mut [f32]) {
        samples.copy_from_slice(&self.samples[from..from + samples.len()]);
    }

    fn control(&mut self, _: usize) -> f32 {
        self.gain
    }

    fn output(&mut self, _: usize, from: usize, samples: &[f32]) {
        self.samples[from..from + samples.len()].copy_from_slice(samples);
    }

    fn control_out(&mut self, _: usize, _: f32) {}
}

fn serve(socket: UdpSocket, halt: &Halt) -> Result<(), Box<dyn Error>> {
    let options = UdpOptions { max_destinations: 1, ..UdpOptions::default() };
    let mut link = DirectLink::over_socket(socket, &options, None)?;
    let mut worker = Worker::new(WorkerConfig {
        set: SET.block_set()?,
        stream: STREAM,
        order: ByteOrder::NATIVE,
        datagram_bytes: 1400,
        history: 64,
        copies: 0,
        hold: 256,
        memory: Some(0),
    })?;
    work(&mut link, &mut worker, &mut Quieter, halt);
    Ok(())
}

struct Quieter;

impl Work for Quieter {
    fn restart(&mut self) {}

    fn work(&mut self, turn: &BlockTurn, input: &[u8], output: &mut [u8]) -> u32 {
        let (mut samples, mut gain) = ([0.0; FRAMES], [0.0]);
        let samples = &mut samples[..turn.frames as usize];
        get_f32(input, samples, ByteOrder::NATIVE);
        get_f32(&input[4 * samples.len()..], &mut gain, ByteOrder::NATIVE);
        samples.iter_mut().for_each(|sample| *sample *= gain[0]);
        put_f32(output, samples);
        0
    }
}
