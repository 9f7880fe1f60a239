//! A master, a worker, and the path between them.

use std::collections::VecDeque;

use proptest::prelude::*;

use crate::offload::block::{
    BlockLeg, BlockSet, BlockSpec, BlockWay, ByteOrder, Element, Length, get_f32, put_f32,
};
use crate::offload::datagram::Flags;
use crate::offload::inbound::BlockTurn;
use crate::offload::master::{Master, MasterConfig};
use crate::offload::worker::{Worker, WorkerConfig};
use crate::time::{LocalTime, Span};

pub(super) const STREAM: u32 = 0x7461_7574;
pub(super) const MAX_FRAMES: u32 = 256;

pub(super) fn sound(max_frames: u32) -> BlockSet {
    let block = |way, length| BlockSpec { element: Element::F32, way, length };
    let blocks = vec![
        block(BlockWay::ToWorker, Length::PerFrame(1)),
        block(BlockWay::ToWorker, Length::Fixed(1)),
        block(BlockWay::FromWorker, Length::PerFrame(1)),
    ];
    BlockSet::new(blocks, max_frames).unwrap()
}

pub(super) fn master_config(history: usize) -> MasterConfig {
    MasterConfig {
        set: sound(MAX_FRAMES),
        stream: STREAM,
        epoch_seed: 0,
        datagram_bytes: 600,
        history,
        copies: 0,
        hold: history,
    }
}

pub(super) fn worker_config(memory: Option<u64>) -> WorkerConfig {
    WorkerConfig {
        set: sound(MAX_FRAMES),
        stream: STREAM,
        order: ByteOrder::NATIVE,
        datagram_bytes: 600,
        history: 32,
        copies: 0,
        hold: 32,
        memory,
    }
}

/// Plugin with unlimited memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Recursive {
    last: f32,
}

impl Recursive {
    pub(super) fn run(&mut self, sound: &mut [f32], control: f32) {
        for sample in sound {
            self.last = self.last * 0.75 + *sample * control;
            *sample = self.last;
        }
    }
}

pub(super) fn input(index: u64) -> f32 {
    f32::from_bits(0x3f00_0000 | (index as u32).wrapping_mul(2_654_435_761) >> 9)
}

pub(super) fn control(block: u64) -> f32 {
    1.0 + block as f32 / 8.0
}

pub(super) fn floats(bytes: &[u8]) -> Vec<f32> {
    let mut samples = vec![0.0; bytes.len() / 4];
    get_f32(bytes, &mut samples, ByteOrder::NATIVE);
    samples
}

pub(super) fn bits(samples: &[f32]) -> Vec<u32> {
    samples.iter().map(|sample| sample.to_bits()).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    Lost,
    Twice,
    /// After this many other datagrams.
    Later(u8),
}

pub(super) fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        6 => Just(Fate::Arrives),
        3 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        2 => (1u8..12).prop_map(Fate::Later),
    ];
    proptest::collection::vec(fate, 0..200)
}

/// After these fates, all datagrams arrive.
#[derive(Debug, Default)]
pub(super) struct OneWay {
    fates: VecDeque<Fate>,
    held: Vec<(u8, Vec<u8>)>,
    pub(super) carried: u64,
}

impl OneWay {
    pub(super) fn new(fates: Vec<Fate>) -> Self {
        Self { fates: fates.into(), ..Self::default() }
    }

    pub(super) fn is_good(&self) -> bool {
        self.fates.is_empty()
    }

    pub(super) fn carry(&mut self, datagram: &[u8], mut arrives: impl FnMut(&[u8])) {
        self.carried += 1;
        for (left, _) in &mut self.held {
            *left = left.saturating_sub(1);
        }
        match self.fates.pop_front().unwrap_or(Fate::Arrives) {
            Fate::Arrives => arrives(datagram),
            Fate::Lost => {}
            Fate::Twice => (0..2).for_each(|_| arrives(datagram)),
            Fate::Later(left) => self.held.push((left, datagram.to_vec())),
        }
        self.held.retain(|(left, datagram)| {
            if *left == 0 {
                arrives(datagram);
            }
            *left > 0
        });
    }
}

pub(super) struct Road {
    pub(super) master: Master,
    pub(super) worker: Worker,
    pub(super) there: OneWay,
    pub(super) back: OneWay,
    pub(super) now: LocalTime,
    pub(super) plugin: Recursive,
    pub(super) turns: Vec<BlockTurn>,
    /// Output of a plugin that missed no block.
    pub(super) truth: Vec<(u64, Vec<f32>)>,
    true_plugin: Recursive,
    room: Vec<u8>,
}

impl Road {
    pub(super) fn new(master: MasterConfig, worker: WorkerConfig) -> Self {
        let mut master = Master::new(master).unwrap();
        master.begin();
        Self {
            master,
            worker: Worker::new(worker).unwrap(),
            there: OneWay::default(),
            back: OneWay::default(),
            now: LocalTime::ZERO,
            plugin: Recursive::default(),
            turns: Vec::new(),
            truth: Vec::new(),
            true_plugin: Recursive::default(),
            room: vec![0; 2000],
        }
    }

    pub(super) fn hand_out(&mut self, frames: u32) -> u64 {
        let position = self.master.position();
        let block = self.master.next();
        let mut samples: Vec<f32> = (position..position + u64::from(frames)).map(input).collect();
        let room = self.master.room(frames).unwrap();
        let (channel, control_room) = room.split_at_mut(samples.len() * 4);
        put_f32(channel, &samples);
        put_f32(control_room, &[control(block)]);
        assert_eq!(self.master.commit(Flags::NONE), block);
        self.true_plugin.run(&mut samples, control(block));
        self.truth.push((position, samples));
        block
    }

    pub(super) fn carry(&mut self) {
        let Self { master, worker, there, back, now, room, .. } = self;
        loop {
            let mut moved = false;
            while let Some(len) = master.poll(room) {
                there.carry(&room[..len], |datagram| {
                    worker.handle(datagram, *now);
                });
                moved = true;
            }
            moved |= run(worker, &mut self.plugin, &mut self.turns) > 0;
            while let Some(len) = worker.poll(*now, room) {
                back.carry(&room[..len], |datagram| {
                    master.handle(datagram, *now);
                });
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    pub(super) fn pass(&mut self, span: Span) {
        self.now += span;
    }

    pub(super) fn answer(&self, block: u64) -> Option<(Vec<f32>, bool)> {
        let answer = self.master.answer(block)?;
        Some((floats(answer.bytes), !answer.flags.has(Flags::DIRTY)))
    }

    pub(super) fn is_true(&self, block: u64) -> bool {
        let (position, truth) = &self.truth[block as usize];
        self.master.answer(block).is_some_and(|answer| {
            answer.position == *position && bits(&floats(answer.bytes)) == bits(truth)
        })
    }
}

pub(super) fn run(worker: &mut Worker, plugin: &mut Recursive, turns: &mut Vec<BlockTurn>) -> u32 {
    let mut count = 0;
    while let Some(turn) = worker.next_turn() {
        if turn.restart {
            *plugin = Recursive::default();
        }
        let (input, output) = worker.buffers();
        let (channel, control) = input.split_at(turn.frames as usize * 4);
        let mut samples = floats(channel);
        plugin.run(&mut samples, floats(control)[0]);
        put_f32(output, &samples);
        worker.finish(7);
        turns.push(turn);
        count += 1;
    }
    count
}

pub(super) fn leg_bytes(frames: u32) -> (usize, usize) {
    let set = sound(MAX_FRAMES);
    (set.bytes(BlockLeg::There, frames), set.bytes(BlockLeg::Back, frames))
}
