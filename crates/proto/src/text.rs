//! Durations with units, and foreign text for display.

use core::fmt::Display;

use crate::time::Span;

/// Message on one line, with its hint after a semicolon.
pub fn on_one_line(message: impl Display) -> String {
    message.to_string().replace("\nhint: ", "; ")
}

/// Message with its hint, the text after the last semicolon, on its own line.
pub fn split_hint(message: &str) -> String {
    match message.rsplit_once("; ") {
        Some((what, fix)) => format!("{what}\nhint: {fix}"),
        None => message.to_owned(),
    }
}

/// Whether a terminal can show `c`. Excludes control, format, private and unassigned characters.
pub fn is_printable(c: char) -> bool {
    // After another character, as `char` escapes combining characters.
    let mut text = [b'x'; 5];
    let len = 1 + c.encode_utf8(&mut text[1..]).len();
    let shows = |text: &str| text.escape_debug().count() == 2;
    let space = c.is_whitespace() && !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    space || matches!(c, '"' | '\'' | '\\') || core::str::from_utf8(&text[..len]).is_ok_and(shows)
}

/// Foreign text on one line of at most `max` characters, unprintable characters escaped. `…` marks
/// truncation.
pub fn printable(text: &str, max: usize) -> String {
    let escaped = |c: char| {
        let (plain, escape) = match is_printable(c) {
            true => (Some(c), None),
            false => (None, Some(c.escape_default())),
        };
        plain.into_iter().chain(escape.into_iter().flatten())
    };
    let mut shown: String = text.chars().flat_map(escaped).take(max + 1).collect();
    if let Some((end, _)) = shown.char_indices().nth(max) {
        shown.truncate(end);
        shown.pop();
        shown.push('…');
    }
    shown
}

/// Invalid duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// Number without a unit.
    #[error("`{0}` has no unit\nhint: write {0}ms, or ns, us, s, min or h")]
    Unit(String),
    /// Not a number with a unit.
    #[error(
        "`{0}` is not a duration\nhint: write a number with its unit, such as 1.5ms, 10s or 5min"
    )]
    Figure(String),
    /// Longer than [`Span`], or finer than a nanosecond.
    #[error("`{0}` is out of range\nhint: write a duration from 1ns to 292 years")]
    Range(String),
}

/// Units in nanoseconds.
const UNITS: [(&str, i64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a signed decimal number with a unit: `125us`, `1.5ms`. Exact; reads every displayed
/// [`Span`].
pub fn parse_span(text: &str) -> Result<Span, SpanError> {
    let trimmed = text.trim();
    let unit_at = trimmed.find(|c: char| c.is_alphabetic()).unwrap_or(trimmed.len());
    let (figure, unit) = trimmed.split_at(unit_at);
    let scale = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, scale)) => *scale,
        None if unit.is_empty() && digits(figure).is_some() => {
            return Err(SpanError::Unit(trimmed.into()));
        }
        None => return Err(SpanError::Figure(trimmed.into())),
    };
    let (negative, whole, fraction) =
        digits(figure).ok_or_else(|| SpanError::Figure(trimmed.into()))?;
    let magnitude = nanos(whole, fraction, i128::from(scale));
    let nanos = magnitude.map(|nanos| if negative { -nanos } else { nanos });
    nanos
        .and_then(|nanos| i64::try_from(nanos).ok())
        .map(Span::from_nanos)
        .ok_or_else(|| SpanError::Range(trimmed.into()))
}

fn digits(figure: &str) -> Option<(bool, &str, &str)> {
    let (negative, figure) = match figure.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, figure),
    };
    let (whole, fraction) = figure.split_once('.').unwrap_or((figure, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let some = !whole.is_empty() || !fraction.is_empty();
    (some && all_digits(whole) && all_digits(fraction)).then_some((negative, whole, fraction))
}

fn nanos(whole: &str, fraction: &str, scale: i128) -> Option<i128> {
    let fraction = fraction.trim_end_matches('0');
    let number = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<i64>().ok() };
    let denominator = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = i128::from(number(fraction)?).checked_mul(scale)?;
    let exact = parts % denominator == 0;
    exact.then_some(i128::from(number(whole)?) * scale + parts / denominator)
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    const HOSTILE: [(&str, &str); 12] = [
        ("\x1b[2J\x1b]0;own\x07", "\\u{1b}[2J\\u{1b}]0;own\\u{7}"),
        ("a\ntaut: b\r\tc\0", "a\\ntaut: b\\r\\tc\\u{0}"),
        ("\u{9b}31m\u{85}\u{7f}", "\\u{9b}31m\\u{85}\\u{7f}"),
        ("exe.\u{202e}gpj", "exe.\\u{202e}gpj"),
        ("\u{202a}\u{202b}\u{202c}\u{202d}", "\\u{202a}\\u{202b}\\u{202c}\\u{202d}"),
        ("\u{2066}\u{2067}\u{2068}\u{2069}", "\\u{2066}\\u{2067}\\u{2068}\\u{2069}"),
        ("\u{200e}\u{200f}\u{61c}\u{ad}", "\\u{200e}\\u{200f}\\u{61c}\\u{ad}"),
        ("a\u{2028}b\u{2029}c", "a\\u{2028}b\\u{2029}c"),
        ("\u{200b}\u{200d}\u{2060}\u{feff}", "\\u{200b}\\u{200d}\\u{2060}\\u{feff}"),
        ("\u{fff9}\u{e0001}\u{e0041}", "\\u{fff9}\\u{e0001}\\u{e0041}"),
        ("\u{e000}\u{378}\u{ffff}", "\\u{e000}\\u{378}\\u{ffff}"),
        (
            "Käse e\u{301} हिन्दी שלום \"it's\" \\ 音\u{3000}楽 🎧",
            "Käse e\u{301} हिन्दी שלום \"it's\" \\ 音\u{3000}楽 🎧",
        ),
    ];

    #[test]
    fn text_that_moves_or_hides_other_text_is_escaped() {
        for (hostile, shown) in HOSTILE {
            assert_eq!(printable(hostile, 300), shown);
            assert_eq!(printable(shown, 300), shown, "once is enough");
            assert!(printable(hostile, 300).chars().all(is_printable));
        }
        assert!(is_printable('\u{301}'), "a combining accent");
    }

    #[test]
    fn long_text_is_cut_at_its_limit() {
        assert_eq!(printable("abc", 3), "abc");
        assert_eq!(printable("abcd", 3), "ab…");
        assert_eq!(printable(&"\u{202e}".repeat(1 << 20), 300).chars().count(), 300);
    }

    #[test]
    fn a_figure_with_a_unit_is_a_duration() {
        for (text, nanos) in [
            ("125us", 125_000),
            ("125µs", 125_000),
            ("1ms", 1_000_000),
            ("1.5ms", 1_500_000),
            (".5s", 500_000_000),
            ("-3ns", -3),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0ms", 0),
            (" 10s ", 10_000_000_000),
            ("0.000000001s", 1),
        ] {
            assert_eq!(parse_span(text), Ok(Span::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn span_display_parses_back() {
        for nanos in [0, 1, 20, 125_000, 2_500_000, -1_000_000, 10_000_000_000] {
            let span = Span::from_nanos(nanos);
            assert_eq!(parse_span(&span.to_string()), Ok(span));
        }
    }

    #[test]
    fn figure_without_a_unit_has_a_hint() {
        let error = parse_span("5").unwrap_err();
        snapshot!(error);
    }

    #[test]
    fn everything_else_is_refused() {
        for text in
            ["", "ms", "-ms", ".ms", "1e3ms", "1 2ms", "1.2.3s", "5 parsecs", "+1ms", "--1ms"]
        {
            assert!(matches!(parse_span(text), Err(SpanError::Figure(_))), "{text}");
        }
        for text in ["0.5ns", "9999999999999h", "99999999999999999999999999s"] {
            assert!(matches!(parse_span(text), Err(SpanError::Range(_))), "{text}");
        }
    }
}
