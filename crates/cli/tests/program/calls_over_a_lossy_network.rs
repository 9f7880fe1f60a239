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

/// Only the caller requests redundancy. With 1 ms packets, 2 symbols over 64 packets repair any two
/// losses.
#[test]
fn call_with_redundancy_is_bit_exact_both_ways() {
    let _turn = alongside();
    let Some(cable) = Cable::lay() else { return };
    let lossy = |port| {
        format!(
            "table inet taut {{\n chain input {{\n type filter hook input priority 0\n \
             udp {port} 17240 numgen random mod 100 < {PERCENT} counter drop\n }}\n}}\n"
        )
    };
    if !cable.right.rules(&lossy("dport")) || !cable.left.rules(&lossy("sport")) {
        return;
    }
    let (home, folder) = (Folder::new(), Folder::new());
    let id = taut(words("id")).with("TAUT_HOME", home.path()).run().well().out;
    let key = id.split_whitespace().last().unwrap().to_owned();
    taut(words("trust studio")).and([key]).with("TAUT_HOME", home.path()).run().well();
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
