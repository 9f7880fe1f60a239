//! `taut lab network`

use std::fs::File;

use tautline_lab::network::{self, NetworkPart, PARTS};
use tautline_lab::report::{LabReport, ReportRow};
use tautline_lab::traffic::{self, TrafficEnd};

use super::answer::ExperimentAnswer;
use super::ends::{line, over, plan};
use super::interval::unread;
use super::stop_with_agent;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{Network, Watching};
use crate::screen;

pub(crate) fn run(flags: &Network) -> Result<(), Failure> {
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    if let Some(path) = &flags.pcap {
        let file = File::open(path).map_err(|error| unread(path, &error))?;
        return answer.give(network::of_capture(file));
    }
    let stop = stop_on_signals()?;
    let all = || PARTS.iter().filter_map(|name| name.parse().ok()).collect::<Vec<NetworkPart>>();
    let parts = if flags.only.is_empty() { all() } else { flags.only.clone() };
    let parts: Vec<_> = parts.into_iter().map(|part| part.with_tcp(flags.tcp_rate)).collect();
    let mut left: usize = parts.iter().map(NetworkPart::cases).sum();
    let (plan, load) = (plan(&flags.streams), flags.busy.load.as_ref());
    let asked = LabReport::of("network", network::QUESTION);
    over(&flags.streams.far.with, asked, answer, &stop, |ends, answer| {
        network::run(ends, &plan, &parts, load, |row| {
            left -= 1;
            answer.tell(&format!("{}; {left} more", carried(row).unwrap_or_else(|| line(row))));
            !stop.is_requested()
        })
    })
}

/// Of ambient traffic, how much there was.
fn carried(row: &ReportRow) -> Option<String> {
    let figure = |key| row.figures.iter().find(|figure| figure.key == key)?.value.as_f64();
    let (packets, megabits) = (figure("packets_per_s")?, figure("mbit_per_s")?);
    Some(format!("{}: {packets:.1} packets/s, {megabits:.3} Mbit/s", row.name))
}

pub(crate) fn watch(flags: &Watching) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let begun = || screen::tell("interfaces are watched");
    let end = match (flags.to, flags.at) {
        (Some(to), _) => Some(TrafficEnd::To(to)),
        (None, at) => at.map(TrafficEnd::At),
    };
    let json = match end {
        Some(end) => serde_json::to_string(&traffic::watch(end, &stop, begun)),
        None => {
            let ambient = traffic::watch_ambient(&stop, begun).map_err(Failure::open)?;
            serde_json::to_string(&ambient)
        }
    };
    let json = json.map_err(|e| Failure::running(e.to_string()))?;
    screen::print(&(json + "\n"));
    Ok(())
}
