//! Cost of offloading a block of 64 stereo frames, without I/O: 1.33 ms at 48 kHz.
//!
//! Each case is the steady state: every block is answered before the next one and played one block
//! later.

use divan::{Bencher, black_box};
use tautline_proto::offload::block::{
    BlockSet, BlockSpec, BlockWay, ByteOrder, Element, Length, get_f32, put_f32,
};
use tautline_proto::offload::datagram::Flags;
use tautline_proto::offload::master::{Master, MasterConfig};
use tautline_proto::offload::returns::{Replacement, Returns, ReturnsConfig};
use tautline_proto::offload::worker::{Worker, WorkerConfig};
use tautline_proto::time::LocalTime;

const FRAMES: u32 = 64;
const CHANNELS: usize = 2;
const STREAM: u32 = 1;

fn main() {
    divan::main();
}

fn sound() -> BlockSet {
    let block = |way, length| BlockSpec { element: Element::F32, way, length };
    let mut blocks = vec![block(BlockWay::ToWorker, Length::PerFrame(1)); CHANNELS];
    blocks.push(block(BlockWay::ToWorker, Length::Fixed(8)));
    blocks.extend([block(BlockWay::FromWorker, Length::PerFrame(1)); CHANNELS]);
    BlockSet::new(blocks, FRAMES).expect("within all bounds")
}

fn ends() -> (Master, Worker) {
    let (set, stream, datagram_bytes, copies) = (sound(), STREAM, 1400, 0);
    let (history, hold, epoch_seed) = (512, 512, 0);
    let master = MasterConfig { set, stream, epoch_seed, datagram_bytes, history, copies, hold };
    let (set, order, memory) = (sound(), ByteOrder::NATIVE, None);
    let worker = WorkerConfig { set, stream, order, datagram_bytes, history, copies, hold, memory };
    let mut master = Master::new(master).expect("within all bounds");
    master.begin();
    (master, Worker::new(worker).expect("within all bounds"))
}

fn returns(replacement: Replacement) -> Returns {
    let mut returns = Returns::new(ReturnsConfig {
        inputs: CHANNELS,
        outputs: CHANNELS,
        rate: 48_000,
        delay: FRAMES,
        max_frames: FRAMES,
        replacement,
    });
    returns.begin(FRAMES);
    returns
}

/// Both ends: send, split, reassemble, run, split, reassemble.
#[divan::bench]
fn there_and_back(bencher: Bencher<'_, '_>) {
    let (mut master, mut worker) = ends();
    let samples = [0.25; FRAMES as usize];
    let mut room = [0; 1400];
    bencher.bench_local(move || {
        let mut rest = master.room(FRAMES).expect("as agreed");
        for _ in 0..CHANNELS {
            let (channel, behind) = rest.split_at_mut(4 * samples.len());
            put_f32(channel, black_box(&samples));
            rest = behind;
        }
        put_f32(rest, &samples[..8]);
        let block = master.commit(Flags::NONE);
        while let Some(len) = master.poll(&mut room) {
            worker.handle(&room[..len], LocalTime::ZERO);
        }
        while worker.next_turn().is_some() {
            let (input, output) = worker.buffers();
            output.copy_from_slice(&input[..output.len()]);
            worker.finish(0);
        }
        while let Some(len) = worker.poll(LocalTime::ZERO, &mut room) {
            master.handle(&room[..len], LocalTime::ZERO);
        }
        let first = master.answer(block).map(|answer| answer.bytes[0]);
        master.release(block + 1);
        first
    });
}

fn play(bencher: Bencher<'_, '_>, replacement: Replacement, arrives: impl Fn(u64) -> bool) {
    let mut returns = returns(replacement);
    let bytes = [0; 4 * FRAMES as usize];
    let mut samples = [0.25; FRAMES as usize];
    let mut run = 0;
    bencher.bench_local(move || {
        for channel in 0..CHANNELS {
            returns.push_dry(channel, black_box(&samples));
        }
        if run > 0 && arrives(run) {
            let position = (run - 1) * u64::from(FRAMES);
            for channel in 0..CHANNELS {
                get_f32(black_box(&bytes), &mut samples, ByteOrder::NATIVE);
                returns.place(position, channel, &samples);
            }
            returns.arrived(position, FRAMES, true);
        }
        run += 1;
        returns.pull(FRAMES, &mut |_, samples| {
            black_box(samples);
        });
        while returns.poll_damage().is_some() {}
    });
}

#[divan::bench]
fn played(bencher: Bencher<'_, '_>) {
    play(bencher, Replacement::Dry, |_| true);
}

#[divan::bench]
fn stood_in_for_by_dry(bencher: Bencher<'_, '_>) {
    play(bencher, Replacement::Dry, |run| run % 2 == 0);
}

#[divan::bench]
fn concealed(bencher: Bencher<'_, '_>) {
    play(bencher, Replacement::Conceal, |run| run % 2 == 0);
}
