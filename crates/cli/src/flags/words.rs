//! Options whose values are words.

use clap::ValueEnum;
use tautline_dsp::format::SampleFormat;
use tautline_engine::plan::pacing::PacingRung;

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
}

impl From<CodingName> for SampleFormat {
    fn from(coding: CodingName) -> Self {
        match coding {
            CodingName::L16 => Self::L16,
            CodingName::L24 => Self::L24,
            CodingName::L32 => Self::L32,
            CodingName::F32 => Self::F32,
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
