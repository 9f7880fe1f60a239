//! Senders without announcements, whose packets prove the format.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::common::program::{Running, taut, words};
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, free_udp_ports, shared, until};
use tautline_trial::snapshot;

fn wire(sound: &Sound) -> Vec<u8> {
    let bytes = match sound.shape.coding {
        FileCoding::L16 => 2,
        FileCoding::L24 => 3,
        FileCoding::F32 => 4,
    };
    sound.samples.iter().flat_map(|sample| sample.to_be_bytes()[4 - bytes..].to_vec()).collect()
}

/// Sends each packet when its last frame would have been captured.
fn send(sound: &Sound, frames: usize, payload_type: u8, port: u16) {
    send_as(0x1234_5678, sound, frames, payload_type, port);
}

fn send_as(source: u32, sound: &Sound, frames: usize, payload_type: u8, port: u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bytes = wire(sound);
    let frame_bytes = bytes.len() / sound.frames();
    let begins = Instant::now();
    for (number, payload) in bytes.chunks(frames * frame_bytes).enumerate() {
        let first = number * frames;
        let due = Duration::from_secs((first + frames) as u64) / sound.shape.rate;
        std::thread::sleep((begins + due).saturating_duration_since(Instant::now()));
        let mut packet = vec![0x80, payload_type | if number == 0 { 0x80 } else { 0 }];
        packet.extend((number as u16).to_be_bytes());
        packet.extend((first as u32 + 1_000).to_be_bytes());
        packet.extend(source.to_be_bytes());
        packet.extend(payload);
        socket.send_to(&packet, ("127.0.0.1", port)).unwrap();
    }
}

fn recv(port: u16, options: &str, folder: &Folder) -> Running {
    let line = format!(
        "recv --from rtp://127.0.0.1:{port} --output file:heard.wav --report json --no-stall-monitor \
         --period 240 --periods 32 {options}"
    );
    taut(words(&line)).in_folder(folder.path()).start().listening()
}

fn recorded(folder: &Folder, bytes: u64) {
    let length = || std::fs::metadata(folder.file("heard.wav")).map_or(0, |file| file.len());
    until(&format!("{bytes} bytes are never recorded"), || length() >= bytes);
}

#[test]
fn packets_prove_the_format_that_nothing_announces() {
    shared(|| {
        let shape = |rate, channels, coding| Shape { rate, channels, coding };
        for (shape, frames, payload_type) in [
            // Payload type 98 is float by convention.
            (shape(48_000, 2, FileCoding::L24), 48, 98),
            (shape(48_000, 1, FileCoding::L24), 240, 97),
            (shape(44_100, 2, FileCoding::L16), 441, 96),
        ] {
            let (folder, port) = (Folder::new(), free_udp_ports());
            let sent = Sound::noise(shape, 800, 9).quieter();
            let recv = recv(port, "--latency 200ms", &folder);
            send(&sent, frames, payload_type, port);
            recorded(&folder, wire(&sent).len() as u64 / 2);
            recv.signal("-INT");
            let report = recv.end().report();
            let received = Sound::read(&folder.file("heard.wav"));
            assert_eq!(received.shape, shape, "{:#}", report.0);
            // No packet is lost while the socket is reopened.
            let all = sent.frames().div_ceil(frames) as u64;
            let counted = (report.count("packets_received"), report.count("lost"));
            assert_eq!(counted, (all, 0), "{:#}", report.0);
            let first = received.begins().expect("sound");
            let pair = (received.frame(first), received.frame(first + 1));
            let at =
                (0..sent.frames() - 1).find(|at| (sent.frame(*at), sent.frame(at + 1)) == pair);
            assert!(at.is_some_and(|at| at < shape.rate as usize / 4), "{at:?} {:#}", report.0);
        }
    });
}

#[test]
fn packets_that_contradict_the_format_given_are_not_played() {
    shared(|| {
        let stereo = Shape::STEREO_24;
        let four_of_16 = Shape { channels: 4, coding: FileCoding::L16, ..stereo };
        for (name, options, shape) in [
            ("bytes", "--rate 48000 --channels 2 --format f32", stereo),
            ("samples", "--rate 48000 --channels 2 --format f32", four_of_16),
            ("rate", "--rate 44100 --channels 2", stereo),
            ("twice the rate", "--rate 48000 --channels 2", Shape { rate: 96_000, ..stereo }),
        ] {
            let (folder, port) = (Folder::new(), free_udp_ports());
            let sent = Sound::noise(shape, 2_800, 9).quieter();
            let recv = recv(port, &format!("{options} --latency 200ms"), &folder);
            send(&sent, (shape.rate / 1_000) as usize, 97, port);
            recv.signal("-INT");
            let ended = recv.end();
            assert_eq!(ended.status, Some(1), "{ended:#?}");
            let messages: Vec<_> =
                ended.messages.iter().filter(|line| line.contains("muted")).collect();
            snapshot!(name, messages[0].replace(&port.to_string(), "PORT"));
            assert!(name.contains("rate") || !folder.file("heard.wav").exists());
        }
    });
}

fn silence_before(mut sound: Sound, millis: usize) -> Sound {
    let silent = sound.shape.rate as usize * millis / 1_000 * sound.shape.channels;
    sound.samples.splice(0..0, std::iter::repeat_n(0, silent));
    sound
}

#[test]
fn format_that_silence_hid_is_taken_when_the_sound_begins() {
    shared(|| {
        let (folder, port) = (Folder::new(), free_udp_ports());
        let shape = Shape { channels: 3, coding: FileCoding::L16, ..Shape::STEREO_24 };
        let sent = Sound::noise(shape, 1_500, 9).quieter();
        let recv = recv(port, "--latency 200ms", &folder);
        send(&silence_before(sent.clone(), 1_000), 48, 97, port);
        recv.signal("-INT");
        let ended = recv.end();
        assert_eq!(ended.status, Some(0), "{ended:#?}");
        let received = Sound::read(&folder.file("heard.wav"));
        assert_eq!(received.shape, shape);
        let first = received.begins().expect("sound");
        let frame = received.frame(first);
        let at = (0..sent.frames()).find(|at| sent.frame(*at) == frame);
        // Proof of the format needs 10 ms of noise; proof of the rate needs a quarter of a second.
        assert!(at.is_some_and(|at| at < 24_000), "{at:?}");
    });
}

#[test]
fn recording_is_kept_though_a_later_sender_is_muted() {
    shared(|| {
        let (folder, port) = (Folder::new(), free_udp_ports());
        let sent = Sound::noise(Shape::STEREO_24, 800, 9).quieter();
        let recv = recv(port, "--latency 200ms --rate 48000 --channels 2", &folder);
        send(&sent, 48, 97, port);
        let other = Shape { channels: 3, coding: FileCoding::L16, ..Shape::STEREO_24 };
        send_as(7, &Sound::noise(other, 800, 8).quieter(), 48, 97, port);
        recv.signal("-INT");
        let ended = recv.end();
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        let received = Sound::read(&folder.file("heard.wav"));
        let first = received.begins().expect("sound");
        let frame = received.frame(first);
        assert!((0..sent.frames()).any(|at| sent.frame(at) == frame));
    });
}
