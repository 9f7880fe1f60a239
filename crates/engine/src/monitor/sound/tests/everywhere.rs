//! Tests that a joint search of many places finds the same as one by one.

use super::super::between::WINDOW;
use super::super::recent::RecentFrames;
use super::super::window::{SoundWindow, longest_run};
use super::*;

const REACH: i64 = 700;
/// More than the ring holds, so that its end may be anywhere in the range.
const SOUND: usize = 9_000;

fn sound(kind: usize, random: &mut u32) -> Vec<f32> {
    let mut noise = || {
        *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*random >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let again: Vec<f32> = (0..300).map(|_| noise()).collect();
    let tone = |at: usize| (TAU * 441.0 * at as f64 / 48_000.0).sin() as f32;
    let sample = |at: usize| match kind {
        0 => noise(),
        1 => tone(at),
        2 => again[at % 300],
        _ => tone(at) * if (at / 500).is_multiple_of(2) { 1.0 } else { 0.25 },
    };
    (0..SOUND).map(sample).collect()
}

#[test]
fn joint_search_finds_the_same_places_as_single_search() {
    let mut random = 17_u32;
    let mut found = 0;
    for round in 0..48 {
        let sound = sound(round % 4, &mut random);
        let reach = Frames::new(REACH);
        let room = Frames::new(2 * REACH) + Frames::from_len(2 * WINDOW);
        let mut brought = RecentFrames::new(room, longest_run(reach));
        let begin = MediaTime::from_frames(1_000_003 * round as i64);
        for (number, packet) in sound.chunks(BLOCK).enumerate() {
            if round % 8 < 4 || number % 40 != 11 {
                brought.write(begin + Frames::from_len(number * BLOCK), packet);
            }
        }
        for from in [SOUND - 2 * WINDOW, SOUND - WINDOW - 701, SOUND - WINDOW - 33] {
            let gain = [1.0, 0.5, -1.0][round % 3];
            let window: Vec<f32> = sound[from..][..WINDOW].iter().map(|s| s * gain).collect();
            let Some(window) = SoundWindow::new(&window, &brought) else { continue };
            let away = [0, REACH, -REACH, 3 - REACH, 690][round % 5];
            let middle = begin + Frames::from_len(from) + Frames::new(away);
            let together: Vec<_> =
                window.likely(middle, REACH).filter(|place| window.matches(*place)).collect();
            let places = (-REACH..=REACH).map(|away| middle + Frames::new(away));
            let one_by_one: Vec<_> = places.filter(|place| window.matches(*place)).collect();
            assert_eq!(together, one_by_one, "round {round}, from {from}");
            found += together.len();
        }
    }
    assert!(found > 50, "{found} places were found at all");
}
