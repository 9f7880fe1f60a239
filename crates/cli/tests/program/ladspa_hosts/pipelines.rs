//! Plugins of two workers in series as one plugin.

use tautline_host::ladspa::abi::RangeHint;

use super::hosted::{Hosted, find, load};
use super::scene::{alone, did_well};
use super::worker::{PLUGINS, RATE, Worked, proxies, recording};
use crate::common::free_udp_ports;
use crate::common::program::{Running, taut, words};

const PIPELINE: &str = "[[pipeline]]\nname = \"voice\"\nplugins = [\"studio/cmt:freeverb3\", \
                        \"attic/fast_lookahead_limiter_1913:fastLookaheadLimiter\", \
                        \"studio/cmt:canyon_delay\"]\n";
const LABEL: &str = "voice@studio+attic+studio";
const STAGES: [(&str, &str); 3] = [
    ("cmt", "freeverb3"),
    ("fast_lookahead_limiter_1913", "fastLookaheadLimiter"),
    ("cmt", "canyon_delay"),
];
const BLOCK: usize = 256;

struct Both {
    here: Vec<Hosted>,
    there: Hosted,
    hints: Vec<Vec<RangeHint>>,
    played: [Vec<Vec<f32>>; 2],
    reported: [Vec<Vec<f32>>; 2],
    noise: fastrand::Rng,
}

impl Both {
    fn new() -> Self {
        let here = STAGES.map(|(file, label)| {
            let plugins = load(&std::path::PathBuf::from(PLUGINS).join(format!("{file}.so")));
            Hosted::new(find(&plugins, label), RATE)
        });
        let mut here = Vec::from(here);
        let mut there = Hosted::new(find(&proxies(), LABEL), RATE);
        here.iter_mut().for_each(Hosted::activate);
        there.activate();
        let hints = here.iter().map(Hosted::controls).collect();
        let (played, reported) = Default::default();
        Self { here, there, hints, played, reported, noise: fastrand::Rng::with_seed(11) }
    }

    fn run(&mut self, blocks: core::ops::Range<usize>, sound: &[f32]) {
        for block in blocks {
            let mut moved = |hint: &RangeHint| super::worker::moved(hint, &mut self.noise);
            let controls: Vec<Vec<f32>> =
                self.hints.iter().map(|hints| hints.iter().map(&mut moved).collect()).collect();
            let from = block * BLOCK;
            let mut wet: Vec<Vec<f32>> =
                [0, 1000].map(|channel| sound[from + channel..][..BLOCK].to_vec()).to_vec();
            let dry: Vec<&[f32]> = wet.iter().map(Vec::as_slice).collect();
            let back = self.there.run(&dry, &controls.concat());
            for (hosted, controls) in self.here.iter_mut().zip(&controls) {
                let inputs: Vec<&[f32]> = wet.iter().map(Vec::as_slice).collect();
                wet = hosted.run(&inputs, controls);
            }
            for (all, outputs) in self.played.iter_mut().zip([wet, back]) {
                all.resize(outputs.len(), Vec::new());
                all.iter_mut().zip(outputs).for_each(|(all, block)| all.extend(block));
            }
            let limiter = [&self.here[1]].map(|limiter| (limiter.reported(), limiter.latency()));
            let [(mut reported, latency)] = limiter;
            reported.extend(latency);
            self.reported[0].push(reported);
            self.reported[1].push(self.there.reported());
        }
    }

    fn assert_same(&self) {
        assert_eq!(super::worker::first_difference(&self.played, BLOCK), None);
        // The second plugin's output control arrives with its block.
        assert_eq!(self.reported[1][1..], self.reported[0][..self.reported[0].len() - 1]);
        let late = self.here[1].latency().unwrap();
        assert!(late > 0.0);
        assert_eq!(self.there.latency(), Some(BLOCK as f32 + late), "of the window and the second");
    }
}

fn attic(worked: &Worked) -> Running {
    let address = format!("127.0.0.1:{}", free_udp_ports());
    let attic = Worked::worker(&worked.scene, &address);
    std::fs::write(worked.scene.folder.file("home/tautline.toml"), PIPELINE).unwrap();
    let line = format!("plugins --worker attic={address} --save --report none");
    worked.scene.finding(taut(words(&line))).run().well();
    attic
}

mod exclusive {
    use super::*;

    #[test]
    fn three_plugins_of_two_workers_equal_the_local_chain() {
        let inside = || {
            let mut both = Both::new();
            both.run(0..300, &recording(2));
            both.assert_same();
        };
        alone(inside, |call| {
            let Some(worked) = Worked::start() else { return };
            let _attic = attic(&worked);
            let call = worked.scene.finding(call).with("TAUT_OFFLOAD_WAIT_OFFLINE", "always");
            let call = call.with("TAUT_OFFLOAD_REPORT", worked.report());
            did_well(call.run());
            let report = worked.reports().pop().unwrap();
            assert_eq!(report["complete"], true, "{report:#}");
            assert_eq!(report["plugin"], LABEL);
        });
    }

    #[test]
    fn pipeline_survives_the_loss_of_its_second_workers_process() {
        let inside = || {
            let (mut both, sound) = (Both::new(), recording(2));
            both.run(0..100, &sound);
            eprintln!("inside: half");
            std::io::stdin().read_line(&mut String::new()).unwrap();
            both.run(100..200, &sound);
            both.assert_same();
        };
        alone(inside, |call| {
            let Some(worked) = Worked::start() else { return };
            let attic = attic(&worked);
            let call = worked.scene.finding(call).with("TAUT_OFFLOAD_WAIT_OFFLINE", "always");
            let running = call.requested().start().wait_for("inside: half");
            Worked::signal_children_of(&attic, "-KILL");
            did_well(running.enter("go on").end());
        });
    }
}
