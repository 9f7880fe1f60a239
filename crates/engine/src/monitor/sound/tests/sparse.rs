//! Tests with one measured packet in 64.

use super::*;

/// Results of noise played `away` frames after the ledger's time, and the number of searched
/// packets.
fn found(away: i64) -> (Vec<FoundPacket>, usize) {
    let (sent, packets) = (noise(3, 96_000), 2000);
    let mut world = World::new(48_000);
    world.measurement.probes = Probes::OneIn64;
    let block = |number: usize| &sent[number * BLOCK..][..BLOCK];
    for number in 0..packets + AHEAD {
        if number < packets {
            let media = MediaTime::from_frames((number * BLOCK) as i64);
            world.tap.reported(media, 1, block(number));
            if number % 64 == 0 {
                world.expect(number * BLOCK);
            }
        }
        if let Some(played) = number.checked_sub(AHEAD) {
            world.plays((played * BLOCK) as i64 + away, block(played));
        }
    }
    (world.finish().0, packets.div_ceil(64))
}

#[test]
fn log_error_is_found_with_few_packets() {
    for millis in [0, 1, 7, 15, 25, 40, 55, -1, -7, -15, -25, -40, -55] {
        let (found, of) = found(48 * millis);
        assert!(found.len() + 3 >= of, "{} of {of} found {millis} ms away", found.len());
        for packet in &found {
            let off = packet.error - Span::from_millis(millis);
            assert!(off.abs() <= ROUNDING, "{} for {millis} ms", packet.error);
        }
    }
}
