//! Sound over TCP, between two `taut` and with other people's programs.

use std::net::{Ipv4Addr, TcpListener};

use crate::common::host::steady;
use crate::common::program::{call, taut, words};
use crate::common::sound::{FileCoding, Sound};
use crate::common::{Folder, PATIENT, shared};
use crate::interop::{has_element, noise, read_raw};

/// A TCP port that is free; its connections are over, so that it can be bound at once.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn has_gstreamer(test: &str) -> bool {
    has_element(test, "rtpstreampay", "gstreamer1.0-plugins-good")
}

fn hear(coding: FileCoding, port: u16) -> Vec<String> {
    words(&format!(
        "recv --from rtp+tcp://127.0.0.1:{port} --output file:heard.wav --until-bye --report json \
         --format {} --period 240 --periods 32 --latency 1s --no-witness",
        coding.word()
    ))
}

#[test]
fn sound_over_tcp_comes_bit_for_bit_with_reports_and_a_goodbye() {
    for (coding, link) in [(FileCoding::L16, "auto"), (FileCoding::L24, "direct")] {
        shared(|| {
            let (folder, port) = (Folder::new(), free_port());
            let sent = noise(coding, &folder);
            let recv = taut(hear(coding, port)).and(words(&format!("--link {link}")));
            let recv = recv.in_folder(folder.path()).start().listening();
            let send = format!(
                "send --input file:sent.wav --to rtp+tcp://127.0.0.1:{port} --format {} --link {link} --report json",
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
fn without_a_receiver_there_is_a_sentence_that_says_how_to_start_one() {
    let port = free_port();
    let line = format!("send --input tone:440 --to rtp+tcp://127.0.0.1:{port}");
    let ended = taut(words(&line)).run();
    assert_eq!(ended.status, Some(3), "{ended:#?}");
    for words in ["connection refused", "taut recv --from rtp+tcp://"] {
        assert!(ended.said.concat().contains(words), "{ended:#?}");
    }
}

#[test]
fn gstreamer_is_heard_over_tcp_whole() {
    let test = "gstreamer_is_heard_over_tcp_whole";
    for (coding, payer) in [(FileCoding::L16, "rtpL16pay"), (FileCoding::L24, "rtpL24pay")] {
        steady(|| {
            if !has_gstreamer(test) {
                return;
            }
            let (folder, port) = (Folder::new(), free_port());
            let sent = noise(coding, &folder);
            let recv = taut(hear(coding, port)).in_folder(folder.path()).start().listening();
            let line = format!(
                "-q filesrc location=sent.wav ! wavparse ! audioconvert ! {payer} pt=96 min-ptime=1000000 \
                 max-ptime=1000000 ! rtpstreampay ! tcpclientsink host=127.0.0.1 port={port} sync=true"
            );
            call("gst-launch-1.0", words(&line)).in_folder(folder.path()).run().well();
            let report = recv.end().report();
            // It sends no reports, and a connection stamps no arrival: its clock is known to some hundred ppm, by which its
            // sound is resampled. What can be held is that all of it is there.
            for none in ["lost", "late", "invalid"] {
                assert_eq!(report.count(none), 0, "{none}");
            }
            let heard = Sound::read(&folder.file("heard.wav"));
            assert!(heard.frames() - heard.begins().unwrap() >= sent.frames());
        });
    }
}

#[test]
fn gstreamer_hears_sound_over_tcp_bit_for_bit() {
    let test = "gstreamer_hears_sound_over_tcp_bit_for_bit";
    for (coding, payload) in [(FileCoding::L16, 96), (FileCoding::L24, 97)] {
        steady(|| {
            if !has_gstreamer(test) {
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
            let peer =
                call("gst-launch-1.0", words(&line)).in_folder(folder.path()).listened_to().start();
            let peer = peer.wait_for("Pipeline is PREROLLING");
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
