use tautline_io::network::qdisc::read;
use tautline_io::network::route;

/// Headers and an attribute with an empty name.
const MIN_ENTRY: usize = 16 + 20 + 4;

/// There are no more entries than the bytes can hold, and a split into two parts changes nothing.
pub fn netlink(answer: &[u8]) {
    let mut by = None;
    let routed = route::read(answer, &mut by);
    assert!(
        by.is_none() || answer.len() >= 16 + 12 + 8,
        "too short for a header, a route and its interface"
    );
    let mut found = Vec::new();
    let whole = read(answer, &mut found);
    assert_eq!(routed.ok(), whole.as_ref().ok().copied(), "both readers accept the same messages");
    assert!(found.len() * MIN_ENTRY <= answer.len());
    let letters = found.iter().map(|queue| queue.kind.chars().count()).sum::<usize>();
    assert!(letters <= answer.len(), "a name has more letters than the answer");
    assert!(found.iter().all(|queue| !queue.kind.contains('\0')));
    let Some((first, rest)) = split(answer) else { return };
    let mut parts = Vec::new();
    let answered = match read(first, &mut parts) {
        Ok(false) => read(rest, &mut parts),
        last => last,
    };
    assert_eq!((answered.ok(), parts), (whole.ok(), found));
}

fn split(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_ne_bytes(*answer.first_chunk()?) as usize;
    let end = length.checked_next_multiple_of(4)?;
    (length >= 16).then(|| answer.split_at_checked(end))?
}
