use tautline_proto::maap::{AddressClaim, ClaimEvent};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::avtp::maap::{GroupRange, MESSAGE_BYTES, MaapMessage, POOL};

/// Last byte of the sender's address, delay in units of 16 ms.
const PREFIX_BYTES: usize = 2;

/// A MAAP message survives a round trip; a claim stays within the pool and answers each at most
/// once.
pub fn maap(bytes: &[u8]) {
    let mut now = LocalTime::ZERO;
    let mut claim = AddressClaim::new([2, 0, 0, 0, 0, 0x80], 7, now);
    let mut held = None;
    for chunk in bytes.chunks(PREFIX_BYTES + MESSAGE_BYTES) {
        let Some((&[from, later], message)) = chunk.split_first_chunk::<PREFIX_BYTES>() else {
            return;
        };
        now += Span::from_millis(16 * i64::from(later));
        send_due(&mut claim, now);
        let Some(message) = MaapMessage::read(message) else { continue };
        assert_eq!(MaapMessage::read(&message.write()), Some(message));
        claim.handle(&message, [2, 0, 0, 0, 0, from], now);
        send_due(&mut claim, now);
        while let Some(event) = claim.poll_event() {
            match event {
                ClaimEvent::Claimed(address) => assert_eq!(held.replace(address), None),
                ClaimEvent::Lost { address, .. } => assert_eq!(held.take(), Some(address)),
            }
        }
        assert!(POOL.shared_with(&GroupRange::only(claim.address())).is_some());
    }
}

/// A defence, and a probe or an announcement.
fn send_due(claim: &mut AddressClaim, now: LocalTime) {
    let sent = core::iter::from_fn(|| claim.poll(now)).take(3).count();
    assert!(sent <= 2);
    assert!(claim.deadline() > now);
}
