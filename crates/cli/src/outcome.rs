//! What a run came to beside its report: whether it did what was asked for, and if not, why.

use tautline_engine::watching::report::{Report, StreamEnd, StreamReport};

use crate::failure::Failure;

/// Whether the run failed. What is known at its end only becomes a note; of a receiver to which nothing
/// came, `blame` says what may have kept it out.
pub(crate) fn judge(
    report: &mut Report,
    blame: impl FnOnce() -> Option<String>,
) -> Option<Failure> {
    if let Some(unwritten) = report.unwritten.first() {
        return Some(Failure::running(unwritten));
    }
    // Whoever asks for a stream and hears nothing of it did not get what was asked for.
    if let Some(refusal) = report.streams.iter().find_map(|stream| stream.refused.clone()) {
        return Some(Failure::running(refusal));
    }
    let unheard: Vec<&StreamReport> =
        report.streams.iter().filter(|stream| is_unheard(stream)).collect();
    if report.role == "recv" && !unheard.is_empty() {
        let all = unheard.len() == report.streams.len();
        let sentence = nothing(&unheard, if all { blame() } else { None });
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
        "ended without goodbye: no more came at {}; see there whether the sender was killed or cut off",
        places(&silent)
    );
    report.notes.push(sentence.clone());
    Some(Failure::silence(sentence))
}

fn is_unheard(stream: &StreamReport) -> bool {
    stream.counters.received == 0
}

/// Why nothing was received at these addresses, as far as that is known.
fn nothing(unheard: &[&StreamReport], blame: Option<String>) -> String {
    let at = places(unheard);
    let other = unheard.iter().flat_map(|stream| &stream.invalid).max_by_key(|other| other.count);
    match (other, blame) {
        (Some(other), _) => format!(
            "nothing of the stream was received at {at}: {} datagrams came that are none of its \
             packets ({}); compare --format, --channels and --payload-type of both ends{}",
            other.count,
            other.reason,
            match unheard.iter().any(|stream| stream.sealed.is_some()) {
                true => "",
                false => ", or give --srtp-key-file if they are sealed there",
            }
        ),
        (None, Some(blame)) => format!("nothing was received at {at}: {blame}"),
        (None, None) => {
            format!("nothing was received at {at}; is the sender running and sending here?")
        }
    }
}

fn places(streams: &[&StreamReport]) -> String {
    streams.iter().map(|stream| stream.address.as_str()).collect::<Vec<_>>().join(" and ")
}
