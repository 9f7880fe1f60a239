use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_engine::plan::address::Resolved;
use tautline_engine::plan::lay;
use tautline_engine::plan::pacing::PacingMode;
use tautline_proto::device::Settings;
use tautline_proto::latency::{LatencySum, usual_latency, usual_latency_in_graph};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Span;

use crate::cmd::resolve_all;
use crate::failure::Failure;
use crate::flags::Send;
use crate::redundancy::Budget;

/// Default for a file to a multicast group. An access point may hold multicast until its next DTIM
/// beacon, by default every 102.4 ms (IEEE 802.11 §11.2.3).
const GROUP_LATENCY: Span = Span::from_millis(150);

/// `None` for other sound, or if an address cannot be resolved yet.
pub(super) fn destinations_of_file(flags: &Send) -> Option<Vec<Resolved>> {
    let is_file = matches!(
        flags.input,
        DeviceSpec::Software(SoftwareSpec::File(_) | SoftwareSpec::Standard(..))
    );
    is_file.then(|| resolve_all(&flags.to, &flags.running).ok()).flatten()
}

fn is_group(to: &Resolved) -> bool {
    to.media().is_some_and(|media| media.ip().is_multicast())
}

/// `file_to` is [`destinations_of_file`].
pub(super) fn latency(
    flags: &Send,
    (format, device): (&StreamFormat, &Settings),
    budget: &Budget,
    file_to: Option<&[Resolved]>,
) -> Result<Span, Failure> {
    let usual = match flags.input {
        DeviceSpec::Jack(_) | DeviceSpec::PipeWire(_) => usual_latency_in_graph,
        _ => usual_latency,
    };
    let repair = if budget.latency > Span::ZERO { budget.first } else { Span::ZERO };
    let usual = (usual(format, device.period) + repair).max(budget.latency);
    let to_group = file_to.is_some_and(|to| to.iter().any(is_group));
    let usual = if to_group { usual.max(GROUP_LATENCY) } else { usual };
    let needs = LatencySum::of(format.packing_age(device.period), device);
    lay::promised(flags.latency.unwrap_or_default(), usual, needs).map_err(|short| {
        Failure::usage(format!(
            "--latency {} is too short: a receiver with the same periods needs {}\nhint: use --latency {} or more, \
             a shorter --ptime or a shorter device period (--period, or jackd -p)",
            short.requested,
            short.needs,
            short.needs.total()
        ))
    })
}

pub(super) fn lasting(latency: Span, needs: LatencySum, mode: PacingMode) -> Result<Span, Failure> {
    if latency >= needs.packing_age {
        return Ok(latency);
    }
    Err(Failure::usage(format!(
        "--latency {latency} is too short with {mode}: a receiver with the same periods needs {needs}\n\
         hint: use --latency {} or more, or leave --pacing out",
        needs.total()
    )))
}
