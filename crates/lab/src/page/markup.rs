//! Text, numbers and tables; foreign text is always escaped.

use tautline_report::digits;

pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            // XML forbids these; bidirectional controls could disguise text.
            '\n' | '\t' => out.push(' '),
            letter if letter.is_control() => out.push('\u{fffd}'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

pub(crate) fn aside(text: &str) -> String {
    format!("<p class=\"aside\">{}</p>", escaped(text))
}

pub(crate) fn invalid(text: &str) -> String {
    format!("<p class=\"invalid\">{}</p>", escaped(text))
}

pub(crate) fn command(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("<pre><code>{}</code></pre>", escaped(text))
}

pub(crate) fn cells<T: AsRef<str>>(tag: &str, texts: impl IntoIterator<Item = T>) -> String {
    let cell = |text: T| format!("<{tag}>{}</{tag}>", escaped(text.as_ref()));
    texts.into_iter().map(cell).collect()
}

/// No header if `heads` is empty.
pub(crate) fn table(heads: &str, lines: impl IntoIterator<Item = String>) -> String {
    let heads = match heads {
        "" => String::new(),
        heads => format!("<thead><tr>{heads}</tr></thead>"),
    };
    let lines: String = lines.into_iter().map(|line| format!("<tr>{line}</tr>")).collect();
    format!("<div class=\"scroll\"><table>{heads}<tbody>{lines}</tbody></table></div>")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Time,
    Count,
    Share,
    Number,
}

pub(super) fn reported(value: f64, unit: Unit, step: f64, greatest: f64) -> String {
    let value = if value.abs() < step * 1e-6 { 0.0 } else { value };
    let fixed = |value: f64, step: f64| {
        let digits =
            if step > 0.0 { (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize } else { 0 };
        format!("{value:.digits$}").replace('-', "−")
    };
    match unit {
        _ if value == 0.0 => "0".to_owned(),
        Unit::Time => {
            // On a logarithmic axis, each number has its own unit.
            let scale = if step > 0.0 { greatest } else { value.abs() };
            let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
            let (one, name) =
                units.into_iter().find(|(one, _)| scale >= one * 0.999).unwrap_or((1.0, "ns"));
            format!("{} {name}", fixed(value / one, step / one))
        }
        Unit::Share if step <= 0.0 => {
            let percent = value * 100.0;
            let digits = (-percent.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
            format!("{percent:.digits$} %")
        }
        Unit::Share => format!("{} %", fixed(value * 100.0, step * 100.0)),
        Unit::Count | Unit::Number if value.abs() >= 1e6 => {
            format!("{} M", fixed(value / 1e6, step / 1e6))
        }
        Unit::Count | Unit::Number => fixed(value, step),
    }
}

pub(super) fn span(nanos: f64) -> String {
    rounded(nanos, 3)
}

fn rounded(nanos: f64, digits: i32) -> String {
    let step = |nanos: f64| {
        10_f64.powf((nanos.abs().max(1.0).log10() + 1e-12).floor() - f64::from(digits - 1)).max(1.0)
    };
    let rounded = (nanos / step(nanos)).round() * step(nanos);
    reported(rounded, Unit::Time, step(rounded), rounded.abs())
}

/// Rounded to the digits that `error` permits; to four digits if `error` is 0.
pub(super) fn with_error(nanos: f64, error: f64) -> String {
    if error <= 0.0 {
        return rounded(nanos, 4);
    }
    let step = digits::step(error).max(1.0);
    let nearest = (nanos / step).round() * step;
    let value = reported(nearest, Unit::Time, step, nearest.abs());
    let bound = (error / step - 1e-9).ceil() * step;
    format!("{value} ± {}", rounded(bound, 2))
}

pub(super) fn from_to(from: f64, to: f64) -> String {
    let step = 10_f64.powf((to - from).abs().max(1.0).log10().floor() - 1.0).max(1.0);
    let [from, to] = [from, to].map(|value| reported(value, Unit::Time, step, to.abs()));
    format!("from {from} to {to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_the_digits_that_are_known() {
        let cases = [
            (span(5_000_000.0), "5.00 ms"),
            (span(-12_345.0), "−12.3 µs"),
            (span(999.7), "1.00 µs"),
            (span(3.0), "3 ns"),
            (span(0.0), "0"),
            (with_error(200_009_123.0, 8_000.0), "200.0091 ms ± 8.0 µs"),
            (with_error(5_299_997.0, 241.0), "5.30000 ms ± 250 ns"),
            (with_error(9_123.0, 13_000.0), "9 µs ± 13 µs"),
            (with_error(-999.6, 10_416.0), "−1 µs ± 11 µs"),
            (with_error(5_000_123.0, 0.0), "5.000 ms"),
            (from_to(20_003_000.0, 20_015_000.0), "from 20.003 ms to 20.015 ms"),
        ];
        cases.iter().for_each(|(reported, wanted)| assert_eq!(reported, wanted));
    }

    #[test]
    fn an_axis_names_values_by_its_steps() {
        assert_eq!(reported(5_000_500.0, Unit::Time, 500.0, 5.001e6), "5.0005 ms");
        assert_eq!(reported(0.0, Unit::Time, 500.0, 5e6), "0");
        assert_eq!(reported(1e-4, Unit::Share, 0.0, 1.0), "0.01 %");
        assert_eq!(reported(1e3, Unit::Time, 0.0, 1e9), "1 µs");
        assert_eq!(reported(2e6, Unit::Count, 0.0, 1e7), "2 M");
    }
}
