//! Calls on a network with random loss in both directions.

use crate::common::host::alongside;
use crate::common::messages;
use crate::common::network::Cable;
use crate::common::program::{taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, PATIENT};

/// Frames of ten cycles of 400 Hz at 48 kHz.
const CYCLE: usize = 1_200;
const PERCENT: u32 = 5;

/// Machines that trust each other, on a cable that loses audio in both directions. `None` without
/// the privilege.
fn lossy_network() -> Option<(Cable, Folder, Folder)> {
    let cable = Cable::lay()?;
    let lossy = |port| {
        format!(
            "table inet taut {{\n chain input {{\n type filter hook input priority 0\n \
             udp {port} 17240 numgen random mod 100 < {PERCENT} counter drop\n }}\n}}\n"
        )
    };
    if !cable.right.rules(&lossy("dport")) || !cable.left.rules(&lossy("sport")) {
        return None;
    }
    let (home, folder) = (Folder::new(), Folder::new());
    let id = taut(words("id")).with("TAUT_HOME", home.path()).run().well().out;
    let key = id.split_whitespace().last().unwrap().to_owned();
    taut(words("trust studio")).and([key]).with("TAUT_HOME", home.path()).run().well();
    Some((cable, home, folder))
}

/// Only the caller requests redundancy. With 1 ms packets, 2 symbols over 64 packets repair any two
/// losses.
#[test]
fn call_with_redundancy_is_bit_exact_both_ways() {
    let _turn = alongside();
    let Some((cable, home, folder)) = lossy_network() else { return };
    let mut sent = Sound::noise(Shape::STEREO_24, 3_000, 31);
    sent.write(&folder.file("sent.wav"));
    let line = "serve --listen 0.0.0.0 --ptime 1ms --input tone:400 --output file:caller.wav --report none";
    let serve = taut(words(line)).and(PATIENT).within(&cable.right).listened_to();
    let serve = serve.with("TAUT_HOME", home.path()).in_folder(folder.path());
    let serve = serve.start().wait_for(messages::AWAITS_CALLS);
    let line = format!(
        "call studio={} --ptime 1ms --redundancy fec:2 --transport udp --input file:sent.wav --output file:heard.wav \
         --report none",
        cable.right.address
    );
    let call = taut(words(&line)).and(PATIENT).within(&cable.left);
    call.with("TAUT_HOME", home.path()).in_folder(folder.path()).run().well();
    serve.signal("-TERM");
    serve.end().well();
    let lost = [&cable.left, &cable.right].map(|end| end.lost());
    println!("{lost:?} datagrams were lost");
    assert!(lost.iter().all(|lost| *lost > 75), "{lost:?}");
    let received = Sound::read(&folder.file("caller.wav"));
    // The last 64 ms cannot be repaired.
    sent.samples.truncate(2 * 48 * (3_000 - 64));
    let begins = received.begins().expect("some sound");
    let samples = &received.samples[2 * begins..][..sent.samples.len()];
    let wrong = samples.iter().zip(&sent.samples).position(|(received, sent)| received != sent);
    assert_eq!(wrong, None, "at the machine that is called, of {} samples", samples.len());
    // A tone repeats exactly, except for fades.
    let received = Sound::read(&folder.file("heard.wav"));
    let last = received.samples.iter().rposition(|sample| *sample != 0).expect("some sound");
    let tone = &received.samples[2 * (received.begins().unwrap() + 480)..last - 2 * 48 * 64];
    assert!(tone.len() > 2 * 48_000, "{} samples", tone.len());
    let other = tone.windows(2 * CYCLE + 1).position(|cycle| cycle[0] != cycle[2 * CYCLE]);
    assert_eq!(other, None, "at the caller, of {} samples", tone.len());
}

/// No end requests redundancy.
#[test]
fn default_call_repairs_losses_both_ways_and_reports_them() {
    let _turn = alongside();
    let Some((cable, home, _folder)) = lossy_network() else { return };
    let line = "serve --listen 0.0.0.0 --input tone:400 --output null: --report none";
    let serve = taut(words(line)).and(PATIENT).within(&cable.right).listened_to();
    let serve = serve.with("TAUT_HOME", home.path()).start().wait_for(messages::AWAITS_CALLS);
    let line = format!(
        "call studio={} --transport udp --input tone:400 --output null: --duration 15s --report json",
        cable.right.address
    );
    let call = taut(words(&line)).and(PATIENT).within(&cable.left);
    let call = call.with("TAUT_HOME", home.path()).run().well();
    serve.signal("-TERM");
    serve.end().well();
    for message in [messages::SENT_LOST, messages::RECEIVED_LOST] {
        let said = call.messages.iter().any(|said| said.contains(message));
        assert!(said, "{message}: {:?}", call.messages);
    }
    let report: serde_json::Value = serde_json::from_str(&call.out).unwrap();
    let stream = |direction: usize| &report["directions"][direction]["streams"][0];
    assert_eq!(stream(1)["redundancy"]["requested"], "auto");
    let share = |lost: &serde_json::Value, of: &serde_json::Value| {
        lost.as_f64().unwrap() / of.as_f64().unwrap()
    };
    let lost = [
        share(&stream(0)["counters"]["lost"], &stream(0)["counters"]["packets_received"]),
        share(&stream(1)["receivers"][0]["unrepaired"], &stream(1)["counters"]["packets_sent"]),
    ];
    // From the seventh of 15 seconds on at the latest, copies replace the 5 % that are lost.
    assert!(lost.iter().all(|lost| *lost < 0.035), "{lost:?}");
}
