//! What an application is answered when something cannot be: an error number for it and a sentence
//! for whoever runs it.

use core::ffi::c_int;

use tautline_engine::plan::address::AddressError;
use tautline_engine::watching::run::RunError;
use tautline_io::link::OpenError;

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// Of `errno(3)`, positive.
    pub(crate) errno: c_int,
    /// Ends with the mend; empty where the number alone says it to a program that asks.
    pub(crate) sentence: String,
}

impl Complaint {
    /// It was asked for what cannot be.
    pub(crate) fn unusable(sentence: impl Into<String>) -> Self {
        Self { errno: libc::EINVAL, sentence: sentence.into() }
    }

    /// An answer to the program alone.
    pub(crate) const fn of(errno: c_int) -> Self {
        Self { errno, sentence: String::new() }
    }
}

impl From<AddressError> for Complaint {
    fn from(error: AddressError) -> Self {
        match error {
            AddressError::Unusable(sentence) => Self::unusable(sentence),
            AddressError::NotThere(sentence) => Self { errno: libc::ENXIO, sentence },
        }
    }
}

impl From<OpenError> for Complaint {
    fn from(error: OpenError) -> Self {
        let errno = if error.errno > 0 { error.errno } else { libc::EINVAL };
        // Who configures the PCM has keys of the same names in the place of options.
        Self { errno, sentence: error.to_string().replace("--pacing", "the key pacing") }
    }
}

impl From<RunError> for Complaint {
    fn from(error: RunError) -> Self {
        Self { errno: libc::EIO, sentence: error.to_string() }
    }
}
