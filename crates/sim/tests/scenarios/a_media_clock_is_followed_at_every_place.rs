//! Under test: the follower of a clock that is told of (CRF), on every network: what its packets go through
//! there moves nothing, as their times are of the talker.

use fastrand::Rng;
use tautline_proto::crf_follower::CrfFollower;
use tautline_proto::packet::StreamId;
use tautline_proto::time::{LocalTime, Span, WallTime};
use tautline_proto::units::{Ppm, Rate};
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::avtp::crf::CrfHead;
use tautline_sim::clock::{ClockError, ClockEvent, SimClock, TrueTime};
use tautline_sim::link::Path;
use tautline_sim::preset::Preset;

/// From one packet to the next, nominally.
const PERIOD: Span = Span::from_millis(2);
/// When the media clock becomes another, in true time, and when the talker is silent.
const TURNS: TrueTime = TrueTime::from_nanos(60_000_000_000);
const SILENT: [TrueTime; 2] =
    [TrueTime::from_nanos(90_000_000_000), TrueTime::from_nanos(100_000_000_000)];

#[test]
fn a_media_clock_is_followed_at_every_place() {
    for (seed, preset) in (31..).zip(Preset::ALL) {
        let told = |what: &str| format!("{}, seed {seed}: {what}", preset.name());
        let mut rng = Rng::with_seed(seed);
        let ppm = 200.0 * rng.f64() - 100.0;
        let quartz = ClockError::quartz(LocalTime::ZERO, ppm);
        let turn = ClockEvent::Rate(Ppm::from_f64(ppm / 2.0));
        let mut card = SimClock::new(quartz, vec![(TURNS, turn)], seed);
        let mut path = Path::new(preset.path(), seed);
        let mut follower = CrfFollower::new(Encapsulation::Ethernet, None, Rate::HZ_48000);
        let (mut arriving, mut at) = (Vec::new(), TrueTime::ZERO);
        for number in 0..75_000_i64 {
            let reading = LocalTime::ZERO + PERIOD.times(number);
            at = card.when(reading, at);
            if (SILENT[0]..SILENT[1]).contains(&at) {
                continue;
            }
            let head = CrfHead {
                stream: StreamId(7),
                number: number as u8,
                restarts: false,
                uncertain: false,
                nominal: Rate::HZ_48000,
                interval: 96,
            };
            // The talker reads PTP, which is a microsecond off at most.
            let read = at.as_nanos() + rng.i64(-500..500);
            let packet = head.write(&[WallTime::from_unix_nanos(1_795_000_000_000_000_000 + read)]);
            path.carry(packet.len(), at, |arrives| {
                arriving.push((arrives, number, packet.clone()))
            });
        }
        arriving.sort_unstable_by_key(|(arrives, number, _)| (*arrives, *number));
        let mut checked = 0;
        for (arrives, number, packet) in arriving {
            let now = LocalTime::from_nanos(arrives.as_nanos());
            follower.handle(&packet, now);
            let since_turn = arrives.since(TURNS);
            let settling = (Span::ZERO..Span::from_secs(3)).contains(&since_turn);
            if number % 500 != 0 || number < 1500 || settling {
                continue;
            }
            let rate = follower.told(now).unwrap_or_else(|| panic!("{}", told("nothing is known")));
            let truth = if since_turn > Span::ZERO { ppm / 2.0 } else { ppm };
            // A quartz wanders by 0.01 ppm in the root of a second.
            let off = (rate.rate.as_f64() - truth).abs();
            assert!(off < 0.5, "{}", told(&format!("{off} ppm off at {arrives:?}")));
            checked += 1;
        }
        assert!(checked > 100, "{}", told(&checked.to_string()));
        let standing = follower.standing(LocalTime::from_nanos(150_000_000_000));
        // Where it became another, and nowhere else.
        assert!(standing.counters.jumps <= 1, "{}", told(&format!("{standing:?}")));
    }
}
