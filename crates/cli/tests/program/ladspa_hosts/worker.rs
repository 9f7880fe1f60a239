//! A worker on this host, and plugins that run there and locally.

use std::path::PathBuf;

use serde_json::Value;
use symphonia::core::formats::TrackType;
use symphonia::core::formats::probe::Hint;
use symphonia::core::io::MediaSourceStream;
use tautline_host::ladspa::abi::{AUDIO, Descriptor, INPUT, INTEGER, RangeHint};

use super::hosted::{Hosted, find, label, load};
use super::scene::Scene;
use crate::common::program::{Call, Running, call, taut, words};
use crate::common::{Lack, free_udp_ports, skipped};

pub(crate) const PLUGINS: &str = "/usr/lib/ladspa";
pub(crate) const RATE: u32 = 48_000;

pub(crate) struct Worked {
    pub(crate) scene: Scene,
    address: String,
    pub(crate) worker: Running,
}

impl Worked {
    /// `None`, with a message, if the packages are missing.
    pub(crate) fn start() -> Option<Self> {
        for (file, package) in
            [("cmt.so", "cmt"), ("plate_1423.so", "swh-plugins"), ("tap_reverb.so", "tap-plugins")]
        {
            if !PathBuf::from(PLUGINS).join(file).exists() {
                skipped(Lack::Package, &format!("{package} is not installed"));
                return None;
            }
        }
        let scene = Scene::new();
        let address = format!("127.0.0.1:{}", free_udp_ports());
        let worker = Self::worker(&scene, &address);
        let line = format!("plugins --worker studio={address} --save --report none");
        scene.finding(taut(words(&line))).run().well();
        Some(Self { scene, address, worker })
    }

    pub(crate) fn worker(scene: &Scene, address: &str) -> Running {
        let line = format!("work --listen {address} --scheduler other");
        let call = scene.finding(taut(words(&line))).with("LADSPA_PATH", PLUGINS);
        call.listened_to().start().wait_for("worker at ")
    }

    pub(crate) fn again(&mut self) {
        self.worker.signal("-KILL");
        self.worker = Self::worker(&self.scene, &self.address);
    }

    pub(crate) fn signal_children(&self, signal: &str) {
        Self::signal_children_of(&self.worker, signal);
    }

    pub(crate) fn signal_children_of(worker: &Running, signal: &str) {
        let children = call("ps", ["-o", "pid=", "--ppid", &worker.id()]).run().well().out;
        let children: Vec<&str> = children.split_whitespace().collect();
        assert!(!children.is_empty(), "no plugin runs");
        call("kill", [signal]).and(children).run().well();
    }

    pub(crate) fn reports(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.report()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A host that also runs the local plugin, compares, and reports.
    pub(crate) fn comparing(&self, call: Call) -> Call {
        let path = format!("{}:{PLUGINS}", self.scene.folder.file("ladspa").display());
        let call = call.with("LADSPA_PATH", path).with("TAUT_OFFLOAD_COMPARE_LOCAL", "1");
        call.with("TAUT_OFFLOAD_REPORT", self.report())
    }

    pub(crate) fn report(&self) -> PathBuf {
        self.scene.folder.file("report.json")
    }
}

pub(crate) fn proxies() -> Vec<&'static Descriptor> {
    let path = std::env::var_os("LADSPA_PATH").unwrap();
    let first = std::env::split_paths(&path).next().unwrap();
    load(&first.join("tautline.so"))
}

/// The proxy's label is `FILE:LABEL@studio`.
pub(crate) fn here_and_there(proxy: &'static Descriptor) -> [&'static Descriptor; 2] {
    let (file, own) = label(proxy).trim_end_matches("@studio").split_once(':').unwrap();
    let plugins = load(&PathBuf::from(PLUGINS).join(format!("{file}.so")));
    [find(&plugins, own), proxy]
}

pub(crate) fn moved(hint: &RangeHint, noise: &mut fastrand::Rng) -> f32 {
    let (lower, upper) = hint.bounds(RATE);
    let lower = lower.unwrap_or(0.0);
    let upper = upper.unwrap_or(lower + 1.0);
    let value = lower + (upper - lower) * noise.f32();
    if hint.hints & INTEGER != 0 { value.round() } else { value }
}

/// New control values in each block. Returns both outputs by channel.
pub(crate) fn runs(both: &mut [Hosted; 2], blocks: &[usize], sound: &[f32]) -> [Vec<Vec<f32>>; 2] {
    let mut noise = fastrand::Rng::with_seed(11);
    let mut played = [Vec::new(), Vec::new()];
    let hints = both[0].controls();
    let inputs = both[0].ports(INPUT | AUDIO);
    let mut at = 0;
    for frames in blocks {
        let controls: Vec<f32> = hints.iter().map(|hint| moved(hint, &mut noise)).collect();
        let slices: Vec<&[f32]> = (0..inputs.len())
            .map(|channel| &sound[(at + 1000 * channel) % (sound.len() - 8192)..][..*frames])
            .collect();
        for (hosted, played) in both.iter_mut().zip(&mut played) {
            let outputs = hosted.run_for(*frames, &slices, &controls);
            played.resize(outputs.len(), Vec::new());
            for (all, block) in played.iter_mut().zip(outputs) {
                all.extend(block);
            }
        }
        at += frames;
    }
    played
}

/// Sample and channel that differ from the local output after this delay.
pub(crate) fn first_difference(
    [here, there]: &[Vec<Vec<f32>>; 2],
    delay: usize,
) -> Option<(usize, usize)> {
    let bits = |sample: &f32| sample.to_bits();
    here.iter().zip(there).enumerate().find_map(|(channel, (here, there))| {
        let late = there.iter().skip(delay).map(bits);
        Some((channel, late.zip(here.iter().map(bits)).position(|(there, here)| there != here)?))
    })
}

pub(crate) fn recording(seconds: usize) -> Vec<f32> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/recording.flac");
    let file = std::fs::File::open(path).unwrap();
    let stream = MediaSourceStream::new(Box::new(file), Default::default());
    let mut container = symphonia::default::get_probe()
        .probe(&Hint::new(), stream, Default::default(), Default::default())
        .unwrap();
    let track = container.default_track(TrackType::Audio).unwrap();
    let parameters = track.codec_params.as_ref().unwrap().audio().unwrap().clone();
    let codecs = symphonia::default::get_codecs();
    let mut decoder = codecs.make_audio_decoder(&parameters, &Default::default()).unwrap();
    let (mut sound, mut packet) = (Vec::new(), Vec::new());
    while sound.len() < seconds * RATE as usize {
        let next = container.next_packet().unwrap().unwrap();
        decoder.decode(&next).unwrap().copy_to_vec_interleaved::<f32>(&mut packet);
        sound.extend(packet.chunks_exact(2).map(|frame| (frame[0] + frame[1]) / 2.0));
    }
    sound.truncate(seconds * RATE as usize);
    sound
}
