//! Redundancy of a sender, and its use after losses.

use tautline_dsp::format::SampleFormat;
use tautline_proto::cause::{Causes, Late, Schedule};
use tautline_proto::clock::ClockMapping;
use tautline_proto::counters::Counters;
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::*;
use tautline_proto::ledger::{PacketTrace, Stage};
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::*;
use tautline_proto::redundancy::{ETHERNET, Layout, Repeats};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::span_bytes;

use crate::reformat::Reformat;

use super::form::{PACK, unpack};

const PACKET: i64 = 48;

/// From completion to hand-over.
const SENDING: Span = Span::from_micros(30);

pub(crate) fn format(sample: SampleFormat) -> StreamFormat {
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::MONO,
        sample,
        packet: Frames::new(PACKET),
        payload_type: StreamFormat::default_payload_type(sample),
    }
}

pub(crate) struct Sending {
    sender: Packetizer,
    repeats: Repeats,
}

pub(crate) fn sender(format: StreamFormat, redundancy: Layout) -> Sending {
    let repeats = Repeats::within(vec![0; Repeats::room_for(ETHERNET)].into());
    let sender = Packetizer::new(PacketizerConfig {
        wire: PACK,
        format,
        identity: Identity { stream: StreamId(1), sequence: 65_530, timestamp: u32::MAX - 500 },
        period: Frames::new(PACKET),
        stamps: true,
        wall_offset: Span::ZERO,
        redundancy,
        presented_after: Span::ZERO,
    });
    Sending { sender, repeats }
}

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(1000 + millis)
}

fn sample(index: i64) -> f32 {
    (2 * (index % 8000) + 1) as f32 / 16_384.0
}

pub(crate) fn send(sending: &mut Sending, number: i64) -> Vec<Vec<u8>> {
    let block: Vec<f32> = (0..PACKET).map(|frame| sample(number * PACKET + frame)).collect();
    let times = BlockTimes { capture: at(number), taken: at(number + 1), now: at(number + 1) };
    let mut sent = Vec::new();
    let Sending { sender, repeats } = sending;
    sender.push(&block, times, |packet| {
        let handed_at = packet.handed_at.expect("it carries its departure time");
        let handed = Span::from_millis(1) + SENDING;
        packet.datagram[handed_at..handed_at + 4].copy_from_slice(&span_bytes(handed));
        sent.push(packet.datagram.to_vec());
        let Some(before) = packet.again else { return repeats.pass() };
        repeats.keep(packet.datagram, packet.instants);
        sent.extend(repeats.again(before, packet.instants.due).map(|(bytes, _)| bytes.to_vec()));
    });
    sent
}

/// Plays at 20 ms without the packets in `loses`. Returns wrong frames and counters.
fn play(layout: Layout, count: i64, loses: impl Fn(i64) -> bool) -> (u64, Counters) {
    let (wrong, counters, _) = play_at(Span::from_millis(20), layout, count, loses);
    (wrong, counters)
}

/// Also returns late repairs.
fn play_at(
    latency: Span,
    layout: Layout,
    count: i64,
    loses: impl Fn(i64) -> bool,
) -> (u64, Counters, u64) {
    let format = format(SampleFormat::L24);
    let mut sender = sender(format, layout);
    let mut receiver = JitterBuffer::new(JitterBufferConfig::new(unpack(), format, latency));
    let mut wrong = 0;
    for number in 0..count + 40 {
        let arrival = at(number + 1);
        if number < count {
            for datagram in send(&mut sender, number).iter().filter(|_| !loses(number)) {
                receiver.handle(datagram, arrival, arrival);
            }
        }
        let mut out = [0.0; PACKET as usize];
        let times = PullTimes { now: arrival, meets: arrival, skipped: Frames::ZERO, clock: None };
        let pulled = receiver.pull(&mut out, times, |_| {});
        let Some(media) = pulled.media else { continue };
        let first = media.frame.as_frames() - i64::from(u32::MAX - 500);
        let due = (first..).zip(out).filter(|(frame, _)| (0..count * PACKET).contains(frame));
        wrong += due.filter(|(frame, received)| *received != sample(*frame)).count() as u64;
    }
    (wrong, *receiver.counters(), receiver.status(at(count + 40)).late_repairs)
}

#[test]
fn repair_after_its_turn_is_counted_as_late() {
    let loses = |number: i64| number % 9 == 4;
    for (millis, are_late) in [(20, false), (6, true)] {
        let (_, counters, late) =
            play_at(Span::from_millis(millis), Layout::copies(1, 8), 400, loses);
        let expected = if are_late { (0, 44) } else { (44, 0) };
        assert_eq!((counters.repaired, late), expected, "{millis} ms: {counters:?}");
    }
}

#[test]
fn lost_packets_are_repaired_bit_exact() {
    for layout in [Layout::copies(1, 8), Layout::copies(3, 8), Layout::code(1, 8)] {
        let (wrong, counters) = play(layout, 400, |number| number % 9 == 4);
        assert_eq!((wrong, counters.lost, counters.late), (0, 0, 0), "{layout:?}: {counters:?}");
        assert_eq!(counters.repaired, 44, "{layout:?}");
        assert_eq!((counters.received, counters.missing_frames), (356, 0), "{layout:?}");
    }
}

#[test]
fn copy_of_the_oldest_repairs_a_window_long_burst() {
    let burst = |number: i64| (100..108).contains(&number);
    for layout in [Layout::copies(1, 8), Layout::code(2, 8)] {
        let (wrong, counters) = play(layout, 200, burst);
        assert_eq!((wrong, counters.repaired, counters.lost), (0, 8, 0), "{layout:?}");
    }
    let (_, counters) = play(Layout::copies(1, 8), 200, |n| (100..109).contains(&n));
    assert_eq!((counters.repaired, counters.lost), (8, 1), "no later packet repairs the first");
}

#[test]
fn a_code_repairs_half_a_window_in_a_row() {
    let (wrong, counters) = play(Layout::code(1, 16), 200, |n| (100..108).contains(&n));
    assert_eq!((wrong, counters.repaired), (0, 8), "{counters:?}");
}

#[test]
fn redundancy_is_reduced_to_fit_an_ethernet_frame() {
    let mut sender = sender(format(SampleFormat::F32), Layout::copies(12, 24));
    let longest = (0..100).flat_map(|number| send(&mut sender, number)).map(|d| d.len()).max();
    let longest = longest.unwrap();
    assert!(longest <= ETHERNET && longest > ETHERNET - 200, "{longest}");
}

#[test]
fn long_packet_is_repeated_and_dropped_if_received() {
    let (wrong, counters) = play(Layout::repeated(5), 100, |_| false);
    assert_eq!((wrong, counters.duplicate, counters.received), (0, 95, 195));
    // Lost with the packet: the repeat of the fifth before it.
    let (wrong, counters) = play(Layout::repeated(5), 100, |number| number % 10 == 3);
    assert_eq!((wrong, counters.lost, counters.late), (0, 0, 0), "{counters:?}");
    assert_eq!((counters.repaired, counters.repaired_whole), (10, 10), "{counters:?}");
}

/// Traces of packets 0 to 40, each repeated five packets later. The path takes 1 ms; packet 20 is
/// lost.
fn passages(latency: Span) -> Vec<PacketTrace> {
    let format = format(SampleFormat::L24);
    let mut sender = sender(format, Layout::repeated(5));
    let mut receiver = JitterBuffer::new(JitterBufferConfig::new(unpack(), format, latency));
    receiver.set_clock(Author::of(1), ClockMapping::known(Span::ZERO, Span::from_micros(10)));
    let mut passages = Vec::new();
    for number in 0..40 {
        let arrival = at(number + 2) + SENDING;
        for datagram in send(&mut sender, number).iter().skip(usize::from(number == 20)) {
            if let Received::Late(passage) = receiver.handle(datagram, arrival, arrival) {
                passages.push(passage);
            }
        }
        let mut out = [0.0; PACKET as usize];
        let meets = arrival + Span::from_millis(1);
        let times = PullTimes { now: arrival, meets, skipped: Frames::ZERO, clock: None };
        receiver.pull(&mut out, times, |passage| passages.push(passage));
    }
    passages
}

#[test]
fn repeat_adds_network_time_not_sender_time() {
    let millis = Span::from_millis;
    let passages = passages(millis(20));
    let (again, first): (Vec<PacketTrace>, Vec<PacketTrace>) =
        passages.iter().copied().partition(|passage| passage.stage(Stage::Wire) != Some(millis(1)));
    // Byte for byte, including the hand-over time.
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!(again[0].stage(Stage::Wire), Some(millis(1 + 5)));
    assert_eq!(again[0].transit(), first[0].transit().map(|transit| transit + millis(5)));
    assert!(passages.iter().all(|passage| passage.stage(Stage::Send) == Some(SENDING)));
}

#[test]
fn late_repeat_of_a_lost_packet_counts_as_network() {
    let millis = Span::from_millis;
    let mut causes =
        Causes::new(Schedule { packing_age: millis(1), takes: millis(1), period: millis(1) });
    let passages = passages(millis(5));
    passages.iter().for_each(|passage| causes.observe(passage));
    let late = passages.iter().filter(|passage| passage.is_late());
    let doors: Vec<_> = late.map(|passage| causes.judge(passage, |_, _| false)).collect();
    assert_eq!(doors, [Late::Network]);
}

#[test]
fn repair_works_on_both_sides_of_a_coding_change() {
    let format = format(SampleFormat::L24);
    let mut sender = sender(format, Layout::code(1, 8));
    let mut receiver =
        JitterBuffer::new(JitterBufferConfig::new(unpack(), format, Span::from_millis(20)));
    for number in 0..60 {
        if number == 30 {
            let other = SampleFormat::L16;
            assert!(sender.sender.set_sample(other, StreamFormat::default_payload_type(other)));
        }
        for datagram in send(&mut sender, number) {
            if ![20, 28, 29, 31, 40].contains(&number) {
                receiver.handle(&datagram, at(number + 1), at(number + 1));
            }
        }
    }
    assert_eq!(receiver.counters().repaired, 3, "{:?}", receiver.counters());
    assert_eq!(receiver.counters().damaged, 0);
}

#[test]
fn packet_after_its_repair_counts_as_reordered() {
    let format = format(SampleFormat::L24);
    let mut sender = sender(format, Layout::copies(2, 4));
    let mut receiver =
        JitterBuffer::new(JitterBufferConfig::new(unpack(), format, Span::from_millis(20)));
    let sent: Vec<_> = (0..10).flat_map(|number| send(&mut sender, number)).collect();
    for number in [0, 1, 2, 4, 5, 6, 3, 7, 8, 9] {
        receiver.handle(&sent[number], at(8), at(8));
    }
    let counters = receiver.counters();
    assert_eq!((counters.repaired, counters.reordered, counters.duplicate), (1, 1, 0));
    assert_eq!((counters.received, counters.late), (10, 0));
}

#[test]
fn repair_budget_ignores_the_packet_after_a_gap() {
    let format = format(SampleFormat::L24);
    let mut sender = sender(format, Layout::copies(1, 32));
    let mut receiver =
        JitterBuffer::new(JitterBufferConfig::new(unpack(), format, Span::from_millis(50)));
    let mut budget = |sender: &mut Sending, numbers: core::ops::Range<i64>| {
        for number in numbers {
            for datagram in send(sender, number) {
                receiver.handle(&datagram, at(number + 1), at(number + 1));
            }
        }
        receiver.repair_budget().0
    };
    assert_eq!(budget(&mut sender, 0..100), Span::from_millis(32));
    // Repair data restarts after lost frames.
    sender.sender.skip(Frames::new(PACKET), at(100), |_| {});
    assert_eq!(budget(&mut sender, 101..106), Span::from_millis(32));
    sender.sender.set_redundancy(Layout::copies(1, 8));
    assert_eq!(budget(&mut sender, 106..163), Span::from_millis(32));
    assert_eq!(budget(&mut sender, 163..180), Span::from_millis(8));
}

#[test]
fn damage_is_passed_over_and_counted_and_the_sound_is_played() {
    let format = format(SampleFormat::L24);
    let mut sender = sender(format, Layout::code(2, 6));
    let mut receiver =
        JitterBuffer::new(JitterBufferConfig::new(unpack(), format, Span::from_millis(20)));
    for number in 0..20 {
        for mut datagram in send(&mut sender, number) {
            if number > 9 {
                let mut room = [0; ETHERNET];
                let wire = unpack();
                let carried = wire.unpack(&datagram).unwrap().carried.unwrap();
                let head = &carried.gather(&mut room).unwrap()[..16];
                let at = datagram.windows(16).position(|bytes| bytes == head).unwrap();
                datagram[at] ^= 0x40;
            }
            assert!(matches!(
                receiver.handle(&datagram, at(number + 1), at(number + 1)),
                Received::Placed(_)
            ));
        }
    }
    assert_eq!((receiver.counters().damaged, receiver.counters().received), (10, 20));
}

#[test]
fn the_first_packet_of_all_may_be_the_one_that_is_lost() {
    for layout in [Layout::copies(1, 8), Layout::code(2, 8)] {
        let (wrong, counters) = play(layout, 50, |number| number == 0);
        assert_eq!((wrong, counters.repaired, counters.lost), (0, 1, 0), "{layout:?}");
    }
}

#[test]
fn spare_repairer_is_kept_only_if_packets_carry_repair() {
    let format = format(SampleFormat::L24);
    let config = JitterBufferConfig::new(unpack(), format, Span::from_millis(20));
    let mut spare = Some(Box::default());
    // Layout, whether the spare repairer is kept, and repaired packets.
    for (layout, keeps, repaired) in [
        (Layout::NONE, false, 0),
        (Layout::copies(1, 1), true, 1),
        (Layout::copies(1, 1), false, 0),
    ] {
        let mut receiver = JitterBuffer::without_repairer(config.clone());
        let mut sender = sender(format, layout);
        for number in 0..10 {
            let sent = send(&mut sender, number);
            let lent = spare.is_some();
            receiver.borrow_repairer(&mut spare);
            if number != 0 {
                receiver.handle(&sent[0], at(number + 1), at(number + 1));
            }
            receiver.return_repairer(&mut spare);
            assert_eq!(lent && spare.is_none(), keeps && number == 1, "{layout:?}, {number}");
        }
        let counters = receiver.counters();
        assert_eq!((counters.repaired, counters.damaged, counters.received), (repaired, 0, 9));
    }
}
