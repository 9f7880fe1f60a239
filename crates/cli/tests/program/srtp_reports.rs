//! Encrypted reports and an encrypted group: other programs decrypt ours, and ours decrypts theirs.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use tautline_api::srtp::SrtpSeal;
use tautline_io::socket::seal::Seal;

use crate::common::host::steady;
use crate::common::messages;
use crate::common::program::{Running, TIMEOUT, call, taut, words};
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, PATIENT, free_udp_ports};
use crate::interop::{noise, read_raw};
use crate::srtp::{GSTREAMER, SSRC, Tap, has_srtp, hex, make_key, say_goodbye, send};

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const GOODBYE: u8 = 203;

fn word(packet: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(packet[at..at + 4].try_into().unwrap())
}

fn is_block(report: &[u8]) -> bool {
    report[1] == RECEIVER_REPORT && report[0] & 0x1F == 1
}

/// RTCP packets of a file without others (RFC 3550 §6.4).
#[track_caller]
fn reports(path: &Path) -> Vec<Vec<u8>> {
    let (bytes, mut packets, mut at) = (std::fs::read(path).unwrap(), Vec::new(), 0);
    while at < bytes.len() {
        assert_eq!(bytes[at] >> 6, 2, "no RTCP at {at}: {bytes:?}");
        let end = at + 4 * (1 + usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]])));
        packets.push(bytes[at..end].to_vec());
        at = end;
    }
    packets
}

fn caps(kind: &str, ssrc: u32, key: &str, (cipher, auth): (&str, &str)) -> String {
    format!(
        "application/x-{kind},media=audio,clock-rate=48000,encoding-name=L24,channels=2,payload=97,\
         ssrc=(uint){ssrc},srtp-key=(buffer){key},srtp-cipher={cipher},srtp-auth={auth},\
         srtcp-cipher={cipher},srtcp-auth={auth}"
    )
}

fn opened_by_gstreamer(sealed: &[Vec<u8>], caps: &str, folder: &Folder) -> Vec<Vec<u8>> {
    let port = free_udp_ports();
    let line = format!(
        "udpsrc port={port} address=127.0.0.1 num-buffers={} caps={caps} ! d.rtcp_sink srtpdec name=d \
         d.rtcp_src ! filesink location=opened.raw",
        sealed.len()
    );
    let peer = call("gst-launch-1.0", words(&line)).in_folder(folder.path()).listened_to();
    let peer = peer.start().wait_for(messages::GST_PLAYING);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for datagram in sealed {
        socket.send_to(datagram, (Ipv4Addr::LOCALHOST, port)).unwrap();
    }
    peer.end().well();
    reports(&folder.file("opened.raw"))
}

/// GStreamer sends sound to `media` and encrypted reports to `reports`. It also writes these in
/// clear to a file.
fn gstreamer_talks(
    (media, reports): (u16, u16),
    key: &str,
    (cipher, auth): (&str, &str),
    folder: &Folder,
) -> Running {
    let line = format!(
        "audiotestsrc is-live=true samplesperbuffer=480 ! audio/x-raw,rate=48000,channels=2 ! audioconvert ! \
         rtpL24pay pt=96 ssrc={SSRC} min-ptime=1000000 max-ptime=1000000 ! s.send_rtp_sink \
         rtpsession name=s rtcp-min-interval=200000000 \
         srtpenc name=e key={key} rtp-cipher={cipher} rtp-auth={auth} rtcp-cipher={cipher} rtcp-auth={auth} \
         s.send_rtp_src ! e.rtp_sink_0 e.rtp_src_0 ! udpsink host=127.0.0.1 port={media} \
         s.send_rtcp_src ! tee name=t t. ! queue ! e.rtcp_sink_0 \
         e.rtcp_src_0 ! udpsink host=127.0.0.1 port={reports} sync=false async=false \
         t. ! queue ! filesink location=said.raw buffer-mode=unbuffered sync=false async=false"
    );
    call("gst-launch-1.0", words(&line)).in_folder(folder.path()).start()
}

fn answers(
    socket: &UdpSocket,
    handles: SocketAddr,
    mut answered: impl FnMut(&[u8]) -> bool,
) -> Vec<Vec<u8>> {
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (until, mut room, mut back) = (Instant::now() + TIMEOUT, [0; 2000], Vec::new());
    while Instant::now() < until {
        let Ok((len, from)) = socket.recv_from(&mut room) else { continue };
        if from != handles {
            socket.send_to(&room[..len], handles).unwrap();
            continue;
        }
        back.push(room[..len].to_vec());
        if answered(&room[..len]) {
            return back;
        }
    }
    panic!("no answer among {}", back.len());
}

mod exclusive {
    use super::*;

    #[test]
    fn gstreamer_opens_our_sealed_reports_and_our_goodbye() {
        steady(|| {
            if !has_srtp() {
                return;
            }
            for (profile, cipher, auth) in GSTREAMER {
                let (folder, port) = (Folder::new(), free_udp_ports());
                let key = make_key(profile, "key", &folder);
                noise(FileCoding::L24, &folder);
                let media = Tap::at(port, port, |_, _| Vec::new());
                let control = Tap::at(port + 1, port + 1, |_, _| Vec::new());
                send("--format l24 --srtp-key-file key", port, &folder);
                let (packets, sealed) = (media.end(), control.end());
                let ssrc = word(&sealed[0], 4);
                assert_eq!(ssrc, word(&packets[0], 8), "the name of its packets");
                let caps = caps("srtcp", ssrc, &hex(&key), (cipher, auth));
                let opened = opened_by_gstreamer(&sealed, &caps, &folder);
                let reported = format!("{profile}: {opened:?}");
                let length: usize = opened.iter().map(Vec::len).sum();
                let whole: usize = sealed.iter().map(Vec::len).sum();
                // Index and tag (RFC 3711 §3.4, RFC 7714 §9).
                let room = if auth == "null" { 4 + 16 } else { 4 + 10 };
                assert_eq!(length + room * sealed.len(), whole, "{reported}");
                let mut sent = opened.iter().filter(|report| report[1] == SENDER_REPORT);
                let last = sent.next_back().expect(&reported);
                assert_eq!(
                    (word(last, 4), word(last, 20) as usize),
                    (ssrc, packets.len()),
                    "{reported}"
                );
                let goodbye = opened.iter().find(|report| report[1] == GOODBYE).expect(&reported);
                assert_eq!(word(goodbye, 4), ssrc, "{reported}");
            }
        });
    }

    #[test]
    fn encrypted_reports_are_exchanged_with_gstreamer() {
        steady(|| {
            if !has_srtp() {
                return;
            }
            for (profile, cipher, auth) in GSTREAMER {
                let (folder, port) = (Folder::new(), free_udp_ports());
                let key = make_key(profile, "key", &folder);
                let line = format!(
                    "recv --from rtp://127.0.0.1:{port} --output null: --exit-on-bye --report json --no-stall-monitor \
                     --rate 48000 --channels 2 --format l24 --srtp-key-file key"
                );
                let recv = taut(words(&line)).in_folder(folder.path()).start().listening();
                let between = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                let reports_at = between.local_addr().unwrap().port();
                let talk = gstreamer_talks((port, reports_at), &hex(&key), (cipher, auth), &folder);
                let mut seal = SrtpSeal::shared(&key);
                let answers = answers(&between, (Ipv4Addr::LOCALHOST, port + 1).into(), |sealed| {
                    // The stop condition; GStreamer checks the content.
                    let mut copy = sealed.to_vec();
                    seal.open(&mut copy)
                        .is_some_and(|report| is_block(report) && word(report, 24) != 0)
                });
                drop(talk);
                let caps = caps("srtcp", word(&answers[0], 4), &hex(&key), (cipher, auth));
                let opened = opened_by_gstreamer(&answers, &caps, &folder);
                let messages = reports(&folder.file("said.raw"));
                let reported = format!("{profile}: {opened:?} to {messages:?}");
                let middle = |report: &Vec<u8>| word(report, 10);
                let messages: Vec<_> =
                    messages.iter().filter(|one| one[1] == SENDER_REPORT).map(middle).collect();
                let blocks = opened.iter().filter(|one| is_block(one));
                // A block contains the middle bits of the last report's time (RFC 3550 §6.4.1).
                let answers = |block: &&Vec<u8>| {
                    word(block, 8) == SSRC && messages.contains(&word(block, 24))
                };
                assert!(blocks.clone().any(|block| answers(&block)), "{reported}");
                say_goodbye(&key, port + 1);
                let report = recv.end().report();
                assert_eq!(report.count("auth_failed"), 0, "{:#}", report.0);
            }
        });
    }

    #[test]
    fn gstreamer_joins_an_encrypted_group_bit_exact() {
        const HEARD: usize = 500;
        steady(|| {
            if !has_srtp() {
                return;
            }
            let (folder, port) = (Folder::new(), free_udp_ports());
            let sent = Sound::noise(Shape { coding: FileCoding::L24, ..Shape::STEREO_24 }, 8000, 7);
            sent.write(&folder.file("sent.wav"));
            let key = make_key("AEAD_AES_256_GCM", "key", &folder);
            let group = Ipv4Addr::new(239, 69, 77, 10);
            let onlooker = UdpSocket::bind((group, port)).unwrap();
            onlooker.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
            let line = format!(
                "send --input file:sent.wav --to rtp://{group}:{port}?iface=lo --format l24 --srtp-key-file key"
            );
            let send = taut(words(&line)).and(PATIENT).in_folder(folder.path()).start();
            // srtpdec needs the SSRC, which differs each time.
            let mut first = [0; 2000];
            onlooker.set_read_timeout(Some(TIMEOUT)).unwrap();
            onlooker.recv(&mut first).unwrap();
            drop(onlooker);
            let caps = caps("srtp", word(&first, 8), &hex(&key), ("aes-256-gcm", "null"));
            let line = format!(
                "-q udpsrc port={port} address={group} multicast-iface=lo num-buffers={HEARD} buffer-size=2097152 \
                 caps={caps} ! srtpdec ! rtpL24depay ! filesink location=heard.raw"
            );
            call("gst-launch-1.0", words(&line)).in_folder(folder.path()).run().well();
            drop(send);
            let received = read_raw(&folder.file("heard.raw"), sent.shape);
            assert_eq!(received.frames(), HEARD * 48);
            let step = 48 * sent.shape.channels;
            let places = (0..=sent.samples.len() - received.samples.len()).step_by(step);
            let mut places = places.filter(|at| sent.samples[*at..].starts_with(&received.samples));
            assert!(places.next().is_some(), "no piece of what was sent");
        });
    }
}
