use tautline_trial::snapshot;

use std::path::Path;

use super::*;
use crate::ladspa::abi::{AUDIO, CONTROL, HARD_RT_CAPABLE, INPUT, OUTPUT, REALTIME, RangeHint};
use crate::ladspa::description::{PluginDescription, PortDescription};

fn plugin(label: &str, inputs: usize, outputs: usize) -> Outline {
    let range = RangeHint { hints: 0, lower: 0.0, upper: 0.0 };
    let port = |name: &str, kind| PortDescription { name: name.to_owned(), kind, range };
    let mut ports = vec![port("Gain", INPUT | CONTROL), port("latency", OUTPUT | CONTROL)];
    ports.extend(vec![port("In", INPUT | AUDIO); inputs]);
    ports.extend(vec![port("Out", OUTPUT | AUDIO); outputs]);
    let text = String::new;
    Outline::of(
        Path::new("/lib.so"),
        &PluginDescription {
            label: label.to_owned(),
            unique_id: 1,
            name: text(),
            maker: text(),
            copyright: text(),
            properties: HARD_RT_CAPABLE,
            ports,
        },
    )
}

fn known(name: &str) -> Option<Outline> {
    Some(match name {
        "lib:mono" => plugin("mono", 1, 1),
        "lib:wide" => plugin("wide", 1, 2),
        "lib:stereo" => plugin("stereo", 2, 2),
        "lib:sum" => plugin("sum", 3, 1),
        "lib:tone" => plugin("tone", 0, 1),
        _ => return None,
    })
}

fn outlines(text: &str) -> Result<Vec<Outline>, ChainFileError> {
    ChainFile::parse(Path::new("chains.toml"), text)?.outlines(&known)
}

fn refused(text: &str) -> String {
    outlines(text).unwrap_err().to_string()
}

fn names(ports: &[PortDescription]) -> Vec<&str> {
    ports.iter().map(|port| &*port.name).collect()
}

#[test]
fn a_chain_has_the_ports_of_its_ends_and_the_controls_of_all() {
    let text = "[[chain]]\nname = 'a'\nplugins = ['lib:mono', 'lib:wide', 'lib:mono']";
    let chain = &outlines(text).unwrap()[0];
    assert_eq!((&*chain.label, chain.recipe.instances()), ("a", 4), "one mono for each channel");
    assert_eq!((names(&chain.inputs), names(&chain.outputs)), (vec!["In"], vec!["Out 1", "Out 2"]));
    assert_eq!(names(&chain.controls), ["mono: Gain", "wide: Gain", "mono 2: Gain"]);
    assert_eq!(names(&chain.reported), ["mono: latency", "wide: latency", "mono 2: latency"]);
    assert_eq!(chain.properties, HARD_RT_CAPABLE);
}

#[test]
fn side_by_side_each_has_inputs_and_outputs_of_its_own() {
    let text = "[[parallel]]\nname = 'b'\nplugins = ['a', 'lib:stereo']\n\
                [[chain]]\nname = 'a'\nplugins = ['lib:tone', 'lib:stereo']";
    let all = outlines(text).unwrap();
    let both = all.iter().find(|outline| outline.label == "b").unwrap();
    assert_eq!((both.inputs.len(), both.outputs.len()), (2, 4));
    assert_eq!(names(&both.inputs), ["stereo: In", "stereo: In"]);
    assert_eq!(names(&both.controls), ["a: tone: Gain", "a: stereo: Gain", "stereo: Gain"]);
}

#[test]
fn chain_has_only_the_properties_of_all_members() {
    let members = vec![
        Outline { properties: REALTIME, ..plugin("one", 1, 1) },
        Outline { properties: HARD_RT_CAPABLE, ..plugin("other", 1, 1) },
    ];
    assert_eq!(Outline::chain("a", members).unwrap().properties, REALTIME);
}

#[test]
fn members_that_do_not_fit_are_named_with_their_channels() {
    let said = refused("[[chain]]\nname = 'a'\nplugins = ['lib:stereo', 'lib:sum']");
    snapshot!(said);
    let said = refused("[[chain]]\nname = 'a'\nplugins = ['lib:mono', 'lib:tone']");
    snapshot!(said);
}

#[test]
fn invalid_file_error_has_the_place_and_valid_values() {
    let of =
        |name: &str, plugins: &str| format!("[[chain]]\nname = '{name}'\nplugins = {plugins}\n");
    for text in [
        of("two words", "[]"),
        of("", "[]"),
        of("a", "[]"),
        of("a", "['lib:none']"),
        of("a", "['b']") + &of("b", "['a']"),
        of("a", "['a']"),
        of("a", "['lib:mono']") + &of("a", "['lib:mono']"),
        of("a", "7"),
        "chian = 1".to_owned(),
        "[[".to_owned(),
    ] {
        let said = refused(&text);
        snapshot!(format!("{text:?}"), said);
    }
}

#[test]
fn nested_chains_are_limited_to_one_runs_size() {
    let mut text = "[[chain]]\nname = 'n0'\nplugins = ['lib:mono', 'lib:mono']\n".to_owned();
    for n in 1..64 {
        let before = n - 1;
        text += &format!("[[chain]]\nname = 'n{n}'\nplugins = ['n{before}', 'n{before}']\n");
    }
    snapshot!(refused(&text));
}
