//! End of a command: a message and an exit status.

use core::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use strsim::levenshtein;
use tautline_api::trust::TrustError;
use tautline_engine::error::RunError;
use tautline_engine::plan::address::AddressError;
use tautline_engine::plan::pacing::PacingRefused;
use tautline_io::link::OpenError;
use tautline_proto::device::DeviceError;
use tautline_proto::text;

/// Prefix of the line with the fix for a message.
const HINT: &str = "hint: ";

pub(crate) fn with_hints(message: &str) -> String {
    let mut lines = message.split('\n');
    let mut text = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        text.push('\n');
        if !line.starts_with(HINT) {
            text.push_str(HINT);
        }
        text.push_str(line);
    }
    text
}

/// The message on one line: its hints follow a semicolon.
pub fn on_one_line(message: &str) -> String {
    text::on_one_line(message).replace('\n', "; ")
}

/// Appends `more` to the message, before its hints.
pub fn with_more(message: &str, more: &str) -> String {
    match message.split_once('\n') {
        Some((first, hints)) => format!("{first}{more}\n{hints}"),
        None => format!("{message}{more}"),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    sentence: String,
    pub status: u8,
}

impl Failure {
    pub fn running(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), status: 1 }
    }

    pub fn usage(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), status: 2 }
    }

    /// This build excludes `what`.
    pub fn without_lab(what: &str) -> Self {
        Self::usage(format!("this build has no {what}\nhint: make release"))
    }

    /// The senders stopped without a goodbye.
    pub fn silence(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), status: 4 }
    }

    /// A part could not be compared.
    pub fn undecided(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), status: 5 }
    }

    pub fn open(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), status: 3 }
    }

    /// Only the status.
    #[must_use]
    pub fn already_shown(self) -> Self {
        Self { sentence: String::new(), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<clap::Error> for Failure {
    /// A one-line message, and hints on lines of their own.
    fn from(error: clap::Error) -> Self {
        if let Some(figure) = below_zero(&error) {
            return Self::usage(format!(
                "unexpected value '{figure}…': must not be negative\nhint: --help lists the options"
            ));
        }
        let text =
            error.to_string().replace("invalid digit found in string", "must be a whole number");
        if is_mute(&error, &text) {
            return Self::usage(
                "unexpected argument '--mute': send and recv have no such option\n\
                 hint: use --volume -inf, or --control and `mute` on standard input",
            );
        }
        let (mut sentence, mut hints) = (String::new(), Vec::new());
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.starts_with("Usage:") || line.starts_with("For more information") {
                break;
            }
            if let Some(hint) = line.strip_prefix(HINT) {
                hints.push(hint.to_owned());
                continue;
            }
            if let Some(tip) = line.strip_prefix("tip: ") {
                hints.extend(is_helpful(&error, tip).then(|| tip.to_owned()));
                continue;
            }
            let (begins, line) = match line {
                line if sentence.is_empty() => ("", line.trim_start_matches("error: ")),
                line if line.starts_with("--") && !sentence.ends_with(':') => (", ", line),
                line => (" ", line),
            };
            sentence.push_str(begins);
            sentence.push_str(line);
        }
        if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidValue) {
            sentence = reason_once(&sentence, given);
        }
        // The parser of a value names what it accepts.
        if hints.is_empty() && error.kind() != ErrorKind::ValueValidation {
            hints.push(format!("see {} --help", called(&text)));
        }
        hints.iter().for_each(|hint| sentence += &format!("\n{HINT}{hint}"));
        Self::usage(sentence)
    }
}

/// Shortens the reason after `invalid value '…' for '…': `, with a range in words.
fn reason_once(sentence: &str, given: &str) -> String {
    let head = format!("invalid value '{given}' for ");
    let parts = sentence.strip_prefix(&head).and_then(|rest| rest.split_once("': "));
    let Some((option, reason)) = parts else { return sentence.to_owned() };
    let begins = format!("{head}{option}'");
    if let Some(range) = range_in_words(reason) {
        return format!("{begins}: {range}");
    }
    // A device's reason begins with its name.
    let own = reason.strip_prefix(&format!("{given}: ")).unwrap_or(reason);
    let Some(invalid) = own.strip_prefix("invalid ") else { return sentence.to_owned() };
    let shown = [format!("'{given}'"), format!("{given:?}"), format!("`{given}`")];
    let whole = shown.iter().find_map(|shown| invalid.split_once(shown.as_str()));
    let is_whole = |noun: &str| !noun.contains(['\'', '"', '`']) && !noun.ends_with(" in ");
    match whole.filter(|(noun, _)| is_whole(noun)) {
        Some((_, "")) => begins,
        Some((_, reason)) => format!("{begins}: {}", reason.trim_start_matches([':', ';', ' '])),
        None => {
            format!("{begins}: invalid {}", invalid.replace(&format!(" in '{given}'"), ""))
        }
    }
}

/// Converts clap's `0 is not in 1..=9` to `must be 1 to 9`.
fn range_in_words(reason: &str) -> Option<String> {
    let (given, range) = reason.split_once(" is not in ")?;
    let (first, end) = range.split_once("..")?;
    let (given, first): (i128, i128) = (given.parse().ok()?, first.parse().ok()?);
    let last: i128 = match end.strip_prefix('=') {
        Some(last) => last.parse().ok()?,
        None => end.parse::<i128>().ok()? - 1,
    };
    // A range without an end ends at the type's maximum.
    let ends: [i128; 4] = [u16::MAX.into(), u32::MAX.into(), i64::MAX.into(), u64::MAX.into()];
    Some(match given < first && ends.contains(&last) {
        true => format!("must be at least {first}"),
        false => format!("must be {first} to {last}"),
    })
}

/// Whether a tip of clap helps. `-- --option` never does; a similar name only for a typing error.
fn is_helpful(error: &clap::Error, tip: &str) -> bool {
    let given = error.get(ContextKind::InvalidValue).or(error.get(ContextKind::InvalidArg));
    let Some(ContextValue::String(given)) = given else { return true };
    if tip.contains("-- ") {
        return false;
    }
    let Some(similar) = tip.split('\'').nth(1).filter(|_| tip.contains("similar")) else {
        return true;
    };
    let given = given.split('=').next().unwrap_or_default();
    similar.starts_with(given) || levenshtein(given, similar) <= MAX_TYPING_ERRORS
}

const MAX_TYPING_ERRORS: usize = 2;

fn called(text: &str) -> String {
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    let words = usage.unwrap_or("taut").split(' ');
    let is_word = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    words.take_while(is_word).collect::<Vec<_>>().join(" ")
}

/// Whether the error is --mute with taut send or recv.
fn is_mute(error: &clap::Error, text: &str) -> bool {
    let given = error.get(ContextKind::InvalidArg);
    let mutes = ["Usage: taut send", "Usage: taut recv"].iter().any(|usage| text.contains(usage));
    mutes && matches!(given, Some(ContextValue::String(given)) if given == "--mute")
}

/// A negative value that was parsed as an option, such as -5 of `--latency -5ms`.
fn below_zero(error: &clap::Error) -> Option<&str> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_figure = given.strip_prefix('-')?.starts_with(|c: char| c.is_ascii_digit());
    (error.kind() == ErrorKind::UnknownArgument && is_figure).then_some(given)
}

impl From<AddressError> for Failure {
    fn from(error: AddressError) -> Self {
        match error {
            AddressError::Unusable(sentence) => Self::usage(sentence),
            AddressError::NotThere(sentence) => Self::open(sentence),
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::open(error.to_string())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::open(error.to_string())
    }
}

impl From<PacingRefused> for Failure {
    fn from(error: PacingRefused) -> Self {
        Self::open(format!("{error}\nhint: see `taut doctor`, or leave --pacing out"))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Ledger { .. } => Self::open(error.to_string()),
            RunError::Targets(_) => Self::usage(error.to_string()),
            RunError::Device(_) | RunError::System(..) => Self::running(error.to_string()),
        }
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Name(_) => Self::usage(error.to_string()),
            _ => Self::open(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_lines_of_a_message_are_hints() {
        assert_eq!(with_hints("no room"), "no room");
        assert_eq!(with_hints("no room\nhint: make some"), "no room\nhint: make some");
        assert_eq!(with_hints("no room\nmake some"), "no room\nhint: make some");
        assert_eq!(on_one_line("no room\nhint: make some"), "no room; make some");
        assert_eq!(with_more("no room\nhint: make some", " here"), "no room here\nhint: make some");
    }

    #[test]
    fn typing_errors_are_counted() {
        for (one, other, count) in [
            ("--latency", "--latency", 0),
            ("--latncy", "--latency", 1),
            ("--latnecy", "--latency", 2),
            ("--mute", "--max-transit-time", 13),
        ] {
            assert_eq!(levenshtein(one, other), count, "{one} {other}");
        }
    }

    #[test]
    fn reason_of_an_invalid_value_is_not_repeated() {
        for (given, reason, shown) in [
            ("0", "0 is not in 1..=1024", ": must be 1 to 1024"),
            ("128", "128 is not in 0..128", ": must be 0 to 127"),
            ("0", "0 is not in 1..=4294967295", ": must be at least 1"),
            ("70000", "70000 is not in 68..=65535", ": must be 68 to 65535"),
            ("x", "invalid key \"x\": must be longer", ": must be longer"),
            ("5", "invalid share '5'", ""),
            ("5", "`5` has no unit", ": `5` has no unit"),
            ("a:b=c", "a:b=c: invalid value 'c'", ": invalid value 'c'"),
            ("a?id=7", "invalid id '7' in 'a?id=7': be 8", ": invalid id '7': be 8"),
        ] {
            let sentence = format!("invalid value '{given}' for '--x <Y>'");
            let shortened = reason_once(&format!("{sentence}: {reason}"), given);
            assert_eq!(shortened, format!("{sentence}{shown}"));
        }
    }

    #[test]
    fn command_is_read_from_the_usage() {
        assert_eq!(
            called("error: x\n\nUsage: taut lab delay --input <DEVICE>\n"),
            "taut lab delay"
        );
        assert_eq!(called("error: x"), "taut");
    }
}
