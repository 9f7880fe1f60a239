use tautline_dsp::format::SampleFormat;
use tautline_engine::plan::LinkKind;
use tautline_engine::plan::pacing::PacingMode;
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::LONGEST_LINK_OFFSET;
use tautline_proto::text::{SpanError, parse_span};
use tautline_proto::time::Span;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
    Real(f64),
    /// A compound or a pointer.
    Other,
}

pub(super) fn text(key: &str, value: &Value, example: &str) -> Result<String, String> {
    let timed = key == "latency" || key == "ptime";
    match value {
        Value::Text(text) => Ok(text.trim().to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Real(real) if timed => Ok(real.to_string()),
        Value::Real(_) | Value::Other => {
            Err(format!("`{key}` must be text; write {key} \"{example}\""))
        }
    }
}

pub(super) fn number(key: &str, value: &Value) -> Result<i64, String> {
    let unusable = |given: &str| {
        format!(
            "invalid {key} {given}: must be a whole number; write it without unit and quotation marks"
        )
    };
    match value {
        Value::Number(number) => Ok(*number),
        Value::Text(text) => text.trim().parse().map_err(|_| unusable(&format!("\"{text}\""))),
        Value::Real(real) => Err(format!(
            "invalid {key} {real}: must be a whole number; write {key} {:.0}",
            real.max(1.0)
        )),
        Value::Other => Err(unusable("{…}")),
    }
}

/// The error suggests a missing unit.
pub(super) fn span(key: &str, text: &str, minimum: Span, maximum: Span) -> Result<Span, String> {
    let figure = match parse_span(text) {
        Err(SpanError::Unit(figure)) => figure,
        answer => return answer.map_err(|error| format!("{key}: {error}")),
    };
    let with = |unit: &str| parse_span(&format!("{figure}{unit}"));
    let can_be = |unit: &&str| with(unit).is_ok_and(|span| span >= minimum && span <= maximum);
    match ["ms", "us"].into_iter().find(can_be) {
        Some(unit) => Err(format!("{key} {figure} has no unit; write {key} \"{figure}{unit}\"")),
        None => with("ms").map_err(|error| format!("{key}: {error}")),
    }
}

pub(super) fn latency(text: &str) -> Result<LatencyRule, String> {
    if text == "auto" {
        return Ok(LatencyRule::AUTO);
    }
    let latency = span("latency", text, Span::from_micros(1), LONGEST_LINK_OFFSET)?;
    if latency <= Span::ZERO || latency > LONGEST_LINK_OFFSET {
        return Err(format!(
            "invalid latency {latency}: must be up to {LONGEST_LINK_OFFSET}, or auto"
        ));
    }
    Ok(LatencyRule::Chosen(latency))
}

pub(super) fn format(text: &str) -> Result<SampleFormat, String> {
    SampleFormat::named(&text.to_ascii_lowercase())
        .ok_or_else(|| format!("unsupported format \"{text}\"; use l16, l24, l32 or f32"))
}

pub(super) fn io_thread(text: &str) -> Result<LinkKind, String> {
    LinkKind::named(text)
        .ok_or_else(|| format!("invalid io_thread \"{text}\": use auto, yes or no"))
}

/// `None` is `auto`.
pub(super) fn pacing(text: &str) -> Result<Option<PacingMode>, String> {
    if text == "auto" {
        return Ok(None);
    }
    PacingMode::named(text).map(Some).ok_or_else(|| {
        let names = PacingMode::ALL.map(PacingMode::name).join(", ");
        format!("invalid pacing \"{text}\": use auto or one of {names}")
    })
}

pub(super) fn micros(key: &str, value: &Value) -> Result<Span, String> {
    let micros = number(key, value)?;
    if !(0..=1_000_000).contains(&micros) {
        return Err(format!("invalid {key} {micros}: must be 0 to 1000000 microseconds"));
    }
    Ok(Span::from_micros(micros))
}
