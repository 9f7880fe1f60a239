//! `taut lab compare`

use tautline_lab::compare::{CompareOptions, Compared, ComparedOutcome, ReadError, ReadReport};

use crate::cmd::answer;
use crate::failure::Failure;
use crate::flags::LabCompare;

pub(crate) fn run(flags: &LabCompare) -> Result<(), Failure> {
    let read = |path| {
        ReadReport::read(path).map_err(|error: ReadError| match error {
            ReadError::System { .. } => Failure::open(error.to_string()),
            ReadError::Other { .. } => Failure::usage(error.to_string()),
        })
    };
    let (first, second) = (read(&flags.first)?, read(&flags.second)?);
    let options = CompareOptions { threshold: flags.threshold };
    let compared = Compared::of(&first, &second, options);
    answer(flags.report, &compared.to_string(), compared.to_json())?;
    judged(&compared, flags).map_or(Ok(()), Err)
}

/// Why the second report does not show that nothing became worse, and the mend.
fn judged(compared: &Compared, flags: &LabCompare) -> Option<Failure> {
    let (first, second) = (flags.first.display(), flags.second.display());
    let because = compared.because.join("; ");
    match compared.outcome {
        ComparedOutcome::Same | ComparedOutcome::Better => None,
        ComparedOutcome::Worse => Some(Failure::running(format!(
            "{second} is worse than {first}: {because}; measure both again to see whether it was the machine"
        ))),
        ComparedOutcome::Undecided => Some(Failure::undecided(format!(
            "whether {second} is worse than {first} is not known: {because}; measure both with one command, \
             for 8 s and longer"
        ))),
    }
}
