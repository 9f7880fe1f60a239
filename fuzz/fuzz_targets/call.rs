//! What comes on the control connection of a call: a line that is read says the same when it is written again, and
//! whatever is said in whatever order, the end that is called grows no memory by it and holds no more calls than it may.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_api::call::{LineBuffer, MOST_LINE, read, written};
use tautline_dsp::format::SampleFormat;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, LineId};
use tautline_proto::call::caller::CallerEnd;
use tautline_proto::call::message::CALL_VERSION;
use tautline_proto::call::terms::{CallOffer, CallPath, StreamAbilities};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

fn offer() -> CallOffer {
    let abilities = StreamAbilities {
        rates: vec![Rate::HZ_48000],
        channels: vec![Channels::STEREO],
        codings: vec![SampleFormat::L24.into(), SampleFormat::L16.into()],
        ptimes: (Span::from_millis(1), Span::from_millis(20)),
        takes: None,
    };
    let paths = vec![CallPath::Udp, CallPath::Tcp];
    CallOffer { there: abilities.clone(), back: abilities, paths, latency: None }
}

fuzz_target!(|bytes: &[u8]| {
    let mut messages = Vec::new();
    let mut lines = LineBuffer::default();
    let taken = lines.take(bytes, |line| {
        assert!(line.len() <= MOST_LINE);
        if let Ok(message) = read(line) {
            let again = written(&message);
            assert_eq!(read(&again[..again.len() - 1]), Ok(message.clone()));
            messages.push(message);
        }
    });
    assert!(taken.is_ok() || bytes.len() > MOST_LINE);
    let start = LocalTime::ZERO + Span::from_secs(1);
    let mut answering = Answering::new(offer(), vec![7_000, 7_001]);
    let mut caller = CallerEnd::new(offer(), start);
    caller.poll(start);
    caller.connected(CALL_VERSION, start);
    for (number, message) in messages.into_iter().enumerate() {
        let now = start + Span::from_millis(number as i64 * 37);
        let line = LineId(number as u64 % 3);
        if number < 3 {
            answering.came(line, [number as u8 % 2; 32], now);
        }
        answering.said(line, message.clone(), CallId([number as u8; 16]), now);
        answering.poll(now);
        let answers = core::iter::from_fn(|| answering.step()).count();
        assert!(answers < 16 && answering.calls() <= 2);
        if number % 5 == 4 {
            answering.gone(line, now);
            while answering.step().is_some_and(|step| !matches!(step, AnsweringStep::Close(_))) {}
        }
        caller.said(message, now);
        caller.poll(now);
        assert!(core::iter::from_fn(|| caller.step()).count() < 8);
    }
});
