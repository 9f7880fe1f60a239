use tautline_proto::crf_follower::CrfFollower;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::avtp::crf::CrfPacket;

/// Each packet follows its length and the milliseconds since the last one.
fn packets(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let ([length, later], rest) = bytes.split_first_chunk::<2>()?;
        let (packet, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        Some((*later, packet))
    })
}

/// A CRF packet survives a round trip and is counted once; the rate is finite.
pub fn crf(bytes: &[u8]) {
    let mut follower = CrfFollower::new(Encapsulation::Ethernet, None, Rate::HZ_48000);
    let (mut now, mut handled) = (LocalTime::from_nanos(1_000_000_000), 0);
    for (later, packet) in packets(bytes) {
        now += Span::from_millis(later.into());
        handled += 1;
        follower.handle(packet, now);
        if let Ok(read) = CrfPacket::read(Encapsulation::Ethernet, packet) {
            let times: Vec<_> = read.times().collect();
            let again = read.head.write(&times);
            let again =
                CrfPacket::read(Encapsulation::Ethernet, &again).expect("a written packet parses");
            assert_eq!(again, read);
        }
        let standing = follower.standing(now);
        let counted = standing.counters.received + standing.invalid.iter().sum::<u64>();
        assert_eq!(counted, handled);
        if let Some(clock) = standing.reported {
            assert!(clock.rate.as_f64().abs() <= 250_000.0, "{clock:?}");
            assert!(clock.uncertainty().as_f64() >= 0.0, "{clock:?}");
        }
    }
}
