use super::*;
use crate::units::{Channels, Rate};
use crate::wire::rtp::PACK;

/// A sender of packets of 5 ms from a device with periods of 2.5 ms, that promises so many milliseconds.
fn sender(millis: i64, latency: LatencyRule) -> SendPolicy {
    let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
    let packet = Frames::new(240);
    let sample = SampleFormat::L24;
    let format = StreamFormat { coder: None, rate, channels, sample, packet, payload_type: 97 };
    SendPolicy::new(SendPolicyConfig {
        wire: PACK,
        format,
        timestamp: 0,
        link_offset: Span::from_millis(millis),
        latency,
        usual: Span::from_millis(millis),
        device: Settings { rate, channels, period: Frames::new(120), periods: 2 },
        stamps: true,
        spaced: false,
        held: Span::ZERO,
        redundancy: Regulator::OFF,
        repair_budget: None,
        limits: Limits::default(),
        destinations: vec![Host::UNKNOWN],
        by_two_networks: false,
        most_bytes: 9_000,
        compressed: Vec::new(),
    })
}

/// What is said of a latency that no receiver like this end keeps, where packets become longer.
fn said(policy: &mut SendPolicy, millis: i64) -> Vec<SendNote> {
    let command = &mut |_| true;
    let mut context = Context { now: LocalTime::ZERO, session: None, command };
    policy.set_ptime(Span::from_millis(millis), &mut context).unwrap();
    let short = |note: &SendNote| matches!(note, SendNote::TooShort { .. });
    policy.notes().into_iter().filter(short).collect()
}

#[test]
fn of_a_latency_that_follows_longer_packets_by_itself_nothing_is_said() {
    let kept = LatencyRule::Chosen(Span::from_millis(13));
    assert_eq!(said(&mut sender(13, kept), 10).len(), 1, "of one that is kept it is");
    // What packets and such a device take, and nothing for the way: that is until receivers say what they need.
    let mut auto = sender(10, LatencyRule::AUTO);
    assert_eq!(said(&mut auto, 10), []);
    assert_eq!(said(&mut auto, 20), []);
}
