//! `taut lab interval`

use std::fs::{File, read};
use std::path::Path;

use tautline_engine::plan::address::Address;
use tautline_engine::plan::pacing::PacingRung;
use tautline_io::udp::UdpOptions;
use tautline_lab::interval::{
    IntervalListener, ListenOptions, QUESTION, climb, of_capture, of_ledger,
};
use tautline_lab::report::LabReport;
use tautline_lab::streams::LabStream;

use super::answer::ExperimentAnswer;
use super::ends::over;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::IntervalFlags;

/// As many packets a second as the socket's buffer is laid out for: those of 125 µs.
const PACKETS_PER_SECOND: u32 = 8000;

pub(crate) fn run(flags: &IntervalFlags) -> Result<(), Failure> {
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    if flags.rungs {
        return by_rungs(flags, answer);
    }
    let report = match (&flags.ledger, &flags.pcap, &flags.listen) {
        (Some(path), _, _) => {
            let bytes = read(path).map_err(|error| unread(path, &error))?;
            // What is no text has no columns of a ledger, and that is said of it.
            of_ledger(&String::from_utf8_lossy(&bytes), flags.rate)
        }
        (_, Some(path), _) => {
            let file = File::open(path).map_err(|error| unread(path, &error))?;
            of_capture(file, flags.rate)
        }
        (_, _, Some(address)) => heard(flags, address, &answer)?,
        _ => return Err(Failure::usage("give one of --ledger, --pcap, --listen and --rungs")),
    };
    answer.give(report)
}

/// Each rung of the ladder in turn.
fn by_rungs(flags: &IntervalFlags, answer: ExperimentAnswer) -> Result<(), Failure> {
    let plan = LabStream {
        rate: flags.rate.hertz(),
        ptime: flags.ptime,
        period: flags.period,
        latency: flags.latency,
        duration: flags.duration,
        at: flags.far.at,
        ..LabStream::default()
    };
    let mut rungs =
        if flags.pacing.is_empty() { PacingRung::ALL.to_vec() } else { flags.pacing.clone() };
    // The least regular first: what follows is to be better.
    rungs.sort_unstable_by_key(|rung| core::cmp::Reverse(*rung));
    let rungs: Vec<_> = rungs.into_iter().map(PacingRung::name).collect();
    let stop = stop_on_signals()?;
    let asked = LabReport::of("interval", QUESTION);
    over(&flags.far.with, asked, answer, &stop, |ends, answer| {
        climb(ends, &plan, &rungs, &stop, &mut |sentence| answer.tell(sentence))
    })
}

fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::open(format!("reading {}: {error}; check the path", path.display()))
}

fn heard(
    flags: &IntervalFlags,
    address: &Address,
    answer: &ExperimentAnswer,
) -> Result<LabReport, Failure> {
    let stop = stop_on_signals()?;
    let resolved = address.resolve()?;
    let media = resolved.media().ok_or_else(|| {
        Failure::usage(format!(
            "{address} is none of UDP; give a capture of it: taut lab interval FILE.pcap"
        ))
    })?;
    let udp = UdpOptions {
        interface: address.interface.clone(),
        sources: address.sources.clone(),
        packets_per_second: PACKETS_PER_SECOND,
        ..UdpOptions::receiver(media)
    };
    let options = ListenOptions {
        udp,
        duration: flags.duration,
        rate: flags.rate,
        most: flags.packets as usize,
    };
    let listener = IntervalListener::open(options)?;
    answer.tell(&format!("listening at {address} for {}", flags.duration));
    Ok(listener.listen(&stop))
}
