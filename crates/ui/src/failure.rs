//! End of a command: a message and an exit status.

use core::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use tautline_api::trust::TrustError;
use tautline_engine::error::RunError;
use tautline_engine::plan::address::AddressError;
use tautline_engine::plan::pacing::PacingRefused;
use tautline_io::link::OpenError;
use tautline_proto::device::DeviceError;

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

    /// This build excludes `what`, because its features exclude the lab.
    pub fn without_lab(what: &str) -> Self {
        Self::usage(format!("this build has no {what}\nhint: make release"))
    }

    /// The senders stopped without a goodbye.
    pub fn silence(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), status: 4 }
    }

    /// The comparison is incomplete: a part could not be compared.
    pub fn undecided(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), status: 5 }
    }

    pub fn open(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), status: 3 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<clap::Error> for Failure {
    /// A one-line message with a hint if there is one.
    fn from(error: clap::Error) -> Self {
        if let Some(figure) = below_zero(&error) {
            return Self::usage(format!(
                "{figure}… is below zero, which no option takes here; --help shows what each takes"
            ));
        }
        let text =
            error.to_string().replace("invalid digit found in string", "must be a whole number");
        let mend = match error.kind() {
            // The similar option --max-transit-time takes a time.
            _ if is_mute(&error, &text) => {
                return Self::usage(
                    "unexpected argument '--mute': send and recv have none\n\
                     hint: --volume -inf, or --control and the line `mute` on standard input",
                );
            }
            // The message of the value's parser already has a hint.
            ErrorKind::ValueValidation => "",
            _ => "; --help shows how",
        };
        let mut sentence = String::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.starts_with("Usage:") || line.starts_with("For more information") {
                break;
            }
            let (begins, line) = match line.strip_prefix("tip: ") {
                Some(tip) => ("; ", tip),
                None if sentence.is_empty() => ("", line.trim_start_matches("error: ")),
                None if line.starts_with("--") && !sentence.ends_with(':') => (", ", line),
                None => (" ", line),
            };
            sentence.push_str(begins);
            sentence.push_str(line);
        }
        Self::usage(sentence + mend)
    }
}

/// Returns whether it is --mute, which a command with playback or sending lacks.
fn is_mute(error: &clap::Error, text: &str) -> bool {
    let given = error.get(ContextKind::InvalidArg);
    let mutes = ["Usage: taut send", "Usage: taut recv"].iter().any(|usage| text.contains(usage));
    mutes && matches!(given, Some(ContextValue::String(given)) if given == "--mute")
}

/// Returns a negative value that was parsed as an option, such as -5 of `--latency -5ms`.
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
        Self::open(format!("{error}; see `taut doctor`, or leave --pacing out"))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Ledger { .. } => Self::open(error.to_string()),
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
