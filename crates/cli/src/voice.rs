use clap::Args;
use indicatif::ProgressDrawTarget;
use tautline_report::text::Detail;

use crate::screen;

/// `--quiet` and `--verbose`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct VoiceFlags {
    /// Print errors only
    ///
    /// No live line and no notes; no report without --report.
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Print details: sockets, devices, clocks, resyncs
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
    /// Print only errors and the address
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Print details of libraries and streams
    ///
    /// Skipped libraries, and UDP port, longest run and processor time of each stream.
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
    /// Information for users, and details for engineers.
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

    pub(crate) const fn report_detail(self) -> Detail {
        match self {
            Self::Verbose => Detail::Full,
            Self::Quiet | Self::Usual => Detail::Summary,
        }
    }

    pub(crate) fn notify(self, sentence: &str) {
        if self != Self::Quiet {
            screen::notify(sentence);
        }
    }

    pub(crate) fn detail(self, sentence: &str) {
        if self == Self::Verbose {
            screen::notify(sentence);
        }
    }

    pub(crate) fn target(self) -> ProgressDrawTarget {
        match self {
            Self::Quiet => ProgressDrawTarget::hidden(),
            Self::Usual | Self::Verbose => screen::target(),
        }
    }
}
