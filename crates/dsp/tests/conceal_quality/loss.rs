use std::ops::Range;

use tautline_dsp::conceal::Concealer;

use crate::RATE;
use crate::material::Random;

pub(crate) struct Loss {
    pub(crate) packet: usize,
    pub(crate) holes: Vec<Range<usize>>,
}

impl Loss {
    /// 5 % of the packets in runs of `run`, after the first half second.
    pub(crate) fn new(frames: usize, microseconds: usize, run: usize, seed: u64) -> Self {
        let packet = RATE * microseconds / 1_000_000;
        let mut random = Random(seed);
        let mut holes: Vec<Range<usize>> = vec![];
        let mut at = RATE / 2 / packet;
        while (at + run) * packet < frames {
            // Chance of a run after each received packet.
            if random.unit() < 0.05 / (0.95 * run as f64) {
                holes.push(at * packet..(at + run) * packet);
                at += run;
            }
            at += 1;
        }
        Self { packet, holes }
    }

    fn packets(&self, frames: usize) -> impl Iterator<Item = (Range<usize>, bool)> {
        let mut holes = self.holes.iter().peekable();
        (0..frames).step_by(self.packet).map(move |start| {
            while holes.next_if(|hole| hole.end <= start).is_some() {}
            let lost = holes.peek().is_some_and(|hole| hole.contains(&start));
            (start..(start + self.packet).min(frames), lost)
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cover {
    Concealment,
    /// Decays in 32 frames.
    Silence,
    Repetition,
    /// Cross-faded over 48 frames.
    SmoothRepetition,
}

impl Cover {
    pub(crate) fn received(self, sent: &[f32], loss: &Loss) -> Vec<f32> {
        let mut received = sent.to_vec();
        match self {
            Self::Concealment => {
                received = concealed(&mut Concealer::new(1, RATE as u32), sent, loss)
            }
            Self::Silence => {
                for hole in &loss.holes {
                    fade(&mut received, hole);
                }
            }
            Self::Repetition => {
                for hole in &loss.holes {
                    hole.clone().for_each(|at| received[at] = received[at - loss.packet]);
                }
            }
            Self::SmoothRepetition => {
                for hole in &loss.holes {
                    repeat_smoothly(&mut received, hole, loss.packet);
                }
            }
        }
        received
    }
}

fn fade(received: &mut [f32], hole: &Range<usize>) {
    let last = received[hole.start - 1];
    for (index, at) in hole.clone().enumerate() {
        received[at] = if index < 32 { last * cosine(index, 32) } else { 0.0 };
    }
    for (index, at) in (hole.end..received.len()).take(32).enumerate() {
        received[at] *= 1.0 - cosine(index, 32);
    }
}

fn cosine(index: usize, frames: usize) -> f32 {
    let share = (index + 1) as f64 / (frames + 1) as f64;
    (0.5 + 0.5 * (std::f64::consts::PI * share).cos()) as f32
}

fn repeat_smoothly(received: &mut [f32], hole: &Range<usize>, packet: usize) {
    const SEAM: usize = 48;
    let before = received[hole.start - packet - SEAM..hole.start].to_vec();
    let again = |index: usize| before[SEAM + index % packet];
    for (index, at) in hole.clone().enumerate() {
        let within = index % packet;
        // From the continuation, mirrored in time, to the beginning.
        received[at] = if within < SEAM {
            let old = before[before.len() - 1 - within];
            old * cosine(within, SEAM) + again(index) * (1.0 - cosine(within, SEAM))
        } else {
            again(index)
        };
    }
    for (index, at) in (hole.end..received.len()).take(SEAM).enumerate() {
        let gone = cosine(index, SEAM);
        received[at] = received[at] * (1.0 - gone) + again(hole.len() + index) * gone;
    }
}

fn concealed(concealer: &mut Concealer, sent: &[f32], loss: &Loss) -> Vec<f32> {
    let mut received = sent.to_vec();
    for (packet, lost) in loss.packets(sent.len()) {
        if lost {
            received[packet.clone()].fill(f32::NAN);
            concealer.conceal(&mut received[packet]);
        } else {
            concealer.sound(&mut received[packet]);
        }
    }
    received
}
