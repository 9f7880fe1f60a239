use core::ffi::c_int;

use tautline_host::ladspa::abi::{AUDIO, CONTROL, Data, INPUT, LATENCY, OUTPUT, RangeHint};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    Input(usize),
    Output(usize),
    Control(usize),
    Reported(usize),
    /// Added after the plugin's own ports, unless the plugin has a latency port.
    Latency,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PortPlan {
    carries: Vec<Carries>,
    pub(crate) usual: Vec<RangeHint>,
    pub(crate) own_latency: Option<usize>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) reported: usize,
}

impl PortPlan {
    pub(crate) fn of<'a>(ports: impl IntoIterator<Item = (c_int, RangeHint, &'a str)>) -> Self {
        let mut plan = Self {
            carries: Vec::new(),
            usual: Vec::new(),
            own_latency: None,
            inputs: 0,
            outputs: 0,
            reported: 0,
        };
        for (bits, hint, name) in ports {
            plan.carries.push(match (bits & AUDIO != 0, bits & INPUT != 0) {
                (true, true) => Carries::Input(next(&mut plan.inputs)),
                (true, false) => Carries::Output(next(&mut plan.outputs)),
                (false, true) => {
                    plan.usual.push(hint);
                    Carries::Control(plan.usual.len() - 1)
                }
                (false, false) => {
                    let reported = next(&mut plan.reported);
                    if name == LATENCY && plan.own_latency.is_none() {
                        plan.own_latency = Some(reported);
                    }
                    Carries::Reported(reported)
                }
            });
        }
        if plan.own_latency.is_none() {
            plan.carries.push(Carries::Latency);
        }
        plan
    }
}

fn next(place: &mut usize) -> usize {
    *place += 1;
    *place - 1
}

pub(crate) const ADDED_BITS: c_int = OUTPUT | CONTROL;
pub(crate) const ADDED_HINT: RangeHint = RangeHint {
    hints: tautline_host::ladspa::abi::BOUNDED_BELOW | tautline_host::ladspa::abi::INTEGER,
    lower: 0.0,
    upper: 0.0,
};

#[derive(Debug)]
pub(crate) struct Connections {
    carries: Vec<Carries>,
    pub(crate) inputs: Vec<*const Data>,
    pub(crate) outputs: Vec<*mut Data>,
    pub(crate) controls: Vec<*const Data>,
    pub(crate) reported: Vec<*mut Data>,
    pub(crate) latency: *mut Data,
    own_latency: Option<usize>,
}

impl Connections {
    pub(crate) fn new(plan: &PortPlan) -> Self {
        let (nowhere, written) = (core::ptr::null(), core::ptr::null_mut());
        Self {
            carries: plan.carries.clone(),
            inputs: vec![nowhere; plan.inputs],
            outputs: vec![written; plan.outputs],
            controls: vec![nowhere; plan.usual.len()],
            reported: vec![written; plan.reported],
            latency: written,
            own_latency: plan.own_latency,
        }
    }

    pub(crate) fn connect(&mut self, port: usize, place: *mut Data) {
        match self.carries.get(port) {
            Some(Carries::Input(input)) => self.inputs[*input] = place,
            Some(Carries::Output(output)) => self.outputs[*output] = place,
            Some(Carries::Control(control)) => self.controls[*control] = place,
            Some(Carries::Reported(reported)) => {
                self.reported[*reported] = place;
                if self.own_latency == Some(*reported) {
                    self.latency = place;
                }
            }
            Some(Carries::Latency) => self.latency = place,
            None => {}
        }
    }

    /// Whether the order of reading and writing matters.
    pub(crate) fn share_a_place(&self) -> bool {
        let is_input = |place: *const Data| !place.is_null() && self.inputs.contains(&place);
        self.outputs.iter().any(|output| is_input(output.cast_const()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: RangeHint = RangeHint { hints: 0, lower: 0.0, upper: 0.0 };

    #[test]
    fn a_latency_port_is_added_after_the_plugins_own() {
        let ports = [
            (INPUT | CONTROL, NONE, "gain"),
            (INPUT | AUDIO, NONE, "in"),
            (OUTPUT | AUDIO, NONE, "out"),
        ];
        let plan = PortPlan::of(ports);
        assert_eq!(
            plan.carries,
            [Carries::Control(0), Carries::Input(0), Carries::Output(0), Carries::Latency]
        );
    }

    #[test]
    fn a_latency_port_that_the_plugin_has_is_the_one() {
        let ports = [
            (OUTPUT | CONTROL, NONE, "level"),
            (OUTPUT | CONTROL, NONE, "latency"),
            (OUTPUT | AUDIO, NONE, "out"),
        ];
        let plan = PortPlan::of(ports);
        assert_eq!((plan.carries.len(), plan.own_latency), (3, Some(1)));
        let (mut level, mut latency) = (0.0, 0.0);
        let mut connections = Connections::new(&plan);
        connections.connect(0, &raw mut level);
        connections.connect(1, &raw mut latency);
        assert_eq!(connections.latency, &raw mut latency);
        connections.connect(3, &raw mut level);
    }

    #[test]
    fn a_host_that_has_an_input_and_an_output_in_one_place_is_known() {
        let sound = |kind| (kind | AUDIO, NONE, "sound");
        let plan = PortPlan::of([sound(INPUT), sound(INPUT), sound(OUTPUT), sound(OUTPUT)]);
        let mut connections = Connections::new(&plan);
        assert!(!connections.share_a_place(), "nothing is connected");
        let mut places = [[0.0_f32; 4]; 4];
        for (port, place) in places.iter_mut().enumerate() {
            connections.connect(port, place.as_mut_ptr());
        }
        assert!(!connections.share_a_place());
        // Another channel's buffer, as in some hosts.
        connections.connect(3, places[0].as_mut_ptr());
        assert!(connections.share_a_place());
    }
}
