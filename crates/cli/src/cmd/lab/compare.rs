//! `taut lab compare`

use tautline_lab::compare::{CompareOptions, Compared, ComparedOutcome, ReadError, ReadReport};
use tautline_lab::page;

use crate::failure::Failure;
use crate::flags::{LabCompare, ReportKind};
use crate::report_file::{FileFormat, ReportFiles};
use crate::screen;

pub(crate) fn run(flags: &LabCompare) -> Result<(), Failure> {
    let read = |path| {
        ReadReport::read(path).map_err(|error: ReadError| match error {
            ReadError::System { .. } => Failure::open(error.to_string()),
            ReadError::Other { .. } => Failure::usage(error.to_string()),
        })
    };
    let files = ReportFiles::create(&flags.reporting.report_file)?;
    let (first, second) = (read(&flags.first)?, read(&flags.second)?);
    if let Some([one, other]) = first.commands_that_differ(&second) {
        return Err(Failure::undecided(format!(
            "{} is a report of taut {one}, {} of taut {other}: they cannot be compared; give two \
             reports of one command",
            flags.first.display(),
            flags.second.display()
        )));
    }
    let options = CompareOptions { threshold: flags.threshold };
    let compared = Compared::of(&first, &second, options);
    let json = || compared.to_json().map_err(|error| Failure::running(error.to_string()));
    let written = files.write(|format| match format {
        FileFormat::Html => Ok(page::compared(&compared)),
        FileFormat::Svg => Ok(page::compared_charts(&compared)),
        FileFormat::Txt => Ok(compared.to_string()),
        FileFormat::Json | FileFormat::Csv => json(),
    });
    match flags.reporting.report {
        ReportKind::Text => screen::print(&compared.to_string()),
        ReportKind::Json => screen::print(&json()?),
        ReportKind::Html => screen::print(&page::compared(&compared)),
        ReportKind::None => {}
    }
    written?;
    judged(&compared, flags).map_or(Ok(()), Err)
}

/// Why the second report does not show that nothing became worse, and the mend.
fn judged(compared: &Compared, flags: &LabCompare) -> Option<Failure> {
    let (first, second) = (flags.first.display(), flags.second.display());
    let because = compared.because.join("; ");
    match compared.outcome {
        ComparedOutcome::Same | ComparedOutcome::NoRegression | ComparedOutcome::Better => None,
        ComparedOutcome::Worse => Some(Failure::running(format!(
            "{second} is worse than {first}: {because}; measure both again to see whether it was the machine"
        ))),
        ComparedOutcome::Undecided => Some(Failure::undecided(format!(
            "whether {second} is worse than {first} is not known: {because}; measure both with one command, \
             for 8 s and longer"
        ))),
    }
}
