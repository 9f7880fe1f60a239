//! The repairer alone, with artificial, lost and forged packets.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tautline_proto::packet::{PackedSound, PacketHead, StreamId};
use tautline_proto::redundancy::{Damaged, Encoder, Layout, MAX_PAYLOAD, MAX_WINDOW, Repairer};
use tautline_proto::wrap::Wrapped;

use super::form::{PACK, unpack};

#[derive(Clone)]
struct Sent {
    sequence: i64,
    payload_type: u8,
    payload: Vec<u8>,
    repair_data: Vec<u8>,
}

impl Sent {
    fn bare(sequence: i64, payload_type: u8, bytes: usize) -> Self {
        let payload = payload(sequence, payload_type, bytes);
        Self { sequence, payload_type, payload, repair_data: Vec::new() }
    }

    fn carrying(self, symbols: &[([u8; 3], &[u8])]) -> Self {
        let headers = symbols.iter().flat_map(|(header, _)| header.iter());
        let data = symbols.iter().flat_map(|(_, data)| data.iter());
        let repair_data =
            [symbols.len() as u8].iter().chain(headers).chain(data).copied().collect();
        Self { repair_data, ..self }
    }

    fn reach(&self, repairer: &mut Repairer) -> Result<BTreeMap<i64, Vec<u8>>, Damaged> {
        let head = PacketHead {
            stream: StreamId(0),
            number: Wrapped::of(self.sequence, PACK.number_bits()),
            media: Wrapped { value: 0, bits: 32 },
            begins: false,
            coding: self.payload_type,
            capture: None,
            instants: None,
        };
        let mut datagram = vec![0; PACK.head_bytes(false, self.repair_data.len())];
        let format = super::redundancy::format(tautline_dsp::format::SampleFormat::L16);
        let sound = PackedSound::of(&format, self.payload.len());
        PACK.pack(&head, &sound, &self.repair_data, &mut datagram);
        datagram.extend(&self.payload);
        let wire = unpack();
        let packet = wire.unpack(&datagram).expect("the test writes packets");
        let (sequence, coding) = (self.sequence, self.payload_type);
        let answer = repairer.accept(sequence, coding, &self.payload, packet.carried);
        let mut rebuilt = BTreeMap::new();
        while let Some((sequence, payload)) = repairer.pull() {
            assert_eq!(rebuilt.insert(sequence, payload.to_vec()), None, "restored twice");
        }
        answer.map(|()| rebuilt)
    }
}

fn payload(sequence: i64, payload_type: u8, bytes: usize) -> Vec<u8> {
    let mut state = (sequence as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(payload_type);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Packets from `first` on. Each kind has a payload type, a length and a count.
fn sent(layout: Layout, first: i64, kinds: &[(u8, usize, usize)]) -> Vec<Sent> {
    let mut encoder = Encoder::new(layout);
    let kinds = kinds.iter().flat_map(|(payload_type, bytes, packets)| {
        std::iter::repeat_n((*payload_type, *bytes), *packets)
    });
    let packets = (first..).zip(kinds).map(|(sequence, (payload_type, bytes))| {
        let bare = Sent::bare(sequence, payload_type, bytes);
        let mut room = vec![0; 9000];
        let len = encoder.write(sequence, payload_type, &bare.payload, &mut room);
        Sent { repair_data: room[..len].to_vec(), ..bare }
    });
    packets.collect()
}

#[derive(Debug, Clone)]
struct Kind {
    payload_type: u8,
    bytes: usize,
    packets: usize,
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = (96..99_u8, 1..70_usize, 1..400_usize)
        .prop_map(|(payload_type, bytes, packets)| Kind { payload_type, bytes, packets });
    prop::collection::vec(kind, 1..4)
}

/// Numbers of arriving and lost packets in turn, beyond the range of numbers.
fn outages() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let down = prop_oneof![6 => 1..3_usize, 3 => 3..20_usize, 1 => 100..300_usize];
    prop::collection::vec((0..30_usize, down), 1..30)
}

/// Lengths within a code's reach or beyond the range of numbers.
fn short_or_long() -> impl Strategy<Value = usize> {
    prop_oneof![20 => 1..9_usize, 1 => 110..150_usize]
}

fn comes(outages: &[(usize, usize)]) -> impl Iterator<Item = bool> {
    let states = outages.iter().flat_map(|(up, down)| {
        std::iter::repeat_n(true, *up).chain(std::iter::repeat_n(false, *down))
    });
    states.chain(std::iter::repeat(true))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_received_copy_is_used_and_nothing_invented(
        (copies, window) in (1..4_usize, 1..=MAX_WINDOW),
        first in prop::sample::select(&[-40_i64, 0, 65_500, 1 << 40][..]),
        kinds in kinds(),
        outages in outages(),
    ) {
        let kinds: Vec<_> = kinds.iter().map(|k| (k.payload_type, k.bytes, k.packets)).collect();
        let layout = Layout::copies(copies, window);
        let sent = sent(layout, first, &kinds);
        let arrived: Vec<_> = comes(&outages).take(sent.len()).collect();
        let mut repairer = Repairer::default();
        let mut rebuilt = BTreeMap::new();
        for (packet, _) in sent.iter().zip(&arrived).filter(|(_, arrived)| **arrived) {
            rebuilt.extend(packet.reach(&mut repairer).expect("whole"));
        }
        let oldest: Vec<_> = layout.reaches().iter().map(|reach| usize::from(reach.oldest)).collect();
        let alike = |a: &Sent, b: &Sent| {
            (a.payload_type, a.payload.len()) == (b.payload_type, b.payload.len())
        };
        // Nothing is kept before the first repair data.
        let idle = sent.iter().zip(&arrived).position(|(packet, arrived)| *arrived && !packet.repair_data.is_empty());
        let idle = idle.unwrap_or(sent.len());
        let mut wanted = BTreeMap::new();
        for (at, carrier) in sent.iter().enumerate().filter(|(at, _)| arrived[*at]) {
            // Another kind starts without history.
            let run = sent[..at].iter().rev().take_while(|before| alike(before, carrier)).count();
            for back in oldest.iter().map(|oldest| *oldest.min(&run)).filter(|back| *back > 0) {
                let lost = at - back;
                if !arrived[lost] || lost < idle {
                    wanted.insert(sent[lost].sequence, sent[lost].payload.clone());
                }
            }
        }
        prop_assert_eq!(rebuilt, wanted);
    }

    #[test]
    fn code_recovers_all_solvable_packets_immediately(
        (symbols, window) in (1..4_usize, 2..24_usize),
        first in prop::sample::select(&[-40_i64, 0, 65_500][..]),
        kinds in kinds(),
        outages in prop::collection::vec((2..20_usize, short_or_long()), 1..40),
        delayed in prop::collection::vec((any::<prop::sample::Index>(), 1..4_usize), 0..8),
    ) {
        let kinds: Vec<_> = kinds.iter().map(|k| (k.payload_type, k.bytes, k.packets)).collect();
        let sent = sent(Layout::code(symbols, window), first, &kinds);
        let mut arrived: Vec<_> = comes(&outages).take(sent.len()).collect();
        let mut order: Vec<_> = (0..sent.len()).collect();
        for (delayed, packets) in &delayed {
            let at = order.remove(delayed.index(order.len()));
            arrived[at] = true;
            order.insert((at + packets).min(order.len()), at);
        }
        let (mut repairer, mut equations) = (Repairer::default(), Equations::default());
        for at in order.into_iter().filter(|at| arrived[*at]) {
            let rebuilt = sent[at].reach(&mut repairer).expect("whole");
            prop_assert_eq!(rebuilt, equations.reported_by(&sent[at]), "by {}", sent[at].sequence);
        }
    }
}

/// Received symbols, by the code's definition and Gaussian elimination.
#[derive(Default)]
struct Equations {
    newest: Option<((u8, usize), i64)>,
    known: BTreeMap<i64, Vec<u8>>,
    sums: Vec<(BTreeMap<i64, u8>, Vec<u8>)>,
}

impl Equations {
    fn reported_by(&mut self, packet: &Sent) -> BTreeMap<i64, Vec<u8>> {
        let kind = (packet.payload_type, packet.payload.len());
        match self.newest {
            None if packet.repair_data.is_empty() => return BTreeMap::new(),
            Some((other, newest)) if other != kind && packet.sequence < newest => {
                return BTreeMap::new();
            }
            Some((other, _)) if other != kind => *self = Self::default(),
            _ => {}
        }
        let newest = self.newest.map_or(packet.sequence, |(_, newest)| newest.max(packet.sequence));
        self.newest = Some((kind, newest));
        self.known.insert(packet.sequence, packet.payload.clone());
        let [count, rest @ ..] = &packet.repair_data[..] else { return self.solve() };
        let (headers, sums) = rest.split_at(usize::from(*count) * 3);
        for (header, sum) in headers.chunks(3).zip(sums.chunks(packet.payload.len())) {
            let first = packet.sequence - i64::from(header[0]);
            let factor = |sequence: i64| match header[1] {
                1 => 1,
                _ => inverse(header[2] ^ sequence.rem_euclid(128) as u8),
            };
            let covered = first..first + i64::from(header[1]);
            self.sums.push((covered.map(|at| (at, factor(at))).collect(), sum.to_vec()));
        }
        self.solve()
    }

    fn solve(&mut self) -> BTreeMap<i64, Vec<u8>> {
        for (factors, sum) in &mut self.sums {
            factors.retain(|at, factor| {
                let Some(payload) = self.known.get(at) else { return true };
                add(sum, payload, *factor);
                false
            });
        }
        self.sums.retain(|(factors, _)| !factors.is_empty());
        let mut rows = self.sums.clone();
        let mut solved: Vec<(i64, BTreeMap<i64, u8>, Vec<u8>)> = Vec::new();
        while let Some((mut factors, mut sum)) = rows.pop() {
            let Some((&pivot, &factor)) = factors.iter().next() else { continue };
            let one = inverse(factor);
            factors.values_mut().for_each(|factor| *factor = product(*factor, one));
            sum.iter_mut().for_each(|byte| *byte = product(*byte, one));
            let others = rows.iter_mut().map(|(factors, sum)| (factors, sum));
            let others = others.chain(solved.iter_mut().map(|(_, factors, sum)| (factors, sum)));
            for (other, other_sum) in others {
                let Some(&factor) = other.get(&pivot) else { continue };
                for (at, each) in &factors {
                    let each = product(*each, factor) ^ other.get(at).copied().unwrap_or(0);
                    if each == 0 {
                        other.remove(at)
                    } else {
                        other.insert(*at, each)
                    };
                }
                add(other_sum, &sum, factor);
            }
            solved.push((pivot, factors, sum));
        }
        let alone = solved.into_iter().filter(|(_, factors, _)| factors.len() == 1);
        let reported: BTreeMap<_, _> = alone.map(|(at, _, sum)| (at, sum)).collect();
        self.known.extend(reported.clone());
        reported
    }
}

fn add(sum: &mut [u8], payload: &[u8], factor: u8) {
    sum.iter_mut().zip(payload).for_each(|(sum, byte)| *sum ^= product(*byte, factor));
}

/// Polynomials modulo x⁸ + x⁴ + x³ + x² + 1 (RFC 5510 §8.1).
fn product(a: u8, b: u8) -> u8 {
    let shifted = (0..8).filter(|bit| b >> bit & 1 == 1).map(|bit| u32::from(a) << bit);
    let mut long = shifted.fold(0, |sum, part| sum ^ part);
    for bit in (8..16).rev() {
        if long >> bit & 1 == 1 {
            long ^= 0x11D << (bit - 8);
        }
    }
    long as u8
}

fn inverse(a: u8) -> u8 {
    (1..=255).find(|b| product(a, *b) == 1).expect("every element except zero has one")
}

#[test]
fn code_restores_a_burst_of_half_a_window_anywhere() {
    for (window, first) in [(4, 0), (16, 120), (64, 65_500)] {
        let sent = sent(Layout::code(1, window), first, &[(96, 24, 500)]);
        for lost in [window, 128 - window / 2, 200, 255] {
            let mut repairer = Repairer::default();
            let burst = lost..lost + window / 2;
            let mut rebuilt = BTreeMap::new();
            for (_, packet) in sent.iter().enumerate().filter(|(at, _)| !burst.contains(at)) {
                rebuilt.extend(packet.reach(&mut repairer).expect("whole"));
            }
            // No repair data, so it was not kept.
            rebuilt.remove(&first);
            let wanted = sent[burst].iter().map(|lost| (lost.sequence, lost.payload.clone()));
            assert_eq!(rebuilt, wanted.collect(), "{lost} of {window}");
        }
    }
}

#[test]
fn repair_data_of_another_coding_restores_nothing() {
    let mut repairer = Repairer::default();
    let sum = [7; 6];
    for sequence in 0..10 {
        let copy = payload(sequence - 1, 96, 6);
        let carrying = Sent::bare(sequence, 96, 6).carrying(&[([1, 1, 0], &copy)]);
        let rebuilt = carrying.reach(&mut repairer).expect("whole");
        assert_eq!(rebuilt.len(), usize::from(sequence == 0), "{sequence}");
    }
    // Packet 11 has another coding, so packets 8 and 9 are not kept.
    let forged = Sent::bare(11, 97, 6).carrying(&[([3, 3, 128], &sum)]);
    assert_eq!(forged.reach(&mut repairer), Ok(BTreeMap::new()));
    for sequence in 12..20 {
        assert_eq!(Sent::bare(sequence, 97, 6).reach(&mut repairer), Ok(BTreeMap::new()));
    }
    let copy = payload(20, 97, 6);
    let carrying = Sent::bare(21, 97, 6).carrying(&[([1, 1, 0], &copy)]);
    assert_eq!(carrying.reach(&mut repairer), Ok(BTreeMap::from([(20, copy)])));
}

#[test]
fn a_packet_of_before_a_change_of_coding_is_passed_over() {
    let mut repairer = Repairer::default();
    let [old, new] = [6, 12].map(|bytes| payload(0, 0, bytes));
    assert!(Sent::bare(0, 96, 6).carrying(&[([1, 1, 0], &old)]).reach(&mut repairer).is_ok());
    assert!(Sent::bare(2, 97, 12).carrying(&[([1, 1, 0], &new)]).reach(&mut repairer).is_ok());
    // Its repair data refers to packets no longer expected.
    let late = Sent::bare(1, 96, 6).carrying(&[([1, 1, 0], &old)]);
    assert_eq!(late.reach(&mut repairer), Ok(BTreeMap::new()));
}

#[test]
fn the_window_is_as_far_as_repair_data_of_late_reaches() {
    let mut repairer = Repairer::default();
    let data = [1, 2, 3, 4];
    assert_eq!(repairer.window(), 0);
    let far = Sent::bare(20, 96, 4).carrying(&[([9, 1, 0], &data), ([4, 1, 0], &data)]);
    far.reach(&mut repairer).expect("whole");
    assert_eq!(repairer.window(), 9);
    for sequence in 21..=84 {
        let near =
            Sent::bare(sequence, 96, 4).carrying(&[([2, 1, 0], &data), ([5, 2, 130], &data)]);
        near.reach(&mut repairer).expect("whole");
        assert_eq!(repairer.window(), 9, "{sequence}");
    }
    let near = Sent::bare(85, 96, 4).carrying(&[([5, 2, 130], &data), ([2, 1, 0], &data)]);
    near.reach(&mut repairer).expect("whole");
    assert_eq!(repairer.window(), 5);
    repairer.reset();
    assert_eq!((repairer.window(), repairer.is_idle()), (0, true));
}

#[test]
fn too_small_datagram_carries_no_sound() {
    let mut repairer = Repairer::default();
    let bytes = MAX_PAYLOAD;
    for bytes in [0, bytes + 1] {
        assert_eq!(Sent::bare(1, 96, bytes).reach(&mut repairer), Ok(BTreeMap::new()));
    }
    let longest = payload(2, 96, bytes);
    let carrying = Sent::bare(3, 96, bytes).carrying(&[([1, 1, 0], &longest)]);
    assert_eq!(carrying.reach(&mut repairer), Ok(BTreeMap::from([(2, longest.clone())])));
    for bytes in [0, bytes + 1] {
        let carrying = Sent::bare(5, 96, bytes).carrying(&[([1, 1, 0], &longest)]);
        assert_eq!(carrying.reach(&mut repairer), Err(Damaged), "{bytes}");
        assert_eq!(Sent::bare(5, 96, bytes).reach(&mut repairer), Ok(BTreeMap::new()));
    }
    // Packets already kept remain useful.
    let carrying = Sent::bare(5, 96, bytes).carrying(&[([1, 1, 0], &longest)]);
    assert_eq!(carrying.reach(&mut repairer), Ok(BTreeMap::from([(4, longest)])));
}

#[test]
fn packets_older_than_the_window_are_not_kept() {
    let mut repairer = Repairer::default();
    let data = [1, 2, 3, 4];
    let newest = 200;
    let carrying = Sent::bare(newest, 96, 4).carrying(&[([1, 1, 0], &data)]);
    assert_eq!(carrying.reach(&mut repairer).map(|rebuilt| rebuilt.len()), Ok(1));
    // Modulo 128. The older half may belong to future packets.
    let reaches = |repairer: &mut Repairer, sequence| {
        let copy = payload(sequence - 1, 96, 4);
        let late = Sent::bare(sequence, 96, 4).carrying(&[([1, 1, 0], &copy)]);
        late.reach(repairer).expect("whole").len()
    };
    assert_eq!(reaches(&mut repairer, newest - 64), 0);
    assert_eq!(reaches(&mut repairer, newest - 63), 1);
}

#[test]
fn more_equations_than_there_is_room_for_spoil_nothing() {
    for (symbols, packets) in [(6, 8), (12, 16)] {
        let sent = sent(Layout::code(symbols, 64), 0, &[(96, 8, 600)]);
        // One in `packets` arrives at first, with two unknowns too many. 96 unsolvable equations
        // precede the first repeated number.
        let comes = |at: usize| at >= 400 || at.is_multiple_of(packets);
        let burst = 500..520;
        let mut repairer = Repairer::default();
        let mut rebuilt = BTreeMap::new();
        for packet in (0..600).filter(|at| comes(*at) && !burst.contains(at)) {
            rebuilt.extend(sent[packet].reach(&mut repairer).expect("whole"));
        }
        let whole =
            |(sequence, payload): (&i64, &Vec<u8>)| *payload == sent[*sequence as usize].payload;
        assert!(rebuilt.iter().all(whole));
        assert!(burst.clone().all(|lost| rebuilt.contains_key(&(lost as i64))), "{symbols}");
    }
}
