//! `--redundancy` and its settings for one stream.

use tautline_engine::plan::address::Resolved;
use tautline_io::udp::{UdpOptions, header_bytes, path_mtu};
use tautline_proto::device::Settings;
use tautline_proto::latency::LatencyRule;
use tautline_proto::latency::{default_repair_time, min_latency, repair_latency, repair_time};
use tautline_proto::redundancy::{Bounds, ETHERNET, MAX_WINDOW, Redundancy};
use tautline_proto::send_policy::{DEFAULT_BUDGET, Limits, Regulator};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Span;
use tautline_proto::wire::WireForm;

use crate::failure::Failure;
use crate::flags::Send;

pub(crate) struct Budget {
    /// `None`: two thirds of what the latency leaves.
    pub(crate) requested: Option<Span>,
    pub(crate) first: Span,
    /// Minimum latency for that time, for a receiver like this end. Zero without redundancy.
    pub(crate) latency: Span,
}

pub(crate) fn budget(
    flags: &Send,
    format: &StreamFormat,
    device: &Settings,
) -> Result<Budget, Failure> {
    check(flags)?;
    let minimum = min_latency(format.packing_age(device.period), device);
    let (ptime, amount) = (format.ptime(), flags.redundancy.amount);
    let kept = match flags.latency {
        Some(LatencyRule::Chosen(latency)) => Some(latency),
        Some(LatencyRule::Auto { .. } | LatencyRule::Usual) | None => None,
    };
    let requested = flags.redundancy_budget.or_else(|| kept.is_none().then_some(DEFAULT_BUDGET));
    let leaves = kept.map(|latency| match (repair_time(minimum, latency), requested) {
        (leaves, Some(_)) => leaves,
        (leaves, None) => default_repair_time(leaves, Span::ZERO, ptime),
    });
    let first = requested.into_iter().chain(leaves).fold(ptime.times(MAX_WINDOW as i64), Span::min);
    let on = amount != Redundancy::Off;
    let latency = if on { repair_latency(minimum, first) } else { Span::ZERO };
    if first >= ptime || !on {
        return Ok(Budget { requested, first, latency });
    }
    Err(Failure::usage(match (requested, kept) {
        (Some(budget), _) if budget < ptime => format!(
            "--redundancy-budget {budget} is less than a packet of {ptime}\nhint: use {ptime} or more, or a \
             shorter --ptime"
        ),
        (_, kept) => format!(
            "--latency {} leaves no time for --redundancy {amount}, which repairs packets with later \
             ones\nhint: use --latency {} or more, or --ptime below {ptime}",
            kept.unwrap_or_default(),
            repair_latency(minimum, ptime)
        ),
    }))
}

pub(crate) fn limits(flags: &Send) -> Result<Limits, Failure> {
    let requested = flags.redundancy.amount == Redundancy::Auto;
    if let Some(limit) = flags.redundancy_limit.filter(|_| !requested && !flags.running.control) {
        return Err(Failure::usage(format!(
            "--redundancy-limit {limit} has no effect without --redundancy auto\n\
             hint: add --redundancy auto, or leave the option out"
        )));
    }
    let latency = flags.latency.and_then(LatencyRule::maximum);
    Ok(Limits { latency, symbols: flags.redundancy_limit })
}

fn check(flags: &Send) -> Result<(), Failure> {
    let amount = flags.redundancy.amount;
    match flags.redundancy_budget {
        // With `--control`, redundancy may be requested later.
        Some(budget) if amount == Redundancy::Off && !flags.running.control => {
            return Err(Failure::usage(format!(
                "--redundancy-budget {budget} has no effect without --redundancy\n\
                 hint: add --redundancy auto, or leave the option out"
            )));
        }
        _ => {}
    }
    if flags.no_header_extensions && amount != Redundancy::Off {
        return Err(Failure::usage(format!(
            "--redundancy {amount} needs a header extension, and --no-header-extensions omits those\n\
             hint: use only one of the two"
        )));
    }
    Ok(())
}

pub(crate) fn regulator(flags: &Send, to: &[Resolved], budget: Span) -> Regulator {
    let whole = to
        .iter()
        .filter_map(Resolved::media)
        .filter_map(|to| Some(path_mtu(to)?.saturating_sub(header_bytes(&to))));
    // The loopback MTU may not apply later; one Ethernet frame always fits.
    let max_bytes = whole.fold(ETHERNET, usize::min);
    // The engine adapts the limit to the destinations, which may change.
    let wire = to.first().map_or(WireForm::Rtp, |to| to.form).pack();
    let max_asked = flags.redundancy_limit.unwrap_or(Limits::GROUP_SYMBOLS);
    let bounds = Bounds { wire, budget, stamps: !flags.no_header_extensions, max_bytes, max_asked };
    Regulator::new(flags.redundancy.amount, bounds)
}

/// Sends each of two hosts' packets via its own network; otherwise everything via both.
pub(crate) fn by_networks(paths: &[String], mut udp: UdpOptions) -> Result<UdpOptions, Failure> {
    let [one, other] = paths else { return Ok(udp) };
    if let Some(interface) = &udp.interface {
        return Err(Failure::usage(format!(
            "iface={interface} and --redundancy paths:{one},{other} both select the network\n\
             hint: leave iface out"
        )));
    }
    let mut also = udp.clone();
    (udp.interface, also.interface) = (Some(one.clone()), Some(other.clone()));
    if let [first, second] = udp.destinations[..]
        && !first.ip().is_multicast()
    {
        (udp.destinations, also.destinations) = (vec![first], vec![second]);
    }
    udp.also = Some(Box::new(also));
    Ok(udp)
}

pub(crate) fn notify(flags: &Send, regulator: &Regulator, format: &StreamFormat) {
    let (bounds, requested) = (regulator.bounds(), flags.redundancy.amount);
    let maximum = bounds.max_symbols(format);
    let wanted = match requested {
        Redundancy::Off => return,
        Redundancy::Copies(wanted) | Redundancy::Code(wanted) => usize::from(wanted),
        Redundancy::Auto => 1,
    };
    if maximum == 0 {
        flags.running.voice().notify(&format!(
            "packets of {} bytes are too long to carry a copy, so each is sent twice, the second time {} \
             later; a shorter --ptime avoids this",
            format.payload_bytes(),
            format.ptime().times(bounds.window(format) as i64)
        ));
    } else if wanted > maximum {
        flags.running.voice().notify(&format!(
            "a packet has room for {maximum} copies, not for the {wanted} of --redundancy {requested}; a shorter \
             --ptime leaves more room"
        ));
    }
}
