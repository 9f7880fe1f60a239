//! What cannot be done is answered with one line that has the mend; what is broken is outlived.

mod files;

use std::net::{Ipv4Addr, UdpSocket};

use crate::common::network::Cable;
use crate::common::program::{Call, Ended, taut, words};
use crate::common::report::Report;
use crate::common::said;
use crate::common::sound::{Shape, Sound};
use tautline_trial::snapshot;

use crate::common::{Folder, Onlooker, PATIENT, free_udp_ports, loopback, shared};

/// The program exits with `status` and writes nothing but one line on standard error, which is that of the
/// snapshot.
#[track_caller]
pub(crate) fn is_refused(call: &Call, status: i32) -> String {
    refused(&call.line(), call, status)
}

/// [`is_refused`] of a command line whose message differs with the situation.
#[track_caller]
pub(crate) fn is_refused_when(situation: &str, call: &Call, status: i32) -> String {
    refused(&format!("{situation}: {}", call.line()), call, status)
}

#[track_caller]
fn refused(key: &str, call: &Call, status: i32) -> String {
    let ended = call.run();
    assert_eq!(ended.status, Some(status), "{ended:#?}");
    assert_eq!(ended.out, "");
    let [line] = ended.said.as_slice() else { panic!("not one line: {:#?}", ended.said) };
    assert!(line.starts_with("taut: "), "{line:?}");
    snapshot!(key, line);
    line.clone()
}

fn send(folder: &Folder, options: &str) -> Call {
    let line = format!("send --to rtp://127.0.0.1:5004 {options}");
    taut(words(&line)).in_folder(folder.path())
}

fn recv(folder: &Folder, options: &str) -> Call {
    taut(words("recv")).and(words(options)).in_folder(folder.path())
}

#[test]
fn an_unknown_device_is_answered_with_the_known_ones() {
    let folder = Folder::new();
    is_refused(&send(&folder, "--input oss:dsp"), 2);
    is_refused(&send(&folder, "--input alsa:hw:7"), 3);
}

#[test]
fn a_busy_udp_port_is_answered_with_how_to_find_who_holds_it() {
    let folder = Folder::new();
    for above in [0, 1] {
        let port = free_udp_ports();
        let busy = UdpSocket::bind((Ipv4Addr::LOCALHOST, port + above)).unwrap();
        let call = recv(&folder, &format!("--from rtp://127.0.0.1:{port} --output null:"));
        let line = is_refused_when(&format!("{above} above"), &call, 3);
        let held = busy.local_addr().unwrap().port().to_string();
        assert!(line.contains(&held), "{line}");
    }
}

#[test]
fn a_network_that_is_not_there_is_answered_with_how_to_look() {
    let Some(cable) = Cable::lay() else { return };
    let call = taut(words("send --input tone:440 --to rtp://203.0.113.9:5004"));
    is_refused(&call.within(&cable.left), 3);
    let call = taut(words("recv --output null: --from rtp://10.77.0.2:5004"));
    is_refused(&call.within(&cable.left), 3);
    let call = taut(words("send --input tone:440 --to rtp://no-such-host.invalid:5004"));
    is_refused(&call.within(&cable.left), 3);
}

#[test]
fn an_interface_that_is_not_there_is_answered_with_how_to_list_them() {
    let folder = Folder::new();
    let call = recv(&folder, "--output null: --from rtp://239.69.77.2:5004?iface=nope0");
    is_refused(&call, 3);
}

#[test]
fn an_address_that_is_none_is_answered_with_its_form() {
    let folder = Folder::new();
    is_refused(&recv(&folder, "--output null: --from 127.0.0.1:5004"), 2);
    is_refused(&recv(&folder, "--output null: --from rtp://127.0.0.1:65535"), 2);
}

#[test]
fn a_rate_that_is_not_carried_is_answered_with_all_that_are() {
    let folder = Folder::new();
    let call = send(&folder, "--input null: --rate 47000");
    is_refused(&call, 2);
    let line = "send --input null: --rate 11025 --to avtp+udp://127.0.0.1";
    is_refused(&taut(words(line)), 2);
}

#[test]
fn times_that_cannot_work_are_answered_with_those_that_can() {
    let folder = Folder::new();
    let call = send(&folder, "--input tone:440 --ptime 30ms");
    is_refused(&call, 2);
    let call = send(&folder, "--input tone:440 --latency 1ms --ptime 5ms");
    is_refused(&call, 2);
    let call = recv(&folder, "--from rtp://127.0.0.1:5004 --output null: --latency 1ms");
    is_refused(&call, 2);
    let call = send(&folder, "--input tone:440 --latency 5");
    is_refused(&call, 2);
    for latency in ["-5ms", "0ms"] {
        let call = send(&folder, &format!("--input tone:440 --latency {latency}"));
        is_refused(&call, 2);
    }
}

#[test]
fn the_latency_that_an_error_names_works() {
    let folder = Folder::new();
    for (ptime, period) in [("1ms", 48), ("5ms", 48), ("125us", 12), ("20ms", 240)] {
        let with = |latency: &str| {
            let timing = format!("--ptime {ptime} --period {period} --latency {latency}");
            let from = format!("rtp://127.0.0.1:{}", free_udp_ports());
            recv(&folder, &format!("--from {from} --output null: --duration 1ms {timing}"))
        };
        let refused = with("1us").run();
        let line = refused.said.concat();
        let named = line.split("--latency ").nth(2).and_then(|rest| rest.split(' ').next());
        // It is not refused; nobody sends.
        let ended = with(named.unwrap_or_else(|| panic!("{line}"))).run();
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        assert!(ended.said.concat().contains(said::NOTHING_RECEIVED), "{ended:#?}");
    }
}

#[test]
fn packets_longer_than_the_path_carries_are_refused_or_warned_of() {
    let Some(cable) = Cable::lay() else { return };
    let send = "send --input tone:440 --to rtp://10.77.0.2:5004 --ptime 20ms --duration 50ms";
    let never = taut(words(send)).and(["--fragment", "never"]).within(&cable.left);
    is_refused(&never, 2);
    let ended = taut(words(send)).within(&cable.left).run().well();
    let [line] = ended.said.as_slice() else { panic!("{:#?}", ended.said) };
    // 960 frames of 6 bytes, the headers of RTP, its extension, UDP and IP: 4 pieces of 1480.
    assert!(line.contains(" 4 "), "{line}");
    let named = line.split("--ptime ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let shorter = taut(words(send).into_iter().map(|word| match word.as_str() {
        "20ms" => named.to_owned(),
        _ => word,
    }));
    // Else it would be refused.
    shorter.and(["--fragment", "never"]).within(&cable.left).run().well();
}

#[test]
fn packets_longer_than_any_path_carries_are_refused() {
    let folder = Folder::new();
    let call = send(&folder, "--input tone:440 --ptime 20ms --channels 64 --format f32");
    is_refused(&call, 2);
}

#[test]
fn descriptions_that_are_none_are_refused_however_long() {
    let folder = Folder::new();
    let big = "v=0\r\n".to_owned() + &"a=x:y\r\n".repeat(150_000);
    std::fs::write(folder.file("big.sdp"), big).unwrap();
    std::fs::write(folder.file("prose.sdp"), "Once upon a time").unwrap();
    let from = |name: &str| recv(&folder, &format!("--from {name} --output null:"));
    is_refused(&from("big.sdp"), 3);
    is_refused(&from("prose.sdp"), 3);
    is_refused(&from("missing.sdp"), 3);
}

#[test]
fn a_setting_that_is_none_is_refused_with_its_place() {
    let folder = Folder::new();
    let cases = [
        "latencyy = \"5ms\"",
        "[send]\noutput = \"null:\"",
        "[sned]\nlatency = \"5ms\"",
        "# first\nlatency = = 5",
        "latency = 5.5",
        "latency = 5",
    ];
    for text in cases {
        std::fs::write(folder.file("tautline.toml"), text).unwrap();
        is_refused_when(text, &send(&folder, "--input tone:440"), 2);
    }
}

#[test]
fn a_setting_with_a_bad_value_is_refused_with_its_file_and_section() {
    let folder = Folder::new();
    let cases = ["latency = 5", "[send]\nptime = \"x\"", "to = [\"nowhere\"]"];
    for text in cases {
        std::fs::write(folder.file("tautline.toml"), text).unwrap();
        let call = taut(words("send --input tone:440")).in_folder(folder.path());
        is_refused_when(text, &call, 2);
    }
    // The command line is not blamed on the file.
    std::fs::write(folder.file("tautline.toml"), "latency = \"5ms\"").unwrap();
    let call = send(&folder, "--input tone:440 --latency 5");
    is_refused(&call, 2);
}

#[test]
fn an_experiment_refuses_what_its_programs_would_before_it_begins() {
    for line in [
        "stages --input song.wav",
        "ladder --output oss:dsp",
        "stages --latency 1ms",
        "schedulers --latency 4ms --period 192",
    ] {
        is_refused(&taut(words(&format!("lab {line}"))), 2);
    }
}

#[test]
fn an_option_that_is_none_is_answered_with_the_one_meant() {
    let folder = Folder::new();
    let call = send(&folder, "--input tone:440 --latncy 5ms");
    is_refused(&call, 2);
    let call = taut(words("lab stages --latency -5ms"));
    is_refused(&call, 2);
    for line in [
        "send song.flac",
        "send --input null: 10.0.0.2:5004",
        "recv heard.wav",
        "recv rtp://0.0.0.0:5004",
        "recv alsa:hw:0",
        "play song.flac",
        "lab dely",
    ] {
        is_refused(&taut(words(line)).in_folder(folder.path()), 2);
    }
    let call = taut(words("send"));
    is_refused(&call, 2);
}

#[test]
fn a_stream_of_another_shape_is_told_of_with_the_options_that_fit() {
    shared(|| {
        let folder = Folder::new();
        let shape = Shape { rate: 44_100, channels: 1, ..Shape::STEREO_24 };
        let sent = Sound::noise(shape, 300, 10);
        sent.write(&folder.file("sent.wav"));
        let carry = |options: &str| {
            let address = loopback();
            let recv = format!(
                "--from {address} --output file:heard.wav --until-bye --report json {options}"
            );
            let recv = self::recv(&folder, &recv).and(PATIENT).start().listening();
            let send = taut(words(&format!("send --input file:sent.wav --to {address}")));
            send.and(PATIENT).in_folder(folder.path()).run().well();
            recv.end()
        };
        let refused = carry("--rate 48000 --channels 2");
        let fitting = "--rate 44100 --channels 1";
        assert_eq!(refused.status, Some(1), "{refused:#?}");
        assert!(
            refused.said.last().is_some_and(|line| line.ends_with(fitting)),
            "{:#?}",
            refused.said
        );
        let report = Report(serde_json::from_str(&refused.out).unwrap());
        assert!(report.notes().iter().any(|note| note.ends_with(fitting)), "{:?}", report.notes());
        carry(&format!("{fitting} --overwrite")).well();
        Sound::read(&folder.file("heard.wav")).is_exactly(&sent);
        // Where nothing is said the sender's word is taken.
        carry("--overwrite").well();
        Sound::read(&folder.file("heard.wav")).is_exactly(&sent);
    });
}

/// Datagrams that are no packets of the stream, each with the reason for which it is refused.
fn garbage(seed: u8) -> Vec<u8> {
    (0..40).map(|index: u8| index.wrapping_mul(31) ^ seed).collect()
}

#[test]
fn garbage_is_counted_with_its_reason_and_the_sound_stays_whole() {
    shared(|| {
        let folder = Folder::new();
        // Longer than all of it takes to be thrown: who has ended refuses nothing.
        let sent = Sound::noise(Shape::STEREO_24, 1500, 9);
        sent.write(&folder.file("sent.wav"));
        let (port, onlooker) = (free_udp_ports(), Onlooker::new());
        let recv = format!(
            "--from rtp://127.0.0.1:{port} --output file:heard.wav --until-bye --report json"
        );
        let recv = self::recv(&folder, &recv).and(PATIENT).start().listening();
        let send = format!(
            "send --input file:sent.wav --to rtp://127.0.0.1:{port} --to {}",
            onlooker.address()
        );
        let send = taut(words(&send)).and(PATIENT).in_folder(folder.path()).start();
        let thrower = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let throw = |bytes: &[u8], port: u16| {
            thrower.send_to(bytes, (Ipv4Addr::LOCALHOST, port)).unwrap();
        };
        for round in 0..50 {
            onlooker.see(10);
            throw(&[], port);
            throw(&[0x80, 97], port);
            throw(&garbage(round), port);
            // A packet of version 2 whose payload type belongs to somebody else.
            throw(&[[0x80, 33].as_slice(), &garbage(round)].concat(), port);
            throw(&vec![0x80; 60_000], port);
            throw(&garbage(round), port + 1);
            throw(&[0x80, 200, 0xFF, 0xFF], port + 1);
        }
        send.end().well();
        let ended: Ended = recv.end();
        let report = ended.report();
        report.missed_nothing();
        Sound::read(&folder.file("heard.wav")).is_exactly(&sent);
        assert!(report.refused("report") >= 100, "{:#}", report.0);
        let refused: u64 = report
            .stream("/invalid")
            .as_array()
            .unwrap()
            .iter()
            .map(|invalid| {
                assert_ne!(invalid["reason"], "", "{:#}", report.0);
                invalid["count"].as_u64().unwrap()
            })
            .sum();
        assert_eq!(report.count("invalid"), refused, "every one has a reason");
        assert!(refused >= 300, "{:#}", report.0);
    });
}

#[test]
fn a_delay_between_devices_that_nothing_joins_is_told_as_such() {
    let line = "lab delay --output null: --input null: --scheduler other --settle 10ms \
                --duration 100ms --report none";
    is_refused(&taut(words(line)), 1);
}

#[test]
fn a_delay_at_a_channel_that_is_not_there_is_refused_before_it_is_measured() {
    // Without an end of its own: it would go on for ever.
    let line = "lab delay --output virtual: --input virtual:?period=96";
    is_refused(&taut(words(line)), 2);
    let line = "lab delay --output null: --input null: --channel 3";
    is_refused(&taut(words(line)), 2);
}

#[test]
fn an_option_of_the_other_end_is_answered_with_that_of_this_one() {
    let folder = Folder::new();
    for line in [
        "recv --input null: --from rtp://0.0.0.0:5004",
        "recv --to=rtp://0.0.0.0:5004 --output null:",
        "recv -t rtp://0.0.0.0:5004 --output null:",
        "send --output null: --to rtp://10.0.0.2:5004",
        "send --input null: --from rtp://10.0.0.2:5004",
        "send --input null: --to rtp://10.0.0.2:5004 --until-bye",
    ] {
        is_refused(&taut(words(line)).in_folder(folder.path()), 2);
    }
}

#[test]
fn a_delay_to_a_device_that_is_not_there_is_answered_with_the_mend() {
    let line = "lab delay --output null: --input alsa:hw:NoSuchCard";
    is_refused(&taut(words(line)), 3);
}

#[test]
fn six_channels_for_a_card_of_two_are_answered_with_what_plays_them() {
    shared(|| {
        let folder = Folder::new();
        // Both channels are those of a PCM that has no more.
        let conf = "pcm.pair { type multi slaves.a { pcm { type null } channels 2 } \
                bindings [ { slave a channel 0 } { slave a channel 1 } ] }\n";
        std::fs::write(folder.file("asound.conf"), conf).unwrap();
        let address = loopback();
        let send = format!("send --input tone:440 --channels 6 --to {address} --report none");
        let _sender = taut(words(&send)).start();
        let recv = |options: &str| {
            recv(&folder, &format!("--from {address} --output alsa:pair --report none {options}"))
                .with("ALSA_CONFIG_PATH", folder.file("asound.conf"))
                .run()
        };
        let last = |ended: &Ended| ended.said.last().cloned().unwrap_or_default();
        let refused = recv("");
        assert_eq!(refused.status, Some(3), "{refused:#?}");
        for part in ["it has 2 channels, not 6", "add --map 1,2, or use alsa:plug:pair"] {
            assert!(last(&refused).contains(part), "{refused:#?}");
        }
        let refused = recv("--channels 2");
        assert_eq!(refused.status, Some(2), "{refused:#?}");
        let advice = "--channels 2, and the stream has 6 channels; leave --channels out";
        assert!(last(&refused).contains(advice), "{refused:#?}");
        // Until it knows what comes it is a part of the run.
        recv("--map 1,2 --duration 2s").well();
        recv("--map 6,- --duration 2s").well();
    });
}
