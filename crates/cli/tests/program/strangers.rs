//! A stranger at another address that knows the stream's SSRC, like any group member. Simulated
//! twins: `other_host_with_the_senders_ssrc_is_not_played` of `crates/sim/tests`, and
//! `proto::asks`.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tautline_trial::snapshot;

use tautline_dsp::format::SampleFormat;
use tautline_proto::redundancy::sizing::Tally;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtcp::{Announcement, Compound, Effective, LossReport, RtcpReport};

use crate::common::messages;
use crate::common::program::{Call, Ended, TIMEOUT, taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, PATIENT, bound, free_udp_ports, shared};

/// Survives a busy host, with any latency.
const RINGS: &str = "--period 240 --periods 32 --no-stall-monitor";

fn stranger() -> UdpSocket {
    UdpSocket::bind(("127.0.0.2", 0)).unwrap()
}

fn written(report: &RtcpReport<'_>) -> Vec<u8> {
    let mut buffer = [0; 1400];
    let bytes = report.write(&mut buffer).unwrap();
    buffer[..bytes].to_vec()
}

fn announced(hertz: u32, channels: u32, sample: SampleFormat) -> Announcement {
    let format = StreamFormat {
        codec: None,
        rate: Rate::new(hertz).unwrap(),
        channels: Channels::new(channels).unwrap(),
        sample,
        packet: Frames::new(48),
        payload_type: StreamFormat::default_payload_type(sample),
    };
    let (link_offset, packing_age) = (Span::from_millis(500), Span::from_millis(1));
    Announcement { link_offset, format, packing_age, host: None, card: None, wants_feedback: false }
}

fn author(compound: &[u8]) -> Option<u32> {
    let mut found = None;
    Compound::parse(compound).ok()?.visit(|ssrc, _| found = Some(ssrc));
    found
}

/// Sends announcements under the stranger's SSRC every few milliseconds, until dropped.
struct Announcing(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Announcing {
    fn to(port: u16) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let announcement = Some(announced(44_100, 1, SampleFormat::L16));
        let lie = written(&RtcpReport { announcement, ..RtcpReport::new(0x0BAD) });
        let (until, by) = (Arc::clone(&over), stranger());
        let announce = move || {
            while !until.load(Ordering::Relaxed) {
                let _ = by.send_to(&lie, ("127.0.0.1", port));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        Self(over, Some(std::thread::spawn(announce)))
    }
}

impl Drop for Announcing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(JoinHandle::join);
    }
}

fn reported_nothing(to: u16) -> Call {
    taut(words(&format!(
        "recv --from rtp://127.0.0.1:{to} --output file:heard.wav --exit-on-bye --report json -v {RINGS}"
    )))
}

/// Missing sound before the first recorded sound. From a second later, the recording must be the
/// sent sound.
fn missing_before(received: &Sound, sent: &Sound) -> Duration {
    let first = received.begins().expect("sound");
    let end =
        (first..received.frames()).rev().find(|index| received.sounds(*index)).expect("sound") + 1;
    let missing = sent.frames() - (end - first);
    let settled = first + 48_000;
    assert!(settled + 48_000 < end, "it sounds from {first} to {end}");
    let differs = (settled..end).find(|at| received.frame(*at) != sent.frame(at - first + missing));
    assert_eq!(differs, None, "it sounds from {first} to {end}");
    Duration::from_secs(missing as u64) / 48_000
}

#[test]
fn stranger_announcing_first_costs_at_most_tenths_of_a_second() {
    shared(|| {
        let folder = Folder::new();
        let sent = Sound::noise(Shape::STEREO_24, 4000, 47);
        sent.write(&folder.file("sent.wav"));
        let to = free_udp_ports();
        let recv = reported_nothing(to).in_folder(folder.path()).start().listening();
        let announcing = Announcing::to(to + 1);
        let recv = recv.wait_for("44100 Hz");
        let send = format!("send --input file:sent.wav --to rtp://127.0.0.1:{to}");
        taut(words(&send)).and(PATIENT).in_folder(folder.path()).run().well();
        drop(announcing);
        let recv = recv.wait_for(messages::BEGUN_AGAIN);
        snapshot!(recv.messages().last().unwrap());
        let report = recv.end().report();
        assert_eq!(report.stream("/rate"), 48_000, "{:#}", report.0);
        let missing = missing_before(&Sound::read(&folder.file("heard.wav")), &sent);
        assert!(missing < Duration::from_millis(500), "{missing:?}");
    });
}

#[test]
fn stranger_announcing_during_a_stream_is_ignored() {
    shared(|| {
        let folder = Folder::new();
        let sent = Sound::noise(Shape::STEREO_24, 5000, 48);
        sent.write(&folder.file("sent.wav"));
        let to = free_udp_ports();
        let _announcing = Announcing::to(to + 1);
        let send = format!("send --input file:sent.wav --to rtp://127.0.0.1:{to}");
        let media = bound(to);
        media.set_read_timeout(Some(TIMEOUT)).unwrap();
        let send = taut(words(&send)).and(PATIENT).in_folder(folder.path()).start();
        media.recv_from(&mut [0; 2048]).unwrap();
        drop(media);
        // A program that another test starts now has the socket until exec.
        while tautline_trial::is_listed(to) {
            std::thread::yield_now();
        }
        let report = reported_nothing(to).in_folder(folder.path()).run().report();
        send.end().well();
        assert_eq!(report.stream("/rate"), 48_000, "{:#}", report.0);
        missing_before(&Sound::read(&folder.file("heard.wav")), &sent);
    });
}

#[test]
fn stdout_begun_with_a_false_announcement_names_the_options() {
    shared(|| {
        let to = free_udp_ports();
        let recv =
            format!("recv --from rtp://127.0.0.1:{to} --output file:- --exit-on-bye -v {RINGS}");
        let recv = taut(words(&recv)).start().listening();
        let announcing = Announcing::to(to + 1);
        let recv = recv.wait_for("44100 Hz");
        let send = format!("send --input tone:440 --to rtp://127.0.0.1:{to} --duration 1s");
        taut(words(&send)).and(PATIENT).run().well();
        drop(announcing);
        let Ended { status, messages, .. } = recv.end();
        assert!(
            messages.iter().any(|line| line.contains("--rate 48000 --channels 2")),
            "{messages:#?}"
        );
        assert_eq!(status, Some(1), "{messages:#?}");
    });
}

#[test]
fn unreadable_stream_of_another_host_is_not_waited_for() {
    shared(|| {
        let folder = Folder::new();
        let sent = Sound::noise(Shape::STEREO_24, 6000, 49);
        sent.write(&folder.file("sent.wav"));
        let to = free_udp_ports();
        let recv = reported_nothing(to).in_folder(folder.path()).start().listening();
        // Not a multiple of 48 stereo frames of 24 bits.
        let seven = written(&RtcpReport {
            announcement: Some(announced(48_000, 7, SampleFormat::L24)),
            ..RtcpReport::new(0x0BAD)
        });
        stranger().send_to(&seven, ("127.0.0.1", to + 1)).unwrap();
        let recv = recv.wait_for("7 channels");
        let send = format!("send --input file:sent.wav --to rtp://127.0.0.1:{to}");
        taut(words(&send)).and(PATIENT).in_folder(folder.path()).run().well();
        let recv = recv.wait_for(messages::NOT_READABLE);
        let report = recv.end().report();
        assert_eq!(report.stream("/rate"), 48_000, "{:#}", report.0);
        let missing = missing_before(&Sound::read(&folder.file("heard.wav")), &sent);
        assert!(missing < Duration::from_millis(1500), "{missing:?}");
    });
}

#[test]
fn running_recording_does_not_restart_for_another_format() {
    shared(|| {
        let folder = Folder::new();
        let [first, second] = [50, 51].map(|seed| Sound::noise(Shape::STEREO_24, 2000, seed));
        first.write(&folder.file("first.wav"));
        let to = free_udp_ports();
        let recv = format!(
            "recv --from rtp://127.0.0.1:{to} --output file:heard.wav --report json --duration 8s {RINGS}"
        );
        let recv = taut(words(&recv)).in_folder(folder.path()).start().listening();
        let send = |input: &str| {
            let line = format!("send --input file:{input} --to rtp://127.0.0.1:{to}");
            taut(words(&line)).and(PATIENT).in_folder(folder.path()).run().well()
        };
        send("first.wav");
        let slower = Shape { rate: 44_100, ..Shape::STEREO_24 };
        Sound { shape: slower, ..second }.write(&folder.file("second.wav"));
        send("second.wav");
        let recv = recv.wait_for(messages::NOT_PLAYED);
        recv.end().report();
        // The second may start while the end of the first still plays.
        let received = Sound::read(&folder.file("heard.wav"));
        let begins = received.begins().expect("sound");
        let differs = (0..72_000).find(|at| received.frame(begins + at) != first.frame(*at));
        assert_eq!(differs, None);
    });
}

/// Reports a loss of every other packet, and requests this latency.
fn requests(ssrc: u32, stream: u32, millis: i64, reports: u64) -> Vec<u8> {
    let effective = Effective {
        ssrc: stream,
        configured: Span::from_millis(5),
        effective: Span::from_millis(5),
        uncertainty: Span::from_micros(20),
        needed: Some(Span::from_millis(millis)),
        method: None,
    };
    let (expected, missing) = (1000 * reports, 500 * reports);
    let tally = Tally { expected, missing, runs: missing, beyond: 0 };
    let losses = LossReport { ssrc: stream, tally, repaired: 0, lost: missing, late: 0 };
    written(&RtcpReport {
        effective: Some(effective),
        losses: Some(losses),
        ..RtcpReport::new(ssrc)
    })
}

#[test]
fn sender_obeys_its_receivers_and_ignores_a_stranger() {
    shared(|| {
        let to = free_udp_ports();
        let (_media, reports) = (bound(to), bound(to + 1));
        reports.set_read_timeout(Some(TIMEOUT)).unwrap();
        let send = format!(
            "send --input tone:440 --to rtp://127.0.0.1:{to} --latency auto --redundancy auto --duration 3s \
         --report json --no-stall-monitor"
        );
        let send = taut(words(&send)).start();
        let by = stranger();
        let mut datagram = [0; 2048];
        for count in 1..=10 {
            let (bytes, peer) = reports.recv_from(&mut datagram).unwrap();
            let stream = author(&datagram[..bytes]).unwrap();
            by.send_to(&requests(0xBAD, stream, 2000, count), peer).unwrap();
            by.send_to(&requests(0x600D, stream, 2000, count), peer).unwrap();
            let needed = Some(Span::from_millis(30));
            let effective = Effective {
                ssrc: stream,
                configured: Span::from_millis(5),
                effective: Span::from_millis(5),
                uncertainty: Span::from_micros(20),
                needed,
                method: None,
            };
            let answer = RtcpReport { effective: Some(effective), ..RtcpReport::new(0x600D) };
            reports.send_to(&written(&answer), peer).unwrap();
        }
        let report = send.end().report();
        assert_eq!(report.nanos("/latency/configured_ns"), 30_000_000, "{:#}", report.0);
        assert_eq!(report.stream("/redundancy/symbols"), 1, "{:#}", report.0);
        let reported = report.stream("/receivers").as_array().unwrap();
        let reported: Vec<_> = reported
            .iter()
            .map(|one| {
                let (ssrc, requested) = (one["ssrc"].as_u64(), one["requested_ns"].as_i64());
                (one["address"].as_str(), one["trusted"].as_bool(), ssrc, requested)
            })
            .collect();
        let line = |address, believed, ssrc, requested: i64| {
            (Some(address), Some(believed), Some(ssrc), Some(requested * 1_000_000))
        };
        for expected in [
            line("127.0.0.2", false, 0xBAD, 2000),
            line("127.0.0.2", false, 0x600D, 2000),
            line("127.0.0.1", true, 0x600D, 30),
        ] {
            assert!(reported.contains(&expected), "{expected:?} is none of {reported:?}");
        }
        assert!(
            report.notes().iter().any(|note| note.starts_with("127.0.0.2 reports")),
            "{:#}",
            report.0
        );
    });
}

#[test]
fn limit_bounds_a_receivers_request() {
    shared(|| {
        let to = free_udp_ports();
        let (_media, reports) = (bound(to), bound(to + 1));
        reports.set_read_timeout(Some(TIMEOUT)).unwrap();
        let send = format!(
            "send --input tone:440 --to rtp://127.0.0.1:{to} --latency auto:80ms \
         --redundancy auto --redundancy-limit 2 --duration 3s --report json --no-stall-monitor"
        );
        let send = taut(words(&send)).start();
        let mut datagram = [0; 2048];
        for count in 1..=10 {
            let (bytes, peer) = reports.recv_from(&mut datagram).unwrap();
            let stream = author(&datagram[..bytes]).unwrap();
            reports.send_to(&requests(0x600D, stream, 2000, count), peer).unwrap();
        }
        let report = send.end().report();
        assert_eq!(report.nanos("/latency/configured_ns"), 80_000_000, "{:#}", report.0);
        assert_eq!(report.stream("/redundancy/symbols"), 2, "{:#}", report.0);
        for limit in ["--latency auto", "--redundancy-limit"] {
            assert!(
                report.notes().iter().any(|note| note.contains(limit)),
                "{limit} in {:#}",
                report.0
            );
        }
    });
}
