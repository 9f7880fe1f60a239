//! Bytes as the kernel's answer to the question for queue disciplines: it tells no more than it has
//! room for, and the same in one piece as message by message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_io::network::qdisc::read;

/// Of the kernel's headers, a message and its attribute with a name of no letters.
const LEAST: usize = 16 + 20 + 4;

fuzz_target!(|answer: &[u8]| {
    let mut found = Vec::new();
    let whole = read(answer, &mut found);
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
