//! Bytes for the reader of what a PTP daemon answers; what is read, written again, reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_proto::wire::ptp::{MOST_BYTES, PtpAnswers, answer};

fuzz_target!(|datagram: &[u8]| {
    let Some(said) = answer(datagram) else { return };
    let mut room = [0; MOST_BYTES];
    let bytes = said.write(&mut room);
    assert_eq!(answer(&room[..bytes]), Some(said));
    let mut answers = PtpAnswers::default();
    answers.take(said.told);
    assert_eq!(answers.state(), None, "one answer does not say all");
});
