//! Both ends detect their common clock: nothing is resampled, in any order of start.

use crate::common::host::timed;
use crate::common::jack::Server;
use crate::common::program::{taut, words};
use crate::common::sound::Sound;
use crate::common::{Onlooker, loopback};

/// Asserts that, from 1 s after its first sound, the recording is a part of the sent sound.
/// `reported` is context for the message.
pub(crate) fn is_copied(received: &Sound, sent: &Sound, reported: &str) {
    let begins = received.begins().expect("nothing but silence was heard");
    let received = &received.samples[begins + 48_000..];
    assert!(
        received.len() > 12_000,
        "only {} frames were heard after the first second",
        received.len()
    );
    let at = sent.samples.windows(16).position(|piece| *piece == received[..16]);
    let at = at.expect("what was heard after the first second was not sent");
    let wrong =
        received.iter().zip(&sent.samples[at..]).position(|(received, sent)| received != sent);
    assert_eq!(wrong, None, "of {} frames, {reported}", received.len());
}

mod exclusive {
    use super::*;

    #[test]
    fn two_ends_at_one_jack_server_resample_nothing() {
        // A stalled server is replaced by a timer, which is another clock.
        timed(|| {
            let Some(server) = Server::start(256) else { return };
            let (onlooker, address) = (Onlooker::new(), loopback());
            let timing = "--channels 2 --latency 100ms --report json";
            let end = |line: String| taut(words(&line)).controlled().start();
            let output = server.device("hears", "none");
            let recv = format!("recv --from {address} --output {output} --rate 48000 {timing}");
            let recv = end(recv).listening();
            let (input, other) = (server.device("sends", "none"), onlooker.address());
            let send = end(format!("send --input {input} --to {address} --to {other} {timing}"));
            onlooker.handle(6000);
            send.request("quit", "ok").end().well();
            let report = recv.request("quit", "ok").end().report();
            assert_eq!(report.stream("/clock/source"), "host", "{:#}", report.0);
            assert_eq!(report.count("resampled_frames"), 0, "{:#}", report.0);
            assert!(report.stream("/drift_ppm").is_null(), "{:#}", report.0);
        });
    }
}
