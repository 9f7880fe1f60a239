use core::fmt;

use super::outcome::{is_reported, some};
use super::stages::signed_ms;
use super::{
    CHANCE, Compared, ComparedCount, ComparedFigure, ComparedOutcome, ComparedRow, ComparedStage,
    ComparedVerdict,
};
use crate::report::text::{aligned, nanos, share};
use crate::report::{RECEIVER_LATE, SENDER_LATE};
use crate::statistics::CHANCE as ALONE;

/// Maximum rows with all figures. With more rows, only differing or unknown figures are shown.
const ALL_SHOWN: usize = 1;

const MEASURE_AGAIN: &str = "measure both with the same command for at least 8 s";
const OTHER_SETTINGS: &str = "the settings differ: read the table of stages, or compare the minimum latency of both \
     (taut lab min-latency)";

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "verdict: {}", self.verdict())?;
        if self.outcome == ComparedOutcome::Undecided {
            writeln!(f, "hint: {}", self.hint())?;
        }
        writeln!(f, "\n{}: the second report against the first", self.experiment)?;
        let compared = self.rows.iter().filter(|row| !row.figures.is_empty()).count();
        for row in &self.rows {
            of_row(f, row, compared <= ALL_SHOWN)?;
        }
        let explained = self.figures().any(|figure| figure.a12.is_some());
        if explained || !self.notes.is_empty() {
            writeln!(f)?;
        }
        if explained {
            writeln!(
                f,
                "note: difference: between the medians of seconds, with its 95 % interval; \
                 ignored up to the threshold\nnote: more: probability that a random second of \
                 the second report has a higher value than one of the first\nnote: chance: for any of {} figures that could differ; \
                 reported below {CHANCE}, and alone below {ALONE}\nnote: verdict: `same` if the interval lies within the \
                 threshold; a difference that is `not shown` may exist",
                self.tested
            )?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

impl Compared {
    /// Fix for an undecided comparison.
    pub(crate) fn hint(&self) -> &'static str {
        let is_short = self.figures().any(|figure| figure.verdict == ComparedVerdict::Unknown);
        match !is_short && self.figures().any(ComparedFigure::is_of_settings) {
            true => OTHER_SETTINGS,
            false => MEASURE_AGAIN,
        }
    }

    pub(crate) fn verdict(&self) -> String {
        let reasons = self.reasons.join("; ");
        match self.outcome {
            ComparedOutcome::Same => {
                let judged = |figure: &&ComparedFigure| figure.verdict == ComparedVerdict::None;
                match self.figures().filter(judged).count() {
                    1 => "no difference shown in the one shared figure".to_owned(),
                    all => format!("no difference shown in any of {all} figures"),
                }
            }
            ComparedOutcome::NoRegression => {
                format!("no regression: no figure is worse; medians of stages differ in {reasons}")
            }
            ComparedOutcome::Better => {
                format!("better: the second report is better in {reasons}; nothing is worse")
            }
            ComparedOutcome::Worse => format!("WORSE: the second report is worse in {reasons}"),
            ComparedOutcome::Undecided => format!(
                "UNDECIDED: nothing is known to be worse, but not everything could be compared: \
                 {reasons}"
            ),
        }
    }
}

fn of_row(f: &mut fmt::Formatter<'_>, row: &ComparedRow, all: bool) -> fmt::Result {
    let name = row.title();
    if let Some(why) = &row.unknown {
        return writeln!(f, "\n{name}: unknown: {why}");
    }
    writeln!(f, "\n{name}")?;
    let shown = |figure: &ComparedFigure| {
        all || is_reported(figure) || figure.verdict == ComparedVerdict::Unknown
    };
    let lines = row.table(shown);
    let hidden = row.figures.len() + 1 - lines.len();
    if lines.len() > 1 {
        for line in aligned(&lines) {
            writeln!(f, "  {line}")?;
        }
    }
    match hidden {
        0 => {}
        hidden if lines.len() > 1 => {
            writeln!(f, "  and {hidden} with no difference shown: --report json has all")?;
        }
        1 => writeln!(f, "  1 figure with no difference shown: --report json has it")?,
        hidden => {
            writeln!(f, "  {hidden} figures with no difference shown: --report json has all")?
        }
    }
    stages(f, row)?;
    row.sentences().iter().try_for_each(|sentence| writeln!(f, "  {sentence}"))
}

const BAR: usize = 20;

fn stages(f: &mut fmt::Formatter<'_>, row: &ComparedRow) -> fmt::Result {
    if row.stages.is_empty() {
        return Ok(());
    }
    let differences = row.stages.iter().filter_map(|stage| stage.difference_ns);
    let greatest = differences.map(i64::unsigned_abs).max().unwrap_or(0).max(1);
    writeln!(f, "  stage by stage (medians; second minus first):")?;
    let heads = ["stage", "first", "second", "difference"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    for stage in &row.stages {
        let known = |nanos: Option<i64>| {
            nanos.map_or("–".to_owned(), |nanos| format!("{:.3} ms", nanos as f64 / 1e6))
        };
        let difference = stage.difference_ns.map_or("–".to_owned(), signed_ms);
        lines.push(vec![
            stage.name.clone(),
            known(stage.first_ns),
            known(stage.second_ns),
            difference,
        ]);
    }
    let mut lines = aligned(&lines).into_iter();
    writeln!(f, "    {}", lines.next().unwrap_or_default())?;
    for (line, stage) in lines.zip(&row.stages) {
        let length = |nanos: i64| {
            let share = nanos.unsigned_abs() as f64 / greatest as f64;
            (share * BAR as f64).round() as usize
        };
        let bar = match stage.difference_ns {
            Some(less @ ..0) => format!("{:>BAR$}│", "█".repeat(length(less))),
            Some(more) => format!("{:>BAR$}│{}", "", "█".repeat(length(more))),
            None => String::new(),
        };
        writeln!(f, "{}", format!("    {line}  {bar}").trim_end())?;
    }
    Ok(())
}

fn reasons(row: &ComparedRow) -> Vec<(ComparedVerdict, Vec<String>, &str)> {
    let mut all: Vec<(ComparedVerdict, Vec<String>, &str)> = Vec::new();
    for figure in &row.figures {
        let Some(why) = figure.why.as_deref() else { continue };
        match all.iter_mut().find(|(verdict, _, known)| (*verdict, *known) == (figure.verdict, why))
        {
            Some((_, figures, _)) => figures.push(row.words(figure)),
            None => all.push((figure.verdict, vec![row.words(figure)], why)),
        }
    }
    all
}

impl ComparedRow {
    pub(crate) fn table(&self, shown: impl Fn(&ComparedFigure) -> bool) -> Vec<Vec<String>> {
        let heads =
            ["figure", "first", "second", "difference", "threshold", "more", "chance", "verdict"];
        let shown = self.figures.iter().filter(|figure| shown(figure));
        let lines = shown.map(|figure| cells(self, figure));
        core::iter::once(heads.map(str::to_owned).to_vec()).chain(lines).collect()
    }

    /// Change of the minimum latency, if settings differ: of all stages but `buffer`.
    fn minimum_changes(&self) -> Option<String> {
        self.figures.iter().find(|figure| figure.is_of_settings())?;
        let others = self.stages.iter().filter(|stage| stage.name != "buffer");
        let differs = |stage: &ComparedStage| Some((stage.differs, stage.difference_ns?));
        let all: Option<Vec<_>> = others.map(differs).collect();
        let all = all?;
        all.iter().find(|(differs, _)| *differs)?;
        let sum = all.iter().fold(0, |sum: i64, (_, nanos)| sum.saturating_add(*nanos));
        Some(format!(
            "stages other than buffer: {}; the minimum latency changes by about as much, but wakeup and device \
             (and capture and send, if a packet is not a period) vary by up to a period between runs",
            signed_ms(sum)
        ))
    }

    /// Unjudged items with reasons, counts, and items of only one report.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let unknown = self.unknown.iter().map(|why| format!("unknown: {why}"));
        let reasons = reasons(self).into_iter().map(|(verdict, figures, why)| {
            let verdict =
                if verdict == ComparedVerdict::Unknown { "unknown" } else { "not judged" };
            format!("{} {verdict} ({why})", some(&figures))
        });
        let lacks = self.lacks.iter().map(|what| format!("not compared: {what}"));
        let counted = self.counters.iter().map(|ComparedCount { name, first, second }| {
            let more = i128::from(*second) - i128::from(*first);
            format!("counted: {name} {first} in the first, {second} in the second ({more:+})")
        });
        let only = [("first", &self.only_first), ("second", &self.only_second)];
        let only = only
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(which, names)| format!("only the {which} report has: {}", names.join(", ")));
        let unknown = unknown.chain(self.minimum_changes());
        unknown.chain(reasons).chain(lacks).chain(counted).chain(only).collect()
    }

    pub(super) fn words(&self, figure: &ComparedFigure) -> String {
        let beside_parts = self.figures.iter().any(|figure| figure.part.is_some());
        figure.words(beside_parts)
    }

    pub(crate) fn title(&self) -> String {
        match &self.other_name {
            Some(other) => format!("{} against {other}", self.name),
            None => self.name.clone(),
        }
    }
}

impl ComparedFigure {
    fn words(&self, beside_parts: bool) -> String {
        let part = match self.part.as_deref() {
            None if beside_parts => "latency ",
            None => "",
            Some(SENDER_LATE) => "sender woke late, ",
            Some(RECEIVER_LATE) => "receiver woke late, ",
            Some(part) => &format!("{part} "),
        };
        match self.key {
            "p50_ns" => format!("{part}p50"),
            "p99_ns" => format!("{part}p99"),
            "max_ns" => format!("{part}max"),
            "missed_share" => "missed".to_owned(),
            "late_share" => "late".to_owned(),
            "lost_share" => "lost".to_owned(),
            "underrun_discarded_share" => "discarded by underruns".to_owned(),
            "stalls_per_s" => "stalls".to_owned(),
            "sender_xruns_per_s" => "sender's xruns".to_owned(),
            _ => "receiver's xruns".to_owned(),
        }
    }

    fn is_time(&self) -> bool {
        self.threshold_ns.is_some()
    }
}

fn cells(row: &ComparedRow, figure: &ComparedFigure) -> Vec<String> {
    let nanos = |value: f64| nanos(value.round() as i64);
    let signed = |value: f64| if value > 0.0 { format!("+{}", nanos(value)) } else { nanos(value) };
    let value = |at: usize, value: f64| match (figure.is_time(), &figure.counted) {
        (true, _) => nanos(value),
        (false, Some(counted)) => {
            let of = counted[at];
            match of.count {
                0 => "0".to_owned(),
                count => format!("{count} in {} of {} s", of.seconds_with, of.seconds),
            }
        }
        (false, None) if value == 0.0 => "0".to_owned(),
        (false, None) => share(value),
    };
    let difference = match figure.interval {
        Some([from, to]) => {
            let middle = signed(figure.second - figure.first);
            format!("{middle} ({} to {})", signed(from), signed(to))
        }
        None if figure.is_time() => signed(figure.second - figure.first),
        None => String::new(),
    };
    let judged = !matches!(figure.verdict, ComparedVerdict::Unknown | ComparedVerdict::Follows);
    let minimum = figure.threshold_ns.filter(|_| judged).map_or(String::new(), nanos);
    let a12 = figure.a12.map_or(String::new(), |a12| format!("{a12:.2}"));
    let chance = figure.p_of_all.map_or(String::new(), chance);
    let (first, second) = (value(0, figure.first), value(1, figure.second));
    vec![row.words(figure), first, second, difference, minimum, a12, chance, verdict(figure)]
}

fn verdict(figure: &ComparedFigure) -> String {
    let [less, more] = if figure.is_time() { ["faster", "SLOWER"] } else { ["fewer", "MORE"] };
    match figure.verdict {
        ComparedVerdict::Unknown => "unknown".to_owned(),
        ComparedVerdict::Follows => "not judged".to_owned(),
        ComparedVerdict::None if is_within_threshold(figure) => "same".to_owned(),
        ComparedVerdict::None => "not shown".to_owned(),
        ComparedVerdict::Less => less.to_owned(),
        ComparedVerdict::More => more.to_owned(),
    }
}

/// A difference that is not shown may exist, unless its interval excludes one beyond the threshold.
fn is_within_threshold(figure: &ComparedFigure) -> bool {
    let both = figure.interval.zip(figure.threshold_ns);
    both.is_some_and(|(interval, threshold)| interval.iter().all(|end| end.abs() <= threshold))
}

fn chance(p: f64) -> String {
    if p >= 0.001 { format!("{p:.3}") } else { format!("{p:.0e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interval_within_the_threshold_is_the_same() {
        let same = |interval, threshold_ns| {
            is_within_threshold(&ComparedFigure {
                interval,
                threshold_ns,
                ..ComparedFigure::default()
            })
        };
        assert!(same(Some([-10.0, 9.0]), Some(10.0)));
        assert!(!same(Some([-11.0, 9.0]), Some(10.0)));
        assert!(!same(Some([-1.0, 11.0]), Some(10.0)));
        // Counts have no interval.
        assert!(!same(None, None));
    }
}
