//! What runs, and what it runs on.

use tautline_proto::offload::block::{BlockSet, BlockSpec, BlockWay, Element, Length};

/// A filter with a long memory, and a control.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SimPlugin {
    last: f32,
}

impl SimPlugin {
    /// How much of a frame is left in the next: after a second, what makes no difference in 32 bits any more.
    const KEEPS: f32 = 0.9997;

    pub(super) fn run(&mut self, sound: &mut [f32], control: f32) {
        for sample in sound {
            self.last = self.last * Self::KEEPS + *sample * control;
            *sample = self.last;
        }
    }
}

/// The input of a frame: noise that a frame's number makes, so that no two blocks are alike.
pub(super) fn sim_input(frame: u64) -> f32 {
    let mixed = frame.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    mixed as f32 / (1 << 25) as f32 - 0.25
}

/// The control that goes with a block.
pub(super) fn sim_control(block: u64) -> f32 {
    0.5 + (block % 17) as f32 / 32.0
}

/// A channel there, a control, a channel back.
pub(super) fn sim_set(most_frames: u32) -> BlockSet {
    let block = |way, length| BlockSpec { element: Element::F32, way, length };
    let blocks = vec![
        block(BlockWay::ToWorker, Length::PerFrame(1)),
        block(BlockWay::ToWorker, Length::Fixed(1)),
        block(BlockWay::FromWorker, Length::PerFrame(1)),
    ];
    BlockSet::new(blocks, most_frames).expect("a channel is short of every bound")
}
