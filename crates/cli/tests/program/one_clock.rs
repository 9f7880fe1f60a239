//! Both ends go by one clock, and know it: nothing is resampled, whoever joins when.

use std::collections::VecDeque;

use crate::common::host::timed;
use crate::common::jack::Server;
use crate::common::program::{Running, taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, Onlooker, PATIENT, loopback};

/// Receivers that run at once, and joins in all.
const AT_ONCE: usize = 12;
const JOINS: usize = 50;

/// Milliseconds to the next join: any, by a sequence that is the same every time (Knuth's MMIX).
fn pause(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    50 + (*state >> 33) as u32 % 500
}

/// From one second after its first sound on, what was heard is a piece of what was sent; `told` is what is
/// known beside it.
pub(crate) fn is_copied(heard: &Sound, sent: &Sound, told: &str) {
    let begins = heard.begins().expect("nothing but silence was heard");
    let heard = &heard.samples[begins + 48_000..];
    assert!(heard.len() > 12_000, "only {} frames were heard after the first second", heard.len());
    let at = sent.samples.windows(16).position(|piece| *piece == heard[..16]);
    let at = at.expect("what was heard after the first second was not sent");
    let wrong = heard.iter().zip(&sent.samples[at..]).position(|(heard, sent)| heard != sent);
    assert_eq!(wrong, None, "of {} frames, {told}", heard.len());
}

fn join_fifty() {
    let folder = Folder::new();
    let sent = Sound::noise(Shape { channels: 1, ..Shape::STEREO_24 }, 100_000, 31);
    sent.write(&folder.file("sent.wav"));
    let (onlooker, addresses) = (Onlooker::new(), [(); AT_ONCE].map(|()| loopback()));
    let mut send = taut(words("send --input file:sent.wav --ptime 5ms --to"));
    send = send.and([onlooker.address()]);
    for address in &addresses {
        send = send.and(["--to", address]);
    }
    let send = send.and(PATIENT).in_folder(folder.path()).controlled().start();
    let check = |(number, recv): (usize, Running)| {
        let report = recv.end().report();
        let told = format!("join {number}: {:#}", report.0);
        assert_eq!(report.count("resampled_frames"), 0, "{told}");
        assert!(report.stream("/drift_ppm").is_null(), "{told}");
        is_copied(&Sound::read(&folder.file(&format!("{number}.wav"))), &sent, &told);
    };
    let (mut running, mut state) = (VecDeque::new(), 7);
    for (number, address) in addresses.iter().cycle().take(JOINS).enumerate() {
        if running.len() == AT_ONCE {
            running.pop_front().into_iter().for_each(check);
        }
        onlooker.hear(pause(&mut state));
        let recv = format!(
            "recv --from {address} --output file:{number}.wav --duration 2500ms --rate 48000 \
             --channels 1 --report json"
        );
        let recv = taut(words(&recv)).and(PATIENT).in_folder(folder.path()).start();
        running.push_back((number, recv));
    }
    running.into_iter().for_each(check);
    send.ask("quit", "ok").end().well();
}

/// Tests that run alone (decision 25).
mod exclusive {
    use super::*;

    #[test]
    fn fifty_receivers_that_join_at_random_instants_hear_every_bit_from_the_first_second() {
        // Frames that were not sent were heard 2.4 s in, in one of 60 runs beside builds that kept the host busy.
        timed(join_fifty);
    }

    #[test]
    fn two_ends_at_one_jack_server_resample_nothing() {
        // A server that stalls is replaced by a timer, which is another clock.
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
            onlooker.hear(6000);
            send.ask("quit", "ok").end().well();
            let report = recv.ask("quit", "ok").end().report();
            assert_eq!(report.stream("/clock/source"), "host", "{:#}", report.0);
            assert_eq!(report.count("resampled_frames"), 0, "{:#}", report.0);
            assert!(report.stream("/drift_ppm").is_null(), "{:#}", report.0);
        });
    }
}
