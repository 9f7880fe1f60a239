//! Answers by position, with any block sizes and losses.

use proptest::prelude::*;

use super::road::bits;
use crate::offload::returns::{Cause, PulledReturns, Replacement, Returns, ReturnsConfig};

const RATE: u32 = 48_000;
const MAX: u32 = 256;

fn config(delay: u32, replacement: Replacement) -> ReturnsConfig {
    ReturnsConfig { inputs: 2, outputs: 2, rate: RATE, delay, max_frames: MAX, replacement }
}

/// Loud, without repeated values.
fn dry(channel: usize, frame: u64) -> f32 {
    ((frame * 7919 + channel as u64 * 13) % 10_007) as f32 / 10_007.0 - 0.5
}

fn wet(channel: usize, frame: u64) -> f32 {
    (frame as f32 * 0.01).sin() * 0.5 + channel as f32 / 16.0 + dry(channel, frame) / 64.0
}

struct Received {
    returns: Returns,
    clock: u64,
    received: [Vec<f32>; 2],
    pulled: Vec<PulledReturns>,
}

impl Received {
    fn new(config: ReturnsConfig, delay: u32) -> Self {
        let mut returns = Returns::new(config);
        returns.begin(delay);
        Self { returns, clock: 0, received: [Vec::new(), Vec::new()], pulled: Vec::new() }
    }

    fn place(&mut self, position: u64, frames: u32, clean: bool) -> u32 {
        for channel in 0..2 {
            let samples: Vec<f32> =
                (position..position + u64::from(frames)).map(|at| wet(channel, at)).collect();
            self.returns.place(position, channel, &samples);
        }
        self.returns.arrived(position, frames, clean)
    }

    fn run(&mut self, frames: u32, answers: &[(u64, u32)]) {
        for channel in 0..2 {
            let clock = self.clock;
            let samples: Vec<f32> =
                (clock..clock + u64::from(frames)).map(|at| dry(channel, at)).collect();
            self.returns.push_dry(channel, &samples);
        }
        for (position, frames) in answers {
            self.place(*position, *frames, true);
        }
        let received = &mut self.received;
        let pulled = self.returns.pull(frames, &mut |channel, samples| {
            assert_eq!(samples.len(), frames as usize);
            received[channel].extend_from_slice(samples);
        });
        self.clock += u64::from(frames);
        let PulledReturns { wet, concealed, before, .. } = pulled;
        assert_eq!(wet + concealed + before, frames);
        self.pulled.push(pulled);
    }
}

fn replacements() -> impl Strategy<Value = Replacement> {
    prop_oneof![
        Just(Replacement::Matched),
        Just(Replacement::Dry),
        Just(Replacement::Conceal),
        Just(Replacement::LastGood),
    ]
}

proptest! {
    #[test]
    fn concealment_differs_only_until_1_ms_after_the_gap(
        runs in proptest::collection::vec((1..=MAX, 0u8..10), 1..120),
        delay in prop_oneof![Just(0u32), Just(64), 1u32..2000],
        lag in 0usize..3,
        replacement in replacements(),
    ) {
        let mut host = Received::new(config(delay, replacement), delay);
        // Each block returns `lag` runs later, or never.
        let mut blocks: Vec<(u64, u32, bool)> = Vec::new();
        let mut missing = vec![false; 0];
        for (index, (frames, luck)) in runs.iter().enumerate() {
            blocks.push((host.clock, *frames, *luck > 0));
            let answer = index.checked_sub(lag).map(|at| blocks[at]);
            let in_time = answer.filter(|(.., comes)| *comes);
            let turn = (host.clock).saturating_sub(delay.into());
            missing.resize((host.clock + u64::from(*frames)) as usize, true);
            if let Some((position, length, _)) = in_time {
                for frame in position.max(turn)..position + u64::from(length) {
                    missing[frame as usize] = false;
                }
            }
            let answers: Vec<(u64, u32)> =
                in_time.into_iter().map(|(position, length, _)| (position, length)).collect();
            host.run(*frames, &answers);
        }
        let fade = host.returns.fade_frames() as usize;
        prop_assert_eq!(fade, 48);
        let received = host.received[0].len();
        let played = received.saturating_sub(delay as usize);
        host.returns.settle();
        let (mut noted, mut faded) = (vec![false; played], vec![false; played]);
        while let Some(damage) = host.returns.poll_damage() {
            prop_assert_eq!((damage.epoch, damage.replacement), (1, replacement));
            let is_faded = damage.cause == Cause::Faded;
            let listed = if is_faded { &mut faded } else { &mut noted };
            for frame in damage.from..damage.from + u64::from(damage.frames) {
                let frame = frame as usize;
                prop_assert!(!core::mem::replace(&mut listed[frame], true));
                let since = missing[frame.saturating_sub(fade)..=frame].iter();
                prop_assert!(!is_faded || since.clone().any(|missing| *missing));
            }
        }
        let may_differ = |frame: usize| noted[frame] || faded[frame];
        for channel in 0..2 {
            let received = &host.received[channel];
            let silent = received.len().min(delay as usize);
            prop_assert!(received[..silent].iter().all(|sample| sample.to_bits() == 0));
            for (frame, received) in received[silent..].iter().enumerate() {
                let truth = wet(channel, frame as u64);
                prop_assert!(received.is_finite());
                prop_assert!(
                    may_differ(frame) || received.to_bits() == truth.to_bits(),
                    "frame {} of {}", frame, played
                );
            }
        }
        prop_assert_eq!(&noted[..], &missing[..played]);
        prop_assert_eq!(host.returns.damage_overflow(), 0);
        let concealed: u64 = host.pulled.iter().map(|pulled| u64::from(pulled.concealed)).sum();
        prop_assert_eq!(concealed, noted.iter().filter(|missing| **missing).count() as u64);
    }

    #[test]
    fn without_a_loss_any_blocks_of_the_host_come_out_as_one_sound(
        runs in proptest::collection::vec(0..=MAX, 1..100),
        delay in 256u32..1000,
    ) {
        let mut host = Received::new(config(delay, Replacement::Dry), delay);
        for frames in runs {
            let answer = (host.clock, frames);
            host.run(frames, &[]);
            host.place(answer.0, answer.1, true);
        }
        for channel in 0..2 {
            let received = &host.received[channel];
            let silent = received.len().min(delay as usize);
            let truth: Vec<f32> =
                (0..received.len() - silent).map(|frame| wet(channel, frame as u64)).collect();
            prop_assert_eq!(bits(&received[silent..]), bits(&truth));
        }
        prop_assert!(host.returns.poll_damage().is_none());
    }
}

/// Each run returns in the next, except `lost`.
fn with_lost(config: ReturnsConfig, count: u64, lost: core::ops::Range<u64>) -> Received {
    let mut host = Received::new(config, config.delay);
    for run in 0..count {
        let back = run.checked_sub(1).filter(|back| !lost.contains(back));
        let answers: Vec<(u64, u32)> = back.into_iter().map(|back| (back * 64, 64)).collect();
        host.run(64, &answers);
    }
    host
}

#[test]
fn dry_input_has_the_plugins_delay() {
    let mut host = with_lost(config(64, Replacement::Dry), 40, 10..20);
    let received = &host.received[1][64..];
    // After the fade, until the sound returns.
    for (frame, received) in received.iter().enumerate().take(20 * 64).skip(10 * 64 + 48) {
        assert_eq!(received.to_bits(), dry(1, frame as u64).to_bits(), "frame {frame}");
    }
    host.returns.set_plugin_latency(100);
    let before = host.received[0].len();
    (0..4).for_each(|_| host.run(64, &[]));
    for at in before + 64..host.received[0].len() {
        let frame = at as u64 - 64 - 100;
        assert_eq!(host.received[0][at].to_bits(), dry(0, frame).to_bits());
    }
}

type Plugin = fn(u64) -> f32;

/// Two seconds with a plugin, and one without.
fn received_beside(replacement: Replacement, plugin: Plugin, dry: Plugin) -> (Vec<f32>, Vec<f32>) {
    let mut returns =
        Returns::new(ReturnsConfig { inputs: 1, outputs: 1, ..config(64, replacement) });
    returns.begin(64);
    let (mut received, gone) = (Vec::new(), 2 * u64::from(RATE));
    for begin in (0..3 * u64::from(RATE)).step_by(64) {
        returns.push_dry(0, &(begin..begin + 64).map(dry).collect::<Vec<f32>>());
        if let Some(back) = begin.checked_sub(64).filter(|back| *back < gone) {
            returns.place(back, 0, &(back..back + 64).map(plugin).collect::<Vec<f32>>());
            returns.arrived(back, 64, true);
        }
        returns.pull(64, &mut |_, samples| received.extend_from_slice(samples));
    }
    let without = received.split_off(gone as usize + 64);
    (received, without)
}

fn peak(samples: &[f32]) -> f32 {
    samples.iter().fold(0.0, |peak, sample| sample.abs().max(peak))
}

fn level(samples: &[f32]) -> f32 {
    (samples.iter().map(|sample| sample * sample).sum::<f32>() / samples.len() as f32).sqrt()
}

/// Rises by 20 dB after two seconds.
fn voice(frame: u64) -> f32 {
    let rises = if frame >= 2 * u64::from(RATE) { 10.0 } else { 1.0 };
    let quiet = if frame % 48_000 >= 36_000 { 0.01 } else { 1.0 };
    (frame as f32 * 0.05).sin() * 0.09 * rises * quiet
}

fn steady_tone(frame: u64) -> f32 {
    (frame as f32 * 0.05).sin() * 0.5
}

#[test]
fn concealment_is_never_louder_than_the_plugin() {
    let plugins: [(&str, Plugin); 5] = [
        ("as it is", |frame| voice(frame)),
        ("40 dB lower", |frame| voice(frame) * 0.01),
        ("a mute", |_| 0.0),
        ("a limiter", |frame| voice(frame).clamp(-0.02, 0.02)),
        ("a gate", |frame| if frame % 48_000 >= 36_000 { 0.0 } else { voice(frame) }),
    ];
    for (name, plugin) in plugins {
        let (received, without) = received_beside(Replacement::Matched, plugin, voice);
        assert!(
            peak(&without) <= peak(&received),
            "{name}: {} > {}",
            peak(&without),
            peak(&received)
        );
        let (of_it, of_input) = (level(&received), level(&without));
        assert!(of_input <= of_it * 1.3, "{name}: {of_input} > {of_it}");
        assert!(of_input >= of_it * 0.5, "{name}: {of_input} < {of_it}");
    }
    let muted: Plugin =
        |frame| if frame < 2 * u64::from(RATE) - 4800 { steady_tone(frame) } else { 0.0 };
    let (_, without) = received_beside(Replacement::Matched, muted, steady_tone);
    assert_eq!(peak(&without), 0.0);
    // Short peaks as loud as the input.
    let ticks: Plugin =
        |frame| (frame as f32 * 0.05).sin() * if frame % 1200 < 50 { 0.5 } else { 0.02 };
    let (received, without) = received_beside(Replacement::Matched, ticks, steady_tone);
    let ratio = level(&without) / level(&received);
    assert!((0.8..1.2).contains(&ratio), "{ratio}");
    let (received, without) = received_beside(Replacement::Dry, |frame| voice(frame) * 0.01, voice);
    assert!(peak(&without) > 900.0 * peak(&received));
}

#[test]
fn missing_first_answer_is_concealed_by_silence() {
    let mut host = Received::new(config(64, Replacement::Matched), 64);
    (0..40).for_each(|_| host.run(64, &[]));
    assert!(host.received.iter().flatten().all(|sample| *sample == 0.0));
}

#[test]
fn no_stand_in_begins_or_ends_with_a_jump() {
    let sine = |frame: u64| (frame as f32 * core::f32::consts::TAU / 480.0).sin() * 0.5;
    for (replacement, run) in
        [Replacement::Matched, Replacement::Dry, Replacement::Conceal, Replacement::LastGood]
            .into_iter()
            .flat_map(|replacement| [64, 16].map(|run| (replacement, run)))
    {
        let mut host = Received::new(config(run, replacement), run);
        let run = u64::from(run);
        for begin in (0..6400).step_by(run as usize) {
            let samples: Vec<f32> = (begin..begin + run).map(|at| sine(at) * 0.25).collect();
            (0..2).for_each(|channel| host.returns.push_dry(channel, &samples));
            if let Some(back) = begin.checked_sub(run).filter(|at| !(3200..3840).contains(at)) {
                let samples: Vec<f32> = (back..back + run).map(sine).collect();
                (0..2).for_each(|channel| host.returns.place(back, channel, &samples));
                host.returns.arrived(back, run as u32, true);
            }
            let received = &mut host.received;
            let sink = &mut |channel: usize, samples: &[f32]| received[channel].extend(samples);
            host.returns.pull(run as u32, sink);
        }
        let steps = host.received[0].windows(2).map(|pair| (pair[1] - pair[0]).abs());
        let maximum = steps.fold(0.0, f32::max);
        // The sine steps by at most 0.0065, a fade of 48 frames by 1/30.
        assert!(maximum < 0.045, "{replacement:?} steps by {maximum} in runs of {run}");
    }
}

#[test]
fn nan_of_a_plugin_passes_unchanged() {
    let mut host = Received::new(config(64, Replacement::Conceal), 64);
    let odd = [f32::from_bits(0x7fc0_1234), f32::NEG_INFINITY, -0.0, f32::from_bits(3)];
    let samples: Vec<f32> = odd.into_iter().cycle().take(64).collect();
    for run in 0..20u64 {
        (0..2).for_each(|channel| host.returns.push_dry(channel, &samples));
        if run > 0 {
            (0..2).for_each(|channel| host.returns.place((run - 1) * 64, channel, &samples));
            host.returns.arrived((run - 1) * 64, 64, true);
        }
        let received = &mut host.received;
        host.returns.pull(64, &mut |channel, samples| received[channel].extend(samples));
    }
    assert_eq!(bits(&host.received[0][64..128]), bits(&samples));
    assert_eq!(bits(&host.received[0][19 * 64..]), bits(&samples));
    host.run(64, &[]);
    assert!(host.received[0][20 * 64..].iter().all(|sample| sample.is_finite()));
}

#[test]
fn an_epoch_begins_with_nothing_of_the_one_before() {
    for replacement in
        [Replacement::Matched, Replacement::Dry, Replacement::Conceal, Replacement::LastGood]
    {
        let mut host = with_lost(config(64, replacement), 40, 38..50);
        host.returns.begin(32);
        (host.clock, host.received) = (0, [Vec::new(), Vec::new()]);
        host.run(64, &[(0, 64)]);
        host.run(64, &[(64, 64)]);
        assert!(host.received[0][..32].iter().all(|sample| *sample == 0.0));
        let truth: Vec<f32> = (0..96).map(|frame| wet(0, frame)).collect();
        assert_eq!(bits(&host.received[0][32..]), bits(&truth));
    }
}
