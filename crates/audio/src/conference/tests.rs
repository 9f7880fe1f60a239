//! Tests of a shared device. Playback and capture run period by period, each on its own clock.

use std::sync::mpsc::{Receiver, Sender, channel};

use tautline_dsp::card::{self, CardFormat};
use tautline_dsp::format::{self, SampleFormat};
use tautline_io::thread::realtime;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{Cycle, Direction, Ended, Flow, Side, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use super::*;

const PERIOD: usize = 48;
const RATE: Rate = Rate::HZ_48000;
const LEAD: Span = Span::from_millis(3);

fn settings() -> Settings {
    let period = Frames::from_len(PERIOD);
    Settings { rate: RATE, channels: Channels::MONO, period, periods: 4 }
}

struct Still;

impl Device for Still {
    fn settings(&self) -> Settings {
        settings()
    }

    fn run(&mut self, process: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
        (process, Ended::Finished)
    }
}

struct Talker {
    says: fn(LocalTime, i64) -> f32,
    said: i64,
    received: Sender<(LocalTime, Vec<f32>)>,
    finishes: bool,
}

impl Process for Talker {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _permit = realtime::permit("what a test hears is kept in memory that is asked for");
        let Side { samples, meets, .. } = &mut cycle.playback;
        for (frame, sample) in samples.iter_mut().enumerate() {
            let at = *meets + RATE.span_of(Frames::from_len(frame));
            *sample = (self.says)(at, self.said);
            self.said += 1;
        }
        if !cycle.capture.samples.is_empty() {
            let received = cycle.capture.samples.to_vec();
            self.received.send((cycle.capture.meets, received)).unwrap();
            cycle.capture.samples.fill(9.0);
        }
        if self.finishes { Flow::Finished } else { Flow::Continue }
    }
}

struct Room {
    processes: SharedProcesses,
    parts: SharedParts,
    turned: Sides<i64>,
    fast: i64,
    jitter: Span,
    uncertainty: Span,
    skipped: Sides<Frames>,
    clock: Option<ClockId>,
}

impl Room {
    fn of(parts: usize) -> Self {
        let (processes, parts) = shared(&Still, &Still, parts, true);
        let clock = Some(ClockId::of(&[b"the one"]));
        let (turned, skipped, fast, jitter) = Default::default();
        let uncertainty = Span::from_micros(1);
        Self { processes, parts, turned, fast, jitter, uncertainty, skipped, clock }
    }

    fn seat(
        &self,
        part: usize,
        says: fn(LocalTime, i64) -> f32,
    ) -> Receiver<(LocalTime, Vec<f32>)> {
        let (received, handles) = channel();
        for direction in [Direction::Playback, Direction::Capture] {
            let talker = Talker { says, said: 0, received: received.clone(), finishes: false };
            self.parts.0.seats[part].of(direction).seat.give(Box::new(talker));
        }
        handles
    }

    fn began(&self, period: i64, fast: i64) -> LocalTime {
        let nanos = period * PERIOD as i64 * 1_000_000_000 / 48_000;
        LocalTime::from_nanos(1_000_000_000 + nanos - nanos * fast / 1_000_000)
    }

    fn play(&mut self) -> Vec<f32> {
        let now = self.began(self.turned.playback, 0);
        self.turned.playback += 1;
        let mut samples = vec![0.5; PERIOD];
        let (meets, uncertainty) = (now + LEAD + self.jitter, self.uncertainty);
        let skipped = core::mem::take(&mut self.skipped.playback);
        let side = Side { samples: &mut samples, meets, uncertainty, skipped };
        let cycle = Cycle::one_way(Direction::Playback, now, side, 0);
        self.processes.playback.process(&mut cycle.by(self.clock));
        samples
    }

    fn capture(&mut self, loud: f32) -> LocalTime {
        let met = self.began(self.turned.capture, self.fast);
        self.turned.capture += 1;
        let mut samples = vec![loud; PERIOD];
        let (meets, uncertainty) = (met - self.jitter, self.uncertainty);
        let skipped = core::mem::take(&mut self.skipped.capture);
        let side = Side { samples: &mut samples, meets, uncertainty, skipped };
        let cycle = Cycle::one_way(Direction::Capture, met, side, 0);
        self.processes.capture.process(&mut cycle.by(self.clock));
        met
    }

    fn turn(&mut self, periods: usize) {
        for _ in 0..periods {
            self.play();
            if self.turned.playback > 1 {
                self.capture(0.0);
            }
        }
    }
}

fn counted(at: LocalTime, _: i64) -> f32 {
    let frame = RATE.frames_nearest(at - LocalTime::ZERO).count();
    (frame % 4096) as f32 / 4096.0
}

fn numbered(_: LocalTime, said: i64) -> f32 {
    (said + 1) as f32 / (1 << 20) as f32
}

fn silent(_: LocalTime, _: i64) -> f32 {
    0.0
}

fn loud(_: LocalTime, _: i64) -> f32 {
    0.25
}

fn tone(at: LocalTime, _: i64) -> f32 {
    let turns = (at - LocalTime::ZERO).as_nanos() as f64 * 440.0 / 1e9;
    (turns.fract() * core::f64::consts::TAU).sin() as f32 / 2.0
}

#[test]
fn parts_are_summed_in_their_own_buffer() {
    let mut room = Room::of(3);
    let _received = [room.seat(0, loud), room.seat(2, loud)];
    assert_eq!(room.play(), [0.5; PERIOD]);
    room.parts.0.seats[0].playback.seat.take();
    assert_eq!(room.play(), [0.25; PERIOD]);
    room.parts.0.seats[2].playback.seat.take();
    assert_eq!(room.play(), [0.0; PERIOD], "what lay in the block before is gone");
}

#[test]
fn invalid_part_leaves_the_others_unchanged() {
    let mut room = Room::of(3);
    let (_bad, _good) =
        (room.seat(0, |_, said| [f32::NAN, 1e38][said as usize % 2]), room.seat(1, loud));
    let handles = room.seat(2, silent);
    let sum: Vec<f32> = [0.25, 8.25].into_iter().cycle().take(PERIOD).collect();
    assert_eq!(room.play(), sum);
    room.turn(40);
    let received = handles.try_iter().last().unwrap().1;
    assert!(received.iter().all(|sample| [0.25, 8.25].contains(sample)), "{received:?}");
}

fn in_whole_numbers(samples: &[f32]) -> Vec<Vec<f32>> {
    let cards = CardFormat::BEST_FIRST.into_iter().filter(|coding| *coding != CardFormat::F32);
    let of_cards = cards.map(|coding| {
        let (mut bytes, mut held) =
            (vec![0; samples.len() * coding.bytes()], vec![0.0; samples.len()]);
        card::encode(coding, samples, &mut bytes);
        card::decode(coding, &bytes, &mut held);
        held
    });
    let packets = SampleFormat::ALL.into_iter().filter(|coding| *coding != SampleFormat::F32);
    let of_packets = packets.map(|coding| {
        let (mut bytes, mut held) =
            (vec![0; samples.len() * coding.bytes()], vec![0.0; samples.len()]);
        format::encode(coding, samples, &mut bytes);
        format::decode(coding, &bytes, &mut held);
        held
    });
    of_cards.chain(of_packets).collect()
}

#[test]
fn mix_of_32_loud_parts_clips_without_wrapping() {
    fn full(_: LocalTime, said: i64) -> f32 {
        if said % PERIOD as i64 / 24 == 0 { 1.0 } else { -1.0 }
    }
    fn beyond(at: LocalTime, said: i64) -> f32 {
        9.0 * full(at, said)
    }
    let both: [fn(LocalTime, i64) -> f32; 2] = [full, beyond];
    for (says, each) in both.into_iter().zip([1.0, tautline_dsp::sum::LOUDEST]) {
        let sum = 32.0 * each;
        let mut room = Room::of(33);
        let _talkers: Vec<_> = (0..32).map(|part| room.seat(part, says)).collect();
        let handles = room.seat(32, silent);
        let wave = |at: f32| -> Vec<f32> {
            (0..PERIOD).map(|frame| if frame < 24 { at } else { -at }).collect()
        };
        let played = room.play();
        room.turn(20);
        let (meets, received) = handles.try_iter().last().unwrap();
        assert_eq!(meets.as_nanos() % 1_000_000, 0, "a whole period");
        for all in [played, received] {
            assert_eq!(all, wave(sum), "floats are what they add up to");
            let held = in_whole_numbers(&all);
            assert_eq!(held.len(), 7);
            for held in held {
                let holds = |(held, sum): (&f32, &f32)| {
                    (held - sum.signum()).abs() < 0.0001 && held.abs() <= 1.0
                };
                assert!(held.iter().zip(&all).all(holds), "{held:?}");
            }
        }
    }
}

#[test]
fn each_caller_hears_the_others_frame_exact_and_not_itself() {
    let mut room = Room::of(3);
    let received = [room.seat(0, counted), room.seat(1, silent), room.seat(2, loud)];
    room.turn(40);
    let of = |part: usize| received[part].try_iter().skip(10).collect::<Vec<_>>();
    for (meets, samples) in of(1) {
        let each = |frame| counted(meets + RATE.span_of(Frames::from_len(frame)), 0) + 0.25;
        assert_eq!(samples, (0..PERIOD).map(each).collect::<Vec<_>>(), "both, to the frame");
    }
    let counted_alone = of(2);
    assert_eq!(counted_alone[0].1[0], counted(counted_alone[0].0, 0), "not itself");
    assert!(of(0).iter().all(|(_, samples)| *samples == [0.25; PERIOD]), "not itself");
    assert_eq!((room.parts.realigned(), room.parts.missed()), (0, 0));
}

#[test]
fn captured_sound_reaches_all_parts_unchanged() {
    let mut room = Room::of(2);
    let received = [room.seat(0, silent), room.seat(1, silent)];
    room.play();
    room.capture(0.75);
    for received in received {
        assert_eq!(received.recv().unwrap().1, [0.75; PERIOD]);
    }
}

#[test]
fn muted_device_leaves_only_other_parts_without_click() {
    let mut room = Room::of(2);
    let received = [room.seat(0, loud), room.seat(1, silent)];
    room.turn(40);
    received[1].try_iter().for_each(drop);
    let mut handles = |muted| {
        room.parts.mute(muted);
        for _ in 0..20 {
            room.play();
            room.capture(0.5);
        }
        received[1].try_iter().flat_map(|(_, samples)| samples).collect::<Vec<_>>()
    };
    let (before, muted, after) = (handles(false), handles(true), handles(false));
    assert_eq!(before[..], [0.75; 20 * PERIOD]);
    assert_eq!(muted[10 * PERIOD..], [0.25; 10 * PERIOD], "the other, after 10 ms");
    assert_eq!(after[10 * PERIOD..], [0.75; 10 * PERIOD]);
    let all = [before, muted, after].concat();
    let steepest = all.windows(2).map(|two| (two[1] - two[0]).abs()).fold(0.0, f32::max);
    assert!(steepest <= 0.5 * 1.5 / (10 * PERIOD) as f32 + 1e-6, "{steepest}");
}

#[test]
fn unbridged_parts_receive_the_device_only() {
    let mut room = Room::of(2);
    (room.processes, room.parts) = shared(&Still, &Still, 2, false);
    let received = [room.seat(0, loud), room.seat(1, loud)];
    room.turn(20);
    assert!(received[0].try_iter().all(|(_, samples)| samples == [0.0; PERIOD]));
    assert!(!room.parts.are_bridged());
}

#[test]
fn jitter_of_times_does_not_move_the_sound() {
    for clock in [Some(ClockId::of(&[b"the one"])), None] {
        let mut room = Room { clock, ..Room::of(2) };
        let received = [room.seat(0, numbered), room.seat(1, silent)];
        let mut state = 1_u32;
        for _ in 0..2_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            room.jitter = Span::from_nanos(i64::from(state >> 16) * 60_000 / 65_536 - 30_000);
            room.uncertainty = Span::from_micros(100);
            room.turn(1);
        }
        let all: Vec<f32> =
            received[1].try_iter().skip(10).flat_map(|(_, samples)| samples).collect();
        let is_next = |two: &[f32]| (two[1] - two[0]) * (1 << 20) as f32 == 1.0;
        assert!(all.windows(2).all(is_next), "every frame once, by {clock:?}");
        assert_eq!(room.parts.realigned(), 0);
    }
}

#[test]
fn skipped_frames_are_silence_and_keep_alignment() {
    let mut room = Room::of(2);
    let received = [room.seat(0, counted), room.seat(1, silent)];
    room.turn(400);
    room.turned.playback += 1;
    room.skipped.playback = Frames::from_len(PERIOD);
    room.turn(1);
    room.turn(20);
    room.turned.capture += 1;
    room.skipped.capture = Frames::from_len(PERIOD);
    room.turn(20);
    let blocks: Vec<_> = received[1].try_iter().skip(10).collect();
    let own = |(_, samples): &&(LocalTime, Vec<f32>)| *samples == [0.0; PERIOD];
    assert_eq!(blocks.iter().filter(own).count(), 1, "the period that was its own");
    for (meets, samples) in blocks.iter().filter(|block| !own(block)) {
        assert_eq!(samples[0], counted(*meets, 0));
    }
    assert_eq!(room.parts.realigned(), 0);
}

#[test]
fn cards_that_drift_apart_are_followed_without_a_jump() {
    let mut room = Room { clock: None, fast: 100, ..Room::of(2) };
    let received = [room.seat(0, tone), room.seat(1, silent)];
    // A minute at 100 ppm: 288 frames. A 440 Hz tone changes by at most 0.029 per frame.
    let (mut worst, mut last) = (0.0_f32, 0.0);
    for second in 0..60 {
        room.turn(1_000);
        while room.began(room.turned.capture, room.fast) + RATE.span_of(Frames::from_len(PERIOD))
            < room.began(room.turned.playback, 0)
        {
            room.capture(0.0);
        }
        let blocks: Vec<_> =
            received[1].try_iter().skip(if second == 0 { 10 } else { 0 }).collect();
        if second < 30 {
            continue;
        }
        for (meets, samples) in blocks {
            for (frame, sample) in samples.iter().enumerate() {
                let at = RATE.span_of(Frames::from_len(frame));
                let at = meets + at - Span::from_nanos(at.as_nanos() / 10_000);
                worst = worst.max((sample - tone(at, 0)).abs());
                last = *sample;
            }
        }
    }
    assert!(worst < 0.03 && last.is_finite(), "{worst}");
    assert_eq!((room.parts.realigned(), room.parts.missed()), (0, 0));
}

#[test]
fn interrupted_device_is_realigned_and_counted() {
    let mut room = Room::of(2);
    let received = [room.seat(0, counted), room.seat(1, silent)];
    room.turn(40);
    room.turned.playback += 30;
    for _ in 0..30 {
        room.capture(0.0);
    }
    assert!(room.parts.missed() > 20, "what was not played is not heard");
    room.turn(40);
    assert_eq!(room.parts.realigned(), 1);
    let (meets, samples) = received[1].try_iter().last().unwrap();
    assert_eq!(samples[0], counted(meets, 0));
}

#[test]
fn finished_part_is_not_called_and_others_continue() {
    let room = Room::of(2);
    let other = room.seat(1, loud);
    let part = room.parts.take().unwrap();
    let SharedPart { mut playback, capture } = part;
    let (received, handles) = channel();
    let thread = std::thread::spawn(move || {
        let talker = Talker { says: loud, said: 0, received, finishes: true };
        playback.run(Box::new(talker), &Stop::default()).1
    });
    let mut room = room;
    while !thread.is_finished() {
        assert!(room.play().iter().all(|sample| [0.25, 0.5].contains(sample)));
    }
    assert!(matches!(thread.join().unwrap(), Ended::Finished));
    assert_eq!(room.play(), [0.25; PERIOD]);
    let _other = room.parts.take().expect("the other is free");
    assert!(room.parts.take().is_none(), "its device that captures is there still");
    drop(capture);
    assert!(room.parts.take().is_some());
    drop((handles, other));
}

#[test]
fn part_ends_on_request_and_all_end_with_the_device() {
    let room = Room::of(2);
    let (stop, requested) = (Stop::default(), Stop::default());
    requested.request();
    let SharedPart { mut playback, mut capture } = room.parts.take().unwrap();
    let talker = || {
        let (received, _) = channel();
        Box::new(Talker { says: silent, said: 0, received, finishes: false })
    };
    assert!(matches!(playback.run(talker(), &requested).1, Ended::Stopped));
    drop(room.processes);
    assert!(matches!(playback.run(talker(), &stop).1, Ended::Finished));
    assert!(matches!(capture.run(talker(), &stop).1, Ended::Finished));
}
