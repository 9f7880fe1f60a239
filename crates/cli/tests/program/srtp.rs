//! Encrypted streams: readable with the key, also by other programs, and not without it.

use std::collections::HashSet;
use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_api::srtp::{MasterKey, Profile, SrtpSeal, read_key};
use tautline_io::socket::seal::Seal;

use crate::common::host::steady;
use crate::common::messages;
use crate::common::program::{Ended, Running, call, taut, words};
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, PATIENT, free_udp_ports, shared};
use crate::interop::{has_element, has_ffmpeg, is_whole, noise, read_raw};

pub(crate) const COUNTER: &str = "AES_CM_128_HMAC_SHA1_80";
pub(crate) const SSRC: u32 = 0x7461_7574;

pub(crate) fn make_key(profile: &str, name: &str, folder: &Folder) -> MasterKey {
    let line = format!("srtp-key --profile {profile} {name}");
    taut(words(&line)).in_folder(folder.path()).run().well();
    read_key(&folder.file(name)).unwrap()
}

fn handle(options: &str, port: u16, folder: &Folder) -> Running {
    let line = format!(
        "recv --from rtp://127.0.0.1:{port} --output file:heard.wav --exit-on-bye --report json \
         --period 240 --periods 32 --latency 1s --no-stall-monitor {options}"
    );
    taut(words(&line)).in_folder(folder.path()).start().listening()
}

pub(crate) fn send(options: &str, port: u16, folder: &Folder) {
    let line = format!("send --input file:sent.wav --to rtp://127.0.0.1:{port} {options}");
    taut(words(&line)).and(PATIENT).in_folder(folder.path()).run().well();
}

fn secret(key: &MasterKey) -> String {
    key.to_sdes().split("inline:").nth(1).unwrap().to_owned()
}

pub(crate) fn hex(key: &MasterKey) -> String {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut digits, mut bits, mut held) = (String::new(), 0, 0_u32);
    for digit in secret(key).chars().filter_map(|c| DIGITS.find(c)) {
        (held, bits) = (held << 6 | digit as u32, bits + 6);
        while bits >= 8 {
            bits -= 8;
            digits += &format!("{:02x}", held >> bits & 0xFF);
        }
    }
    digits
}

fn messages(ended: &Ended) -> String {
    ended.messages.join("\n")
}

/// An encrypted goodbye for GStreamer's source.
pub(crate) fn say_goodbye(key: &MasterKey, port: u16) {
    let mut report = vec![0x80, 201, 0, 1];
    report.extend(SSRC.to_be_bytes());
    report.extend([0x81, 203, 0, 1]);
    report.extend(SSRC.to_be_bytes());
    let mut seal = SrtpSeal::shared(key);
    let len = report.len();
    report.resize(len + seal.room(), 0);
    let len = seal.seal(&mut report, len);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.send_to(&report[..len], (Ipv4Addr::LOCALHOST, port)).unwrap();
}

pub(crate) struct Tap {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Tap {
    pub(crate) fn at(
        port: u16,
        to: u16,
        mut forward: impl FnMut(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let (mut kept, mut room) = (Vec::new(), [0; 2000]);
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, to));
            loop {
                match socket.recv(&mut room) {
                    Ok(len) => {
                        for datagram in forward(kept.len(), &room[..len]) {
                            let _ = socket.send_to(&datagram, to);
                        }
                        kept.push(room[..len].to_vec());
                    }
                    Err(_) if ends.load(Ordering::Acquire) => return kept,
                    Err(_) => {}
                }
            }
        });
        Self { over, thread }
    }

    pub(crate) fn end(self) -> Vec<Vec<u8>> {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

/// Pieces of the sound that these datagrams contain in clear.
pub(crate) fn readable(sent: &Sound, datagrams: &[Vec<u8>]) -> usize {
    const PIECE: usize = 12;
    let bytes: Vec<u8> =
        sent.samples.iter().flat_map(|sample| (*sample as i16).to_be_bytes()).collect();
    let pieces: HashSet<&[u8]> = bytes.windows(PIECE).step_by(2).collect();
    datagrams.iter().filter(|d| d.windows(PIECE).any(|piece| pieces.contains(piece))).count()
}

const TOLD: &str = "--rate 48000 --channels 2 --format l16";

#[test]
fn forged_altered_and_replayed_packets_are_refused_harmlessly() {
    shared(|| {
        for profile in ["AEAD_AES_256_GCM", "AEAD_AES_128_GCM", COUNTER] {
            let folder = Folder::new();
            let sent = noise(FileCoding::L16, &folder);
            make_key(profile, "key", &folder);
            let (port, there) = (free_udp_ports(), free_udp_ports());
            let mut stranger = SrtpSeal::shared(&MasterKey::random(Profile::default()).unwrap());
            let media = Tap::at(port, there, move |number, datagram| {
                let mut flipped = datagram.to_vec();
                flipped[number % datagram.len()] ^= 1 << (number % 8);
                let mut forged = datagram.to_vec();
                forged.resize(datagram.len() + stranger.room(), 0);
                let len = stranger.seal(&mut forged, datagram.len());
                forged.truncate(len);
                vec![flipped, forged, datagram.to_vec(), datagram.to_vec()]
            });
            let control = Tap::at(port + 1, there + 1, |_, datagram| vec![datagram.to_vec(); 2]);
            let recv = handle(&format!("{TOLD} --srtp-key-file key"), there, &folder);
            let redundancy = if profile == COUNTER { "" } else { "--redundancy red:2" };
            send(&format!("--format l16 --srtp-key-file key {redundancy}"), port, &folder);
            let report = recv.end().report();
            let wire = [media.end(), control.end()].concat();
            assert_eq!(report.stream("/encryption"), profile, "{:#}", report.0);
            let packets = report.count("packets_received") - report.count("duplicate");
            assert!(packets >= 1000, "{:#}", report.0);
            assert_eq!(report.count("auth_failed"), 2 * packets, "{:#}", report.0);
            assert!(report.notes().iter().any(|note| note.contains("--srtp-key-file")));
            Sound::read(&folder.file("heard.wav")).is_exactly(&sent);
            assert!(wire.len() > 1000);
            assert_eq!(readable(&sent, &wire), 0, "{profile}: sound can be read on the wire");
            assert!(!format!("{:#}", report.0).contains("inline:"));
        }
    });
}

#[test]
fn in_clear_the_sound_can_be_read_on_the_wire() {
    let folder = Folder::new();
    let sent = noise(FileCoding::L16, &folder);
    let port = free_udp_ports();
    let media = Tap::at(port, port + 1, |_, _| Vec::new());
    send("--format l16", port, &folder);
    let wire = media.end();
    // A few frames after them fade out.
    assert!(readable(&sent, &wire) >= 1000);
}

#[test]
fn group_key_members_receive_and_others_do_not() {
    let folder = Folder::new();
    let sent = noise(FileCoding::L16, &folder);
    make_key("AEAD_AES_256_GCM", "key", &folder);
    make_key("AEAD_AES_256_GCM", "another", &folder);
    let place = format!("rtp://239.69.77.9:{}?iface=lo", free_udp_ports());
    let handle = |options: &str| {
        let line = format!(
            "recv --from {place} --format l16 --report json --period 240 --periods 32 --latency 1s --no-stall-monitor {options}"
        );
        taut(words(&line)).in_folder(folder.path()).start().listening()
    };
    let [one, other] = ["one", "other"]
        .map(|name| handle(&format!("--output file:{name}.wav --exit-on-bye --srtp-key-file key")));
    let stranger = handle("--output file:stranger.wav --srtp-key-file another");
    let line = format!("send --input file:sent.wav --to {place} --format l16 --srtp-key-file key");
    taut(words(&line)).and(PATIENT).in_folder(folder.path()).run().well();
    for (listens, name) in [(one, "one.wav"), (other, "other.wav")] {
        listens.end().well();
        Sound::read(&folder.file(name)).is_exactly(&sent);
    }
    stranger.signal("-TERM");
    let ended = stranger.end();
    assert!(messages(&ended).contains(messages::WRONG_KEY), "{}", messages(&ended));
    assert!(!folder.file("stranger.wav").exists(), "nothing is heard");
}

#[test]
fn key_readable_by_others_is_refused_with_a_hint() {
    let folder = Folder::new();
    make_key(COUNTER, "key", &folder);
    let line = "send --input tone:440 --to rtp://127.0.0.1:9 --duration 10ms --srtp-key-file key";
    let run = |line: &str| taut(words(line)).in_folder(folder.path()).run();
    let set = |mode| {
        std::fs::set_permissions(folder.file("key"), Permissions::from_mode(mode)).unwrap();
    };
    set(0o644);
    let refused = run(line);
    assert!(messages(&refused).contains("chmod 600"), "{}", messages(&refused));
    set(0o600);
    run(line).well();
    let noise = run(&format!("{line} --redundancy red:1"));
    assert!(messages(&noise).contains("RFC 9335"), "{}", messages(&noise));
    let again = run("srtp-key key");
    assert_eq!(again.status, Some(3), "{}", messages(&again));
}

pub(crate) const GSTREAMER: [(&str, &str, &str); 3] = [
    (COUNTER, "aes-128-icm", "hmac-sha1-80"),
    ("AEAD_AES_128_GCM", "aes-128-gcm", "null"),
    ("AEAD_AES_256_GCM", "aes-256-gcm", "null"),
];

pub(crate) fn has_srtp() -> bool {
    has_element("srtpenc", "gstreamer1.0-plugins-bad")
}

mod exclusive {
    use super::*;

    #[test]
    fn gstreamers_srtp_is_received_bit_exact() {
        steady(|| {
            if !has_srtp() {
                return;
            }
            for (profile, cipher, auth) in GSTREAMER {
                let (folder, port) = (Folder::new(), free_udp_ports());
                let sent = noise(FileCoding::L24, &folder);
                let key = make_key(profile, "key", &folder);
                let recv = handle("--format l24 --srtp-key-file key", port, &folder);
                let line = format!(
                    "-q filesrc location=sent.wav ! wavparse ! audioconvert ! rtpL24pay pt=96 ssrc={SSRC} \
                     min-ptime=1000000 max-ptime=1000000 ! srtpenc key={} rtp-cipher={cipher} rtp-auth={auth} \
                     rtcp-cipher={cipher} rtcp-auth={auth} ! udpsink host=127.0.0.1 port={port}",
                    hex(&key)
                );
                call("gst-launch-1.0", words(&line)).in_folder(folder.path()).run().well();
                say_goodbye(&key, port + 1);
                is_whole(recv, &sent, &folder);
            }
        });
    }

    #[test]
    fn gstreamer_opens_our_sealed_sound_bit_for_bit() {
        steady(|| {
            if !has_srtp() {
                return;
            }
            for (profile, cipher, auth) in GSTREAMER {
                let (folder, port) = (Folder::new(), free_udp_ports());
                let sent = noise(FileCoding::L24, &folder);
                let key = make_key(profile, "key", &folder);
                // srtpdec needs the SSRC first, which differs each time.
                let tap = Tap::at(port, port, |_, _| Vec::new());
                send("--format l24 --srtp-key-file key", port, &folder);
                let wire = tap.end();
                let ssrc = u32::from_be_bytes(wire[0][8..12].try_into().unwrap());
                let packets = wire.len();
                let line = format!(
                    "udpsrc port={port} address=127.0.0.1 num-buffers={packets} buffer-size=4194304 \
                     caps=application/x-srtp,media=audio,clock-rate=48000,encoding-name=L24,channels=2,payload=97,\
                     ssrc=(uint){ssrc},srtp-key=(buffer){},srtp-cipher={cipher},srtp-auth={auth},srtcp-cipher={cipher},\
                     srtcp-auth={auth} ! srtpdec ! rtpL24depay ! filesink location=heard.raw",
                    hex(&key)
                );
                let peer =
                    call("gst-launch-1.0", words(&line)).in_folder(folder.path()).listened_to();
                let peer = peer.start().wait_for(messages::GST_PLAYING);
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                for datagram in &wire {
                    socket.send_to(datagram, (Ipv4Addr::LOCALHOST, port)).unwrap();
                }
                peer.end().well();
                read_raw(&folder.file("heard.raw"), sent.shape).is_exactly(&sent);
            }
        });
    }

    #[test]
    fn ffmpeg_reads_our_encrypted_stream_by_a_private_sdp() {
        steady(|| {
            if !has_ffmpeg() {
                return;
            }
            let (folder, port) = (Folder::new(), free_udp_ports());
            let mut sent = noise(FileCoding::L24, &folder);
            let key = make_key(COUNTER, "key", &folder);
            let seal = "--format l24 --srtp-key-file key";
            send(&format!("{seal} --sdp without.sdp --duration 1ms"), port, &folder);
            let without = std::fs::read_to_string(folder.file("without.sdp")).unwrap();
            assert!(without.contains("RTP/SAVP") && !without.contains(&secret(&key)), "{without}");
            send(&format!("{seal} --sdp stream.sdp --sdp-key --duration 1ms"), port, &folder);
            let mode = std::fs::metadata(folder.file("stream.sdp")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let seconds = 0.8;
            let line = format!(
                "-nostdin -loglevel debug -protocol_whitelist file,rtp,srtp,udp -i stream.sdp -c copy \
                 -f s24be -t {seconds} heard.raw"
            );
            let peer = call("ffmpeg", words(&line)).in_folder(folder.path()).start();
            let peer = peer.wait_for("Before avformat_find_stream_info");
            send(seal, port, &folder);
            peer.end().well();
            sent.samples
                .truncate((seconds * f64::from(sent.shape.rate)) as usize * sent.shape.channels);
            read_raw(&folder.file("heard.raw"), sent.shape).is_exactly(&sent);
            let line = "recv --from stream.sdp --output file:heard.wav --exit-on-bye --report json --latency 1s \
                        --period 240 --periods 32 --no-stall-monitor";
            let recv = taut(words(line)).in_folder(folder.path()).start().listening();
            send(seal, port, &folder);
            let report = recv.end().report();
            assert_eq!(report.stream("/encryption"), COUNTER);
            Sound::read(&folder.file("heard.wav")).is_exactly(&Sound::noise(
                Shape { coding: FileCoding::L24, ..Shape::STEREO_24 },
                1000,
                7,
            ));
        });
    }
}
