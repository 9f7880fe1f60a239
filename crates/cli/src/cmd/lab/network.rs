//! `taut lab network`

use tautline_lab::network::{self, NetworkPart, PARTS};
use tautline_lab::report::LabReport;
use tautline_lab::traffic::{self, TrafficEnd};

use super::answer::ExperimentAnswer;
use super::ends::{line, over, plan};
use super::stop_with_agent;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{Network, Watching};
use crate::screen;

pub(crate) fn run(flags: &Network) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    let all = || PARTS.iter().filter_map(|name| name.parse().ok()).collect::<Vec<NetworkPart>>();
    let parts = if flags.only.is_empty() { all() } else { flags.only.clone() };
    let parts: Vec<_> = parts.into_iter().map(|part| part.with_tcp(flags.tcp_rate)).collect();
    let mut left: usize = parts.iter().map(NetworkPart::streams).sum();
    let (plan, load) = (plan(&flags.streams), flags.busy.load.as_ref());
    let asked = LabReport::of("network", network::QUESTION);
    over(&flags.streams.far.with, asked, answer, &stop, |ends, answer| {
        network::run(ends, &plan, &parts, load, |row| {
            left -= 1;
            answer.tell(&format!("{}; {left} more", line(row)));
            !stop.is_requested()
        })
    })
}

/// `taut lab traffic`
pub(crate) fn watch(flags: &Watching) -> Result<(), Failure> {
    let end = match (flags.to, flags.at) {
        (Some(to), _) => TrafficEnd::To(to),
        (None, Some(at)) => TrafficEnd::At(at),
        (None, None) => return Err(Failure::usage("give --to or --at".to_owned())),
    };
    let stop = stop_with_agent()?;
    let watched = traffic::watch(end, &stop, || screen::tell("interfaces are watched"));
    let json = serde_json::to_string(&watched).map_err(|e| Failure::running(e.to_string()))?;
    screen::print(&(json + "\n"));
    Ok(())
}
