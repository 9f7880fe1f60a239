//! Blocks of an audio plugin's run.

use tautline_proto::offload::block::{
    BlockSet, BlockSetError, BlockSpec, BlockWay, Element, Length,
};

/// Plugin ports, equal at both ends.
///
/// Blocks, as 32-bit floats: each audio input, all control inputs, each audio output, all control
/// outputs. A block without ports is absent.
///
/// In a pipeline, each output is the next input. Two blocks pass through after the audio outputs:
/// later plugins' control inputs ([`Self::onward`]) and earlier plugins' control outputs
/// ([`Self::earlier`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoundSet {
    /// Audio inputs.
    pub inputs: usize,
    /// Audio outputs.
    pub outputs: usize,
    /// Control inputs, one value a run.
    pub controls_in: usize,
    /// Control outputs, one value a run.
    pub controls_out: usize,
    /// Maximum frames per run.
    pub max_frames: u32,
    /// Later plugins' control inputs.
    pub onward: usize,
    /// Earlier plugins' control outputs.
    pub earlier: usize,
}

impl SoundSet {
    /// The block set.
    pub fn block_set(&self) -> Result<BlockSet, BlockSetError> {
        let channel = |way| BlockSpec { element: Element::F32, way, length: Length::PerFrame(1) };
        let controls = |count: usize, way| {
            let length = Length::Fixed(u32::try_from(count).unwrap_or(u32::MAX));
            (count > 0).then_some(BlockSpec { element: Element::F32, way, length })
        };
        let mut blocks = vec![channel(BlockWay::ToWorker); self.inputs];
        blocks.extend(controls(self.controls_in, BlockWay::ToWorker));
        blocks.extend(vec![channel(BlockWay::FromWorker); self.outputs]);
        blocks.extend(controls(self.onward, BlockWay::Both));
        blocks.extend(controls(self.earlier, BlockWay::Both));
        blocks.extend(controls(self.controls_out, BlockWay::FromWorker));
        BlockSet::new(blocks, self.max_frames)
    }

    /// Block of an audio input.
    pub const fn input(&self, channel: usize) -> usize {
        channel
    }

    /// Block of the control inputs, if any.
    pub const fn controls_in(&self) -> Option<usize> {
        if self.controls_in > 0 { Some(self.inputs) } else { None }
    }

    /// Block of an audio output.
    pub const fn output(&self, channel: usize) -> usize {
        self.inputs + (self.controls_in > 0) as usize + channel
    }

    /// Block of the control outputs, if any.
    pub const fn controls_out(&self) -> Option<usize> {
        let passing = (self.onward > 0) as usize + (self.earlier > 0) as usize;
        if self.controls_out > 0 { Some(self.output(self.outputs) + passing) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_proto::offload::block::BlockLeg;

    #[test]
    fn sound_blocks_have_their_direction_and_order() {
        let set = SoundSet {
            inputs: 2,
            outputs: 3,
            controls_in: 4,
            controls_out: 1,
            max_frames: 64,
            ..SoundSet::default()
        };
        let blocks = set.block_set().unwrap();
        assert_eq!(blocks.blocks().len(), 7);
        assert_eq!(blocks.place(BlockLeg::There, set.input(1), 10), Some(40..80));
        assert_eq!(blocks.place(BlockLeg::There, set.controls_in().unwrap(), 10), Some(80..96));
        assert_eq!(blocks.place(BlockLeg::There, set.output(0), 10), None);
        assert_eq!(blocks.place(BlockLeg::Back, set.output(2), 10), Some(80..120));
        assert_eq!(blocks.place(BlockLeg::Back, set.controls_out().unwrap(), 10), Some(120..124));
        assert_eq!(
            (blocks.bytes(BlockLeg::There, 10), blocks.bytes(BlockLeg::Back, 10)),
            (96, 124)
        );
    }

    #[test]
    fn pipeline_output_blocks_match_the_next_input_blocks() {
        let max_frames = 64;
        let three = [(2, 3, 4, 1), (3, 1, 0, 2), (1, 2, 5, 0)];
        let sets: Vec<SoundSet> = (0..3)
            .map(|at| {
                let (inputs, outputs, controls_in, controls_out) = three[at];
                let onward = three[at + 1..].iter().map(|of| of.2).sum();
                let earlier = three[..at].iter().map(|of| of.3).sum();
                SoundSet { inputs, outputs, controls_in, controls_out, max_frames, onward, earlier }
            })
            .collect();
        let whole = SoundSet {
            inputs: 2,
            outputs: 2,
            controls_in: 9,
            controls_out: 3,
            max_frames,
            ..SoundSet::default()
        };
        let bytes = |set: &SoundSet, leg| set.block_set().unwrap().bytes(leg, 10);
        assert_eq!(bytes(&whole, BlockLeg::There), bytes(&sets[0], BlockLeg::There));
        for pair in sets.windows(2) {
            assert_eq!(bytes(&pair[0], BlockLeg::Back), bytes(&pair[1], BlockLeg::There));
        }
        assert_eq!(bytes(&sets[2], BlockLeg::Back), bytes(&whole, BlockLeg::Back));
        let first = sets[0].block_set().unwrap();
        assert_eq!(
            first.place(BlockLeg::Back, sets[0].controls_out().unwrap(), 10),
            Some(140..144)
        );
    }

    #[test]
    fn a_plugin_without_controls_has_no_block_for_them() {
        let set = SoundSet { inputs: 1, outputs: 1, max_frames: 64, ..SoundSet::default() };
        assert_eq!((set.controls_in(), set.controls_out()), (None, None));
        assert_eq!(set.block_set().unwrap().blocks().len(), 2);
        assert_eq!(set.output(0), 1);
    }
}
