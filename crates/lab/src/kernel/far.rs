use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use tautline_io::clock::now;
use tautline_io::udp::any;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;

use super::case::{CaseSender, KernelCase};
use super::receivers::{KernelReceiver, Log};
use super::{KernelOptions, NO_CORE, Way, answered, check, figures, joined};
use crate::cases::{CaseHosts, Cases};
use crate::hosts::{ChildEnded, ChildState, HostError, HostPlace, LabHost};
use crate::kept::lock_memory;
use crate::report::{HostDescription, LabReport, ReportRow};

const WRITING: Duration = Duration::from_secs(20);
const TURN: Duration = Duration::from_millis(200);

/// `at` is this machine's address as seen from `far`; by default, the agent `here` finds it with
/// test datagrams.
pub fn measure_from(
    options: &KernelOptions,
    far: &mut LabHost,
    here: &mut LabHost,
    at: Option<IpAddr>,
    stop: &Stop,
    notify: &mut dyn FnMut(&str),
) -> LabReport {
    let hosts = vec![HostDescription::here("here"), far.description()];
    let mut goes_on = |_: &ReportRow| !stop.is_requested();
    let mut cases = Cases::of("kernel", &mut goes_on);
    lock_memory().into_iter().for_each(|note| cases.note(note));
    let reached = match at {
        Some(address) => Ok(address),
        None => here.reached_from(far, 1).map(|(address, _)| address),
    };
    let address = match reached {
        Ok(address) => address,
        Err(error) => {
            cases.row(ReportRow::invalid(far.place().to_string(), error.to_string()));
            return LabReport { hosts, ..cases.report };
        }
    };
    let sender = CaseSender::Far(far.place().to_string());
    run_all(&mut cases, options, &sender, far, |far, case| {
        notify(&format!("{}: {} packets", case.name(), case.count));
        run(options, case, far, address, stop)
    });
    let mut report = LabReport { hosts, ..cases.report };
    report.notes.extend(figures::growth(&report.rows, &[sender]));
    let way = match far.place() {
        HostPlace::Local => ", over loopback",
        HostPlace::Namespace(_) | HostPlace::Ssh(_) => "",
    };
    report.notes.push(format!(
        "packets were sent to {address}{way}; times start at the kernel's timestamp, and exclude \
         the network card, its interrupt and its interrupt moderation"
    ));
    report
}

impl CaseHosts for LabHost {
    fn replace_silent(&mut self) -> Result<(), HostError> {
        Self::replace_silent(self)
    }
}

pub(super) fn run_all<H: CaseHosts>(
    cases: &mut Cases<'_>,
    options: &KernelOptions,
    sender: &CaseSender,
    host: &mut H,
    mut run: impl FnMut(&mut H, &KernelCase) -> Result<ReportRow, Unmeasured>,
) {
    for &packets in &options.packets {
        for way in [Way::Blocked, Way::Direct] {
            let case = KernelCase::of(options, packets, way, sender.clone());
            let name = case.name();
            cases.run(&name, host, |host| match run(host, &case) {
                Err(Unmeasured::Case(why)) => Ok(ReportRow::invalid(&name, why)),
                Err(Unmeasured::Host(error)) => Err(error),
                Ok(row) => Ok(row),
            });
        }
    }
}

pub(super) enum Unmeasured {
    Case(String),
    Host(HostError),
}

impl From<String> for Unmeasured {
    fn from(why: String) -> Self {
        Self::Case(why)
    }
}

impl From<HostError> for Unmeasured {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

fn run(
    options: &KernelOptions,
    case: &KernelCase,
    far: &mut LabHost,
    address: IpAddr,
    stop: &Stop,
) -> Result<ReportRow, Unmeasured> {
    check(options, case)?;
    let core = *options.cores.first().ok_or(NO_CORE.to_owned())?;
    let over = Stop::default();
    let begins = now();
    let receiver = KernelReceiver::open(case, begins, over.clone(), any(address.is_ipv6()))?;
    let to = (address, receiver.local().port()).into();
    let handles = receiver.start(core, options.scheduler)?;
    let sent = ended(options, case, far, to, stop);
    // Packets in flight arrive within the timeout.
    over.request();
    let Some(Log { received, error }) = joined(handles) else {
        return Err("the receiver was not started".to_owned().into());
    };
    let ended = sent?;
    let sent =
        serde_json::from_str(&ended.printed).map_err(|_| far.failed("lab packets", ended))?;
    answered(error)?;
    Ok(figures::far_row(case, begins, &sent, &received)?)
}

fn ended(
    options: &KernelOptions,
    case: &KernelCase,
    far: &mut LabHost,
    to: SocketAddr,
    stop: &Stop,
) -> Result<ChildEnded, HostError> {
    // The sender gets its own core, so it delays nothing.
    let cores = match far.place() {
        HostPlace::Ssh(_) => &[][..],
        HostPlace::Local | HostPlace::Namespace(_) => options.cores.get(1..2).unwrap_or_default(),
    };
    let words = case.sent().words(to, options.scheduler.one_below());
    let child = far.start(&words, cores)?;
    let lasts = case.packets.ptime.times(case.count as i64).max(Span::ZERO);
    let deadline = Instant::now() + Duration::from_nanos(lasts.as_nanos().unsigned_abs()) + WRITING;
    let mut requested = false;
    loop {
        if let ChildState::Ended(ended) = far.wait(child, TURN)? {
            return Ok(ended);
        }
        let is_late = Instant::now() >= deadline;
        if !requested && (stop.is_requested() || is_late) {
            far.interrupt(child)?;
            requested = true;
        }
        if is_late {
            return far.end_of(child, "lab packets", WRITING);
        }
    }
}
