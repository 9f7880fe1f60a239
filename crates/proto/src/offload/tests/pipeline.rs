//! A worker feeds another.

use proptest::prelude::*;

use super::road::{
    MAX_FRAMES, OneWay, Recursive, STREAM, bits, control, fates, floats, input, master_config, run,
    worker_config,
};
use crate::offload::block::{BlockSet, BlockSpec, BlockWay, Element, Length, put_f32};
use crate::offload::datagram::Flags;
use crate::offload::inbound::Handled;
use crate::offload::master::{Master, MasterConfig};
use crate::offload::worker::{Worker, WorkerConfig};
use crate::time::{LocalTime, Span};

const SECOND: u32 = 2;

/// Passes the second worker's control through.
fn first_set() -> BlockSet {
    let block = |way, length| BlockSpec { element: Element::F32, way, length };
    let blocks = vec![
        block(BlockWay::ToWorker, Length::PerFrame(1)),
        block(BlockWay::ToWorker, Length::Fixed(1)),
        block(BlockWay::FromWorker, Length::PerFrame(1)),
        block(BlockWay::Both, Length::Fixed(1)),
    ];
    BlockSet::new(blocks, MAX_FRAMES).unwrap()
}

fn whole_set() -> BlockSet {
    let block = |way, length| BlockSpec { element: Element::F32, way, length };
    let blocks = vec![
        block(BlockWay::ToWorker, Length::PerFrame(1)),
        block(BlockWay::ToWorker, Length::Fixed(2)),
        block(BlockWay::FromWorker, Length::PerFrame(1)),
    ];
    BlockSet::new(blocks, MAX_FRAMES).unwrap()
}

fn run_first(worker: &mut Worker, plugin: &mut Recursive) -> u32 {
    let mut count = 0;
    while let Some(turn) = worker.next_turn() {
        if turn.restart {
            *plugin = Recursive::default();
        }
        let (input, output) = worker.buffers();
        let (channel, controls) = input.split_at(turn.frames as usize * 4);
        let mut samples = floats(channel);
        plugin.run(&mut samples, floats(controls)[0]);
        put_f32(&mut output[..samples.len() * 4], &samples);
        worker.finish(5);
        count += 1;
    }
    count
}

proptest! {
    #[test]
    fn chain_of_two_workers_is_complete_after_any_loss(
        frames in proptest::collection::vec(0u32..=MAX_FRAMES, 1..50),
        ways in (fates(), fates(), fates(), fates()),
        lost_asks in 0usize..20,
    ) {
        let mut master =
            Master::new(MasterConfig { set: whole_set(), ..master_config(1024) }).unwrap();
        let config = WorkerConfig { set: first_set(), history: 64, ..worker_config(None) };
        let mut first = Worker::new(config).unwrap();
        first.feed(SECOND);
        let mut second =
            Worker::new(WorkerConfig { stream: SECOND, ..worker_config(None) }).unwrap();
        master.retarget_pipeline(STREAM, SECOND);
        let requested = ways.3.into_iter().take(lost_asks).collect();
        let mut plugins = [Recursive::default(); 4];
        let (mut there, mut on, mut back) =
            (OneWay::new(ways.0), OneWay::new(ways.1), OneWay::new(ways.2));
        let (mut requests, mut asks_on) = (OneWay::default(), OneWay::new(requested));
        let mut truth = Vec::new();
        let mut room = [0; 600];
        let mut now = LocalTime::ZERO;
        master.begin();
        let hello = master.write_hello(&mut room).unwrap();
        prop_assert_eq!(second.handle(&room[..hello], now), Handled::Old);
        let maximum = frames.len() + 400;
        for frames in frames.iter().chain(core::iter::repeat(&1)).take(maximum) {
            let position = master.position();
            let mut samples: Vec<f32> =
                (position..position + u64::from(*frames)).map(input).collect();
            let block = master.next();
            let bytes = master.room(*frames).unwrap();
            put_f32(bytes, &samples);
            put_f32(&mut bytes[samples.len() * 4..], &[control(block), 0.5]);
            master.commit(Flags::NONE);
            plugins[2].run(&mut samples, control(block));
            plugins[3].run(&mut samples, 0.5);
            truth.push(samples);
            now += Span::from_millis(6);
            let mut moved = true;
            while moved {
                moved = false;
                while let Some(len) = master.poll(&mut room) {
                    there.carry(&room[..len], |datagram| {first.handle(datagram, now);});
                    moved = true;
                }
                moved |= run_first(&mut first, &mut plugins[0]) > 0;
                while let Some(len) = first.poll_ask(now, &mut room) {
                    requests.carry(&room[..len], |datagram| {master.handle(datagram, now);});
                    moved = true;
                }
                while let Some(len) = first.poll_answer(&mut room) {
                    on.carry(&room[..len], |datagram| {second.handle(datagram, now);});
                    moved = true;
                }
                moved |= run(&mut second, &mut plugins[1], &mut Vec::new()) > 0;
                while let Some(len) = second.poll_ask(now, &mut room) {
                    asks_on.carry(&room[..len], |datagram| {first.handle(datagram, now);});
                    moved = true;
                }
                while let Some(len) = second.poll_answer(&mut room) {
                    back.carry(&room[..len], |datagram| {master.handle(datagram, now);});
                    moved = true;
                }
            }
            let whole = master.answer(block);
            if let Some(answer) = whole {
                prop_assert_eq!(bits(&floats(answer.bytes)), bits(&truth[block as usize]));
                prop_assert_eq!(answer.latency, 12);
            }
        }
        let hello = master.write_hello(&mut room).unwrap();
        prop_assert_eq!(second.handle(&room[..hello], now), Handled::Request { from: 0, until: 0 });
        prop_assert_eq!(second.poll_answer(&mut room), None);
        let counters = (first.counters().there, second.counters().there, master.counters().back);
        prop_assert_eq!((counters.0.invalid, counters.1.invalid, counters.2.invalid), (0, 0, 0));
        prop_assert!([&there, &on, &back].iter().all(|way| way.is_good()));
        prop_assert!(
            master.answer(master.next() - 1).is_some(),
            "{:?} {:?} {:?}",
            first.counters(),
            second.counters(),
            master.counters()
        );
    }
}
