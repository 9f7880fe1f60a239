//! Other programs receive from us and we from them, bit for bit.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;

use crate::common::host::{steady, timed};
use crate::common::messages;
use crate::common::program::{Running, call, taut, words};
use crate::common::report::Report;
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, Lack, PATIENT, free_udp_ports, skipped};
use crate::pcm::is_there;

const PACKETS: usize = 1001;

pub(crate) fn has_gstreamer() -> bool {
    is_there("gst-launch-1.0", "--version")
}

pub(crate) fn has_element(element: &str, package: &str) -> bool {
    if !has_gstreamer() {
        return false;
    }
    let there = Command::new("gst-inspect-1.0").args(["--exists", element]).status();
    let there = there.is_ok_and(|status| status.success());
    if !there {
        skipped(Lack::Package, &format!("GStreamer has no {element} ({package})"));
    }
    there
}

pub(crate) fn has_ffmpeg() -> bool {
    is_there("ffmpeg", "-version")
}

pub(crate) fn noise(coding: FileCoding, folder: &Folder) -> Sound {
    let sent = Sound::noise(Shape { coding, ..Shape::STEREO_24 }, 1000, 7);
    sent.write(&folder.file("sent.wav"));
    sent
}

fn handle(coding: FileCoding, port: u16, folder: &Folder) -> Running {
    let line = format!(
        "recv --from rtp://127.0.0.1:{port} --output file:heard.wav --exit-on-bye --report json \
         --format {} --period 240 --periods 32 --latency 1s --no-stall-monitor",
        coding.word()
    );
    taut(words(&line)).in_folder(folder.path()).start().listening()
}

fn send(coding: FileCoding, port: u16, options: &str, folder: &Folder) {
    let line = format!(
        "send --input file:sent.wav --to rtp://127.0.0.1:{port} --format {} {options}",
        coding.word()
    );
    taut(words(&line)).and(PATIENT).in_folder(folder.path()).run().well();
}

/// Asserts that all of `sent` was received. Peers end with a shorter packet, after which our
/// receiver fades out for up to 5 ms.
#[track_caller]
pub(crate) fn is_whole(recv: Running, sent: &Sound, folder: &Folder) {
    let report = recv.end().report();
    report.missed_nothing();
    let mut received = Sound::read(&folder.file("heard.wav"));
    let end = received.begins().unwrap() + sent.frames();
    let fade = received.shape.channels * (end..end + received.shape.rate as usize / 200).len();
    let from = end * received.shape.channels;
    received.samples[from..from + fade].fill(0);
    received.is_exactly(sent);
}

pub(crate) fn read_raw(path: &Path, shape: Shape) -> Sound {
    let bytes = std::fs::read(path).unwrap();
    let size = if shape.coding == FileCoding::L16 { 2 } else { 3 };
    let sample = |bytes: &[u8]| {
        let high = bytes.iter().enumerate().map(|(i, b)| u32::from(*b) << (24 - 8 * i));
        high.sum::<u32>() as i32 >> (32 - 8 * size)
    };
    Sound { shape, samples: bytes.chunks_exact(size).map(sample).collect() }
}

const SSRC: u32 = 0x7461_7574;

/// An empty receiver report and a goodbye (RFC 3550 §6.4.2, §6.6). GStreamer's rtpbin sends one,
/// but sometimes (1.22.0) hangs afterwards.
pub(crate) fn say_goodbye(port: u16) {
    let mut report = vec![0x80, 201, 0, 1];
    report.extend(SSRC.to_be_bytes());
    report.extend([0x81, 203, 0, 1]);
    report.extend(SSRC.to_be_bytes());
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.send_to(&report, (Ipv4Addr::LOCALHOST, port)).unwrap();
}

fn gstreamer_to_taut(coding: FileCoding, element: &str) {
    steady(|| {
        if !has_gstreamer() {
            return;
        }
        let (folder, port) = (Folder::new(), free_udp_ports());
        let sent = noise(coding, &folder);
        let recv = handle(coding, port, &folder);
        let line = format!(
            "-q filesrc location=sent.wav ! wavparse ! audioconvert ! {element} pt=96 ssrc={SSRC} \
             min-ptime=1000000 max-ptime=1000000 ! udpsink host=127.0.0.1 port={port}"
        );
        call("gst-launch-1.0", words(&line)).in_folder(folder.path()).run().well();
        say_goodbye(port + 1);
        is_whole(recv, &sent, &folder);
    });
}

fn received_of_gstreamer(millis: u32, options: &str) -> Option<Report> {
    if !has_gstreamer() {
        return None;
    }
    let (folder, port) = (Folder::new(), free_udp_ports());
    Sound::noise(Shape { coding: FileCoding::L16, ..Shape::STEREO_24 }, 4000, 7)
        .write(&folder.file("sent.wav"));
    let line = format!(
        "recv --from rtp://127.0.0.1:{port} --output null: --exit-on-bye --report json --no-stall-monitor \
         {options}"
    );
    let recv = taut(words(&line)).in_folder(folder.path()).start().listening();
    let ptime = millis * 1_000_000;
    let line = format!(
        "-q filesrc location=sent.wav ! wavparse ! audioconvert ! rtpL16pay pt=96 ssrc={SSRC} \
         mtu=8000 min-ptime={ptime} max-ptime={ptime} ! udpsink host=127.0.0.1 port={port}"
    );
    call("gst-launch-1.0", words(&line)).in_folder(folder.path()).run().well();
    say_goodbye(port + 1);
    Some(recv.end().report())
}

fn is_heard_though_nothing_is_said(millis: u32, shape: &str) {
    steady(|| {
        let Some(report) = received_of_gstreamer(millis, shape) else { return };
        let note = format!("no announcement; the sender's packets have {millis}ms");
        assert!(report.notes().iter().any(|messages| messages.contains(&note)), "{:#}", report.0);
        let kept = report.nanos("/latency/configured_ns");
        assert!(kept > i64::from(millis) * 1_000_000, "{:#}", report.0);
        // GStreamer sends from an ordinary thread, which a busy machine delays.
        let (received, late) = (report.count("packets_received"), report.count("late"));
        assert!(received > 2000 / u64::from(millis) && late * 10 < received, "{:#}", report.0);
    });
}

fn taut_to_gstreamer(coding: FileCoding, options: &str) {
    steady(|| {
        if !has_gstreamer() {
            return;
        }
        let (folder, port) = (Folder::new(), free_udp_ports());
        let sent = noise(coding, &folder);
        let name = coding.word().to_uppercase();
        let payload = if coding == FileCoding::L16 { 96 } else { 97 };
        let line = format!(
            "udpsrc port={port} address=127.0.0.1 num-buffers={PACKETS} buffer-size=2097152 \
             caps=application/x-rtp,media=audio,clock-rate=48000,encoding-name={name},channels=2,\
             payload={payload} ! rtp{name}depay ! filesink location=heard.raw"
        );
        let peer =
            call("gst-launch-1.0", words(&line)).in_folder(folder.path()).listened_to().start();
        let peer = peer.wait_for(messages::GST_PLAYING);
        send(coding, port, options, &folder);
        peer.end().well();
        read_raw(&folder.file("heard.raw"), sent.shape).is_exactly(&sent);
    });
}

fn taut_to_ffmpeg(coding: FileCoding, options: &str) {
    steady(|| {
        if !has_ffmpeg() {
            return;
        }
        let (folder, port) = (Folder::new(), free_udp_ports());
        let sent = noise(coding, &folder);
        // The peer needs the description first. The description suits every stream to
        // this address in this format.
        send(coding, port, &format!("{options} --sdp stream.sdp --duration 1ms"), &folder);
        let (bits, seconds) = (if coding == FileCoding::L16 { 16 } else { 24 }, 0.8);
        let line = format!(
            "-nostdin -loglevel debug -protocol_whitelist file,rtp,udp -i stream.sdp -c copy \
             -f s{bits}be -t {seconds} heard.raw"
        );
        let peer = call("ffmpeg", words(&line)).in_folder(folder.path()).start();
        let peer = peer.wait_for("Before avformat_find_stream_info");
        send(coding, port, options, &folder);
        peer.end().well();
        let mut sent = sent;
        sent.samples
            .truncate((seconds * f64::from(sent.shape.rate)) as usize * sent.shape.channels);
        read_raw(&folder.file("heard.raw"), sent.shape).is_exactly(&sent);
    });
}

#[test]
fn unanswered_sender_names_peers_without_header_extensions() {
    let port = free_udp_ports();
    let _stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let messages = |options: &str| {
        let to = format!("rtp://127.0.0.1:{port}");
        let line = format!("send --input tone:440 --to {to} --duration 1s --report json {options}");
        let report = taut(words(&line)).run().report();
        report.notes().iter().any(|note| note.contains("rtp-source"))
    };
    assert!(messages(""));
    assert!(!messages("--no-header-extensions"));
}

mod exclusive {
    use super::*;

    #[test]
    fn chosen_latency_stays_and_a_note_names_the_needed_one() {
        steady(|| {
            let Some(report) = received_of_gstreamer(20, "--latency 10ms") else { return };
            assert_eq!(report.nanos("/latency/configured_ns"), 10_000_000, "{:#}", report.0);
            let messages =
                |note: &&str| note.contains("20ms") && note.contains(messages::TOO_SHORT);
            assert!(report.notes().iter().any(messages), "{:#}", report.0);
        });
    }

    #[test]
    fn ffmpeg_is_received_bit_exact() {
        // Without a reported clock, late first packets look like another card rate. Seen once in
        // four full runs, with 30 ms.
        timed(|| {
            if !has_ffmpeg() {
                return;
            }
            for (coding, codec) in [(FileCoding::L16, "pcm_s16be"), (FileCoding::L24, "pcm_s24be")]
            {
                let (folder, port) = (Folder::new(), free_udp_ports());
                let sent = noise(coding, &folder);
                let recv = handle(coding, port, &folder);
                let line = format!(
                    "-nostdin -loglevel error -re -i sent.wav -c:a {codec} -f rtp -rtpflags send_bye \
                 rtp://127.0.0.1:{port}?pkt_size=300"
                );
                call("ffmpeg", words(&line)).in_folder(folder.path()).run().well();
                is_whole(recv, &sent, &folder);
            }
        });
    }

    #[test]
    fn ffmpeg_plays_our_sdp_bit_exact() {
        taut_to_ffmpeg(FileCoding::L16, "");
        for options in ["", "--no-header-extensions", "--redundancy fec:2"] {
            taut_to_ffmpeg(FileCoding::L24, options);
        }
    }

    #[test]
    fn gstreamer_receives_us_bit_exact() {
        for options in ["", "--redundancy fec:2"] {
            taut_to_gstreamer(FileCoding::L16, options);
        }
        for options in ["", "--no-header-extensions", "--redundancy red:1"] {
            taut_to_gstreamer(FileCoding::L24, options);
        }
    }

    #[test]
    fn gstreamer_is_received_bit_exact() {
        gstreamer_to_taut(FileCoding::L16, "rtpL16pay");
        gstreamer_to_taut(FileCoding::L24, "rtpL24pay");
    }

    #[test]
    fn foreign_packets_are_played_without_options() {
        for millis in [5, 20] {
            for shape in ["", "--rate 48000 --channels 2"] {
                is_heard_though_nothing_is_said(millis, shape);
            }
        }
    }
}
