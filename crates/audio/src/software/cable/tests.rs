use tautline_trial::snapshot;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tautline_proto::card_clock::CardClock;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Ppm, Rate};

use super::*;
use crate::software::filled::Filled;

const RATE: Rate = Rate::HZ_48000;

fn settings(period: i64) -> Settings {
    Settings { rate: RATE, channels: Channels::STEREO, period: Frames::new(period), periods: 2 }
}

fn name() -> CableName {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{count}", std::process::id()).parse().unwrap()
}

fn clock(opened: i64, ppm: f64) -> CardClock {
    let start = CardClock::shared_start(LocalTime::from_nanos(opened), RATE);
    CardClock::new(start, RATE, Ppm::from_f64(ppm))
}

struct Joined {
    plays: PlayingEnd,
    handles: HearingEnd,
    clocks: [CardClock; 2],
    played: i64,
    received: i64,
}

impl Joined {
    fn new(delay: Span, [plays_by, hears_by]: [CardClock; 2]) -> Self {
        let name = name();
        let mut handles = HearingEnd::new(&name, delay, &settings(32)).unwrap();
        let mut plays = PlayingEnd::new(&name, &settings(48)).unwrap();
        plays.begin(&plays_by);
        handles.begin(&hears_by);
        Self { plays, handles, clocks: [plays_by, hears_by], played: 0, received: 0 }
    }

    fn play_to(&mut self, until: LocalTime, sound: impl Fn(i64) -> [f32; 2]) {
        while self.clocks[0].instant_of(self.played - 48) <= until {
            let frames: Vec<f32> = (self.played..self.played + 48).flat_map(&sound).collect();
            self.plays.play(&frames);
            self.played += 48;
        }
    }

    fn handle(&mut self, sound: impl Fn(i64) -> [f32; 2]) -> (i64, Vec<f32>) {
        self.play_to(self.clocks[1].instant_of(self.received + 32), sound);
        let mut received = vec![f32::NAN; 64];
        assert_eq!(self.handles.fill(&mut received), Filled::Whole);
        self.received += 32;
        (self.received - 32, received)
    }
}

fn counted(frame: i64) -> [f32; 2] {
    [(frame + 1) as f32, -(frame + 1) as f32]
}

#[test]
fn cable_with_one_clock_delays_samples_bit_exactly() {
    for (delay, later) in [(0, 0), (1, 48), (500, 24_000)] {
        let clocks = [clock(1_000_001, 0.0), clock(5_700_000, 0.0)];
        let mut cards = Joined::new(Span::from_millis(delay), clocks);
        let apart = clocks[1].start() - clocks[0].start();
        let apart = RATE.frames_nearest(apart).count();
        for _ in 0..2000 {
            let (first, received) = cards.handle(counted);
            for (frame, received) in (first + apart - later..).zip(received.chunks(2)) {
                let expected = if frame < 0 { [0.0; 2] } else { counted(frame) };
                assert_eq!(received, expected, "frame {frame} by {delay} ms");
            }
        }
    }
}

#[test]
fn cable_with_two_clocks_resamples_to_capture_times() {
    let tone = |nanos: f64| (nanos * 1e-9 * 997.0 * core::f64::consts::TAU).sin() * 0.5;
    for (errors, delay) in [
        ([0.0, 0.0], 3_370_000),
        ([0.0, 0.0], 10_417),
        ([100.0, -100.0], 0),
        ([-100.0, 100.0], 100_000_000),
        ([37.5, 37.5], 1_234_567),
    ] {
        let clocks = [clock(77, errors[0]), clock(3_000_000, errors[1])];
        let mut cards = Joined::new(Span::from_nanos(delay), clocks);
        let nanos = |clock: &CardClock, frame: i64| {
            let speed = 48_000.0 * (1.0 + clock.error().as_f64() * 1e-6);
            clock.start().as_nanos() as f64 + frame as f64 * 1e9 / speed
        };
        let sound = |frame| [tone(nanos(&clocks[0], frame)) as f32; 2];
        for _ in 0..3000 {
            let (first, received) = cards.handle(sound);
            for (frame, received) in (first..).zip(received.chunks(2)) {
                let met = nanos(&clocks[1], frame) - delay as f64;
                if met < nanos(&clocks[0], 32) {
                    continue;
                }
                let error = (f64::from(received[0]) - tone(met)).abs();
                assert!(error < 2e-6, "frame {frame}: {error} at {errors:?} by {delay} ns");
            }
        }
    }
}

#[test]
fn gone_player_is_silence_until_another_replaces_it() {
    let name = name();
    let mut handles = HearingEnd::new(&name, Span::ZERO, &settings(48)).unwrap();
    let mut handle = |clock: Option<&CardClock>| {
        clock.into_iter().for_each(|clock| handles.begin(clock));
        let mut received = [f32::NAN; 96];
        assert_eq!(handles.fill(&mut received), Filled::Whole);
        received
    };
    assert_eq!(handle(Some(&clock(0, 0.0))), [0.0; 96], "no card plays yet");
    for turn in 1..4 {
        let mut plays = PlayingEnd::new(&name, &settings(48)).unwrap();
        plays.begin(&clock((2 * turn - 1) * 1_000_000, 0.0));
        plays.play(&[turn as f32; 96]);
        drop(plays);
        assert_eq!(handle(None), [turn as f32; 96]);
        assert_eq!(handle(None), [0.0; 96], "nothing else was played");
    }
}

#[test]
fn frames_that_a_player_missed_are_silence() {
    let mut cards = Joined::new(Span::ZERO, [clock(0, 0.0), clock(0, 0.0)]);
    cards.plays.play_silence(Frames::new(40));
    cards.plays.play(&[1.0; 96]);
    cards.plays.play_silence(Frames::new(1_000_000));
    cards.plays.play(&[2.0; 96]);
    cards.handles.skip(Frames::new(1_000_088 - 16));
    let mut received = [f32::NAN; 64];
    cards.handles.fill(&mut received);
    assert_eq!((&received[..32], &received[32..]), (&[0.0; 32][..], &[2.0; 32][..]));
}

#[test]
fn overwritten_frames_are_silence() {
    let mut cards = Joined::new(Span::ZERO, [clock(0, 0.0), clock(0, 0.0)]);
    for block in 0..65_536 / 48 + 2 {
        cards.plays.play(&[block as f32 + 1.0; 96]);
    }
    let mut received = [f32::NAN; 64];
    cards.handles.fill(&mut received);
    assert_eq!(received, [0.0; 64]);
    cards.handles.skip(Frames::new(64));
    cards.handles.fill(&mut received);
    assert_eq!(received, [3.0; 64]);
}

#[test]
fn missing_samples_for_interpolation_are_an_xrun() {
    let mut cards = Joined::new(Span::from_nanos(10_000), [clock(0, 0.0), clock(0, 0.0)]);
    cards.plays.play(&[1.0; 96]);
    let mut received = [f32::NAN; 64];
    assert_eq!(cards.handles.fill(&mut received), Filled::Whole);
    assert_eq!(
        cards.handles.fill(&mut received),
        Filled::Starved,
        "48 frames of 64 and the kernel's"
    );
    assert_eq!(cards.handles.fill(&mut received), Filled::Whole);
    assert_eq!(received[48..], [0.0; 16]);
}

#[test]
fn concurrent_reader_gets_played_samples_or_silence() {
    let (name, ended) = (name(), AtomicBool::new(false));
    let mut plays = PlayingEnd::new(&name, &settings(48)).unwrap();
    let mut handles = HearingEnd::new(&name, Span::ZERO, &settings(32)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..3 {
                plays.begin(&clock(turn * 1_000_000_000, 0.0));
                for block in 0..4000 {
                    let frames: Vec<f32> = (0..48).flat_map(|n| counted(48 * block + n)).collect();
                    plays.play(&frames);
                }
            }
            ended.store(true, Ordering::Release);
        });
        let mut received = [0.0; 64];
        while !ended.load(Ordering::Acquire) {
            for first in (0..192_000).step_by(1000) {
                handles.begin(&clock(0, 0.0));
                handles.skip(Frames::new(first));
                handles.fill(&mut received);
                for (frame, received) in (first..).zip(received.chunks(2)) {
                    let good = (0..3).any(|turn| received == counted(frame - 48_000 * turn));
                    assert!(good || received == [0.0; 2], "{received:?} at {frame}");
                }
            }
        }
    });
}

#[test]
fn second_player_or_other_format_is_rejected_with_hint() {
    let name = name();
    let plays = PlayingEnd::new(&name, &settings(48)).unwrap();
    let refused = |refused: Option<DeviceError>| refused.unwrap().to_string();
    let second = refused(PlayingEnd::new(&name, &settings(48)).err());
    snapshot!(second);
    let rate = Settings { rate: Rate::new(44_100).unwrap(), ..settings(48) };
    let rate = refused(HearingEnd::new(&name, Span::ZERO, &rate).err());
    snapshot!(rate);
    let mono = Settings { channels: Channels::new(1).unwrap(), ..settings(48) };
    let mono = refused(HearingEnd::new(&name, Span::ZERO, &mono).err());
    snapshot!(mono);
    let long = refused(HearingEnd::new(&name, Span::ZERO, &settings(10_000)).err());
    snapshot!(long);
    let far = refused(HearingEnd::new(&name, Span::from_millis(501), &settings(48)).err());
    snapshot!(far);
    drop(plays);
    HearingEnd::new(
        &name,
        Span::ZERO,
        &Settings { channels: Channels::new(1).unwrap(), ..settings(48) },
    )
    .unwrap();
}

fn file(name: &CableName) -> SharedFile {
    SharedFile::open(&RingLayout::new(&settings(48)).file_name(name)).unwrap()
}

#[test]
fn last_user_removes_cable_and_stale_one_is_recreated() {
    let name = name();
    let stale = file(&name);
    stale.renew(100).unwrap();
    stale.map(12, 1).unwrap().unwrap().longs()[0].store(7, Ordering::Relaxed);
    let plays = PlayingEnd::new(&name, &settings(48)).unwrap();
    let handles = HearingEnd::new(&name, Span::ZERO, &settings(48)).unwrap();
    drop(plays);
    assert!(stale.is_there());
    drop(handles);
    assert!(!stale.is_there());
}

#[test]
fn corrupt_cable_is_rejected_or_read_as_sound() {
    let name = name();
    let other = file(&name);
    other.lock(USED, Hold::Shared, Span::ZERO).unwrap();
    for bytes in [0, 8, 72, 1 << 16] {
        other.renew(bytes).unwrap();
        let refused = HearingEnd::new(&name, Span::ZERO, &settings(48)).err().unwrap().to_string();
        snapshot!(refused);
    }
    let layout = RingLayout::new(&settings(48));
    other.renew(1024).unwrap();
    let short = CableRing::map(&other, layout, true).unwrap().err().unwrap();
    snapshot!(short);
    let refused = HearingEnd::new(&name, Span::ZERO, &settings(48)).err().unwrap().to_string();
    snapshot!(refused);
    other.remove();
    drop(other);

    let mut handles = HearingEnd::new(&name, Span::from_nanos(77), &settings(48)).unwrap();
    handles.begin(&clock(0, 50.0));
    let longs = file(&name).map(9, 0).unwrap().unwrap();
    let values = [0, 1, 2, 1 << 31, u64::MAX, u64::MAX - 1, i64::MAX as u64, i64::MIN as u64];
    let mut state = 1_u64;
    for _ in 0..20_000 {
        for place in &longs.longs()[4..] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = values[(state >> 60) as usize % 8] ^ ((state >> 33) & 3);
            place.store(value, Ordering::Relaxed);
        }
        let mut received = [f32::NAN; 96];
        handles.fill(&mut received);
        assert!(received.iter().all(|sample| sample.is_finite()), "{received:?}");
    }
}

#[test]
fn a_name_is_no_path() {
    for bad in ["", "../x", "a/b", "a.b", "ä", "a b", "x".repeat(33).as_str()] {
        assert!(bad.parse::<CableName>().is_err(), "{bad}");
    }
    assert_eq!("Studio_2-a".parse::<CableName>().unwrap().to_string(), "Studio_2-a");
}
