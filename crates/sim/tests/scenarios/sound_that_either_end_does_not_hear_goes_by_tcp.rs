//! Transport of a call when datagrams pass in one direction only. The deciding caller may receive
//! all the time.

use tautline_dsp::format::SampleFormat;
use tautline_proto::time::Span;
use tautline_sim::call::{Call, Network};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Jitter, PathModel};

use crate::a_call_goes_on_through_whatever_its_network_does::offer;

const CUT: [Span; 2] = [Span::from_secs(10), Span::from_secs(30)];

fn minute(cut: [bool; 2], way: Span, seed: u64) -> Call {
    let [from, to] = CUT.map(|span| TrueTime::ZERO.after(span));
    let path = |cut: bool| {
        let outages = if cut { vec![(from, to)] } else { Vec::new() };
        let jitter = Jitter::Uniform(Span::from_millis(20));
        PathModel { outages, jitter, ..PathModel::ideal(way) }
    };
    let network = Network { datagrams: cut.map(path), way, down: Vec::new(), starved: Vec::new() };
    let mut call = Call::new(network, &offer(), seed);
    call.run(Span::from_secs(60));
    call
}

#[test]
fn one_way_udp_loss_moves_sound_to_tcp_quickly() {
    for (seed, cut) in (0..).zip([[true, false], [false, true], [true, true]]) {
        for way in [1, 20, 80, 150].map(Span::from_millis) {
            let call = minute(cut, way, 100 * seed);
            let reported = format!("{cut:?}, {way} each way: {:?}, {:?}", call.silences, call.log);
            let (by_udp, by_tcp) = (call.when("by udp"), call.when("by tcp"));
            assert_eq!((by_udp.len(), by_tcp.len()), (2, 1), "{reported}");
            assert!(call.log.iter().all(|(_, one)| !one.starts_with("no ")), "{reported}");
            assert!(by_tcp[0] > CUT[0] && by_tcp[0] < CUT[1], "not in the cut: {reported}");
            // Three probes, 0.5 s apart.
            let back = by_udp[1] - CUT[1];
            assert!(
                back > Span::ZERO && back <= Span::from_millis(2_000) + way.times(2),
                "{reported}"
            );
            // The message, a TCP round trip, the sound or ticket, and jitter.
            let enough = Span::from_secs(1) + way.times(5) + Span::from_millis(100);
            assert!(call.silences.iter().all(|silence| *silence <= enough), "{reported}");
            let again = minute(cut, way, 100 * seed);
            assert_eq!((again.silences, &again.log), (call.silences, &call.log), "{reported}");
        }
    }
    let none = minute([false; 2], Span::from_millis(80), 1);
    let moves = (none.when("by udp").len(), none.when("by tcp").len());
    assert_eq!(moves, (1, 0), "{:?}", none.log);
}

/// A minute of L24 in packets up to 5 ms, with these path MTUs.
fn on_a_black_hole(holes: [Option<usize>; 2]) -> Call {
    let mut offer = offer();
    for way in [&mut offer.there, &mut offer.back] {
        way.codings = vec![SampleFormat::L24.into()];
        way.ptimes.0 = Span::from_millis(10);
    }
    let way = Span::from_millis(20);
    let path = |black_hole| PathModel { black_hole, ..PathModel::ideal(way) };
    let network =
        Network { datagrams: holes.map(path), way, down: Vec::new(), starved: Vec::new() };
    let mut call = Call::new(network, &offer, 1);
    call.run(Span::from_secs(60));
    call
}

#[test]
fn sound_stays_on_tcp_if_even_short_datagrams_are_dropped() {
    for holes in [[Some(1_000); 2], [Some(1_000), None], [None, Some(1_000)]] {
        let call = on_a_black_hole(holes);
        let reported = format!("{holes:?}: {:?}, {:?}", call.silences, call.log);
        assert_eq!((call.when("by udp").len(), call.when("by tcp").len()), (1, 1), "{reported}");
        let enough = Span::from_millis(1_200);
        assert!(call.silences.iter().all(|silence| *silence <= enough), "{reported}");
    }
    let call = on_a_black_hole([Some(1_280); 2]);
    assert_eq!(call.when("by tcp"), [], "{:?}", call.log);
}
