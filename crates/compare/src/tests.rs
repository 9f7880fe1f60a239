//! Comparisons of recordings.

mod altered;
mod damaged;
mod periodic;

use tautline_trial::snapshot;

use tautline_dsp::resample::{Quality, Resampler, Step};
use tautline_proto::units::Rate;

use super::changes::{Difference, Instead};
use super::*;

/// Without the highest frequencies.
fn noise_of(frames: usize, seed: u32) -> Sound {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 16_777_216.0 - 0.5
    };
    let mut channel = || {
        let mut last = [0.0; 3];
        let mut soft = |sample: f32| {
            last = [sample, last[0], last[1]];
            let soft = 0.25 * last[0] + 0.5 * last[1] + 0.25 * last[2];
            // 24 bits, and never zero.
            (soft * 4_194_304.0).round() / 8_388_608.0 + 1.0 / 8_388_608.0
        };
        (0..frames).map(|_| soft(next())).collect()
    };
    Sound { channels: vec![channel(), channel()], rate: Rate::HZ_48000 }
}

fn noise(frames: usize) -> Sound {
    noise_of(frames, 1)
}

fn silence(frames: usize) -> Sound {
    Sound { channels: vec![vec![0.0; frames]; 2], rate: Rate::HZ_48000 }
}

fn joined<'a>(parts: impl IntoIterator<Item = &'a Sound>) -> Sound {
    let mut all = silence(0);
    for part in parts {
        all.channels.iter_mut().zip(&part.channels).for_each(|(all, part)| all.extend(part));
    }
    all
}

impl Sound {
    fn part(&self, frames: core::ops::Range<usize>) -> Self {
        let part = |channel: &Vec<f32>| channel[frames.clone()].to_vec();
        Self { channels: self.channels.iter().map(part).collect(), rate: self.rate }
    }

    fn with(mut self, change: impl Fn(f32) -> f32) -> Self {
        let samples = self.channels.iter_mut().flatten();
        samples.for_each(|sample| *sample = change(*sample));
        self
    }

    fn resampled(&self, ppm: f64) -> Self {
        self.resampled_by(Quality::default(), ppm)
    }

    fn resampled_by(&self, quality: Quality, ppm: f64) -> Self {
        let (step, frames) = (Step::from_ppm(ppm), self.frames());
        let resample = |channel: &Vec<f32>| {
            let mut resampler = Resampler::new(quality, 1, 4096);
            let mut out = vec![0.0; (frames as f64 / (1.0 + ppm / 1e6)) as usize];
            let mut left = &channel[..];
            for part in out.chunks_mut(4096) {
                let (now, later) = left.split_at(resampler.wants(part.len(), step).min(left.len()));
                resampler.push(now);
                resampler.pull(part, step);
                left = later;
            }
            out
        };
        Self { channels: self.channels.iter().map(resample).collect(), rate: self.rate }
    }
}

fn verdict(sent: &Sound, received: &Sound) -> Comparison {
    judge(sent, &joined([&silence(300), received, &silence(50)]), &mut |_| {})
}

fn is_reported(verdict: &Comparison, words: &[&str]) {
    let reported = verdict.to_string();
    assert!(words.iter().all(|words| reported.contains(words)), "{reported}\n{verdict:?}");
}

#[test]
fn a_recording_that_begins_and_ends_with_silence_is_identical() {
    let sent = joined([&silence(20), &noise(1000), &silence(40)]);
    let received = joined([&silence(300), &noise(1000), &silence(10)]);
    let verdict = judge(&sent, &received, &mut |_| {});
    assert!(verdict.is_whole());
    let said = "identical: all 1000 frames, not counting silent ends, from frame 280 on (0.006 s)";
    assert_eq!(verdict.to_string(), said);
}

#[test]
fn silence_within_is_as_identical_as_sound() {
    let sent = joined([&noise(9000), &silence(20_000), &noise_of(9000, 5)]);
    let verdict = verdict(&sent, &sent);
    assert!(verdict.is_whole() && verdict.is_all_there(), "{verdict}\n{verdict:?}");
}

#[test]
fn one_frame_that_differs_is_seen_and_placed() {
    for (by, words) in [
        (1.0 / 8_388_608.0, "; 1 nearly the same: frames 750 to 750 (0.016 s on)"),
        (0.5, "; 1 missing, other sound (concealed or damaged) instead: frames 750 to 750"),
    ] {
        let mut received = noise(1000);
        received.channels[1][750] += by;
        let verdict = verdict(&noise(1000), &received);
        assert_eq!(verdict.identical, 999);
        assert!(!verdict.is_whole() && !verdict.is_all_there());
        is_reported(&verdict, &["999 of 1000 frames identical", words]);
    }
}

#[test]
fn bits_that_differ_are_not_called_lost() {
    let sent = noise(10_000);
    let spoil = |sound: &Sound| {
        let mut received = sound.clone();
        for frame in (100..sound.frames() - 100).step_by(97) {
            received.channels[0][frame] -= 1.0 / 8_388_608.0;
        }
        received
    };
    let all = verdict(&sent, &spoil(&sent));
    assert!(!all.is_whole() && all.there == 10_000, "{all}");
    snapshot!(all.why("a.wav", "b.wav"));
    let early = verdict(&sent, &spoil(&sent.part(0..9000)));
    assert!(early.why("a.wav", "b.wav").starts_with("b.wav ends earlier than a.wav"));
    let mut lossy = spoil(&sent);
    lossy.channels.iter_mut().for_each(|channel| channel[4000..4100].fill(0.0));
    let lossy = verdict(&sent, &lossy);
    assert!(lossy.why("a.wav", "b.wav").contains("does not contain all"), "{lossy}");
}

#[test]
fn truncated_recording_is_reported_with_its_end() {
    let verdict = verdict(&noise(1000), &noise(1000).part(0..995));
    assert!(!verdict.is_whole() && verdict.is_whole_so_far() && verdict.changes.is_empty());
    assert_eq!((verdict.missed_first, verdict.missed_last), (0, 5));
    is_reported(&verdict, &["; frames 995 to 999 (0.021 s on) are missing at the end"]);
    assert!(verdict.why("a.wav", "b.wav").starts_with("b.wav ends earlier than a.wav"));
}

#[test]
fn late_recording_is_found_with_its_start() {
    let verdict = judge(&noise(1000), &noise(1000).part(150..1000), &mut |_| {});
    assert_eq!((verdict.delay, verdict.identical), (Delay::Known(-150), 850));
    assert_eq!((verdict.missed_first, verdict.missed_last), (150, 0));
    assert!(!verdict.is_whole_so_far());
    let missing = "; frames 0 to 149 (0.000 s on) are missing at the beginning";
    is_reported(&verdict, &["from sent frame 150 on (0.003 s)", missing]);
    assert!(verdict.why("a.wav", "b.wav").starts_with("b.wav begins later than a.wav"));
}

#[test]
fn unrelated_sound_is_not_found() {
    let sent = noise(60_000);
    for received in [silence(0), silence(2000), noise_of(60_000, 7)] {
        let verdict = verdict(&sent, &received);
        assert!(!verdict.is_found() && !verdict.is_whole() && !verdict.is_all_there());
        snapshot!(verdict);
    }
    assert!(!verdict(&silence(2000), &sent).is_found());
}

/// The latency changes by `by` frames at `at`.
fn spliced(sound: &Sound, at: usize, by: i64) -> Sound {
    const FADE: usize = 96;
    let on = (at as i64 - by) as usize;
    let (mut fade, to) = (sound.part(at..at + FADE), sound.part(on..on + FADE));
    for (fade, to) in fade.channels.iter_mut().zip(&to.channels) {
        for (index, (fade, to)) in fade.iter_mut().zip(to).enumerate() {
            let share = (index + 1) as f32 / (FADE + 1) as f32;
            *fade = *fade * (1.0 - share) + to * share;
        }
    }
    joined([&sound.part(0..at), &fade, &sound.part(on + FADE..sound.frames())])
}

#[test]
fn a_latency_that_grows_repeats_and_one_that_shrinks_drops() {
    let sent = noise(60_000);
    for by in [1440, -1440, 24_000, -24_000_i64] {
        let verdict = verdict(&sent, &spliced(&sent, 30_000, by));
        assert_eq!((verdict.missed_last, verdict.is_whole()), (0, false), "{verdict}");
        let missing = if by > 0 { 0 } else { by.unsigned_abs() as usize + 96 };
        assert_eq!(verdict.sounding.len() - verdict.identical, missing, "{verdict}");
        let frames = by.unsigned_abs() as usize;
        let (at, moved) = (30_000, frames as f64);
        let reported = match by {
            1.. => Difference::Repeated {
                at,
                from: at - frames + 96,
                frames: frames - 96,
                later: moved,
            },
            _ => Difference::Dropped { at, frames: frames + 96, earlier: moved },
        };
        assert_eq!(verdict.changes, [reported], "{verdict}");
    }
    let repeated =
        "; 1344 repeated at 0.625 s, those from 0.597 s on: 30.00 ms later from there on";
    is_reported(&verdict(&sent, &spliced(&sent, 30_000, 1440)), &[repeated]);
}

#[test]
fn dropped_and_repeated_frames_are_counted_and_located() {
    let sent = noise(60_000);
    let dropped = joined([&sent.part(0..20_000), &sent.part(20_480..60_000)]);
    let dropped = verdict(&sent, &dropped);
    let change = Difference::Dropped { at: 20_000, frames: 480, earlier: 480.0 };
    assert_eq!((&dropped.changes[..], dropped.identical), (&[change][..], 59_520), "{dropped}");
    is_reported(&dropped, &["; 480 dropped at 0.417 s: 10.00 ms earlier from there on"]);
    let repeated = joined([&sent.part(0..20_000), &sent.part(19_040..60_000)]);
    let repeated = verdict(&sent, &repeated);
    let change = Difference::Repeated { at: 20_000, from: 19_040, frames: 960, later: 960.0 };
    assert_eq!((&repeated.changes[..], repeated.identical), (&[change][..], 60_000), "{repeated}");
    assert!(!repeated.is_whole() && !repeated.is_all_there());
}

#[test]
fn repeated_sound_is_not_identical() {
    let sent = noise(60_000);
    for between in [0, 48_000] {
        let verdict = verdict(&sent, &joined([&sent, &silence(between), &sent]));
        assert!(!verdict.is_whole() && !verdict.is_all_there(), "{verdict}");
        let [Difference::Repeated { at: 60_000, from: 0, frames: 60_000, .. }] =
            verdict.changes[..]
        else {
            panic!("{verdict}\n{verdict:?}");
        };
    }
}

#[test]
fn tail_that_resembles_the_whole_sound_is_none_of_it() {
    let sent = noise(60_000);
    let tail = sent.part(30_000..60_000).with(|sample| 0.3 * sample);
    let verdict = verdict(&sent, &joined([&silence(2_048), &sent, &tail]));
    assert!(verdict.is_whole(), "{verdict}");
}

#[test]
fn hole_reports_its_replacement() {
    let sent = noise(60_000);
    for (by, with) in [(Instead::Silence, silence(480)), (Instead::Other, noise_of(480, 9))] {
        let received = joined([&sent.part(0..20_000), &with, &sent.part(20_480..60_000)]);
        let verdict = verdict(&sent, &received);
        let hole = Difference::Replaced { at: 20_000, frames: 480, by };
        assert_eq!((&verdict.changes[..], verdict.identical), (&[hole][..], 59_520), "{verdict}");
    }
}

#[test]
fn two_moves_and_a_hole_are_distinguished() {
    let sent = noise(90_000);
    let mut received = spliced(&sent, 60_000, -960);
    received.channels.iter_mut().for_each(|channel| channel[40_000..40_048].fill(0.0));
    let verdict = verdict(&sent, &spliced(&received, 20_000, 960));
    let [
        Difference::Repeated { .. },
        Difference::Replaced { frames: 48, .. },
        Difference::Dropped { .. },
    ] = verdict.changes[..]
    else {
        panic!("{verdict}\n{verdict:?}");
    };
    assert_eq!(verdict.sounding.len() - verdict.identical, 48 + 960 + 96, "{verdict}");
}

#[test]
fn a_hole_in_a_sound_that_repeats_itself_is_no_move() {
    let bar = noise(12_000);
    let sent = joined([&bar, &bar, &bar, &bar, &noise_of(20_000, 3)]);
    let mut received = sent.clone();
    received.channels.iter_mut().for_each(|channel| channel[20_000..21_000].fill(0.0));
    let verdict = verdict(&sent, &received);
    let hole = Difference::Replaced { at: 20_000, frames: 1000, by: Instead::Silence };
    assert_eq!(verdict.changes, [hole], "{verdict}");
}

#[test]
fn resampled_copy_is_complete() {
    let sent = noise(96_000);
    let by = |ppm| Quality::ALL.map(|quality| (ppm, quality));
    for (ppm, quality) in by(100.0).into_iter().chain(by(-100.0)) {
        let verdict = verdict(&sent, &sent.resampled_by(quality, ppm));
        assert!(verdict.is_all_there() && !verdict.is_whole(), "{verdict}\n{verdict:?}");
        let way = if ppm < 0.0 { "slower" } else { "faster" };
        is_reported(
            &verdict,
            &["complete: 96000 frames", &format!("resampled, 100.0 ppm {way}, from")],
        );
    }
}

#[test]
fn start_and_rate_of_resampling_are_reported() {
    let sent = noise(480_000);
    let received = joined([&sent.part(0..96_000), &sent.part(96_000..480_000).resampled(1.3)]);
    let verdict = verdict(&sent, &received);
    assert!(verdict.is_all_there() && !verdict.is_whole(), "{verdict}\n{verdict:?}");
    is_reported(
        &verdict,
        &["complete: 480000 frames", "; resampled, 1.3 ppm faster, from 2.000 s on"],
    );
    assert_eq!(verdict.changes, []);
}

#[test]
fn temporary_resampling_is_reported_with_its_end() {
    let sent = noise(192_000);
    let (first, last) = (sent.part(0..48_000), sent.part(144_000..192_000));
    let verdict =
        verdict(&sent, &joined([&first, &sent.part(48_000..144_000).resampled(50.0), &last]));
    assert!(verdict.is_all_there() && !verdict.is_whole(), "{verdict}\n{verdict:?}");
    is_reported(&verdict, &["; resampled, 50.0 ppm faster, from 1.000 s to 3.000 s"]);
    assert!(verdict.identical.abs_diff(96_000) < 8, "{verdict}");
}

#[test]
fn loss_in_resampled_sound_is_found() {
    let sent = noise(192_000);
    let received = sent.resampled(50.0);
    let dropped = joined([&received.part(0..90_000), &received.part(90_480..received.frames())]);
    let dropped = verdict(&sent, &dropped);
    assert!(!dropped.is_all_there(), "{dropped}");
    let [Difference::Dropped { at, earlier, .. }] = dropped.changes[..] else {
        panic!("{dropped}")
    };
    assert!(at.abs_diff(90_004) < 64 && (earlier - 480.0).abs() < 0.1, "{dropped}\n{dropped:?}");
    let hole = joined([
        &received.part(0..90_000),
        &silence(480),
        &received.part(90_480..received.frames()),
    ]);
    let hole = verdict(&sent, &hole);
    let [Difference::Replaced { at, frames, .. }] = hole.changes[..] else { panic!("{hole}") };
    assert!(at.abs_diff(90_004) < 64 && frames.abs_diff(480) < 128, "{hole}\n{hole:?}");
    assert!(!hole.is_all_there());
}

#[test]
fn a_sound_of_another_gain_is_found_with_the_gain() {
    let sent = noise(60_000);
    for (gain, said) in [(0.5, "; 6.0 dB quieter"), (1.5, "; 3.5 dB louder"), (-1.0, "; inverted")]
    {
        let verdict = verdict(&sent, &sent.clone().with(|sample| sample * gain));
        is_reported(
            &verdict,
            &["the same sound: 60000 of 60000 frames", "from frame 300 on", said],
        );
        assert!(!verdict.is_all_there() && !verdict.is_whole(), "{verdict}");
    }
}

#[test]
fn channels_that_are_swapped_or_dead_are_named() {
    let sent = noise(60_000);
    let mut swapped = sent.clone();
    swapped.channels.swap(0, 1);
    let swapped = verdict(&sent, &swapped);
    assert_eq!(swapped.identical, 60_000);
    is_reported(&swapped, &["; channel 1 holds channel 2, channel 2 holds channel 1"]);
    let mut dead = sent.clone();
    dead.channels[1].fill(0.0);
    let dead = verdict(&sent, &dead);
    is_reported(&dead, &["; channel 2 holds nothing of it"]);
    assert!([swapped, dead].iter().all(|verdict| !verdict.is_whole() && !verdict.is_all_there()));
}

#[test]
fn a_sound_in_fewer_bits_is_found_with_the_bits() {
    let sent = noise(60_000);
    let coarse = sent.clone().with(|sample| (sample * 32_768.0).round() / 32_768.0);
    let verdict = verdict(&sent, &coarse);
    assert!(!verdict.is_whole() && !verdict.is_all_there());
    is_reported(&verdict, &["; in samples of 16 bits instead of 24; the difference is"]);
}

#[test]
fn fewer_bits_are_blamed_only_if_there_are_fewer() {
    let sent = noise(60_000);
    let rounded = |sample: f32, bits: i32| (sample * 2_f32.powi(bits)).round() / 2_f32.powi(bits);
    let sixteen = |sample| rounded(sample, 15);
    let why = |received: Sound| {
        let verdict = verdict(&sent, &received);
        assert!(!verdict.is_whole() && !verdict.is_all_there() && !verdict.is_mixed(), "{verdict}");
        verdict.why("sent.wav", "heard.wav")
    };
    snapshot!(why(sent.clone().with(sixteen)));
    let quieter = sent.clone().with(|sample| rounded(sample * 0.995, 23));
    assert_eq!(sent.bits(), quieter.bits());
    assert_eq!(
        why(quieter),
        "heard.wav contains sent.wav, but 0.995 times as loud: a --volume or a mixer changed it"
    );
    let other = sent.clone().with(|sample| sixteen(sample) + 1.0 / 8_388_608.0);
    assert_eq!(sent.bits(), other.bits());
    let reported = why(other);
    let differs =
        reported.strip_prefix("heard.wav contains sent.wav, but not bit-exact: the difference is ");
    let decibels = differs.and_then(|differs| differs.split_once(" dB below it; "));
    let (decibels, hint) = decibels.unwrap_or_else(|| panic!("{reported}"));
    assert!((80.0..100.0).contains(&decibels.parse::<f64>().unwrap()), "{reported}");
    snapshot!(hint);
}

#[test]
fn a_sound_is_found_behind_another() {
    let sent = noise(60_000);
    for received in [sent.clone(), sent.resampled(-20.0)] {
        let verdict = verdict(&sent, &joined([&noise_of(200_000, 11), &received]));
        assert!(verdict.is_all_there(), "{verdict}\n{verdict:?}");
        assert_eq!(verdict.delay, Delay::Known(200_300));
    }
}

#[test]
fn other_sound_before_a_resampled_copy_is_excluded() {
    let sent = noise(30_000);
    let resampled = sent.resampled(100.0);
    for before in (1..64).step_by(9) {
        let faint = noise_of(before, 7).with(|sample| sample / 64.0);
        let verdict = verdict(&sent, &joined([&faint, &resampled]));
        assert!(verdict.is_all_there(), "{before}: {verdict}\n{verdict:?}");
    }
}

#[test]
fn pieces_of_a_sound_in_any_order_are_judged() {
    let sent = noise(60_000);
    let ways = [sent.clone(), sent.resampled(100.0), sent.resampled(-300.0), noise_of(60_000, 7)];
    let mut state = 1_u32;
    let mut below = |limit: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((u64::from(state) * u64::from(limit)) >> 32) as usize
    };
    for _ in 0..200 {
        let parts: Vec<_> = (0..1 + below(6))
            .map(|_| {
                let (way, from) = (below(4), below(50_000));
                let longest = if below(3) == 0 { 50 } else { 9000 };
                let part = ways[way].part(from..from + 1 + below(longest));
                if below(5) == 0 { part.with(|_| 0.0) } else { part }
            })
            .collect();
        let verdict = verdict(&sent, &joined(&parts));
        assert!(!verdict.to_string().is_empty(), "{verdict:?}");
    }
}

#[test]
fn briefly_shifted_resampled_sound_is_not_missing() {
    let sent = noise(192_000);
    for (frames, away, there) in [(671, 0.02, true), (1200, 0.02, true), (671, 0.2, false)] {
        let mut received = sent.clone();
        for (received, sent) in received.channels.iter_mut().zip(&sent.channels) {
            let mut resampler = Resampler::new(Quality::default(), 1, frames);
            let half = resampler.half();
            resampler.reset();
            resampler.pass(&sent[90_000 - half..90_000]);
            resampler.push(&sent[90_000..90_000 + frames + 2 * half]);
            resampler.set_fraction((away * 2.0_f64.powi(32)) as u32);
            resampler.pull(&mut received[90_000..90_000 + frames], Step::from_ppm(0.0));
        }
        let verdict = verdict(&sent, &received);
        let reported = if there { "nearly the same" } else { "missing" };
        is_reported(&verdict, &[&format!("; {frames} {reported}")]);
        assert!(!verdict.is_whole() && (verdict.there == 192_000) == there, "{verdict:?}");
    }
}
