//! Tests of outputs. The card runs period by period.

use std::sync::mpsc::{Receiver, Sender, channel};

use tautline_dsp::equalizer::{Band, BandShape, Equalizer};
use tautline_dsp::gain::Gain;
use tautline_io::thread::realtime;
use tautline_proto::device::{Cycle, Direction, Flow, Side};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use super::*;

const PERIOD: usize = 48;
const RATE: Rate = Rate::HZ_48000;

struct Card(u8);

impl Device for Card {
    fn settings(&self) -> Settings {
        let channels = Channels::new(self.0.into()).unwrap();
        Settings { rate: RATE, channels, period: Frames::from_len(PERIOD), periods: 3 }
    }

    fn clock(&self) -> Option<ClockId> {
        Some(ClockId::of(&[b"the card's"]))
    }

    fn timestamp_source(&self) -> TimestampSource {
        TimestampSource::Due
    }

    fn run(&mut self, process: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
        (process, Ended::Finished)
    }
}

/// Values of a cycle that an engine receives.
type Call = (LocalTime, Frames, u32, Option<ClockId>);

struct Engine {
    sound: fn(i64) -> [f32; 2],
    played: i64,
    ends_after: i64,
    calls: Sender<Call>,
}

impl Engine {
    fn new(sound: fn(i64) -> [f32; 2]) -> (Box<Self>, Receiver<Call>) {
        let (calls, received) = channel();
        (Box::new(Self { sound, played: 0, ends_after: i64::MAX, calls }), received)
    }
}

impl Process for Engine {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _permit = realtime::permit("a test stores the calls");
        let Side { samples, meets, skipped, .. } = &mut cycle.playback;
        let _ = self.calls.send((*meets, *skipped, cycle.xruns, cycle.clock));
        for frame in samples.as_chunks_mut::<2>().0 {
            *frame = (self.sound)(self.played);
            self.played += 1;
        }
        if self.played >= self.ends_after { Flow::Finished } else { Flow::Continue }
    }
}

struct Room {
    process: Box<dyn Process>,
    outputs: Vec<Output>,
    channels: usize,
    turned: i64,
}

impl Room {
    fn of(channels: u8, configs: &[(&[u16], OutputSettings)]) -> Self {
        let configs = configs.iter().map(|(channels, settings)| OutputConfig {
            channels: channels.to_vec(),
            mono: channels.len() == 1,
            settings: *settings,
        });
        let (process, outputs) = outputs(&Card(channels), configs.collect());
        Self { process, outputs, channels: channels.into(), turned: 0 }
    }

    /// One output on a stereo card with `sound`.
    fn with(settings: OutputSettings, sound: fn(i64) -> [f32; 2]) -> Self {
        let room = Self::of(2, &[(&[0, 1], settings)]);
        room.seat(0, sound);
        room
    }

    fn seat(&self, output: usize, sound: fn(i64) -> [f32; 2]) -> Receiver<Call> {
        let (engine, calls) = Engine::new(sound);
        self.outputs[output].state.seat.seat.give(engine);
        calls
    }

    fn play(&mut self, frames: usize) -> Vec<f32> {
        let now = LocalTime::from_nanos(self.turned * 1_000_000);
        self.turned += 1;
        let mut samples = vec![0.5; frames * self.channels];
        let meets = now + Span::from_millis(3);
        let skipped = Frames::new(7);
        let side = Side { samples: &mut samples, meets, uncertainty: Span::ZERO, skipped };
        let cycle = Cycle::one_way(Direction::Playback, now, side, 2);
        assert_eq!(self.process.process(&mut cycle.by(Card(1).clock())), Flow::Continue);
        samples
    }

    /// Left samples of a stereo card.
    fn left(&mut self, periods: usize) -> Vec<f32> {
        (0..periods).flat_map(|_| self.play(PERIOD)).step_by(2).collect()
    }

    fn control(&self) -> OutputControl {
        self.outputs[0].control()
    }
}

fn loud(_: i64) -> [f32; 2] {
    [0.25, -0.75]
}

fn quiet(_: i64) -> [f32; 2] {
    [0.125, 0.0625]
}

fn numbered(frame: i64) -> [f32; 2] {
    [(frame + 1) as f32, -(frame + 1) as f32].map(|number| number / (1 << 20) as f32)
}

fn tone(frame: i64) -> [f32; 2] {
    let turns = frame as f64 * 440.0 / 48_000.0;
    [(turns * core::f64::consts::TAU).sin() as f32 / 2.0; 2]
}

fn gain(db: f64) -> Gain {
    Gain::from_db(db).unwrap()
}

fn peak_at(db: f64) -> Equalizer {
    let shape = BandShape::Peaking(gain(db));
    let band = Band { shape, frequency: "440".parse().unwrap(), q: 1.0 };
    Equalizer::new(RATE.hertz(), &[band]).unwrap()
}

#[test]
fn two_outputs_of_a_card_do_not_mix() {
    let plain = OutputSettings::default();
    let mut room = Room::of(4, &[(&[3, 0], plain), (&[1], plain)]);
    let _calls = [room.seat(0, loud), room.seat(1, quiet)];
    assert_eq!(room.play(PERIOD), [-0.75, 0.09375, 0.0, 0.25].repeat(PERIOD));
    room.outputs[0].control().change(|it| it.delay = Span::from_secs(1));
    (0..10).for_each(|_| drop(room.play(PERIOD)));
    assert_eq!(room.play(PERIOD), [0.0, 0.09375, 0.0, 0.0].repeat(PERIOD));
}

#[test]
fn further_channels_alternate_and_missing_ones_are_ignored() {
    let mut room = Room::of(5, &[(&[4, 2, 0, 9, 1], OutputSettings::default())]);
    room.seat(0, loud);
    assert_eq!(room.play(PERIOD), [0.25, 0.25, -0.75, 0.0, 0.25].repeat(PERIOD));
}

#[test]
fn engine_sees_the_card_in_stereo() {
    let room = Room::of(8, &[(&[7], OutputSettings::default())]);
    let (device, card) = (room.outputs[0].device().unwrap(), Card(8));
    let stereo = Settings { channels: Channels::STEREO, ..card.settings() };
    assert_eq!(device.settings(), stereo);
    assert_eq!(device.clock(), card.clock());
    assert_eq!(device.timestamp_source(), TimestampSource::Due);
}

#[test]
fn long_block_is_divided_into_periods_with_their_times() {
    let mut room = Room::of(2, &[(&[0, 1], OutputSettings::default())]);
    let calls = room.seat(0, numbered);
    let clock = Card(1).clock();
    room.play(PERIOD);
    let expected = (0..3 * PERIOD as i64).map(|frame| numbered(frame + PERIOD as i64));
    assert_eq!(room.play(3 * PERIOD), expected.flatten().collect::<Vec<_>>());
    let at = |millis| LocalTime::ZERO + Span::from_millis(millis);
    let calls: Vec<Call> = calls.try_iter().collect();
    let (later, none) = (Frames::ZERO, Frames::ZERO);
    // Frames skipped before its first block do not concern an engine.
    let due = [
        (at(3), none, 0, clock),
        (at(4), Frames::new(7), 2, clock),
        (at(5), later, 0, clock),
        (at(6), later, 0, clock),
    ];
    assert_eq!(calls, due);
}

#[test]
fn default_settings_keep_every_bit() {
    fn odd(frame: i64) -> [f32; 2] {
        [[-0.0, f32::MIN_POSITIVE / 2.0], [1.0 / 3.0, -8.0]][frame as usize % 2]
    }
    let mut room = Room::with(OutputSettings::default(), odd);
    let played: Vec<u32> = room.play(PERIOD).into_iter().map(f32::to_bits).collect();
    let bits: Vec<u32> = (0..PERIOD as i64).flat_map(odd).map(f32::to_bits).collect();
    assert_eq!(played, bits);
}

#[test]
fn engine_leaves_and_another_enters_without_the_others() {
    let plain = OutputSettings::default();
    let mut room = Room::of(3, &[(&[0, 1], plain), (&[2], plain)]);
    let _calls = room.seat(1, quiet);
    for sound in [loud as fn(i64) -> [f32; 2], quiet] {
        let mut device = room.outputs[0].device().unwrap();
        assert!(room.outputs[0].device().is_none(), "one engine at a time");
        let (stop, [left, right]) = (Stop::default(), sound(0));
        let requested = stop.clone();
        let (engine, _received) = Engine::new(sound);
        let thread = std::thread::spawn(move || device.run(engine, &requested).1);
        let mut entered = false;
        while !thread.is_finished() {
            let block = room.play(PERIOD);
            let silent = [0.0, 0.0, 0.09375].repeat(PERIOD);
            assert!(block == [left, right, 0.09375].repeat(PERIOD) || block == silent);
            entered |= block != silent;
            if entered {
                stop.request();
            }
        }
        assert!(matches!(thread.join().unwrap(), Ended::Stopped));
        assert_eq!(room.play(PERIOD), [0.0, 0.0, 0.09375].repeat(PERIOD));
    }
}

#[test]
fn finished_engine_is_not_called_again() {
    let mut room = Room::of(2, &[(&[0, 1], OutputSettings::default())]);
    let mut device = room.outputs[0].device().unwrap();
    let (mut engine, calls) = Engine::new(loud);
    engine.ends_after = 2 * PERIOD as i64;
    let thread = std::thread::spawn(move || device.run(engine, &Stop::default()).1);
    while !thread.is_finished() {
        room.play(PERIOD);
    }
    assert!(matches!(thread.join().unwrap(), Ended::Finished));
    assert_eq!(calls.try_iter().count(), 2);
    let (mut device, stop) = (room.outputs[0].device().unwrap(), Stop::default());
    let (engine, calls) = Engine::new(loud);
    let requested = stop.clone();
    let thread = std::thread::spawn(move || device.run(engine, &requested).1);
    while calls.try_recv().is_err() {
        assert!(!thread.is_finished(), "the next engine plays");
        room.play(PERIOD);
    }
    stop.request();
    assert!(matches!(thread.join().unwrap(), Ended::Stopped));
}

#[test]
fn engines_end_with_the_card() {
    let Room { process, outputs, .. } = Room::of(1, &[(&[0], OutputSettings::default())]);
    let mut device = outputs[0].device().unwrap();
    drop(process);
    let (engine, _calls) = Engine::new(loud);
    assert!(matches!(device.run(engine, &Stop::default()).1, Ended::Finished));
}

#[test]
fn invalid_samples_stay_in_their_block() {
    fn bad(frame: i64) -> [f32; 2] {
        if frame < PERIOD as i64 { [f32::NAN, f32::INFINITY] } else { [0.25; 2] }
    }
    let bands = [Band { shape: BandShape::LowPass, frequency: "5000".parse().unwrap(), q: 0.71 }];
    let equalizer = Equalizer::new(RATE.hertz(), &bands).unwrap();
    let settings = OutputSettings { equalizer, limiter: Some(Gain::UNITY), ..Default::default() };
    let mut room = Room::with(settings, bad);
    let samples = room.left(1_000);
    assert!(samples.iter().all(|sample| sample.is_finite()));
    assert!((samples.last().unwrap() - 0.25).abs() < 0.05, "{:?}", samples.last());
}

#[test]
fn delay_is_exact_to_the_frame_and_clamped() {
    // 20 833 ns are a frame.
    let frames = |nanos: i64| {
        let settings = OutputSettings { delay: Span::from_nanos(nanos), ..Default::default() };
        let samples = Room::with(settings, numbered).left(1_010);
        let first = samples.iter().position(|sample| *sample != 0.0).unwrap();
        let due = (0..).map(|frame| numbered(frame)[0]);
        assert!(samples[first..].iter().copied().eq(due.take(samples.len() - first)));
        first
    };
    for (nanos, delay) in [(-1, 0), (0, 0), (20_833, 1), (31_300, 2), (333_333_333, 16_000)] {
        assert_eq!(frames(nanos), delay, "{nanos} ns");
    }
    assert_eq!([frames(1_000_000_000), frames(i64::MAX)], [48_000; 2]);
}

#[test]
fn each_change_takes_10_ms_without_a_step() {
    let changes: [fn(&OutputControl); 3] = [
        |control| control.change(|it| it.delay = Span::from_micros(1_700)),
        |control| control.change(|it| it.equalizer = peak_at(-24.0)),
        |control| control.change(|it| it.limiter = Some(gain(-6.0))),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut room = Room::with(OutputSettings::default(), tone);
        let mut samples = room.left(50);
        change(&room.control());
        samples.extend(room.left(200));
        let steps = samples.windows(2).map(|two| (two[1] - two[0]).abs());
        let own = core::f32::consts::TAU * 440.0 / 48_000.0 / 2.0;
        // Two taps are at most 1 apart; the fade's slope is at most 1.5 / 480.
        let steepest = steps.fold(0.0, f32::max);
        assert!(steepest <= own + 1.5 / 480.0, "change {number}: {steepest}");
    }
}

#[test]
fn settings_are_applied_in_their_order() {
    let mut room = Room::with(OutputSettings::default(), tone);
    let control = room.control();
    control.change(|it| it.equalizer = peak_at(12.0));
    control.change(|it| it.delay = Span::from_millis(2));
    control.change(|it| it.limiter = Some(gain(-3.0)));
    room.left(500);
    control.peak();
    let samples = room.left(100);
    let loudest = samples.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
    assert_eq!(loudest, gain(-3.0).factor());
    // 0.5 and 12 dB, before the limiter.
    assert!((control.peak() - 0.5 * gain(12.0).factor()).abs() < 1e-3);
    let expected = OutputSettings {
        equalizer: peak_at(12.0),
        delay: Span::from_millis(2),
        limiter: Some(gain(-3.0)),
    };
    assert_eq!(control.change(|it| *it), expected);
}

#[test]
fn peak_is_that_since_the_last_call() {
    let mut room = Room::with(OutputSettings::default(), loud);
    let control = room.control();
    assert_eq!(control.peak(), 0.0);
    room.play(PERIOD);
    room.outputs[0].state.seat.seat.take();
    room.play(PERIOD);
    assert_eq!([control.peak(), control.peak()], [0.75, 0.0]);
}

#[test]
fn card_keeps_its_settings_during_a_change() {
    let mut room = Room::with(OutputSettings::default(), loud);
    let control = room.control();
    control.change(|settings| {
        settings.delay = Span::from_secs(1);
        assert_eq!(room.left(20), [0.25; 20 * PERIOD]);
    });
    assert_eq!(room.left(20)[10 * PERIOD..], [0.0; 10 * PERIOD]);
}

#[test]
fn mono_output_plays_the_mean_on_all_channels() {
    let config = OutputConfig { channels: vec![0, 2], mono: true, ..OutputConfig::default() };
    let (process, outputs) = outputs(&Card(3), vec![config]);
    let mut room = Room { process, outputs, channels: 3, turned: 0 };
    room.seat(0, loud);
    assert_eq!(room.play(PERIOD), [-0.25, 0.0, -0.25].repeat(PERIOD));
}
