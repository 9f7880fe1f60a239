//! The null test: the plugin runs here as well, on the host's own thread, and what comes back is held
//! against it, frame by frame. For measuring: the host's thread does the work that was to be spared.

use core::ffi::c_int;
use std::path::PathBuf;
use std::sync::Arc;

use tautline_api::v1::Plugin;
use tautline_host::ladspa::abi::{AUDIO, CONTROL, INPUT, OUTPUT};
use tautline_host::ladspa::instance::PluginInstance;
use tautline_host::ladspa::library::PluginLibrary;
use tautline_host::scan::hash_of;

/// The plugin as it runs here, and what it played so far.
pub(crate) struct Twin {
    instance: PluginInstance,
    begins: bool,
    /// What it played, each channel in a ring of `kept` frames by its position.
    played: Vec<Vec<f32>>,
    kept: u64,
    /// What came back with the block that ran last.
    back: Vec<Vec<f32>>,
    /// Frames that it has run.
    position: u64,
    /// Up to where what comes back is not judged: a stand-in was among it.
    spoilt_until: u64,
    verdict: TwinVerdict,
}

/// How what came back compares.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct TwinVerdict {
    /// Samples that were held against each other, and those with the same bits.
    pub(crate) compared: u64,
    pub(crate) equal: u64,
    /// Samples that were passed over since a stand-in played.
    pub(crate) stood_in: u64,
    /// The frame of the first that differs.
    pub(crate) first_difference: Option<u64>,
    pub(crate) largest_difference: f32,
    difference: f64,
    power: f64,
}

impl TwinVerdict {
    /// In a sentence.
    pub(crate) fn sentence(&self) -> String {
        let Self { compared, equal, stood_in, .. } = self;
        match self.residual_db() {
            _ if *compared == 0 => "nothing was compared".to_owned(),
            None if equal == compared => format!(
                "all {compared} samples that were compared are the same bit for bit, and {stood_in} were passed over"
            ),
            residual => format!(
                "{} of {compared} samples differ from what the plugin makes here, by {:.1} dB of it",
                compared - equal,
                residual.unwrap_or(f64::NEG_INFINITY)
            ),
        }
    }

    /// The difference against what was played here, in dB; none if there is no difference.
    pub(crate) fn residual_db(&self) -> Option<f64> {
        let is_some = self.difference > 0.0;
        is_some.then(|| 10.0 * (self.difference / self.power.max(f64::MIN_POSITIVE)).log10())
    }

    fn judge(&mut self, frame: u64, here: f32, back: f32) {
        self.compared += 1;
        if here.to_bits() == back.to_bits() {
            self.equal += 1;
            self.power += f64::from(here) * f64::from(here);
            return;
        }
        self.first_difference.get_or_insert(frame);
        let off = f64::from(here) - f64::from(back);
        // What is no number differs by more than any.
        let off = if off.is_finite() { off } else { f64::from(f32::MAX) };
        self.largest_difference = self.largest_difference.max(off.abs() as f32);
        self.difference += off * off;
        self.power += f64::from(here) * f64::from(here);
    }
}

/// Where hosts look for plugins (`LADSPA_PATH`), or the usual places.
fn folders() -> Vec<PathBuf> {
    match std::env::var_os("LADSPA_PATH") {
        Some(path) => std::env::split_paths(&path).collect(),
        None => ["/usr/lib/ladspa", "/usr/local/lib/ladspa"].map(PathBuf::from).to_vec(),
    }
}

impl Twin {
    /// The plugin of this label in the first file of this name. What comes back may be `behind`
    /// frames late at most, and a block has `most_frames` at most.
    pub(crate) fn new(
        plugin: &Plugin,
        rate: u32,
        (behind, most_frames): (u32, u32),
    ) -> Result<Self, String> {
        let Plugin { file, label, .. } = plugin;
        if file.is_empty() {
            return Err(format!(
                "{label} is a pipeline, so nothing is compared; compare each of its plugins by itself"
            ));
        }
        let name = std::path::Path::new(file).file_name().unwrap_or_default();
        let found = folders().into_iter().map(|folder| folder.join(name)).find(|it| it.is_file());
        let path = found.ok_or_else(|| {
            format!(
                "{file} is in no folder of LADSPA_PATH here, so nothing is compared; install it, or add its folder"
            )
        })?;
        // Another version may have other ports, and be right all the same.
        let hash = hash_of(&path)?;
        if !plugin.hash.is_empty() && hash != plugin.hash {
            return Err(format!(
                "{} is another library than the worker's, so nothing is compared; install the same",
                path.display()
            ));
        }
        let library = Arc::new(PluginLibrary::load(&path).map_err(|error| error.to_string())?);
        let instance = PluginInstance::new(&library, label, rate, most_frames as usize)
            .map_err(|error| error.to_string())?;
        let ports = plugin.ports.iter().map(|port| port.descriptor as c_int);
        let count = |kind| ports.clone().filter(|bits| bits & kind == kind).count();
        let told = [INPUT | AUDIO, OUTPUT | AUDIO, INPUT | CONTROL].map(count);
        if told != [instance.inputs(), instance.outputs(), instance.controls()] {
            return Err(format!(
                "{label} has other ports here than in the catalogue, so nothing is compared; run taut plugins --save \
                 again"
            ));
        }
        let kept = u64::from(behind + most_frames).next_power_of_two();
        let played = vec![vec![0.0; kept as usize]; instance.outputs()];
        let back = vec![vec![0.0; most_frames as usize]; instance.outputs()];
        let verdict = TwinVerdict::default();
        Ok(Self {
            instance,
            begins: true,
            played,
            kept,
            back,
            position: 0,
            spoilt_until: 0,
            verdict,
        })
    }

    /// Begins anew, as the plugin far away does; the verdict goes on.
    pub(crate) fn activate(&mut self) {
        (self.begins, self.position, self.spoilt_until) = (true, 0, 0);
        self.played.iter_mut().for_each(|channel| channel.fill(0.0));
    }

    /// Where the host's input of the next block goes.
    pub(crate) fn input_mut(&mut self, channel: usize) -> &mut [f32] {
        self.instance.input_mut(channel)
    }

    pub(crate) fn set_control(&mut self, control: usize, value: f32) {
        self.instance.set_control(control, value);
    }

    /// Runs the block, whose inputs are there.
    pub(crate) fn run(&mut self, frames: usize) {
        // With its controls set, as far away.
        if core::mem::take(&mut self.begins) {
            self.instance.activate();
        }
        self.instance.run(frames);
        for (channel, played) in self.played.iter_mut().enumerate() {
            for (frame, sample) in (self.position..).zip(&self.instance.output(channel)[..frames]) {
                played[(frame % self.kept) as usize] = *sample;
            }
        }
        self.position += frames as u64;
    }

    /// What came back with the block that ran last.
    pub(crate) fn take(&mut self, channel: usize, from: usize, samples: &[f32]) {
        let place = self.back.get_mut(channel).and_then(|back| back.get_mut(from..));
        for (kept, sample) in place.into_iter().flatten().zip(samples) {
            *kept = *sample;
        }
    }

    /// A stand-in is among it: none of that block is judged, nor the `fade` frames after it.
    pub(crate) fn spoil(&mut self, fade: u32) {
        self.spoilt_until = self.position + u64::from(fade);
    }

    /// Holds what came back with the block of so many frames, `delay` frames late, against what was
    /// played here.
    pub(crate) fn judge(&mut self, frames: usize, delay: u32) {
        let from = self.position.saturating_sub(frames as u64);
        for (played, back) in self.played.iter().zip(&self.back) {
            for (at, sample) in (from..).zip(&back[..frames]) {
                // Before the first frame there is silence.
                let Some(frame) = at.checked_sub(u64::from(delay)) else { continue };
                if at < self.spoilt_until || self.position - frame > self.kept {
                    self.verdict.stood_in += 1;
                } else {
                    self.verdict.judge(frame, played[(frame % self.kept) as usize], *sample);
                }
            }
        }
    }

    pub(crate) fn verdict(&self) -> TwinVerdict {
        self.verdict
    }
}
