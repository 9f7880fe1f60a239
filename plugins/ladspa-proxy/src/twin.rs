//! Null test: the plugin also runs on the host's thread, and each returned frame is compared.

use core::ffi::c_int;
use std::path::PathBuf;
use std::sync::Arc;

use rtrb::{Consumer, Producer};
use tautline_api::v1::Plugin;
use tautline_host::ladspa::abi::{AUDIO, CONTROL, INPUT, OUTPUT};
use tautline_host::ladspa::instance::PluginInstance;
use tautline_host::ladspa::library::PluginLibrary;
use tautline_host::scan::hash_of;
use tautline_io::thread::memory;

pub(crate) struct Twin {
    instance: PluginInstance,
    begins: bool,
    played: Vec<Vec<f32>>,
    kept: u64,
    back: Vec<Vec<f32>>,
    position: u64,
    spoilt_until: u64,
    tally: TwinTally,
}

/// Sound per comparison report.
const SPAN_SECONDS: u32 = 10;
const SPANS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TwinSpan {
    pub(crate) frames: (u64, u64),
    pub(crate) verdict: TwinVerdict,
}

struct TwinTally {
    before: TwinVerdict,
    lately: TwinVerdict,
    began: u64,
    span: u64,
    frames: u64,
    reported: Producer<TwinSpan>,
}

impl TwinTally {
    fn new(rate: u32) -> (Self, Consumer<TwinSpan>) {
        let (reported, spans) = memory::ring(SPANS);
        let (before, lately) = (TwinVerdict::default(), TwinVerdict::default());
        let span = u64::from(rate) * u64::from(SPAN_SECONDS);
        (Self { before, lately, began: 0, span, frames: 0, reported }, spans)
    }

    fn whole(&self) -> TwinVerdict {
        self.before.and(self.lately)
    }

    fn rest(&self) -> Option<TwinSpan> {
        let (frames, verdict) = ((self.began, self.frames), self.lately);
        (self.frames > self.began).then_some(TwinSpan { frames, verdict })
    }

    fn advance(&mut self, frames: usize) {
        self.frames += frames as u64;
        if self.frames - self.began < self.span {
            return;
        }
        let verdict = core::mem::take(&mut self.lately);
        self.before = self.before.and(verdict);
        let frames = (core::mem::replace(&mut self.began, self.frames), self.frames);
        // Drops the report if the thread is behind.
        let _ = self.reported.push(TwinSpan { frames, verdict });
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct TwinVerdict {
    pub(crate) compared: u64,
    pub(crate) equal: u64,
    pub(crate) concealed: u64,
    pub(crate) first_difference: Option<u64>,
    pub(crate) largest_difference: f32,
    pub(crate) difference: f64,
    pub(crate) power: f64,
}

impl TwinVerdict {
    pub(crate) fn sentence(&self) -> String {
        let Self { compared, equal, concealed, .. } = self;
        match self.residual_db() {
            _ if *compared == 0 => "nothing was compared".to_owned(),
            None if equal == compared => {
                format!("all {compared} compared samples are identical; {concealed} skipped")
            }
            residual => format!(
                "{} of {compared} samples differ from the local plugin's, by {:.1} dB relative to them",
                compared - equal,
                residual.unwrap_or(f64::NEG_INFINITY)
            ),
        }
    }

    /// Difference in dB; `None` without a difference.
    pub(crate) fn residual_db(&self) -> Option<f64> {
        let is_some = self.difference > 0.0;
        is_some.then(|| 10.0 * (self.difference / self.power.max(f64::MIN_POSITIVE)).log10())
    }

    fn and(self, later: Self) -> Self {
        Self {
            compared: self.compared + later.compared,
            equal: self.equal + later.equal,
            concealed: self.concealed + later.concealed,
            first_difference: self.first_difference.or(later.first_difference),
            largest_difference: self.largest_difference.max(later.largest_difference),
            difference: self.difference + later.difference,
            power: self.power + later.power,
        }
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
        let off = if off.is_finite() { off } else { f64::from(f32::MAX) };
        self.largest_difference = self.largest_difference.max(off.abs() as f32);
        self.difference += off * off;
        self.power += f64::from(here) * f64::from(here);
    }
}

fn folders() -> Vec<PathBuf> {
    match std::env::var_os("LADSPA_PATH") {
        Some(path) => std::env::split_paths(&path).collect(),
        None => ["/usr/lib/ladspa", "/usr/local/lib/ladspa"].map(PathBuf::from).to_vec(),
    }
}

impl Twin {
    /// Supports answers up to `behind` frames late and blocks up to `max_frames`.
    pub(crate) fn new(
        plugin: &Plugin,
        rate: u32,
        (behind, max_frames): (u32, u32),
    ) -> Result<(Self, Consumer<TwinSpan>), String> {
        let Plugin { file, label, .. } = plugin;
        if file.is_empty() {
            return Err(format!(
                "{label} is a pipeline, so nothing is compared; compare each of its plugins separately"
            ));
        }
        let name = std::path::Path::new(file).file_name().unwrap_or_default();
        let found = folders().into_iter().map(|folder| folder.join(name)).find(|it| it.is_file());
        let path = found.ok_or_else(|| {
            format!(
                "{file} is not in LADSPA_PATH here, so nothing is compared; install it, or add its folder"
            )
        })?;
        // Another version may correctly produce different sound.
        let hash = hash_of(&path)?;
        if !plugin.hash.is_empty() && hash != plugin.hash {
            return Err(format!(
                "{} differs from the worker's library, so nothing is compared; install the same library",
                path.display()
            ));
        }
        let library = Arc::new(PluginLibrary::load(&path).map_err(|error| error.to_string())?);
        let instance = PluginInstance::new(&library, label, rate, max_frames as usize)
            .map_err(|error| error.to_string())?;
        let ports = plugin.ports.iter().map(|port| port.descriptor as c_int);
        let count = |kind| ports.clone().filter(|bits| bits & kind == kind).count();
        let reported = [INPUT | AUDIO, OUTPUT | AUDIO, INPUT | CONTROL].map(count);
        if reported != [instance.inputs(), instance.outputs(), instance.controls()] {
            return Err(format!(
                "{label} has other ports here than in the saved catalogue, so nothing is compared; run taut plugins \
                 --save again"
            ));
        }
        let kept = u64::from(behind + max_frames).next_power_of_two();
        let played = vec![vec![0.0; kept as usize]; instance.outputs()];
        let back = vec![vec![0.0; max_frames as usize]; instance.outputs()];
        let (tally, spans) = TwinTally::new(rate);
        let twin = Self {
            instance,
            begins: true,
            played,
            kept,
            back,
            position: 0,
            spoilt_until: 0,
            tally,
        };
        Ok((twin, spans))
    }

    pub(crate) fn activate(&mut self) {
        (self.begins, self.position, self.spoilt_until) = (true, 0, 0);
        self.played.iter_mut().for_each(|channel| channel.fill(0.0));
    }

    pub(crate) fn input_mut(&mut self, channel: usize) -> &mut [f32] {
        self.instance.input_mut(channel)
    }

    pub(crate) fn set_control(&mut self, control: usize, value: f32) {
        self.instance.set_control(control, value);
    }

    pub(crate) fn run(&mut self, frames: usize) {
        // After setting its controls, as at the worker.
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

    pub(crate) fn take(&mut self, channel: usize, from: usize, samples: &[f32]) {
        let place = self.back.get_mut(channel).and_then(|back| back.get_mut(from..));
        for (kept, sample) in place.into_iter().flatten().zip(samples) {
            *kept = *sample;
        }
    }

    /// Excludes a concealed block, and the `fade` frames after it.
    pub(crate) fn spoil(&mut self, fade: u32) {
        self.spoilt_until = self.position + u64::from(fade);
    }

    /// Frames returned `delay` frames late.
    pub(crate) fn judge(&mut self, frames: usize, delay: u32) {
        let from = self.position.saturating_sub(frames as u64);
        for (played, back) in self.played.iter().zip(&self.back) {
            for (at, sample) in (from..).zip(&back[..frames]) {
                // Silence precedes the first frame.
                let Some(frame) = at.checked_sub(u64::from(delay)) else { continue };
                if at < self.spoilt_until || self.position - frame > self.kept {
                    self.tally.lately.concealed += 1;
                } else {
                    self.tally.lately.judge(frame, played[(frame % self.kept) as usize], *sample);
                }
            }
        }
        self.tally.advance(frames);
    }

    pub(crate) fn rest(&self) -> Option<TwinSpan> {
        self.tally.rest()
    }

    pub(crate) fn verdict(&self) -> TwinVerdict {
        self.tally.whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_test_reports_every_10_s_and_the_total() {
        let (mut tally, mut spans) = TwinTally::new(1000);
        for block in 0..100u64 {
            for frame in block * 300..(block + 1) * 300 {
                let back = if frame == 15_000 { 0.505 } else { 0.5 };
                tally.lately.judge(frame, 0.5, back);
            }
            tally.advance(300);
        }
        let reported: Vec<TwinSpan> = core::iter::from_fn(|| spans.pop().ok()).collect();
        assert_eq!(reported.len(), 2, "the third is under way");
        assert_eq!(tally.rest().map(|rest| rest.frames), Some((20_400, 30_000)));
        assert_eq!((reported[0].frames, reported[1].frames), ((0, 10_200), (10_200, 20_400)));
        assert_eq!((reported[0].verdict.equal, reported[0].verdict.residual_db()), (10_200, None));
        assert_eq!((reported[1].verdict.compared, reported[1].verdict.equal), (10_200, 10_199));
        // 20 log10(0.005 / 0.5) minus 10 log10 of the frames.
        let residual = reported[1].verdict.residual_db().unwrap();
        assert!((residual - -80.086).abs() < 0.001, "{residual}");
        let whole = tally.whole();
        assert_eq!((whole.compared, whole.equal), (30_000, 29_999));
        assert_eq!(whole.first_difference, Some(15_000));
        let residual = whole.residual_db().unwrap();
        assert!((residual - -84.771).abs() < 0.001, "{residual}");
    }

    #[test]
    fn slow_span_reader_does_not_delay_the_writer() {
        let (mut tally, mut spans) = TwinTally::new(1);
        for frame in 0..10_000 {
            tally.lately.judge(frame, 1.0, 1.0);
            tally.advance(1);
        }
        assert_eq!(core::iter::from_fn(|| spans.pop().ok()).count(), SPANS);
        assert_eq!(tally.whole().equal, 10_000, "none is lost of the whole");
    }
}
