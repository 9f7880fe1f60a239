//! Bytes as the kernel's answers to the questions for queue disciplines and for a route: they tell no more than they
//! have room for, and the same in one piece as message by message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_io::network::qdisc::read;
use tautline_io::network::route;

/// Of the kernel's headers, a message and its attribute with a name of no letters.
const LEAST: usize = 16 + 20 + 4;

fuzz_target!(|answer: &[u8]| {
    let mut by = None;
    let routed = route::read(answer, &mut by);
    assert!(by.is_none() || answer.len() >= 16 + 12 + 8, "a header, a route, its interface");
    let mut found = Vec::new();
    let whole = read(answer, &mut found);
    assert_eq!(routed.ok(), whole.as_ref().ok().copied(), "one way to read messages");
    assert!(found.len() * LEAST <= answer.len());
    let letters = found.iter().map(|queue| queue.kind.chars().count()).sum::<usize>();
    assert!(letters <= answer.len(), "each stands in it");
    assert!(found.iter().all(|queue| !queue.kind.contains('\0')));
    let Some((first, rest)) = split(answer) else { return };
    let mut parts = Vec::new();
    let answered = match read(first, &mut parts) {
        Ok(false) => read(rest, &mut parts),
        last => last,
    };
    assert_eq!((answered.ok(), parts), (whole.ok(), found));
});

/// The first message, and what follows it.
fn split(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_ne_bytes(*answer.first_chunk()?) as usize;
    let end = length.checked_next_multiple_of(4)?;
    (length >= 16).then(|| answer.split_at_checked(end))?
}
