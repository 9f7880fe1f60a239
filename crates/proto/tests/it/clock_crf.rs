//! Following a media clock via CRF, despite damage.

use proptest::prelude::*;
use tautline_proto::clock::MediaClock;
use tautline_proto::crf_follower::{CrfFollower, CrfState};
use tautline_proto::packet::StreamId;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span, WallTime};
use tautline_proto::units::Rate;
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::avtp::crf::{CrfHead, CrfInvalid};

const STREAM: StreamId = StreamId(0x0222_3344_5566_0007);
/// TAI of the first sample.
const EPOCH: i64 = 1_795_000_000_000_000_000;
/// Local time of the first sample.
const START: LocalTime = LocalTime::from_nanos(5_000_000_000);

struct Talker {
    head: CrfHead,
    times: i64,
    ppm: f64,
    packets: i64,
    next: f64,
    /// Step of the talker's clock, in nanoseconds.
    set: i64,
    follower: CrfFollower,
}

impl Talker {
    fn of(rate: Rate, interval: u16, times: i64, ppm: f64) -> Self {
        let head = CrfHead {
            stream: STREAM,
            number: 250,
            restarts: false,
            uncertain: false,
            nominal: rate,
            interval,
        };
        let follower = CrfFollower::new(Encapsulation::Ethernet, Some(STREAM), rate);
        Self { head, times, ppm, packets: 0, next: 0.0, set: 0, follower }
    }

    /// Milan: 500 packets per second.
    fn usual(ppm: f64) -> Self {
        Self::of(Rate::HZ_48000, 96, 1, ppm)
    }

    fn interval(&self) -> f64 {
        let nominal = f64::from(self.head.interval) / f64::from(self.head.nominal.hertz()) * 1e9;
        nominal / (1.0 + self.ppm * 1e-6)
    }

    /// Local time of the next packet, without delay.
    fn now(&self) -> LocalTime {
        START + Span::from_nanos(self.next as i64)
    }

    fn packet(&mut self) -> Vec<u8> {
        let time = |at: i64| EPOCH + self.set + (self.next + at as f64 * self.interval()) as i64;
        let times: Vec<_> = (0..self.times).map(time).map(WallTime::from_unix_nanos).collect();
        let bytes = self.head.write(&times);
        self.next += self.interval() * self.times as f64;
        self.packets += 1;
        self.head.number = self.head.number.wrapping_add(1);
        bytes
    }

    fn speak(&mut self, packets: i64) {
        for _ in 0..packets {
            let packet = self.packet();
            self.follower.handle(&packet, self.now());
        }
    }

    fn lose(&mut self, packets: i64) {
        (0..packets).for_each(|_| drop(self.packet()));
    }

    /// Asserts that the error is at most the reported one, which is at most `within`.
    #[track_caller]
    fn is_followed(&self, within: f64) {
        let reported = self.follower.reported(self.now()).expect("nothing is known");
        let off = (reported.rate.as_f64() - self.ppm).abs();
        let unsure = reported.uncertainty().as_f64();
        assert!(off <= unsure, "{off} ppm off, reported as within {unsure}");
        assert!(unsure <= within, "only known to {unsure} ppm");
    }
}

#[test]
fn rate_is_known_to_1_ppm_within_2_s_for_any_packets() {
    for ppm in [-500.0, -20.0, 0.0, 3.3, 500.0] {
        for (rate, interval, times) in [
            (Rate::HZ_48000, 96, 1),
            (Rate::HZ_48000, 160, 6),
            (Rate::HZ_44100, 147, 2),
            (Rate::HZ_44100, 100, 1),
            (Rate::HZ_48000, 1, 48),
        ] {
            let mut talker = Talker::of(rate, interval, times, ppm);
            talker.speak(2 + (2e9 / talker.interval()) as i64 / times);
            talker.is_followed(1.0);
            let counters = talker.follower.standing(talker.now()).counters;
            assert_eq!((counters.jumps, counters.on_probation, counters.lost), (0, 0, 0));
        }
    }
}

#[test]
fn lost_late_and_duplicate_crf_packets_are_only_counted() {
    let mut talker = Talker::usual(50.0);
    talker.speak(1000);
    for lost in [1, 3, 127, 128, 255, 256, 300, 2000] {
        talker.lose(lost);
        talker.speak(600);
        talker.is_followed(1.0);
    }
    let expected = 1 + 3 + 127 + 128 + 255 + 256 + 300 + 2000;
    assert_eq!(talker.follower.standing(talker.now()).counters.lost, expected);
    for _ in 0..100 {
        let (one, two) = (talker.packet(), talker.packet());
        let now = talker.now();
        for packet in [&two, &one, &two, &two] {
            talker.follower.handle(packet, now);
        }
    }
    let counters = talker.follower.standing(talker.now()).counters;
    assert_eq!((counters.reordered, counters.duplicate), (100, 200));
    assert_eq!((counters.lost, counters.jumps, counters.on_probation), (expected, 0, 0));
    talker.is_followed(1.0);
}

#[test]
fn clock_keeps_its_rate_after_a_jump_or_restart() {
    for step in [-30_000_700_000, -1_000_003, -20_000, 20_000, 700_000, 40_000_700_000] {
        let mut talker = Talker::usual(-33.0);
        talker.speak(2000);
        talker.set += step;
        for _ in 0..500 {
            talker.speak(1);
            talker.is_followed(1.0);
        }
        let counters = talker.follower.standing(talker.now()).counters;
        assert_eq!((counters.jumps, counters.on_probation), (1, 1), "{step}");
    }
    let mut talker = Talker::usual(-33.0);
    talker.speak(2000);
    (talker.head.restarts, talker.set) = (true, 123_456);
    talker.speak(500);
    talker.is_followed(1.0);
    let counters = talker.follower.standing(talker.now()).counters;
    assert_eq!((counters.media_clock_restarts, counters.jumps, counters.on_probation), (1, 0, 0));
}

#[test]
fn one_packet_with_wrong_times_moves_nothing() {
    let mut talker = Talker::usual(12.0);
    talker.speak(2000);
    for lie in [-3_000_700_000, -25_000, 25_000, 3_000_700_000] {
        talker.set = lie;
        talker.speak(1);
        talker.set = 0;
        talker.speak(100);
        talker.is_followed(1.0);
    }
    assert_eq!(talker.follower.standing(talker.now()).counters.on_probation, 4);
    assert_eq!(talker.follower.standing(talker.now()).counters.jumps, 0);
}

#[test]
fn another_rate_is_followed_within_two_seconds() {
    for change in [-400.0, -10.0, 10.0, 400.0] {
        let mut talker = Talker::usual(5.0);
        talker.speak(2000);
        talker.ppm += change;
        talker.speak(1000);
        talker.is_followed(1.5);
    }
}

#[test]
fn silent_talkers_rate_is_held_then_followed_again() {
    let mut talker = Talker::usual(80.0);
    talker.speak(2000);
    let spoke = talker.now();
    assert_eq!(talker.follower.standing(spoke).state, CrfState::Received);
    let mut before = talker.follower.reported(spoke).unwrap();
    for seconds in [1, 10, 100, 1000] {
        let now = spoke + Span::from_secs(seconds);
        let reported = talker.follower.reported(now).unwrap();
        assert_eq!(reported.rate, before.rate);
        assert!(reported.deviation > before.deviation, "{seconds}");
        let held = CrfState::Held { since: spoke, comes: false };
        assert_eq!(talker.follower.standing(now).state, held);
        before = reported;
    }
    talker.lose(500 * 100);
    talker.ppm += 0.7;
    talker.speak(1500);
    talker.is_followed(1.0);
    assert_eq!(talker.follower.standing(talker.now()).state, CrfState::Received);
}

#[test]
fn uncertain_times_are_not_used() {
    let mut talker = Talker::usual(9.0);
    talker.speak(2000);
    let certain = talker.now();
    (talker.head.uncertain, talker.ppm) = (true, 300.0);
    talker.speak(1000);
    let standing = talker.follower.standing(talker.now());
    let held = CrfState::Held { since: certain, comes: true };
    assert_eq!((standing.counters.uncertain_clock, standing.state), (1000, held));
    assert!((standing.reported.unwrap().rate.as_f64() - 9.0).abs() < 0.5);
    (talker.head.uncertain, talker.ppm) = (false, 9.0);
    talker.speak(1000);
    talker.is_followed(1.0);
}

#[test]
fn uncertain_restarted_talker_is_held_until_certain() {
    let mut talker = Talker::usual(9.0);
    talker.head.uncertain = true;
    talker.speak(1000);
    assert_eq!(talker.follower.standing(talker.now()).state, CrfState::NotReceived);
    talker.head.uncertain = false;
    talker.speak(2000);
    let certain = talker.now();
    (talker.head.uncertain, talker.head.interval) = (true, 160);
    talker.speak(1000);
    let held = CrfState::Held { since: certain, comes: true };
    assert_eq!(talker.follower.standing(talker.now()).state, held);
    talker.head.uncertain = false;
    talker.speak(1);
    assert_eq!(talker.follower.standing(talker.now()).state, CrfState::Received);
    talker.is_followed(1.0);
}

#[test]
fn other_streams_and_frequencies_are_only_counted() {
    let mut talker = Talker::usual(-60.0);
    talker.speak(1000);
    let (now, ours) = (talker.now(), talker.head);
    let time = [WallTime::from_unix_nanos(EPOCH)];
    for (head, reason) in [
        (CrfHead { stream: StreamId(9), ..ours }, CrfInvalid::OtherStream),
        (CrfHead { nominal: Rate::HZ_44100, ..ours }, CrfInvalid::Frequency),
    ] {
        for _ in 0..10 {
            talker.follower.handle(&head.write(&time), now);
        }
        let standing = talker.follower.standing(now);
        assert_eq!((standing.invalid[reason.index()], standing.counters.received), (10, 1000));
    }
    talker.is_followed(1.0);
}

#[test]
fn first_talker_is_followed_until_it_is_silent() {
    let mut follower = CrfFollower::new(Encapsulation::Ethernet, None, Rate::HZ_48000);
    let mut talkers = [7.0, -7.0].map(Talker::usual);
    talkers[1].head.stream = StreamId(2);
    for _ in 0..1000 {
        for talker in &mut talkers {
            let packet = talker.packet();
            follower.handle(&packet, talker.now());
        }
    }
    let now = talkers[0].now();
    assert_eq!(follower.standing(now).stream, Some(STREAM));
    assert!((follower.reported(now).unwrap().rate.as_f64() - 7.0).abs() < 1.0);
    for _ in 0..2000 {
        let packet = talkers[1].packet();
        follower.handle(&packet, talkers[1].now());
    }
    let now = talkers[1].now();
    assert_eq!(follower.standing(now).stream, Some(StreamId(2)));
    assert!((follower.reported(now).unwrap().rate.as_f64() + 7.0).abs() < 1.0);
}

/// Maximum rate error in ten minutes. Times are 300 µs early and late in turn, for a second each.
fn astray(reported: bool) -> f64 {
    let mut talker = Talker::usual(20.0);
    talker.speak(2000);
    let reported = talker.follower.reported(talker.now()).filter(|_| reported);
    let mut clock = MediaClock::of_steps(Rate::HZ_48000);
    let mut maximum = 0.0_f64;
    for packet in 0..100_000_i64 {
        let media = MediaTime::ZERO + Frames::new(48 * packet);
        let true_nanos = packet as f64 * 1e6 / (1.0 + 20e-6);
        let wrong = if (packet / 1000) % 2 == 0 { 300e3 } else { -300e3 };
        clock.observe(media, WallTime::from_unix_nanos(EPOCH + (true_nanos + wrong) as i64));
        if let Some(reported) = reported.filter(|_| packet % 1000 == 0) {
            clock.handle_rate(reported);
        }
        if packet > 20_000 {
            let rate = clock.card_rate().expect("it was read 20,000 times").rate;
            maximum = maximum.max((rate.as_f64() - 20.0).abs());
        }
    }
    maximum
}

#[test]
fn stream_keeps_the_reported_rate_despite_its_own_times() {
    let (reported, found) = (astray(true), astray(false));
    assert!(reported < 1.0, "{reported} ppm off with the reported rate");
    assert!(
        found > 10.0 * reported,
        "{found} ppm off with the estimated rate, {reported} with the reported one"
    );
}

proptest! {
    #[test]
    fn arbitrary_times_are_counted_and_yield_a_valid_rate(
        packets in proptest::collection::vec(
            (any::<u8>(), prop_oneof![0..i64::MAX, 0..100_000_000_000_i64, Just(0), Just(i64::MAX)], 0..2000_i64, any::<bool>(), any::<bool>()),
            1..60,
        ),
        interval in 1..u16::MAX,
    ) {
        let mut follower = CrfFollower::new(Encapsulation::Ethernet, None, Rate::HZ_48000);
        let (mut now, count) = (START, packets.len() as u64);
        for (number, time, later, restarts, uncertain) in packets {
            now += Span::from_millis(later);
            let head = CrfHead { stream: STREAM, number, restarts, uncertain, nominal: Rate::HZ_48000, interval };
            follower.handle(&head.write(&[WallTime::from_unix_nanos(time)]), now);
            if let Some(reported) = follower.reported(now) {
                prop_assert!(reported.rate.as_f64().abs() < 10_000.0, "{reported:?}");
                prop_assert!(reported.deviation.as_f64() >= 0.0, "{reported:?}");
            }
        }
        let standing = follower.standing(now);
        prop_assert_eq!(standing.counters.received + standing.invalid.iter().sum::<u64>(), count);
        prop_assert!(standing.counters.lost < 60 * 100_000_000, "{standing:?}");
    }
}
