//! Pipelines: plugins of several workers in series.

use tautline_proto::text::is_printable;

use crate::v1::{Plugin, PluginPort};

/// Bits of `LADSPA_PortDescriptor`: input or output, and audio or control.
const HEARD: u32 = 1 | 8;
const PLAYED: u32 = 2 | 8;
const SET: u32 = 1 | 4;
const TOLD: u32 = 2 | 4;
const REALTIME: u32 = 1;
/// Maximum plugins of a pipeline. Each adds a network hop before the deadline.
pub const MAX_STAGES: usize = 8;

fn ports(plugin: &Plugin, kind: u32) -> impl Iterator<Item = &PluginPort> {
    plugin.ports.iter().filter(move |port| port.descriptor & 0xF == kind)
}

fn count<'a>(plugins: impl IntoIterator<Item = &'a Plugin>, kind: u32) -> usize {
    plugins.into_iter().map(|plugin| ports(plugin, kind).count()).sum()
}

/// Number of passing controls: for later plugins, and from earlier plugins.
pub fn passing(stages: &[Plugin], place: usize) -> (usize, usize) {
    (count(&stages[place + 1..], SET), count(&stages[..place], TOLD))
}

/// Audio inputs, audio outputs, control inputs, control outputs.
pub fn counts(plugin: &Plugin) -> [usize; 4] {
    [HEARD, PLAYED, SET, TOLD].map(|kind| ports(plugin, kind).count())
}

/// Inputs of the first, outputs of the last, all controls. An error message if they do not fit.
pub fn joined(name: &str, stages: &[Plugin]) -> Result<Plugin, String> {
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || !is_printable(c) || c == ':')
    {
        return Err(format!(
            "invalid pipeline name `{name}`\nhint: choose one without white space and colons"
        ));
    }
    let size = || {
        let count = stages.len();
        format!("pipeline `{name}` has {count} plugins\nhint: it must have 2 to {MAX_STAGES}")
    };
    let [first, .., last] = stages else { return Err(size()) };
    if stages.len() > MAX_STAGES {
        return Err(size());
    }
    for pair in stages.windows(2) {
        let (plays, handles) = (count(&pair[..1], PLAYED), count(&pair[1..], HEARD));
        if plays != handles || plays == 0 {
            return Err(format!(
                "in pipeline `{name}`, {} has {plays} output channels but {} has {handles} inputs\n\
                 hint: make them equal, for example with a chain on one of the workers",
                pair[0].id, pair[1].id
            ));
        }
    }
    let named = |kind| {
        stages.iter().enumerate().flat_map(move |(place, plugin)| {
            let before = stages[..place].iter().filter(|of| of.label == plugin.label).count();
            let number = if before == 0 { String::new() } else { format!(" {}", before + 1) };
            let prefix = format!("{}{number}: ", plugin.label);
            ports(plugin, kind).map(move |port| PluginPort {
                name: format!("{prefix}{}", port.name),
                ..port.clone()
            })
        })
    };
    let sound = |plugin, kind| ports(plugin, kind).cloned();
    let all = sound(first, HEARD).chain(named(SET)).chain(sound(last, PLAYED)).chain(named(TOLD));
    Ok(Plugin {
        id: name.to_owned(),
        file: String::new(),
        label: name.to_owned(),
        unique_id: 0,
        name: name.to_owned(),
        maker: "several".to_owned(),
        copyright: "several".to_owned(),
        properties: stages.iter().fold(0, |any, plugin| any | plugin.properties) & REALTIME,
        ports: all.collect(),
        hash: String::new(),
        cost: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(label: &str, kinds: &[u32]) -> Plugin {
        let port = |(place, kind): (usize, &u32)| PluginPort {
            name: format!("port {place}"),
            descriptor: *kind,
            hints: 0,
            lower: 0.0,
            upper: 0.0,
        };
        Plugin {
            id: format!("a.so:{label}"),
            file: "a.so".into(),
            label: label.into(),
            unique_id: 1,
            name: label.into(),
            maker: String::new(),
            copyright: String::new(),
            properties: 0,
            ports: kinds.iter().enumerate().map(port).collect(),
            hash: String::new(),
            cost: None,
        }
    }

    #[test]
    fn pipeline_has_first_inputs_and_all_controls() {
        let stages = [
            plugin("eq", &[SET, HEARD, PLAYED, PLAYED, TOLD]),
            plugin("verb", &[HEARD, HEARD, SET, SET, PLAYED]),
            plugin("eq", &[HEARD, PLAYED, SET]),
        ];
        let joined = joined("voice", &stages).unwrap();
        let names: Vec<&str> = joined.ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "port 1",
                "eq: port 0",
                "verb: port 2",
                "verb: port 3",
                "eq 2: port 2",
                "port 1",
                "eq: port 4"
            ]
        );
        assert_eq!(counts(&joined), [1, 1, 4, 1]);
        assert_eq!([0, 1, 2].map(|place| passing(&stages, place)), [(3, 0), (1, 1), (0, 1)]);
    }

    #[test]
    fn unordered_or_unnamed_plugins_are_refused_with_a_hint() {
        let (mono, wide) = (plugin("m", &[HEARD, PLAYED]), plugin("w", &[HEARD, HEARD, PLAYED]));
        for (name, stages) in [
            ("two words", vec![mono.clone(), mono.clone()]),
            ("voice", vec![]),
            ("voice", vec![mono.clone()]),
            ("voice", vec![mono.clone(), wide]),
            ("voice", vec![mono; MAX_STAGES + 1]),
        ] {
            let why = joined(name, &stages).unwrap_err();
            assert!(why.contains("\nhint: "), "{why}");
        }
    }
}
