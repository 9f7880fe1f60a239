use tautline_lab::compare::{CompareOptions, Compared, ComparedOutcome, ReadReport};

/// Never part of a valid report.
const SEPARATOR: u8 = 0;

/// Every probability is between 0 and 1, and a report equals itself.
pub fn lab_report(bytes: &[u8]) {
    let mut reports = bytes.splitn(2, |byte| *byte == SEPARATOR).filter_map(read);
    let Some(first) = reports.next() else { return };
    let itself = compared(&first, &first);
    let known = [ComparedOutcome::Same, ComparedOutcome::Undecided];
    assert!(known.contains(&itself.outcome), "{itself}");
    if let Some(second) = reports.next() {
        compared(&first, &second);
    }
}

fn read(bytes: &[u8]) -> Option<ReadReport> {
    let read = ReadReport::of(bytes);
    if let Err((what, hint)) = &read {
        assert!(!what.is_empty() && !hint.is_empty());
    }
    read.ok()
}

fn compared(first: &ReadReport, second: &ReadReport) -> Compared {
    let compared = Compared::of(first, second, CompareOptions::default());
    assert_eq!(compared.reasons.is_empty(), compared.outcome == ComparedOutcome::Same);
    for figure in compared.rows.iter().flat_map(|row| &row.figures) {
        assert!((0.0..=1.0).contains(&figure.p), "{figure:?}");
        assert!(figure.p_of_all.is_none_or(|all| (figure.p..=1.0).contains(&all)), "{figure:?}");
    }
    assert!(!compared.to_string().is_empty() && compared.to_json().is_ok());
    compared
}
