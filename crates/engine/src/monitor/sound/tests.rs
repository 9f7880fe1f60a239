//! Tests of the measurement with given packets, ledger lines and card sound.

mod everywhere;
mod holes;
mod resampled;
mod sparse;

use super::*;
use core::f64::consts::TAU;
use tautline_proto::device::Listener;
use tautline_proto::ledger::{Origin, Outcome};
use tautline_proto::time::Frames;

const BLOCK: usize = 48;
const AHEAD: usize = 100;
/// More than the errors of logs in these tests, as no sound plays before its capture.
const LATENCY: Span = Span::from_millis(60);
const ROUNDING: Span = Span::from_nanos(2);

struct World {
    rate: Rate,
    hearing: Hearing,
    mouth: OutputTap,
    measurement: Measurement,
    tap: PacketTap,
    ear: CardEar,
    found: Vec<FoundPacket>,
}

fn at(rate: Rate, frame: i64) -> LocalTime {
    LocalTime::from_nanos(1_000_000_000) + rate.span_of(Frames::new(frame))
}

impl World {
    fn new(hertz: u32) -> Self {
        let rate = Rate::new(hertz).unwrap();
        let (hearing, ear, mouth) = hearing(rate, 1, Frames::new(48));
        let (measurement, tap) =
            measurement(rate, 0, 0, Span::from_millis(100), Span::from_millis(1));
        Self { rate, hearing, mouth, measurement, tap, ear, found: Vec::new() }
    }

    fn packet(&mut self, frame: usize, samples: &[f32]) {
        let media = MediaTime::from_frames(frame as i64);
        self.tap.reported(media, 1, samples);
        self.expect(frame);
    }

    fn expect(&mut self, frame: usize) {
        let dac = at(self.rate, frame as i64);
        let origin = Some(Origin { capture: dac - LATENCY, sender: None });
        let (media, arrival) = (MediaTime::from_frames(frame as i64), dac);
        let (read, taken, written) = (dac, dac, dac);
        let passage = PacketTrace {
            media,
            origin,
            reference: origin.map(|origin| origin.capture),
            arrival,
            read,
            taken,
            written,
            resample: Span::ZERO,
            dac,
            outcome: Outcome::Played,
        };
        self.measurement.expect(&passage, &self.hearing);
    }

    fn plays(&mut self, frame: i64, samples: &[f32]) {
        for (index, block) in samples.chunks(BLOCK).enumerate() {
            let meets = at(self.rate, frame + (index * BLOCK) as i64);
            self.ear.received(meets, meets, block);
            self.poll();
        }
    }

    fn poll(&mut self) {
        let Self { hearing, measurement, found, .. } = self;
        hearing.listen();
        measurement.listen();
        measurement.search(hearing, &mut |packet| found.push(packet));
        hearing.forget();
    }

    fn finish(mut self) -> (Vec<FoundPacket>, Measurement) {
        self.poll();
        let Self { hearing, measurement, found, .. } = &mut self;
        measurement.finish(hearing, &mut |packet| found.push(packet));
        (self.found, self.measurement)
    }

    fn run(mut self, sent: &[f32], from: i64, played: &[f32]) -> (Vec<FoundPacket>, Measurement) {
        let mut blocks = played.chunks(BLOCK).enumerate();
        let mut play = |world: &mut Self| {
            if let Some((index, block)) = blocks.next() {
                world.plays(from + (index * BLOCK) as i64, block);
            }
        };
        for (index, samples) in sent.chunks(BLOCK).enumerate() {
            self.packet(index * BLOCK, samples);
            if index >= AHEAD {
                play(&mut self);
            }
        }
        (0..AHEAD).for_each(|_| play(&mut self));
        self.finish()
    }
}

fn noise(seed: u32, frames: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B1) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 - 0.5
    };
    (0..frames).map(|_| next()).collect()
}

fn deep_noise(rate: u32, hertz: f64, frames: usize) -> Vec<f32> {
    let keep = 1.0 - TAU * hertz / f64::from(rate);
    let mut poles = [0.0; 4];
    let mut pass = |sample: f32| {
        poles.iter_mut().fold(f64::from(sample), |input, pole| {
            *pole += (1.0 - keep) * (input - *pole);
            *pole
        })
    };
    let deep: Vec<f64> = noise(7, frames).into_iter().map(&mut pass).collect();
    let loudest = deep.iter().fold(0.0_f64, |loudest, sample| loudest.max(sample.abs()));
    deep.into_iter().map(|sample| (sample / loudest * 0.5) as f32).collect()
}

fn tone(hertz: f64, frames: usize) -> Vec<f32> {
    (0..frames).map(|i| (0.3 * (TAU * hertz * i as f64 / 48_000.0).sin()) as f32).collect()
}

fn assert_found(found: &[FoundPacket], packets: usize, frames: i64) {
    assert!(found.len() >= packets, "{} of {packets} were found", found.len());
    let off = Rate::HZ_48000.span_of(Frames::new(frames));
    for packet in found {
        assert!((packet.error - off).abs() <= ROUNDING, "{packet:?}, not {off}");
        assert!((packet.measured - off - LATENCY).abs() <= ROUNDING, "{packet:?}");
    }
}

#[test]
fn sound_at_unity_is_placed_to_the_frame() {
    let sent = noise(1, 48 * 400);
    let (found, measurement) = World::new(48_000).run(&sent, 0, &sent);
    assert_found(&found, 370, 0);
    assert_eq!(found.len() as u64 + measurement.unfound.total(), 400);
}

#[test]
fn each_packet_is_found_once_and_in_order() {
    let sent = noise(1, 48 * 400);
    let (found, _) = World::new(48_000).run(&sent, 0, &sent);
    assert!(found.windows(2).all(|pair| pair[0].media < pair[1].media));
}

#[test]
fn volume_does_not_hide_the_sound() {
    let sent = noise(2, 48 * 400);
    for gain in [0.501_187_2, 0.001, 10.0] {
        let played: Vec<f32> = sent.iter().map(|s| s * gain).collect();
        assert_found(&World::new(48_000).run(&sent, 0, &played).0, 370, 0);
    }
}

#[test]
fn an_error_is_seen_to_the_frame() {
    let sent = noise(3, 48 * 400);
    for frames in [1, -1, 48, -48, 2_000, -2_000] {
        assert_found(&World::new(48_000).run(&sent, frames, &sent).0, 320, frames);
    }
}

#[test]
fn silence_gives_no_position() {
    let (found, measurement) = World::new(48_000).run(&[0.0; 48 * 400], 0, &[0.0; 48 * 400]);
    assert!(found.is_empty());
    assert_eq!(measurement.unfound.total(), 400);
}

#[test]
fn tone_gives_no_false_position() {
    for hertz in [50.0, 440.0, 441.0, 480.0, 1_000.0, 997.0] {
        let sent = tone(hertz, 48 * 400);
        for frames in [0, 1, 48, 960, -1_200] {
            let (found, _) = World::new(48_000).run(&sent, frames, &sent);
            assert_found(&found, 0, frames);
        }
    }
}

#[test]
fn mix_is_not_reported() {
    let (sent, other) = (noise(4, 48 * 400), noise(5, 48 * 400));
    let mix: Vec<f32> = sent.iter().zip(&other).map(|(a, b)| a + 0.1 * b).collect();
    let (found, measurement) = World::new(48_000).run(&sent, 0, &mix);
    assert_eq!(found.len(), 0);
    assert_eq!(measurement.unfound.total(), 400);
}

#[test]
fn search_everywhere_backs_off_after_failures() {
    let (sent, other) = (noise(4, 48 * 2_000), noise(5, 48 * 2_000));
    let (_, measurement) = World::new(48_000).run(&sent, 0, &other);
    let tried = &measurement.search.tried;
    assert!(tried.windows >= 48 * 2_000 / WINDOW as u64 - 3, "{tried:?}");
    assert!(tried.everywhere <= tried.windows / 8, "{tried:?}");
    assert!(tried.between <= tried.windows / 5, "{tried:?}");
}

#[test]
fn the_sum_of_several_streams_is_not_searched() {
    let (sent, other) = (noise(4, 48 * 2_000), noise(5, 48 * 2_000));
    let mix: Vec<f32> = sent.iter().zip(&other).map(|(a, b)| a + b).collect();
    let mut world = World::new(48_000);
    world.mouth.emit(at(world.rate, 0), Voices::Several);
    world.poll();
    let (found, measurement) = world.run(&sent, 0, &mix);
    assert_eq!((found.len(), measurement.unfound.total()), (0, 2_000));
    assert_eq!(measurement.search.tried.windows, 0);
}

#[test]
fn a_stream_is_measured_where_it_is_alone_in_a_mix() {
    let sent = noise(4, 48 * 2_000);
    let mut world = World::new(48_000);
    let rate = world.rate;
    for (frame, voices) in
        [(0, Voices::One(1)), (24_000, Voices::Several), (48_000, Voices::One(0))]
    {
        world.mouth.emit(at(rate, frame), voices);
    }
    world.poll();
    let (found, measurement) = world.run(&sent, 0, &sent);
    assert_found(&found, 950, 0);
    assert!(found.iter().all(|packet| packet.media >= MediaTime::from_frames(48_000)));
    assert!(measurement.search.tried.windows <= 48 * 1_000 / WINDOW as u64);
}

#[test]
fn audible_stream_is_found_by_its_sound() {
    let (sound, silence) = ([0.0, 0.5, 0.0], [0.0, 1e-5, 0.0]);
    assert_eq!(Voices::Nobody.with(0, &silence), Voices::Nobody);
    assert_eq!(Voices::Nobody.with(0, &silence).with(1, &sound), Voices::One(1));
    assert_eq!(Voices::One(1).with(2, &silence), Voices::One(1));
    assert_eq!(Voices::One(1).with(2, &sound), Voices::Several);
    assert_eq!(Voices::Several.with(3, &silence), Voices::Several);
}

#[test]
fn returned_sound_is_found_again() {
    let (sent, other) = (noise(4, 48 * 4_000), noise(5, 48 * 2_000));
    let mut played = sent.clone();
    played[..other.len()].copy_from_slice(&other);
    let (found, _) = World::new(48_000).run(&sent, 500, &played);
    assert_found(&found, 1_500, 500);
}

#[test]
fn a_slip_of_one_frame_is_followed() {
    let sent = noise(6, 48 * 400);
    let mut played = sent.clone();
    played.remove(9_600);
    let (found, _) = World::new(48_000).run(&sent, 0, &played);
    let (before, after): (Vec<FoundPacket>, Vec<FoundPacket>) =
        found.iter().partition(|packet| packet.media < MediaTime::from_frames(9_600));
    assert_found(&before, 170, 0);
    assert_found(&after, 150, -1);
}

#[test]
fn a_break_in_the_run_is_survived() {
    let sent = noise(7, 48 * 400);
    let mut world = World::new(48_000);
    for (index, samples) in sent.chunks(BLOCK).enumerate() {
        world.packet(index * BLOCK, samples);
    }
    world.plays(0, &sent[..9_600]);
    world.plays(9_700, &sent[9_700..]);
    assert_found(&world.finish().0, 320, 0);
}

#[test]
fn an_error_that_a_break_brings_is_seen() {
    let sent = noise(7, 48 * 400);
    let mut world = World::new(48_000);
    for (index, samples) in sent.chunks(BLOCK).enumerate() {
        world.packet(index * BLOCK, samples);
    }
    world.plays(0, &sent[..9_600]);
    world.plays(9_700, &sent[9_600..]);
    let (before, after): (Vec<FoundPacket>, Vec<FoundPacket>) =
        world.finish().0.iter().partition(|packet| packet.media < MediaTime::from_frames(9_600));
    assert_found(&before, 150, 0);
    assert_found(&after, 150, 100);
}

#[test]
fn deep_sound_is_placed_to_the_frame() {
    let sent = deep_noise(48_000, 50.0, 48 * 400);
    for frames in [0, 1, 48] {
        assert_found(&World::new(48_000).run(&sent, frames, &sent).0, 300, frames);
    }
}

#[test]
fn deep_sound_that_matches_its_neighbours_too_is_placed_best() {
    let sent = deep_noise(192_000, 5.0, 48 * 1_600);
    let (found, _) = World::new(192_000).run(&sent, 3, &sent);
    assert!(found.len() >= 700, "{}", found.len());
    let off = Rate::new(192_000).unwrap().span_of(Frames::new(3));
    assert!(found.iter().all(|packet| (packet.error - off).abs() <= ROUNDING));
}

#[test]
fn reordered_packets_still_repair_others() {
    let sent = noise(8, 48 * 400);
    let mut world = World::new(48_000);
    for pair in 0..200 {
        for packet in [2 * pair + 1, 2 * pair] {
            let samples = &sent[packet * BLOCK..(packet + 1) * BLOCK];
            world.tap.reported(MediaTime::from_frames((packet * BLOCK) as i64), 1, samples);
        }
    }
    (0..400).for_each(|packet| world.expect(packet * BLOCK));
    world.plays(0, &sent);
    assert_found(&world.finish().0, 370, 0);
}

#[test]
fn no_false_match_near_a_missing_packet() {
    let sent = noise(9, 48 * 400);
    let mut world = World::new(48_000);
    let mut played = sent.clone();
    for (index, samples) in sent.chunks(BLOCK).enumerate() {
        if index % 100 == 50 {
            played[index * BLOCK..(index + 1) * BLOCK].fill(0.0);
        } else {
            world.packet(index * BLOCK, samples);
        }
    }
    world.plays(0, &played);
    assert_found(&world.finish().0, 280, 0);
}

#[test]
fn another_stream_with_an_earlier_timeline_is_found_too() {
    let (first, second) = (noise(10, 48 * 400), noise(11, 48 * 400));
    let mut world = World::new(48_000);
    let far = 10_000_000;
    for (index, samples) in first.chunks(BLOCK).enumerate() {
        world.tap.reported(MediaTime::from_frames((far + index * BLOCK) as i64), 1, samples);
    }
    world.poll();
    assert_found(&world.run(&second, 0, &second).0, 370, 0);
}

#[test]
fn log_line_after_its_sound_is_still_matched() {
    let sent = noise(12, 48 * 400);
    let mut world = World::new(48_000);
    for (index, samples) in sent.chunks(BLOCK).enumerate() {
        let frame = (index * BLOCK) as i64;
        world.tap.reported(MediaTime::from_frames(frame), 1, samples);
    }
    for (index, block) in sent.chunks(BLOCK).enumerate() {
        let meets = at(world.rate, (index * BLOCK) as i64 - 1_920);
        world.ear.received(meets, meets, block);
        world.poll();
        if let Some(received) = index.checked_sub(40) {
            world.expect(received * BLOCK);
        }
    }
    assert_found(&world.finish().0, 300, -1_920);
}

#[test]
fn where_no_card_listens_nothing_piles_up() {
    let mut world = World::new(48_000);
    for packet in 0..100_000 {
        world.expect(packet * BLOCK);
        world.poll();
    }
    assert!(world.measurement.expected.len() <= 2_001);
    drop(world.ear);
    assert!(world.hearing.is_deaf());
}

#[test]
fn a_card_that_is_off_by_500_ppm_is_followed() {
    let sent = noise(13, 48 * 1_000);
    let mut world = World::new(48_000);
    let mut packets = sent.chunks(BLOCK).enumerate();
    for (index, block) in sent.chunks(BLOCK).enumerate() {
        let ahead = if index == 0 { AHEAD } else { 1 };
        for (index, samples) in packets.by_ref().take(ahead) {
            world.packet(index * BLOCK, samples);
        }
        let drift = Span::from_micros(index as i64).divided(2);
        let meets = at(world.rate, (index * BLOCK) as i64) + drift;
        world.ear.received(meets, meets, block);
        world.poll();
    }
    let (found, _) = world.finish();
    assert!(found.len() >= 900);
    for packet in found {
        let drift = Span::from_micros(packet.media.as_frames() / BLOCK as i64).divided(2);
        assert!((packet.error - drift).abs() <= Span::from_nanos(500), "{packet:?} after {drift}");
    }
}

#[test]
fn at_192_khz_sound_is_placed_to_the_frame() {
    let sent = noise(14, 48 * 1_600);
    let (found, _) = World::new(192_000).run(&sent, 0, &sent);
    assert!(found.len() >= 1_500);
    assert!(found.iter().all(|packet| packet.error.abs() <= ROUNDING));
}

#[test]
fn reason_of_an_unfound_packet_is_reported() {
    let sent = noise(15, 48 * 400);
    let (silence, other) = (vec![0.0; sent.len()], noise(16, sent.len()));
    let tone = tone(1_000.0, sent.len());
    for (sent, played, silent, repeats, unlike, unreported) in [
        (&sent, &silence[..], 1, 0, 0, 0),
        (&tone, &tone[..], 0, 1, 0, 0),
        (&sent, &other[..], 0, 0, 1, 0),
        (&sent, &[], 0, 0, 0, 1),
    ] {
        let (found, measurement) = World::new(48_000).run(sent, 0, played);
        let unfound = measurement.unfound;
        assert_eq!((found.len(), unfound.total()), (0, 400), "{unfound:?}");
        let reported = unfound.0;
        let wanted = [silent, repeats, unlike, unreported].map(|wanted| 370 * wanted);
        assert!(
            reported.iter().zip(wanted).all(|(reported, minimum)| *reported >= minimum),
            "{unfound:?}"
        );
    }
}

#[test]
fn sound_taken_late_counts_from_its_taking() {
    let sent = noise(17, 48 * 1_200);
    let mut world = World::new(48_000);
    let packets: Vec<&[f32]> = sent.chunks(BLOCK).collect();
    for (index, samples) in packets.iter().take(AHEAD).enumerate() {
        world.packet(index * BLOCK, samples);
    }
    let (from, to) = (at(world.rate, 48 * 300), at(world.rate, 48 * 900));
    for (index, block) in packets.iter().enumerate() {
        if let Some(samples) = packets.get(index + AHEAD) {
            world.packet((index + AHEAD) * BLOCK, samples);
        }
        let due = at(world.rate, (index * BLOCK) as i64);
        let taken = if due < from { due } else { due.max(to) };
        world.ear.received(due, taken, block);
        world.poll();
    }
    let (found, _) = world.finish();
    let maximum = found.iter().map(|packet| packet.measured).max();
    assert!(
        maximum.is_some_and(|maximum| (maximum - LATENCY - (to - from)).abs() <= ROUNDING),
        "{maximum:?}"
    );
    let late = found.iter().filter(|packet| packet.error > ROUNDING).count();
    assert!((599..=600).contains(&late), "{late}");
}
