//! Sound over TCP, between two `taut` and with other programs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;

use crate::common::host::steady;
use crate::common::messages;
use crate::common::program::{call, taut, words};
use crate::common::report::Report;
use crate::common::sound::{FileCoding, Sound};
use crate::common::{Folder, PATIENT, shared};
use crate::interop::{has_element, noise, read_raw};
use crate::srtp::{GSTREAMER, has_srtp, hex, make_key, readable};

/// Without connections, so it can be bound immediately.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn has_gstreamer() -> bool {
    has_element("rtpstreampay", "gstreamer1.0-plugins-good")
}

fn learn(port: u16) -> Vec<String> {
    words(&format!(
        "recv --from rtp+tcp://127.0.0.1:{port} --output file:heard.wav --exit-on-bye --report json \
         --period 240 --periods 32 --latency 1s --no-stall-monitor"
    ))
}

fn handle(coding: FileCoding, port: u16) -> Vec<String> {
    [learn(port), words(&format!("--format {}", coding.word()))].concat()
}

#[test]
fn sound_over_tcp_is_bit_exact_with_reports_and_goodbye() {
    for (coding, link, learns) in [
        (FileCoding::L16, "auto", false),
        (FileCoding::L24, "no", false),
        (FileCoding::L24, "auto", true),
    ] {
        shared(|| {
            let (folder, port) = (Folder::new(), free_port());
            let sent = noise(coding, &folder);
            let line = if learns { learn(port) } else { handle(coding, port) };
            let recv = taut(line).and(words(&format!("--io-thread {link}")));
            let recv = recv.in_folder(folder.path()).start().listening();
            let send = format!(
                "send --input file:sent.wav --to rtp+tcp://127.0.0.1:{port} --format {} --io-thread {link} --report json",
                coding.word()
            );
            let sending = taut(words(&send)).and(PATIENT).in_folder(folder.path()).start();
            let report = recv.end().report();
            report.missed_nothing();
            Sound::read(&folder.file("heard.wav")).is_exactly(&sent);
            sending.end().well();
        });
    }
}

#[test]
fn sending_over_tcp_without_a_receiver_gives_a_hint() {
    let port = free_port();
    let line = format!("send --input tone:440 --to rtp+tcp://127.0.0.1:{port}");
    let ended = taut(words(&line)).run();
    assert_eq!(ended.status, Some(3), "{ended:#?}");
    for words in ["connection refused", "taut recv --from rtp+tcp://"] {
        assert!(ended.messages.concat().contains(words), "{ended:#?}");
    }
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, maximum: usize) -> Vec<u8> {
    let (mut all, mut room) = (Vec::new(), [0; 4096]);
    while all.len() < maximum {
        let Ok(count @ 1..) = from.read(&mut room) else { break };
        all.extend_from_slice(&room[..count]);
        if to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    all
}

/// Relays connections, and cuts each after this many bytes from the sender. Returns each one's data
/// in both directions.
fn between(port: u16, to: u16, cuts: &'static [usize]) -> JoinHandle<Vec<[Vec<u8>; 2]>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    std::thread::spawn(move || {
        let relay = |maximum: &usize| {
            let near = listener.accept().unwrap().0;
            let far = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).unwrap();
            std::thread::scope(|scope| {
                let back = scope.spawn(|| copy(&far, &near, usize::MAX));
                let there = copy(&near, &far, *maximum);
                for stream in [&near, &far] {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                [there, back.join().unwrap()]
            })
        };
        cuts.iter().map(relay).collect()
    })
}

fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let Some((frame, rest)) = rest.split_at_checked(length) else { break };
        all.push(frame.to_vec());
        bytes = rest;
    }
    all
}

fn is_report(frame: &[u8]) -> bool {
    (192..=223).contains(&frame[1])
}

/// Sends encrypted noise through [`between`]. Returns the receiver's report, and the data.
fn sealed(
    (coding, profile): (FileCoding, &str),
    cuts: &'static [usize],
    folder: &Folder,
) -> (Report, Vec<[Vec<u8>; 2]>) {
    let (port, there) = (free_port(), free_port());
    make_key(profile, "key", folder);
    let relay = between(port, there, cuts);
    let recv = taut(handle(coding, there)).and(words("--srtp-key-file key"));
    let recv = recv.in_folder(folder.path()).start().listening();
    let line = format!(
        "send --input file:sent.wav --to rtp+tcp://127.0.0.1:{port} --format {} --srtp-key-file key",
        coding.word()
    );
    taut(words(&line)).and(PATIENT).in_folder(folder.path()).run().well();
    (recv.end().report(), relay.join().unwrap())
}

#[test]
fn encrypted_tcp_sound_is_bit_exact_and_unreadable_to_others() {
    for (profile, _, _) in GSTREAMER {
        shared(|| {
            let folder = Folder::new();
            let sent = noise(FileCoding::L16, &folder);
            let (report, wire) = sealed((FileCoding::L16, profile), &[usize::MAX], &folder);
            report.missed_nothing();
            assert_eq!(report.stream("/encryption"), profile);
            assert_eq!(report.count("auth_failed"), 0, "{:#}", report.0);
            Sound::read(&folder.file("heard.wav")).is_exactly(&sent);
            let [there, back] = &wire[0];
            let (there, back) = (frames(there), frames(back));
            assert!(there.len() > 1000 && there.iter().any(|frame| is_report(frame)));
            assert!(!back.is_empty() && back.iter().all(|frame| is_report(frame)));
            assert_eq!(readable(&sent, &there), 0, "{profile}: sound can be read on the wire");
        });
    }
}

mod exclusive {
    use super::*;

    #[test]
    fn gstreamer_is_received_over_tcp_completely() {
        for (coding, payer) in [(FileCoding::L16, "rtpL16pay"), (FileCoding::L24, "rtpL24pay")] {
            steady(|| {
                if !has_gstreamer() {
                    return;
                }
                let (folder, port) = (Folder::new(), free_port());
                let sent = noise(coding, &folder);
                let recv = taut(handle(coding, port)).in_folder(folder.path()).start().listening();
                let line = format!(
                    "-q filesrc location=sent.wav ! wavparse ! audioconvert ! {payer} pt=96 min-ptime=1000000 \
                     max-ptime=1000000 ! rtpstreampay ! tcpclientsink host=127.0.0.1 port={port} sync=true"
                );
                call("gst-launch-1.0", words(&line)).in_folder(folder.path()).run().well();
                let report = recv.end().report();
                // Without reports or TCP timestamps, its clock is known to some hundred ppm, and
                // its sound is resampled. All of it arrives.
                for none in ["lost", "late", "invalid"] {
                    assert_eq!(report.count(none), 0, "{none}");
                }
                let received = Sound::read(&folder.file("heard.wav"));
                assert!(received.frames() - received.begins().unwrap() >= sent.frames());
            });
        }
    }

    #[test]
    fn gstreamer_receives_tcp_bit_exact() {
        for (coding, payload) in [(FileCoding::L16, 96), (FileCoding::L24, 97)] {
            steady(|| {
                if !has_gstreamer() {
                    return;
                }
                let (folder, port) = (Folder::new(), free_port());
                let sent = noise(coding, &folder);
                let name = coding.word().to_uppercase();
                let line = format!(
                    "tcpserversrc host=127.0.0.1 port={port} ! \
                     application/x-rtp-stream,media=audio,clock-rate=48000,encoding-name={name},channels=2,\
                     payload={payload} ! rtpstreamdepay ! rtp{name}depay ! filesink location=heard.raw"
                );
                let peer = call("gst-launch-1.0", words(&line))
                    .in_folder(folder.path())
                    .listened_to()
                    .start();
                let peer = peer.wait_for(messages::GST_PREROLLING);
                let line = format!(
                    "send --input file:sent.wav --to rtp+tcp://127.0.0.1:{port} --format {}",
                    coding.word()
                );
                taut(words(&line)).and(PATIENT).in_folder(folder.path()).run().well();
                peer.end().well();
                read_raw(&folder.file("heard.raw"), sent.shape).is_exactly(&sent);
            });
        }
    }

    #[test]
    fn gstreamer_decrypts_srtp_and_srtcp_over_tcp() {
        steady(|| {
            if !has_srtp() || !has_gstreamer() {
                return;
            }
            for (profile, cipher, auth) in GSTREAMER {
                let folder = Folder::new();
                let sent = noise(FileCoding::L24, &folder);
                let (_, wire) = sealed((FileCoding::L24, profile), &[usize::MAX], &folder);
                // srtpdec takes reports on a separate pad: as frames of RFC 4571, too.
                let (reports, packets): (Vec<_>, Vec<_>) =
                    frames(&wire[0][0]).into_iter().partition(|frame| is_report(frame));
                for (all, name) in [(&packets, "packets"), (&reports, "reports")] {
                    let framed =
                        |frame: &Vec<u8>| [&(frame.len() as u16).to_be_bytes()[..], frame].concat();
                    let bytes: Vec<u8> = all.iter().flat_map(framed).collect();
                    std::fs::write(folder.file(name), bytes).unwrap();
                }
                let ssrc = u32::from_be_bytes(packets[0][8..12].try_into().unwrap());
                let key = tautline_api::srtp::read_key(&folder.file("key")).unwrap();
                let reported = format!(
                    "media=audio,clock-rate=48000,encoding-name=L24,channels=2,payload=97,ssrc=(uint){ssrc},\
                     srtp-key=(buffer){},srtp-cipher={cipher},srtp-auth={auth},srtcp-cipher={cipher},\
                     srtcp-auth={auth}",
                    hex(&key)
                );
                // In sequence: if both start together, the caps of one replace the other's, and
                // packets are dropped.
                for (name, caps, kind, out) in [
                    (
                        "packets",
                        "x-srtp-stream",
                        "rtp",
                        "rtpL24depay ! filesink location=heard.raw",
                    ),
                    ("reports", "x-srtcp-stream", "rtcp", "filesink location=said.raw"),
                ] {
                    let line = format!(
                        "-q filesrc location={name} ! application/{caps},{reported} ! rtpstreamdepay ! d.{kind}_sink \
                         srtpdec name=d d.{kind}_src ! queue ! {out} async=false"
                    );
                    call("gst-launch-1.0", words(&line)).in_folder(folder.path()).run().well();
                }
                read_raw(&folder.file("heard.raw"), sent.shape).is_exactly(&sent);
                let room = if auth == "null" { 4 + 16 } else { 4 + 10 };
                let whole: usize = reports.iter().map(|report| report.len() - room).sum();
                assert_eq!(std::fs::metadata(folder.file("said.raw")).unwrap().len(), whole as u64);
            }
        });
    }
}
