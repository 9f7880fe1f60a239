//! AVTP listeners play from the first received packet, bit for bit, and count each packet.

use crate::common::network::Cable;
use crate::common::program::{taut, words};
use crate::common::report::Report;
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, shared};

/// From the MAAP pool (IEEE 1722-2016, table B.9).
const GROUP: &str = "91:E0:F0:00:FE:0A";

fn lines(folder: &Folder) -> u64 {
    let ledger = std::fs::read_to_string(folder.file("ledger.csv")).unwrap();
    ledger.lines().skip(1).count() as u64
}

/// Each sent packet was received, and played or counted by cause.
#[track_caller]
fn adds_up(folder: &Folder, sent: &Report, report: &Report) {
    let kept_off: u64 = [
        "before_start",
        "underrun_discarded",
        "trace_overflow",
        "too_early",
        "duplicate",
        "on_probation",
    ]
    .map(|name| report.count(name))
    .iter()
    .sum();
    let (received, dropped) = (report.count("packets_received"), report.count("socket_drops"));
    let reported = format!("{} lines, {kept_off} kept off: {:#}", lines(folder), report.0);
    assert_eq!(received + dropped, sent.count("packets_sent"), "{reported}");
    assert_eq!(lines(folder) + kept_off, received, "{reported}");
    assert_eq!(report.count("lost"), dropped, "{reported}");
}

#[test]
fn listener_that_learns_the_format_plays_the_first_packet() {
    // In the second case, the first packets are due before a card can open.
    for (latency, periods) in [("400ms", "240 --periods 32"), ("5ms", "48 --periods 2")] {
        for link in ["no", "yes"] {
            shared(|| {
                let Some(cable) = Cable::lay() else { return };
                let folder = Folder::new();
                let sent = Sound::noise(Shape::STEREO_24, 1000, 5);
                sent.write(&folder.file("sent.wav"));
                let both = format!("--latency {latency} --period {periods} --no-stall-monitor");
                let [to, from] = [&cable.left, &cable.right]
                    .map(|end| format!("avtp://{}/{GROUP}", end.interface));
                let recv = format!(
                    "recv --from {from} --io-thread {link} --output file:heard.wav --duration 3s \
                     --packet-log ledger.csv --report json {both}"
                );
                let recv = taut(words(&recv)).in_folder(folder.path()).within(&cable.right);
                let recv = recv.start().listening();
                let send = format!(
                    "send --input file:sent.wav --to {to} --format l24 --ptime 1ms --report json {both}"
                );
                let send = taut(words(&send)).in_folder(folder.path()).within(&cable.left);
                let reported = send.run().report();
                let report = recv.end().report();
                adds_up(&folder, &reported, &report);
                if latency == "400ms" {
                    report.missed_nothing();
                    assert_eq!(report.count("before_start"), 0, "{:#}", report.0);
                    let received = Sound::read(&folder.file("heard.wav"));
                    let begin = received.begins().unwrap() * sent.shape.channels;
                    let received = &received.samples[begin..begin + sent.samples.len()];
                    assert!(
                        received == sent.samples,
                        "it is heard from its first frame to its last"
                    );
                } else {
                    assert!(report.count("before_start") > 0, "{:#}", report.0);
                }
            });
        }
    }
}
