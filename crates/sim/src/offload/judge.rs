//! What was heard, held against what a plugin that missed nothing makes.

use tautline_proto::offload::returns::{Cause, Damage};

/// Everything that was handed out and heard, frame by frame.
#[derive(Debug, Default)]
pub(super) struct OffloadJudge {
    /// What a plugin that missed nothing makes.
    pub(super) truth: Vec<f32>,
    /// What was played for it.
    pub(super) heard: Vec<f32>,
    /// Whether a clean answer was there in time.
    pub(super) was_there: Vec<bool>,
    pub(super) damage: Vec<Damage>,
}

/// What it comes to.
pub(super) struct Judgement {
    pub(super) different: u64,
    pub(super) damaged: u64,
    pub(super) first_wrong: Option<u64>,
    pub(super) first_misnoted: Option<u64>,
}

impl OffloadJudge {
    pub(super) fn judge(&self) -> Judgement {
        let mut noted = vec![false; self.heard.len()];
        let mut may_differ = noted.clone();
        let end = noted.len() as u64;
        for damage in self.damage.iter().filter(|damage| damage.cause != Cause::Grown) {
            let until = damage.from + u64::from(damage.frames);
            let range = |until: u64| damage.from.min(end) as usize..until.min(end) as usize;
            // Of frames that are cross-faded a clean answer was there.
            noted[range(until)].fill(damage.cause != Cause::Faded);
            may_differ[range(until)].fill(true);
        }
        let differs = |frame: &usize| self.heard[*frame].to_bits() != self.truth[*frame].to_bits();
        let frames = 0..self.heard.len();
        Judgement {
            different: frames.clone().filter(differs).count() as u64,
            damaged: noted.iter().filter(|noted| **noted).count() as u64,
            first_wrong: frames
                .clone()
                .filter(|frame| !may_differ[*frame])
                .find(differs)
                .map(|frame| frame as u64),
            first_misnoted: frames
                .into_iter()
                .find(|frame| noted[*frame] == self.was_there[*frame])
                .map(|frame| frame as u64),
        }
    }
}
