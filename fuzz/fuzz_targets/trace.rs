//! Text as a record of a network: what is accepted is bounded by what was written, in order, and
//! says of every instant what it says of the packet before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_proto::time::Span;
use tautline_sim::trace::Trace;

/// Packets that one line of a record may stand for, lost ones between two lines of a ledger among
/// them.
const MOST_PER_LINE: usize = 1000;
/// So many more may be missing in a row, however few lines there are.
const MOST_MISSING: usize = 20_000;

fuzz_target!(|text: &str| {
    let trace = match Trace::read(text) {
        Ok(trace) => trace,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let packets = trace.packets();
    let lines = text.lines().count();
    assert!(packets.len() <= MOST_MISSING + MOST_PER_LINE * lines, "{} packets", packets.len());
    assert_eq!(packets[0].sent, Span::ZERO);
    assert!(packets.is_sorted_by_key(|packet| packet.sent));
    assert!(packets.iter().filter_map(|packet| packet.delay).all(|delay| delay >= Span::ZERO));
    assert!(trace.length() > Span::ZERO && packets.iter().all(|p| p.sent <= trace.length()));
    assert_eq!(Trace::new(packets.to_vec()).as_ref(), Ok(&trace));
    for pair in packets.windows(2).filter(|pair| pair[0].sent < pair[1].sent) {
        assert_eq!(trace.at(pair[0].sent), pair[0].delay);
    }
    let once = trace.clone().once();
    let after = trace.length() + Span::from_nanos(1);
    assert_eq!(once.at(after), packets.iter().filter_map(|packet| packet.delay).min());
    for instant in [Span::ZERO, -Span::from_secs(1), after, Span::MAX] {
        let _ = (trace.at(instant), once.at(instant));
    }
});
