use proptest::prelude::*;
use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::{ClockId, ClockSource, DisciplinedClock, HostReading};
use tautline_proto::device::CaptureFaults;
use tautline_proto::latency::LatencyMethod;
use tautline_proto::redundancy::sizing::Tally;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::ntp::{CompactNtp, CompactSpan, NtpTime};
use tautline_proto::wire::rtcp::*;

use super::{block, delay, everything, read, written};

prop_compose! {
    fn any_block()(
        ssrc: u32, fraction_lost: u8, cumulative_lost in -(1 << 23)..(1 << 23),
        highest_sequence: u32, jitter: u32, last: u32, delay: u32,
    ) -> ReportBlock {
        ReportBlock {
            ssrc, fraction_lost, cumulative_lost, highest_sequence, jitter,
            last_report: CompactNtp::from_bits(last), delay: CompactSpan::from_bits(delay),
        }
    }
}

prop_compose! {
    fn any_delay()(ssrc: u32, last: u32, delay: u32) -> DelaySince {
        DelaySince {
            ssrc, last_reference: CompactNtp::from_bits(last), delay: CompactSpan::from_bits(delay),
        }
    }
}

fn any_span() -> impl Strategy<Value = Span> {
    (0..i64::MAX).prop_map(Span::from_nanos)
}

prop_compose! {
    fn any_announcement()(
        link_offset in any_span(), packing_age in any_span(), rate in proptest::sample::select(&Rate::SUPPORTED[..]),
        channels in 1..=64_u32, packet in 1..=65_535_i64, payload_type in 0..128_u8,
        sample in proptest::sample::select(SampleFormat::ALL.to_vec()),
        clocks: (u64, u64, u64), wants_feedback: bool,
    ) -> Announcement {
        let format = StreamFormat { codec: None,
            rate: Rate::new(rate).unwrap(), channels: Channels::new(channels).unwrap(), sample,
            packet: Frames::new(packet), payload_type,
        };
        let host = ClockId::from_bits(clocks.0).map(|id| HostReading { id, veiled: clocks.1 });
        let card = ClockId::from_bits(clocks.2);
        Announcement { link_offset, format, packing_age, host, card, wants_feedback }
    }
}

proptest! {
    #[test]
    fn written_rtcp_is_read(
        ssrc: u32,
        sender: Option<(u64, u32, u32, u32)>,
        blocks in proptest::collection::vec(any_block(), 0..=31),
        delays in proptest::collection::vec(any_delay(), 0..40),
        cname in "\\PC{0,60}",
        reference: Option<u64>,
        announcement in proptest::option::of(any_announcement()),
        spans in proptest::option::of((any::<u32>(), any_span(), any_span(), any_span(), any_span())),
        lacked in proptest::option::of(any::<(u32, [u64; 7])>()),
        kept in proptest::option::of((any::<i64>(), any_span(), any::<bool>())),
        faults in proptest::option::of((any::<u64>(), any_span())),
        bye: bool,
    ) {
        let sender = sender.map(|(ntp, rtp_timestamp, packets, octets)| SenderInfo {
            ntp: NtpTime::from_bits(ntp), rtp_timestamp, packets, octets,
        });
        let reference_time = reference.map(NtpTime::from_bits);
        let effective = spans.map(|(ssrc, configured, effective, uncertainty, needed)| Effective {
            ssrc, configured, effective, uncertainty,
            needed: Some(needed).filter(|needed| *needed > Span::ZERO),
            method: LatencyMethod::ALL.into_iter().nth(ssrc as usize % 4),
        });
        let losses = lacked.map(|(ssrc, [expected, missing, runs, repaired, lost, beyond, late])| LossReport {
            ssrc, tally: Tally { expected, missing, runs, beyond }, repaired, lost, late,
        });
        let kept = kept.map(|(offset, uncertainty, ptp)| DisciplinedClock {
            offset: Span::from_nanos(offset),
            uncertainty,
            source: if ptp { ClockSource::Ptp } else { ClockSource::System },
        });
        let capture = faults.map(|(xruns, replaced)| CaptureFaults { xruns, replaced });
        let report = RtcpReport {
            ssrc, sender, blocks: &blocks, cname: &cname, reference_time, delays: &delays,
            announcement, effective, losses, capture, kept, bye,
        };
        let items = [
            sender.map(Item::Sender),
            Some(Item::Cname(&cname)),
            reference_time.map(Item::ReferenceTime),
            announcement.map(Item::Announcement),
            effective.map(Item::Effective),
            losses.map(Item::Losses),
            capture.map(Item::Capture),
            kept.map(Item::Kept),
            bye.then_some(Item::Bye),
        ];
        let expected: Vec<_> =
            items.into_iter().flatten().map(|item| (ssrc, format!("{item:?}"))).collect();
        let said = read(&written(&report)).unwrap();
        prop_assert_eq!(said.items, expected);
        prop_assert_eq!(said.blocks, blocks);
        prop_assert_eq!(said.delays, delays);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
        let _whatever = read(&bytes);
    }

    /// Reaches deeper code than random bytes.
    #[test]
    fn no_damage_makes_the_reader_panic(changes: Vec<(usize, u8)>) {
        let (blocks, delays) = ([block(7), block(8)], [delay(9), delay(10)]);
        let mut bytes = written(&everything(&blocks, &delays));
        let len = bytes.len();
        for (at, value) in changes.into_iter().take(4) {
            bytes[at % len] = value;
        }
        let _whatever = read(&bytes);
    }
}
