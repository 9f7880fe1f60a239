use tautline_proto::congestion::PathFeedback;
use tautline_proto::wire::rtcp::{
    Compound, Item, MAX_CLAIM_BYTES, RtcpReport, write_claim, write_feedback, write_passed,
};
use tautline_proto::zone::{Claim, Targets};

/// The RTCP items of one reporter survive a round trip.
pub fn rtcp(datagram: &[u8]) {
    let Ok(compound) = Compound::parse(datagram) else { return };
    let (mut blocks, mut delays) = (Vec::new(), Vec::new());
    let mut report = RtcpReport::new(0x7461_7574);
    compound.visit(|_, item| match item {
        Item::Sender(info) => report.sender = Some(info),
        Item::Block(block) => blocks.push(block),
        Item::ReferenceTime(time) => report.reference_time = Some(time),
        Item::Delay(delay) => delays.push(delay),
        Item::Cname(name) => report.cname = name,
        Item::Announcement(announcement) => report.announcement = Some(announcement),
        Item::Effective(effective) => report.effective = Some(effective),
        Item::Losses(losses) => report.losses = Some(losses),
        Item::Capture(faults) => report.capture = Some(faults),
        Item::Kept(kept) => report.kept = Some(kept),
        Item::Feedback(feedback) => check_feedback(feedback),
        Item::Passed(stream, bytes) => check_passed((stream, bytes)),
        Item::Claim(claim, targets) => check_claim(&claim, targets),
        Item::Bye => report.bye = true,
    });
    blocks.truncate(31);
    delays.truncate(1024);
    check(&RtcpReport { blocks: &blocks, delays: &delays, ..report });
}

fn check_feedback(feedback: PathFeedback) {
    let mut bytes = [0; 64];
    let len = write_feedback(1, feedback, &mut bytes).expect("it fits 64 bytes");
    let mut again = None;
    Compound::parse(&bytes[..len]).expect("written feedback parses").visit(|ssrc, item| {
        again = Some((ssrc, item));
    });
    assert_eq!(again, Some((1, Item::Feedback(feedback))));
}

fn check_passed(passed: (u32, u32)) {
    let mut bytes = [0; 64];
    let len = write_passed(1, passed, &mut bytes).expect("it fits 64 bytes");
    let mut again = None;
    Compound::parse(&bytes[..len]).expect("a written answer parses").visit(|_, item| {
        again = Some(item);
    });
    assert_eq!(again, Some(Item::Passed(passed.0, passed.1)));
}

fn check_claim(claim: &Claim, targets: Targets<'_>) {
    let mut bytes = [0; MAX_CLAIM_BYTES];
    let len = write_claim(1, claim, targets, &mut bytes).expect("a claim fits its maximum");
    let mut again = None;
    Compound::parse(&bytes[..len]).expect("a written claim parses").visit(|_, item| {
        again = Some(item);
    });
    assert_eq!(again, Some(Item::Claim(*claim, targets)));
}

fn check(report: &RtcpReport<'_>) {
    let mut bytes = vec![0; 65_536];
    let len = report.write(&mut bytes).expect("a report fits 64 KiB");
    let (mut blocks, mut delays) = (Vec::new(), Vec::new());
    let mut again = RtcpReport::new(report.ssrc);
    Compound::parse(&bytes[..len]).expect("a written report parses").visit(|ssrc, item| {
        assert_eq!(ssrc, report.ssrc);
        match item {
            Item::Sender(info) => again.sender = Some(info),
            Item::Block(block) => blocks.push(block),
            Item::ReferenceTime(time) => again.reference_time = Some(time),
            Item::Delay(delay) => delays.push(delay),
            Item::Cname(name) => again.cname = name,
            Item::Announcement(announcement) => again.announcement = Some(announcement),
            Item::Effective(effective) => again.effective = Some(effective),
            Item::Losses(losses) => again.losses = Some(losses),
            Item::Capture(faults) => again.capture = Some(faults),
            Item::Kept(kept) => again.kept = Some(kept),
            Item::Feedback(_) | Item::Passed(..) | Item::Claim(..) => {
                unreachable!("a report has none")
            }
            Item::Bye => again.bye = true,
        }
    });
    assert_eq!(*report, RtcpReport { blocks: &blocks, delays: &delays, ..again });
}
