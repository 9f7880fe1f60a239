//! Requests every possible change, encoded as on the wire.

use tautline_dsp::format::SampleFormat;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, ConnectionId};
use tautline_proto::call::caller::{CallerEnd, CallerStep, NotAsked};
use tautline_proto::call::message::{CALL_VERSION, CallMessage};
use tautline_proto::call::terms::{
    CallOffer, CallPath, CallTerms, MAX_LISTED, StreamAbilities, StreamTerms,
};
use tautline_proto::stream::{Coding, DEFAULT_PTIMES, PTIME_RANGE};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use super::*;

const LINE: ConnectionId = ConnectionId(1);

struct SoundingCall {
    caller: CallerEnd,
    called: Answering,
    now: LocalTime,
}

impl SoundingCall {
    fn new(rate: Rate, channels: Channels) -> Self {
        let codings: Vec<_> = [SampleFormat::L24.into()].into_iter().chain(Coding::ALL).collect();
        assert!(codings.len() <= MAX_LISTED);
        let abilities = StreamAbilities {
            rates: vec![rate],
            channels: vec![channels],
            codings,
            ptimes: (Span::from_micros(250), PTIME_RANGE.1),
            takes: None,
        };
        let (there, back) = (abilities.clone(), abilities);
        let offer = CallOffer {
            there,
            back,
            paths: vec![CallPath::Udp],
            latency: None,
            adapts: None,
            redundancy: None,
        };
        let now = LocalTime::ZERO + Span::from_secs(1);
        let mut caller = CallerEnd::new(offer.clone(), now);
        let mut called = Answering::new(offer, vec![7_000]);
        caller.poll(now);
        called.arrived(LINE, [1; 32], now);
        caller.connected(CALL_VERSION, now);
        let mut call = Self { caller, called, now };
        call.talk();
        assert!(call.caller.call().is_some_and(|call| call.terms.sound()));
        call
    }

    fn talk(&mut self) -> Option<CallMessage> {
        let mut answer = None;
        while let Some(step) = self.caller.step() {
            if let CallerStep::Say(message) = step {
                answer = Some(self.emit(&message)?);
                self.caller.handle_message(answer.clone()?, self.now);
            }
        }
        answer
    }

    fn emit(&mut self, message: &CallMessage) -> Option<CallMessage> {
        let through = |message: &CallMessage| {
            let line = written(message);
            read(line.strip_suffix(b"\n")?).ok()
        };
        // Stays within the rate limit.
        self.now += Span::from_secs(1);
        self.called.handle_message(LINE, through(message)?, CallId([1; 16]), self.now);
        let mut answer = None;
        while let Some(step) = self.called.step() {
            match step {
                AnsweringStep::Say(_, message) => answer = through(&message),
                AnsweringStep::Close(_) | AnsweringStep::End { .. } => return None,
                _ => {}
            }
        }
        answer
    }
}

#[test]
fn no_requested_format_closes_the_connection() {
    let lengths = [0, 1, 125, 999, 3_000, 7_000, 15_000, 20_001].map(Span::from_micros);
    let (mut taken, mut kept, mut unsaid) = (0, 0, 0);
    for rate in Rate::SUPPORTED.map(|hertz| Rate::new(hertz).unwrap()) {
        for channels in [1, 2, 6, 64].map(|count| Channels::new(count).unwrap()) {
            let mut call = SoundingCall::new(rate, channels);
            let terms = call.caller.call().unwrap().terms.clone();
            for coding in Coding::ALL {
                for ptime in DEFAULT_PTIMES.into_iter().chain(lengths) {
                    let coding = coding.usual_for(channels);
                    let stream = StreamTerms { coding, ptime, ..terms.there };
                    let wanted = CallTerms { there: stream, back: stream, ..terms.clone() };
                    let what = format!("{} {rate} {channels} {ptime}", coding.name());
                    match call.caller.change(wanted.clone()) {
                        Ok(()) => match call.talk() {
                            Some(CallMessage::Changed(changed)) => {
                                taken += 1;
                                assert_eq!(changed, wanted, "{what}");
                            }
                            Some(CallMessage::Kept(why)) => {
                                kept += 1;
                                assert!(why.as_str().contains("unsupported"), "{what}: {why:?}");
                            }
                            other => panic!("{what}: {other:?}"),
                        },
                        Err(NotAsked::NoPackets(why)) => {
                            unsaid += 1;
                            assert!(why.to_string().contains("\nhint: "), "{what}: {why}");
                        }
                        Err(not) => panic!("{what}: {not:?}"),
                    }
                    // An older version may request it.
                    let answer = call.emit(&CallMessage::Change(wanted));
                    assert!(
                        matches!(answer, Some(CallMessage::Changed(_) | CallMessage::Kept(_))),
                        "{what}: {answer:?}"
                    );
                }
            }
        }
    }
    assert!(taken > 1_000 && kept > 100 && unsaid > 1_000, "{taken} {kept} {unsaid}");
}
