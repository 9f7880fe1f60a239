//! `taut doctor`

use std::io::IsTerminal;

use tautline_doctor::{FindingCounts, Requirements, examine, json, lines, page};
use tautline_dsp::format::SampleFormat;
use tautline_proto::latency::{DEFAULT_LATENCY, LatencyRule};
use tautline_proto::stream::{StreamFormat, packet_frames};

use crate::columns::wrapped;
use crate::failure::Failure;
use crate::flags::{Doctor, PlainKind};
use crate::screen;

pub(crate) fn run(flags: &Doctor) -> Result<(), Failure> {
    let latency = match flags.latency {
        LatencyRule::Chosen(span) => span,
        // As `taut send` promises where nobody says otherwise.
        LatencyRule::Auto { .. } | LatencyRule::Usual => DEFAULT_LATENCY,
    };
    let packet = packet_frames(flags.rate, flags.ptime)
        .map_err(|error| Failure::usage(error.to_string()))?;
    // The coding that is sent by default.
    let sample = SampleFormat::L24;
    let format = StreamFormat {
        coder: None,
        rate: flags.rate,
        channels: flags.channels,
        sample,
        packet,
        payload_type: StreamFormat::default_payload_type(sample),
    };
    let findings = examine(&Requirements { latency, format });
    let counts = FindingCounts::of(&findings);
    match flags.report {
        PlainKind::Text if std::io::stdout().is_terminal() => {
            screen::print(&(page(&findings, wrapped) + &counts.sentence(latency)));
        }
        PlainKind::Text => screen::print(&(lines(&findings) + &counts.sentence(latency))),
        PlainKind::Json => {
            let text = json(&findings, latency);
            screen::print(&text.map_err(|error| Failure::running(error.to_string()))?);
        }
        PlainKind::None => {}
    }
    match counts.spoils {
        0 => Ok(()),
        1 => Err(Failure::running(format!(
            "one thing here would spoil sound at {latency}: see the line SPOILS"
        ))),
        many => Err(Failure::running(format!(
            "{many} things here would spoil sound at {latency}: see the lines SPOILS"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use tautline_doctor::{Finding, Remedy, Verdict};
    use tautline_trial::snapshot;

    use super::*;
    use crate::columns::COLUMNS;

    #[test]
    fn on_a_terminal_all_but_commands_is_broken_where_it_ends() {
        let finding = |verdict, check, what: &str, why: &str, command| Finding {
            check,
            verdict,
            what: what.to_owned(),
            why: why.to_owned(),
            command,
        };
        let mend = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/x";
        let findings = [
            finding(Verdict::Fine, "timers", "timers are fine to 1ns", "", None),
            finding(
                Verdict::Warns,
                "cpu-frequency",
                "2 of 2 cores have powersave",
                "a core that slowed down while it waited takes longer for the next period",
                Some(Remedy::Mend(mend.to_owned())),
            ),
            finding(
                Verdict::Unknown,
                "firewall",
                "only root sees it",
                "it may drop",
                Some(Remedy::Look("sudo nft list ruleset".to_owned())),
            ),
        ];
        let page = page(&findings, wrapped);
        let broken = page.lines().filter(|line| !line.contains(": echo "));
        assert!(broken.clone().all(|line| line.chars().count() <= COLUMNS), "{page}");
        assert_eq!(broken.count(), 5, "{page}");
        snapshot!(page);
    }
}
