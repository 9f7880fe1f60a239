//! A call through a bottleneck: the scenario `a_call_on_a_thin_link_is_understood` on real sockets.

use core::f64::consts::TAU;
use core::ops::Range;

use tautline_io::clock::now;
use tautline_proto::codec::{Opus, OpusTuning};
use tautline_proto::time::{LocalTime, Span};
use tautline_trial::{Window, each, steady};

use crate::codecs::{FULL, by_opus_alone};
use crate::common::messages;
use crate::common::network::ThinLink;
use crate::common::program::{Running, taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, grows, until};

const RATE: u64 = 200_000;
const QUEUE: usize = 16_000;
const DELAY: Span = Span::from_millis(20);
/// Buffers that survive stalls of 100 ms.
const RINGS: &str = "--period 240 --periods 32 --no-stall-monitor --report none";

/// Each 20 ms frame has a pitch that the next 29 lack, so concealment cannot produce it.
const PITCHES: usize = 30;
const FRAME: usize = 960;
/// Multiples of 100 Hz, which a 10 ms window resolves, from 300 Hz to 3.2 kHz: speech at 12 kbit/s
/// has a bandwidth of 4 kHz.
const PITCH_HZ: f64 = 100.0;
const LOWEST: usize = 3;
const WINDOW: usize = 480;
const HOP: usize = 240;
const SECOND: usize = 48_000;
/// Minimum share per second of the frames that the codec leaves recognisable.
const UNDERSTOOD: f64 = 0.95;
const QUEUED: Span = Span::from_millis(100);
/// From a start or cut until the call must be intelligible.
const DISTURBED: Span = Span::from_secs(2);
/// Maximum delay from the microphone: 250 ms of latency and the path.
const UNDER_WAY: Span = Span::from_millis(300);
const MAX_SECONDS: usize = 100;

fn pitched(seconds: usize) -> Sound {
    let mut phase = 0.0_f64;
    let samples = (0..seconds * SECOND).flat_map(|frame| {
        phase = (phase + PITCH_HZ * (pitch(frame / FRAME) + LOWEST) as f64 / SECOND as f64).fract();
        [(2_000_000.0 * (TAU * phase).sin()) as i32; 2]
    });
    Sound { shape: Shape::STEREO_24, samples: samples.collect() }
}

/// The next 12 differ by at least 200 Hz.
fn pitch(frame: usize) -> usize {
    frame * 7 % PITCHES
}

fn pitches(window: &[f64]) -> [bool; PITCHES] {
    let energy: f64 = window.iter().map(|sample| sample * sample).sum();
    let powers: [f64; PITCHES + 2] = core::array::from_fn(|tone| {
        let step = 2.0 * (TAU * PITCH_HZ * (tone + LOWEST - 1) as f64 / SECOND as f64).cos();
        let (a, b) = window.iter().fold((0.0, 0.0), |(a, b), sample| (sample + step * a - b, a));
        (a * a + b * b - step * a * b) * 2.0 / WINDOW as f64
    });
    let around = |pitch: usize| powers[pitch..pitch + 3].iter().sum::<f64>();
    core::array::from_fn(|pitch| around(pitch) > energy / 4.0)
}

/// How many of the 50 frames in this second arrived within two frames of their position. The
/// latency may change once, with the format.
fn understood(second: &[i32]) -> usize {
    let left: Vec<f64> = second.iter().step_by(2).map(|sample| f64::from(*sample)).collect();
    let windows: Vec<_> = left.windows(WINDOW).step_by(HOP).map(pitches).collect();
    let each = FRAME / HOP;
    let pitch_at = |window: usize, begins: usize| pitch((window + begins) / each);
    // Finds the second's position in the sound from these pitches.
    let fit = |part: Range<usize>| {
        let count = |begins: &usize| {
            part.clone().filter(|window| windows[*window][pitch_at(*window, *begins)]).count()
        };
        let fits = (0..PITCHES * each).map(|begins| (count(&begins), begins));
        fits.max().unwrap_or_default()
    };
    let changes = (0..windows.len()).step_by(each);
    let parts = changes.map(|change| (change, fit(0..change), fit(change..windows.len())));
    let best = parts.max_by_key(|(_, before, after)| before.0 + after.0);
    let (change, before, after) = best.expect("a second has windows");
    let is_received = |at: &usize| {
        let begins = if *at < change { before.1 } else { after.1 };
        let near = at.saturating_sub(2 * each)..(at + 3 * each).min(windows.len());
        windows[near].iter().any(|has| has[pitch_at(at + each / 2, begins)])
    };
    (0..SECOND / HOP).step_by(each).filter(is_received).count()
}

fn seconds(from: LocalTime, to: LocalTime) -> impl Iterator<Item = Window> {
    let whole = (to - from - DISTURBED).as_nanos() / 1_000_000_000;
    let at = move |second| from + DISTURBED + Span::from_secs(second);
    (0..whole).map(move |second| Window { from: at(second), to: at(second + 1) })
}

struct ThinCall {
    link: ThinLink,
    serve: Running,
    call: Running,
    folder: Folder,
    _home: Folder,
    begun: [LocalTime; 2],
}

const RECORDINGS: [&str; 2] = ["caller.wav", "heard.wav"];

impl ThinCall {
    fn begin() -> Option<Self> {
        let link = ThinLink::lay(RATE, QUEUE, DELAY)?;
        let (home, folder) = (Folder::new(), Folder::new());
        let id = taut(words("id")).with("TAUT_HOME", home.path()).run().well().out;
        let key = id.split_whitespace().last().unwrap().to_owned();
        let trust = taut(words("trust studio")).and([key]).with("TAUT_HOME", home.path());
        trust.run().well();
        pitched(MAX_SECONDS).write(&folder.file("sent.wav"));
        let end = |line: &str, network| {
            let call = taut(words(line)).and(words(RINGS)).within(network);
            call.with("TAUT_HOME", home.path()).in_folder(folder.path())
        };
        let line = "serve --listen 0.0.0.0 --input file:sent.wav --output file:caller.wav";
        let serve = end(line, &link.right).listened_to().start().wait_for(messages::AWAITS_CALLS);
        let line = format!(
            "call studio={} --format auto --verbose --input file:sent.wav --output file:heard.wav",
            link.right.address
        );
        let call = end(&line, &link.left).controlled().start();
        let begun = RECORDINGS.map(|name| {
            until("nothing is recorded", || folder.file(name).exists());
            now()
        });
        let call = call.wait_for(messages::IN_A_CALL);
        Some(Self { link, serve, call, folder, _home: home, begun })
    }

    /// Sets the link's rate and waits for this much more sound. Returns the time of the change.
    fn carries(&self, rate: u64, millis: u64) -> LocalTime {
        let at = now();
        self.link.carries(rate);
        grows(&self.folder.file(RECORDINGS[1]), millis);
        at
    }
}

/// Of a call's bitrates, speech at 24 kbit/s leaves the fewest recognisable frames.
fn understood_by_codec_alone() -> usize {
    let opus = Opus { tuning: OpusTuning::Voice, bitrate: 24_000 };
    let decoded = by_opus_alone(&pitched(30), opus, FRAME);
    let decoded: Vec<i32> = decoded.iter().map(|sample| (sample * FULL) as i32).collect();
    decoded.chunks_exact(2 * SECOND).map(understood).min().unwrap()
}

#[test]
fn a_frame_that_is_concealed_is_not_received() {
    let mut second = pitched(2).samples.split_off(2 * SECOND);
    assert_eq!(understood(&second), 50);
    for frame in [10, 20, 30] {
        let at = 2 * FRAME * frame;
        second.copy_within(at - 2 * FRAME..at, at);
    }
    assert_eq!(understood(&second), 47);
}

mod exclusive {
    use super::*;

    /// Each end sends 2.3 Mbit/s until the caller hangs up, and its goodbye may be lost.
    #[test]
    fn caller_of_a_flooded_link_learns_the_fix_and_can_call_again() {
        steady(|| {
            let Some(link) = ThinLink::lay(300_000, QUEUE, DELAY) else { return };
            let home = Folder::new();
            let id = taut(words("id")).with("TAUT_HOME", home.path()).run().well().out;
            let key = id.split_whitespace().last().unwrap().to_owned();
            let trust = taut(words("trust studio")).and([key]).with("TAUT_HOME", home.path());
            trust.run().well();
            let end = |line: &str, network| {
                let call = taut(words(line)).and(words(RINGS)).within(network);
                call.with("TAUT_HOME", home.path()).in_folder(home.path())
            };
            let line = "serve --listen 0.0.0.0 --input tone:440 --output null:";
            let serve =
                end(line, &link.right).listened_to().start().wait_for(messages::AWAITS_CALLS);
            let line =
                format!("call studio={} --input tone:300 --output null:", link.right.address);
            let call = end(&format!("{line} --format l24"), &link.left);
            let call = call.start().wait_for(messages::IN_A_CALL);
            let call = call.wait_for(messages::CALLS_FOR_FEWER_BITS);
            call.signal("-INT");
            call.end();
            let serve = serve.wait_for(messages::CALLER_SILENT);
            // Begins like the first, and adapts after the loss.
            let again = end(&line, &link.left).start().wait_for(&messages::coded("l24", "2.5ms"));
            let again = again.wait_for(messages::FORMAT_ADAPTS);
            let serve = serve.wait_for(messages::FORMAT_ADAPTS);
            again.signal("-INT");
            again.end().well();
            serve.signal("-TERM");
            serve.end().well();
        });
    }

    #[test]
    fn thin_link_call_is_intelligible_and_uses_more_when_it_can() {
        steady(|| {
            let Some(mut thin) = ThinCall::begin() else { return };
            thin.carries(RATE, 6_000);
            let lifted = thin.carries(20_000_000, 0);
            thin.call =
                thin.call.wait_for(&format!("{}l24", messages::AT_THE_LEVEL_OF_THE_NETWORK));
            let less = thin.carries(1_000_000, 6_000);
            let cut = thin.carries(RATE, 7_000);
            let ThinCall { link, serve, call, folder, begun, .. } = thin;
            let ended = now();
            call.enter("quit").end().well();
            serve.signal("-TERM");
            serve.end().well();
            let enough = (UNDERSTOOD * understood_by_codec_alone() as f64).ceil() as usize;
            for (name, begun) in RECORDINGS.into_iter().zip(begun) {
                let received = Sound::read(&folder.file(name));
                let phases = [(begun, less), (less, cut), (cut, ended)];
                let seconds = phases.into_iter().flat_map(|(from, to)| seconds(from, to));
                let counted = seconds.map(|Window { from, to }| {
                    let at = 2 * ((from - begun).as_millis_f64() * 48.0) as usize;
                    let count = understood(&received.samples[at..at + 2 * SECOND]);
                    (Window { from: from - UNDER_WAY, to }, count)
                });
                let counted: Vec<_> = counted.collect();
                let reported: Vec<_> = counted.iter().map(|(_, count)| count).collect();
                println!("{name}: frames heard in each second {reported:?}");
                each(counted, |count| {
                    assert!(count >= enough, "{name}: {count} of 50 frames, {enough} are enough");
                });
            }
            let settled = begun[1] + DISTURBED;
            let thin = |at: &LocalTime| *at > settled && *at < lifted || *at > cut + DISTURBED;
            let waits = link.waits().into_iter().filter(|(at, _)| thin(at));
            let mut waits: Vec<_> = waits.map(|(_, wait)| wait).collect();
            waits.sort_unstable();
            let wait = waits[waits.len() * 95 / 100];
            println!("{wait} in the queue (p95)");
            assert!(wait <= QUEUED, "{wait} in the queue (p95)");
        });
    }
}
