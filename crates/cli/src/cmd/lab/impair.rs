//! `taut lab impair`

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use tautline_engine::plan::address::{Address, Resolved};
use tautline_io::clock::now;
use tautline_io::udp::UdpOptions;
use tautline_lab::impair::{PathChanges, Relay, RelayOptions};
use tautline_proto::time::Span;
use tautline_sim::link::PathModel;
use tautline_sim::trace::Trace;

use crate::cmd::answer;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{Back, Impair, PlainKind};
use crate::screen;

/// From one look at the clock and the signals to the next.
const BEAT: Span = Span::from_millis(50);

pub(crate) fn run(flags: &Impair) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let begun = now();
    let relay = Relay::start(&options(flags)?)?;
    if flags.report != PlainKind::None {
        screen::tell(&format!("relaying rtp://{} to {}", relay.address(), flags.to));
    }
    let ends = flags.duration.map(|duration| begun + duration);
    while !stop.is_requested() && ends.is_none_or(|ends| now() < ends) {
        let next = now() + BEAT;
        tautline_io::clock::sleep_until(ends.map_or(next, |ends| ends.min(next)));
    }
    let Some(report) = relay.stop() else {
        return Err(Failure::running("the relay broke down; what it said stands above"));
    };
    answer(flags.report, &report.to_string(), report.to_json())
}

fn options(flags: &Impair) -> Result<RelayOptions, Failure> {
    let (listen, to) = (flags.listen.resolve()?, flags.to.resolve()?);
    refuse_loop(flags, &listen, &to)?;
    let path = flags.preset.map_or(PathModel::ideal(Span::ZERO), |preset| preset.path());
    let mut changes = PathChanges {
        delay: flags.delay,
        jitter: flags.jitter,
        loss: flags.loss,
        burst: flags.burst,
        reorder: flags.reorder,
        duplicate: flags.duplicate,
        rate: flags.rate,
        mtu: flags.mtu.map(usize::from),
        outages: flags.outage.clone(),
        trace: flags.trace.as_deref().map(read_trace).transpose()?,
    };
    if flags.once {
        changes.trace = changes.trace.map(Trace::once);
    }
    let there = changes.of(path).map_err(|error| Failure::usage(error.to_string()))?;
    let (from, onward) = (by_udp(&flags.listen, &listen)?, by_udp(&flags.to, &to)?);
    let mut options = RelayOptions::between(from.0, onward.0);
    options.back = match flags.back {
        Back::Same => there.clone(),
        Back::Ideal => PathModel::ideal(there.delay),
    };
    options.there = there;
    options.seed = flags.seed;
    options.scheduler = flags.scheduler;
    options.listen.interface.clone_from(&flags.listen.interface);
    options.listen.sources.clone_from(&flags.listen.sources);
    options.onward = UdpOptions {
        interface: flags.to.interface.clone(),
        ttl: flags.to.ttl.unwrap_or(options.onward.ttl),
        loopback: flags.to.loopback.unwrap_or(options.onward.loopback),
        ..options.onward
    };
    Ok(options)
}

/// Where packets and reports go or come.
fn by_udp(address: &Address, resolved: &Resolved) -> Result<(SocketAddr, SocketAddr), Failure> {
    resolved.media().zip(resolved.reports()).ok_or_else(|| {
        Failure::usage(format!(
            "{address} is none of UDP, and a relay hands on datagrams of UDP alone"
        ))
    })
}

/// A relay that hears what it hands on hands it on for ever.
fn refuse_loop(flags: &Impair, listen: &Resolved, to: &Resolved) -> Result<(), Failure> {
    // Between the same group on two networks it is a relay like any other.
    let (listen, to) = (by_udp(&flags.listen, listen)?, by_udp(&flags.to, to)?);
    let apart = flags.listen.interface != flags.to.interface && to.0.ip().is_multicast();
    let at = listen.0.ip();
    let hears = |ip: IpAddr| {
        at == ip || (at.is_unspecified() || ip.is_unspecified()) && is_own(at) && is_own(ip)
    };
    let ours = [listen.0.port(), listen.1.port()];
    let heard = [to.0, to.1].into_iter().find(|to| ours.contains(&to.port()));
    let Some(heard) = heard.filter(|heard| !apart && hears(heard.ip())) else { return Ok(()) };
    Err(Failure::usage(format!(
        "--to {}: {heard} is heard by the relay itself at --listen {}, and would go round for ever; \
         write the receiver's address, its UDP ports at least two apart from the relay's",
        flags.to, flags.listen
    )))
}

/// Whether it is an address of this machine: nobody can be bound to another's.
fn is_own(ip: IpAddr) -> bool {
    !ip.is_multicast() && UdpSocket::bind((ip, 0)).is_ok()
}

fn read_trace(path: &Path) -> Result<Trace, Failure> {
    let failed = |why: String| Failure::open(format!("reading {}: {why}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| failed(format!("{error}; check the path")))?;
    Trace::read(&text).map_err(|error| failed(error.to_string()))
}
