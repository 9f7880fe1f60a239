//! Fuzz targets for private parsers; all other targets are in `tautline_fuzzed`.
//!
//! Compiled for cargo-fuzz, and for unit tests, which replay the kept inputs.

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::Parser;
use tautline_dsp::format::SampleFormat;
use tautline_engine::control::{RecvChange, SendChange};
use tautline_engine::plan::address::Address;
use tautline_proto::device::Settings;
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::WireForm;

use crate::cmd::recv::RecvLines;
use crate::cmd::send::SendLines;
use crate::control::{next_line, requested};
use crate::failure::Failure;
use crate::flags::{Command, Taut};

/// Standard input of `taut send --control` and `taut recv --control`. Each line gets one answer;
/// valid commands survive a round trip.
pub fn control(bytes: &[u8]) {
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    for read in [send_lines, recv_lines] as [fn(&[u8]) -> Vec<Canonical>; 2] {
        let answers = read(bytes);
        assert!(answers.len() <= lines, "{} answers to {lines} lines", answers.len());
        for answer in answers {
            match answer {
                Ok(words) => assert_eq!(read(words.as_bytes()), [Ok(words)]),
                Err(why) => {
                    let mut lines = why.split('\n');
                    assert!(lines.next().is_some_and(|line| !line.is_empty()), "{why}");
                    assert!(lines.all(|line| line.starts_with("hint: ")), "{why}");
                }
            }
        }
    }
}

/// `tautline.toml` for a few command lines. The file adds each missing option once; errors have a
/// message.
pub fn toml(bytes: &[u8]) {
    const LINES: [&[&str]; 3] = [
        &["taut", "send", "--latency", "8ms"],
        &["taut", "recv", "--from", "rtp://0.0.0.0:5004", "--output", "null:"],
        &["taut", "doctor"],
    ];
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    // One per input: each takes milliseconds.
    let line = LINES[text.len() % LINES.len()];
    let words: Vec<OsString> = line.iter().map(OsString::from).collect();
    let more = match with_file(&words, text) {
        Ok(more) => more,
        Err(why) => return assert!(!why.is_empty()),
    };
    let added = &more[words.len()..];
    if added.is_empty() {
        return;
    }
    assert_eq!(more.get(..words.len()), Some(&words[..]));
    assert!(added.iter().all(|word| word.as_encoded_bytes().starts_with(b"--")), "{added:?}");
    let bytes = added.iter().map(|word| word.len()).sum::<usize>();
    assert!(bytes <= 40 * (text.len() + 1), "{bytes} bytes from {}", text.len());
    assert_eq!(with_file(&more, text).as_ref(), Ok(&more));
    let why = refusal(&words, text);
    assert!(why.is_none_or(|why| !why.is_empty()));
}

type Canonical = Result<String, String>;

fn send_lines(mut input: &[u8]) -> Vec<Canonical> {
    let udp = tautline_io::udp::UdpOptions::sender(vec![([127, 0, 0, 1], 5004).into()]);
    let lines = SendLines {
        form: WireForm::Rtp,
        udp: Some(udp),
        bitrate: Some(128_000),
        channels: Channels::STEREO,
    };
    answers(&mut input, |verb, rest| lines.read(verb, rest).map(send_words))
}

fn recv_lines(mut input: &[u8]) -> Vec<Canonical> {
    // Parsing a command line is a hundred times slower than parsing a change.
    static LINES: OnceLock<Option<RecvLines>> = OnceLock::new();
    let Some(lines) = LINES.get_or_init(started) else { return vec![] };
    answers(&mut input, |verb, rest| lines.read(verb, rest).map(|change| recv_words(&change, rest)))
}

fn started() -> Option<RecvLines> {
    let words = ["taut", "recv", "--from", "rtp://0.0.0.0:5004", "--output", "null:"];
    let Ok(Taut { command: Command::Recv(flags) }) = Taut::try_parse_from(words) else {
        return None;
    };
    let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
    let format = StreamFormat {
        codec: None,
        rate,
        channels,
        sample: SampleFormat::L24,
        packet: Frames::new(48),
        payload_type: 97,
    };
    let device = Settings { rate, channels, period: Frames::new(48), periods: 2 };
    let lines = RecvLines { flags: *flags, shape: Default::default() };
    lines.shape.set(format, device);
    Some(lines)
}

fn answers(input: &mut &[u8], read: impl Fn(&str, &str) -> Canonical) -> Vec<Canonical> {
    let mut answers = Vec::new();
    while let Some(line) = next_line(input) {
        // Host names might block in the resolver.
        if let Some((verb, rest)) = requested(&line).filter(|(_, rest)| !may_wait(rest)) {
            answers.push(read(verb, rest));
        }
    }
    answers
}

fn may_wait(rest: &str) -> bool {
    let begins = rest.char_indices().filter(|(at, _)| {
        rest[..*at].chars().next_back().is_none_or(|before| before.is_whitespace() || before == ',')
    });
    let waits = |text: &str| Address::to_hear(text).or_else(|_| Address::to_send_to(text));
    begins.map(|(at, _)| &rest[at..]).any(|text| {
        let first = text.split([',', ' ']).next().unwrap_or(text);
        [text, first].iter().any(|text| waits(text).is_ok_and(|address| address.may_wait()))
    })
}

fn nanos(span: Span) -> String {
    format!("{}ns", span.as_nanos())
}

fn mute(muted: bool) -> &'static str {
    if muted { "mute" } else { "unmute" }
}

fn latency_words(rule: LatencyRule) -> String {
    match rule {
        LatencyRule::Chosen(latency) => nanos(latency),
        LatencyRule::Usual => "announced".into(),
        LatencyRule::Auto { maximum: None } => "auto".into(),
        LatencyRule::Auto { maximum: Some(maximum) } => format!("auto:{}", nanos(maximum)),
    }
}

fn send_words(change: SendChange) -> String {
    match change {
        SendChange::Latency(rule) => format!("latency {}", latency_words(rule)),
        SendChange::Ptime(ptime) => format!("ptime {}", nanos(ptime)),
        SendChange::Format(coding) => format!("format {}", coding.name()),
        SendChange::Adapt(_) => unreachable!("no line asks for it"),
        SendChange::Volume(gain) => format!("volume {gain}"),
        SendChange::Mute(muted) => mute(muted).into(),
        SendChange::Redundancy(redundancy) => format!("redundancy {redundancy}"),
        SendChange::To(destined) => format!("to {}", destined.address),
        SendChange::Status => "status".into(),
    }
}

fn recv_words(change: &RecvChange, rest: &str) -> String {
    let of = |which: &Option<usize>| which.map_or(String::new(), |which| format!(" {}", which + 1));
    match change {
        RecvChange::Latency(which, wanted) => {
            format!("latency{} {}", of(which), latency_words(*wanted))
        }
        RecvChange::Volume(which, gain) => format!("volume{} {gain}", of(which)),
        RecvChange::Mute(which, muted) => format!("{}{}", mute(*muted), of(which)),
        RecvChange::From(..) => format!("from {rest}"),
        RecvChange::EndAnnouncement(id) => format!("end {id}"),
        RecvChange::Status => "status".into(),
    }
}

fn with_file(words: &[OsString], text: &str) -> Result<Vec<OsString>, String> {
    let file = || Some(("tautline.toml".into(), text.to_owned()));
    let arguments = crate::config::with_file(words.to_vec(), file);
    arguments.map(|arguments| arguments.words).map_err(|failure| failure.to_string())
}

fn refusal(words: &[OsString], text: &str) -> Option<String> {
    let file = || Some(("tautline.toml".into(), text.to_owned()));
    let understood = crate::config::with_file(words.to_vec(), file).and_then(|arguments| {
        Taut::try_parse_from(&arguments.words).map_err(|error| arguments.refuse(error))
    });
    understood.err().map(|failure: Failure| failure.to_string())
}

#[cfg(test)]
mod tests {
    use tautline_trial::replay;

    #[test]
    fn kept_inputs_of_control_pass() {
        replay("control", 100, super::control);
    }

    #[test]
    fn kept_inputs_of_toml_pass() {
        replay("toml", 100, super::toml);
    }
}
