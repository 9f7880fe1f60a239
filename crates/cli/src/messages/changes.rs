use tautline_engine::control::{
    CannotChange, Changed, ReceiveStanding, SendStanding, StreamStanding,
};
use tautline_proto::latency::LatencyRule;
use tautline_proto::receive_policy::LatencyRefused;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::send_policy::SendRefused;
use tautline_proto::time::Span;

use super::sending::no_repair;

pub(crate) fn changed(changed: &Changed) -> String {
    match changed {
        Changed::Latency(LatencyRule::Auto { maximum: None }) => "latency auto".into(),
        Changed::Latency(LatencyRule::Auto { maximum: Some(maximum) }) => {
            format!("latency auto:{maximum}")
        }
        Changed::Latency(LatencyRule::Usual) => "latency usual".into(),
        Changed::Latency(LatencyRule::Chosen(latency)) => format!("latency {latency}"),
        Changed::Latencies(latencies) => {
            let each: Vec<String> = latencies.iter().map(ToString::to_string).collect();
            format!("latency {}", each.join(", "))
        }
        Changed::Ptime(ptime) => format!("ptime {ptime}"),
        Changed::Format(coding) => format!("format {}", coding.name()),
        Changed::Held(true) => "hold".into(),
        Changed::Held(false) => "resume".into(),
        Changed::Volume(fader) => format!("volume {fader}"),
        Changed::Redundancy(requested, budget) => {
            format!("redundancy {}", within(*requested, *budget))
        }
        Changed::To(address) => format!("to {address}"),
        Changed::From(address) => format!("from {address}, played when its packets arrive"),
        Changed::Ended(id) => format!("announcement {id} ends"),
        Changed::Sending(standing) => format!("status {}", sending(standing)),
        Changed::Receiving(standing) => format!("status {}", receiving(standing)),
        Changed::Said(what) => what.clone(),
    }
}

fn within(requested: Redundancy, budget: Span) -> String {
    match requested {
        Redundancy::Off => "off".into(),
        requested => format!("{requested} within {budget}"),
    }
}

fn latency(latency: Span, auto: bool) -> String {
    format!("latency {}{latency}", if auto { "auto, now " } else { "" })
}

fn sending(standing: &SendStanding) -> String {
    format!(
        "{}, ptime {}, format {}, redundancy {}, volume {}, to {}; receivers {} here, {} lost",
        latency(standing.latency, standing.auto),
        standing.ptime,
        standing.format.name(),
        within(standing.redundancy, standing.repair_budget),
        standing.volume,
        standing.address,
        standing.receivers.here,
        standing.receivers.lost
    )
}

fn receiving(standing: &ReceiveStanding) -> String {
    let streams: Vec<String> = standing.streams.iter().map(stream).collect();
    let mix = format!("volume {}", standing.volume);
    match &streams[..] {
        [only] => format!("{mix}, {only}"),
        several => {
            let numbered = several.iter().zip(1..).map(|(one, n)| format!("; {n}: {one}"));
            format!("{mix}{}", numbered.collect::<String>())
        }
    }
}

fn stream(standing: &StreamStanding) -> String {
    let waits = standing.waits_for.as_ref().map(|address| format!(", waiting for {address}"));
    format!(
        "{}, stream volume {}, from {}{}",
        latency(standing.latency, standing.auto),
        standing.volume,
        standing.address,
        waits.unwrap_or_default()
    )
}

pub(crate) fn cannot_change(why: &CannotChange) -> String {
    match why {
        CannotChange::Said(why) => why.clone(),
        CannotChange::Over => "the run is over\nhint: restart taut".into(),
        CannotChange::Busy => {
            "the device accepts no changes now\nhint: repeat this when it runs".into()
        }
        CannotChange::Sending(refused) => send_refused(refused),
        CannotChange::Latency { address, refused } => latency_refused(address, refused),
        CannotChange::NoStream { requested, streams } => {
            format!(
                "there is no stream {}\nhint: write a number from 1 to {streams}, or none",
                requested + 1
            )
        }
        CannotChange::WhichStream => {
            "several streams are received\nhint: write from N ADDRESS to replace the Nth --from"
                .into()
        }
        CannotChange::Open(error) => error.to_string(),
        CannotChange::Shared => {
            "all senders there are received (?senders=), so none is replaced\nhint: restart taut for another \
             address"
                .into()
        }
        CannotChange::CarriesClock => {
            "the clock of --clock comes to the same address, so the stream is not replaced\nhint: restart taut for \
             another address"
                .into()
        }
    }
}

fn latency_refused(address: &str, refused: &LatencyRefused) -> String {
    match refused {
        LatencyRefused::TooShort { requested, needs } => format!(
            "{requested} is too short for {address} and the device here ({needs})\nhint: use {} or more",
            needs.total()
        ),
        LatencyRefused::TooLong { requested, longest } => format!(
            "the maximum of this run is {longest}\nhint: restart taut with --latency {requested} for more"
        ),
        LatencyRefused::Busy => cannot_change(&CannotChange::Busy),
    }
}

fn send_refused(refused: &SendRefused) -> String {
    match refused {
        SendRefused::TooShort { requested, needs } => format!(
            "{requested} is too short for a receiver with the same periods ({needs})\nhint: use {} or more, or a \
             shorter ptime first",
            needs.total()
        ),
        SendRefused::Ptime(error) => error.to_string(),
        SendRefused::TooOld { ptime, packing_age, promised } => format!(
            "packets of {ptime} are up to {packing_age} old when they leave and {promised} is \
             promised\nhint: raise the latency first"
        ),
        SendRefused::TooLarge { bytes, maximum, fits, coding } => format!(
            "packets of {bytes} bytes are longer than the maximum of {maximum} of this run\nhint: use \
             a ptime of {fits} or less with {}",
            coding.name()
        ),
        SendRefused::NotCoded(not_coded) => not_coded.to_string(),
        SendRefused::NoCoder(coding) => format!(
            "no encoder for {} in this run\nhint: restart taut with --format {0}",
            coding.name()
        ),
        SendRefused::NoStamps => {
            "it needs a header extension, and --no-header-extensions omits those\nhint: restart taut without \
             --no-header-extensions"
                .into()
        }
        SendRefused::NoRepair(why) => no_repair(why),
        SendRefused::Busy => cannot_change(&CannotChange::Busy),
    }
}
