//! What is read of others before it is known who they are, though no line of a protocol stands around it: the ticket of a
//! connection that is to carry a call's sound, probes of a call's path, and what a program is told by whoever has its
//! card. Nothing is taken for a ticket or a probe but what has the key; a card is one that can be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_api::call::{CallKeys, MediaTicket, PROBE_BYTES, PathProbes, ProbeWay};
use tautline_io::programs::buffer::MOST_SAMPLES;
use tautline_io::programs::greeting_again;
use tautline_proto::call::CallId;

/// Of a greeting.
const MOST_GREETING: usize = 512;

/// What is there with the bits turned that are set in `bytes`: none where they end.
fn turned<const LEN: usize>(mut there: [u8; LEN], bytes: &[u8]) -> [u8; LEN] {
    there.iter_mut().zip(bytes).for_each(|(there, bits)| *there ^= bits);
    there
}

fn ticket(keys: &CallKeys, bytes: &[u8]) {
    let shown = keys.ticket.shown();
    for shows in [turned(shown, bytes), turned([0; MediaTicket::SHOWN_BYTES], bytes)] {
        let read = MediaTicket::read(&shows);
        assert_eq!(read.is_some(), shows.starts_with(&MediaTicket::MAGIC));
        if let Some(read) = read {
            assert_eq!(read.shown(), shows);
            assert_eq!(read.is(&keys.ticket), shows == shown, "of this call and no other");
        }
    }
}

/// The count of what is the probe that is written with this count, and nothing else.
fn counted(probes: &PathProbes, way: ProbeWay, bytes: &[u8]) -> Option<u64> {
    let (count, _) = bytes.get(4..)?.split_first_chunk()?;
    let count = u64::from_be_bytes(*count);
    (probes.written(way, count) == bytes).then_some(count)
}

fn probe(keys: &CallKeys, bytes: &[u8]) {
    let probes = PathProbes::new(&keys.probe);
    let (count, bits) = bytes.split_first_chunk().unwrap_or((&[0; 8], bytes));
    let count = u64::from_be_bytes(*count);
    for (way, other) in [(ProbeWay::There, ProbeWay::Back), (ProbeWay::Back, ProbeWay::There)] {
        let sent = turned(probes.written(way, count), bits);
        for read in [bytes, &sent, &sent[..PROBE_BYTES - 1]] {
            for way in [way, other] {
                assert_eq!(probes.read(way, read), counted(&probes, way, read));
            }
        }
    }
}

fn greeting(bytes: &[u8]) {
    let Some(again) = greeting_again(bytes) else { return };
    assert!(again.len() <= MOST_GREETING);
    assert!(greeting_again(&again).is_some(), "what is written is read");
    let is_card = again[8] == 0;
    if is_card {
        assert_eq!(again, bytes, "of a card each byte counts");
        let (numbers, _) = again[9..].as_chunks::<4>();
        let numbers: Vec<_> = numbers.iter().map(|one| u32::from_le_bytes(*one) as usize).collect();
        let [rate, channels, period, periods, frames] = numbers[..] else { panic!("{numbers:?}") };
        assert!(rate > 0 && channels > 0 && period > 0 && periods > 0);
        assert!(period.checked_mul(4).is_some_and(|four| four <= frames));
        assert!(frames.checked_mul(channels).is_some_and(|samples| samples <= MOST_SAMPLES));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let keys = CallKeys::of(&[1; 32], CallId([7; 16]), 3);
    ticket(&keys, bytes);
    probe(&keys, bytes);
    greeting(bytes);
});
