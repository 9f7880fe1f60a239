//! A microphone and a loudspeaker with separate clocks.

use std::sync::mpsc::{Sender, channel};

use rtrb::{Producer, RingBuffer};
use tautline_proto::device::{Ended, Flow, Process, Side, Stop};
use tautline_proto::time::LocalTime;
use tautline_proto::units::{Channels, Rate};

use super::*;

const RATE: Rate = Rate::HZ_48000;
const PERIOD: usize = 120;

struct Called {
    settings: Settings,
    process: Sender<Box<dyn Process>>,
}

impl Device for Called {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn run(&mut self, process: Box<dyn Process>, _stop: &Stop) -> (Box<dyn Process>, Ended) {
        let _ = self.process.send(process);
        (Box::new(Far(fastrand::Rng::new(), [0.0; 2])), Ended::Stopped)
    }
}

/// Low-pass noise, like a voice; linear interpolation reproduces it.
struct Far(fastrand::Rng, [f32; 2]);

impl Process for Far {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let Self(random, [first, second]) = self;
        cycle.playback.samples.fill_with(|| {
            *first += 0.2 * (random.f32() * 2.0 - 1.0 - *first);
            *second += 0.2 * (*first - *second);
            *second
        });
        Flow::Continue
    }
}

struct Near(Producer<f32>);

impl Process for Near {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _ = self.0.push_entire_slice(cycle.capture.samples);
        Flow::Continue
    }
}

struct Clocks {
    drift: f64,
    jitter: i64,
    stands: i64,
}

fn decibels_less(clocks: &Clocks, seconds: usize) -> f64 {
    let settings = Settings {
        rate: RATE,
        channels: Channels::new(1).expect("one"),
        period: Frames::new(PERIOD as i64),
        periods: 3,
    };
    let (to_hear, handles) = channel();
    let (to_play, plays) = channel();
    let microphone = Box::new(Called { settings, process: to_hear });
    let loudspeaker = Box::new(Called { settings, process: to_play });
    let without = WithoutEcho::new(settings, settings).expect("a canceller");
    let mut microphone = without.microphone.on(microphone);
    let mut loudspeaker = without.loudspeaker.on(loudspeaker);
    let (to_see, mut sees) = RingBuffer::new(PERIOD);
    microphone.run(Box::new(Near(to_see)), &Stop::default());
    loudspeaker.run(Box::new(Far(fastrand::Rng::with_seed(3), [0.0; 2])), &Stop::default());
    let (mut handle, mut play) = (handles.recv().expect("sent"), plays.recv().expect("sent"));
    let mut random = fastrand::Rng::with_seed(7);
    let room: Vec<f64> = (0..600)
        .map(|tap| 0.2 * (-(tap as f64) / 200.0).exp() * (random.f64() * 2.0 - 1.0))
        .collect();
    let mut jitter = || Span::from_nanos(random.i64(-clocks.jitter..=clocks.jitter));
    let start = LocalTime::ZERO + Span::from_secs(10);
    let pace = 1.0 + clocks.drift * 1e-6;
    // Loudspeaker frame `n` at the DAC, in microphone frames: n / pace + shift.
    let (mut played, mut shift): (Vec<f64>, f64) = (Vec::new(), 0.0);
    let mut shifts: Vec<f64> = Vec::new();
    let (mut before, mut after) = (0.0, 0.0);
    let periods = seconds * 48_000 / PERIOD;
    for number in 0..periods {
        let now_frame = (number * PERIOD) as f64;
        while (played.len() as f64) / pace + shift < now_frame + 3.0 * PERIOD as f64 {
            let stands = clocks.stands > 0 && number > 800 && shift == 0.0;
            let skipped = if stands { clocks.stands } else { 0 };
            shift += skipped as f64 / pace;
            let meets = played.len() as f64 / pace + shift;
            let meets = start + Span::from_nanos((meets / 48_000.0 * 1e9) as i64) + jitter();
            let mut samples = [0.0; PERIOD];
            let side = Side {
                samples: &mut samples,
                meets,
                uncertainty: Span::from_nanos(clocks.jitter),
                skipped: Frames::new(skipped),
            };
            play.process(&mut Cycle::one_way(
                tautline_proto::device::Direction::Playback,
                meets,
                side,
                0,
            ));
            played.extend(samples.iter().map(|sample| f64::from(*sample)));
            shifts.extend(core::iter::repeat_n(shift, PERIOD));
        }
        let received_at = |frame: f64| -> f64 {
            let mut place = (frame - shift) * pace;
            if place < 0.0 || place as usize >= shifts.len() || shifts[place as usize] < shift {
                place = frame * pace;
                if place >= 0.0 && (place as usize) < shifts.len() && shifts[place as usize] > 0.0 {
                    return 0.0;
                }
            }
            let (whole, part) = (place.floor(), place - place.floor());
            let one = |at: f64| {
                if at < 0.0 { 0.0 } else { played.get(at as usize).copied().unwrap_or(0.0) }
            };
            one(whole) * (1.0 - part) + one(whole + 1.0) * part
        };
        let line: Vec<f64> = (0..PERIOD + room.len())
            .map(|at| received_at(now_frame + at as f64 - room.len() as f64))
            .collect();
        let mut samples: Vec<f32> = (0..PERIOD)
            .map(|frame| {
                let past = line[..=frame + room.len()].iter().rev().take(room.len());
                past.zip(&room).map(|(sample, tap)| sample * tap).sum::<f64>() as f32
            })
            .collect();
        let echo: f64 = samples.iter().map(|sample| f64::from(*sample).powi(2)).sum();
        let meets = start + Span::from_nanos((now_frame / 48_000.0 * 1e9) as i64) + jitter();
        let side = Side {
            samples: &mut samples,
            meets,
            uncertainty: Span::from_nanos(clocks.jitter),
            skipped: Frames::ZERO,
        };
        handle.process(&mut Cycle::one_way(
            tautline_proto::device::Direction::Capture,
            meets,
            side,
            0,
        ));
        let left: Vec<f32> = std::iter::from_fn(|| sees.pop().ok()).collect();
        assert_eq!(left.len(), PERIOD);
        if number >= periods - 400 {
            before += echo;
            after += left.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>();
        }
    }
    10.0 * (before / after).log10()
}

#[test]
fn echo_is_cancelled_on_one_clock() {
    let less = decibels_less(&Clocks { drift: 0.0, jitter: 0, stands: 0 }, 3);
    println!("{less:.1} dB less");
    assert!(less > 25.0, "{less:.1} dB less");
}

#[test]
fn echo_is_cancelled_despite_50_us_of_time_error() {
    let less = decibels_less(&Clocks { drift: 0.0, jitter: 50_000, stands: 0 }, 4);
    println!("{less:.1} dB less");
    assert!(less > 20.0, "{less:.1} dB less");
}

#[test]
fn devices_with_clocks_100_ppm_apart_are_followed() {
    for drift in [-100.0, 100.0] {
        let less = decibels_less(&Clocks { drift, jitter: 20_000, stands: 0 }, 6);
        println!("{drift} ppm: {less:.1} dB less");
        assert!(less > 20.0, "{drift} ppm: {less:.1} dB less");
    }
}

#[test]
fn paused_loudspeaker_is_found_again() {
    let less = decibels_less(&Clocks { drift: 0.0, jitter: 0, stands: 4800 }, 6);
    println!("{less:.1} dB less");
    assert!(less > 20.0, "{less:.1} dB less");
}

#[test]
fn a_period_is_cut_into_parts_that_can_be_cancelled() {
    for (period, block) in
        [(120, 120), (1024, 256), (480, 240), (1920, 240), (4800, 240), (3000, 250)]
    {
        assert_eq!(block_of(Frames::new(period)), Frames::new(block), "{period}");
    }
}
