//! A card: both ends of a virtual cable in the lab guest (`scripts/lab-test`). Elsewhere prints
//! SKIPPED.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use tautline_audio::{DeviceSpec, Extras, Offers, list, open, settle};
use tautline_dsp::card::{self, CardFormat};
use tautline_io::clock;
use tautline_proto::device::{Cycle, Direction, Directions, Ended, Flow, Process, Settings, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_trial::{Lack, skipped};

/// Longer than the card's steps of 4 ms.
const SETTINGS: Settings = Settings {
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    period: Frames::new(480),
    periods: 4,
};
const PLAYED: usize = 60;

fn no_card() -> bool {
    let absent = !Path::new("/proc/asound/Loopback").exists();
    if absent {
        skipped(Lack::Device, "there is no loopback card; scripts/lab-test has one");
    }
    absent
}

fn end(device: u32, cable: u32, format: CardFormat) -> DeviceSpec {
    let name = format!("alsa:hw:Loopback,{device},{cable}?format={format}");
    name.parse().expect("a device")
}

fn extras() -> Extras {
    Extras::default()
}

fn pattern() -> impl Iterator<Item = f32> {
    (0_i32..)
        .map(|n| (n.wrapping_mul(25_717) as i16, n))
        .map(|(coarse, n)| f32::from(coarse) / 32_768.0 + (n % 256 - 128) as f32 / 8_388_608.0)
}

struct Plays {
    sound: Box<dyn Iterator<Item = f32> + Send>,
    left: usize,
}

impl Process for Plays {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        cycle.playback.samples.fill_with(|| self.sound.next().unwrap_or_default());
        self.left -= 1;
        if self.left == 0 { Flow::Finished } else { Flow::Continue }
    }
}

struct Block {
    samples: Vec<f32>,
    meets: LocalTime,
    unsure: Span,
    xruns: u32,
}

struct Hears {
    blocks: Sender<Block>,
    /// Player done; then `left` blocks may follow.
    done: Arc<AtomicBool>,
    left: usize,
}

impl Process for Hears {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let (side, xruns) = (&cycle.capture, cycle.xruns);
        let (samples, meets, unsure) = (side.samples.to_vec(), side.meets, side.uncertainty);
        let _ = self.blocks.send(Block { samples, meets, unsure, xruns });
        self.left -= usize::from(self.done.load(Ordering::Acquire));
        if self.left == 0 { Flow::Finished } else { Flow::Continue }
    }
}

fn carry(cable: u32, format: CardFormat) -> Vec<Block> {
    let (blocks, received) = mpsc::channel();
    let done = Arc::<AtomicBool>::default();
    let handles = Hears { blocks, done: Arc::clone(&done), left: 10 };
    let mut ear =
        open(&end(1, cable, format), Direction::Capture, SETTINGS, extras()).expect("an end");
    let ear = thread::spawn(move || ear.device.run(Box::new(handles), &Stop::default()).1);
    let first = received.recv().expect("a block");
    let plays = Plays { sound: Box::new(pattern()), left: PLAYED };
    let mut player =
        open(&end(0, cable, format), Direction::Playback, SETTINGS, extras()).expect("an end");
    let (_, ended) = player.device.run(Box::new(plays), &Stop::default());
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    done.store(true, Ordering::Release);
    let ended = ear.join().expect("a thread");
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    core::iter::once(first).chain(received).collect()
}

fn coded(format: CardFormat, samples: usize) -> Vec<f32> {
    let sound: Vec<f32> = pattern().take(samples).collect();
    let mut bytes = vec![0; samples * format.bytes()];
    card::encode(format, &sound, &mut bytes);
    let mut coded = vec![0.0; samples];
    card::decode(format, &bytes, &mut coded);
    coded
}

#[test]
fn loopback_card_is_bit_exact() {
    if no_card() {
        return;
    }
    // Those supported by snd-aloop.
    for (cable, format) in [(4, CardFormat::S16), (5, CardFormat::S32), (6, CardFormat::F32)] {
        let blocks = carry(cable, format);
        assert_eq!(blocks.iter().map(|block| block.xruns).sum::<u32>(), 0, "{format}");
        let received: Vec<f32> = blocks.into_iter().flat_map(|block| block.samples).collect();
        let played = coded(format, PLAYED * 480 * 2);
        let begin =
            received.windows(64).position(|some| *some == played[..64]).expect("the beginning");
        let sound = &received[begin..];
        let whole = played.len().min(sound.len()) - 4 * 480 * 2;
        assert!(whole > 50 * 480 * 2 && sound[..whole] == played[..whole], "{format}");
    }
}

#[test]
fn card_reports_consistent_conversion_times() {
    if no_card() {
        return;
    }
    let blocks = carry(3, CardFormat::S16);
    let period = SETTINGS.rate.span_of(SETTINGS.period);
    for pair in blocks.windows(2) {
        let off = (pair[1].meets - pair[0].meets - period).abs();
        assert!(off <= pair[0].unsure + pair[1].unsure, "{off}");
    }
    // Steps of 4 ms; a line through the readings is more precise.
    let last = blocks.last().expect("blocks").unsure;
    assert!(last < Span::from_millis(1), "{last}");
}

struct Echo {
    held: Sender<Span>,
}

impl Process for Echo {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        cycle.playback.samples.copy_from_slice(cycle.capture.samples);
        let _ = self.held.send(cycle.playback.meets - cycle.capture.meets);
        Flow::Continue
    }
}

struct Both {
    played: LocalTime,
    received: LocalTime,
    samples: Vec<f32>,
    unsure: Span,
    xruns: u32,
}

struct PlaysAndHears {
    sound: Box<dyn Iterator<Item = f32> + Send>,
    cycles: Sender<Both>,
    left: usize,
}

impl Process for PlaysAndHears {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        cycle.playback.samples.fill_with(|| self.sound.next().unwrap_or_default());
        let _ = self.cycles.send(Both {
            played: cycle.playback.meets,
            received: cycle.capture.meets,
            samples: cycle.capture.samples.to_vec(),
            unsure: cycle.capture.uncertainty + cycle.playback.uncertainty,
            xruns: cycle.xruns,
        });
        self.left -= 1;
        if self.left == 0 { Flow::Finished } else { Flow::Continue }
    }
}

#[test]
fn duplex_card_captures_the_echo_after_its_delay() {
    if no_card() {
        return;
    }
    let (stop, format) = (Stop::default(), CardFormat::S16);
    let (held, holds) = mpsc::channel();
    let mut echo = open(&end(1, 7, format), Directions::Both, SETTINGS, extras()).expect("an end");
    let requested = stop.clone();
    let echo = thread::spawn(move || echo.device.run(Box::new(Echo { held }), &requested).1);
    holds.recv().expect("a cycle");
    let (cycles, reported) = mpsc::channel();
    let process = PlaysAndHears { sound: Box::new(pattern()), cycles, left: 2 * PLAYED };
    let mut card = open(&end(0, 7, format), Directions::Both, SETTINGS, extras()).expect("an end");
    let (process, ended) = card.device.run(Box::new(process), &Stop::default());
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    drop(process);
    stop.request();
    let ended = echo.join().expect("a thread");
    assert!(matches!(ended, Ended::Stopped), "{ended:?}");
    let cycles: Vec<Both> = reported.iter().collect();
    assert_eq!(cycles.iter().map(|cycle| cycle.xruns).sum::<u32>(), 0);
    let received: Vec<f32> =
        cycles.iter().flat_map(|cycle| cycle.samples.iter().copied()).collect();
    let played = coded(format, 2 * PLAYED * 480 * 2);
    let begin = received.windows(64).position(|some| *some == played[..64]).expect("the beginning");
    let sound = &received[begin..];
    assert!(sound.len() > PLAYED * 480 * 2 && *sound == played[..sound.len()], "bit for bit");
    let late = (begin / 2) as i64;
    let (cycle, frame) = (late as usize / 480, late % 480);
    let last = cycles.len() - 1;
    let played = cycles[last - cycle - 1].played;
    let received = cycles[last - 1].received + SETTINGS.rate.span_of(Frames::new(frame));
    let held = holds.iter().last().expect("cycles");
    let off = (received - played - held).abs();
    assert!(off <= cycles[last].unsure + cycles[last].unsure, "{off}, {}", received - played);
}

struct Before {
    xruns: u32,
    skipped: Frames,
}

/// Stalls once for longer than any buffer.
struct Stands {
    direction: Direction,
    blocks: Sender<Before>,
    block: usize,
}

const STANDS: (usize, usize) = (20, 40);
const STOOD: Span = Span::from_millis(200);

impl Process for Stands {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let side = match self.direction {
            Direction::Capture => &cycle.capture,
            Direction::Playback => &cycle.playback,
        };
        let _ = self.blocks.send(Before { xruns: cycle.xruns, skipped: side.skipped });
        if self.block == STANDS.0 {
            clock::sleep_until(clock::now() + STOOD);
        }
        self.block += 1;
        if self.block == STANDS.1 { Flow::Finished } else { Flow::Continue }
    }
}

#[test]
fn xrun_is_reported_with_the_next_block_and_its_gap() {
    if no_card() {
        return;
    }
    for (device, direction) in [(1, Direction::Capture), (0, Direction::Playback)] {
        let (blocks, reported) = mpsc::channel();
        let stands = Stands { direction, blocks, block: 0 };
        let spec = end(device, 1, CardFormat::S16);
        let mut card = open(&spec, direction, SETTINGS, extras()).expect("an end");
        let (process, ended) = card.device.run(Box::new(stands), &Stop::default());
        drop(process);
        assert!(matches!(ended, Ended::Finished), "{ended:?}");
        for (block, before) in reported.iter().enumerate() {
            let Before { xruns, skipped } = before;
            if block == STANDS.0 + 1 {
                // The previous block is one period of the stall. In playback the buffer is played;
                // then a buffer of silence begins.
                let stood = SETTINGS.rate.frames_nearest(STOOD).count();
                let near = stood - 4 * 480..=stood + 2 * 480;
                assert!(xruns == 1 && near.contains(&skipped.count()), "{xruns}, {skipped}");
            } else {
                assert_eq!((xruns, skipped), (0, Frames::ZERO), "{direction:?}: block {block}");
            }
        }
    }
}

#[test]
fn a_card_that_is_open_is_refused_to_the_next() {
    if no_card() {
        return;
    }
    let spec = end(0, 2, CardFormat::S16);
    let open = open(&spec, Direction::Playback, SETTINGS, extras()).expect("an end");
    let error = settle(&spec, Direction::Playback, SETTINGS).expect_err("it is taken");
    assert!(error.answer.contains("in use by"), "{error}");
    drop(open);
    settle(&spec, Direction::Playback, SETTINGS).expect("it is free again");
}

#[test]
fn list_has_every_card_with_its_formats() {
    let cards = fs::read_to_string("/proc/asound/cards").unwrap_or_default();
    let listed = list();
    let ours: Vec<_> = listed.iter().filter(|device| device.name.starts_with("alsa:")).collect();
    for card in cards.lines().filter_map(|line| line.split(['[', ']']).nth(1)) {
        let of_card = |name: &str| name.split([':', ',', '=']).any(|part| part == card.trim());
        assert!(ours.iter().any(|device| of_card(&device.name)), "{cards}{ours:?}");
    }
    for way in ours.iter().flat_map(|device| &device.sides) {
        match &way.offers {
            Offers::These { formats, rates, .. } => {
                assert!(!formats.is_empty() && !rates.is_empty())
            }
            Offers::Unknown(reason) => assert!(!reason.is_empty()),
            Offers::Anything => panic!("no card takes anything"),
        }
    }
}
