//! Devices of a running server; creates no nodes.

use tautline_proto::device::{DeviceError, Direction, Directions, Settings};
use tautline_proto::units::{Channels, Rate};

use super::graph::Graph;
use super::server::{FoundNode, Purpose, Server, Survey};
use super::spec::{NodeKind, PipeWireSpec};
use crate::toolbox::{DeviceDescription, DeviceSide, Offers, Sides};

const PERIODS: u32 = 2;
/// WirePlumber's inaudible fallback sink (`fallback-sink.lua`).
const REPLACEMENT: &str = "auto_null";

pub(crate) fn settle(
    spec: &PipeWireSpec,
    directions: Directions,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    let survey = survey(&spec.to_string())?;
    match (&spec.shape, directions) {
        (NodeKind::Stream(Some(target)), Directions::One(direction)) => {
            survey.find(target, direction)?;
        }
        (NodeKind::Stream(_), Directions::Both) => return Err(not_both_ways(spec)),
        (NodeKind::Device, Directions::Both) => unconverted(spec, survey.graph.as_ref(), wanted)?,
        (_, Directions::One(_)) => {}
    }
    let period = match survey.graph {
        Some(_) if spec.force => wanted.period,
        Some(graph) => graph.grants(wanted.period, wanted.rate),
        None => wanted.period,
    };
    Ok(Settings { period, periods: PERIODS, ..wanted })
}

fn not_both_ways(spec: &PipeWireSpec) -> DeviceError {
    DeviceError {
        tried: spec.to_string(),
        answer: "a duplex node does not support as=stream or target".to_owned(),
        hint:
            "remove as=stream and target, and connect it with pw-link, or use two nodes, one per direction"
                .to_owned(),
    }
}

fn unconverted(
    spec: &PipeWireSpec,
    graph: Option<&Graph>,
    wanted: Settings,
) -> Result<(), DeviceError> {
    let Some(graph) = graph.filter(|graph| graph.rate != wanted.rate.hertz()) else {
        return Ok(());
    };
    Err(DeviceError {
        tried: spec.to_string(),
        answer: format!(
            "the graph runs at {} Hz, and a duplex node cannot convert to {}",
            graph.rate, wanted.rate
        ),
        hint: format!("use --rate {}, or two nodes, one per direction", graph.rate),
    })
}

pub fn graph() -> Option<Graph> {
    survey("pipewire:").ok()?.graph
}

pub(crate) fn list() -> Vec<DeviceDescription> {
    let Ok(Survey { graph, nodes, .. }) = survey("pipewire:") else { return Vec::new() };
    let offers = offers(graph.as_ref());
    let side = |direction| DeviceSide { direction, offers: offers.clone() };
    let own = DeviceDescription {
        name: "pipewire:NAME".to_owned(),
        sides: vec![side(Direction::Capture), side(Direction::Playback)],
        says: says(graph.as_ref()),
    };
    let others = nodes.iter().filter_map(|node| {
        Some(DeviceDescription {
            name: format!("pipewire:taut?target={}", node.name),
            sides: vec![side(direction(node)?)],
            says: node.description.clone(),
        })
    });
    std::iter::once(own).chain(others).collect()
}

pub(crate) fn devices() -> Option<Sides<bool>> {
    let nodes = survey("pipewire:").ok()?.nodes;
    let nodes = || nodes.iter().filter(|node| node.name != REPLACEMENT);
    Some(Sides::each(|way| nodes().any(|node| direction(node) == Some(way))))
}

fn direction(node: &FoundNode) -> Option<Direction> {
    match node.class.as_str() {
        "Audio/Sink" => Some(Direction::Playback),
        "Audio/Source" | "Audio/Source/Virtual" => Some(Direction::Capture),
        _ => None,
    }
}

fn offers(graph: Option<&Graph>) -> Offers {
    let Some(graph) = graph else {
        return Offers::Unknown("the server does not report its graph's settings".to_owned());
    };
    let carried = |rate: &u32| Rate::new(*rate).is_ok();
    Offers::These {
        rates: graph.rates.iter().copied().filter(carried).collect(),
        formats: vec!["FLOAT_LE".to_owned()],
        channels: 1..=u32::from(Channels::MAX),
        min_period: graph.forced.unwrap_or(graph.min_quantum),
    }
}

fn says(graph: Option<&Graph>) -> String {
    let what = "a sink for programs to play to, or a source for them to record from";
    let Some(graph) = graph else { return what.to_owned() };
    let Graph { quantum, min_quantum, max_quantum, forced, rate, .. } = graph;
    let quantum = match forced {
        Some(forced) => format!("quantum forced to {forced}"),
        None => format!("quantum {quantum}, {min_quantum} to {max_quantum}"),
    };
    format!("{what}: the graph runs at {rate} Hz, {quantum}")
}

fn survey(name: &str) -> Result<Survey, DeviceError> {
    Survey::of(&Server::connect(name, Purpose::Asking)?)
}
