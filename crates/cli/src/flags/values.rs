//! Options with fixed values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tautline_engine::plan::LinkKind;
use tautline_engine::plan::pacing::PacingMode;
use tautline_io::udp::FragmentPolicy;
use tautline_proto::stream::Coding;

/// Parses one of these words; each has a line of help.
fn one_of<T: Clone + Send + Sync + 'static>(
    words: impl IntoIterator<Item = (&'static str, &'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let words: Vec<_> = words.into_iter().collect();
    let possible = words.iter().map(|(word, help, _)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(possible.collect::<Vec<_>>()).map(move |given| {
        let (.., value) = words.iter().find(|(word, ..)| *word == given).expect("a possible value");
        value.clone()
    })
}

/// Parses a codec name in any case. The error lists the valid names, after `first`.
pub(crate) fn coding_in_line(text: &str, first: &str) -> Result<Coding, String> {
    Coding::named(&text.to_ascii_lowercase())
        .ok_or_else(|| format!("unknown codec `{text}`\nhint: write {first}{}", coding_names()))
}

pub(super) fn coding_names() -> String {
    let [all @ .., last] = Coding::ALL.map(Coding::name);
    format!("{} or {last}", all.join(", "))
}

fn codings() -> impl Iterator<Item = (&'static str, &'static str, Coding)> {
    Coding::ALL.into_iter().map(|coding| (coding.name(), coding.row().help, coding))
}

/// `None` is `auto`. The alias keeps clap from taking it for an optional value.
pub(crate) type CodingOrAuto = Option<Coding>;

pub(super) fn coding_or_auto() -> impl TypedValueParser<Value = CodingOrAuto> {
    let help = "From the file, the announcement or the network";
    one_of(
        codings()
            .map(|(name, help, coding)| (name, help, Some(coding)))
            .chain([("auto", help, None)]),
    )
}

pub(super) fn fragment() -> impl TypedValueParser<Value = FragmentPolicy> {
    one_of([
        ("allow", "Send IP fragments, with a warning", FragmentPolicy::Allow),
        ("never", "Reject the options", FragmentPolicy::Never),
    ])
}

pub(super) fn link() -> impl TypedValueParser<Value = LinkKind> {
    let help = |kind| match kind {
        LinkKind::Auto => "If a period holds several packets",
        LinkKind::Direct => "No: in the device thread",
        LinkKind::Threaded => "Yes",
    };
    one_of(LinkKind::ALL.map(|kind| (kind.name(), help(kind), kind)))
}

/// `None` is `auto`.
pub(crate) type PacingOrAuto = Option<PacingMode>;

pub(super) fn pacing() -> impl TypedValueParser<Value = PacingOrAuto> {
    let help = |mode| match mode {
        PacingMode::Offload => "Launch times in the network card",
        PacingMode::Etf => "Launch times in the etf queue",
        PacingMode::Fq => "Launch times in the fq queue",
        PacingMode::Sleep => "A thread that sleeps until each departure",
        PacingMode::Batch => "All packets of a period leave back to back",
    };
    let auto = "The most regular mode that works here and fits the latency";
    let modes = PacingMode::ALL.map(|mode| (mode.name(), help(mode), Some(mode)));
    one_of([("auto", auto, None)].into_iter().chain(modes))
}
