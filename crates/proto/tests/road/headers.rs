//! Under test: what headers of RTP may hold that is no sound.

use crate::world::{Scene, World};

#[test]
fn contributing_sources_and_padding_are_no_sound() {
    let mut world = World::new(Scene::default());
    for _ in 0..600 {
        world.period(|mut datagram| {
            datagram.bytes[0] |= 0x20 | 2; // padding, two sources
            let sources = [0xAA; 8];
            datagram.bytes.splice(12..12, sources);
            datagram.bytes.extend([0xBB, 0xBB, 0xBB, 4]);
            vec![datagram]
        });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.invalid, counters.missing_frames, counters.lost), (0, 0, 0));
    assert!(world.heard_whole_at_the_end());
}
