//! `taut lab interval`

use std::fs::{File, read};
use std::path::Path;

use tautline_engine::plan::address::Address;
use tautline_io::udp::UdpOptions;
use tautline_lab::interval::{IntervalListener, ListenOptions, of_capture, of_ledger};
use tautline_lab::report::LabReport;

use super::answer::ExperimentAnswer;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::IntervalFlags;

/// As many packets a second as the socket's buffer is laid out for: those of 125 µs.
const PACKETS_PER_SECOND: u32 = 8000;

pub(crate) fn run(flags: &IntervalFlags) -> Result<(), Failure> {
    let answer = ExperimentAnswer::open(&flags.reporting)?;
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
        _ => return Err(Failure::usage("give one of --ledger, --pcap and --listen")),
    };
    answer.give(report)
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
    let udp = UdpOptions {
        interface: address.interface.clone(),
        sources: address.sources.clone(),
        packets_per_second: PACKETS_PER_SECOND,
        ..UdpOptions::receiver(address.resolve()?.rtp)
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
