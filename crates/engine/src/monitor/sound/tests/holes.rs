//! Tests with short holes, as from a host that stalls for a millisecond.

use super::resampled::resampled;
use super::*;

const APART: usize = 30 * BLOCK;

const fn is_hole(index: usize) -> bool {
    index % (APART / BLOCK) == 7
}

fn holed(sound: &[f32], hole: &[f32]) -> Vec<f32> {
    let block = |(index, block)| if is_hole(index) { hole } else { block };
    sound.chunks(BLOCK).enumerate().flat_map(block).copied().collect()
}

fn assert_max_found((found, measurement): (Vec<FoundPacket>, Measurement), packets: usize) {
    assert!(found.len() * 10 >= packets * 8, "{} of {packets} were found", found.len());
    assert!(found.windows(2).all(|pair| pair[0].media < pair[1].media));
    assert_eq!(found.len() as u64 + measurement.unfound.total(), packets as u64);
}

#[test]
fn a_card_that_starves_now_and_then_is_measured_between() {
    let sent = noise(18, 48 * 1_600);
    let received = World::new(48_000).run(&sent, 0, &holed(&sent, &[0.0; BLOCK]));
    assert!(received.0.iter().all(|packet| packet.error.abs() <= ROUNDING));
    assert_max_found(received, 1_600);
}

#[test]
fn sound_between_lost_frames_is_measured() {
    let sent = noise(19, 48 * 1_600);
    let played = holed(&sent, &noise(20, BLOCK));
    let mut world = World::new(48_000);
    let mut blocks = played.chunks(BLOCK).enumerate();
    let mut packets = 0;
    for (index, samples) in sent.chunks(BLOCK).enumerate() {
        if !is_hole(index) {
            world.packet(index * BLOCK, samples);
            packets += 1;
        }
        for (index, block) in blocks.by_ref().take(usize::from(index >= AHEAD)) {
            world.plays((index * BLOCK) as i64, block);
        }
    }
    blocks.for_each(|(index, block)| world.plays((index * BLOCK) as i64, block));
    let received = world.finish();
    assert!(received.0.iter().all(|packet| packet.error.abs() <= ROUNDING));
    assert_max_found(received, packets);
}

/// Lost packets are concealed by the same tone, so that a period earlier or later fits better.
#[test]
fn tone_between_lost_packets_gives_no_false_position() {
    const PACKET: usize = 120;
    let tones = [440.0, 441.0, 480.0, 997.0, 1_000.0].into_iter().cycle().take(15);
    let mut measured = 0;
    // Of noise from -0.5 to 0.5: a tenth of the packets is lost, then a twenty-fifth.
    let lossy = |lost| (1..).zip(tones.clone()).map(move |(seed, hertz)| (lost, seed, hertz));
    for (lost, seed, hertz) in [-0.4, -0.46].into_iter().flat_map(lossy) {
        let sent = tone(hertz, PACKET * 400);
        let luck = noise(seed, 400);
        let mut world = World::new(48_000);
        for (index, samples) in sent.chunks(PACKET).enumerate() {
            if luck[index] > lost {
                world.packet(index * PACKET, samples);
            }
            if let Some(early) = index.checked_sub(8) {
                world.plays((early * PACKET) as i64, &sent[early * PACKET..][..PACKET]);
            }
        }
        let (found, _) = world.finish();
        let wrong = found.iter().find(|packet| packet.error.abs() > ROUNDING);
        assert_eq!(wrong, None, "{hertz} Hz, seed {seed}, {lost}");
        measured += found.len();
    }
    assert!(measured > 0, "no tone is measured");
}

#[test]
fn resampled_sound_is_measured_between_holes() {
    let sent = deep_noise(48_000, 6_000.0, 48 * 1_600);
    let played = resampled(&sent, 0.5, 20e-6);
    let received = World::new(48_000).run(&sent, 0, &holed(&played, &[0.0; BLOCK]));
    let frame = Rate::HZ_48000.span_of(Frames::new(1));
    assert!(received.0.iter().all(|packet| packet.error.abs() <= frame.times(3)));
    assert_max_found(received, 1_600);
}

#[test]
fn overlapping_windows_use_only_cheap_searches() {
    let (sent, other) = (noise(21, 48 * 2_000), noise(22, 48 * 2_000));
    let (_, measurement) = World::new(48_000).run(&sent, 0, &other);
    assert!(measurement.search.tried.windows <= 48 * 2_000 / WINDOW as u64);
}
