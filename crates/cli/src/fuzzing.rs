//! What this program reads, for the fuzz targets, which are another crate: each reader with its
//! answer as text. Compiled for them alone.

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

use crate::cmd::{RecvLines, SendLines};
use crate::control::{asked, next_line};
use crate::doctor::{FirewallRules, USUAL, Verdict, judge_firewall};
use crate::failure::Failure;
use crate::flags::{Command, Taut};

/// What was asked for, in words that ask for the same again, or why not.
pub type Canonical = Result<String, String>;

/// What `taut send` makes of each line of its standard input.
pub fn send_lines(mut input: &[u8]) -> Vec<Canonical> {
    let Ok(device) = "file:song.wav".parse() else { return vec![] };
    let udp = tautline_io::udp::UdpOptions::sender(vec![([127, 0, 0, 1], 5004).into()]);
    let lines = SendLines {
        form: WireForm::Rtp,
        udp: Some(udp),
        input: device,
        needs: Some(SampleFormat::L16),
        bitrate: Some(128_000),
        channels: Channels::STEREO,
    };
    answers(&mut input, |verb, rest| lines.read(verb, rest).map(send_words))
}

/// What `taut recv` makes of each line of its standard input, while a sender is heard.
pub fn recv_lines(mut input: &[u8]) -> Vec<Canonical> {
    // Reading a command line takes a hundred times as long as reading a line of changes.
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
        coder: None,
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
        // Whose host is a name is asked of the system's resolver, which may take long.
        if let Some((verb, rest)) = asked(&line).filter(|(_, rest)| !may_wait(rest)) {
            answers.push(read(verb, rest));
        }
    }
    answers
}

/// Whether any part of this is an address that has to be looked up.
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
        LatencyRule::Usual => "promised".into(),
        LatencyRule::Auto { most: None } => "auto".into(),
        LatencyRule::Auto { most: Some(most) } => format!("auto:{}", nanos(most)),
    }
}

fn send_words(change: SendChange) -> String {
    match change {
        SendChange::Latency(rule) => format!("latency {}", latency_words(rule)),
        SendChange::Ptime(ptime) => format!("ptime {}", nanos(ptime)),
        SendChange::Format(coding) => format!("format {}", coding.name()),
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
        RecvChange::Status => "status".into(),
    }
}

/// The words of a command line with what `tautline.toml` adds to them.
pub fn with_file(words: &[OsString], text: &str) -> Result<Vec<OsString>, String> {
    let file = || Some(("tautline.toml".into(), text.to_owned()));
    let arguments = crate::config::with_file(words.to_vec(), file);
    arguments.map(|arguments| arguments.words).map_err(|failure| failure.to_string())
}

/// Why a command line with what `tautline.toml` adds to it is refused, if it is.
pub fn refusal(words: &[OsString], text: &str) -> Option<String> {
    let file = || Some(("tautline.toml".into(), text.to_owned()));
    let understood = crate::config::with_file(words.to_vec(), file).and_then(|arguments| {
        Taut::try_parse_from(&arguments.words).map_err(|error| arguments.refuse(error))
    });
    understood.err().map(|failure: Failure| failure.to_string())
}

/// What `taut doctor` says of a firewall, as nft or else as iptables lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Firewall {
    /// It lets sound in.
    Open,
    /// It keeps sound out, of IPv6 at least.
    Shut,
    /// That depends.
    Unknown,
}

/// Judges the rules in `text`.
pub fn firewall(text: &str, of_nft: bool) -> Firewall {
    let rules = if of_nft { FirewallRules::Nft } else { FirewallRules::Iptables };
    match judge_firewall(&rules(text.to_owned()), USUAL).verdict {
        Verdict::Fine => Firewall::Open,
        Verdict::Unknown => Firewall::Unknown,
        Verdict::Warns | Verdict::Spoils => Firewall::Shut,
    }
}
