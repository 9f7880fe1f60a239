//! Runs an experiment's cases in sequence, one row each. A failed case is an invalid row. A lost
//! host ends the experiment.

use crate::hosts::HostError;
use crate::report::{LabReport, ReportRow};
use crate::streams::StreamEnds;

/// `false` ends the experiment.
type TellRow<'a> = &'a mut dyn FnMut(&ReportRow) -> bool;

pub(crate) trait CaseHosts {
    fn replace_silent(&mut self) -> Result<(), HostError>;
}

impl CaseHosts for StreamEnds {
    fn replace_silent(&mut self) -> Result<(), HostError> {
        self.replace_agents()
    }
}

pub(crate) struct Cases<'a> {
    pub(crate) report: LabReport,
    /// Reason why the measured rows do not answer the question.
    pub(crate) unanswered: Option<String>,
    notify: TellRow<'a>,
    over: bool,
}

impl<'a> Cases<'a> {
    pub(crate) fn of(experiment: &'static str, notify: TellRow<'a>) -> Self {
        Self { report: LabReport::asking(experiment), unanswered: None, notify, over: false }
    }

    pub(crate) fn run<H: CaseHosts>(
        &mut self,
        name: &str,
        hosts: &mut H,
        case: impl FnOnce(&mut H) -> Result<ReportRow, HostError>,
    ) {
        match self.attempt(name, hosts, case) {
            Some(Ok(row)) => self.row(row),
            Some(Err(error)) => self.row(ReportRow::invalid(name, error.to_string())),
            None => {}
        }
    }

    /// Runs a case without a row; `None` after the end.
    pub(crate) fn attempt<H: CaseHosts, T>(
        &mut self,
        name: &str,
        hosts: &mut H,
        case: impl FnOnce(&mut H) -> Result<T, HostError>,
    ) -> Option<Result<T, HostError>> {
        if self.over {
            return None;
        }
        let arrived = case(hosts);
        if let Err(error) = &arrived {
            // A late answer could be mistaken for another.
            let gone = match error {
                HostError::Refused { .. } => None,
                HostError::Silent { .. } => hosts.replace_silent().err(),
                _ => Some(error.clone()),
            };
            if let Some(gone) = gone {
                self.note(format!("ended at {name}: {gone}"));
                self.over = true;
            }
        }
        Some(arrived)
    }

    pub(crate) fn row(&mut self, row: ReportRow) {
        let goes_on = (self.notify)(&row);
        let after = row.name.clone();
        self.report.rows.push(row);
        self.requested(goes_on, &after);
    }

    pub(crate) fn requested(&mut self, goes_on: bool, after: &str) {
        if !goes_on && !self.over {
            self.note(format!("stopped after {after}, as requested"));
            self.over = true;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.report.notes.push(note.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Agents {
        replaced: u32,
        answer: Result<(), HostError>,
    }

    impl CaseHosts for Agents {
        fn replace_silent(&mut self) -> Result<(), HostError> {
            self.replaced += 1;
            self.answer.clone()
        }
    }

    fn silent() -> HostError {
        HostError::Silent { place: "ssh:x".to_owned(), seconds: 15 }
    }

    fn refused() -> HostError {
        HostError::Refused { place: "ssh:x".to_owned(), why: "no privilege".to_owned() }
    }

    fn gone() -> HostError {
        HostError::Ended { place: "ssh:x".to_owned(), why: "its power failed".to_owned() }
    }

    fn second(
        arrived: HostError,
        answer: Result<(), HostError>,
    ) -> (Vec<String>, Vec<String>, u32) {
        let mut agents = Agents { replaced: 0, answer };
        let mut notify = |_: &ReportRow| true;
        let mut cases = Cases::of("test", &mut notify);
        let mut arrived = Some(arrived);
        for name in ["first", "second", "third"] {
            cases.run(name, &mut agents, |_| match arrived.take_if(|_| name == "second") {
                Some(error) => Err(error),
                None => Ok(ReportRow::named(name)),
            });
        }
        let invalid = |row: &ReportRow| row.invalid.clone().unwrap_or_default();
        (cases.report.rows.iter().map(invalid).collect(), cases.report.notes, agents.replaced)
    }

    #[test]
    fn failed_case_is_an_invalid_row_and_the_next_case_runs() {
        for (arrived, replaced) in [(refused(), 0), (silent(), 1)] {
            let invalid = [String::new(), arrived.to_string(), String::new()];
            assert_eq!(second(arrived, Ok(())), (invalid.into(), Vec::new(), replaced));
        }
    }

    #[test]
    fn lost_host_ends_the_experiment_with_a_reason() {
        let (invalid, notes, replaced) = second(gone(), Ok(()));
        assert_eq!((invalid.len(), replaced), (2, 0));
        assert_eq!(notes, [format!("ended at second: {}", gone())]);
        let (invalid, notes, replaced) = second(silent(), Err(gone()));
        assert_eq!((&invalid[1], invalid.len(), replaced), (&silent().to_string(), 2, 1));
        assert_eq!(notes, [format!("ended at second: {}", gone())]);
    }

    #[test]
    fn ended_run_keeps_the_current_row_only() {
        let mut agents = Agents { replaced: 0, answer: Ok(()) };
        let mut notify = |row: &ReportRow| row.name != "second";
        let mut cases = Cases::of("test", &mut notify);
        for name in ["first", "second", "third"] {
            cases.run(name, &mut agents, |_| Ok(ReportRow::named(name)));
        }
        assert_eq!((cases.report.rows.len(), cases.is_over()), (2, true));
        assert_eq!(cases.report.notes, ["stopped after second, as requested"]);
        assert!(cases.attempt("third", &mut agents, |_| Ok(())).is_none());
    }
}
