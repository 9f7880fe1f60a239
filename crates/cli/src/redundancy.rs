//! `--redundancy` and what it comes to for one stream.

use std::str::FromStr;

use tautline_engine::plan::{least_latency, repair_latency, repair_time};
use tautline_io::udp::{UdpOptions, header_bytes, path_mtu};
use tautline_proto::device::Settings;
use tautline_proto::redundancy::{
    Bounds, ETHERNET, MOST_WINDOW, Redundancy, RedundancyError, Regulator,
};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Span;

use crate::address::Resolved;
use crate::failure::Failure;
use crate::flags::{Latency, Send};
use crate::screen;

/// What is written behind `--redundancy`: an amount, networks, or both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    pub(crate) amount: Redundancy,
    /// Interfaces by which every packet goes; none if the address says where.
    pub(crate) paths: Vec<String>,
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut asked = Self::default();
        let (mut amounts, mut networks) = (0, 0);
        for part in text.split('+') {
            if let Some(names) = part.strip_prefix("paths:") {
                asked.paths = names.split(',').map(str::to_owned).collect();
                networks += 1;
            } else {
                asked.amount = part.parse().map_err(|error: RedundancyError| {
                    error.to_string() + ", or paths:eth0,eth1 alone or behind a +"
                })?;
                amounts += 1;
            }
        }
        if amounts > 1 || networks > 1 {
            return Err(format!("`{text}` asks twice; write it as code:2+paths:eth0,eth1"));
        }
        let mut different = asked.paths.clone();
        different.sort();
        different.dedup();
        if networks > 0 && (different.len() != 2 || different.iter().any(String::is_empty)) {
            return Err(format!("`{text}` names no two networks; write paths:eth0,eth1"));
        }
        Ok(asked)
    }
}

/// The time to repair that is taken where neither it nor a latency is given.
const USUAL_BUDGET: Span = Span::from_millis(10);

/// The time in which packets may be repaired.
pub(crate) struct Budget {
    /// What is given, as far as the latency leaves it; `None` is all that it leaves.
    pub(crate) asked: Option<Span>,
    /// What that comes to at the beginning.
    pub(crate) first: Span,
    /// The least latency that leaves it to a receiver like this end; nothing if none is asked for.
    pub(crate) latency: Span,
}

pub(crate) fn budget(
    flags: &Send,
    format: &StreamFormat,
    device: &Settings,
) -> Result<Budget, Failure> {
    check(flags)?;
    let least = least_latency(format.packing_age(device.period), device);
    let (ptime, amount) = (format.ptime(), flags.redundancy.amount);
    let kept = match flags.timing.latency {
        Some(Latency::Kept(latency)) => Some(latency),
        Some(Latency::Auto) | None => None,
    };
    let asked = flags.redundancy_budget.or_else(|| kept.is_none().then_some(USUAL_BUDGET));
    let leaves = kept.map(|latency| repair_time(least, latency));
    let first = asked.into_iter().chain(leaves).fold(ptime.times(MOST_WINDOW as i64), Span::min);
    let on = amount != Redundancy::Off;
    let latency = if on { repair_latency(least, first) } else { Span::ZERO };
    // Where none is asked for, it may still be while the stream is sent.
    if first >= ptime || !on {
        return Ok(Budget { asked, first, latency });
    }
    Err(Failure::usage(match (asked, kept) {
        (Some(budget), _) if budget < ptime => format!(
            "--redundancy-budget {budget} holds no packet of {ptime}; use {ptime} or more, or a \
             shorter --ptime"
        ),
        (_, kept) => format!(
            "--latency {} leaves no time for --redundancy {amount}, which repairs by packets that \
             come later; use --latency {} or more, or --ptime below {ptime}",
            kept.unwrap_or_default(),
            repair_latency(least, ptime)
        ),
    }))
}

/// Refuses what would do nothing, or not what it says.
fn check(flags: &Send) -> Result<(), Failure> {
    let amount = flags.redundancy.amount;
    match flags.redundancy_budget {
        // With it, redundancy may be asked for later.
        Some(budget) if amount == Redundancy::Off && !flags.running.control => {
            return Err(Failure::usage(format!(
                "--redundancy-budget {budget} says how long repairs may take and nothing is there to \
                 repair with; add --redundancy auto, or leave it out"
            )));
        }
        _ => {}
    }
    if flags.no_stamps && amount != Redundancy::Off {
        return Err(Failure::usage(format!(
            "--redundancy {amount} travels in a header extension and --no-stamps leaves those out; \
             use one of them alone"
        )));
    }
    Ok(())
}

/// What keeps redundancy in step with what is asked for, on the way to `to`.
pub(crate) fn regulator(flags: &Send, to: &[Resolved], budget: Span) -> Regulator {
    let whole =
        to.iter().filter_map(|to| Some(path_mtu(to.rtp)?.saturating_sub(header_bytes(&to.rtp))));
    // What goes over loopback in one piece may not do so later; one Ethernet frame always does.
    let most_bytes = whole.fold(ETHERNET, usize::min);
    let bounds = Bounds { budget, stamps: !flags.no_stamps, most_bytes };
    Regulator::new(flags.redundancy.amount, bounds)
}

/// Sends by the networks asked for: to each of two hosts by its own, else everything by both.
pub(crate) fn by_networks(paths: &[String], mut udp: UdpOptions) -> Result<UdpOptions, Failure> {
    let [one, other] = paths else { return Ok(udp) };
    if let Some(interface) = &udp.interface {
        return Err(Failure::usage(format!(
            "iface={interface} and --redundancy paths:{one},{other} both say which network to send \
             by; leave iface out"
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

/// Says what of the redundancy asked for cannot be had.
pub(crate) fn tell(flags: &Send, regulator: &Regulator, format: &StreamFormat) {
    let (bounds, asked) = (regulator.bounds(), flags.redundancy.amount);
    let most = bounds.most_symbols(format);
    let wanted = match asked {
        Redundancy::Off => return,
        Redundancy::Copies(wanted) | Redundancy::Code(wanted) => usize::from(wanted),
        Redundancy::Auto => 1,
    };
    if most == 0 {
        screen::tell(&format!(
            "packets of {} bytes are too long to carry another, so each is sent again whole, {} \
             later: twice as many packets; a shorter --ptime avoids it",
            format.payload_bytes(),
            format.ptime().times(bounds.window(format) as i64)
        ));
    } else if wanted > most {
        screen::tell(&format!(
            "a packet has room for {most} others before it is too long for the network, not the \
             {wanted} of --redundancy {asked}; a shorter --ptime has more"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_and_networks_are_read_in_any_order() {
        let both =
            Asked { amount: Redundancy::Code(2), paths: vec!["eth0".into(), "wlan0".into()] };
        assert_eq!("code:2+paths:eth0,wlan0".parse(), Ok(both.clone()));
        assert_eq!("paths:eth0,wlan0+code:2".parse(), Ok(both));
        assert_eq!("off".parse(), Ok(Asked::default()));
    }

    #[test]
    fn what_is_no_redundancy_is_refused_with_what_to_write() {
        for (text, mend) in [
            ("fec", "code:1 to code:24"),
            ("red:0", "red:1 to red:24"),
            ("code:25", "code:1 to code:24"),
            ("paths:eth0", "paths:eth0,eth1"),
            ("paths:eth0,eth0", "paths:eth0,eth1"),
            ("red:1+code:1", "code:2+paths:eth0,eth1"),
        ] {
            let told = text.parse::<Asked>().unwrap_err();
            assert!(told.contains(mend), "{text}: {told}");
        }
    }
}
