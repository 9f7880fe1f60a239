//! Options whose values are words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tautline_engine::plan::LinkKind;
use tautline_engine::plan::pacing::PacingMode;
use tautline_io::udp::FragmentPolicy;
use tautline_proto::stream::Coding;

/// Reads one of these words; each has a line of help.
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

/// The coding of that name, in either case; or what to write instead of `text`, beside what is said `first`.
pub(crate) fn coding_in_line(text: &str, first: &str) -> Result<Coding, String> {
    Coding::named(&text.to_ascii_lowercase()).ok_or_else(|| {
        let [all @ .., last] = Coding::ALL.map(Coding::name);
        format!("`{text}` is no coding; write {first}{} or {last}", all.join(", "))
    })
}

fn codings() -> impl Iterator<Item = (&'static str, &'static str, Coding)> {
    Coding::ALL.into_iter().map(|coding| (coding.name(), coding.row().help, coding))
}

pub(super) fn coding() -> impl TypedValueParser<Value = Coding> {
    one_of(codings())
}

/// `None` is `auto`: nothing is given. The alias keeps clap from reading it as an option without a value.
pub(crate) type CodingOrAuto = Option<Coding>;

/// Reads a coding, or `auto`, which a configuration file may need to be overridden by.
pub(super) fn coding_or_auto() -> impl TypedValueParser<Value = CodingOrAuto> {
    let help = "send: l24, or f32 for a float file; recv: as announced, or as the packets prove";
    one_of(
        codings()
            .map(|(name, help, coding)| (name, help, Some(coding)))
            .chain([("auto", help, None)]),
    )
}

pub(super) fn fragment() -> impl TypedValueParser<Value = FragmentPolicy> {
    one_of([
        ("allow", "Send them in IP fragments, and say what it costs", FragmentPolicy::Allow),
        ("never", "Refuse", FragmentPolicy::Never),
    ])
}

pub(super) fn link() -> impl TypedValueParser<Value = LinkKind> {
    let help = |kind| match kind {
        LinkKind::Auto => "Ringed where a period holds several packets, else direct",
        LinkKind::Direct => "The device's thread",
        LinkKind::Threaded => "A wire thread",
    };
    one_of(LinkKind::ALL.map(|kind| (kind.name(), help(kind), kind)))
}

/// `None` is `auto`.
pub(crate) type PacingOrAuto = Option<PacingMode>;

pub(super) fn pacing() -> impl TypedValueParser<Value = PacingOrAuto> {
    let help = |mode| match mode {
        PacingMode::Offload => "Launch times, kept by the card",
        PacingMode::Etf => "Launch times, kept by the kernel's etf",
        PacingMode::Fq => "Launch times, kept by the kernel's fq",
        PacingMode::Sleep => "A wire thread that sleeps until each departure",
        PacingMode::Batch => "Nothing: all packets of a period leave at once",
    };
    let auto = "The most regular that a probe finds here, if the latency has room for it";
    let modes = PacingMode::ALL.map(|mode| (mode.name(), help(mode), Some(mode)));
    one_of([("auto", auto, None)].into_iter().chain(modes))
}
