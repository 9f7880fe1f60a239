use tautline_trial::snapshot;

use core::cmp::Ordering;

use tautline_dsp::format::SampleFormat;

use super::*;

fn abilities(rates: &[u32], codings: &[SampleFormat]) -> StreamAbilities {
    StreamAbilities {
        rates: rates.iter().map(|hertz| Rate::new(*hertz).unwrap()).collect(),
        channels: vec![Channels::STEREO],
        codings: codings.iter().map(|sample| Coding::from(*sample)).collect(),
        ptimes: (Span::from_millis(1), Span::from_millis(20)),
        takes: None,
    }
}

fn offer(rates: &[u32], codings: &[SampleFormat]) -> CallOffer {
    let (there, back) = (abilities(rates, codings), abilities(rates, codings));
    CallOffer {
        there,
        back,
        paths: vec![CallPath::Udp, CallPath::Tcp],
        latency: None,
        adapts: None,
        redundancy: None,
    }
}

const BOTH: [SampleFormat; 2] = [SampleFormat::L24, SampleFormat::L16];

#[test]
fn the_first_that_both_can_is_chosen() {
    let terms = offer(&[96_000, 48_000], &BOTH).choose(&offer(&[48_000, 44_100], &BOTH));
    let terms = terms.unwrap();
    assert_eq!(terms.there.rate, Rate::new(48_000).unwrap());
    assert_eq!(terms.there.coding, SampleFormat::L24.into());
    let terms = offer(&[48_000], &BOTH).choose(&offer(&[48_000], &[SampleFormat::L16])).unwrap();
    assert_eq!(terms.back.coding, SampleFormat::L16.into());
}

#[test]
fn called_end_adapts_callers_that_chose_no_coding() {
    let codings = |offer: &mut CallOffer, codings: &[Coding]| {
        offer.there.codings = codings.to_vec();
        offer.back.codings = codings.to_vec();
    };
    let all = [SampleFormat::L24.into(), Coding::LOSSLESS_16, Coding::OPUS];
    let mut here = offer(&[48_000], &BOTH);
    codings(&mut here, &all);
    let mut caller = here.clone();
    here.adapts = Some(CallAdaptation { codings: all.to_vec(), ..CallAdaptation::default() });
    let bits = CallAdaptation { max_bitrate: Some(64_000), ..CallAdaptation::default() };
    caller.adapts =
        Some(CallAdaptation { codings: all.to_vec(), after_loss: true, ..bits.clone() });
    let terms = caller.choose(&here).unwrap();
    assert_eq!(terms.adapts, Some(CallAdaptation { codings: all.to_vec(), ..bits.clone() }));
    assert_eq!(terms.there.coding.codec, Coding::OPUS.at_bitrate(64_000).codec, "few bits first");
    // Cannot send feedback.
    let older = CallOffer { adapts: None, ..caller.clone() };
    let terms = older.choose(&here).unwrap();
    assert_eq!((terms.adapts, terms.there.coding), (None, all[0]));
    let terms = caller.choose(&CallOffer { adapts: None, ..here.clone() }).unwrap();
    assert_eq!((&terms.adapts, terms.there.coding), (&caller.adapts, all[0]), "after a loss");
    codings(&mut caller, &all[..1]);
    caller.adapts = Some(bits.clone());
    let terms = caller.choose(&here).unwrap();
    assert_eq!((terms.adapts, terms.there.coding), (Some(bits), all[0]), "the caller's choice");
}

#[test]
fn packets_are_as_short_as_both_can() {
    let (mut one, mut other) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
    one.there.ptimes = (Span::from_micros(125), Span::from_millis(4));
    other.there.ptimes = (Span::from_micros(2500), Span::from_millis(20));
    assert_eq!(one.choose(&other).unwrap().there.ptime, Span::from_micros(2500));
    other.there.ptimes.0 = Span::from_millis(4);
    assert_eq!(one.choose(&other).unwrap().there.ptime, Span::from_millis(4));
    other.there.ptimes.0 = Span::from_millis(5);
    let apart = one.choose(&other).unwrap_err().to_string();
    snapshot!(apart);
}

#[test]
fn packets_of_one_period_are_possible_again_after_longer_ones() {
    let (mut here, there) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
    // One period, rounded up to 1 ns (`taut serve`).
    here.there.ptimes.0 += Span::from_nanos(1);
    here.back.ptimes.0 += Span::from_nanos(1);
    let mut terms = there.choose(&here).unwrap();
    for (micros, fits) in [(2_500, true), (1_000, true), (979, false)] {
        (terms.there.ptime, terms.back.ptime) =
            (Span::from_micros(micros), Span::from_micros(micros));
        assert_eq!(terms.fits(&here).is_ok(), fits, "{micros} us");
    }
}

#[test]
fn callers_latency_precedes_the_called_ends() {
    let (mut one, mut other) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
    let ms = Span::from_millis;
    assert_eq!(one.choose(&other).unwrap().latency, CallLatency::Auto { maximum: ms(250) });
    let auto = |millis| CallLatency::Auto { maximum: ms(millis) };
    for called in [CallLatency::Kept(ms(20)), auto(150)] {
        (one.latency, other.latency) = (None, Some(called));
        assert_eq!(one.choose(&other).unwrap().latency, called);
        for latency in [CallLatency::Kept(ms(8)), auto(80), CallLatency::AUTO] {
            one.latency = Some(latency);
            assert_eq!(one.choose(&other).unwrap().latency, latency);
        }
    }
    let hour = Span::from_secs(3_600);
    for latency in [CallLatency::Kept(hour), CallLatency::Auto { maximum: hour }] {
        one.latency = Some(latency);
        assert!(one.choose(&other).is_err(), "memory for an hour");
    }
}

#[test]
fn agreed_latency_suits_the_devices_of_both_ends() {
    let ms = Span::from_millis;
    let (mut one, mut other) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
    one.latency = Some(CallLatency::Kept(ms(5)));
    let agreed = |one: &CallOffer, other: &CallOffer| one.choose(other).unwrap().latency;
    assert_eq!(agreed(&one, &other), CallLatency::Kept(ms(5)), "no device latency is known");
    // Packets of 1 ms; the called end buffers 20 ms.
    other.there.takes = Some(ms(20));
    assert_eq!(agreed(&one, &other), CallLatency::Kept(ms(22)), "and 1 ms for the network");
    // Packets leave 10 ms old; the caller buffers 30 ms.
    (other.back.takes, one.back.takes) = (Some(ms(10)), Some(ms(30)));
    assert_eq!(agreed(&one, &other), CallLatency::Kept(ms(41)));
    one.latency = Some(CallLatency::Kept(ms(60)));
    assert_eq!(agreed(&one, &other), CallLatency::Kept(ms(60)), "it is kept");
    (one.latency, other.latency) = (None, Some(CallLatency::Kept(ms(5))));
    assert_eq!(agreed(&one, &other), CallLatency::Kept(ms(41)), "whichever end requested less");
    other.latency = None;
    assert_eq!(
        agreed(&one, &other),
        CallLatency::AUTO,
        "an adaptive latency adapts to the devices too"
    );
    (one.latency, one.back.takes) =
        (Some(CallLatency::Kept(ms(5))), Some(Span::from_secs(i64::MAX / 1_000_000_000)));
    assert!(one.choose(&other).is_err());
}

#[test]
fn an_empty_or_absurd_offer_is_refused_by_its_list() {
    let here = offer(&[48_000], &BOTH);
    let empty = offer(&[], &BOTH).choose(&here).unwrap_err();
    assert_eq!(empty, NoTerms::Listed { what: "rates", count: 0 });
    let absurd = offer(&[8_000; 4_000], &BOTH).choose(&here).unwrap_err();
    assert_eq!(absurd, NoTerms::Listed { what: "rates", count: 4_000 });
    let mut paths = offer(&[48_000], &BOTH);
    paths.paths = vec![CallPath::Udp; 4_000];
    assert_eq!(paths.choose(&here).unwrap_err(), NoTerms::Listed { what: "paths", count: 4_000 });
}

#[test]
fn different_rates_there_and_back_are_refused() {
    let all = offer(&[48_000, 44_100], &BOTH);
    let mut one = all.clone();
    one.back.rates = offer(&[44_100], &BOTH).back.rates;
    let [there, back] = [48_000, 44_100].map(|hertz| Rate::new(hertz).unwrap());
    assert_eq!(one.choose(&all).unwrap_err(), NoTerms::TwoRates { there, back });
    let mut terms = all.choose(&all).unwrap();
    terms.back.rate = back;
    assert_eq!(terms.fits(&all), Err(Unsupported::Shape), "and a caller rejects such an answer");
}

#[test]
fn offer_without_paths_is_on_hold_and_no_common_path_fails() {
    let (mut one, mut here) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
    assert!(one.choose(&here).unwrap().sound());
    here.paths = vec![CallPath::Tcp];
    one.paths.clear();
    let terms = one.choose(&here).unwrap();
    assert!(!terms.sound() && terms.fits(&here).is_ok());
    one.paths = vec![CallPath::Udp];
    let apart = one.choose(&here).unwrap_err().to_string();
    snapshot!(apart);
}

fn refused(change: impl Fn(&mut CallOffer)) -> String {
    let here = offer(&[48_000], &BOTH);
    let mut one = here.clone();
    change(&mut one);
    one.choose(&here).unwrap_err().to_string()
}

#[test]
fn offer_errors_name_the_property_and_the_fix() {
    let ms = Span::from_millis;
    for (number, reported) in [
        refused(|one| one.back.rates.clear()),
        refused(|one| one.there.channels = vec![Channels::MONO; 17]),
        refused(|one| one.there.codings.clear()),
        refused(|one| one.there.channels = vec![Channels::MONO]),
        refused(|one| one.there.ptimes = (ms(21), ms(30))),
        refused(|one| one.back.ptimes = (Span::ZERO, Span::from_micros(999))),
        refused(|one| one.back.codings = vec![SampleFormat::F32.into()]),
        refused(|one| one.latency = Some(CallLatency::Kept(Span::ZERO))),
    ]
    .into_iter()
    .enumerate()
    {
        snapshot!(number, reported);
    }
    let here = CallOffer { paths: vec![CallPath::Tcp], ..offer(&[48_000], &BOTH) };
    let one = CallOffer { paths: vec![CallPath::Udp], ..here.clone() };
    snapshot!(one.choose(&here).unwrap_err());
    let maximum = |latency| CallOffer {
        latency: Some(CallLatency::Kept(latency)),
        ..offer(&[48_000], &BOTH)
    };
    assert!(maximum(LONGEST_LINK_OFFSET).choose(&maximum(ms(1))).is_ok());
    assert!(maximum(LONGEST_LINK_OFFSET + Span::from_nanos(1)).choose(&maximum(ms(1))).is_err());
}

#[test]
fn unsupported_terms_are_rejected_with_reason_and_fix() {
    let ms = Span::from_millis;
    let here = offer(&[48_000], &BOTH);
    let terms = here.choose(&here).unwrap();
    assert_eq!(terms.fits(&here), Ok(()));
    let refused = |change: &dyn Fn(&mut CallTerms)| {
        let mut requested = terms.clone();
        change(&mut requested);
        requested.fits(&here).unwrap_err().to_string()
    };
    type Change<'a> = &'a dyn Fn(&mut CallTerms);
    let cases: [Change<'_>; 11] = [
        &|terms| terms.there.rate = Rate::new(44_100).unwrap(),
        &|terms| terms.back.channels = Channels::MONO,
        &|terms| terms.there.ptime = Span::from_micros(999),
        &|terms| terms.back.ptime = ms(20) + Span::from_micros(1),
        // Supported, but not in packets of 1 ms.
        &|terms| terms.back.coding = Coding::OPUS,
        &|terms| terms.there.coding = SampleFormat::F32.into(),
        &|terms| terms.back.coding = Coding::LOSSLESS_16,
        &|terms| terms.paths = vec![CallPath::Udp; MAX_LISTED + 1],
        &|terms| terms.latency = CallLatency::Kept(Span::ZERO),
        &|terms| terms.latency = CallLatency::Kept(LONGEST_LINK_OFFSET + ms(1)),
        &|terms| terms.latency = CallLatency::Kept(ms(-1)),
    ];
    for (number, change) in cases.into_iter().enumerate() {
        snapshot!(number, refused(change));
    }
    let udp = CallOffer { paths: vec![CallPath::Udp], ..here.clone() };
    assert_eq!(terms.fits(&udp), Err(Unsupported::Path));
    let mut short = here.clone();
    short.there.ptimes.1 = ms(1);
    assert_eq!(terms.fits(&short), Ok(()), "as long as the longest");
    short.there.ptimes = (Span::from_micros(125), Span::from_micros(500));
    assert!(terms.fits(&short).is_err(), "longer than the longest");
    assert_eq!(
        CallTerms { latency: CallLatency::Kept(LONGEST_LINK_OFFSET), ..terms.clone() }.fits(&here),
        Ok(())
    );
    assert_eq!(CallTerms { paths: Vec::new(), ..terms.clone() }.fits(&udp), Ok(()));
}

#[test]
fn first_common_entry_of_the_callers_list_is_chosen() {
    let all = [48_000, 96_000, 44_100, 16_000];
    for hertz in all {
        let one = offer(&all, &BOTH);
        let (called, rate) = (offer(&[hertz], &BOTH), Rate::new(hertz).unwrap());
        let terms = one.choose(&called).unwrap();
        assert_eq!((terms.there.rate, terms.back.rate), (rate, rate));
    }
    let (mut one, mut called) = (offer(&all, &BOTH), offer(&all, &BOTH));
    (one.there.channels, one.back.channels) =
        (vec![Channels::STEREO, Channels::MONO], vec![Channels::STEREO, Channels::MONO]);
    assert_eq!(one.choose(&called).unwrap().there.channels, Channels::STEREO);
    called.there.channels = vec![Channels::MONO];
    let terms = one.choose(&called).unwrap();
    assert_eq!((terms.there.channels, terms.back.channels), (Channels::MONO, Channels::STEREO));
    let apart = one.choose(&offer(&[8_000], &BOTH)).unwrap_err().to_string();
    assert!(
        apart.ends_with(
            "the called end 8000 Hz\nhint: set --rate at the called end to a value of the caller"
        ),
        "{apart}"
    );
}

#[test]
fn coding_unsupported_at_the_rate_is_skipped_or_rejected() {
    let rates = [Rate::new(16_000).unwrap()];
    let coded = |codings: &[Coding]| {
        let mut one = offer(&[16_000], &BOTH);
        for stream in [&mut one.there, &mut one.back] {
            (stream.rates, stream.codings) = (rates.to_vec(), codings.to_vec());
        }
        one
    };
    let here = coded(&[Coding::LOSSLESS_16, Coding::OPUS]);
    let terms = coded(&[Coding::OPUS, Coding::LOSSLESS_16]).choose(&here).unwrap();
    assert_eq!(terms.there.coding, Coding::LOSSLESS_16);
    let reported = coded(&[Coding::OPUS]).choose(&here).unwrap_err().to_string();
    assert_eq!(
        reported,
        "opus requires 48000 Hz, but audio to the called end has 16000 Hz\nhint: remove --format opus, or give both ends \
         --rate 48000"
    );
    let mut many = offer(&[48_000], &BOTH);
    for stream in [&mut many.there, &mut many.back] {
        (stream.channels, stream.codings) = (vec![Channels::new(6).unwrap()], vec![Coding::OPUS]);
    }
    let reported = many.choose(&many).unwrap_err().to_string();
    snapshot!(reported);
}

#[test]
fn missing_common_terms_are_named_with_a_hint() {
    let apart = offer(&[44_100], &BOTH).choose(&offer(&[48_000], &BOTH)).unwrap_err();
    assert_eq!(
        apart.to_string(),
        "no common rate for audio to the called end: the caller has 44100 Hz, the called end 48000 Hz\nhint: call with \
         --rate 48000 or without --rate, and convert the file first, if any"
    );
    let (mut one, other) = (offer(&[48_000], &BOTH), offer(&[48_000], &BOTH));
    one.back.channels = vec![Channels::MONO];
    let apart = one.choose(&other).unwrap_err().to_string();
    snapshot!(apart);
}

fn both(coding: Coding, ptime: Span) -> CallTerms {
    let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
    let stream = StreamTerms { rate, channels, coding, ptime };
    CallTerms {
        there: stream,
        back: stream,
        paths: Vec::new(),
        latency: CallLatency::AUTO,
        adapts: None,
        redundancy: None,
    }
}

#[test]
fn next_packet_length_is_supported_by_both_codings() {
    let (ms, us) = (Span::from_millis, Span::from_micros);
    let next = |coding, ptime, way| both(coding, ptime).next_ptime(way);
    assert_eq!(next(SampleFormat::L24.into(), us(2500), Ordering::Less), Some(ms(1)));
    assert_eq!(next(SampleFormat::L24.into(), us(250), Ordering::Less), None);
    assert_eq!(next(SampleFormat::L24.into(), ms(20), Ordering::Greater), None);
    assert_eq!(next(Coding::OPUS, us(2500), Ordering::Less), None);
    assert_eq!(next(Coding::OPUS, us(2500), Ordering::Greater), Some(ms(5)));
    assert_eq!(next(Coding::OPUS_VOICE, ms(10), Ordering::Less), None);
    let mut apart = both(SampleFormat::L24.into(), us(2500));
    apart.back = both(Coding::OPUS_VOICE, ms(20)).back;
    assert_eq!(
        apart.next_ptime(Ordering::Greater),
        Some(ms(10)),
        "the other end does not support 5 ms"
    );
}

#[test]
fn callers_redundancy_precedes_the_called_ends() {
    let with = |redundancy| CallOffer { redundancy, ..offer(&[48_000], &BOTH) };
    let (off, auto) = (Some(Redundancy::Off), Some(Redundancy::Auto));
    for (caller, called, agreed) in
        [(None, None, None), (None, auto, auto), (off, auto, off), (auto, None, auto)]
    {
        assert_eq!(with(caller).choose(&with(called)).unwrap().redundancy, agreed);
    }
    let terms = with(None).choose(&with(None)).unwrap();
    assert_eq!(terms.regulator(auto).requested(), Redundancy::Auto);
    assert_eq!(terms.regulator(None).requested(), Redundancy::Off);
    let codings = vec![SampleFormat::L24.into(), Coding::OPUS];
    let adapts = Some(CallAdaptation { codings, ..CallAdaptation::default() });
    let adapting = CallTerms { adapts, ..terms.clone() };
    assert_eq!(adapting.regulator(None).requested(), Redundancy::Auto);
    assert_eq!(adapting.regulator(off).requested(), Redundancy::Off);
    assert_eq!(CallTerms { redundancy: off, ..terms }.regulator(auto).requested(), Redundancy::Off);
}

#[test]
fn path_is_probed_with_the_size_of_redundant_packets() {
    let ms = Span::from_millis(1);
    let bytes = |coding, ptime, redundancy| {
        CallTerms { redundancy, ..both(coding, ptime) }.datagram_bytes()
    };
    let l24 = Coding::from(SampleFormat::L24);
    let plain = bytes(l24, ms, None);
    assert_eq!(bytes(l24, ms, Some(Redundancy::Off)), plain);
    let one = bytes(l24, ms, Some(Redundancy::Copies(1)));
    assert!((plain + 288..plain + 288 + 20).contains(&one), "{one} and {plain} bytes");
    // Eight symbols exceed the first datagrams.
    assert_eq!(bytes(l24, ms, Some(Redundancy::Auto)), 1_200);
    // Long packets are repeated whole and keep their length.
    let long = Span::from_micros(2_500);
    assert_eq!(bytes(l24, long, Some(Redundancy::Auto)), bytes(l24, long, None));
}
