//! A simulated room with loudspeaker, microphone and a near speaker.

use tautline_audio::echo::Canceller;
use tautline_proto::units::{Channels, Rate};

const RATE: Rate = Rate::HZ_48000;

/// Noise that changes by over 20 dB every 60 ms, like words.
struct Words {
    random: fastrand::Rng,
    frame: usize,
    level: f32,
    last: f32,
    slow: f32,
}

impl Words {
    fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), frame: 0, level: 0.0, last: 0.0, slow: 0.0 }
    }

    fn next(&mut self) -> f32 {
        if self.frame.is_multiple_of(2880) {
            self.level = [0.02, 0.3, 0.1, 0.0, 0.2][self.random.usize(..5)];
        }
        self.frame += 1;
        // Like a voice: mostly low, none below 200 Hz; 1 − exp(−2π · 200 / 48000) is 0.026.
        self.last += 0.3 * (self.random.f32() * 2.0 - 1.0 - self.last);
        self.slow += 0.026 * (self.last - self.slow);
        (self.last - self.slow) * self.level
    }
}

/// First reflection after 3 ms, then decaying.
fn room(seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    let fades = |tap: usize| 0.3 * (-(tap as f32) / 900.0).exp();
    (0..3000)
        .map(
            |tap| if tap < 144 { 0.0 } else { fades(tap - 144) * (random.f32() * 2.0 - 1.0) * 0.3 },
        )
        .collect()
}

struct Received {
    /// Power of echo, residue, and near speech.
    echo: f64,
    left: f64,
    spoken: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Played {
    Apart,
    Alike,
}

/// With near speech in the last second if `speaks`; returns that second's powers.
fn play(seconds: usize, block: usize, channels: usize, (what, speaks): (Played, bool)) -> Received {
    let count = Channels::new(channels as u32).expect("one or two");
    let mut canceller = Canceller::new(RATE, count, count).expect("a canceller");
    let rooms: Vec<Vec<f32>> = (0..channels * channels).map(|way| room(way as u64 + 1)).collect();
    let seed = |one: usize| if what == Played::Alike { 10 } else { 10 + one as u64 };
    let mut far: Vec<Words> = (0..channels).map(|one| Words::new(seed(one))).collect();
    let mut near = Words::new(99);
    let mut past = vec![vec![0.0_f32; 3000]; channels];
    let mut received = Received { echo: 0.0, left: 0.0, spoken: 0.0 };
    let total = seconds * 48_000 / block;
    for number in 0..total {
        let last = number >= total - 48_000 / block;
        let mut played = vec![0.0; block * channels];
        let mut captured = vec![0.0; block * channels];
        let mut spoken = vec![0.0; block * channels];
        for frame in 0..block {
            for (one, words) in far.iter_mut().enumerate() {
                played[frame * channels + one] = words.next();
                past[one].rotate_right(1);
                past[one][0] = played[frame * channels + one];
            }
            let says = if speaks && last { near.next() } else { 0.0 };
            for mic in 0..channels {
                let echo: f32 = (0..channels)
                    .map(|one| -> f32 {
                        let room = &rooms[mic * channels + one];
                        past[one].iter().zip(room).map(|(sample, tap)| sample * tap).sum()
                    })
                    .sum();
                spoken[frame * channels + mic] = says;
                captured[frame * channels + mic] = echo + says;
            }
        }
        let before = captured.clone();
        canceller.cancel(&mut captured, &played);
        if last {
            let power = |samples: &mut dyn Iterator<Item = f32>| -> f64 {
                samples.map(|sample| f64::from(sample).powi(2)).sum()
            };
            received.echo += power(&mut before.iter().zip(&spoken).map(|(all, says)| all - says));
            received.left += power(&mut captured.iter().zip(&spoken).map(|(all, says)| all - says));
            received.spoken += power(&mut spoken.iter().copied());
        }
    }
    received
}

fn decibels(ratio: f64) -> f64 {
    10.0 * ratio.log10()
}

#[test]
fn room_is_learned_in_4_s_and_echo_drops_20_db() {
    for block in [120, 240, 256] {
        let received = play(4, block, 1, (Played::Alike, false));
        let less = decibels(received.echo / received.left);
        println!("blocks of {block}: {less:.1} dB less");
        assert!(less > 20.0, "blocks of {block}: {less:.1} dB less");
    }
}
#[test]
fn double_talk_is_kept() {
    let received = play(4, 120, 1, (Played::Alike, true));
    let (kept, echo) =
        (decibels(received.spoken / received.left), decibels(received.echo / received.left));
    println!("what differs is {kept:.1} dB below the voice; echo {echo:.1} dB less");
    assert!(kept > 15.0, "what differs is {kept:.1} dB below the voice");
}
#[test]
fn stereo_echo_is_cancelled_at_two_microphones() {
    for what in [Played::Apart, Played::Alike] {
        let received = play(6, 120, 2, (what, false));
        let less = decibels(received.echo / received.left);
        println!("{less:.1} dB less");
        assert!(less > 20.0, "{less:.1} dB less");
    }
}
#[test]
fn microphone_without_echo_is_unchanged() {
    let one = Channels::new(1).expect("one");
    let mut canceller = Canceller::new(RATE, one, one).expect("made");
    let mut voice = Words::new(5);
    for _ in 0..800 {
        let spoken: Vec<f32> = (0..120).map(|_| voice.next()).collect();
        let mut captured = spoken.clone();
        canceller.cancel(&mut captured, &[0.0; 120]);
        assert_eq!(captured, spoken);
    }
}
#[test]
fn unsupported_echo_setup_is_refused_with_a_hint() {
    let channels = Channels::new(3).expect("three");
    let refused = Canceller::new(RATE, channels, channels).expect_err("three channels");
    assert!(refused.to_string().contains("--channels 2"), "{refused}");
}
#[test]
fn blocks_of_an_odd_number_of_frames_are_cancelled() {
    let received = play(4, 121, 1, (Played::Alike, false));
    let less = decibels(received.echo / received.left);
    assert!(less > 20.0, "{less:.1} dB less");
}
#[test]
fn extreme_sound_leaves_the_canceller_stable() {
    let one = Channels::new(1).expect("one");
    let mut canceller = Canceller::new(RATE, one, one).expect("made");
    let loudest: Vec<f32> = (0..120).map(|frame| if frame % 2 == 0 { 1.0 } else { -1.0 }).collect();
    for round in 0..400 {
        let mut captured: Vec<f32> = match round % 3 {
            0 => loudest.clone(),
            1 => vec![f32::NAN; 120],
            _ => loudest.iter().map(|sample| sample * f32::MAX).collect(),
        };
        canceller.cancel(&mut captured, &loudest);
    }
    let mut quiet = [0.25; 120];
    canceller.cancel(&mut quiet, &[0.0; 120]);
    assert!(quiet.iter().all(|sample| sample.abs() <= 1.0), "{quiet:?}");
}
