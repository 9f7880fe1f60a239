//! All Debian plugins, remote and local.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tautline_api::v1::Workshop;
use tautline_host::ladspa::description::PortDescription;
use tautline_host::ladspa::instance::PluginInstance;
use tautline_host::ladspa::library::PluginLibrary;
use tautline_host::offers::PluginOffers;
use tautline_host::scan::{TIMEOUT, scan};
use tautline_host::workshop::PluginWorkshop;
use tautline_io::thread::float_mode::FloatMode;
use tautline_proto::offload::datagram::Flags;

use crate::common::{installed, program};
use crate::master::{TestMaster, request};
use crate::worked::{SECRET, options};

const RATE: u32 = 44_100;
const MAX_FRAMES: usize = 512;
const UNDER_WAY: usize = 8;

fn frames(block: usize) -> usize {
    [MAX_FRAMES, 64, 138, 441][block % 4]
}

fn sound(block: usize, channel: usize, state: &mut u32) -> Vec<f32> {
    let sample = |frame: usize| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = *state as f32 / u32::MAX as f32 - 0.5;
        let at = (block * MAX_FRAMES + frame) as f32;
        let tone = (at * 0.03 * (channel + 1) as f32).sin() * 0.3;
        if block % 16 > 12 { 0.0 } else { tone + noise * 0.3 }
    };
    (0..frames(block)).map(sample).collect()
}

fn controls(here: &PluginInstance, block: usize) -> Vec<f32> {
    let is_control = |port: &&PortDescription| port.is_input() && !port.is_audio();
    let ports = here.description().ports.iter().filter(is_control);
    let value = |(place, port): (usize, &PortDescription)| {
        let first = port.range.first_value(RATE);
        let (lower, upper) = port.range.bounds(RATE);
        let (Some(lower), Some(upper)) = (lower, upper) else { return first };
        // Around the initial value, over an eighth of the range.
        let step = ((block * 7 + place * 3) % 17) as f32 / 17.0 - 0.5;
        (first + step * (upper - lower) / 8.0).clamp(lower, upper)
    };
    ports.enumerate().map(value).collect()
}

fn difference(far: &mut TestMaster, here: &mut PluginInstance, blocks: usize) -> Option<usize> {
    let mut state = 1;
    let bits = |samples: &[f32]| samples.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
    let mut under_way = VecDeque::new();
    for block in 0..blocks + UNDER_WAY {
        if block < blocks {
            let inputs: Vec<_> =
                (0..here.inputs()).map(|channel| sound(block, channel, &mut state)).collect();
            let controls = controls(here, block);
            let number = far.hand_out_frames(frames(block), &inputs, &controls, Flags::NONE);
            inputs.iter().enumerate().for_each(|(channel, samples)| {
                here.input_mut(channel)[..samples.len()].copy_from_slice(samples);
            });
            controls.iter().enumerate().for_each(|(n, value)| here.set_control(n, *value));
            {
                let flushed = FloatMode { flush_to_zero: true, denormals_are_zero: true };
                let _mode = flushed.set();
                // Activates with the first block's controls, like a host.
                here.run(frames(block));
            }
            let outputs = (0..here.outputs()).map(|n| bits(&here.output(n)[..frames(block)]));
            let reported = (0..here.reported_controls()).map(|n| here.reported(n).to_bits());
            under_way.push_back((
                block,
                number,
                outputs.collect::<Vec<_>>(),
                reported.collect::<Vec<_>>(),
            ));
        }
        if under_way.len() == UNDER_WAY || block >= blocks {
            let Some((block, number, outputs, reported)) = under_way.pop_front() else { break };
            let worked = far.await_block(number);
            assert!(worked.clean, "block {block}");
            let received: Vec<_> = worked.outputs.iter().map(|samples| bits(samples)).collect();
            if received != outputs || bits(&worked.reported) != reported {
                return Some(block);
            }
        }
    }
    None
}

/// Plugins whose runs always differ, with the reason.
const EXCUSED: [(&[&str], &str); 5] = [
    (
        &[
            "cmt:disintegrator",
            "cmt:lofi",
            "cmt:noise_source_white",
            "cmt:pink_full_frequency",
            "cmt:pink_interpolated_audio",
            "cmt:pink_sh",
            "flanger_1191:flanger",
            "gsm_1215:gsm",
            "noise:noise_white",
            "retro_flange_1208:retroFlange",
            "tap_doubler:tap_doubler",
            "tap_pinknoise:tap_pinknoise",
            "vynil_1905:vynil",
        ],
        "rand(3), which all of a process have in common",
    ),
    (
        &[
            "imp_1199:imp",
            "mbeq_1197:mbeq",
            "pitch_scale_1193:pitchScale",
            "pitch_scale_1194:pitchScaleHQ",
        ],
        "FFTW computes in the way that it measured to be quickest",
    ),
    (
        &["chebstortion_1430:chebstortion", "cmt:bf2cube", "cmt:bf2quad", "cmt:logistic"],
        "it begins with what memory held before: MALLOC_PERTURB_ changes what it plays",
    ),
    (
        &["ringmod_1188:ringmod_1i1o1l"],
        "it reads the place behind its tables, whatever is there: valgrind shows it",
    ),
    (
        &["revdelay_1605:revdelay", "tap_reflector:tap_reflector"],
        "it divides by zero, or does not come back from a run, when its controls move: a worker \
         recovers from that, but here it ends the test",
    ),
];

fn all_play_alike(blocks: usize) {
    for file in ["cmt.so", "plate_1423.so", "tap_reverb.so"] {
        if installed(file).is_none() {
            return;
        }
    }
    let found = scan(&program(), &installed("cmt.so").into_iter().collect::<Vec<_>>(), TIMEOUT);
    let workshop = PluginWorkshop::new(options(), PluginOffers::new(&found, None).unwrap());
    let (mut compared, mut differ) = (0, Vec::new());
    for offer in workshop.offers().all() {
        let id = &offer.plugin.id;
        if EXCUSED.iter().any(|(ids, _)| ids.contains(&&**id)) {
            continue;
        }
        let stream = workshop.open(request(id, RATE, MAX_FRAMES as u32), SECRET).unwrap();
        let mut far = TestMaster::of(&stream, SECRET);
        let library = found.libraries.iter().find(|library| id.starts_with(&library.file));
        let path = folder_of(&library.unwrap().path).join(&offer.plugin.file);
        let library = Arc::new(PluginLibrary::load(&path).unwrap());
        let here = PluginInstance::new(&library, &offer.plugin.label, RATE, MAX_FRAMES);
        if let Some(block) = difference(&mut far, &mut here.unwrap(), blocks) {
            differ.push(format!("{id}, from block {block} on"));
        }
        workshop.close(stream.id);
        compared += 1;
    }
    assert_eq!(differ, Vec::<String>::new(), "of {compared}");
    assert!(compared > 150, "{compared}");
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap()
}

#[test]
fn every_debian_plugin_is_bit_exact_on_a_worker() {
    all_play_alike(40);
}

#[test]
#[ignore = "soak: ten seconds of two hundred plugins take a minute or two"]
fn debian_plugins_play_10_s_remotely_as_locally() {
    all_play_alike(10 * RATE as usize / 289);
}
