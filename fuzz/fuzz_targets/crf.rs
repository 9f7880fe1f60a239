//! Packets for who follows a clock of CRF: what is read, written again, reads the same, and whatever comes in whatever
//! order, what is told stays finite.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_proto::clock::CrfFollower;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::avtp::crf::CrfPacket;

/// A packet each: its length in bytes, milliseconds since the one before, itself.
fn packets(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let ([length, later], rest) = bytes.split_first_chunk::<2>()?;
        let (packet, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        Some((*later, packet))
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut follower = CrfFollower::new(Encapsulation::Ethernet, None, Rate::HZ_48000);
    let (mut now, mut came) = (LocalTime::from_nanos(1_000_000_000), 0);
    for (later, packet) in packets(bytes) {
        now += Span::from_millis(later.into());
        came += 1;
        follower.handle(packet, now);
        if let Ok(read) = CrfPacket::read(Encapsulation::Ethernet, packet) {
            let times: Vec<_> = read.times().collect();
            let again = read.head.write(&times);
            let again =
                CrfPacket::read(Encapsulation::Ethernet, &again).expect("what is written is read");
            assert_eq!(again, read);
        }
        let standing = follower.standing(now);
        let counted = standing.counters.received + standing.invalid.iter().sum::<u64>();
        assert_eq!(counted, came);
        if let Some(told) = standing.told {
            assert!(told.rate.as_f64().abs() <= 250_000.0, "{told:?}");
            assert!(told.uncertainty().as_f64() >= 0.0, "{told:?}");
        }
    }
});
