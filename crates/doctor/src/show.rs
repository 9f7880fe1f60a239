//! Findings, for people and for programs.

use serde::Serialize;
use tautline_proto::time::Span;

use super::{Finding, Verdict};

impl Verdict {
    /// Of a line, in five columns; capitals catch the eye.
    const fn mark(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Unknown => "?",
            Self::Warns => "warns",
            Self::Spoils => "SPOILS",
        }
    }

    /// The word for programs.
    const fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Unknown => "unknown",
            Self::Warns => "warns",
            Self::Spoils => "spoils",
        }
    }
}

/// Each finding in a line of its own: what, why, and behind `mend: `, `look: ` or `better: ` a command.
pub fn lines(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let Finding { check, verdict, what, why, .. } = finding;
        let mut line = format!("{:<6}  {check}: {what}", verdict.mark());
        if !why.is_empty() {
            line += &format!("; {why}");
        }
        if let Some((does, command)) = command(finding) {
            line += &format!("; {does}: {command}");
        }
        line + "\n"
    };
    findings.iter().map(line).collect()
}

/// The command, and the word for what it does.
fn command(finding: &Finding) -> Option<(&'static str, &str)> {
    let mend = finding.mend().map(|command| ("mend", command));
    let better = || finding.better().map(|command| ("better", command));
    mend.or_else(|| finding.look().map(|command| ("look", command))).or_else(better)
}

/// The same for a terminal: lines are broken where it ends, but for commands, which stay whole so
/// that they can be copied. `wrapped` breaks a text into lines below the end of its first word.
pub fn page(findings: &[Finding], wrapped: fn(&str, &str) -> String) -> String {
    let mut page = String::new();
    for finding in findings {
        let Finding { check, verdict, what, why, .. } = finding;
        let joint = if why.is_empty() { "" } else { ";" };
        let told = format!("{check}: {what}{joint} {why}");
        page += &wrapped(&format!("{:<6}  ", verdict.mark()), &told);
        if let Some((does, command)) = command(finding) {
            page += &format!("        {does}: {command}\n");
        }
    }
    page
}

/// How many there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FindingCounts {
    pub fine: usize,
    pub unknown: usize,
    pub warns: usize,
    pub spoils: usize,
}

impl FindingCounts {
    pub fn of(findings: &[Finding]) -> Self {
        let count = |verdict| findings.iter().filter(|found| found.verdict == verdict).count();
        Self {
            fine: count(Verdict::Fine),
            unknown: count(Verdict::Unknown),
            warns: count(Verdict::Warns),
            spoils: count(Verdict::Spoils),
        }
    }

    pub fn sentence(&self, latency: Span) -> String {
        let Self { fine, unknown, warns, spoils } = self;
        format!("at {latency}: {fine} ok, {warns} warn, {spoils} spoil, {unknown} not to be seen\n")
    }
}

/// What `--report json` says; the names are fixed, as scripts rely on them.
#[derive(Serialize)]
struct DoctorReport<'a> {
    schema: u32,
    latency_ns: i64,
    findings: Vec<Reported<'a>>,
    counts: FindingCounts,
}

#[derive(Serialize)]
struct Reported<'a> {
    check: &'a str,
    verdict: &'static str,
    what: &'a str,
    /// `null` where all is fine.
    why: Option<&'a str>,
    /// A command that mends it, or else one that shows more of it.
    mend: Option<&'a str>,
    look: Option<&'a str>,
    /// A command by which what is fine gets better.
    better: Option<&'a str>,
}

pub fn json(findings: &[Finding], latency: Span) -> serde_json::Result<String> {
    let reported = findings.iter().map(|finding| Reported {
        check: finding.check,
        verdict: finding.verdict.name(),
        what: &finding.what,
        why: (!finding.why.is_empty()).then_some(finding.why.as_str()),
        mend: finding.mend(),
        look: finding.look(),
        better: finding.better(),
    });
    let report = DoctorReport {
        schema: 1,
        latency_ns: latency.as_nanos(),
        findings: reported.collect(),
        counts: FindingCounts::of(findings),
    };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    fn findings() -> Vec<Finding> {
        let why = "a core that slowed down while it waited takes longer for the next period";
        vec![
            Finding::fine("timers", "timers are fine to 1ns"),
            Finding::of(Verdict::Warns, "cpu-frequency", "2 of 2 cores have powersave", why)
                .mended_by("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/x"),
            Finding::of(Verdict::Unknown, "firewall", "only root sees it", "it may drop")
                .seen_by("sudo nft list ruleset"),
        ]
    }

    #[test]
    fn each_finding_is_one_line_that_ends_with_the_command() {
        let text = lines(&findings());
        let lines: Vec<_> = text.lines().collect();
        snapshot!(lines[0]);
        snapshot!(lines[1]);
        snapshot!(lines[2]);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn the_report_for_programs_has_verdicts_and_counts() {
        let text = json(&findings(), Span::from_millis(5)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["latency_ns"], 5_000_000);
        assert_eq!(value["counts"]["warns"], 1);
        assert_eq!(value["findings"][0]["why"], serde_json::Value::Null);
        assert_eq!(value["findings"][2]["verdict"], "unknown");
        let counts = FindingCounts::of(&findings()).sentence(Span::from_millis(5));
        snapshot!(counts);
    }
}
