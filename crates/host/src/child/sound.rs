use std::sync::Arc;

use tautline_engine::offload::sound_set::SoundSet;
use tautline_engine::offload::working::{Work, WorkStanding};
use tautline_io::clock::now;
use tautline_io::thread::realtime::permit;
use tautline_proto::offload::block::{BlockLeg, BlockSet, BlockSetError};
use tautline_proto::offload::block::{ByteOrder, get_f32, put_f32};
use tautline_proto::offload::datagram::Flags;
use tautline_proto::offload::inbound::BlockTurn;

use super::gauge::Gauge;
use crate::chain::ChainNode;
use crate::child_notes::{BlockOfEpoch, RunNote};

pub(super) struct PluginSound {
    node: ChainNode,
    sound: SoundSet,
    set: BlockSet,
    gauge: Arc<Gauge>,
    fatal: FatalBlocks,
    begins: bool,
}

struct FatalBlocks {
    note: RunNote,
    known: Vec<BlockOfEpoch>,
}

impl PluginSound {
    pub(super) fn new(
        node: ChainNode,
        sound: SoundSet,
        gauge: Arc<Gauge>,
        note: RunNote,
    ) -> Result<Self, BlockSetError> {
        let fatal = FatalBlocks { note, known: Vec::new() };
        Ok(Self { node, set: sound.block_set()?, sound, gauge, fatal, begins: false })
    }

    fn handle(&mut self, frames: u32, input: &[u8]) {
        let mut is_odd = false;
        for (block, place) in self.set.placed(BlockLeg::There, frames) {
            let Some(bytes) = input.get(place) else { return };
            if block < self.sound.inputs {
                get_f32(bytes, self.node.input_mut(block), ByteOrder::NATIVE);
                continue;
            }
            if Some(block) != self.sound.controls_in() {
                // Other plugins' controls stay unchanged.
                continue;
            }
            for (control, value) in bytes.as_chunks().0.iter().enumerate() {
                let value = f32::from_ne_bytes(*value);
                is_odd |= !value.is_finite();
                self.node.set_control(control, value);
            }
        }
        if is_odd {
            self.gauge.count_odd_controls();
        }
    }

    pub(super) fn pass_over(&mut self, fatal: Vec<BlockOfEpoch>) {
        self.fatal.known = fatal;
    }

    fn notify(&self, frames: u32, output: &mut [u8], play: impl Fn(usize, &mut [u8])) {
        let first = self.sound.output(0);
        for (block, place) in self.set.placed(BlockLeg::Back, frames) {
            let Some(bytes) = output.get_mut(place) else { return };
            let channel = block.saturating_sub(first);
            if channel < self.sound.outputs {
                play(channel, bytes);
                continue;
            }
            if Some(block) != self.sound.controls_out() {
                continue;
            }
            for (control, value) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
                *value = self.node.reported(control).to_ne_bytes();
            }
        }
    }
}

impl Work for PluginSound {
    fn restart(&mut self) {
        self.begins = true;
    }

    fn work(&mut self, turn: &BlockTurn, input: &[u8], output: &mut [u8]) -> u32 {
        if turn.flags.has(Flags::REPLAY) {
            self.gauge.count_replayed();
        }
        let place = BlockOfEpoch { epoch: turn.epoch, block: turn.block };
        if self.fatal.known.contains(&place) {
            self.notify(turn.frames, output, |_, bytes| bytes.fill(0));
            return self.node.latency();
        }
        self.handle(turn.frames, input);
        self.fatal.note.begin(place);
        // A plugin may hang in its activation.
        self.gauge.begin();
        if core::mem::take(&mut self.begins) {
            let _permit = permit("nothing is due of an activation that begins");
            self.node.activate();
        }
        let begun = now();
        self.node.run(turn.frames as usize);
        let latency = self.node.latency();
        self.gauge.end(now() - begun, latency);
        self.fatal.note.end();
        self.notify(turn.frames, output, |channel, bytes| {
            put_f32(bytes, self.node.output(channel));
        });
        latency
    }

    fn finished(&mut self, standing: &WorkStanding) {
        self.gauge.publish(standing);
    }

    fn rest(&mut self, standing: &WorkStanding) {
        self.gauge.publish(standing);
    }
}
