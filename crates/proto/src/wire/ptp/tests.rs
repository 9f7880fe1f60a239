use proptest::prelude::*;

use super::*;

const CLOCK: ClockIdentity = ClockIdentity([0x00, 0x1b, 0x21, 0xff, 0xfe, 0x0a, 0x0b, 0x0c]);

fn answers() -> [PtpAnswer; 3] {
    let reported = [
        PtpData::Current {
            steps: 1,
            offset: Span::from_nanos(-1_234),
            path_delay: Span::from_nanos(5_600),
        },
        PtpData::Port { number: 1, state: PortState::Slave },
        PtpData::TimeStatus {
            offset: Span::from_nanos(-42),
            ingress: 1_800_000_000_123_456_789,
            present: true,
            grandmaster: CLOCK,
        },
    ];
    let domain = Domain { number: 3, transport: 1 };
    reported.map(|reported| PtpAnswer { domain, clock: CLOCK, sequence: 77, reported })
}

#[test]
fn written_ptp_message_is_read_and_truncated_is_not() {
    for said in answers() {
        let mut room = [0; MAX_BYTES];
        let bytes = said.write(&mut room);
        assert_eq!(answer(&room[..bytes]), Some(said));
        for less in 0..bytes {
            assert_eq!(answer(&room[..less]), None, "{said:?}, {less}");
        }
        assert_eq!(answer(&room), Some(said));
    }
}

#[test]
fn request_is_not_an_answer_and_names_its_blocks() {
    let requested = question(Requested::TimeStatus, Domain { number: 127, transport: 1 }, 0x1234);
    assert_eq!(requested[..5], [0x1D, 2, 0, 54, 127]);
    assert_eq!(requested[30..34], [0x12, 0x34, 4, 0x7F]);
    assert_eq!(requested[46..], [0, 0, 0, 1, 0, 2, 0xC0, 0]);
    assert_eq!(answer(&requested), None);
}

#[test]
fn an_error_or_a_state_that_there_is_not_is_no_answer() {
    let mut room = [0; MAX_BYTES];
    let bytes = answers()[1].write(&mut room);
    let with = |at: usize, value: u8| {
        let mut other = room;
        other[at] = value;
        answer(&other[..bytes])
    };
    assert!(with(1, 0x12).is_some(), "the minor version may be another");
    let wrong = [(0, 0x1B), (1, 1), (46, 1), (49, 2), (52, 0x21), (64, 0), (64, 10), (64, 255)];
    for (at, value) in wrong {
        assert_eq!(with(at, value), None, "{at}: {value}");
    }
}

#[test]
fn daemon_is_locked_when_a_port_follows_a_grandmaster() {
    let mut said = PtpAnswers::default();
    assert_eq!(said.state(), None);
    answers().iter().for_each(|answer| said.take(answer.reported));
    said.take(PtpData::Port { number: 2, state: PortState::Master });
    let state = said.state().expect("it said all");
    assert!(state.is_locked());
    assert_eq!(state.uncertainty(), Span::from_nanos(5_642));
    assert_eq!(state.grandmaster.to_string(), "001b21.fffe.0a0b0c");
    let alone = PtpState { present: false, ..state };
    assert!(!alone.is_locked() && !PtpState { port: PortState::Uncalibrated, ..state }.is_locked());
}

/// Responses of ptp4l 3.1.1 before it followed another clock.
const HEARD: [&str; 3] = [
    "0d020048000000000000000000000000000000005e5aaffffe659a4200000005047f00000000000000000000\
     000002000001001420010001fffffffffcd500000000000005fc0000",
    "0d020050000000000000000000000000000000005e5aaffffe659a4200010005047f00000000000000000000\
     000002000001001c20045e5aaffffe659a42000108000000000000000000010300010002",
    "0d020068000000000000000000000000000000005e5aaffffe659a4200000005047f00000000000000000000\
     0000020000010034c000fffffffffffffcd518eaaca3831cc2be000000000000000000000000000000000000\
     00000000000000014aefe4fffe3dce7b",
];

#[test]
fn answer_of_a_daemon_is_read() {
    let bytes = |hex: &str| -> Vec<u8> {
        let digits: Vec<u8> =
            hex.bytes().map(|one| (one as char).to_digit(16).unwrap() as u8).collect();
        digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
    };
    let mut said = PtpAnswers::default();
    for received in HEARD {
        said.take(answer(&bytes(received)).expect("it is an answer").reported);
    }
    let state = said.state().expect("it said all");
    let (port, offset, path_delay) = (state.port, state.offset, state.path_delay);
    assert_eq!((port, state.present), (PortState::Uncalibrated, true));
    assert_eq!(state.grandmaster.to_string(), "4aefe4.fffe.3dce7b");
    assert_eq!([offset, path_delay], [-811, 1_532].map(Span::from_nanos));
    assert_eq!(state.ingress, 1_795_437_219_739_910_846);
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = answer(&bytes);
    }
}
