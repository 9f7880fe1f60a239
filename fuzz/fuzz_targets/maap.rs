//! Messages of MAAP for their reader and for a claim: what is read, written again, reads the same, and whatever
//! others say, the claim is to an address of the pool and answers each with one message at most.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_proto::maap::{AddressClaim, ClaimEvent};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::avtp::maap::{GroupRange, MESSAGE_BYTES, MaapMessage, POOL};

/// Before each message: who says it, by the last byte of his address, and how much later, in 16 ms.
const BEFORE: usize = 2;

fuzz_target!(|bytes: &[u8]| {
    let mut now = LocalTime::ZERO;
    let mut claim = AddressClaim::new([2, 0, 0, 0, 0, 0x80], 7, now);
    let mut held = None;
    for said in bytes.chunks(BEFORE + MESSAGE_BYTES) {
        let Some((&[from, later], said)) = said.split_first_chunk::<BEFORE>() else { return };
        now = now + Span::from_millis(16 * i64::from(later));
        speak(&mut claim, now);
        let Some(message) = MaapMessage::read(said) else { continue };
        assert_eq!(MaapMessage::read(&message.write()), Some(message));
        claim.handle(&message, [2, 0, 0, 0, 0, from], now);
        speak(&mut claim, now);
        while let Some(event) = claim.poll_event() {
            match event {
                ClaimEvent::Claimed(address) => assert_eq!(held.replace(address), None),
                ClaimEvent::Lost { address, .. } => assert_eq!(held.take(), Some(address)),
            }
        }
        assert!(POOL.shared_with(&GroupRange::only(claim.address())).is_some());
    }
});

/// A defence, and a probe or an announcement.
fn speak(claim: &mut AddressClaim, now: LocalTime) {
    let said = core::iter::from_fn(|| claim.poll(now)).take(3).count();
    assert!(said <= 2);
    assert!(claim.deadline() > now);
}
