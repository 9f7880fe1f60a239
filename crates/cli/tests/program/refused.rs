//! Invalid command lines: rejected with a hint before anything runs.

use crate::common::Folder;
use crate::common::program::{taut, words};
use crate::errors::is_refused;

#[track_caller]
fn are_refused(begin: &str, lines: &[&str]) {
    let folder = Folder::new();
    for line in lines {
        is_refused(&taut(words(&format!("{begin} {line}"))).in_folder(folder.path()), 2);
    }
}

#[test]
fn streams_that_cannot_be_are_refused() {
    are_refused(
        "send --to rtp://127.0.0.1:5004",
        &[
            "--input null: --rate 47000",
            "--input tone:440 --ptime 30ms",
            "--input tone:440 --latency 1ms --ptime 5ms",
            "--input tone:440 --latency 5",
            "--input tone:440 --latency -5ms",
            "--input tone:440 --latency 0ms",
            "--input tone:440 --ptime 20ms --channels 64 --format f32",
            "--input tone:440 --latncy 5ms",
            "--input null: --exit-on-bye",
            "--input file:- --control",
            "--input jack:x?port=1",
            // Unsupported by the codec.
            "--input tone:440 --format opus --rate 44100",
            "--input tone:440 --format opus --channels 6",
            "--input tone:440 --format opus --ptime 1ms",
            "--input tone:440 --format opus-voice --ptime 5ms",
            "--input tone:440 --format opus --ptime 2.5ms --bitrate 6k",
            "--input tone:440 --format l24 --bitrate 96k",
            // Redundancy without effect, and limits without redundancy.
            "--input tone:440 --redundancy-budget 10ms",
            "--input tone:440 --redundancy red:1 --no-header-extensions",
            "--input tone:440 --redundancy red:1 --latency 4ms",
            "--input tone:440 --redundancy red:1 --latency 4ms --redundancy-budget 10ms",
            "--input tone:440 --redundancy red:1 --redundancy-budget 500us",
            "--input tone:440 --redundancy-limit 2",
            "--input null: --packet-log x.csv --sample-packets 64",
            "--input null: --sample-packets 63",
        ],
    );
    are_refused(
        "recv --output null:",
        &[
            "--from 127.0.0.1:5004",
            "--from rtp://127.0.0.1:65535",
            "--from rtp://127.0.0.1:5004 --latency 1ms",
            "--from rtp://127.0.0.1:5004 --packet-log x.csv --sample-packets 64",
            "--from rtp://127.0.0.1:5004 --sample-packets 63",
            "--from rtp://127.0.0.1:5004 --labels",
            // AVTP has no goodbye.
            "--from rtp://127.0.0.1:5004 --from avtp://lo/91:e0:f0:00:fe:01 --exit-on-bye",
            // A clock that cannot be followed.
            "--from avtp+udp://127.0.0.1 --clock rtp://10.0.0.1:5004",
            "--from avtp+udp://127.0.0.1 --clock ptp",
            "--from avtp+udp://127.0.0.1 --clock avtp://eth0",
            "--from avtp+udp://127.0.0.1 --clock avtp://eth0/91:E0:F0:00:FE:08?volume=-6dB",
            "--from avtp+udp://127.0.0.1 --clock avtp+udp://*?senders=all",
            "--from avtp+udp://127.0.0.1 --clock avtp+udp://*?streamid=7",
            "--from rtp://127.0.0.1:5004 --clock avtp+udp://*",
        ],
    );
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    are_refused(
        "send --input null: --duration 1s",
        &[
            // Different options for one socket.
            "--to rtp://239.69.77.3:5004?iface=lo --to rtp://239.69.77.3:5004?iface=eth7",
            "--to rtp://239.69.77.3:5004?iface=lo --to rtp://239.69.77.3:5004",
            "--to rtp://239.69.77.3:5004?ttl=4 --to rtp://239.69.77.3:5004?ttl=5",
            "--to rtp://239.69.77.3:5004 --to rtp://239.69.77.3:5004?ttl=4",
            "--to rtp://239.69.77.3:5004?loop=0 --to rtp://239.69.77.3:5004?loop=1",
            "--to rtp://127.0.0.1:5004?iface=lo --to rtp://127.0.0.1:5006",
            // A host uses the routing table, a group its interface.
            "--to rtp://239.69.77.3:5004?iface=lo --to rtp://127.0.0.1:5004?iface=lo",
            "--to rtp://0.0.0.0:5004",
            "--to rtp://127.0.0.1:5004 --to rtp://[::]:5004",
            "--to rtp+tcp://*:5004",
            "--to rtp://127.0.0.1:5004?ttl=4",
            "--to rtp://127.0.0.1:5004?loop=0",
            // These have no meaning for AVTP.
            "--to avtp://lo/91:E0:F0:00:FE:01 --dscp 34",
            "--to avtp://lo/91:E0:F0:00:FE:01 --no-header-extensions",
            "--to avtp+udp://127.0.0.1 --no-header-extensions",
            "--to avtp+udp://127.0.0.1 --rate 11025",
            "--to avtp+udp://127.0.0.1 --redundancy auto",
            "--to avtp+udp://127.0.0.1 --redundancy fec:1",
            "--to avtp+udp://127.0.0.1 --redundancy red:1",
            "--to avtp://lo/91:e0:f0:00:fe:01 --redundancy paths:lo,eth0",
            // Presentation times reach less far.
            "--to avtp://lo/91:e0:f0:00:fe:01 --latency 3s",
            "--to avtp://lo/91:e0:f0:00:fe:01 --max-transit-time 3s",
            "--to avtp://lo/91:e0:f0:00:fe:01 --max-transit-time 1ms --time-uncertainty 3s",
            "--to avtp+udp://127.0.0.1 --latency 3s",
            "--to avtp+udp://127.0.0.1 --max-transit-time 3s",
            "--to avtp+udp://127.0.0.1 --max-transit-time 1ms --time-uncertainty 3s",
        ],
    );
}

#[test]
fn unknown_options_and_commands_suggest_similar_ones() {
    are_refused(
        "",
        &[
            "send",
            "send song.flac",
            "send --input null: 10.0.0.2:5004",
            "send --output null: --to rtp://10.0.0.2:5004",
            "send --input null: --from rtp://10.0.0.2:5004",
            "recv heard.wav",
            "recv rtp://0.0.0.0:5004",
            "recv alsa:hw:0",
            "recv --input null: --from rtp://0.0.0.0:5004",
            "recv --to=rtp://0.0.0.0:5004 --output null:",
            "recv -t rtp://0.0.0.0:5004 --output null:",
            "stream song.flac",
            "call 127.0.0.1 studio=127.0.0.1:17240 --output null:",
            "devices --report html",
            "doctor --latency 5",
            "doctor --ptime 21ms",
            "doctor --rate 12000",
        ],
    );
}

#[test]
fn experiments_that_cannot_be_are_refused() {
    are_refused(
        "lab",
        &[
            "dely",
            "all --only sent",
            "stages --input song.wav",
            "stages --latency 1ms",
            "stages --latency -5ms",
            "latency-sweep --output oss:dsp",
            "schedulers --latency 4ms --period 192",
            // These would run forever.
            "delay --output virtual: --input virtual:?period=96",
            "delay --output null: --input null: --channel 3",
            "delay --output file:- --input null:",
            "delay --output virtual:?delay=1ms --input null:",
            "delay --output virtual:?cable=../x --input null:",
            "delay --output virtual:?cable=x&loopback=3 --input null:",
            "callback-jitter",
            "callback-jitter --output file:-",
            "resources --interval 1ms",
            "interval --report none",
            "min-latency --max-latency 2ms",
            "min-latency --first 2ms",
            "min-latency --step 500ns",
            "min-latency --max-latency 6s",
            "capacity --workers 32",
            "capacity --workers-here --work burst",
            "capacity --grid paper --workers 3",
            "capacity --jack --workers 0 --scheduler rr:80",
            "impair --listen 127.0.0.1:6004 --to 127.0.0.1:5004 --preset wlan",
            "impair --listen 127.0.0.1:6004 --to 127.0.0.1:5004 --burst 0",
            "impair --listen 127.0.0.1:6004 --to 127.0.0.1:5004 --burst 3",
            // A relay to itself.
            "impair --listen 127.0.0.1:6004 --to 127.0.0.1:6004 --duration 1s",
            "impair --listen 127.0.0.1:6004 --to 127.0.0.1:6005 --duration 1s",
            "impair --listen 127.0.0.1:6004 --to 127.0.0.1:6003 --duration 1s",
            "impair --listen 0.0.0.0:6004 --to 127.0.0.1:6004 --duration 1s",
            "impair --listen 127.0.0.1:6004 --to 0.0.0.0:6004 --duration 1s",
            "impair --listen 239.69.1.1:6004 --to 239.69.1.1:6004 --duration 1s",
        ],
    );
}
