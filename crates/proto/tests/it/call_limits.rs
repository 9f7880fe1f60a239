use tautline_trial::snapshot;

use crate::offers;

use tautline_dsp::format::SampleFormat;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, CallLimits, ConnectionId};
use tautline_proto::call::caller::{CallOver, CallerEnd, CallerStep};
use tautline_proto::call::message::{CALL_VERSION, CallMessage, CallReason};
use tautline_proto::call::terms::{CallOffer, CallPath, CallTerms};
use tautline_proto::time::{LocalTime, Span};

fn offer() -> CallOffer {
    offers::offer(&[SampleFormat::L24])
}

fn steps(answering: &mut Answering) -> Vec<AnsweringStep> {
    core::iter::from_fn(|| answering.step()).collect()
}

/// A called end with limits. Each call of the peer has its own line.
struct Limited(Answering, LocalTime, u64);

impl Limited {
    fn new(places: u16, limits: CallLimits) -> Self {
        let answering = Answering::new(offer(), (1..=places).collect()).limited(limits);
        Self(answering, LocalTime::ZERO + Span::from_secs(1), 0)
    }

    fn answer(&mut self, message: CallMessage) -> Result<(), String> {
        let Self(answering, now, line) = self;
        answering.handle_message(ConnectionId(*line), message, CallId([*line as u8; 16]), *now);
        for step in steps(answering) {
            match step {
                AnsweringStep::Say(_, CallMessage::Accepted { .. } | CallMessage::Changed(_)) => {}
                AnsweringStep::Say(_, CallMessage::Refused(why) | CallMessage::Kept(why)) => {
                    return Err(why.as_str().to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn call(&mut self, peer: u8, paths: &[CallPath]) -> Result<(), String> {
        self.2 += 1;
        self.0.arrived(ConnectionId(self.2), [peer; 32], self.1);
        let offer = CallOffer { paths: paths.to_vec(), ..offer() };
        self.answer(CallMessage::Call { version: CALL_VERSION, offer, resumes: None })
    }
}

#[test]
fn peer_gets_half_the_places_localhost_all() {
    for (places, maximum) in [(1, 1), (2, 1), (5, 3), (8, 4)] {
        let limits = CallLimits::of(places, places, Some([9; 32]));
        let mut called = Limited::new(places as u16, limits);
        let had = (0..places).filter(|_| called.call(1, &[CallPath::Udp]).is_ok()).count();
        assert_eq!(had, maximum, "of {places}");
        if places > 1 {
            let refused = called.call(1, &[CallPath::Udp]).unwrap_err();
            snapshot!(refused);
            assert_eq!(called.call(2, &[CallPath::Udp]), Ok(()), "another peer has its place");
        }
        let mut called = Limited::new(places as u16, limits);
        assert!((0..places).all(|_| called.call(9, &[CallPath::Udp]).is_ok()), "its own");
    }
}

#[test]
fn per_peer_limits_leave_room_for_another_peer() {
    for (each, maximum) in [(0, 1), (1, 1), (3, 3), (7, 7)] {
        let limits = CallLimits::of(8, 8, None).each(Some(each));
        let mut called = Limited::new(8, limits);
        let had = (0..8).filter(|_| called.call(1, &[CallPath::Udp]).is_ok()).count();
        assert_eq!(had, maximum, "{each} each");
        let refused = called.call(1, &[]).unwrap_err();
        let why = format!("{maximum} of 8 calls are with your machine");
        assert!(refused.contains(&why) && refused.contains("--max-calls-per-host"), "{refused}");
        assert_eq!(called.call(2, &[CallPath::Udp]), Ok(()), "another peer has its place");
    }
    // Per peer, the total limit holds too.
    let mut called = Limited::new(8, CallLimits::of(8, 2, None).each(Some(4)));
    let had = (0..4).filter(|_| called.call(1, &[CallPath::Udp]).is_ok()).count();
    assert_eq!((had, called.call(1, &[])), (2, Ok(())));
    assert_eq!(CallLimits::of(8, 8, None).each(None), CallLimits::of(8, 8, None));
}

#[test]
fn silent_call_uses_no_sounding_place_until_it_gets_one() {
    let limits = CallLimits { sounding: 1, of_a_peer: 4, sounding_of_a_peer: 1, own: None };
    let mut called = Limited::new(4, limits);
    assert_eq!(called.call(1, &[CallPath::Udp]), Ok(()));
    let refused = called.call(2, &[CallPath::Udp]).unwrap_err();
    snapshot!(refused);
    assert_eq!(called.call(2, &[]), Ok(()), "a line");
    let quiet = CallOffer { paths: Vec::new(), ..offer() }.choose(&offer()).unwrap();
    let sounds = offer().choose(&offer()).unwrap();
    let kept = called.answer(CallMessage::Change(sounds.clone())).unwrap_err();
    snapshot!(kept);
    let second = core::mem::replace(&mut called.2, 1);
    assert_eq!(called.answer(CallMessage::Change(quiet)), Ok(()), "the first is held");
    called.2 = second;
    assert_eq!(called.answer(CallMessage::Change(sounds)), Ok(()));
}

#[test]
fn only_the_caller_resumes_a_held_call() {
    let (now, quiet) = (LocalTime::ZERO + Span::from_secs(1), Vec::new());
    let sounds = offer().choose(&offer()).unwrap();
    let without = CallTerms { paths: quiet, ..sounds.clone() };
    let steps =
        |caller: &mut CallerEnd| -> Vec<_> { core::iter::from_fn(|| caller.step()).collect() };
    let begun = |terms: &CallTerms| {
        let mut caller = CallerEnd::new(offer(), now).held(true);
        caller.poll(now);
        caller.connected(CALL_VERSION, now);
        let terms = terms.clone();
        caller.handle_message(
            CallMessage::Accepted { call: CallId([1; 16]), terms, udp_port: 1 },
            now,
        );
        caller
    };
    let said = steps(&mut begun(&sounds));
    assert!(matches!(said.last(), Some(CallerStep::Over(CallOver::Refused(_)))), "{said:?}");
    let mut caller = begun(&without);
    assert!(matches!(steps(&mut caller).last(), Some(CallerStep::Begin(_))));
    let mut again = begun(&without);
    again.line_lost(now);
    again.poll(now + Span::from_secs(1));
    again.connected(CALL_VERSION, now);
    steps(&mut again);
    let (call, terms) = (CallId([2; 16]), sounds.clone());
    again.handle_message(CallMessage::Accepted { call, terms, udp_port: 1 }, now);
    let said = steps(&mut again);
    assert!(matches!(said.last(), Some(CallerStep::Over(CallOver::Refused(_)))), "{said:?}");
    caller.handle_message(CallMessage::Changed(sounds.clone()), now);
    assert_eq!(steps(&mut caller), [], "it was not asked for");
    caller.change(sounds.clone()).unwrap();
    caller.handle_message(CallMessage::Changed(sounds.clone()), now);
    assert_eq!(steps(&mut caller).last(), Some(&CallerStep::Change(sounds.clone())));
    caller.change(without.clone()).unwrap();
    caller.handle_message(CallMessage::Changed(without.clone()), now);
    assert_eq!(steps(&mut caller).last(), Some(&CallerStep::Change(without.clone())));
    caller.change(sounds.clone()).unwrap();
    caller.handle_message(CallMessage::Changed(sounds), now);
    caller.handle_message(CallMessage::Changed(without), now);
    let said = steps(&mut caller);
    assert!(matches!(said.last(), Some(CallerStep::Over(CallOver::Refused(_)))), "{said:?}");
}

#[test]
fn hold_before_the_call_starts_it_without_sound() {
    let now = LocalTime::ZERO + Span::from_secs(1);
    let mut caller = CallerEnd::new(offer(), now);
    caller.poll(now);
    assert!(caller.begins_held(true), "it dials");
    caller.connected(CALL_VERSION, now);
    let said = core::iter::from_fn(|| caller.step()).last();
    let Some(CallerStep::Say(CallMessage::Call { offer: said, .. })) = said else {
        panic!("{said:?}")
    };
    assert!(said.paths.is_empty());
    assert!(!caller.begins_held(false), "requested, but not answered yet");
    let terms = said.choose(&offer()).unwrap();
    caller.handle_message(CallMessage::Accepted { call: CallId([1; 16]), terms, udp_port: 1 }, now);
    let begun = core::iter::from_fn(|| caller.step()).last();
    assert!(matches!(begun, Some(CallerStep::Begin(_))), "{begun:?}");
    assert!(!caller.begins_held(false), "there is a call");
}

#[test]
fn one_peer_has_half_of_the_sound_and_lines_beside() {
    let limits = CallLimits { of_a_peer: 4, ..CallLimits::of(8, 2, None) };
    let mut called = Limited::new(8, limits);
    assert_eq!(called.call(1, &[CallPath::Udp]), Ok(()));
    let refused = called.call(1, &[CallPath::Udp]).unwrap_err();
    snapshot!(refused);
    assert_eq!(called.call(1, &[]), Ok(()), "a line");
    let sounds = offer().choose(&offer()).unwrap();
    let kept = called.answer(CallMessage::Change(sounds)).unwrap_err();
    snapshot!(kept);
    assert_eq!(called.call(2, &[CallPath::Udp]), Ok(()), "another peer gets the rest");
}

#[test]
fn revoked_peer_loses_calls_and_lines_others_keep_them() {
    let mut called = Limited::new(4, CallLimits { of_a_peer: 4, ..CallLimits::of(4, 4, None) });
    let calls = [(1, &[CallPath::Udp][..]), (2, &[CallPath::Udp]), (1, &[]), (1, &[CallPath::Udp])];
    for (peer, paths) in calls {
        assert_eq!(called.call(peer, paths), Ok(()));
    }
    let Limited(mut answering, now, _) = called;
    answering.gone(ConnectionId(4), now);
    for (line, peer) in [(5, 1), (6, 2)] {
        answering.arrived(ConnectionId(line), [peer; 32], now);
    }
    steps(&mut answering);
    let why = CallReason::new("the caller is trusted no more");
    answering.keep_trusted(|_| true, &why, now);
    assert_eq!(steps(&mut answering), [], "all are");
    answering.keep_trusted(|peer| peer != [1; 32], &why, now);
    let (end, emit) = (
        |place| AnsweringStep::End { place, why: why.clone() },
        |line, message| AnsweringStep::Say(ConnectionId(line), message),
    );
    let bye = || CallMessage::Bye(why.clone());
    let expected = [
        emit(1, bye()),
        AnsweringStep::Close(ConnectionId(1)),
        end(0),
        emit(3, bye()),
        AnsweringStep::Close(ConnectionId(3)),
        end(2),
        end(3),
        emit(5, CallMessage::Refused(why.clone())),
        AnsweringStep::Refused { line: ConnectionId(5), why: why.clone() },
        AnsweringStep::Close(ConnectionId(5)),
    ];
    assert_eq!(steps(&mut answering), expected);
    assert_eq!(answering.calls(), 1);
    answering.handle_message(ConnectionId(2), CallMessage::Ping, CallId([0; 16]), now);
    assert_eq!(steps(&mut answering), [emit(2, CallMessage::Pong)]);
    let call = CallMessage::Call { version: CALL_VERSION, offer: offer(), resumes: None };
    answering.handle_message(ConnectionId(6), call, CallId([6; 16]), now);
    let begins = |step: &AnsweringStep| matches!(step, AnsweringStep::Begin { place: 0, .. });
    assert!(steps(&mut answering).iter().any(begins), "the place is free");
}
