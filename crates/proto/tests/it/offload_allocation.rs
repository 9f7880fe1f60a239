//! Offloading does not allocate on audio threads after set-up.

use tautline_proto::offload::block::{
    BlockSet, BlockSpec, BlockWay, ByteOrder, Element, Length, get_f32, put_f32,
};
use tautline_proto::offload::datagram::Flags;
use tautline_proto::offload::master::choose_answer;
use tautline_proto::offload::master::{Master, MasterConfig};
use tautline_proto::offload::returns::{Replacement, Returns, ReturnsConfig};
use tautline_proto::offload::worker::{Worker, WorkerConfig};
use tautline_proto::time::{LocalTime, Span};
use tautline_trial::allocator_calls;

const FRAMES: u32 = 256;
const STREAM: u32 = 1;

fn sound() -> BlockSet {
    let block = |way| BlockSpec { element: Element::F32, way, length: Length::PerFrame(2) };
    BlockSet::new(vec![block(BlockWay::ToWorker), block(BlockWay::FromWorker)], FRAMES)
        .expect("within all bounds")
}

#[test]
fn an_offloaded_run_with_losses_allocates_nothing() {
    for replacement in
        [Replacement::Matched, Replacement::Dry, Replacement::Conceal, Replacement::LastGood]
    {
        let master = MasterConfig {
            set: sound(),
            stream: STREAM,
            epoch_seed: 0,
            datagram_bytes: 1400,
            history: 16,
            copies: 1,
            hold: 16,
        };
        let worker = WorkerConfig {
            set: sound(),
            stream: STREAM,
            order: ByteOrder::NATIVE,
            datagram_bytes: 1400,
            history: 16,
            copies: 1,
            hold: 16,
            memory: None,
        };
        let (mut master, mut worker) = (Master::new(master).unwrap(), Worker::new(worker).unwrap());
        let mut returns = Returns::new(ReturnsConfig {
            inputs: 2,
            outputs: 2,
            rate: 48_000,
            delay: 4 * FRAMES,
            max_frames: FRAMES,
            replacement,
        });
        let (samples, mut channel, mut room) =
            ([0.25; FRAMES as usize], [0.0; FRAMES as usize], [0; 1400]);
        let before = allocator_calls();
        for run in 0..2000u64 {
            if run % 500 == 0 {
                master.begin();
                returns.begin(FRAMES);
            }
            if run % 500 == 250 {
                returns.set_delay(2 * FRAMES);
            }
            let now = LocalTime::ZERO + Span::from_millis(5).times(run as i64);
            (0..2).for_each(|channel| returns.push_dry(channel, &samples));
            let bytes = master.room(FRAMES).unwrap();
            put_f32(bytes, &samples);
            let block = master.commit(Flags::NONE);
            let mut number = run;
            while let Some(len) = master.poll(&mut room) {
                number += 1;
                if number % 7 > 0 && run % 100 < 60 {
                    worker.handle(&room[..len], now);
                }
            }
            while worker.next_turn().is_some() {
                let (input, output) = worker.buffers();
                output.copy_from_slice(input);
                worker.finish(0);
            }
            while let Some(len) = worker.poll(now, &mut room) {
                master.handle(&room[..len], now);
            }
            for block in block.saturating_sub(3)..=block {
                let Some(answer) = master.answer(block) else { continue };
                let chosen = choose_answer([(0, answer)]).expect("it is the only one");
                for (index, bytes) in answer.bytes.chunks_exact(4 * channel.len()).enumerate() {
                    get_f32(bytes, &mut channel, ByteOrder::NATIVE);
                    returns.place(answer.position, index, &channel);
                }
                returns.arrived(answer.position, answer.frames, chosen.clean);
            }
            master.release(block.saturating_sub(3));
            returns.pull(FRAMES, &mut |_, samples| assert_eq!(samples.len(), FRAMES as usize));
            while returns.poll_damage().is_some() {}
        }
        let allocations = allocator_calls() - before;
        assert!(returns.counters().concealed > 0 && returns.counters().wet > 0);
        assert!(worker.counters().there.requests > 0 && worker.counters().there.gone > 0);
        assert_eq!(allocations, 0, "{replacement:?}");
    }
}
