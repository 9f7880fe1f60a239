//! A whole call over a network with loss, outages and cuts; and a peer that vanishes.

use tautline_proto::call::LINE_DEAD;
use tautline_proto::call::caller::NotAsked;
use tautline_proto::call::terms::{CallOffer, CallPath, StreamAbilities};
use tautline_proto::stream::{Coding, PTIME_RANGE};
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};
use tautline_sim::call::{Call, Network, Side};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Jitter, Loss, PathModel};

const WAY: Span = Span::from_millis(20);

fn at(second: i64) -> TrueTime {
    TrueTime::ZERO.after(Span::from_secs(second))
}

/// All codings, lowest bitrate first.
pub(super) fn offer() -> CallOffer {
    let stream = StreamAbilities {
        rates: vec![Rate::HZ_48000],
        channels: vec![Channels::STEREO],
        codings: Coding::ALL.to_vec(),
        ptimes: (Span::from_micros(2_500), PTIME_RANGE.1),
        takes: None,
    };
    let paths = vec![CallPath::Udp, CallPath::Tcp];
    let mut offer = CallOffer {
        there: stream.clone(),
        back: stream,
        paths,
        latency: None,
        adapts: None,
        redundancy: None,
    };
    offer.begin_with_few_bits();
    offer
}

fn lossy() -> PathModel {
    let jitter = Jitter::Uniform(Span::from_millis(10));
    PathModel { jitter, loss: Loss::random(0.01), ..PathModel::ideal(WAY) }
}

fn millis(call: &Call, what: &str) -> Vec<i64> {
    call.when(what).into_iter().map(|when| when.as_nanos() / 1_000_000).collect()
}

fn coded(call: &Call) -> [&'static str; 2] {
    [Side::Caller, Side::Called]
        .map(|side| call.sends(side).map_or("", |(sent, _)| sent.coding.name()))
}

/// 150 s: 20 s without datagrams, 10 s without a network, and a hold of 5 s.
fn eventful(seed: u64) -> Call {
    let outages = vec![(at(30), at(50))];
    let path = PathModel { outages, ..lossy() };
    let datagrams = [path.clone(), path];
    let network =
        Network { datagrams, way: WAY, down: vec![(at(80), at(90))], starved: Vec::new() };
    let mut call = Call::new(network, &offer(), seed);
    call.run(Span::from_secs(1));
    assert_eq!(coded(&call), ["opus"; 2]);
    call.run(Span::from_secs(40));
    let used = [Side::Caller, Side::Called].map(|side| call.sends(side).expect("sound").1);
    assert_eq!(used, [(CallPath::Tcp, 1); 2], "{:?}", call.log);
    call.run(Span::from_secs(110));
    call.hold(true).expect("a line");
    assert_eq!(call.hold(false), Err(NotAsked::Ending), "the hold is not answered yet");
    call.run(Span::from_secs(115));
    assert!([Side::Caller, Side::Called].iter().all(|side| call.sends(*side).is_none()));
    call.hold(false).expect("a line");
    call.run(Span::from_secs(150));
    call
}

#[test]
fn a_call_goes_on_through_whatever_its_network_does() {
    for seed in 0..4 {
        let call = eventful(seed);
        let reported = format!("seed {seed}: {:?}, {:?}", call.silences, call.log);
        assert_eq!(millis(&call, "begins").len(), 1, "one call all the while: {reported}");
        let by_tcp = millis(&call, "by tcp");
        assert!((30_900..=31_300).contains(&by_tcp[0]), "{reported}");
        let by_udp = millis(&call, "by udp");
        assert!((50_000..=52_100).contains(&by_udp[1]), "{reported}");
        // The dead control connection is detected, and made again after at most the longest pause.
        let (away, resumes) = (millis(&call, "away"), millis(&call, "resumes"));
        assert!(matches!(away[..], [83_000..=84_100]), "{reported}");
        assert!(matches!(resumes[..], [90_000..=97_000]), "{reported}");
        // The called end fills no network in which it hears nothing.
        let (stops, sends) = (millis(&call, "stops there"), millis(&call, "sends there"));
        assert!(matches!(stops[..], [84_000..=85_100]), "{reported}");
        assert!(matches!(sends[..], [90_000..=90_100]), "{reported}");
        assert!(
            call.silences.iter().all(|silence| *silence < Span::from_millis(10_200)),
            "{reported}"
        );
        assert_eq!(millis(&call, "silent"), [110_040], "{reported}");
        assert_eq!(millis(&call, "sounds")[1..], [115_040], "{reported}");
        let [there, back] = [Side::Caller, Side::Called].map(|side| call.sends(side).unwrap().1);
        assert_eq!(there, back, "{reported}");
        assert!(there.0 == CallPath::Udp && there.1 >= 3, "{reported}");
        let again = eventful(seed);
        assert_eq!((again.silences, &again.log), (call.silences, &call.log), "{reported}");
    }
}

#[test]
fn vanished_peer_is_dialled_with_growing_pauses() {
    let network =
        Network { datagrams: [lossy(), lossy()], way: WAY, down: Vec::new(), starved: Vec::new() };
    let mut call = Call::new(network, &offer(), 1);
    call.run(Span::from_secs(20));
    call.vanish_called();
    call.run(Span::from_secs(60));
    let reported = format!("{:?}", call.log);
    let away = millis(&call, "away");
    let dead = 20_000 + LINE_DEAD.as_nanos() / 1_000_000;
    assert!(matches!(away[..], [away] if (dead - 1_000..=dead + 60).contains(&away)), "{reported}");
    // Each unanswered dial takes 5 s.
    let mut dials = millis(&call, "dials");
    dials[0] = away[0];
    let pauses: Vec<_> = dials.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let expected = [250, 5_500, 6_000, 7_000, 7_000, 7_000];
    assert!(pauses.len() >= 5, "{reported}");
    for (pause, expected) in pauses.iter().zip(expected) {
        assert!((expected..=expected + 40).contains(pause), "{pauses:?}: {reported}");
    }
    call.start_called();
    call.run(Span::from_secs(70));
    assert_eq!(millis(&call, "turned away: the call is over or unknown").len(), 1);
    assert_eq!(millis(&call, "begins").len(), 2, "{:?}", call.log);
    assert!(call.sends(Side::Caller).is_some() && call.sends(Side::Called).is_some());
}

/// Two minutes; connections, and datagrams if `silent`, pass nothing for 90 s.
fn starved(silent: bool) -> Call {
    let starved = vec![(at(10), at(100))];
    let down = if silent { starved.clone() } else { Vec::new() };
    let network = Network { datagrams: [lossy(), lossy()], way: WAY, down, starved };
    let mut call = Call::new(network, &offer(), 1);
    call.run(Span::from_secs(120));
    call
}

#[test]
fn received_sound_keeps_a_call_alive_without_control() {
    let call = starved(false);
    let reported = format!("{:?}", call.log);
    assert_eq!(millis(&call, "begins").len(), 1, "{reported}");
    assert_eq!(millis(&call, "over there"), [], "{reported}");
    assert_eq!(millis(&call, "stops there"), [], "{reported}");
    assert!(matches!(millis(&call, "resumes")[..], [100_000..=107_000]), "{reported}");
    let silent = starved(true);
    let reported = format!("{:?}", silent.log);
    // A minute after the dead connection is detected, the call ends.
    assert!(matches!(millis(&silent, "over there")[..], [73_000..=74_100]), "{reported}");
    assert_eq!(millis(&silent, "begins").len(), 2, "{reported}");
}
