//! The calling end with manual answers: overlapping requests, and older peers.
#![expect(clippy::unwrap_used, reason = "two ends that do not agree here are a failure")]

use crate::offers;

use tautline_dsp::format::SampleFormat;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, ConnectionId};
use tautline_proto::call::caller::{CallerEnd, CallerStep, NotAsked};
use tautline_proto::call::message::{
    ADAPTS_VERSION, AFTER_LOSS_VERSION, CALL_VERSION, CallMessage, CallReason, MAX_VERSION,
    REDUNDANCY_VERSION,
};
use tautline_proto::call::terms::{
    CallAdaptation, CallLatency, CallOffer, CallPath, CallTerms, StreamTerms,
};
use tautline_proto::redundancy::Redundancy;
use tautline_proto::time::{LocalTime, Span};

const NOW: LocalTime = LocalTime::from_nanos(1_000_000_000);

fn offer(latency: Option<CallLatency>) -> CallOffer {
    CallOffer { latency, ..offers::offer(&[SampleFormat::L24, SampleFormat::L16]) }
}

fn sent(caller: &mut CallerEnd) -> Vec<CallMessage> {
    core::iter::from_fn(|| caller.step())
        .filter_map(|step| match step {
            CallerStep::Say(message) => Some(message),
            _ => None,
        })
        .collect()
}

fn dialled(caller: &mut CallerEnd, version: u32, now: LocalTime) -> CallOffer {
    caller.poll(now);
    sent(caller);
    caller.connected(version, now);
    match sent(caller).pop() {
        Some(CallMessage::Call { offer, .. }) => offer,
        other => panic!("{other:?}"),
    }
}

fn calling(version: u32) -> (CallerEnd, CallTerms) {
    let mut caller = CallerEnd::new(offer(None), NOW);
    let terms = dialled(&mut caller, version, NOW).choose(&offer(None)).unwrap();
    let accepted =
        CallMessage::Accepted { call: CallId([1; 16]), terms: terms.clone(), udp_port: 7_000 };
    caller.handle_message(accepted, NOW);
    sent(&mut caller);
    (caller, terms)
}

fn coded(terms: &CallTerms, sample: SampleFormat) -> CallTerms {
    let of = |stream: StreamTerms| StreamTerms { coding: sample.into(), ..stream };
    CallTerms { there: of(terms.there), back: of(terms.back), ..terms.clone() }
}

fn kept(caller: &mut CallerEnd) {
    caller.handle_message(
        CallMessage::Kept(CallReason::new("unsupported transport; use another")),
        NOW,
    );
}

#[test]
fn hold_survives_rejection_of_an_earlier_request() {
    let (mut caller, terms) = calling(CALL_VERSION);
    caller.change(coded(&terms, SampleFormat::L16)).unwrap();
    let held = CallTerms { paths: Vec::new(), ..terms.clone() };
    caller.change(held.clone()).unwrap();
    kept(&mut caller);
    assert_eq!(caller.requested(), Some(&held), "it is not answered yet");
    caller.handle_message(CallMessage::Changed(held.clone()), NOW);
    assert_eq!(caller.requested(), None);
    assert!(!caller.call().unwrap().terms.sound());
    // A late message does not open the microphone.
    caller.handle_message(CallMessage::Changed(terms), NOW);
    assert!(!caller.call().unwrap().terms.sound());
}

#[test]
fn a_hold_that_is_refused_itself_is_none() {
    let (mut caller, terms) = calling(CALL_VERSION);
    caller.change(CallTerms { paths: Vec::new(), ..terms.clone() }).unwrap();
    kept(&mut caller);
    assert_eq!(caller.requested(), None);
    let other = coded(&terms, SampleFormat::L16);
    caller.change(other.clone()).unwrap();
    caller.handle_message(CallMessage::Changed(other.clone()), NOW);
    assert_eq!(caller.call().unwrap().terms, other);
}

#[test]
fn reopened_call_uses_the_last_requested_settings() {
    let (mut caller, terms) = calling(CALL_VERSION);
    let by_tcp = CallTerms { paths: vec![CallPath::Tcp], ..terms };
    caller.change(by_tcp.clone()).unwrap();
    caller.offers(CallOffer { paths: vec![CallPath::Udp], ..offer(None) });
    caller.handle_message(CallMessage::Changed(by_tcp.clone()), NOW);
    assert_eq!(caller.call().unwrap().terms, by_tcp);
    caller.line_lost(NOW);
    sent(&mut caller);
    let again = dialled(&mut caller, CALL_VERSION, NOW + Span::from_secs(1));
    assert_eq!(again.paths, [CallPath::Tcp]);
    caller.handle_message(CallMessage::Resumed, NOW);
    caller.change(CallTerms { paths: vec![CallPath::Udp], ..by_tcp.clone() }).unwrap();
    caller.change(by_tcp.clone()).unwrap();
    caller.handle_message(
        CallMessage::Changed(CallTerms { paths: vec![CallPath::Udp], ..by_tcp }),
        NOW,
    );
    assert_eq!(caller.call().unwrap().terms.paths, [CallPath::Udp]);
}

#[test]
fn older_peer_gets_no_adaptive_coding_fields() {
    let bits = CallAdaptation { max_bitrate: Some(64_000), ..CallAdaptation::default() };
    let codings = vec![SampleFormat::L24.into(), SampleFormat::L16.into()];
    let adapts = Some(CallAdaptation { codings, after_loss: true, ..bits.clone() });
    for version in 2..=CALL_VERSION {
        let known = match version {
            ..ADAPTS_VERSION => None,
            ADAPTS_VERSION..AFTER_LOSS_VERSION => Some(bits.clone()),
            _ => adapts.clone(),
        };
        let offer = CallOffer { adapts: adapts.clone(), ..offer(None) };
        let mut caller = CallerEnd::new(offer, NOW);
        assert_eq!(dialled(&mut caller, version, NOW).adapts, known, "version {version}");
        let (mut caller, terms) = calling(version);
        caller.change(CallTerms { adapts: adapts.clone(), ..terms }).unwrap();
        let said = core::iter::from_fn(|| caller.step()).find_map(|step| match step {
            CallerStep::Say(CallMessage::Change(terms)) => Some(terms.adapts),
            _ => None,
        });
        assert_eq!(said, Some(known), "version {version}");
    }
}

#[test]
fn older_peer_gets_no_redundancy() {
    let redundancy = Some(Redundancy::Copies(2));
    for version in 2..=CALL_VERSION {
        let known = redundancy.filter(|_| version >= REDUNDANCY_VERSION);
        let offer = CallOffer { redundancy, ..offer(None) };
        let mut caller = CallerEnd::new(offer.clone(), NOW);
        assert_eq!(dialled(&mut caller, version, NOW).redundancy, known, "version {version}");
        let (mut caller, terms) = calling(version);
        caller.change(CallTerms { redundancy, ..terms }).unwrap();
        let changed = sent(&mut caller).into_iter().find_map(|message| match message {
            CallMessage::Change(terms) => Some(terms.redundancy),
            _ => None,
        });
        assert_eq!(changed, Some(known), "version {version}");
        let (mut answering, line) = (Answering::new(offer, vec![7_000]), ConnectionId(1));
        answering.arrived(line, [1; 32], NOW);
        let call = CallMessage::Call { version, offer: self::offer(None), resumes: None };
        answering.handle_message(line, call, CallId([1; 16]), NOW);
        let accepted = core::iter::from_fn(|| answering.step()).find_map(|step| match step {
            AnsweringStep::Say(_, CallMessage::Accepted { terms, .. }) => Some(terms.redundancy),
            _ => None,
        });
        assert_eq!(accepted, Some(known), "version {version}");
    }
}

#[test]
fn older_peer_gets_no_latency_range() {
    let far = CallLatency::Auto { maximum: Span::from_millis(80) };
    for version in 2..MAX_VERSION {
        let mut caller = CallerEnd::new(offer(Some(far)), NOW);
        assert_eq!(dialled(&mut caller, version, NOW).latency, None, "version {version}");
        let (mut caller, terms) = calling(version);
        let requested = caller.change(CallTerms { latency: far, ..terms.clone() });
        assert_eq!(requested, Err(NotAsked::Older), "version {version}");
        caller.change(CallTerms { latency: CallLatency::AUTO, ..terms }).unwrap();
        let mut answering = Answering::new(offer(Some(far)), vec![7_000]);
        answering.arrived(ConnectionId(1), [1; 32], NOW);
        let call = CallMessage::Call { version, offer: offer(None), resumes: None };
        answering.handle_message(ConnectionId(1), call, CallId([1; 16]), NOW);
        let mut steps = core::iter::from_fn(|| answering.step());
        let accepted = steps.find_map(|step| match step {
            AnsweringStep::Say(_, CallMessage::Accepted { terms, .. }) => Some(terms.latency),
            _ => None,
        });
        assert_eq!(accepted, Some(CallLatency::AUTO), "version {version}");
    }
    let mut caller = CallerEnd::new(offer(Some(far)), NOW);
    assert_eq!(dialled(&mut caller, CALL_VERSION, NOW).latency, Some(far));
}
