//! What cannot be done is answered with one line that has the mend; what is broken is outlived.

mod files;

use std::net::{Ipv4Addr, UdpSocket};

use crate::common::network::Cable;
use crate::common::program::{Call, Ended, taut, words};
use crate::common::report::Report;
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, Onlooker, PATIENT, free_udp_ports, loopback, shared};

/// It ends with `status`, writes nothing on standard output, and one line on standard error that
/// holds both what is wrong and the mend.
#[track_caller]
pub(crate) fn is_refused(call: &Call, status: i32, wrong: &str, mend: &str) {
    let ended = call.run();
    assert_eq!(ended.status, Some(status), "{ended:#?}");
    assert_eq!(ended.out, "");
    let [line] = ended.said.as_slice() else { panic!("not one line: {:#?}", ended.said) };
    for part in ["taut: ", wrong, mend] {
        assert!(line.contains(part), "no {part:?} in {line:?}");
    }
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
    let known = "use alsa:PCM, jack:CLIENT, pipewire:NODE, file:PATH, virtual:, programs:, tone:HZ or null:";
    is_refused(&send(&folder, "--input oss:dsp"), 2, "no kind of device called ‘oss’", known);
    is_refused(&send(&folder, "--input alsa:hw:7"), 3, "no such card", "`aplay -L`");
    for (input, meant) in [
        ("song.flac", "use file:song.flac"),
        ("/music/a:b.wav", "use file:/music/a:b.wav"),
        ("tone", "use tone:440"),
        ("null", "use null:"),
        ("hw0", known),
    ] {
        is_refused(&send(&folder, &format!("--input {input}")), 2, "names no kind", meant);
    }
}

#[test]
fn a_busy_udp_port_is_answered_with_how_to_find_who_holds_it() {
    let folder = Folder::new();
    for above in [0, 1] {
        let port = free_udp_ports();
        let busy = UdpSocket::bind((Ipv4Addr::LOCALHOST, port + above)).unwrap();
        let call = recv(&folder, &format!("--from rtp://127.0.0.1:{port} --output null:"));
        let held = format!("holds UDP port {}", busy.local_addr().unwrap().port());
        is_refused(&call, 3, "address already in use", &held);
    }
}

#[test]
fn a_network_that_is_not_there_is_answered_with_how_to_look() {
    let Some(cable) = Cable::lay() else { return };
    let call = taut(words("send --input tone:440 --to rtp://203.0.113.9:5004"));
    is_refused(&call.within(&cable.left), 3, "network is unreachable", "`ip route get`");
    let call = taut(words("recv --output null: --from rtp://10.77.0.2:5004"));
    is_refused(&call.within(&cable.left), 3, "cannot assign", "use an address of this host");
    let call = taut(words("send --input tone:440 --to rtp://no-such-host.invalid:5004"));
    let mend = "check the name or give an IP address";
    is_refused(&call.within(&cable.left), 3, "looking up no-such-host.invalid", mend);
}

#[test]
fn an_interface_that_is_not_there_is_answered_with_how_to_list_them() {
    let folder = Folder::new();
    let call = recv(&folder, "--output null: --from rtp://239.69.77.2:5004?iface=nope0");
    is_refused(&call, 3, "nope0: no such device", "`ip -brief address` lists");
}

#[test]
fn an_address_that_is_none_is_answered_with_its_form() {
    let folder = Folder::new();
    let cases = [
        ("127.0.0.1:5004", "is no address", "write rtp://127.0.0.1:5004"),
        ("127.0.0.1?iface=lo", "is no address", "write rtp://127.0.0.1:5004?iface=lo"),
        ("::1", "is no address", "write rtp://[::1]:5004"),
        ("studio", "is no address", "write rtp://HOST:PORT"),
        ("rtp:/127.0.0.1:5004", "is no address", "write rtp://127.0.0.1:5004"),
        ("rtp:127.0.0.1:5004?iface=lo", "is no address", "write rtp://127.0.0.1:5004?iface=lo"),
        ("rtp:///127.0.0.1:5004", "has a / before", "write rtp://127.0.0.1:5004"),
        ("rtp://127.0.0.1", "has no UDP port", "write rtp://HOST:5004"),
        ("rtp://127.0.0.1:0", "has no UDP port", "write rtp://HOST:5004"),
        ("rtp://127.0.0.1:x", "has no UDP port", "write rtp://HOST:5004"),
        ("rtp://127.0.0.1:65536", "65536 is too large for a UDP port", "write one up to 65534"),
        ("rtp://127.0.0.1:65535", "RTCP needs the UDP port above", "use one below"),
        ("rtp://127.0.0.1:5004?gane=-6dB", "`gane` is unknown", "use iface, source or gain"),
        ("rtp+tcp://127.0.0.1", "has no TCP port", "write rtp+tcp://HOST:5004"),
        ("rtp+tcp://127.0.0.1:5004?ttl=4", "nothing that a connection goes by", "leave it out"),
    ];
    for (address, wrong, mend) in cases {
        let call = recv(&folder, &format!("--output null: --from {address}"));
        is_refused(&call, 2, wrong, mend);
    }
}

#[test]
fn a_rate_that_is_not_carried_is_answered_with_all_that_are() {
    let folder = Folder::new();
    let call = send(&folder, "--input null: --rate 47000");
    is_refused(&call, 2, "47000 Hz is not a rate", "96000, 176400 or 192000");
    let line = "send --input null: --rate 11025 --to avtp+udp://127.0.0.1";
    let all = "use 8000, 16000, 24000, 32000, 44100, 48000, 88200, 96000, 176400 or 192000";
    is_refused(&taut(words(line)), 2, "AVTP has no rate of 11025 Hz", all);
}

#[test]
fn times_that_cannot_work_are_answered_with_those_that_can() {
    let folder = Folder::new();
    let call = send(&folder, "--input tone:440 --ptime 30ms");
    is_refused(&call, 2, "30ms cannot be carried", "use 125us to 20ms");
    let call = send(&folder, "--input tone:440 --latency 1ms --ptime 5ms");
    is_refused(&call, 2, "--latency 1ms is less than", "use --latency 5ms or more");
    let call = recv(&folder, "--from rtp://127.0.0.1:5004 --output null: --latency 1ms");
    is_refused(&call, 2, "--latency 1ms is less than", "use --latency 4ms or more");
    let call = send(&folder, "--input tone:440 --latency 5");
    is_refused(&call, 2, "`5` has no unit", "write 5ms");
    for latency in ["-5ms", "0ms"] {
        let call = send(&folder, &format!("--input tone:440 --latency {latency}"));
        let wrong = format!("`{latency}` is not longer than nothing");
        is_refused(&call, 2, &wrong, "write 5ms or the like, or auto");
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
        assert!(ended.said.concat().contains("nothing was received at"), "{ended:#?}");
    }
}

#[test]
fn packets_longer_than_the_path_carries_are_refused_or_warned_of() {
    let Some(cable) = Cable::lay() else { return };
    let send = "send --input tone:440 --to rtp://10.77.0.2:5004 --ptime 20ms --duration 50ms";
    let never = taut(words(send)).and(["--fragment", "never"]).within(&cable.left);
    is_refused(&never, 2, "longer than the 1500 that the path to 10.77.0.2", "use --ptime ");
    let ended = taut(words(send)).within(&cable.left).run().well();
    let [line] = ended.said.as_slice() else { panic!("{:#?}", ended.said) };
    // 960 frames of 6 bytes, the headers of RTP, its extension, UDP and IP: 4 pieces of 1480.
    assert!(line.contains("goes as 4 IP fragments"), "{line}");
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
    is_refused(&call, 2, "packets of 245", "use --ptime ");
}

#[test]
fn descriptions_that_are_none_are_refused_however_long() {
    let folder = Folder::new();
    let big = "v=0\r\n".to_owned() + &"a=x:y\r\n".repeat(150_000);
    std::fs::write(folder.file("big.sdp"), big).unwrap();
    std::fs::write(folder.file("prose.sdp"), "Once upon a time").unwrap();
    let from = |name: &str| recv(&folder, &format!("--from {name} --output null:"));
    is_refused(&from("big.sdp"), 3, "no session description", "another file?");
    is_refused(&from("prose.sdp"), 3, "line 1", "the first line of a description is v=0");
    is_refused(&from("missing.sdp"), 3, "No such file", "name the sender's .sdp file");
}

#[test]
fn a_setting_that_is_none_is_refused_with_its_place() {
    let folder = Folder::new();
    let cases = [
        ("latencyy = \"5ms\"", "`latencyy` is no option", "see --help"),
        ("[send]\noutput = \"null:\"", "`output` is no option of taut send", "see its --help"),
        ("[sned]\nlatency = \"5ms\"", "[sned] is no command", "see --help"),
        ("# first\nlatency = = 5", "line 2: ", "write NAME = \"VALUE\""),
        ("latency = 5.5", "latency is a float", "write a text"),
        ("latency = 5", "`5` has no unit", "write 5ms"),
    ];
    for (text, wrong, mend) in cases {
        std::fs::write(folder.file("tautline.toml"), text).unwrap();
        is_refused(&send(&folder, "--input tone:440"), 2, wrong, mend);
    }
}

#[test]
fn a_setting_with_a_bad_value_is_refused_with_its_file_and_section() {
    let folder = Folder::new();
    let cases = [
        ("latency = 5", "taut: in ./tautline.toml, latency = 5: ", "`5` has no unit"),
        (
            "[send]\nptime = \"x\"",
            "taut: in ./tautline.toml, [send] ptime = \"x\": ",
            "write a figure",
        ),
        ("to = [\"nowhere\"]", "in ./tautline.toml, to = [\"nowhere\"]: ", "write rtp://HOST:PORT"),
    ];
    for (text, wrong, mend) in cases {
        std::fs::write(folder.file("tautline.toml"), text).unwrap();
        let call = taut(words("send --input tone:440")).in_folder(folder.path());
        is_refused(&call, 2, wrong, mend);
    }
    // The command line is not blamed on the file.
    std::fs::write(folder.file("tautline.toml"), "latency = \"5ms\"").unwrap();
    let call = send(&folder, "--input tone:440 --latency 5");
    is_refused(&call, 2, "taut: invalid value '5' for '--latency <TIME|auto>'", "write 5ms");
}

#[test]
fn an_experiment_refuses_what_its_programs_would_before_it_begins() {
    for (line, wrong, mend) in [
        ("stages --input song.wav", "names no kind", "use file:song.wav"),
        ("ladder --output oss:dsp", "no kind of device called ‘oss’", "use alsa:PCM"),
        ("stages --latency 1ms", "--latency 1ms is less than the 3ms", "use --latency 3ms or more"),
        ("schedulers --latency 4ms --period 192", "less than the 9ms", "or a shorter --ptime"),
    ] {
        is_refused(&taut(words(&format!("lab {line}"))), 2, wrong, mend);
    }
}

#[test]
fn an_option_that_is_none_is_answered_with_the_one_meant() {
    let folder = Folder::new();
    let call = send(&folder, "--input tone:440 --latncy 5ms");
    is_refused(&call, 2, "unexpected argument '--latncy'", "'--latency'");
    let call = taut(words("lab stages --latency -5ms"));
    is_refused(
        &call,
        2,
        "-5… is below zero, which no option takes",
        "--help shows what each takes",
    );
    for (line, wrong, mend) in [
        ("send song.flac", "`song.flac` lacks its option", "write --input file:song.flac"),
        ("send --input null: 10.0.0.2:5004", "lacks its option", "write --to rtp://HOST:PORT"),
        ("recv heard.wav", "`heard.wav` lacks its option", "write --output file:heard.wav"),
        ("recv rtp://0.0.0.0:5004", "lacks its option", "write --from rtp://0.0.0.0:5004"),
        ("recv alsa:hw:0", "lacks its option", "write --output alsa:hw:0"),
        ("play song.flac", "`play` is no command", "taut recv receives and plays"),
        ("lab dely", "`dely` is no command of taut lab", "impair, all, compare"),
    ] {
        is_refused(&taut(words(line)).in_folder(folder.path()), 2, wrong, mend);
    }
    let call = taut(words("send"));
    is_refused(&call, 2, "--input <DEVICE>, --to <ADDRESS>", "--help");
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
        let sent = Sound::noise(Shape::STEREO_24, 3000, 9);
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
    let (wrong, mend) = ("no mark that null: played was heard at null:", "check what joins them");
    is_refused(&taut(words(line)), 1, wrong, mend);
}

#[test]
fn a_delay_at_a_channel_that_is_not_there_is_refused_before_it_is_measured() {
    // Without an end of its own: it would go on for ever.
    let line = "lab delay --output virtual: --input virtual:?period=96";
    is_refused(&taut(words(line)), 2, "from one virtual card to another", "virtual:?cable=NAME");
    let line = "lab delay --output null: --input null: --channel 3";
    let mend = "use --channel 2 or less, or --channels 3";
    is_refused(&taut(words(line)), 2, "both devices have 2", mend);
}

#[test]
fn an_option_of_the_other_end_is_answered_with_that_of_this_one() {
    let folder = Folder::new();
    for (line, wrong, mend) in [
        ("recv --input null: --from rtp://0.0.0.0:5004", "--input is for taut send", "--output"),
        ("recv --to=rtp://0.0.0.0:5004 --output null:", "--to is for taut send", "--from"),
        ("recv -t rtp://0.0.0.0:5004 --output null:", "-t is for taut send", "--from"),
        ("send --output null: --to rtp://10.0.0.2:5004", "--output is for taut recv", "--input"),
        ("send --input null: --from rtp://10.0.0.2:5004", "--from is for taut recv", "--to"),
        ("send --input null: --to rtp://10.0.0.2:5004 --until-bye", "--until-bye is for", "--help"),
    ] {
        is_refused(&taut(words(line)).in_folder(folder.path()), 2, wrong, mend);
    }
}

#[test]
fn a_delay_to_a_device_that_is_not_there_is_answered_with_the_mend() {
    let line = "lab delay --output null: --input alsa:hw:NoSuchCard";
    is_refused(&taut(words(line)), 3, "alsa:hw:NoSuchCard: there is no such card", "; ");
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
