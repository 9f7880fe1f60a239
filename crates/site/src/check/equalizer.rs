//! Equalizer of a zone.

use tautline_dsp::equalizer::{Band, Equalizer, EqualizerError, MAX_BANDS};
use tautline_dsp::gain::Gain;
use tautline_dsp::signal::Frequency;
use tautline_proto::units::Rate;

use super::Checker;
use crate::mistake::MistakeKind;
use crate::section::{At, Section};
use crate::settings::{Shape, USUAL_Q, shape};

const BAND: &[&str] = &["shape", "frequency", "gain", "q"];

const BANDS: &str =
    "a list of bands, such as [{ shape = \"peaking\", frequency = 120, gain = \"-4dB\", q = 1.4 }]";
const SHAPE: &str = "\"peaking\", \"low-shelf\", \"high-shelf\", \"high-pass\" or \"low-pass\"";
const FREQUENCY: &str = "a frequency in hertz, such as 120";
const GAIN: &str = "a level, such as \"-4dB\"";
const Q: &str = "a number, such as 1.4";

/// In place of an invalid rate.
const HIGHEST_RATE: u32 = Rate::SUPPORTED[Rate::SUPPORTED.len() - 1];

impl<'a> Checker<'a> {
    pub(super) fn equalizer(&mut self, zone: &Section<'a>, rate: Option<Rate>) -> Vec<Band> {
        let hertz = rate.map_or(HIGHEST_RATE, Rate::hertz);
        let title = format!("a band of {}", zone.title);
        let bands = zone.items("equalizer", (&title, BAND), BANDS, &mut self.mistakes);
        let bands = bands.unwrap_or_default();
        let read: Vec<Band> = bands.iter().filter_map(|band| self.band(band, hertz)).collect();
        if let Some(band) = bands.get(MAX_BANDS) {
            let kind = MistakeKind::Equalizer(EqualizerError::Bands(bands.len()));
            self.mistakes.add(band.at, kind);
        }
        read
    }

    /// A valid band.
    fn band(&mut self, section: &Section<'a>, hertz: u32) -> Option<Band> {
        let mistakes = &mut self.mistakes;
        section.require("shape", "\"peaking\"", mistakes);
        section.require("frequency", "120", mistakes);
        let shape = section.read("shape", SHAPE, mistakes, shape);
        let frequency = section.number("frequency", FREQUENCY, mistakes, |hertz| {
            Frequency::from_millihertz((hertz * 1000.0).round() as u32)
        });
        let q = section.number("q", Q, mistakes, Some);
        let gain = section.read("gain", GAIN, mistakes, |text| text.parse::<Gain>().ok());
        let shape = match shape?.value {
            Shape::WithGain(shape) => {
                section.require("gain", "\"-4dB\"", mistakes);
                shape(gain?.value)
            }
            Shape::Pass(shape) => {
                if let Some(At { at, .. }) = gain {
                    let kind = MistakeKind::NotApplicable { key: "gain", what: "a pass band" };
                    mistakes.add(at, kind);
                }
                shape
            }
        };
        let band = Band { shape, frequency: frequency?.value, q: q.map_or(USUAL_Q, |q| q.value) };
        let error = Equalizer::new(hertz, &[band]).err();
        let Some(error) = error else { return Some(band) };
        let at = match error {
            EqualizerError::Bands(_) => None,
            EqualizerError::Frequency(..) => frequency.map(|it| it.at),
            EqualizerError::Gain(_) => gain.map(|it| it.at),
            EqualizerError::Q(_) => q.map(|it| it.at),
        };
        mistakes.add(at.unwrap_or(section.at), MistakeKind::Equalizer(error));
        None
    }
}
