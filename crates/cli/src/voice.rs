//! Verbosity of a run on standard error.

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
        Voice::asked_for(self.quiet, self.verbose)
    }
}

/// The same two of a worker, which has no live line, no report and no device.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WorkVoiceFlags {
    /// Say nothing but errors and where it listens: not who opens streams and what becomes of them, nor who is
    /// turned away
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more: why libraries are left out, and of each stream its UDP port, its longest run and its share of a core
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
}

impl WorkVoiceFlags {
    pub(crate) fn voice(self) -> Voice {
        Voice::asked_for(self.quiet, self.verbose)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// Errors only.
    Quiet,
    /// Information for users.
    Usual,
    /// Also details for engineers.
    Verbose,
}

impl Voice {
    const fn asked_for(quiet: bool, verbose: bool) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Verbose,
            (false, false) => Self::Usual,
        }
    }

    /// Prints information for users.
    pub(crate) fn tell(self, sentence: &str) {
        if self != Self::Quiet {
            screen::tell(sentence);
        }
    }

    /// Prints details for engineers.
    pub(crate) fn detail(self, sentence: &str) {
        if self == Self::Verbose {
            screen::tell(sentence);
        }
    }

    pub(crate) fn target(self) -> ProgressDrawTarget {
        match self {
            Self::Quiet => ProgressDrawTarget::hidden(),
            Self::Usual | Self::Verbose => screen::target(),
        }
    }
}
