use std::io::IsTerminal;

use tautline_doctor::{NodeRequirements, Requirements, examine};
use tautline_dsp::format::SampleFormat;
use tautline_proto::latency::{DEFAULT_LATENCY, LatencyRule};
use tautline_proto::stream::{StreamFormat, packet_frames};
use tautline_proto::time::Span;

use tautline_site::{Source, usual_paths};

use super::site::building;
use crate::columns::wrapped;
use crate::failure::Failure;
use crate::flags::{Doctor, PlainKind};
use crate::screen;

pub(crate) fn run(flags: &Doctor) -> Result<(), Failure> {
    let node = node(flags)?;
    let usual = node.as_ref().map_or(DEFAULT_LATENCY, |(_, latency)| *latency);
    let latency = match flags.latency {
        Some(LatencyRule::Chosen(span)) => span,
        None => usual,
        Some(LatencyRule::Auto { .. } | LatencyRule::Usual) => DEFAULT_LATENCY,
    };
    let node = node.map(|(node, _)| node);
    let packet = packet_frames(flags.rate, flags.ptime)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let sample = SampleFormat::L24;
    let format = StreamFormat {
        codec: None,
        rate: flags.rate,
        channels: flags.channels,
        sample,
        packet,
        payload_type: StreamFormat::default_payload_type(sample),
    };
    let report = examine(&Requirements { latency, format }, node.as_ref());
    match flags.report {
        PlainKind::Text if std::io::stdout().is_terminal() => {
            screen::print(&report.text(Some(wrapped)));
        }
        PlainKind::Text => screen::print(&report.text(None)),
        PlainKind::Json => {
            let json = serde_json::to_string_pretty(&report).map(|text| text + "\n");
            screen::print(&json.map_err(|error| Failure::running(error.to_string()))?);
        }
        PlainKind::None => {}
    }
    match report.failures() {
        0 => Ok(()),
        1 => Err(Failure::running(format!("1 finding prevents {latency}: see the line FAILURE"))),
        many => Err(Failure::running(format!(
            "{many} findings prevent {latency}: see the lines FAILURE"
        ))),
    }
}

/// The node, and the latency of its building. `None` without a building file.
fn node(flags: &Doctor) -> Result<Option<(NodeRequirements, Span)>, Failure> {
    let file = &flags.site;
    if file.file.is_none() && !usual_paths().any(|path| path.exists()) {
        return Ok(None);
    }
    let (_, site) = building(file)?;
    let mut groups = vec![site.announcements];
    groups.extend(site.sources.values().filter_map(|source| match source {
        Source::Own { address, .. } => Some(*address),
        Source::Stream(_) => None,
    }));
    let place = site.place(None);
    let has_zones = |name: &str| site.zones.values().any(|zone| zone.node == name);
    if !place.as_ref().is_ok_and(|place| has_zones(&place.name)) {
        groups.clear();
    }
    let place = place.map(|place| (place.name, place.address)).map_err(|why| why.to_string());
    // Only readers wait for the progress.
    let progress: fn(&str) =
        if flags.report == PlainKind::Text { screen::notify } else { |_: &str| {} };
    let node = NodeRequirements { place, groups, observes: flags.observe, progress };
    Ok(Some((node, site.latency)))
}

#[cfg(test)]
mod tests {
    use tautline_doctor::{Finding, Report, Verdict};
    use tautline_trial::{assert_shape, snapshot};

    use super::*;
    use crate::columns::COLUMNS;

    #[test]
    fn on_a_terminal_all_but_commands_is_broken_where_it_ends() {
        let finding = |check, verdict, what: &str, why: &str| Finding {
            reason: Some(why.to_owned()).filter(|why| !why.is_empty()),
            ..Finding {
                check,
                verdict,
                message: what.to_owned(),
                reason: None,
                fix: None,
                details: None,
                improvement: None,
            }
        };
        let timers = finding("timers", Verdict::Passed, "timers have a resolution of 1ns", "");
        let why = "a core that slowed down while idle takes longer for the next period";
        let what = "2 of 2 cores have powersave";
        let fix = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/x".to_owned();
        let frequency = finding("cpu-frequency", Verdict::Warning, what, why);
        let frequency = Finding { fix: Some(fix), ..frequency };
        let firewall = finding("firewall", Verdict::Unknown, "only root sees it", "it may drop");
        let firewall = Finding { details: Some("sudo nft list ruleset".to_owned()), ..firewall };
        let report = Report::new(vec![timers, frequency, firewall], Span::from_millis(5));
        let page = report.text(Some(wrapped));
        let (page, _) = page.split_once("at 5ms:").unwrap();
        let broken = page.lines().filter(|line| !line.contains(": echo "));
        assert!(broken.clone().all(|line| line.chars().count() <= COLUMNS), "{page}");
        assert_eq!(broken.count(), 5, "{page}");
        snapshot!("page", page);
        let json = serde_json::to_string(&report).unwrap();
        assert_shape(crate::help::DOCTOR, "{ \"schema\"", &json);
    }
}
