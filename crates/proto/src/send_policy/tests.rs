use tautline_dsp::format::SampleFormat;

use super::*;
use crate::redundancy::sizing::{Losses, Tally};
use crate::time::WallTime;
use crate::units::{Channels, Rate};
use crate::wire::ntp::{CompactNtp, CompactSpan};
use crate::wire::rtcp::{Effective, LossReport, ReportBlock};

/// 5 ms packets, 2.5 ms periods.
fn sender(millis: i64, latency: LatencyRule) -> SendPolicy {
    let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
    let packet = Frames::new(240);
    let sample = SampleFormat::L24;
    let format = StreamFormat { codec: None, rate, channels, sample, packet, payload_type: 97 };
    let identity = Identity { stream: 1.into(), sequence: 0, timestamp: 0 };
    let device = Settings { rate, channels, period: Frames::new(120), periods: 2 };
    SendPolicy::new(SendPolicyConfig {
        latency,
        destinations: vec![Host::UNKNOWN],
        max_bytes: 9_000,
        ..SendPolicyConfig::new(format, identity, Span::from_millis(millis), device)
    })
}

fn said(policy: &mut SendPolicy, millis: i64) -> Vec<SendNote> {
    let command = &mut |_| true;
    let mut context = Context { now: LocalTime::ZERO, session: None, command };
    policy.set_ptime(Span::from_millis(millis), &mut context).unwrap();
    let short = |note: &SendNote| matches!(note, SendNote::TooShort { .. });
    policy.notes().into_iter().filter(short).collect()
}

#[test]
fn automatic_latency_that_follows_longer_packets_has_no_note() {
    let kept = LatencyRule::Chosen(Span::from_millis(13));
    assert_eq!(said(&mut sender(13, kept), 10).len(), 1, "of one that is kept it is");
    // Receivers report the network's part later.
    let mut auto = sender(10, LatencyRule::AUTO);
    assert_eq!(said(&mut auto, 10), []);
    assert_eq!(said(&mut auto, 20), []);
}

#[test]
fn automatic_latency_never_exceeds_its_ceiling() {
    let maximum = Span::from_millis(250);
    let mut policy = sender(245, LatencyRule::Auto { maximum: Some(maximum) });
    said(&mut policy, 20);
    assert_eq!(policy.link_offset(), maximum);
    policy.handle(Host::UNKNOWN, &asking(7, Some(Span::from_millis(462))), LocalTime::ZERO);
    policy.poll(&mut Context { now: LocalTime::ZERO, session: None, command: &mut |_| true });
    assert_eq!(policy.link_offset(), maximum);
    assert!(!policy.notes().iter().any(|note| matches!(note, SendNote::AsksBeyond { .. })));
}

#[test]
fn heavy_loss_starts_the_adaptation_of_a_stream_that_waits_for_it() {
    let limits = CodingLimits {
        codings: vec![SampleFormat::L24.into(), Coding::OPUS, Coding::OPUS_VOICE],
        ptimes: (Span::from_millis(5), Span::from_millis(20)),
        max_bitrate: None,
        after_loss: true,
    };
    let mut policy = sender(13, LatencyRule::AUTO);
    let coding = |policy: &mut SendPolicy, missing, millis| {
        let now = LocalTime::ZERO + Span::from_millis(millis);
        let tally = Tally { expected: 1_000 * millis.unsigned_abs(), missing, ..Tally::default() };
        let report = LossReport { tally, ..LossReport::default() };
        policy.handle(Host::UNKNOWN, &Event::Losses(7, report), now);
        policy.poll(&mut Context { now, session: None, command: &mut |_| true });
        policy.format().coding()
    };
    let mut context = Context { now: LocalTime::ZERO, session: None, command: &mut |_| true };
    policy.adapt_within(Some(limits.clone()), &mut context);
    let samples = SampleFormat::L24.into();
    assert_eq!(coding(&mut policy, 0, 0), samples);
    assert_eq!(coding(&mut policy, 300_000, 3_000), samples, "10 %");
    assert!(!policy.is_adapted());
    coding(&mut policy, 900_000, 6_000);
    assert!(policy.is_adapted(), "20 %");
    // Other terms later do not wait again.
    let mut context = Context { now: LocalTime::ZERO, session: None, command: &mut |_| true };
    policy.adapt_within(None, &mut context);
    policy.adapt_within(Some(limits), &mut context);
    assert!(policy.is_adapted());
}

#[test]
fn audible_loss_starts_the_redundancy_of_a_stream_that_waits_for_it() {
    let mut policy = sender(60, LatencyRule::AUTO);
    let bounds = policy.bounds();
    policy.config.redundancy = Regulator::new(Redundancy::Auto, bounds);
    policy.config.repairs_after_loss = true;
    let mut symbols = |missing, millis, of_256| {
        let now = LocalTime::ZERO + Span::from_millis(millis);
        let tally = Tally { expected: 1_000 * millis.unsigned_abs(), missing, ..Tally::default() };
        let report = LossReport { tally, ..LossReport::default() };
        policy.handle(Host::UNKNOWN, &Event::Losses(7, report), now);
        let block = ReportBlock {
            ssrc: 0,
            fraction_lost: of_256,
            cumulative_lost: 0,
            highest_sequence: 0,
            jitter: 0,
            last_report: CompactNtp::NONE,
            delay: CompactSpan::default(),
        };
        policy.handle(Host::UNKNOWN, &Event::Reception(7, block), now);
        policy.poll(&mut Context { now, session: None, command: &mut |_| true });
        (policy.layout().symbols(), policy.notes().contains(&SendNote::Loss(1)))
    };
    assert_eq!(symbols(0, 0, 0), (0, false));
    assert_eq!(symbols(20_000, 3_000, 2), (0, false), "0.7 %");
    assert_eq!(symbols(52_000, 6_000, 3), (1, true), "1.07 %");
    assert_eq!(symbols(84_000, 9_000, 3), (1, false), "noted already");
}

#[test]
fn more_redundancy_is_sent_at_once_and_less_after_a_while() {
    let policy = sender(60, LatencyRule::AUTO);
    let mut regulator = Regulator::new(Redundancy::Auto, policy.bounds());
    let format = policy.format();
    let mut poll = |share, seconds| {
        let now = LocalTime::ZERO + Span::from_secs(seconds);
        regulator.poll(now, &format, Losses { share, burst: 1.0 });
        regulator.layout().repeat().is_some()
    };
    assert!(!poll(0.0, 0));
    assert!(poll(0.1, 1), "packets of 5 ms are repeated whole");
    assert!(poll(0.0, 2) && poll(0.0, 11));
    assert!(!poll(0.0, 12));
    assert!(poll(0.1, 20) && poll(0.0, 21));
    assert!(poll(0.1, 25), "the wait begins again");
    assert!(poll(0.0, 26) && poll(0.0, 35));
    assert!(!poll(0.0, 36));
}

#[test]
fn redundancy_fits_the_datagrams_that_pass() {
    let mut policy = sender(13, LatencyRule::AUTO);
    let unprobed = policy.bounds().max_bytes;
    assert!(unprobed > 1_200, "{unprobed}");
    policy.path_size = Some(PathSize::default());
    assert_eq!(policy.bounds().max_bytes, 1_184);
}

fn report(ssrc: u32) -> Event {
    asking(ssrc, None)
}

fn asking(ssrc: u32, needed: Option<Span>) -> Event {
    let effective = Effective {
        ssrc: 0,
        configured: Span::from_millis(13),
        effective: Span::from_millis(13),
        uncertainty: Span::ZERO,
        needed,
        method: None,
    };
    Event::Effective(ssrc, effective)
}

struct Watched(SendPolicy, LocalTime);

impl Watched {
    fn new() -> Self {
        Self(sender(13, LatencyRule::Chosen(Span::from_millis(13))), LocalTime::ZERO)
    }

    /// Advances by tenths of a second, with two reports each.
    fn pass(&mut self, tenths: i64, reporting: &[u32]) -> Vec<SendNote> {
        for _ in 0..2 * tenths {
            self.1 += Span::from_millis(50);
            for ssrc in reporting {
                self.0.handle(Host::UNKNOWN, &report(*ssrc), self.1);
            }
            self.0.poll(&mut Context { now: self.1, session: None, command: &mut |_| true });
        }
        let of_receivers = |note: &SendNote| {
            matches!(note, SendNote::ReceiverLost { .. } | SendNote::ReceiverBack { .. })
        };
        self.0.notes().into_iter().filter(of_receivers).collect()
    }

    fn presence(&self) -> Vec<Presence> {
        self.0.receivers().map(KnownReceiver::presence).collect()
    }
}

#[test]
fn receiver_that_stops_reporting_is_lost_and_counted() {
    let (host, silence) = (Host::UNKNOWN, Span::from_secs(3));
    let mut watched = Watched::new();
    assert_eq!(watched.pass(20, &[1, 2]), []);
    assert_eq!(watched.pass(29, &[2]), []);
    let lost = SendNote::ReceiverLost { ssrc: 1, host, silence, times_lost: 1 };
    assert_eq!(watched.pass(1, &[2]), [lost]);
    assert_eq!(
        (watched.presence(), watched.0.receivers_lost()),
        (vec![Presence::Lost, Presence::Here], 1)
    );
    assert_eq!(watched.pass(100, &[2]), [], "it is noted once");
    let [SendNote::ReceiverBack { ssrc: 1, times_lost: 1, .. }] = watched.pass(1, &[1, 2])[..]
    else {
        panic!("{:?}", watched.presence());
    };
    assert_eq!(watched.presence(), [Presence::Here; 2]);
}

#[test]
fn receiver_with_a_goodbye_is_not_lost() {
    let mut watched = Watched::new();
    watched.pass(20, &[1]);
    watched.0.handle(Host::UNKNOWN, &Event::Left(1), watched.1);
    assert_eq!(watched.pass(600, &[]), []);
    assert_eq!((watched.presence(), watched.0.receivers_lost()), (vec![Presence::Left], 0));
}

#[test]
fn restarted_receiver_takes_the_place_of_the_lost_one() {
    let mut watched = Watched::new();
    watched.pass(20, &[1]);
    watched.pass(40, &[]);
    let noted = watched.pass(1, &[2]);
    assert!(matches!(noted[..], [SendNote::ReceiverBack { ssrc: 2, .. }]), "{noted:?}");
    assert_eq!(watched.presence(), [Presence::Left, Presence::Here]);
    assert_eq!(watched.0.receivers_lost(), 1);
}

#[test]
fn receiver_that_is_no_destination_any_more_is_not_lost() {
    let mut watched = Watched::new();
    watched.pass(20, &[1]);
    watched.0.set_destinations(Vec::new(), watched.1);
    assert_eq!(watched.pass(600, &[]), []);
    watched.0.handle(Host::UNKNOWN, &report(2), watched.1);
    assert_eq!(watched.pass(600, &[]), []);
    assert_eq!(watched.0.receivers_lost(), 0);
}

#[test]
fn another_sender_at_the_address_is_not_lost_unless_it_receives() {
    let mut watched = Watched::new();
    let wall = WallTime::from_unix_nanos(0);
    let captured = Event::Captured(1, 0, wall);
    watched.0.handle(Host::UNKNOWN, &captured, watched.1);
    assert_eq!(watched.pass(600, &[]), []);
    assert_eq!((watched.presence(), watched.0.receivers_lost()), (vec![], 0));
    watched.0.handle(Host::UNKNOWN, &captured, watched.1);
    watched.pass(20, &[1]);
    assert_eq!(watched.presence(), [Presence::Here]);
    assert_eq!(watched.pass(60, &[]).len(), 1);
}

#[test]
fn lost_receivers_leave_room_for_others() {
    let mut watched = Watched::new();
    let all: Vec<u32> = (0..64).collect();
    watched.pass(20, &all);
    watched.pass(40, &all[1..]);
    assert_eq!(watched.0.receivers_lost(), 1);
    watched.pass(1, &[99]);
    assert!(watched.0.receivers().any(|known| known.ssrc == 99));
    assert_eq!(watched.0.receivers_lost(), 1);
}
