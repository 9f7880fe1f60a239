use core::ffi::c_int;

use tautline_engine::error::RunError;
use tautline_engine::plan::address::AddressError;
use tautline_engine::plan::claim::ClaimError;
use tautline_engine::plan::pacing::PacingRefused;
use tautline_io::link::OpenError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) errno: c_int,
    /// Empty if the error number suffices.
    pub(crate) sentence: String,
}

impl Complaint {
    pub(crate) fn unusable(sentence: impl Into<String>) -> Self {
        Self { errno: libc::EINVAL, sentence: sentence.into() }
    }

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
        Self { errno, sentence: error.to_string() }
    }
}

impl From<ClaimError> for Complaint {
    fn from(error: ClaimError) -> Self {
        let sentence = error.to_string();
        match error {
            ClaimError::Open(error) => error.into(),
            ClaimError::System { error, .. } => {
                Self { errno: error.raw_os_error().unwrap_or(libc::EIO), sentence }
            }
            ClaimError::AllTaken(_) => Self { errno: libc::EADDRINUSE, sentence },
        }
    }
}

impl From<PacingRefused> for Complaint {
    fn from(error: PacingRefused) -> Self {
        Self::unusable(format!("{error}; see `taut doctor`, or remove the key pacing"))
    }
}

impl From<RunError> for Complaint {
    fn from(error: RunError) -> Self {
        Self { errno: libc::EIO, sentence: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_engine::plan::pacing::PacingMode;

    use super::*;

    #[test]
    fn unavailable_pacing_error_names_its_key() {
        let refused = PacingRefused { mode: PacingMode::Etf, why: "there is none".to_owned() };
        let Complaint { errno, sentence } = refused.into();
        assert_eq!(errno, libc::EINVAL);
        snapshot!(sentence);
        assert!(!sentence.contains("--"), "{sentence}");
    }
}
