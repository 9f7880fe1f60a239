//! Options whose values are words.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tautline_dsp::format::SampleFormat;
use tautline_engine::plan::pacing::PacingRung;
use tautline_proto::stream::Coding;
use tautline_proto::time::Span;

/// Codings, by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodingName {
    /// 16-bit integers
    L16,
    /// 24-bit integers
    L24,
    /// 32-bit integers, to the 24 bits that count in a float
    L32,
    /// 32-bit floats
    F32,
    /// Opus for any sound: 5ms packets, a tenth of the bits
    Opus,
    /// Opus for speech: 10ms packets, repaired by the next
    OpusVoice,
    /// 16 bits without loss, in about half of them
    Lossless16,
    /// 24 bits without loss, in about two thirds of them
    Lossless24,
}

impl CodingName {
    /// What a line that names none is answered.
    pub(crate) const ALL: &str = "l16, l24, l32, f32, opus, opus-voice, lossless16 or lossless24";

    /// Sound in one packet where nobody says otherwise.
    pub(crate) const fn usual_ptime(self) -> Span {
        match self {
            Self::Opus => Span::from_millis(5),
            Self::OpusVoice => Span::from_millis(10),
            _ => Span::from_millis(1),
        }
    }
}

/// `None` is `auto`: nothing is given. The alias keeps clap from reading it as an option without a value.
pub(crate) type CodingOrAuto = Option<CodingName>;

/// Reads a coding, or `auto`, which a configuration file may need to be overridden by.
pub(super) fn coding_or_auto() -> impl TypedValueParser<Value = CodingOrAuto> {
    let auto = PossibleValue::new("auto")
        .help("send: l24, or f32 for a float file; recv: as announced, or as the packets prove");
    let names = CodingName::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(names.chain([auto]))
        .map(|name| CodingName::from_str(&name, true).ok())
}

impl From<CodingName> for Coding {
    fn from(coding: CodingName) -> Self {
        match coding {
            CodingName::L16 => SampleFormat::L16.into(),
            CodingName::L24 => SampleFormat::L24.into(),
            CodingName::L32 => SampleFormat::L32.into(),
            CodingName::F32 => SampleFormat::F32.into(),
            CodingName::Opus => Self::OPUS,
            CodingName::OpusVoice => Self::OPUS_VOICE,
            CodingName::Lossless16 => Self::LOSSLESS_16,
            CodingName::Lossless24 => Self::LOSSLESS_24,
        }
    }
}

/// Whether packets may be cut into IP fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fragment {
    /// Send them in IP fragments, and say what it costs
    Allow,
    /// Refuse
    Never,
}

/// Who makes the system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinkFlag {
    /// Ringed where a period holds several packets, else direct
    Auto,
    /// The device's thread
    Direct,
    /// A wire thread
    Ringed,
}

impl LinkFlag {
    /// Its word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Ringed => "ringed",
        }
    }
}

/// What spaces packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PacingFlag {
    /// The most regular that a probe finds here, if the latency has room for it
    Auto,
    /// Launch times, kept by the card
    EtfOffload,
    /// Launch times, kept by the kernel's etf
    Etf,
    /// Launch times, kept by the kernel's fq
    Fq,
    /// A wire thread that sleeps until each departure
    Sleep,
    /// Nothing: all packets of a period leave at once
    Batch,
}

impl PacingFlag {
    /// The rung that is asked for.
    pub(crate) const fn rung(self) -> Option<PacingRung> {
        match self {
            Self::Auto => None,
            Self::EtfOffload => Some(PacingRung::Offload),
            Self::Etf => Some(PacingRung::Etf),
            Self::Fq => Some(PacingRung::Fq),
            Self::Sleep => Some(PacingRung::Sleep),
            Self::Batch => Some(PacingRung::Batch),
        }
    }
}
