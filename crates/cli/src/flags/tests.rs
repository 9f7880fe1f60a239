use clap::Parser;
use tautline_trial::snapshot;

use super::{Command, Taut};
use crate::failure::Failure;

const SEND: &str = "taut send --input null: --to rtp://127.0.0.1:5004";

fn refused(line: &str) -> Failure {
    Failure::from(Taut::try_parse_from(line.split(' ')).expect_err(line))
}

#[test]
fn option_of_another_command_has_a_hint() {
    snapshot!(refused(&format!("{SEND} --mute")));
    let recv = "taut recv --output null: --from rtp://127.0.0.1:5004";
    assert_eq!(refused(&format!("{recv} --mute")), refused(&format!("{SEND} --mute")));
    snapshot!(refused("taut doctor --mute"));
}

#[test]
fn dscp_is_a_number_or_a_standard_name() {
    let dscp = |text: &str| match Taut::try_parse_from(format!("{SEND} --dscp {text}").split(' ')) {
        Ok(Taut { command: Command::Send(send) }) => send.dscp,
        _ => None,
    };
    for (text, code) in [
        ("0", 0),
        ("63", 63),
        ("EF", 46),
        ("ef", 46),
        ("AF11", 10),
        ("AF41", 34),
        ("af43", 38),
        ("CS0", 0),
        ("CS5", 40),
        ("CS7", 56),
        ("VA", 44),
        ("LE", 1),
        ("BE", 0),
    ] {
        assert_eq!(dscp(text), Some(code), "{text}");
    }
    for text in ["64", "AF44", "AF51", "CS8", "CS", "EF1", "0x2e", "high"] {
        snapshot!(text, refused(&format!("{SEND} --dscp {text}")));
    }
}

#[test]
fn recording_of_another_file_type_is_refused() {
    let accepted = |path: &str| {
        Taut::try_parse_from(format!("taut call studio --record {path}").split(' ')).is_ok()
    };
    for path in ["calls", "calls.d/", "./..", "take.wav", "take.WAV"] {
        assert!(accepted(path), "{path}");
    }
    snapshot!(refused("taut call studio --record take.mp3"));
}

#[test]
fn number_that_is_none_is_answered_in_plain_words() {
    snapshot!(refused(&format!("{SEND} --period two")));
}
