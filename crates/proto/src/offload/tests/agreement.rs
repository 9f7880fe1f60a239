//! Invalid datagrams are counted and have no effect.

use tautline_trial::snapshot;

use proptest::prelude::*;

use super::road::{MAX_FRAMES, Road, STREAM, floats, leg_bytes, master_config, worker_config};
use crate::offload::OffloadError;
use crate::offload::block::{
    BlockLeg, BlockSet, BlockSetError, BlockSpec, BlockWay, ByteOrder, Element, Length, get_f32,
    get_i16, put_f32, put_i16,
};
use crate::offload::datagram::{
    DatagramKind, Flags, HEAD_BYTES, Head, InvalidBlock, PartCut, max_parts,
};
use crate::offload::inbound::Handled;
use crate::offload::master::{Master, MasterConfig};
use crate::offload::worker::{Worker, WorkerConfig};
use crate::time::LocalTime;

fn block(element: Element, way: BlockWay, length: Length) -> BlockSpec {
    BlockSpec { element, way, length }
}

fn any_spec() -> impl Strategy<Value = BlockSpec> {
    let element = prop_oneof![
        Just(Element::F32),
        Just(Element::F64),
        Just(Element::I16),
        Just(Element::I32),
        Just(Element::Byte),
    ];
    let way =
        prop_oneof![Just(BlockWay::ToWorker), Just(BlockWay::FromWorker), Just(BlockWay::Both)];
    let length =
        prop_oneof![(0u32..50).prop_map(Length::Fixed), (0u32..4).prop_map(Length::PerFrame)];
    (element, way, length).prop_map(|(element, way, length)| block(element, way, length))
}

proptest! {
    #[test]
    fn blocks_lie_one_behind_the_other_and_fill_their_leg(
        specs in proptest::collection::vec(any_spec(), 0..20),
        frames in 0u32..=64,
    ) {
        let set = BlockSet::new(specs.clone(), 64).unwrap();
        for leg in [BlockLeg::There, BlockLeg::Back] {
            let mut end = 0;
            for (index, spec) in specs.iter().enumerate() {
                let place = set.place(leg, index, frames);
                prop_assert_eq!(place.is_some(), spec.way.goes(leg));
                if let Some(place) = place {
                    prop_assert_eq!(place.start, end);
                    let elements = spec.length.elements(frames) as usize;
                    prop_assert_eq!(place.len(), elements * spec.element.bytes());
                    end = place.end;
                }
            }
            prop_assert_eq!(set.bytes(leg, frames), end);
        }
    }

    #[test]
    fn parts_are_whole_not_empty_and_as_the_far_end_finds_them(
        bytes in 0usize..400_000,
        maximum in 512usize..9000,
    ) {
        let cut = PartCut::new(bytes, maximum);
        prop_assert_eq!(PartCut::claimed(bytes, cut.parts), Some(cut));
        let mut end = 0;
        for part in 0..cut.parts {
            let place = cut.place(part);
            prop_assert_eq!(place.start, end);
            prop_assert!(place.len() <= maximum && (bytes == 0 || !place.is_empty()));
            end = place.end;
        }
        prop_assert_eq!(end, bytes);
        prop_assert_eq!(PartCut::claimed(bytes, 0), None);
        prop_assert_eq!(PartCut::claimed(bytes, max_parts(bytes) as u16 + 1), None);
    }

    #[test]
    fn a_head_reads_as_it_was_written(
        numbers in (any::<u16>(), any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>()),
        block in 0u64..1 << 62,
        position in 0u64..1 << 62,
        (frames, latency) in (any::<u32>(), any::<u32>()),
    ) {
        let (flags, part, parts, stream, epoch) = numbers;
        let kind = DatagramKind::Gone;
        let flags = Flags(flags);
        let head =
            Head { kind, flags, part, parts, stream, epoch, block, position, frames, latency };
        let mut room = [0; HEAD_BYTES + 3];
        prop_assert_eq!(head.with_body(b"abc", &mut room), Some(HEAD_BYTES + 3));
        prop_assert_eq!(Head::read(&room), Ok((head, &b"abc"[..])));
    }

    #[test]
    fn no_datagram_makes_a_machine_fail(
        datagrams in proptest::collection::vec(
            (0u8..3, 0u16..4, 0u16..4, 0u32..3, 0u64..70, 0u32..300, 0usize..600), 0..100),
        far in any::<u64>(),
    ) {
        let mut road = Road::new(master_config(8), worker_config(None));
        for (kind, part, parts, epoch, block, frames, len) in datagrams {
            road.hand_out(64);
            let block = if block == 69 { far } else { block };
            let mut datagram = vec![0xa5; HEAD_BYTES + len];
            let head = Head {
                kind: DatagramKind::Block,
                flags: Flags(part),
                part,
                parts,
                stream: STREAM,
                epoch,
                block,
                position: block.wrapping_mul(64),
                frames,
                latency: 0,
            };
            head.write(datagram.first_chunk_mut().unwrap());
            datagram[1] = kind;
            if kind > 0 && len >= 16 {
                datagram[HEAD_BYTES..HEAD_BYTES + 8].copy_from_slice(&block.to_be_bytes());
                datagram[HEAD_BYTES + 8..HEAD_BYTES + 16].copy_from_slice(&far.to_be_bytes());
            }
            road.master.handle(&datagram, road.now);
            road.worker.handle(&datagram, road.now);
            road.carry();
        }
    }
}

#[test]
fn too_large_sets_are_refused_with_their_size() {
    let fixed = |elements| block(Element::F64, BlockWay::Both, Length::Fixed(elements));
    assert_eq!(BlockSet::new(vec![fixed(0); 257], 64), Err(BlockSetError::Blocks(257)));
    assert_eq!(BlockSet::new(vec![], 65_537), Err(BlockSetError::Frames(65_537)));
    let wide = block(Element::F64, BlockWay::FromWorker, Length::PerFrame(u32::MAX));
    let bytes = 256 * 65_536 * 8 * u128::from(u32::MAX);
    let error = BlockSet::new(vec![wide; 256], 65_536).unwrap_err();
    assert_eq!(error, BlockSetError::Bytes { bytes, leg: BlockLeg::Back });
    snapshot!(error);
    assert!(BlockSet::new(vec![fixed(2 << 20)], 0).is_ok());
}

#[test]
fn machines_that_would_keep_too_much_are_refused() {
    let datagram = Master::new(MasterConfig { datagram_bytes: 551, ..master_config(8) });
    assert_eq!(datagram.err(), Some(OffloadError::Datagram(551)));
    let kept = Worker::new(WorkerConfig { hold: 1 << 20, ..worker_config(None) });
    let (bytes, _) = leg_bytes(MAX_FRAMES);
    assert_eq!(kept.err(), Some(OffloadError::Kept { blocks: 1 << 20, bytes }));
    assert!(Worker::new(WorkerConfig { hold: usize::MAX, ..worker_config(None) }).is_err());
}

fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Handled {
    let mut road = Road::new(master_config(8), worker_config(None));
    road.hand_out(64);
    let mut room = [0; 600];
    let len = road.master.poll(&mut room).unwrap();
    let mut datagram = room[..len].to_vec();
    change(&mut datagram);
    let handled = road.worker.handle(&datagram, road.now);
    let complete = matches!(handled, Handled::Complete(..));
    assert_eq!(
        road.worker.handle(&room[..len], road.now),
        match complete {
            true => Handled::Duplicate,
            false => Handled::Complete(0),
        }
    );
    handled
}

#[test]
fn each_lie_of_a_head_is_named() {
    assert_eq!(changed(|_| {}), Handled::Complete(0));
    assert_eq!(changed(|d| d[0] = 2), Handled::Invalid(InvalidBlock::Version(2)));
    assert_eq!(changed(|d| d[1] = 3), Handled::Invalid(InvalidBlock::Kind(3)));
    assert_eq!(changed(|d| d.truncate(39)), Handled::Invalid(InvalidBlock::Short));
    assert_eq!(
        changed(|d| d.truncate(HEAD_BYTES + 259)),
        Handled::Invalid(InvalidBlock::Length(259))
    );
    assert_eq!(changed(|d| d.push(0)), Handled::Invalid(InvalidBlock::Length(261)));
    assert_eq!(changed(|d| d[34] = 2), Handled::Invalid(InvalidBlock::Frames(576)));
    let part = |part, parts| Handled::Invalid(InvalidBlock::Part { part, parts });
    assert_eq!(changed(|d| d[5] = 1), part(1, 1));
    assert_eq!(changed(|d| d[7] = 0), part(0, 0));
    assert_eq!(changed(|d| d[7] = 2), part(0, 2));
    assert_eq!(changed(|d| d[11] ^= 1), Handled::Foreign);
    assert_eq!(changed(|d| d[16] = 0x40), Handled::Invalid(InvalidBlock::Block(1 << 62)));
}

#[test]
fn parts_that_contradict_each_other_are_not_joined() {
    let mut road = Road::new(master_config(8), worker_config(None));
    road.hand_out(256);
    let mut room = [0; 600];
    let len = road.master.poll(&mut room).unwrap();
    assert_eq!(road.worker.handle(&room[..len], road.now), Handled::Part);
    let len = road.master.poll(&mut room).unwrap();
    let mut lie = room;
    lie[31] = 1;
    let contradicts = Handled::Invalid(InvalidBlock::Contradicts);
    assert_eq!(road.worker.handle(&lie[..len], road.now), contradicts);
    assert_eq!(road.worker.handle(&room[..len], road.now), Handled::Complete(0));
}

#[test]
fn answer_to_an_unknown_block_is_refused() {
    let mut other = Road::new(master_config(8), worker_config(None));
    other.hand_out(64);
    let mut room = [0; 600];
    let len = other.master.poll(&mut room).unwrap();
    other.worker.handle(&room[..len], other.now);
    super::road::run(&mut other.worker, &mut other.plugin, &mut other.turns);
    let len = other.worker.poll_answer(&mut room).unwrap();
    let mut road = Road::new(master_config(8), worker_config(None));
    let refused = Handled::Invalid(InvalidBlock::Block(0));
    assert_eq!(road.master.handle(&room[..len], road.now), refused);
    road.hand_out(32);
    assert_eq!(road.master.handle(&room[..len], road.now), refused);
    assert!(road.master.answer(0).is_none());
}

#[test]
fn a_run_longer_than_agreed_is_refused_and_the_next_is_not() {
    let mut road = Road::new(master_config(8), worker_config(None));
    let refused = road.master.room(257).unwrap_err();
    assert_eq!((refused.frames, refused.maximum), (257, 256));
    road.hand_out(256);
    road.carry();
    assert!(road.is_true(0));
}

#[test]
fn numbers_pass_bit_for_bit_in_either_order() {
    let odd = [f32::NAN.to_bits() | 1, f32::INFINITY.to_bits(), 0x8000_0000, 1, 0xff80_0001];
    let samples = odd.map(f32::from_bits);
    let mut bytes = [0; 20];
    put_f32(&mut bytes, &samples);
    let foreign = match ByteOrder::NATIVE {
        ByteOrder::Little => ByteOrder::Big,
        ByteOrder::Big => ByteOrder::Little,
    };
    for order in [ByteOrder::NATIVE, foreign] {
        let mut read = [0.0; 5];
        get_f32(&bytes, &mut read, order);
        assert_eq!(read.map(f32::to_bits), odd);
        bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|number| number.reverse());
    }
    let mut two = [0; 3];
    put_i16(&mut two, &[-2, 5]);
    let mut read = [7; 2];
    get_i16(&two, &mut read, ByteOrder::NATIVE);
    assert_eq!(read, [-2, 7]);
}

#[test]
fn a_worker_of_the_other_order_of_bytes_gives_back_the_masters() {
    let specs = vec![
        block(Element::F32, BlockWay::Both, Length::PerFrame(1)),
        block(Element::I16, BlockWay::ToWorker, Length::Fixed(3)),
        block(Element::Byte, BlockWay::FromWorker, Length::Fixed(3)),
    ];
    let set = BlockSet::new(specs, 4).unwrap();
    let foreign = match ByteOrder::NATIVE {
        ByteOrder::Little => ByteOrder::Big,
        ByteOrder::Big => ByteOrder::Little,
    };
    let mut master = Master::new(MasterConfig { set: set.clone(), ..master_config(4) }).unwrap();
    let config = WorkerConfig { set, order: foreign, ..worker_config(None) };
    let mut worker = Worker::new(config).unwrap();
    master.begin();
    let mut room = [0; 600];
    // A master with the other byte order.
    let written = master.room(2).unwrap();
    put_f32(&mut written[..8], &[1.5, -2.0]);
    put_i16(&mut written[8..], &[1, -2, 300]);
    written[..8].as_chunks_mut::<4>().0.iter_mut().for_each(|number| number.reverse());
    written[8..].as_chunks_mut::<2>().0.iter_mut().for_each(|number| number.reverse());
    let sent = written[..8].to_vec();
    master.commit(Flags::NONE);
    let len = master.poll(&mut room).unwrap();
    worker.handle(&room[..len], LocalTime::ZERO);
    worker.next_turn().unwrap();
    let (input, output) = worker.buffers();
    assert_eq!(floats(&input[..8]), [1.5, -2.0]);
    let mut three = [0; 3];
    get_i16(&input[8..], &mut three, ByteOrder::NATIVE);
    assert_eq!(three, [1, -2, 300]);
    assert_eq!(floats(&output[..8]), [1.5, -2.0], "blocks that go both ways are copied already");
    output[8..].copy_from_slice(b"abc");
    worker.finish(0);
    let len = worker.poll_answer(&mut room).unwrap();
    master.handle(&room[..len], LocalTime::ZERO);
    let answer = master.answer(0).unwrap();
    assert_eq!((&answer.bytes[..8], &answer.bytes[8..]), (&sent[..], &b"abc"[..]));
}

#[test]
fn a_picture_goes_there_and_back_in_parts() {
    let picture = block(Element::Byte, BlockWay::Both, Length::Fixed(640 * 480));
    let set = BlockSet::new(vec![picture], 1).unwrap();
    let config = MasterConfig { set: set.clone(), datagram_bytes: 1400, ..master_config(4) };
    let mut master = Master::new(config).unwrap();
    let config = WorkerConfig { set, datagram_bytes: 1400, hold: 4, ..worker_config(None) };
    let mut worker = Worker::new(config).unwrap();
    master.begin();
    let picture: Vec<u8> = (0..640 * 480u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    master.room(1).unwrap().copy_from_slice(&picture);
    master.commit(Flags::NONE);
    let mut room = [0; 1400];
    let mut datagrams = Vec::new();
    while let Some(len) = master.poll(&mut room) {
        datagrams.push(room[..len].to_vec());
    }
    assert_eq!(datagrams.len(), 226);
    datagrams.reverse();
    for datagram in &datagrams {
        worker.handle(datagram, LocalTime::ZERO);
    }
    worker.next_turn().unwrap();
    worker.buffers().1.iter_mut().for_each(|pixel| *pixel = !*pixel);
    worker.finish(0);
    while let Some(len) = worker.poll(LocalTime::ZERO, &mut room) {
        master.handle(&room[..len], LocalTime::ZERO);
    }
    let back = master.answer(0).unwrap().bytes;
    assert!(back.iter().zip(&picture).all(|(back, there)| *back == !there));
}
