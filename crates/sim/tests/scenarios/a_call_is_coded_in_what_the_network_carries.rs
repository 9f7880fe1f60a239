//! Under test: in what a direction of a call is coded, over paths that carry less than it would like, and paths that lose
//! whatever is sent.

use std::fmt::Write;

use tautline_dsp::format::SampleFormat;
use tautline_proto::call::coding_choice::{CodingChoice, SpoiltShare};
use tautline_proto::call::terms::StreamTerms;
use tautline_proto::codec::Codec;
use tautline_proto::stream::Coding;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Bottleneck, Loss, Path, PathModel};

/// From capture to loudspeaker.
const LATENCY: Span = Span::from_millis(60);
const TERMS: StreamTerms = StreamTerms {
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    coding: Coding { sample: SampleFormat::L24, coder: None },
    ptime: Span::from_micros(2500),
};

/// A second of a call.
struct Second {
    coding: Coding,
    spoilt: f64,
}

/// Bytes of a packet's datagram: sound, RTP, instants and seal, without what IP adds; and how long it is.
fn datagram(terms: &StreamTerms) -> (usize, Span) {
    let format = terms.format(0).expect("a format");
    // A little less than two thirds are left of it, packet by packet as long.
    let left = if terms.coding.coder == Some(Codec::Lossless) { 0.62 } else { 1.0 };
    ((format.payload_bytes() as f64 * left) as usize + 48, format.ptime())
}

fn call(model: PathModel, seconds: usize, seed: u64) -> Vec<Second> {
    let choice = CodingChoice::new(&TERMS, LocalTime::ZERO).expect("a ladder");
    call_by(choice, model, seconds, seed)
}

fn call_by(mut choice: CodingChoice, model: PathModel, seconds: usize, seed: u64) -> Vec<Second> {
    let mut path = Path::new(model, seed);
    let begin = LocalTime::ZERO;
    let mut terms = choice.terms().expect("one");
    let mut told = Vec::new();
    let mut next = TrueTime::ZERO;
    for second in 1..=seconds {
        let end = TrueTime::from_nanos(second as i64 * 1_000_000_000);
        let (bytes, ptime) = datagram(&terms);
        let (mut due, mut lost, mut late) = (0_u32, 0_u32, 0_u32);
        while next.as_nanos() < end.as_nanos() {
            due += 1;
            let mut came = None;
            path.carry(bytes, next, |at| came = came.or(Some(at)));
            match came {
                None => lost += 1,
                Some(at) if at.since(next) > LATENCY => late += 1,
                Some(_) => {}
            }
            next = next.after(ptime);
        }
        let share = |count: u32| f64::from(count) / f64::from(due);
        let spoilt = SpoiltShare { due: due.into(), lost: share(lost), late: share(late) };
        told.push(Second { coding: terms.coding, spoilt: spoilt.lost + spoilt.late });
        if let Some(next) = choice.observed(begin + Span::from_secs(second as i64), spoilt) {
            terms = next;
        }
    }
    told
}

fn in_words(call: &[Second]) -> String {
    let mut words = String::new();
    for (second, Second { coding, spoilt }) in call.iter().enumerate() {
        let bits = coding.bitrate().map_or(String::new(), |bits| format!(" {}k", bits / 1000));
        let _ = write!(words, "{second}:{}{bits} {:.0}%  ", coding.name(), spoilt * 100.0);
    }
    words
}

fn narrow(rate: u64) -> PathModel {
    // A quarter of a second may wait, as home routers let it.
    let bottleneck = Some(Bottleneck { rate, queue: (rate / 32) as usize });
    PathModel { bottleneck, ..PathModel::ideal(Span::from_millis(10)) }
}

#[test]
fn a_call_is_coded_in_what_the_network_carries() {
    for (rate, best) in [
        (100_000_000, "l24"),
        (2_200_000, "lossless24"),
        (1_500_000, "lossless16"),
        (450_000, "opus"),
        (150_000, "opus-voice"),
    ] {
        let call = call(narrow(rate), 600, 1);
        let told = in_words(&call);
        let found = call.iter().position(|second| second.coding.name() == best).expect(&told);
        assert!(found <= 20, "{rate} bit/s: {best} after {found} s: {told}");
        let there = call[20..].iter().filter(|second| second.coding.name() == best).count();
        assert!(there >= 540, "{rate} bit/s: {best} for {there} of 580 s: {told}");
        let spoilt = call.iter().filter(|second| second.spoilt > 0.02).count();
        assert!(spoilt <= 14, "{rate} bit/s: {spoilt} s spoilt: {told}");
    }
}

/// The bit rates of the seconds that are in this coding.
fn bitrates<'a>(call: &'a [Second], coding: &'a str) -> impl Iterator<Item = u32> + 'a {
    let of_it = call.iter().filter(move |second| second.coding.name() == coding);
    of_it.filter_map(|second| second.coding.bitrate())
}

#[test]
fn the_bit_rate_of_opus_is_what_fits_beside_the_heads_of_packets() {
    // With Ethernet's, those of packets of 5 ms take 182.4 kbit/s, and those of 20 ms a quarter of that.
    for (rate, coding, heads) in [
        (60_000, "opus-voice", 45_600),
        (80_000, "opus-voice", 45_600),
        (110_000, "opus-voice", 45_600),
        (250_000, "opus", 182_400),
        (300_000, "opus", 182_400),
        (350_000, "opus", 182_400),
        (400_000, "opus", 182_400),
    ] {
        let call = call(narrow(rate), 600, 4);
        let told = in_words(&call);
        let carried = rate as u32 - heads;
        let fits = |bitrate: &u32| *bitrate <= carried && *bitrate >= carried * 6 / 10;
        let there = bitrates(&call[20..], coding).filter(fits).count();
        assert!(there >= 520, "{rate} bit/s: {there} of 580 s: {told}");
        let spoilt = call.iter().filter(|second| second.spoilt > 0.02).count();
        assert!(spoilt <= 16, "{rate} bit/s: {spoilt} s spoilt: {told}");
    }
}

#[test]
fn opus_that_is_kept_to_follows_the_network_in_its_bit_rate_alone_and_comes_back() {
    let mut path = narrow(100_000_000);
    path.changes = vec![
        (TrueTime::from_nanos(30_000_000_000), narrow(250_000)),
        (TrueTime::from_nanos(60_000_000_000), narrow(100_000_000)),
    ];
    let terms = StreamTerms { ptime: Span::from_millis(5), ..TERMS }.coded(Coding::OPUS);
    let choice = CodingChoice::of_bits(&terms, LocalTime::ZERO).expect("a choice");
    let call = call_by(choice, path, 240, 5);
    let told = in_words(&call);
    assert!(call.iter().all(|second| second.coding.name() == "opus"), "{told}");
    assert!(bitrates(&call[..30], "opus").all(|bitrate| bitrate == 192_000), "{told}");
    assert!(bitrates(&call[33..60], "opus").all(|bitrate| bitrate < 128_000), "{told}");
    assert_eq!(call[239].coding.bitrate(), Some(192_000), "{told}");
    let lossless = StreamTerms { coding: Coding::LOSSLESS_16, ..TERMS };
    assert!(CodingChoice::of_bits(&lossless, LocalTime::ZERO).is_none());
}

#[test]
fn speech_gives_no_bits_away_for_loss_that_its_copies_make_good() {
    let mut path = narrow(100_000_000);
    let lossy = PathModel { loss: Loss::random(0.05), ..path.clone() };
    path.changes = vec![(TrueTime::from_nanos(20_000_000_000), lossy)];
    let terms = StreamTerms { ptime: Span::from_millis(20), ..TERMS };
    for (coding, kept) in [(Coding::OPUS_VOICE, true), (Coding::OPUS, false)] {
        let terms = terms.coded(coding);
        let choice = CodingChoice::of_bits(&terms, LocalTime::ZERO).expect("a choice");
        let call = call_by(choice, path.clone(), 60, 6);
        let all = call.iter().all(|second| second.coding.bitrate() == terms.coding.bitrate());
        assert_eq!(all, kept, "{}", in_words(&call));
    }
}

#[test]
fn a_path_that_becomes_narrow_is_followed_within_three_seconds_and_back() {
    let mut path = narrow(100_000_000);
    path.changes = vec![
        (TrueTime::from_nanos(60_000_000_000), narrow(1_500_000)),
        (TrueTime::from_nanos(120_000_000_000), narrow(100_000_000)),
    ];
    let call = call(path, 240, 2);
    let told = in_words(&call);
    assert_eq!(call[59].coding.name(), "l24", "{told}");
    assert!(call[63..73].iter().all(|second| second.spoilt < 0.02), "{told}");
    assert_eq!(call[63].coding.name(), "lossless16", "{told}");
    // The next rung is tried in vain, for a second, and what it filled the queue with is late for two.
    let spoilt = call[63..120].iter().filter(|second| second.spoilt > 0.02).count();
    assert!(spoilt <= 6, "{spoilt}: {told}");
    assert_eq!(call[239].coding.name(), "l24", "{told}");
}

#[test]
fn loss_that_fewer_bits_do_not_lessen_costs_no_quality() {
    for loss in [0.005, 0.03, 0.08] {
        let model = PathModel { loss: Loss::random(loss), ..narrow(100_000_000) };
        let call = call(model, 300, 3);
        let told = in_words(&call);
        let best = call[60..].iter().filter(|second| second.coding.name() == "l24").count();
        assert!(best >= 216, "{loss}: {best} of 240 s: {told}");
    }
}

#[test]
fn a_call_that_is_simulated_twice_is_coded_the_same() {
    let model = PathModel { loss: Loss::bursts(0.04, 3.0), ..narrow(1_000_000) };
    assert_eq!(in_words(&call(model.clone(), 120, 9)), in_words(&call(model, 120, 9)));
}
