//! Compressed streams, to and from taut and other programs.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::thread::JoinHandle;
use tautline_trial::snapshot;

use tautline_codec::{OpusDecoder, OpusEncoder};
use tautline_proto::codec::{Decode, Encode, Opus, OpusTuning};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::Packet;

use crate::common::host::steady;
use crate::common::messages;
use crate::common::numberless;
use crate::common::program::{Ended, Running, call, taut, words};
use crate::common::report::Report;
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, PATIENT, free_udp_ports};
use crate::errors::is_refused;
use crate::interop::{has_element, has_ffmpeg};

/// Full scale of 24 bits.
pub(crate) const FULL: f32 = 8_388_608.0;
const MUSIC: Opus = Opus { tuning: OpusTuning::Music, bitrate: 192_000 };

fn sweep(folder: &Folder) -> Sound {
    let sample = |at: usize| {
        let (t, channel) = ((at / 2) as f32 / 48_000.0, (at % 2) as f32);
        let tone = |hertz: f32| (t * hertz * core::f32::consts::TAU).sin();
        (FULL * (0.1 * tone(440.0 + channel) + 0.4 * tone(200.0 + 700.0 * t))) as i32
    };
    let sound = Sound { shape: Shape::STEREO_24, samples: (0..2 * 96_000).map(sample).collect() };
    sound.write(&folder.file("sent.wav"));
    sound
}

fn handle(from: &str, options: &str, folder: &Folder) -> Running {
    let line = format!(
        "recv --from {from} --output file:heard.wav --exit-on-bye --report json --period 240 \
         --periods 32 --latency 1s --no-stall-monitor {options}"
    );
    taut(words(&line)).in_folder(folder.path()).start().listening()
}

fn send(to: &str, options: &str, folder: &Folder) -> Report {
    let line = format!("send --input file:sent.wav --to {to} --report json {options}");
    taut(words(&line)).and(PATIENT).in_folder(folder.path()).run().report()
}

fn samples(sound: &Sound) -> Vec<f32> {
    sound.samples.iter().map(|sample| *sample as f32 / FULL).collect()
}

pub(crate) fn by_opus_alone(sent: &Sound, opus: Opus, frames: usize) -> Vec<f32> {
    let mut encoder = OpusEncoder::new(opus, Channels::STEREO).unwrap();
    let mut decoder = OpusDecoder::new(Rate::HZ_48000, Channels::STEREO).unwrap();
    let packets = samples(sent);
    let decoded = packets.chunks_exact(2 * frames).flat_map(|packet| {
        let (mut room, mut out) = ([0; 1500], vec![0.0; packet.len()]);
        let bytes = encoder.encode(packet, &mut room).unwrap();
        decoder.decode(&room[..bytes], &mut out).unwrap();
        out
    });
    decoded.collect()
}

struct Relay {
    port: u16,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Relay {
    fn to(port: u16) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = socket.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (mut kept, mut room) = (Vec::new(), [0; 2048]);
            loop {
                let len = socket.recv(&mut room).unwrap();
                if len == 0 {
                    return kept;
                }
                socket.send_to(&room[..len], (Ipv4Addr::LOCALHOST, port)).unwrap();
                kept.push(room[..len].to_vec());
            }
        });
        Self { port: own, thread }
    }

    fn decoded(self) -> Vec<f32> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.send_to(&[], (Ipv4Addr::LOCALHOST, self.port)).unwrap();
        let mut decoder = OpusDecoder::new(Rate::HZ_48000, Channels::STEREO).unwrap();
        let decoded = self.thread.join().unwrap().into_iter().flat_map(|datagram| {
            let mut out = [0.0; 480];
            decoder.decode(Packet::parse(&datagram).unwrap().payload, &mut out).unwrap();
            out
        });
        decoded.collect()
    }
}

/// Difference at the best alignment, in dB, over 1.5 s. Both start within 20 ms: an encoder looks
/// ahead.
fn apart(wanted: &[f32], received: &[f32]) -> f32 {
    const CHANNELS: usize = 2;
    let part = |from: usize, frames: usize| from * CHANNELS..(from + frames) * CHANNELS;
    let error = |at: usize, frames: usize| -> f32 {
        let pairs = wanted[part(9_600, frames)].iter().zip(&received[part(at, frames)]);
        pairs.map(|(a, b)| (a - b) * (a - b)).sum()
    };
    let begins = |samples: &[f32]| {
        samples.iter().position(|sample| sample.abs() > 0.05).expect("sound") / CHANNELS
    };
    let near = 9_600 + begins(received) - begins(wanted);
    // Aligns by a part, then compares the whole.
    let places = near - 960..=near + 960;
    let at = places.min_by(|a, b| error(*a, 2_400).total_cmp(&error(*b, 2_400))).unwrap();
    let power: f32 = wanted[part(9_600, 72_000)].iter().map(|sample| sample * sample).sum();
    10.0 * (error(at, 72_000) / power).log10()
}

fn timeless(line: &str) -> String {
    numberless(line).replace("Nms", "N").replace("Nus", "N")
}

fn received(folder: &Folder) -> Vec<f32> {
    samples(&Sound::read(&folder.file("heard.wav")))
}

#[test]
fn slow_coding_is_reported_with_a_hint_and_fast_coding_is_not() {
    let folder = Folder::new();
    let port = free_udp_ports();
    let reported = |ended: Ended| {
        let messages = ended.messages.into_iter();
        messages.filter(|line| line.contains("expect xruns")).collect::<Vec<_>>()
    };
    let run = |line: &str, options: &str| {
        let line = format!("{line} --duration 20ms --no-stall-monitor --report none {options}");
        taut(words(&line)).in_folder(folder.path()).run()
    };
    let sends = format!("send --to rtp://127.0.0.1:{port} --input tone:440");
    let send = |options: &str| reported(run(&sends, options).well());
    // No machine encodes 20 ms of speech in 10 us; all do in 20 ms.
    let coding = send("--format opus-voice --ptime 20ms --period 1");
    let [line] = coding.as_slice() else { panic!("{coding:?}") };
    snapshot!("coding", timeless(line));
    for fits in ["--format opus-voice --ptime 20ms --period 1920", "--format l24 --period 1"] {
        assert_eq!(send(fits), [""; 0], "{fits}");
    }
    let handles = format!(
        "recv --from rtp://127.0.0.1:{port} --output null: --rate 48000 --channels 2 --latency 200ms"
    );
    let recv = |options: &str| {
        let ended = run(&handles, options);
        assert_eq!(ended.status, Some(1), "nothing was heard: {ended:#?}");
        reported(ended)
    };
    let decoding = recv("--format opus --ptime 20ms --period 1");
    let [line] = decoding.as_slice() else { panic!("{decoding:?}") };
    snapshot!("decoding", timeless(line));
    assert_eq!(recv("--format opus --ptime 20ms --period 1920"), [""; 0]);
}

fn little_endian(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    let sample = |&[a, b, c]: &[u8; 3]| (i32::from_le_bytes([0, a, b, c]) >> 8) as f32 / FULL;
    bytes.as_chunks().0.iter().map(sample).collect()
}

#[test]
fn unsupported_codec_is_refused_before_the_wait_for_a_sender() {
    let folder = Folder::new();
    let described = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio 5004 RTP/AVP 100\r\na=rtpmap:100 opus/44100/2\r\na=ptime:5\r\n";
    std::fs::write(folder.file("stream.sdp"), described).unwrap();
    let here = format!("rtp://127.0.0.1:{}", free_udp_ports());
    for (from, options) in [
        (&here[..], "--format opus --rate 44100"),
        (&here, "--format opus --channels 6"),
        ("stream.sdp", ""),
    ] {
        let line = format!(
            "recv --from {from} --output file:heard.wav --overwrite --duration 100ms {options}"
        );
        is_refused(&taut(words(&line)).in_folder(folder.path()), 2);
    }
}

mod exclusive {
    use super::*;

    #[test]
    fn lossless_streams_are_bit_exact_by_sdp_and_payload_type() {
        steady(|| {
            for (coding, format) in
                [(FileCoding::L16, "lossless16"), (FileCoding::L24, "lossless24")]
            {
                let (folder, port) = (Folder::new(), free_udp_ports());
                let sent = Sound::noise(Shape { coding, ..Shape::STEREO_24 }, 1000, 7).quieter();
                sent.write(&folder.file("sent.wav"));
                let to = format!("rtp://127.0.0.1:{port}");
                let options = format!("--format {format}");
                for by in [&to[..], "stream.sdp"] {
                    send(&to, &format!("{options} --sdp stream.sdp --duration 1ms"), &folder);
                    let recv = handle(by, "", &folder);
                    send(&to, &options, &folder);
                    crate::interop::is_whole(recv, &sent, &folder);
                    std::fs::remove_file(folder.file("heard.wav")).unwrap();
                }
            }
        });
    }

    #[test]
    fn opus_stream_equals_encoder_and_decoder_alone() {
        steady(|| {
            let (folder, port) = (Folder::new(), free_udp_ports());
            let sent = sweep(&folder);
            let to = format!("rtp://127.0.0.1:{port}");
            send(&to, "--format opus --sdp stream.sdp --duration 1ms", &folder);
            for (by, options) in [(&to[..], ""), (&to, "--format opus"), ("stream.sdp", "")] {
                let recv = handle(by, &format!("{options} --overwrite"), &folder);
                send(&to, "--format opus", &folder);
                recv.end().report().missed_nothing();
                let apart = apart(&by_opus_alone(&sent, MUSIC, 240), &received(&folder));
                assert!(apart < -100.0, "{by} {options}: {apart} dB");
            }
        });
    }

    #[test]
    fn opus_is_exchanged_with_gstreamer() {
        steady(|| {
            if !has_element("opusenc", "gstreamer1.0-plugins-base") {
                return;
            }
            let (folder, port) = (Folder::new(), free_udp_ports());
            let (sent, to) = (sweep(&folder), format!("rtp://127.0.0.1:{port}"));
            let recv = handle(&to, "--format opus", &folder);
            let relay = Relay::to(port);
            let line = format!(
                "-q filesrc location=sent.wav ! wavparse ! audioconvert ! opusenc bitrate=192000 \
                 frame-size=5 audio-type=restricted-lowdelay ! rtpopuspay pt=96 ssrc=1952544116 ! \
                 udpsink host=127.0.0.1 port={}",
                relay.port
            );
            call("gst-launch-1.0", words(&line)).in_folder(folder.path()).run().well();
            let alone = relay.decoded();
            crate::interop::say_goodbye(port + 1);
            let report = recv.end().report();
            // Its first timestamp has no look-ahead: 2.5 ms before the others.
            assert!(report.count("missing_frames") <= 120, "{:#}", report.0);
            assert_eq!(["lost", "late", "undecodable"].map(|of| report.count(of)), [0; 3]);
            let theirs = apart(&alone, &received(&folder));
            assert!(theirs < -60.0, "of GStreamer: {theirs} dB");
            assert!(apart(&samples(&sent), &alone) < -9.0, "it is the same sound");
            let port = free_udp_ports();
            let line = format!(
                "udpsrc port={port} address=127.0.0.1 num-buffers=400 buffer-size=2097152 \
                 caps=application/x-rtp,media=audio,clock-rate=48000,encoding-name=OPUS,payload=100 ! \
                 rtpopusdepay ! opusdec phase-inversion=true ! audioconvert ! \
                 audio/x-raw,format=S24LE,channels=2 ! filesink location=heard.raw"
            );
            let peer =
                call("gst-launch-1.0", words(&line)).in_folder(folder.path()).listened_to().start();
            let peer = peer.wait_for(messages::GST_PLAYING);
            send(&format!("rtp://127.0.0.1:{port}"), "--format opus", &folder);
            peer.end().well();
            let alone = by_opus_alone(&sent, MUSIC, 240);
            let ours = apart(&alone, &little_endian(&folder.file("heard.raw")));
            assert!(ours < -60.0, "by GStreamer: {ours} dB");
        });
    }

    #[test]
    fn opus_is_exchanged_with_ffmpeg() {
        steady(|| {
            if !has_ffmpeg() {
                return;
            }
            let (folder, port) = (Folder::new(), free_udp_ports());
            let (sent, to) = (sweep(&folder), format!("rtp://127.0.0.1:{port}"));
            let recv = handle(&to, "--format opus", &folder);
            let relay = Relay::to(port);
            // The relay does not forward its goodbye to the RTCP port.
            let line = format!(
                "-nostdin -loglevel error -re -i sent.wav -c:a libopus -b:a 192k -application lowdelay \
                 -frame_duration 5 -f rtp -ssrc 1952544116 rtp://127.0.0.1:{}?pkt_size=1400",
                relay.port
            );
            call("ffmpeg", words(&line)).in_folder(folder.path()).run().well();
            let alone = relay.decoded();
            crate::interop::say_goodbye(port + 1);
            recv.end().report().missed_nothing();
            let theirs = apart(&alone, &received(&folder));
            assert!(theirs < -100.0, "of ffmpeg: {theirs} dB");
            assert!(apart(&samples(&sent), &alone) < -9.0, "it is the same sound");
            let port = free_udp_ports();
            let to = format!("rtp://127.0.0.1:{port}");
            send(&to, "--format opus --sdp stream.sdp --duration 1ms", &folder);
            let line = "-nostdin -loglevel debug -protocol_whitelist file,rtp,udp -i stream.sdp -t 1.9 \
                 -f s24le -ac 2 -ar 48000 heard.raw";
            let peer = call("ffmpeg", words(line)).in_folder(folder.path()).start();
            let peer = peer.wait_for("Before avformat_find_stream_info");
            send(&to, "--format opus", &folder);
            peer.end().well();
            let alone = by_opus_alone(&sent, MUSIC, 240);
            let ours = apart(&alone, &little_endian(&folder.file("heard.raw")));
            // Its decoder is not libopus, but equally close to the standard.
            assert!(ours < -40.0, "by ffmpeg: {ours} dB");
        });
    }
}
