//! `taut lab compare`: compares two reports; the exit code is the verdict.

use std::path::PathBuf;

use clap::Args;
use tautline_proto::time::Span;
use tautline_ui::failure::Failure;
use tautline_ui::readers::span;
use tautline_ui::report_file::{FileFormat, ReportFiles, ReportKind};

use crate::answer::Reporting;
use crate::compare::{CompareOptions, Compared, ComparedOutcome, ReadError, ReadReport};
use crate::page;

const SHORT_HELP: &str = r#"Examples:
  taut lab compare last.json this.json
  taut lab compare last.json this.json --threshold 100us

The method, the JSON report and exit status: taut lab compare --help"#;

const HELP: &str = r#"Examples:
  # Is this version slower than the last?
  taut lab compare last.json this.json
  # Ignore differences of less than 100 us:
  taut lab compare last.json this.json --threshold 100us

Both are reports written with --report-file X.json: of the same experiment, or
of the same command (send, recv, call or serve). Rows are matched by name. If
each report has one stream, these two are compared, whatever their names and
settings. Figures that only one report has are listed.

The verdict comes first:
  no difference  none is shown in any figure. A figure is the `same` only if
                 its interval lies within the threshold; otherwise a difference
                 is `not shown`, and may exist
  no regression  no judged figure is worse, but a stage differs
  better         a judged figure is better, and none is worse
  WORSE          a judged figure is worse
  UNDECIDED      none is worse, but not all could be compared
Each stage is listed with its median in both reports and the difference in
milliseconds, with a bar, judged or not.

Judged times are the latency, each stage, and the wake-up lateness of both
devices' threads, relative to the best of the second. Each second of the run
counts with its median and its 99th percentile. The maximum replaces the 99th
percentile if many seconds have fewer than 1000 values. A time differs only if
- chance is unlikely (test of Mann and Whitney),
- the difference is large relative to the scatter of each run (Cliff's delta),
- its 95 % interval (bootstrap) lies beyond --threshold plus the uncertainties
  of both rows. The default threshold is one frame for streams, `delay` and
  `align`, and 0 for rows of microseconds.

Judged counts are missed, late, lost and discarded packets, and the xruns of
both devices. Seconds with any of them are counted (Fisher's exact test), then
the numbers in these seconds (Mann and Whitney). So one burst is no difference.

A report of send, recv, call or serve has only the times of the whole run: its
latency is judged by the median, and its stages are only listed. Misses and
xruns are judged from 8 s on, without their kinds. CPU time is noted if it
differs.

Equal reports rarely seem to differ: 5 of 100 comparisons find any difference
(Holm's correction for many figures).

Not judged are `buffer`, which is the rest of the latency, and differences of up
to a period in `wakeup` and `device` (and in `capture` and `send`, if a packet
is not a period): the phase between two cards differs from run to run. With
other periods or packets, no stage is judged, only misses and xruns. To compare
two such configurations, measure the minimum latency of each (`taut lab
min-latency`).

Two reports do not show whether the program or the machine changed: first
compare two reports of one version, measured one after the other.

For scripts, --report json:
  { "schema": 2, "experiment", "outcome": "same" |
    "no_regression" | "better" | "worse" | "undecided", "reasons": [],
    "tested", "rows": [ { "name", "other_name", "unknown", "lacks": [],
    "gone", "figures": [ { "part": stage | "sender_late" | "receiver_late" |
      null, "key": "p50_ns" | "p99_ns" | "max_ns" | "missed_share" |
      "late_share" | "lost_share" | "underrun_discarded_share" |
      "sender_xruns_per_s" | "receiver_xruns_per_s" | "stalls_per_s", "first",
      "second", "interval", "threshold_ns", "a12", "counted": [ { "count",
      "due", "seconds_with", "seconds" } of each ], "p", "p_of_all", "verdict": "unknown" |
      "follows" | "none" | "less" | "more", "why" } ],
    "stages": [ { "name", "first_ns", "second_ns", "difference_ns",
    "differs" } ], "counters": [ { "name", "first", "second" } ],
    "only_first": [], "only_second": [] } ], "notes": [] }

Exit status: 0 if all shared items were compared and nothing is worse; 1 if
anything is slower or has more misses or xruns, or if a row of the first report
has no values in the second (`gone`); 5 if nothing is known to be worse but
not all could be compared, such as rows shorter than 8 seconds, different
configured latencies, periods or packets, or two experiments; 2 if a file is not such a report; 3 if
it cannot be opened.

The column `more` (`a12` in JSON, by Vargha and Delaney) is how often the second
report has more, if a second of each is drawn: 0.5 for equal reports."#;

/// `taut lab compare`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct CompareFlags {
    /// Reference report (JSON)
    #[arg(value_name = "A.json")]
    first: PathBuf,
    /// Report to check (JSON)
    #[arg(value_name = "B.json")]
    second: PathBuf,
    /// Ignore time differences up to this [default: for streams, one frame]
    #[arg(long, value_name = "TIME", value_parser = span)]
    threshold: Option<Span>,
    #[command(flatten)]
    reporting: Reporting,
}

pub(crate) fn run(flags: &CompareFlags) -> Result<(), Failure> {
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
            "cannot compare {} ({one}) with {} ({other})\nhint: use two reports of the same \
             command",
            flags.first.display(),
            flags.second.display()
        )));
    }
    let options = CompareOptions { threshold: flags.threshold };
    let compared = Compared::of(&first, &second, options);
    files.write_and_print(flags.reporting.report, |format| match format {
        FileFormat::Html => Ok(page::compared(&compared)),
        FileFormat::Svg => Ok(page::compared_charts(&compared)),
        FileFormat::Txt => Ok(compared.to_string()),
        FileFormat::Json | FileFormat::Csv => {
            compared.to_json().map_err(|error| Failure::running(error.to_string()))
        }
    })?;
    judged(&compared, flags).map_or(Ok(()), Err)
}

/// Without a message if the printed text begins with it.
fn judged(compared: &Compared, flags: &CompareFlags) -> Option<Failure> {
    let (first, second) = (flags.first.display(), flags.second.display());
    let reasons = compared.reasons.join("; ");
    let failure = match compared.outcome {
        ComparedOutcome::Same | ComparedOutcome::NoRegression | ComparedOutcome::Better => {
            return None;
        }
        ComparedOutcome::Worse => Failure::running(format!(
            "{second} is worse than {first}: {reasons}\nhint: repeat both measurements to rule out \
             the machine"
        )),
        ComparedOutcome::Undecided => Failure::undecided(format!(
            "unknown whether {second} is worse than {first}: {reasons}\nhint: {}",
            compared.hint()
        )),
    };
    Some(match flags.reporting.report {
        ReportKind::Text => failure.already_shown(),
        ReportKind::Json | ReportKind::Html | ReportKind::None => failure,
    })
}

#[cfg(test)]
mod tests {
    use tautline_trial::assert_shape;

    use super::*;
    use crate::compare::{
        ComparedCount, ComparedFigure, ComparedRow, ComparedStage, SecondsCounted,
    };

    #[test]
    fn help_gives_the_shape_of_the_json() {
        let counted = SecondsCounted { count: 1, due: 2, seconds_with: 1, seconds: 8 };
        let figure = ComparedFigure { counted: Some([counted; 2]), ..ComparedFigure::default() };
        let stage = ComparedStage {
            name: "wire".to_owned(),
            first_ns: None,
            second_ns: None,
            difference_ns: None,
            differs: false,
        };
        let row = ComparedRow {
            figures: vec![figure],
            stages: vec![stage],
            counters: vec![ComparedCount { name: "late".to_owned(), first: 1, second: 2 }],
            ..ComparedRow::default()
        };
        let compared = Compared {
            schema: 2,
            experiment: "latency-sweep".to_owned(),
            outcome: ComparedOutcome::Same,
            reasons: Vec::new(),
            tested: 1,
            rows: vec![row],
            notes: Vec::new(),
        };
        assert_shape(HELP, "{ \"schema\"", &compared.to_json().unwrap());
    }
}
