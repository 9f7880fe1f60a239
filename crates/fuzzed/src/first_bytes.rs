use tautline_api::call::{CallKeys, MediaTicket, PROBE_BYTES, PathProbes, ProbeWay};
use tautline_io::programs::buffer::MAX_SAMPLES;
use tautline_io::programs::greeting::Greeting;
use tautline_proto::call::CallId;
use tautline_proto::device::Settings;

fn flipped<const LEN: usize>(mut there: [u8; LEN], bytes: &[u8]) -> [u8; LEN] {
    there.iter_mut().zip(bytes).for_each(|(there, bits)| *there ^= bits);
    there
}

fn ticket(keys: &CallKeys, bytes: &[u8]) {
    let shown = keys.ticket.shown();
    for shows in [flipped(shown, bytes), flipped([0; MediaTicket::SHOWN_BYTES], bytes)] {
        let read = MediaTicket::read(&shows);
        assert_eq!(read.is_some(), shows.starts_with(&MediaTicket::MAGIC));
        if let Some(read) = read {
            assert_eq!(read.shown(), shows);
            assert_eq!(read.is(&keys.ticket), shows == shown, "only this call's ticket matches");
        }
    }
}

fn counted(probes: &PathProbes, way: ProbeWay, bytes: &[u8]) -> Option<u64> {
    let (count, _) = bytes.get(4..)?.split_first_chunk()?;
    let count = u64::from_be_bytes(*count);
    bytes.starts_with(&probes.written(way, count, 0)).then_some(count)
}

fn probe(keys: &CallKeys, bytes: &[u8]) {
    let probes = PathProbes::new(&keys.probe);
    let (count, bits) = bytes.split_first_chunk().unwrap_or((&[0; 8], bytes));
    let count = u64::from_be_bytes(*count);
    for (way, other) in [(ProbeWay::There, ProbeWay::Back), (ProbeWay::Back, ProbeWay::There)] {
        let whole: [u8; PROBE_BYTES] = probes.written(way, count, 0).try_into().unwrap_or([0; _]);
        let sent = flipped(whole, bits);
        for read in [bytes, &sent, &sent[..PROBE_BYTES - 1]] {
            for way in [way, other] {
                assert_eq!(probes.read(way, read), counted(&probes, way, read));
            }
        }
    }
}

fn greeting(bytes: &[u8]) {
    let Ok(greeting) = Greeting::read(bytes) else { return };
    let written = greeting.written();
    assert!(written.len() <= Greeting::MAX_BYTES);
    assert!(Greeting::read(&written).is_ok(), "a written greeting parses");
    if let Greeting::Card { settings: Settings { rate, channels, period, periods }, frames } =
        greeting
    {
        assert_eq!(written, bytes, "every byte of a card counts");
        assert!(rate.hertz() > 0 && channels.count() > 0 && period.count() > 0 && periods > 0);
        assert!(period.as_len().checked_mul(4).is_some_and(|four| four <= frames));
        let samples = frames.checked_mul(channels.count());
        assert!(samples.is_some_and(|samples| samples <= MAX_SAMPLES));
    }
}

/// Only the right key gives a valid ticket or probe; a greeting's card is within its bounds.
pub fn first_bytes(bytes: &[u8]) {
    let keys = CallKeys::of(&[1; 32], CallId([7; 16]), 3);
    ticket(&keys, bytes);
    probe(&keys, bytes);
    greeting(bytes);
}
