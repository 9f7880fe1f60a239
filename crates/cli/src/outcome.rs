//! Success of a run, or the reason of its failure.

use tautline_proto::text::split_hint;
use tautline_report::{Report, StreamEnd, StreamReport};

use crate::failure::Failure;

#[derive(Debug, Default)]
pub(crate) struct Blame {
    /// Joined groups and accepted hosts. Empty: no limits.
    pub(crate) limits: String,
    pub(crate) firewall: Option<String>,
}

/// Whether the run failed. Other problems become notes. `blame` supplies reasons if a receiver got
/// nothing.
pub(crate) fn judge(report: &mut Report, blame: impl FnOnce() -> Blame) -> Option<Failure> {
    if let Some(unwritten) = report.incomplete_files.first() {
        return Some(Failure::running(split_hint(unwritten)));
    }
    if let Some(refusal) = report.streams.iter().find_map(|stream| stream.refused.clone()) {
        return Some(Failure::running(refusal));
    }
    let not_received: Vec<&StreamReport> =
        report.streams.iter().filter(|stream| received_nothing(stream)).collect();
    if report.role == "recv" && !not_received.is_empty() {
        let all = not_received.len() == report.streams.len();
        let sentence = nothing(&not_received, if all { blame() } else { Blame::default() });
        report.notes.push(sentence.clone());
        if all {
            return Some(Failure::running(sentence));
        }
    }
    let silent: Vec<&StreamReport> =
        report.streams.iter().filter(|stream| stream.ended == Some(StreamEnd::Silence)).collect();
    if silent.is_empty() {
        return None;
    }
    let sentence = format!(
        "ended without goodbye: no more packets at {}\nhint: check there whether the sender was killed or disconnected",
        places(&silent)
    );
    report.notes.push(sentence.clone());
    Some(Failure::silence(sentence))
}

fn received_nothing(stream: &StreamReport) -> bool {
    stream.counters.received == 0
}

fn nothing(not_received: &[&StreamReport], Blame { limits, firewall }: Blame) -> String {
    let mut at = places(not_received);
    if !limits.is_empty() {
        at.push_str(&format!(" ({limits})"));
    }
    let foreign: u64 = not_received.iter().map(|stream| stream.counters.other_source).sum();
    let other =
        not_received.iter().flat_map(|stream| &stream.invalid).max_by_key(|other| other.count);
    match (other, firewall) {
        (Some(other), _) => format!(
            "no packets of the stream arrived at {at}: {} datagrams are invalid ({})\n\
             hint: compare --format, --channels and --payload-type of both ends{}",
            other.count,
            other.reason,
            match not_received.iter().any(|stream| stream.encryption.is_some()) {
                true => "",
                false => ", or use --srtp-key-file if they are encrypted",
            }
        ),
        (None, _) if foreign > 0 => {
            format!("nothing was received at {at}: {foreign} packets from other hosts were ignored")
        }
        (None, Some(blame)) => format!("nothing was received at {at}: {blame}"),
        (None, None) => {
            format!(
                "nothing was received at {at}\nhint: check that the sender runs and sends to this address"
            )
        }
    }
}

fn places(streams: &[&StreamReport]) -> String {
    streams.iter().map(|stream| stream.address.as_str()).collect::<Vec<_>>().join(" and ")
}
