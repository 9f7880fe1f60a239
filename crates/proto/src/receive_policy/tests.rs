use tautline_dsp::format::SampleFormat;

use super::*;
use crate::latency::LatencySum;
use crate::packet::Codings;
use crate::redundancy::sizing::Tally;
use crate::time::Frames;
use crate::unannounced::Need;
use crate::units::{Channels, Rate};
use crate::wire::rtcp::LossReport;
use crate::wire::rtp::RtpUnpack;

fn format(sample: SampleFormat, payload_type: u8) -> StreamFormat {
    let (rate, channels, packet) = (Rate::HZ_48000, Channels::STEREO, Frames::new(48));
    StreamFormat { codec: None, rate, channels, sample, packet, payload_type }
}

#[test]
fn a_coding_that_would_be_read_as_another_is_refused() {
    let (l16, l24) = (format(SampleFormat::L16, 96), format(SampleFormat::L24, 97));
    let coding = |ours, codings, theirs: StreamFormat| {
        promise::refusal(&theirs, &ours, &*RtpUnpack::taking(codings)).map(|refusal| refusal.coding)
    };
    assert_eq!(coding(l16, Codings::Any, l24), Some(Some(SampleFormat::L16)));
    // The payload type and the announcement contradict each other.
    let posing = format(SampleFormat::L24, 96);
    assert_eq!(coding(l24, Codings::ByConvention, posing), Some(Some(SampleFormat::L16)));
    assert_eq!(coding(l16, Codings::Exactly, posing), Some(Some(SampleFormat::L16)));
    let mono = StreamFormat { channels: Channels::MONO, ..l24 };
    assert_eq!(coding(l16, Codings::Any, mono), Some(Some(SampleFormat::L16)));
    assert_eq!(coding(l24, Codings::Any, mono), None, "one channel is played on all");
    let slower = StreamFormat { rate: Rate::HZ_44100, ..l24 };
    assert_eq!(coding(l24, Codings::Any, slower), Some(None), "only its rate differs");
}

#[test]
fn coding_that_is_read_correctly_or_ignored_is_not_refused() {
    let (l16, l24) = (format(SampleFormat::L16, 96), format(SampleFormat::L24, 97));
    let reported =
        |ours, codings, theirs| promise::refusal(&theirs, &ours, &*RtpUnpack::taking(codings));
    assert_eq!(reported(l24, Codings::Any, l24), None);
    assert_eq!(reported(l24, Codings::ByConvention, l16), None, "each packet carries its coding");
    assert_eq!(reported(l16, Codings::Exactly, l24), None, "packets of type 97 are not accepted");
    let other = format(SampleFormat::L16, 110);
    assert_eq!(
        reported(l24, Codings::ByConvention, other),
        None,
        "packets of type 110 are not accepted"
    );
}

/// A mono stream with packets and periods of 64 frames, and its commands.
struct Received {
    policy: ReceivePolicy,
    receiver: JitterBuffer,
    reported: Vec<ReceiveCommand>,
}

fn frames(count: i64) -> Span {
    Rate::HZ_48000.span_of(Frames::new(count))
}

impl Received {
    fn by(periods: u32, latency: LatencyRule) -> Self {
        Self::of(RtpUnpack::usual(), periods, latency)
    }

    fn of(wire: std::sync::Arc<dyn Unpack>, periods: u32, latency: LatencyRule) -> Self {
        let (rate, channels, period) = (Rate::HZ_48000, Channels::MONO, Frames::new(64));
        let format = StreamFormat { channels, packet: period, ..format(SampleFormat::L24, 97) };
        let config = JitterBufferConfig::new(wire, format, Span::from_millis(5));
        let mut receiver = receiver_with_room(config, latency);
        let device = Settings { rate, channels, period, periods };
        let config = ReceivePolicyConfig::new(latency);
        let policy = ReceivePolicy::new(config, Span::from_millis(5), device, &mut receiver);
        Self { policy, receiver, reported: Vec::new() }
    }

    fn with<T>(
        &mut self,
        does: impl FnOnce(&mut ReceivePolicy, &mut ReceiveContext<'_>) -> T,
    ) -> T {
        let mut command = |command| {
            self.reported.push(command);
            true
        };
        let (now, session) = (LocalTime::ZERO, None);
        does(&mut self.policy, &mut Context { now, session, command: &mut command })
    }

    fn leads(&mut self, lead: Span) {
        let status = StreamStatus { lead: Some(lead), ..self.receiver.status(LocalTime::ZERO) };
        self.with(|policy, context| policy.follow(&status, |_, _| false, context));
    }

    /// Announces this latency, with packets one period old.
    fn promised(&mut self, link_offset: Span) -> Span {
        let (format, packing_age) = (self.policy.format, frames(64));
        let (host, card, wants_feedback) = (None, None, false);
        let said = Announcement { link_offset, format, packing_age, host, card, wants_feedback };
        self.with(|policy, context| policy.keep_promise(said, context));
        self.policy.announced = Some(said);
        self.policy.link_offset()
    }

    fn requested(&mut self, latency: Span) -> Result<Span, LatencyRefused> {
        self.with(|policy, context| policy.set_latency(LatencyRule::Chosen(latency), context))
    }
}

#[test]
fn repeated_talker_restarts_are_not_reported_as_jumps() {
    let wire = crate::wire::avtp::AafUnpack::of(crate::wire::avtp::Encapsulation::Ethernet, None);
    for (restarts, blamed) in [(1, false), (0, true)] {
        let mut received = Received::of(wire.clone(), 3, LatencyRule::Usual);
        for second in 0..9 {
            let mut status = received.receiver.status(LocalTime::ZERO + Span::from_secs(second));
            status.counters.resyncs = second as u64;
            status.counters.media_clock_restarts = restarts * second as u64;
            received.with(|policy, context| policy.follow(&status, |_, _| false, context));
        }
        let notes = received.policy.notes();
        let reported = match blamed {
            true => ReceiveNote::Unsteady(8),
            false => ReceiveNote::Restarting(8),
        };
        assert_eq!(notes, [reported]);
    }
}

/// An AVTP stream: packets carry presentation times.
fn presented(rule: LatencyRule) -> Received {
    let wire = crate::wire::avtp::AafUnpack::of(crate::wire::avtp::Encapsulation::Ethernet, None);
    Received::of(wire, 3, rule)
}

#[test]
fn late_presentation_is_the_talkers_to_change_by_how_much() {
    for rule in [LatencyRule::Usual, LatencyRule::Chosen(Span::from_millis(8))] {
        let mut received = presented(rule);
        let kept = received.policy.link_offset();
        let mut status = received.receiver.status(LocalTime::ZERO);
        let (packet, apart) = (frames(6), Span::from_millis(40));
        status.need = Some(Need { latency: kept + Span::from_millis(44), packet, apart });
        received.with(|policy, context| policy.follow(&status, |_, _| false, context));
        let note = received.policy.finish(|_, _| false);
        let later = Span::from_millis(44);
        assert_eq!(note, Some(ReceiveNote::PresentedTooSoon(later)), "{rule:?}");
        assert_eq!(received.policy.link_offset(), kept, "{rule:?}: nothing moves");
    }
}

/// For packets one period old.
fn needs(periods: i64) -> LatencySum {
    LatencySum { packing_age: frames(64), device: frames(64 * periods) }
}

#[test]
fn device_without_lead_keeps_a_latency_of_140_frames() {
    assert_eq!(Received::by(1, LatencyRule::Usual).promised(frames(140)), frames(140));
    assert!(
        Received::by(3, LatencyRule::Usual).promised(frames(140)) >= needs(3).without_network()
    );
}

#[test]
fn shorter_lead_than_configured_lowers_the_minimum_latency() {
    let mut received = Received::by(3, LatencyRule::Usual);
    let (requested, needs) = (frames(140), needs(3));
    received.leads(frames(128));
    received.promised(Span::from_millis(7));
    assert_eq!(received.requested(requested), Err(LatencyRefused::TooShort { requested, needs }));
    // A program as the device: its thread wakes 50 µs late.
    received.leads(-Span::from_micros(50));
    assert_eq!(received.policy.link_offset(), Span::from_millis(7), "the promised latency stays");
    let takes_a_period = |reported: &ReceiveCommand| matches!(reported, ReceiveCommand::Ring(takes) if *takes == frames(64));
    assert!(received.reported.iter().any(takes_a_period));
    assert_eq!(received.requested(requested), Ok(requested));
    let (requested, needs) = (frames(127), self::needs(1));
    assert_eq!(received.requested(requested), Err(LatencyRefused::TooShort { requested, needs }));
}

#[test]
fn longer_lead_raises_usual_latency_and_notes_a_chosen_one() {
    let mut received = Received::by(1, LatencyRule::Usual);
    received.leads(Span::ZERO);
    assert_eq!(received.promised(frames(140)), frames(140));
    assert!(received.policy.notes().is_empty());
    received.leads(frames(128));
    assert!(received.policy.link_offset() >= needs(3).without_network());
    let mut chosen = Received::by(1, LatencyRule::Usual);
    chosen.promised(frames(140));
    chosen.requested(frames(140)).unwrap();
    chosen.leads(frames(128));
    assert_eq!(chosen.policy.link_offset(), frames(140), "only the user may change it");
    let said = chosen.policy.notes();
    let latency = frames(140);
    let (packing_age, device) = (frames(64), frames(128) + frames(64));
    let needs = LatencySum { packing_age, device };
    assert_eq!(said, [ReceiveNote::TooShort { needs, latency }]);
    chosen.leads(frames(128) + Span::from_micros(300));
    assert_eq!(chosen.policy.notes(), [], "less than a period longer");
    chosen.leads(frames(256));
    assert_eq!(chosen.policy.notes().len(), 1);
}

#[test]
fn latency_without_room_for_a_usual_network_is_noted() {
    let enough = needs(3).total();
    for (short, noted) in [(Span::ZERO, 0), (Span::from_micros(500), 1)] {
        let latency = enough - short;
        let mut received = Received::by(3, LatencyRule::Usual);
        received.requested(latency).unwrap();
        assert_eq!(received.promised(latency), latency);
        let notes = received.policy.notes();
        let is_short = |note: &&ReceiveNote| matches!(note, ReceiveNote::TooShort { .. });
        assert_eq!(notes.iter().filter(is_short).count(), noted, "{latency}: {notes:?}");
    }
}

#[test]
fn wake_ups_that_are_all_late_make_a_card_take_no_less() {
    let mut received = Received::by(3, LatencyRule::Usual);
    received.leads(frames(128) - Span::from_micros(600));
    received.promised(Span::from_millis(7));
    let (requested, needs) = (frames(250), needs(3));
    assert_eq!(received.requested(requested), Err(LatencyRefused::TooShort { requested, needs }));
}

#[test]
fn that_a_talker_does_not_rely_on_its_clock_is_noted_once() {
    let mut received = Received::by(2, LatencyRule::Usual);
    let mut follow = |uncertain| {
        let mut status = received.receiver.status(LocalTime::ZERO);
        status.counters.uncertain_clock = uncertain;
        received.with(|policy, context| policy.follow(&status, |_, _| false, context));
        received.policy.notes()
    };
    assert_eq!(follow(0), []);
    assert_eq!(follow(1), [ReceiveNote::Uncertain]);
    assert_eq!(follow(9), []);
}

#[test]
fn silence_without_a_goodbye_is_noted_with_its_end() {
    let mut listener = Received::by(2, LatencyRule::Usual);
    let mut follow = |millis, received, said_goodbye| {
        let at = LocalTime::ZERO + Span::from_millis(millis);
        let mut status = StreamStatus { said_goodbye, ..listener.receiver.status(at) };
        status.counters.received = received;
        listener.with(|policy, context| policy.follow(&status, |_, _| false, context));
        listener.policy.notes()
    };
    assert_eq!(follow(10_000, 0, false), [], "no packet arrived");
    assert_eq!(follow(11_000, 5, false), []);
    assert_eq!(follow(14_000, 5, false), []);
    assert_eq!(follow(14_001, 5, false), [ReceiveNote::Stopped]);
    assert_eq!(follow(18_000, 5, false), []);
    assert_eq!(follow(20_000, 6, false), [ReceiveNote::Resumed(Span::from_secs(9))]);
    assert_eq!(follow(21_000, 6, true), []);
    assert_eq!(follow(30_000, 6, true), []);
}

#[test]
fn heavy_loss_is_noted_once_until_it_ends() {
    let mut received = Received::by(2, LatencyRule::Usual);
    let mut follow = |second: i64, expected, missing| {
        let at = LocalTime::ZERO + Span::from_secs(second);
        // An outage before the last window.
        let beyond = if second >= 28 { 5000 } else { 0 };
        let tally = Tally { expected, missing, runs: missing, beyond };
        let losses = Some(LossReport { tally, ..LossReport::default() });
        let receiving = Some(Receiving { losses, ..Receiving::default() });
        let status = StreamStatus { receiving, ..received.receiver.status(at) };
        received.with(|policy, context| policy.follow(&status, |_, _| false, context));
        received.policy.notes()
    };
    assert_eq!(follow(10, 1000, 900), [], "before the first window");
    assert_eq!(follow(12, 1100, 990), []);
    assert_eq!(follow(13, 1200, 1060), [ReceiveNote::HeavyLoss(80)]);
    assert_eq!(follow(16, 1400, 1220), [], "noted already");
    assert_eq!(follow(19, 1600, 1250), [], "15 %");
    assert_eq!(follow(22, 1640, 1290), [], "too few packets");
    assert_eq!(follow(25, 1840, 1330), [ReceiveNote::HeavyLoss(20)]);
    assert_eq!(follow(28, 2040, 1340), [], "an outage");
    assert_eq!(follow(31, 100, 7), [], "another sender");
}

#[test]
fn heavy_loss_has_no_note_if_the_sender_adapts() {
    let noted = |sender_adapts| {
        let mut received = Received::by(2, LatencyRule::Usual);
        received.policy.config.sender_adapts = sender_adapts;
        for (second, missing) in [(10, 0), (13, 150)] {
            let tally = Tally { expected: 2 * missing, missing, runs: missing, beyond: 0 };
            let losses = Some(LossReport { tally, ..LossReport::default() });
            let receiving = Some(Receiving { losses, ..Receiving::default() });
            let at = LocalTime::ZERO + Span::from_secs(second);
            let status = StreamStatus { receiving, ..received.receiver.status(at) };
            received.with(|policy, context| policy.follow(&status, |_, _| false, context));
        }
        received.policy.notes().contains(&ReceiveNote::HeavyLoss(50))
    };
    assert!(noted(false) && !noted(true));
}

/// Arrives 2 ms after its capture.
fn packet(frame: i64) -> PacketTrace {
    let capture = LocalTime::ZERO + frames(frame);
    let arrival = capture + Span::from_millis(2);
    PacketTrace {
        media: crate::time::MediaTime::from_frames(frame),
        origin: None,
        reference: Some(capture),
        arrival,
        read: arrival,
        taken: arrival,
        written: arrival,
        resample: Span::ZERO,
        dac: capture + Span::from_millis(5),
        outcome: crate::ledger::Outcome::Played,
    }
}

#[test]
fn mostly_late_packets_are_noted_with_the_needed_latency() {
    let fixed = LatencyRule::Chosen(Span::from_millis(5));
    for (rule, transit, noted) in
        [(fixed, 30, true), (fixed, 2, false), (LatencyRule::Auto { maximum: None }, 30, false)]
    {
        let mut received = Received::by(2, rule);
        received.promised(Span::from_millis(5));
        received.policy.received = Some(7);
        let late = transit > 5;
        for number in 0..3_200_i64 {
            let at = LocalTime::ZERO + frames(64 * number);
            let arrival = at + Span::from_millis(transit);
            received.policy.take(&PacketTrace {
                arrival,
                read: arrival,
                outcome: if late {
                    crate::ledger::Outcome::Late
                } else {
                    crate::ledger::Outcome::Played
                },
                ..packet(64 * number)
            });
            if number % 15 == 0 {
                let mut status = received.receiver.status(arrival);
                status.counters.received = number as u64;
                status.counters.late = if late { number as u64 } else { 0 };
                received.with(|policy, context| {
                    policy.follow(&status, |_, _| false, context);
                    context.now = arrival;
                    policy.poll(context);
                });
            }
        }
        let notes = received.policy.notes().into_iter();
        let notes: Vec<_> = notes
            .filter_map(|note| match note {
                ReceiveNote::MostlyLate { percent, needed, .. } => Some((percent, needed)),
                _ => None,
            })
            .collect();
        assert_eq!(notes.len(), usize::from(noted), "{rule:?} {transit} ms: {notes:?}");
        let needed = Span::from_millis(32)..Span::from_millis(36);
        assert!(
            notes.iter().all(|(percent, at)| *percent == 100 && needed.contains(at)),
            "{notes:?}"
        );
    }
}

#[test]
fn latency_that_follows_longer_packets_adds_no_short_note() {
    for rule in [LatencyRule::AUTO, LatencyRule::Usual] {
        let mut received = Received::by(2, rule);
        received.promised(Span::from_millis(5));
        for number in 0..200 {
            received.policy.take(&packet(64 * number));
        }
        received.with(|policy, context| policy.poll(context));
        let (format, packing_age) = (received.policy.format, Span::from_millis(20));
        let packet = Rate::HZ_48000.frames_within(packing_age);
        let format = StreamFormat { packet, ..format };
        let said = Announcement {
            link_offset: Span::from_millis(20),
            format,
            packing_age,
            host: None,
            card: None,
            wants_feedback: false,
        };
        received.with(|policy, context| policy.keep_promise(said, context));
        let notes = received.policy.notes();
        let reported = !matches!(notes[..], [] | [ReceiveNote::Raised { .. }]);
        assert!(!reported && notes.is_empty() == rule.is_auto(), "{rule:?}: {notes:?}");
        received.policy.take(&self::packet(64 * 200));
        received.with(|policy, context| policy.poll(context));
        let minimum = packing_age + frames(128);
        assert!(
            received.policy.link_offset() >= minimum,
            "{rule:?}: {}",
            received.policy.link_offset()
        );
    }
}

#[test]
fn short_repair_time_is_noted_once_a_repair_is_late() {
    for late_repairs in [0, 1] {
        let mut received = Received::by(3, LatencyRule::Chosen(Span::from_millis(12)));
        received.promised(Span::from_millis(12));
        for number in 0..2_000 {
            let played = packet(64 * number);
            let arrival = played.arrival + Span::from_millis(30 * i64::from(number % 100 == 0));
            received.policy.take(&PacketTrace { arrival, ..played });
        }
        let repair = (Span::from_millis(10), 10_000_000);
        let status =
            StreamStatus { repair, late_repairs, ..received.receiver.status(LocalTime::ZERO) };
        received.with(|policy, context| policy.follow(&status, |_, _| false, context));
        for second in 0..3 {
            let now = LocalTime::ZERO + Span::from_secs(second);
            received.policy.note_repair(now);
        }
        let enough = |note: &ReceiveNote| match note {
            ReceiveNote::RepairShort { enough, .. } => Some(*enough),
            _ => None,
        };
        let notes = received.policy.notes();
        let noted: Vec<_> = notes.iter().filter_map(enough).collect();
        // The report recommends this one too.
        let advised = received.policy.arrivals().advised();
        assert!(advised > Some(Span::from_millis(30)), "{advised:?}");
        assert_eq!(noted, advised.into_iter().take(late_repairs as usize).collect::<Vec<_>>());
    }
}

#[test]
fn new_maximum_limits_an_automatic_latency_at_once() {
    let mut received = Received::by(2, LatencyRule::AUTO);
    received.promised(Span::from_millis(300));
    assert_eq!(received.policy.link_offset(), Span::from_millis(300));
    let maximum = Some(Span::from_millis(150));
    let set =
        received.with(|policy, context| policy.set_latency(LatencyRule::Auto { maximum }, context));
    assert_eq!(set, Ok(Span::from_millis(150)));
    assert_eq!(received.requested(Span::from_millis(200)), Ok(Span::from_millis(200)));
    assert_eq!(received.promised(Span::from_millis(300)), Span::from_millis(200));
    let set = received.with(|policy, context| policy.set_latency(LatencyRule::AUTO, context));
    assert_eq!(set, Ok(Span::from_millis(200)));
}
