//! The playout buffer against a model with all frames in a map.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tautline_dsp::conceal::Concealer;
use tautline_dsp::format::{SampleFormat, encode};
use tautline_proto::playout::{Placed, Playout};
use tautline_proto::time::{Frames, MediaTime};
use tautline_proto::units::{Channels, Rate};

/// Frames changed by a fade.
const FADE: usize = 48;

#[derive(Debug, Clone)]
enum Step {
    /// Distance from the cursor, and frames.
    Place(i64, usize),
    Pull(usize),
    Move(i64),
    Clear,
}

#[derive(Default)]
struct Model {
    frames: BTreeMap<i64, i16>,
    cursor: Option<i64>,
    capacity: i64,
    history: i64,
    /// Stamp of the last frame; each has its own.
    stamp: i16,
    /// Frames of sound since the last gap.
    since_hole: usize,
    sounded: bool,
}

impl Model {
    fn place(&mut self, first: i64, samples: &[i16]) -> Placed {
        let cursor = *self.cursor.get_or_insert(first - self.capacity / 4);
        let end = first + samples.len() as i64;
        if end > cursor + self.capacity {
            return Placed::Beyond(Frames::new(end - cursor - self.capacity));
        }
        let kept = (first..).zip(samples).filter(|(at, _)| *at >= cursor);
        let before = samples.len() - kept.clone().count();
        self.frames.extend(kept.map(|(at, sample)| (at, *sample)));
        match before {
            _ if before == samples.len() => Placed::Late,
            0 => Placed::Whole,
            _ => Placed::Partly(Frames::from_len(before)),
        }
    }

    fn move_to(&mut self, next: i64) {
        self.cursor = Some(next);
        let (behind, capacity) = (next - self.history, self.capacity);
        self.frames.retain(|at, _| (behind..next + capacity).contains(at));
    }

    fn pull(&mut self, count: usize) -> Vec<Option<i16>> {
        let Some(cursor) = self.cursor else { return vec![None; count] };
        let range = cursor..cursor + count as i64;
        let found = range.map(|at| self.frames.get(&at).copied()).collect();
        self.move_to(cursor + count as i64);
        found
    }

    /// Gap of zero length, which fades after sound.
    fn cut(&mut self) {
        self.sounded |= self.since_hole > 0;
        self.since_hole = 0;
    }

    /// New samples, never zero.
    fn samples(&mut self, count: usize) -> Vec<i16> {
        (0..count)
            .map(|_| {
                self.stamp = self.stamp.checked_add(1).unwrap_or(1).max(1);
                self.stamp
            })
            .collect()
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (-300..1300_i64, 0..300_usize).prop_map(|(at, len)| Step::Place(at, len)),
        6 => (0..300_usize).prop_map(Step::Pull),
        1 => (300..5000_usize).prop_map(Step::Pull),
        2 => (-1200..300_i64).prop_map(Step::Move),
        1 => (-5000..5000_i64).prop_map(Step::Move),
        1 => Just(Step::Clear),
    ]
}

fn payload(coding: SampleFormat, samples: &[i16]) -> Vec<u8> {
    let both: Vec<_> =
        samples.iter().flat_map(|s| [*s, -*s]).map(|s| f32::from(s) / 32_768.0).collect();
    let mut bytes = vec![0; both.len() * coding.bytes()];
    encode(coding, &both, &mut bytes);
    bytes
}

fn check_block(
    model: &mut Model,
    wanted: &[Option<i16>],
    out: &[f32],
) -> Result<(), TestCaseError> {
    for (wanted, frame) in wanted.iter().zip(out.chunks(2)) {
        prop_assert_eq!(frame[0], -frame[1], "channels stay together");
        match wanted {
            Some(sample) => {
                model.since_hole += 1;
                if !model.sounded || model.since_hole > FADE {
                    prop_assert_eq!(frame[0] * 32_768.0, f32::from(*sample));
                }
                if model.since_hole > FADE {
                    model.sounded = true;
                }
            }
            None => {
                // The first sound does not fade in.
                model.cut();
                prop_assert!(model.sounded || frame[0] == 0.0);
            }
        }
    }
    Ok(())
}

fn play(start: i64, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut playout = Playout::new(Rate::HZ_48000, Channels::STEREO, Frames::new(900));
    let (capacity, history) = (playout.capacity().count(), playout.history().count());
    let mut model = Model { capacity, history, ..Model::default() };
    prop_assert!(model.capacity >= 900 && model.history >= 225);
    for step in steps {
        let at = model.cursor.unwrap_or(start);
        match *step {
            Step::Place(ahead, count) => {
                let samples = model.samples(count);
                let first = MediaTime::from_frames(at + ahead);
                let coding = if count % 2 == 0 { SampleFormat::L16 } else { SampleFormat::L24 };
                let placed = playout.place(first, coding, &payload(coding, &samples));
                prop_assert_eq!(placed, model.place(at + ahead, &samples));
            }
            Step::Pull(count) => {
                let mut out = vec![9.0; count * 2];
                let missing = playout.pull(&mut out);
                let wanted = model.pull(count);
                let holes = wanted.iter().filter(|frame| frame.is_none()).count();
                check_block(&mut model, &wanted, &out)?;
                prop_assert_eq!(missing, Frames::from_len(holes));
            }
            Step::Move(by) => {
                playout.move_to(MediaTime::from_frames(at + by));
                model.move_to(at + by);
            }
            Step::Clear => {
                playout.clear();
                model.cut();
                (model.cursor, model.frames) = (None, BTreeMap::new());
            }
        }
        prop_assert_eq!(playout.cursor(), model.cursor.map(MediaTime::from_frames));
        let ready = model.cursor.map_or(0, |cursor| {
            (cursor..cursor + model.capacity).take_while(|f| model.frames.contains_key(f)).count()
        });
        prop_assert_eq!(playout.ready(), Frames::from_len(ready));
        for ahead in (0..capacity + 100).step_by(33).chain([capacity - 1, capacity]) {
            let held = |cursor| ahead < capacity && model.frames.contains_key(&(cursor + ahead));
            let there = model.cursor.is_some_and(held);
            prop_assert_eq!(playout.has(Frames::new(ahead)), there, "{} ahead", ahead);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn placed_frames_are_bit_exact_missing_ones_are_counted(
        start in prop_oneof![Just(0_i64), -5000..5000_i64, Just(1_i64 << 40)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        play(start, &steps)?;
    }
}

#[test]
fn block_longer_than_the_buffer_ends_in_silence() {
    let steps = [Step::Place(0, 300), Step::Move(0), Step::Pull(5000), Step::Pull(300)];
    play(100, &steps).unwrap();
}

#[test]
fn frames_after_the_end_of_a_source_are_silence() {
    for ends in [false, true] {
        let mut playout = Playout::new(Rate::HZ_48000, Channels::STEREO, Frames::new(4800));
        let sound: Vec<_> = (0..2400).map(|at| (at % 97 * 300) as i16).collect();
        let begin = MediaTime::from_frames(0);
        playout.move_to(begin);
        playout.place(begin, SampleFormat::L16, &payload(SampleFormat::L16, &sound));
        let mut out = vec![0.0; 2400 * 2];
        assert_eq!(playout.pull(&mut out), Frames::ZERO);
        if ends {
            playout.end();
        }
        let mut tail = vec![0.0; 480 * 2];
        assert_eq!(playout.pull(&mut tail), Frames::new(480));
        let sounds = tail[FADE * 2..].iter().any(|sample| *sample != 0.0);
        assert_eq!((sounds, playout.concealed() > 0), (!ends, !ends));
    }
}

#[test]
fn deferred_learning_conceals_like_immediate_learning() {
    const BLOCK: usize = 50;
    // Longer and shorter than the concealer's history.
    for room in [4000, 100] {
        let mut playout = Playout::new(Rate::HZ_48000, Channels::MONO, Frames::new(room));
        let mut concealer = Concealer::new(1, 48_000);
        playout.move_to(MediaTime::ZERO);
        for block in 0..1000_usize {
            let first = block * BLOCK;
            let tone = |frame: usize| (frame as f32 * 0.05).sin() * 0.5;
            let mut expected: [f32; BLOCK] = core::array::from_fn(|at| tone(first + at));
            let lost = block % 97 < 2 || block % 211 < 40 || block == 500;
            if lost {
                concealer.conceal(&mut expected);
            } else {
                let bytes: Vec<u8> =
                    expected.iter().flat_map(|sample| sample.to_be_bytes()).collect();
                playout.place(MediaTime::from_frames(first as i64), SampleFormat::F32, &bytes);
                concealer.sound(&mut expected);
            }
            let mut received = [0.0; BLOCK];
            playout.pull(&mut received);
            assert_eq!(received.map(f32::to_bits), expected.map(f32::to_bits), "block {block}");
            if block % 301 == 300 {
                // Cross-fades even at the same position.
                playout.jump_to(MediaTime::from_frames((first + BLOCK) as i64));
                concealer.cut();
            }
        }
    }
}
