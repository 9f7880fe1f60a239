use tautline_proto::wire::ptp::{MAX_BYTES, PtpAnswers, answer};

/// A PTP daemon's answer survives a round trip.
pub fn ptp(datagram: &[u8]) {
    let Some(parsed) = answer(datagram) else { return };
    let mut room = [0; MAX_BYTES];
    let bytes = parsed.write(&mut room);
    assert_eq!(answer(&room[..bytes]), Some(parsed));
    let mut answers = PtpAnswers::default();
    answers.take(parsed.reported);
    assert_eq!(answers.state(), None, "one answer is not the whole state");
}
