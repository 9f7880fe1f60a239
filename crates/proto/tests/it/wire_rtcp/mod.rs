//! RTCP: vectors, properties, and comparison with `rtcp-types`.
#![expect(clippy::unwrap_used, reason = "a failure in a shared helper fails the test")]

mod properties;

use rtcp_types::prelude::*;
use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::{ClockId, ClockSource, DisciplinedClock, HostClock};
use tautline_proto::latency::LatencyMethod;
use tautline_proto::redundancy::sizing::Tally;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::ntp::{CompactNtp, CompactSpan, NtpTime};
use tautline_proto::wire::rtcp::*;

#[test]
fn probe_has_its_length_and_is_readable_truncated() {
    let mut buffer = [0xFF; 3_000];
    assert_eq!(write_probe(7, (2_944, 2_926), &mut buffer), Some(2_924), "whole words");
    assert!(Compound::parse(&buffer[..2_924]).is_ok());
    // At most an Ethernet frame.
    assert_eq!(probe_of(&buffer[..1_500]), Some((7, 2_944)));
    assert_eq!(probe_of(&buffer[..15]), None);
    assert_eq!(write_probe(7, (2_944, 9_000), &mut [0; 1_400]), Some(1_400));
    let len = write_passed(9, (7, 2_944), &mut buffer).unwrap();
    assert_eq!(probe_of(&buffer[..len]), None);
    let mut items = Vec::new();
    Compound::parse(&buffer[..len]).unwrap().visit(|ssrc, item| items.push((ssrc, item)));
    assert_eq!(items, [(9, Item::Passed(7, 2_944))]);
}

/// Contents with owned names.
#[derive(Debug, PartialEq)]
struct Said {
    items: Vec<(u32, String)>,
    blocks: Vec<ReportBlock>,
    delays: Vec<DelaySince>,
}

fn read(datagram: &[u8]) -> Result<Said, InvalidReport> {
    let mut said = Said { items: Vec::new(), blocks: Vec::new(), delays: Vec::new() };
    Compound::parse(datagram)?.visit(|ssrc, item| match item {
        Item::Block(block) => said.blocks.push(block),
        Item::Delay(delay) => said.delays.push(delay),
        other => said.items.push((ssrc, format!("{other:?}"))),
    });
    Ok(said)
}

fn written(report: &RtcpReport<'_>) -> Vec<u8> {
    let mut buffer = vec![0xAA; 65_536];
    let len = report.write(&mut buffer).unwrap();
    buffer.truncate(len);
    buffer
}

fn block(ssrc: u32) -> ReportBlock {
    ReportBlock {
        ssrc,
        fraction_lost: 64,
        cumulative_lost: -2,
        highest_sequence: 0x0001_FFFE,
        jitter: 17,
        last_report: CompactNtp::from_bits(0xB705_2000),
        delay: CompactSpan::from_bits(0x0005_4000),
    }
}

fn delay(ssrc: u32) -> DelaySince {
    DelaySince {
        ssrc,
        last_reference: CompactNtp::from_bits(0x0102_0304),
        delay: CompactSpan::from_bits(0x0506_0708),
    }
}

fn announcement() -> Announcement {
    Announcement {
        link_offset: Span::from_millis(5),
        format: StreamFormat {
            codec: None,
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: Frames::new(48),
            payload_type: 97,
        },
        packing_age: Span::from_millis(1),
        host: Some(HostClock::of(b"studio").reported(Span::from_secs(1_700_000_000))),
        card: Some(ClockId::of(&[b"card"])),
        wants_feedback: true,
    }
}

fn losses() -> LossReport {
    let tally = Tally { expected: 1000, missing: 50, runs: 40, beyond: 10_012 };
    LossReport { ssrc: 9, tally, repaired: 48, lost: 2, late: 1 }
}

fn effective() -> Effective {
    Effective {
        ssrc: 9,
        configured: Span::from_millis(5),
        effective: Span::from_micros(5_003),
        uncertainty: Span::from_micros(12),
        needed: Some(Span::from_micros(4_200)),
        method: Some(LatencyMethod::Sound),
    }
}

#[test]
fn latency_report_of_an_older_receiver_is_read() {
    let report = RtcpReport { effective: Some(effective()), ..RtcpReport::new(9) };
    let mut bytes = written(&report);
    let app = bytes.len() - 12 - 40;
    assert_eq!(&bytes[app + 8..app + 12], b"taut");
    let without_method = Effective { method: None, ..effective() };
    for (length, older) in
        [(36_usize, without_method), (28, Effective { needed: None, ..without_method })]
    {
        bytes.truncate(app + 12 + length);
        let words = u16::try_from(2 + length / 4).unwrap();
        bytes[app + 2..app + 4].copy_from_slice(&words.to_be_bytes());
        let said = read(&bytes).unwrap();
        let read = (9, format!("{:?}", Item::Effective(older)));
        assert!(said.items.contains(&read), "{:?}", said.items);
    }
}

#[test]
fn announcement_of_an_older_version_is_understood() {
    let report = RtcpReport { announcement: Some(announcement()), ..RtcpReport::new(9) };
    let bytes = written(&report);
    let app = bytes.len() - 12 - 52;
    assert_eq!(&bytes[app + 8..app + 12], b"taut");
    let unnamed = Announcement { host: None, card: None, ..announcement() };
    let younger = Announcement { packing_age: unnamed.format.ptime(), ..unnamed };
    for (length, said) in [(28, unnamed), (20, younger)] {
        let mut bytes = bytes[..app + 12 + length].to_vec();
        bytes[app + 2..app + 4].copy_from_slice(&(2 + length as u16 / 4).to_be_bytes());
        let items = read(&bytes).unwrap().items;
        assert!(items.contains(&(9, format!("{:?}", Item::Announcement(said)))), "{items:?}");
    }
}

#[test]
fn loss_report_of_an_older_receiver_is_read() {
    let bytes = written(&RtcpReport { losses: Some(losses()), ..RtcpReport::new(9) });
    let app = bytes.len() - 12 - 60;
    assert_eq!(&bytes[app + 8..app + 12], b"taut");
    let older = LossReport { late: 0, ..losses() };
    let oldest = LossReport { tally: Tally { beyond: 0, ..losses().tally }, ..older };
    for (length, said) in [(52, older), (44, oldest)] {
        let mut bytes = bytes[..app + 12 + length].to_vec();
        bytes[app + 2..app + 4].copy_from_slice(&(2 + length as u16 / 4).to_be_bytes());
        let items = read(&bytes).unwrap().items;
        assert!(items.contains(&(9, format!("{:?}", Item::Losses(said)))), "{items:?}");
    }
}

fn everything<'a>(blocks: &'a [ReportBlock], delays: &'a [DelaySince]) -> RtcpReport<'a> {
    RtcpReport {
        ssrc: 0x0102_0304,
        sender: Some(SenderInfo {
            ntp: NtpTime::from_bits(0x1112_1314_1516_1718),
            rtp_timestamp: 0x2122_2324,
            packets: 0x3132_3334,
            octets: 0x4142_4344,
        }),
        blocks,
        cname: "taut@studio",
        reference_time: Some(NtpTime::from_bits(0x5152_5354_5556_5758)),
        delays,
        announcement: Some(announcement()),
        effective: Some(effective()),
        losses: Some(losses()),
        capture: None,
        kept: Some(kept()),
        bye: true,
    }
}

fn kept() -> DisciplinedClock {
    DisciplinedClock {
        offset: Span::from_nanos(-0x0102_0304_0506_0708),
        uncertainty: Span::from_micros(3),
        source: ClockSource::Ptp,
    }
}

#[test]
fn a_kept_clock_is_these_very_bytes() {
    let bytes = written(&RtcpReport { kept: Some(kept()), ..RtcpReport::new(3) });
    let said = [
        0x83, 204, 0, 7, 0, 0, 0, 3, b't', b'a', b'u', b't', 0xFE, 0xFD, 0xFC, 0xFB, 0xFA, 0xF9,
        0xF8, 0xF8, 0, 0, 0, 0, 0, 0, 0x0B, 0xB8, 2, 0, 0, 0,
    ];
    assert!(bytes.ends_with(&said), "{bytes:x?}");
}

#[test]
fn a_receiver_report_is_these_very_bytes() {
    let report = RtcpReport {
        blocks: &[block(7)],
        cname: "abc",
        delays: &[delay(8)],
        reference_time: Some(NtpTime::from_bits(1)),
        ..RtcpReport::new(3)
    };
    let expected = [
        0x81, 201, 0, 7, 0, 0, 0, 3, // RR of one block
        0, 0, 0, 7, 64, 0xFF, 0xFF, 0xFE, 0, 1, 0xFF, 0xFE, 0, 0, 0, 17, 0xB7, 5, 0x20, 0, 0, 5,
        0x40, 0, //
        0x81, 202, 0, 3, 0, 0, 0, 3, 1, 3, b'a', b'b', b'c', 0, 0,
        0, // SDES, one zero and two more
        0x80, 207, 0, 8, 0, 0, 0, 3, // XR
        4, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, // reference time
        5, 0, 0, 3, 0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, // delays
    ];
    assert_eq!(written(&report), expected);
}

#[test]
fn app_packets_have_the_documented_bytes() {
    let report = RtcpReport {
        announcement: Some(announcement()),
        effective: Some(effective()),
        ..RtcpReport::new(3)
    };
    let bytes = written(&report);
    let announced = [
        0x80, 204, 0, 15, 0, 0, 0, 3, b't', b'a', b'u', b't', 0, 0, 0, 0, 0, 0x4C, 0x4B, 0x40, 0,
        0, 0xBB, 0x80, 0, 2, 0, 48, 2, 97, 0, 1, 0, 0, 0, 0, 0, 0x0F, 0x42, 0x40,
    ];
    assert_eq!(bytes[20..60], announced);
    // Builds on one host must agree, so these bits are fixed.
    let clocks = [0x49F4_CC0D_8309_4C37, 0x85D4_4E12_B3E0_0B2D, 0x5A43_35A7_84A1_CC14_u64];
    assert_eq!(bytes[60..84], clocks.map(u64::to_be_bytes).concat());
    assert_eq!(bytes[84..96], [0x81, 204, 0, 12, 0, 0, 0, 3, b't', b'a', b'u', b't']);
    assert_eq!(bytes[96..100], [0, 0, 0, 9]);
    assert_eq!(bytes[124..], [0, 0, 0, 0, 0, 0x40, 0x16, 0x40, 0, 0, 0, 3]);
}

#[test]
fn another_reader_finds_the_same() {
    let (blocks, delays) = ([block(7), block(8)], [delay(9)]);
    let bytes = written(&everything(&blocks, &delays));
    let packets: Vec<_> =
        rtcp_types::Compound::parse(&bytes).unwrap().map(|packet| packet.unwrap()).collect();
    let kinds: Vec<_> = packets
        .iter()
        .map(|packet| match packet {
            rtcp_types::Packet::Sr(_) => "sr",
            rtcp_types::Packet::Sdes(_) => "sdes",
            rtcp_types::Packet::Xr(_) => "xr",
            rtcp_types::Packet::App(_) => "app",
            rtcp_types::Packet::Bye(_) => "bye",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["sr", "sdes", "xr", "app", "app", "app", "app", "bye"]);
    let rtcp_types::Packet::Sr(report) = &packets[0] else { unreachable!() };
    assert_eq!((report.ssrc(), report.rtp_timestamp()), (0x0102_0304, 0x2122_2324));
    assert_eq!(report.report_blocks().map(|b| b.cumulative_lost()).last(), Some(0xFF_FFFE));
    let rtcp_types::Packet::Sdes(description) = &packets[1] else { unreachable!() };
    let chunk = description.chunks().next().unwrap();
    assert_eq!(chunk.items().next().unwrap().value(), b"taut@studio");
}

#[test]
fn the_reader_understands_another_writer() {
    let bye = rtcp_types::Bye::builder().add_source(1).add_source(2).reason("lunch");
    let report = rtcp_types::ReceiverReport::builder(1)
        .add_report_block(rtcp_types::ReportBlock::builder(5).cumulative_lost(0xFF_FFFF));
    let name = rtcp_types::SdesItem::builder(2, "a name that is no canonical one");
    let cname = rtcp_types::SdesItem::builder(1, "x@y");
    let chunk = rtcp_types::SdesChunk::builder(1).add_item(name).add_item(cname);
    let sdes = rtcp_types::Sdes::builder().add_chunk(chunk);
    let compound = rtcp_types::Compound::builder()
        .add_packet(report)
        .add_packet(sdes)
        .add_packet(rtcp_types::Unknown::builder(210, &[0; 8]))
        .add_packet(bye);
    let mut bytes = vec![0; compound.calculate_size().unwrap()];
    compound.write_into(&mut bytes).unwrap();
    let said = read(&bytes).unwrap();
    assert_eq!(said.blocks[0].cumulative_lost, -1);
    let expected = [(1, "Cname(\"x@y\")"), (1, "Bye"), (2, "Bye")];
    assert_eq!(said.items, expected.map(|(ssrc, text)| (ssrc, text.to_owned())));
}

#[test]
fn a_report_of_reduced_size_is_read() {
    let bytes = written(&RtcpReport { bye: true, ..RtcpReport::new(3) });
    let said = read(&bytes[bytes.len() - 8..]).unwrap();
    assert_eq!(said.items, [(3, "Bye".to_owned())]);
}

#[test]
fn a_report_cut_anywhere_but_between_packets_is_refused() {
    let (blocks, delays) = ([block(7), block(8)], [delay(9), delay(10)]);
    let bytes = written(&everything(&blocks, &delays));
    let mut whole = 0;
    for len in 0..bytes.len() {
        match read(&bytes[..len]) {
            Ok(_) => whole += 1,
            Err(InvalidReport::Empty) => assert_eq!(len, 0),
            Err(reason) => assert!(matches!(reason, InvalidReport::Beyond { .. }), "{reason:?}"),
        }
    }
    assert_eq!(whole, 7, "eight packets have seven seams");
}

#[test]
fn each_lie_is_named() {
    let reason = |bytes: &[u8]| read(bytes).unwrap_err();
    assert_eq!(reason(&[]), InvalidReport::Empty);
    assert_eq!(reason(&[0x80, 97, 0, 0]), InvalidReport::PacketType(97));
    assert_eq!(reason(&[0x40, 201, 0, 1, 0, 0, 0, 1]), InvalidReport::Version(1));
    let beyond = InvalidReport::Beyond { claimed: 12, left: 8 };
    assert_eq!(reason(&[0x80, 201, 0, 2, 0, 0, 0, 1]), beyond);
    assert_eq!(reason(&[0x81, 201, 0, 1, 0, 0, 0, 1]), InvalidReport::Contents(201));
    assert_eq!(reason(&[0x80, 200, 0, 1, 0, 0, 0, 1]), InvalidReport::Contents(200));
    // Endless chunk, and item beyond the end.
    assert_eq!(reason(&[0x81, 202, 0, 1, 0, 0, 0, 1]), InvalidReport::Contents(202));
    assert_eq!(reason(&[0x81, 202, 0, 2, 0, 0, 0, 1, 1, 9, b'a', 0]), InvalidReport::Contents(202));
    assert_eq!(reason(&[0x82, 203, 0, 1, 0, 0, 0, 1]), InvalidReport::Contents(203));
    assert_eq!(reason(&[0x80, 204, 0, 1, 0, 0, 0, 1]), InvalidReport::Contents(204));
    let xr = [0x80, 207, 0, 2, 0, 0, 0, 1, 4, 0, 0, 2];
    assert_eq!(reason(&xr), InvalidReport::Contents(207));
}

#[test]
fn padding_counts_only_at_the_very_end_and_in_words() {
    let app = |padding: u8| [0xA0, 204, 0, 3, 0, 0, 0, 1, b't', b'a', b'u', b't', 0, 0, 0, padding];
    assert!(read(&app(4)).is_ok());
    for padding in [0, 1, 16, 255] {
        assert_eq!(read(&app(padding)), Err(InvalidReport::Padding(padding)));
    }
    assert_eq!(read(&app(12)), Err(InvalidReport::Contents(204)), "padding over the name");
    let twice = [app(4), app(4)].concat();
    assert_eq!(read(&twice), Err(InvalidReport::Padding(4)));
}

#[test]
fn additions_of_later_versions_are_ignored() {
    let app = |subtype: u8, data: &[u8]| {
        let words = (8 + data.len()) / 4;
        [&[0x80 | subtype, 204, 0, words as u8, 0, 0, 0, 1], &b"taut"[..], data].concat()
    };
    assert_eq!(read(&app(9, &[0; 4])).unwrap().items, []);
    assert_eq!(read(&app(0, &[0; 4])).unwrap().items, [], "too short");
    let bytes = written(&RtcpReport { announcement: Some(announcement()), ..RtcpReport::new(1) });
    let longer = app(0, &[&bytes[32..], &[1, 2, 3, 4]].concat());
    assert_eq!(
        read(&longer).unwrap().items,
        [(1, format!("{:?}", Item::Announcement(announcement())))]
    );
    let mut strange = bytes[20..].to_vec();
    strange[28] = 77; // coding
    assert_eq!(read(&strange).unwrap().items, []);
}

#[test]
fn foreign_app_packets_and_impossible_streams_are_skipped() {
    let bytes = written(&RtcpReport { announcement: Some(announcement()), ..RtcpReport::new(1) });
    let items = |at: usize, value: u8| {
        let mut app = bytes[20..].to_vec();
        app[at] = value;
        read(&app).unwrap().items
    };
    assert_eq!(items(8, b't').len(), 1, "unchanged");
    assert_eq!(items(8, b'T'), [], "another name");
    assert_eq!(items(27, 0), [], "packets of no frames");
    assert_eq!(items(29, 128), [], "a payload type of eight bits");
    assert_eq!(items(17, 0xFF).len(), 1);
    let endless = Announcement { link_offset: Span::MAX, ..announcement() };
    assert_eq!(items(12, 0xFF), [(1, format!("{:?}", Item::Announcement(endless)))]);
}

#[test]
fn names_of_any_length_end_where_the_next_source_begins() {
    for len in 0..9 {
        let mut body = vec![0, 0, 0, 1, 1, len];
        body.extend(vec![b'x'; len.into()]);
        body.resize((body.len() + 1).next_multiple_of(4), 0);
        body.extend([0, 0, 0, 2, 1, 1, b'y', 0]);
        let sdes = [&[0x82, 202, 0, (body.len() / 4) as u8], &body[..]].concat();
        let first = format!("Cname({:?})", "x".repeat(len.into()));
        let expected = [(1, first), (2, "Cname(\"y\")".to_owned())];
        assert_eq!(read(&sdes).unwrap().items, expected);
    }
}

#[test]
fn report_that_does_not_fit_returns_its_size() {
    let report = RtcpReport { cname: "abc", ..RtcpReport::new(1) };
    let mut buffer = [0xAA; 23];
    let refused = ReportError::Room { needed: 24, room: 23 };
    assert_eq!(report.write(&mut buffer), Err(refused));
    assert_eq!(buffer, [0xAA; 23], "nothing is written");
    let many = [block(1); 32];
    let mut buffer = [0; 2048];
    let full = RtcpReport { blocks: &many[..31], ..report };
    assert!(full.write(&mut buffer).is_ok());
    assert_eq!(
        RtcpReport { blocks: &many, ..report }.write(&mut buffer),
        Err(ReportError::Blocks(32))
    );
    let name = "x".repeat(256);
    assert_eq!(
        RtcpReport { cname: &name, ..report }.write(&mut buffer),
        Err(ReportError::Cname(256))
    );
}

#[test]
fn report_omits_only_hidden_clocks() {
    let report = everything(&[], &[]);
    let mut bytes = written(&report);
    hide_clocks(&mut bytes);
    let hidden = report.announcement.map(|a| Announcement { host: None, card: None, ..a });
    assert_eq!(bytes, written(&RtcpReport { announcement: hidden, ..report }));
    assert_ne!(bytes, written(&report));
    for cut in 0..bytes.len() {
        hide_clocks(&mut bytes[..cut].to_vec());
    }
}
