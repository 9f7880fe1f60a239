//! Claims on the wire: vector, properties, later versions, and dissection.
#![expect(clippy::unwrap_used, reason = "a failure in a shared helper fails the test")]

use std::process::Command;

use proptest::prelude::*;
use tautline_dsp::gain::Gain;
use tautline_proto::time::{Span, WallTime};
use tautline_proto::wire::rtcp::{Compound, InvalidReport, Item, MAX_CLAIM_BYTES, write_claim};
use tautline_proto::zone::{AnnouncementId, Claim, Class, Duck, Priority, Targets};
use tautline_trial::{Lack, skipped};

const SSRC: u32 = 0x7461_7574;

fn claim() -> Claim {
    Claim {
        id: AnnouncementId(0x0102_0304_0506_0708),
        priority: Priority(100),
        rank: 3,
        starts: WallTime::from_unix_nanos(1_000_000_500_000_000),
        ends: None,
        sent: WallTime::from_unix_nanos(1_000_000_000_000_000),
        longest: Span::from_secs(600),
        duck: Duck::of(Class::Announcement),
    }
}

fn written(claim: &Claim, targets: &[[u8; 2]]) -> Vec<u8> {
    let mut buffer = [0xAA; MAX_CLAIM_BYTES];
    let len = write_claim(SSRC, claim, Targets::new(targets).unwrap(), &mut buffer).unwrap();
    buffer[..len].to_vec()
}

type ReadClaim = (u32, Claim, Vec<[u8; 2]>);

fn read(datagram: &[u8]) -> Result<Vec<ReadClaim>, InvalidReport> {
    let mut claims = Vec::new();
    Compound::parse(datagram)?.visit(|ssrc, item| match item {
        Item::Claim(claim, targets) => claims.push((ssrc, claim, targets.as_bytes().to_vec())),
        other => panic!("{other:?}"),
    });
    Ok(claims)
}

/// Of the only packet (RFC 3550 §6.4.1).
fn set_length(datagram: &mut [u8]) {
    let words = datagram.len() / 4 - 1;
    datagram[2..4].copy_from_slice(&(words as u16).to_be_bytes());
}

#[test]
fn claim_has_the_documented_bytes() {
    let ended = Claim { ends: Some(WallTime::from_unix_nanos(1_000_001_000_000_000)), ..claim() };
    let mut expected = vec![0x87, 204, 0, 16];
    expected.extend(*b"tauttaut");
    expected.extend([1, 1, 100, 0, 0, 3, 0, 1]);
    expected.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    let seconds = (1_000_000_u32 + 2_208_988_800).to_be_bytes();
    expected.extend([seconds, [0x80, 0, 0, 0], seconds, [0; 4]].concat());
    expected.extend([(1_000_001_u32 + 2_208_988_800).to_be_bytes(), [0; 4]].concat());
    expected.extend(600_000_u32.to_be_bytes());
    expected.extend([2000, 20, 300, 1000].map(u16::to_be_bytes).concat());
    expected.extend([1, 2, 0, 0]);
    assert_eq!(written(&ended, &[[1, 2]]), expected);
}

#[test]
fn later_fields_flags_and_versions_are_ignored() {
    let mut datagram = written(&claim(), &[[1, 2], [3, 4]]);
    datagram[12] = 9;
    datagram[13] |= 0xFE;
    datagram[15] = 0xFF;
    datagram.extend([0xEE; 400]);
    set_length(&mut datagram);
    assert_eq!(read(&datagram), Ok(vec![(SSRC, claim(), vec![[1, 2], [3, 4]])]));
    datagram[12] = 0;
    assert_eq!(read(&datagram), Ok(vec![]));
}

#[test]
fn claim_longer_than_its_packet_is_invalid() {
    let datagram = written(&claim(), &[[1, 2], [3, 4]]);
    let with_targets = |count: u16| {
        let mut datagram = datagram.clone();
        datagram[18..20].copy_from_slice(&count.to_be_bytes());
        read(&datagram)
    };
    assert_eq!(with_targets(1).unwrap()[0].2, [[1, 2]]);
    for count in [0, 3, 201, 65_535] {
        assert_eq!(with_targets(count), Err(InvalidReport::Contents(204)), "{count}");
    }
    for words in 0..datagram.len() / 4 - 1 {
        let mut short = datagram[..4 * (words + 1)].to_vec();
        short[2..4].copy_from_slice(&(words as u16).to_be_bytes());
        assert_eq!(read(&short), Err(InvalidReport::Contents(204)), "{words}");
        let truncated = &datagram[..short.len()];
        assert!(matches!(read(truncated), Err(InvalidReport::Beyond { .. })), "{words}");
    }
}

#[test]
fn claim_is_not_written_without_room() {
    let targets = [[0, 1]; Targets::MAX];
    let targets = Targets::new(&targets).unwrap();
    assert_eq!(write_claim(SSRC, &claim(), targets, &mut [0; MAX_CLAIM_BYTES - 1]), None);
    let mut buffer = [0; MAX_CLAIM_BYTES];
    assert_eq!(write_claim(SSRC, &claim(), targets, &mut buffer), Some(MAX_CLAIM_BYTES));
    assert_eq!(Targets::new(&[[0, 1]; Targets::MAX + 1]), None);
    assert_eq!(Targets::new(&[]), None);
}

proptest! {
    #[test]
    fn written_claim_is_read_again(
        id: u64, priority: u8, rank: u16, times in [0..4_000_000_000_u32, 0..4_000_000_000_u32, 0..4_000_000_000_u32], ended: bool, longest: u32,
        depth in 0..=65_535_u16, ramps: [u16; 3],
        targets in proptest::collection::vec(any::<[u8; 2]>(), 1..=Targets::MAX),
    ) {
        let [starts, ends, sent] =
            times.map(|time| WallTime::from_unix_nanos(i64::from(time) * 999_999_937));
        let [down, hold, up] = ramps.map(|millis| Span::from_millis(millis.into()));
        let depth = match depth {
            u16::MAX => Gain::SILENCE,
            depth => Gain::from_db(f64::from(depth) / -100.0).unwrap(),
        };
        let claim = Claim {
            id: AnnouncementId(id),
            priority: Priority(priority),
            rank,
            starts,
            ends: ended.then_some(ends),
            sent,
            longest: Span::from_millis(longest.into()),
            duck: Duck { depth, down, hold, up },
        };
        prop_assert_eq!(read(&written(&claim, &targets)), Ok(vec![(SSRC, claim, targets)]));
    }

    #[test]
    fn random_claim_never_panics(data in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut datagram = written(&claim(), &[[1, 2]])[..12].to_vec();
        datagram.extend(data);
        datagram.truncate(datagram.len() & !3);
        set_length(&mut datagram);
        let _ = read(&datagram);
    }
}

/// The datagrams to UDP port 5005, as a capture of raw IP packets.
fn capture(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut pcap = 0xA1B2_C3D4_u32.to_ne_bytes().to_vec();
    pcap.extend([2_u16, 4].map(u16::to_ne_bytes).concat());
    pcap.extend([0_u32, 0, 65_535, 101].map(u32::to_ne_bytes).concat());
    for (number, datagram) in (0_u32..).zip(datagrams) {
        let length = 28 + datagram.len() as u32;
        pcap.extend([number, 0, length, length].map(u32::to_ne_bytes).concat());
        pcap.extend([0x45, 0]);
        pcap.extend((length as u16).to_be_bytes());
        pcap.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 239, 0, 0, 2]);
        pcap.extend([5005, 5005, length as u16 - 20, 0].map(u16::to_be_bytes).concat());
        pcap.extend(datagram);
    }
    pcap
}

#[test]
fn wireshark_reads_claims_as_rtcp() {
    if let Err(error) = Command::new("tshark").arg("--version").output() {
        return skipped(Lack::Package, &format!("tshark is not installed: {error}"));
    }
    let datagrams = [1, 2, Targets::MAX].map(|count| written(&claim(), &vec![[0, 7]; count]));
    let path = std::env::temp_dir().join(format!("tautline-claims-{}.pcap", std::process::id()));
    std::fs::write(&path, capture(&datagrams)).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-d", "udp.port==5005,rtcp", "-T", "fields", "-E", "separator=|", "-r"]);
    tshark.arg(&path);
    let fields = ["_ws.col.Protocol", "rtcp.pt", "rtcp.app.name", "rtcp.app.subtype"];
    let more =
        ["rtcp.ssrc.identifier", "rtcp.length", "rtcp.app.data", "_ws.malformed", "_ws.expert"];
    fields.iter().chain(&more).for_each(|field| {
        tshark.args(["-e", field]);
    });
    let read = tshark.output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let lines = String::from_utf8_lossy(&read.stdout).into_owned();
    let expected: Vec<String> = datagrams
        .iter()
        .map(|datagram| {
            let words = datagram.len() / 4 - 1;
            let data: String = datagram[12..].iter().map(|byte| format!("{byte:02x}")).collect();
            format!("RTCP|204|taut|7|0x{SSRC:08x}|{words}|{data}||")
        })
        .collect();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}
