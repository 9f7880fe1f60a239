use core::net::IpAddr;

use super::*;

const LIMITS: Limits = Limits { latency: None, symbols: None };

fn host(text: &str) -> Host {
    text.parse::<IpAddr>().unwrap().into()
}

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

fn requests(from: &str, destinations: &[&str], millis: i64) -> Request {
    let mut request = Request::default();
    request.set_worth(TrustLevel::of(host(from), destinations.iter().copied().map(host)));
    request.need(Some(Span::from_millis(millis)), at(0));
    for report in 0..20 {
        let expected = report * 1000;
        let missing = expected / 2;
        request.miss(Tally { expected, missing, runs: missing, beyond: 0 }, at(0));
    }
    request
}

#[test]
fn a_stranger_moves_neither_latency_nor_redundancy() {
    let to = ["10.0.0.2", "10.0.0.3"];
    let stranger = requests("10.0.0.9", &to, 2000);
    assert_eq!(stranger.worth(), TrustLevel::Stranger);
    assert_eq!(latency([&stranger], LIMITS.latency(false), at(1)), None);
    assert_eq!(losses([&stranger], at(1)), Losses::UNKNOWN);
    assert_eq!(stranger.longest(), Some(Span::from_secs(2)), "it is reported nevertheless");
    // They have no effect next to a receiver.
    let receiver = requests("10.0.0.3", &to, 30);
    let both = [&stranger, &receiver];
    assert_eq!(latency(both, LIMITS.latency(false), at(1)), Some(Span::from_millis(30)));
    assert_eq!(losses(both, at(1)), losses([&receiver], at(1)));
}

#[test]
fn a_member_of_a_group_moves_no_more_than_the_limit() {
    let member = requests("10.0.0.9", &["239.1.2.3"], 2000);
    assert_eq!(member.worth(), TrustLevel::Member);
    assert_eq!(latency([&member], LIMITS.latency(true), at(1)), Some(Limits::GROUP_LATENCY));
    let limits = Limits { latency: Some(Span::from_millis(80)), ..LIMITS };
    assert_eq!(latency([&member], limits.latency(true), at(1)), Some(Span::from_millis(80)));
    assert!(losses([&member], at(1)).share > 0.4);
}

#[test]
fn a_destination_moves_no_more_than_the_limit() {
    let receiver = requests("10.0.0.2", &["239.1.2.3", "10.0.0.2"], 2000);
    assert_eq!(receiver.worth(), TrustLevel::Destination);
    assert_eq!(latency([&receiver], LIMITS.latency(false), at(1)), Some(Limits::LATENCY));
    assert_eq!((LIMITS.symbols(false), LIMITS.symbols(true)), (8, 1));
}

#[test]
fn requests_that_are_not_repeated_expire() {
    let receiver = requests("10.0.0.2", &["10.0.0.2"], 30);
    assert!(receiver.needs(at(4_999)).is_some() && receiver.losses(at(4_999)).is_some());
    assert!(receiver.needs(at(5_000)).is_none() && receiver.losses(at(5_000)).is_none());
    let mut left = receiver;
    left.leave();
    assert!(left.needs(at(1)).is_none() && left.losses(at(1)).is_none());
}
