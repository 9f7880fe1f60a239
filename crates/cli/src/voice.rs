//! How much a run says on standard error.

use clap::Args;
use indicatif::ProgressDrawTarget;

use crate::screen;

/// The two options that say it.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct VoiceFlags {
    /// Say nothing but errors: no live line, no notes, and no report unless --report asks for one
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Say as it comes what is decided and what goes on: sockets, device, clocks, resyncs
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
}

impl VoiceFlags {
    pub(crate) fn voice(self) -> Voice {
        match self {
            Self { quiet: true, .. } => Voice::Quiet,
            Self { verbose: true, .. } => Voice::Verbose,
            _ => Voice::Usual,
        }
    }
}

/// How much is said. Errors, and answers to what was asked, are said by any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// Errors alone.
    Quiet,
    /// What a user should know.
    Usual,
    /// What an engineer wants to see, too.
    Verbose,
}

impl Voice {
    /// Tells what a user should know.
    pub(crate) fn tell(self, sentence: &str) {
        if self != Self::Quiet {
            screen::tell(sentence);
        }
    }

    /// Tells what an engineer wants to see.
    pub(crate) fn detail(self, sentence: &str) {
        if self == Self::Verbose {
            screen::tell(sentence);
        }
    }

    /// Where live lines go.
    pub(crate) fn target(self) -> ProgressDrawTarget {
        match self {
            Self::Quiet => ProgressDrawTarget::hidden(),
            Self::Usual | Self::Verbose => screen::target(),
        }
    }
}
