#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

use std::sync::Arc;

use tautline_host::ladspa::instance::PluginInstance;
use tautline_host::ladspa::library::PluginLibrary;
use tautline_io::clock::{now, thread_time};
use tautline_ladspa_cost::kinds::WasteKind;
use tautline_proto::time::Span;

fn library() -> Arc<PluginLibrary> {
    let mut folder = std::env::current_exe().unwrap();
    while !folder.join("libtautline_ladspa_cost.so").exists() {
        assert!(folder.pop(), "the library is not beside the test");
    }
    Arc::new(PluginLibrary::load(&folder.join("libtautline_ladspa_cost.so")).unwrap())
}

fn instance(kind: WasteKind, micros: f32, is_virtual: bool) -> PluginInstance {
    let label = kind.label().to_str().unwrap();
    let mut instance = PluginInstance::new(&library(), label, 48_000, 64).unwrap();
    instance.set_control(0, micros);
    instance.set_control(1, f32::from(u8::from(is_virtual)));
    instance
}

#[test]
fn every_plugin_copies_bit_for_bit() {
    let odd = [f32::NAN, -0.0, f32::MIN_POSITIVE / 2.0, f32::INFINITY, 0.25];
    for kind in WasteKind::ALL {
        let mut plugin = instance(kind, 0.0, false);
        plugin.input_mut(0)[..odd.len()].copy_from_slice(&odd);
        plugin.run(odd.len());
        let bits = |samples: &[f32]| samples.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&plugin.output(0)[..odd.len()]), bits(&odd), "{kind:?}");
    }
}

#[test]
fn run_takes_at_least_the_set_time() {
    for kind in WasteKind::ALL {
        for is_virtual in [false, true] {
            let mut plugin = instance(kind, 500.0, is_virtual);
            plugin.activate();
            let (begun, worked) = (now(), thread_time());
            (0..10).for_each(|_| plugin.run(64));
            let (took, worked) = (now() - begun, thread_time() - worked);
            assert!(took >= Span::from_micros(5000), "{kind:?}: {took}");
            assert!(
                !is_virtual || worked + worked < took,
                "{kind:?}: {worked} of {took} was no sleep"
            );
        }
    }
}

#[test]
fn invalid_cost_takes_no_time() {
    for micros in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -5.0] {
        for is_virtual in [false, true] {
            instance(WasteKind::Fixed, micros, is_virtual).run(64);
        }
    }
}
