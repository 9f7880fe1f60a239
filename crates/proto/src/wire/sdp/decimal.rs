//! Milliseconds as decimal text, exact to the nanosecond.

use crate::time::Span;

const NANOS_PER_MILLI: i64 = 1_000_000;

/// `5`, `0.125`, `0,125`, `.125` or `1.`; ignores digits below a nanosecond.
pub(super) fn millis(text: &str) -> Option<Span> {
    let text = text.trim();
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let nanos = fraction
        .bytes()
        .chain(core::iter::repeat(b'0'))
        .take(6)
        .fold(0, |nanos, digit| nanos * 10 + i64::from(digit - b'0'));
    let whole = whole
        .bytes()
        .fold(0_i64, |all, digit| all.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    let whole = whole.saturating_mul(NANOS_PER_MILLI);
    Some(Span::from_nanos(whole.saturating_add(nanos)))
}

/// `decimals` is 0 to 6. As in AES67, rounds from a millisecond on and truncates below (0.12,
/// 1.09). Negative spans become zero.
pub(super) fn text(span: Span, decimals: u32) -> String {
    let unit = 10_i64.pow(6 - decimals.min(6));
    let nanos = span.as_nanos().max(0);
    let rounding = if nanos < NANOS_PER_MILLI { 0 } else { unit / 2 };
    let nanos = nanos.saturating_add(rounding) / unit * unit;
    let fraction = format!("{:06}", nanos % NANOS_PER_MILLI);
    let digits = format!("{}.{}", nanos / NANOS_PER_MILLI, fraction);
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}
