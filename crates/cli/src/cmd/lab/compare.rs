//! `taut lab compare`

use tautline_lab::compare::{Compared, ReadError, ReadReport};

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
    let compared = Compared::of(&first, &second);
    answer(flags.report, &compared.to_string(), compared.to_json())?;
    judged(&compared, flags).map_or(Ok(()), |why| Err(Failure::running(why)))
}

/// Why the second report does not show that nothing became worse, and the mend.
fn judged(compared: &Compared, flags: &LabCompare) -> Option<String> {
    let (first, second) = (flags.first.display(), flags.second.display());
    if compared.is_regression() {
        let worse = compared.worse().join(", ");
        return Some(format!("{second} is worse than {first} in {worse}"));
    }
    let gone = compared.gone();
    if !gone.is_empty() {
        let gone = gone.join(", ");
        return Some(format!(
            "{second} has measured nothing of {gone}, which {first} has: measure it again as {first} was"
        ));
    }
    (!compared.says_something()).then(|| {
        format!(
            "nothing of {first} and {second} could be compared, as is said above: measure both with one \
             command, for 8 s and longer"
        )
    })
}
