use super::*;
use crate::clock::ClockMapping;
use crate::endpoint::{Arrival, Endpoint};
use crate::packet::{PacketHead, StreamId};
use crate::units::Rate;
use crate::wrap::Wrapped;

const PACKET: i64 = 48;

fn media(frame: i64) -> MediaTime {
    MediaTime::from_frames(frame)
}

fn slot(sequence: i64, first: i64, frames: i64) -> Slot {
    Slot {
        sequence,
        media: media(first),
        frames: Frames::new(frames),
        capture: None,
        instants: None,
        arrival: LocalTime::ZERO,
        read: LocalTime::ZERO,
        whole: true,
        repaired: false,
    }
}

fn usual(sequence: i64) -> Slot {
    slot(sequence, sequence * PACKET, PACKET)
}

/// A source of packets (number, first frame, frames).
fn source(sent: &[(i64, i64, i64)]) -> Source {
    let mut source: Option<Source> = None;
    for &(sequence, first, frames) in sent {
        let head = PacketHead {
            stream: StreamId(1),
            number: Wrapped::of(sequence, 16),
            media: Wrapped::of(first, 32),
            begins: false,
            coding: 96,
            capture: None,
            instants: None,
        };
        let (from, at) = (Endpoint::UNKNOWN, LocalTime::ZERO);
        let arrived = Arrival::exact(from, at, at);
        let frames = Frames::new(frames);
        let source = source.get_or_insert_with(|| Source::begin(&head, frames, &arrived));
        source.admit(&head, frames, &arrived, Rate::HZ_48000);
    }
    source.unwrap()
}

fn after(packets: i64) -> Source {
    let sent: Vec<_> = (0..packets).map(|number| (number, number * PACKET, PACKET)).collect();
    source(&sent)
}

fn take(turns: &mut Turns, source: &Source, frames: Range<i64>) -> (Vec<i64>, u64, u64) {
    let mut reported = Vec::new();
    let frames = media(frames.start)..media(frames.end);
    let Taken { lost, skipped } = turns.take(&frames, source, |slot| reported.push(slot.sequence));
    (reported, lost, skipped)
}

#[test]
fn each_packet_has_its_turn_when_its_first_frame_is_played() {
    let mut turns = Turns::new(16);
    let source = after(5);
    for sequence in [0, 1, 2, 4] {
        assert!(!turns.keep(&usual(sequence)));
    }
    assert_eq!(take(&mut turns, &source, 0..48), (vec![0], 0, 0));
    assert_eq!(take(&mut turns, &source, 48..49), (vec![1], 0, 0), "its first frame is sufficient");
    assert_eq!(take(&mut turns, &source, 49..96), (vec![], 0, 0));
    assert_eq!(take(&mut turns, &source, 96..144), (vec![2], 0, 0));
    assert_eq!(take(&mut turns, &source, 144..145), (vec![], 1, 0), "the fourth is missing");
    assert!(turns.has(2) && !turns.has(3));
    assert!(turns.keep(&usual(3)), "the fourth arrives late");
    assert_eq!(take(&mut turns, &source, 145..192), (vec![], 0, 0), "it is not reported");
    assert_eq!(take(&mut turns, &source, 192..500), (vec![4], 0, 0));
    assert_eq!(take(&mut turns, &source, 500..1000), (vec![], 0, 0), "nothing was sent after it");
}

#[test]
fn partial_and_rebuilt_packets_are_not_reported() {
    let mut turns = Turns::new(16);
    turns.keep(&Slot { whole: false, ..usual(0) });
    turns.keep(&Slot { repaired: true, ..usual(1) });
    turns.keep(&usual(2));
    assert_eq!(take(&mut turns, &after(3), 0..144), (vec![2], 0, 0));
}

#[test]
fn gap_left_by_the_sender_is_skipped_not_lost() {
    let mut turns = Turns::new(16);
    let sent = [(0, 0, 48), (1, 48, 48), (2, 196, 48)];
    sent.iter().for_each(|&(sequence, first, frames)| {
        turns.keep(&slot(sequence, first, frames));
    });
    let source = source(&sent);
    assert_eq!(take(&mut turns, &source, 0..100), (vec![0, 1], 0, 4));
    assert_eq!(take(&mut turns, &source, 100..190), (vec![], 0, 90));
    assert_eq!(take(&mut turns, &source, 190..300), (vec![2], 0, 6));
    let mut turns = Turns::new(16);
    turns.keep(&slot(0, 0, 48));
    turns.keep(&slot(2, 196, 48));
    assert_eq!(take(&mut turns, &source, 0..300), (vec![0, 2], 1, 0));
}

#[test]
fn missing_packet_begins_at_the_end_of_the_previous_one() {
    let sent = [(0, 0, 48), (1, 48, 48), (2, 96, 96), (3, 192, 48)];
    let mut turns = Turns::new(16);
    for &(sequence, first, frames) in &sent[..2] {
        turns.keep(&slot(sequence, first, frames));
    }
    let source = source(&sent);
    assert_eq!(take(&mut turns, &source, 0..96), (vec![0, 1], 0, 0));
    assert_eq!(take(&mut turns, &source, 96..97), (vec![], 1, 0));
    // The fourth is assumed to follow at the newest packet's length.
    turns.keep(&slot(3, 192, 48));
    assert_eq!(take(&mut turns, &source, 97..192), (vec![], 0, 0));
    assert_eq!(take(&mut turns, &source, 192..193), (vec![3], 0, 0));
}

#[test]
fn missing_packet_begins_before_the_next_received_one() {
    let sent = [(0, 0, 10), (1, 10, 10), (2, 20, 10), (3, 30, 100)];
    let source = source(&sent);
    let mut turns = Turns::new(16);
    turns.keep(&slot(0, 0, 10));
    turns.keep(&slot(3, 30, 100));
    assert_eq!(take(&mut turns, &source, 0..10), (vec![0], 0, 0));
    assert_eq!(take(&mut turns, &source, 10..29), (vec![], 1, 0));
    assert_eq!(take(&mut turns, &source, 29..30), (vec![], 1, 0), "not where the newest would end");
    assert_eq!(take(&mut turns, &source, 30..31), (vec![3], 0, 0));
}

#[test]
fn unknown_packets_have_the_length_of_the_newest() {
    let source = source(&[(0, 0, 48), (5, 240, 48)]);
    let mut turns = Turns::new(16);
    turns.begin(3);
    assert_eq!(take(&mut turns, &source, 0..144), (vec![], 0, 0));
    assert_eq!(take(&mut turns, &source, 144..145), (vec![], 1, 0));
    assert_eq!(take(&mut turns, &source, 145..1000), (vec![], 2, 0), "up to the newest");
}

#[test]
fn the_first_turn_may_move_back_and_never_on() {
    let mut turns = Turns::new(16);
    turns.begin(2);
    turns.begin_no_later(3);
    turns.begin_no_later(1);
    for sequence in 0..4 {
        turns.keep(&usual(sequence));
    }
    assert_eq!(take(&mut turns, &after(4), 0..192), (vec![1, 2, 3], 0, 0));
}

#[test]
fn turns_are_ended_for_packets_that_need_their_places() {
    let mut turns = Turns::new(5);
    turns.keep(&usual(0));
    turns.keep(&Slot { repaired: true, ..usual(1) });
    turns.keep(&Slot { whole: false, ..usual(2) });
    turns.keep(&usual(4));
    let ended = |given_up: Abandoned| (given_up.lost, given_up.not_received);
    assert_eq!(ended(turns.make_room(7, || None)), (0, 0), "there are eight places");
    assert_eq!(ended(turns.make_room(8, || None)), (0, 1));
    assert_eq!(ended(turns.make_room(8, || None)), (0, 0));
    assert_eq!(ended(turns.make_room(12, || None)), (1, 1));
    // Only the expected packets count as lost.
    assert_eq!(ended(turns.make_room(1_000_000, || None)), (8, 0));
    assert_eq!(ended(turns.make_room(i64::MIN, || None)), (0, 0));
}

#[test]
fn a_turn_after_one_that_was_ended_begins_where_that_packet_did() {
    let sent: Vec<_> = (0..12).map(|n| (n, 1000 + n * 10, 10)).collect();
    let source = source(&sent);
    let mut turns = Turns::new(8);
    turns.keep(&slot(3, 1030, 10));
    turns.begin(3);
    turns.make_room(11, || None);
    assert_eq!(take(&mut turns, &source, 1039..1040), (vec![], 0, 0));
    assert_eq!(take(&mut turns, &source, 1040..1041), (vec![], 1, 0));
}

#[test]
fn a_place_belongs_to_one_number() {
    let mut turns = Turns::new(8);
    turns.keep(&usual(3));
    assert!(turns.has(3) && !turns.has(11) && turns.arrived(11).is_none());
    turns.keep(&usual(11));
    assert!(!turns.has(3) && turns.has(11));
    turns.clear();
    assert!(!turns.has(11));
    let source = after(3);
    turns.begin(0);
    assert_eq!(take(&mut turns, &source, 0..48), (vec![], 1, 0));
    assert!(!turns.keep(&usual(8)));
}

#[test]
fn stored_packet_has_its_received_values() {
    let capture = WallTime::from_unix_nanos(1_700_000_000_000_000_123);
    let micros = Span::from_micros;
    let instants = Instants {
        taken: micros(11),
        packed: micros(22),
        handed: micros(33),
        held: Span::from_nanos(4_096),
    };
    let arrival = LocalTime::from_nanos(987_654_321);
    let arrived = Slot {
        capture: Some(capture),
        instants: Some(instants),
        arrival,
        read: arrival + micros(44),
        ..slot(7, 70, 10)
    };
    let mut turns = Turns::new(8);
    turns.keep(&arrived);
    let kept = turns.arrived(7).unwrap();
    assert_eq!((kept.sequence, kept.media, kept.frames), (7, media(70), Frames::new(10)));
    assert_eq!((kept.capture, kept.instants), (arrived.capture, arrived.instants));
    assert_eq!((kept.arrival, kept.read), (arrived.arrival, arrived.read));
    assert!(kept.whole && !kept.repaired);
    let slow = Slot { read: arrival + Span::from_secs(9), ..arrived };
    turns.keep(&slow);
    let maximum = arrival + Span::from_nanos(u32::MAX.into());
    assert_eq!(turns.arrived(7).unwrap().read, maximum);
}

#[test]
fn packet_trace_has_all_times_on_the_local_clock() {
    let (wall, ahead) = (WallTime::from_unix_nanos, Span::from_secs(50));
    let mut placement = Placement::new(Rate::HZ_48000, Span::from_millis(5));
    let micros = Span::from_micros;
    let instants =
        Instants { taken: micros(10), packed: micros(20), handed: micros(30), held: Span::ZERO };
    let arrival = LocalTime::from_nanos(2_000_000);
    let read = arrival + micros(5);
    let capture = Some(wall(50_001_000_000));
    let arrived = Slot { capture, instants: Some(instants), arrival, read, ..slot(1, 48, 48) };
    let (now, dac) = (arrival + Span::from_millis(1), arrival + Span::from_millis(4));
    let passage_of = |slot: &Slot, placement: &_| {
        PackedSlot::from(slot).passage(placement, now, dac, Span::ZERO)
    };
    let unmapped = passage_of(&arrived, &placement);
    assert_eq!((unmapped.reference, unmapped.origin), (None, None));
    placement.set_clock(ClockMapping::known(ahead, Span::ZERO));
    let captured = LocalTime::from_nanos(1_000_000);
    let passage = passage_of(&arrived, &placement);
    let origin = passage.origin.unwrap();
    let sender = origin.sender.unwrap();
    assert_eq!((passage.reference, origin.capture), (Some(captured), captured));
    assert_eq!(sender.taken, captured + micros(10));
    assert_eq!((sender.packed, sender.handed), (captured + micros(20), captured + micros(30)));
    assert_eq!((passage.arrival, passage.read), (arrival, read));
    assert_eq!((passage.taken, passage.written, passage.dac), (now, now, dac));
    assert_eq!(
        (passage.media, passage.resample, passage.outcome),
        (media(48), Span::ZERO, crate::ledger::Outcome::Played)
    );
    assert!(passage_of(&Slot { whole: false, ..arrived }, &placement).is_late());
    // The placement's capture time is used.
    let silent = Slot { capture: None, ..arrived };
    placement.observe_capture(media(0), wall(50_000_000_000));
    let presumed = passage_of(&silent, &placement);
    assert_eq!(presumed.reference, Some(captured));
    // Presentation time minus latency is used.
    let mut arrivals = Placement::new(Rate::HZ_48000, Span::from_millis(5));
    arrivals.observe_arrival(media(48), Frames::new(48), arrival);
    let stands_in = passage_of(&silent, &arrivals);
    let presented = arrivals.presentation(media(48)).unwrap();
    assert_eq!(stands_in.reference, Some(presented - Span::from_millis(5)));
    assert_eq!(stands_in.origin, None);
}

#[test]
fn packet_without_a_place_but_due_later_is_unfollowed() {
    let mut turns = Turns::new(8);
    (0..8).for_each(|sequence| {
        turns.keep(&usual(sequence));
    });
    let given_up = turns.make_room(13, || Some(media(3 * PACKET)));
    assert_eq!((given_up.lost, given_up.not_received, given_up.unfollowed), (0, 3, 3));
}
