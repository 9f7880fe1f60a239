//! Settings of a zone that change at run time: their texts, and their use.

use core::ops::RangeInclusive;

use tautline_api::v1::{ZoneChange, ZoneRefused, ZoneState};
use tautline_audio::OutputSettings;
use tautline_dsp::equalizer::{Band, BandShape, Equalizer};
use tautline_dsp::gain::Gain;
use tautline_dsp::signal::Frequency;
use tautline_engine::plan::zone::ZoneVolumes;
use tautline_proto::text::parse_span;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;

use crate::{Site, Zone};

pub(crate) const DELAY: &str = "a time or a distance up to 1s, such as \"12ms\" or \"4.1m\"";

/// Value of a setting in a change: as in the building file.
pub const DEFAULT_SETTING: &str = "default";

/// Speed of sound in air of 20 °C, in metres per second (ISO 9613-1).
const SPEED_OF_SOUND: f64 = 343.2;
const DELAYS: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(1);
/// Without a resonance.
pub(crate) const USUAL_Q: f64 = 0.71;

const SHAPES: [(&str, Shape); 5] = [
    ("peaking", Shape::WithGain(BandShape::Peaking)),
    ("low-shelf", Shape::WithGain(BandShape::LowShelf)),
    ("high-shelf", Shape::WithGain(BandShape::HighShelf)),
    ("high-pass", Shape::Pass(BandShape::HighPass)),
    ("low-pass", Shape::Pass(BandShape::LowPass)),
];

/// Shape of a band, before its gain is known.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    WithGain(fn(Gain) -> BandShape),
    Pass(BandShape),
}

pub(crate) fn shape(name: &str) -> Option<Shape> {
    SHAPES.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
}

pub(crate) fn ceiling(text: &str) -> Option<Gain> {
    let factors = Gain::SILENCE.factor()..=Gain::UNITY.factor();
    let given = text.parse::<Gain>().ok();
    given.filter(|gain| *gain != Gain::SILENCE && factors.contains(&gain.factor()))
}

pub(crate) fn delay(text: &str) -> Option<Span> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let metres =
        text.strip_suffix('m').map(str::trim_end).filter(|text| text.chars().all(is_digit));
    let metres = metres.and_then(|metres| metres.parse::<f64>().ok());
    let span = match metres {
        Some(metres) => Span::from_nanos((metres / SPEED_OF_SOUND * 1e9).round() as i64),
        None if text == "0" => Span::ZERO,
        None => parse_span(text).ok()?,
    };
    DELAYS.contains(&span).then_some(span)
}

/// A delay: `12ms` or, as a distance, `4.1m`. The error names the value.
pub fn parse_delay(text: &str) -> Result<Span, String> {
    delay(text).ok_or_else(|| format!("invalid delay '{text}': must be {DELAY}"))
}

/// A limiter's ceiling: `-3dB`, or `off`. The error names the value.
pub fn parse_ceiling(text: &str) -> Result<Option<Gain>, String> {
    if text == "off" {
        return Ok(None);
    }
    let invalid =
        || format!("invalid limiter '{text}': must be off or -144dB to 0dB, such as -3dB");
    ceiling(text).map(Some).ok_or_else(invalid)
}

/// Bands `SHAPE HERTZ [GAIN] [Q]`, separated by `;`, or `flat`, which are valid at `rate`. The error
/// names the value.
pub fn parse_bands(text: &str, rate: Rate) -> Result<Vec<Band>, String> {
    if text.trim() == "flat" {
        return Ok(Vec::new());
    }
    let bands: Option<Vec<Band>> = text.split(';').map(band).collect();
    let bands = bands.ok_or_else(|| {
        format!(
            "invalid equalizer '{text}': must be flat, or bands such as \
             'peaking 120 -4dB 1.4; high-pass 80'"
        )
    })?;
    Equalizer::new(rate.hertz(), &bands).map_err(|error| error.to_string())?;
    Ok(bands)
}

fn band(text: &str) -> Option<Band> {
    let mut words = text.split_whitespace();
    let shape = shape(words.next()?)?;
    let frequency: Frequency = words.next()?.parse().ok()?;
    let shape = match shape {
        Shape::Pass(shape) => shape,
        Shape::WithGain(shape) => shape(words.next()?.parse().ok()?),
    };
    let q = words.next().map_or(Some(USUAL_Q), |q| q.parse().ok())?;
    words.next().is_none().then_some(Band { shape, frequency, q })
}

/// Volumes that a user may set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct VolumeLimits {
    pub(crate) min: Gain,
    pub(crate) max: Gain,
}

impl VolumeLimits {
    pub(crate) fn contain(&self, volume: Gain) -> bool {
        (self.min.factor()..=self.max.factor()).contains(&volume.factor())
    }

    fn parse(self, setting: &'static str, zone: &str, text: &str) -> Result<Gain, ZoneRefused> {
        let volume: Gain = text.parse().map_err(|error| ZoneRefused::Value(format!("{error}")))?;
        let Self { min, max } = self;
        let refused = || ZoneRefused::Limits { setting, zone: zone.to_owned(), volume, min, max };
        if self.contain(volume) { Ok(volume) } else { Err(refused()) }
    }
}

fn bands_text(bands: &[Band]) -> String {
    let text = |Band { shape, frequency, q }: &Band| {
        let hertz = f64::from(frequency.as_millihertz()) / 1000.0;
        let (name, gain) = match shape {
            BandShape::Peaking(gain) => ("peaking", Some(gain)),
            BandShape::LowShelf(gain) => ("low-shelf", Some(gain)),
            BandShape::HighShelf(gain) => ("high-shelf", Some(gain)),
            BandShape::HighPass => ("high-pass", None),
            BandShape::LowPass => ("low-pass", None),
        };
        let gain = gain.map_or(String::new(), |gain| format!(" {gain}"));
        format!("{name} {hertz}{gain} {q}")
    };
    match bands {
        [] => "flat".to_owned(),
        bands => bands.iter().map(text).collect::<Vec<_>>().join("; "),
    }
}

/// The value of `text`, or the value of the building file.
fn parsed<T, E>(text: &str, file: T, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, E> {
    if text == DEFAULT_SETTING { Ok(file) } else { parse(text) }
}

impl Site {
    /// Settings of a zone as in the building file.
    pub fn settings_of(&self, zone: &str) -> Option<ZoneState> {
        self.zones.get(zone).map(|settings| settings.first_state(zone))
    }
}

impl Zone {
    /// Applies the valid values of a change. Returns why the other values are refused.
    pub(crate) fn change(&mut self, site: &Site, change: &ZoneChange) -> Vec<ZoneRefused> {
        let ZoneChange { zone, muted, delay, equalizer, limiter, source, .. } = change;
        let mut refused = Vec::new();
        let mut set = |value: Result<(), ZoneRefused>| refused.extend(value.err());
        let file = site.zones.get(zone).unwrap_or(self).clone();
        if let Some(volume) = &change.volume {
            let parse = |text: &str| self.limits().parse("volume", zone, text);
            set(parsed(volume, file.volume, parse).map(|volume| self.volume = volume));
        }
        if let Some(volume) = &change.page_volume {
            let parse = |text: &str| file.page_limits().parse("page-volume", zone, text);
            set(parsed(volume, file.page_volume, parse).map(|volume| self.page_volume = volume));
        }
        if let Some(text) = delay {
            let delay = parsed(text, file.delay, parse_delay).map(|delay| self.delay = delay);
            set(delay.map_err(ZoneRefused::Value));
        }
        if let Some(text) = equalizer {
            let bands = parsed(text, file.equalizer, |text| parse_bands(text, site.rate));
            set(bands.map(|bands| self.equalizer = bands).map_err(ZoneRefused::Value));
        }
        if let Some(text) = limiter {
            let ceiling = parsed(text, file.limiter, parse_ceiling);
            set(ceiling.map(|ceiling| self.limiter = ceiling).map_err(ZoneRefused::Value));
        }
        match source {
            Some(source) if site.sources.contains_key(source) => {
                self.source = Some(source.clone());
            }
            // A running zone cannot leave its source.
            Some(source) if source == DEFAULT_SETTING && file.source.is_some() => {
                self.source = file.source;
            }
            Some(source) => {
                let (source, known) = (source.clone(), site.sources.keys().cloned().collect());
                set(Err(ZoneRefused::NoSource { name: source, known }));
            }
            None => {}
        }
        self.mute = muted.unwrap_or(self.mute);
        refused
    }

    /// The zone with a saved change. Values that the file no longer permits are ignored.
    pub(crate) fn changed(&self, site: &Site, change: &ZoneChange) -> Self {
        let mut zone = self.clone();
        zone.change(site, change);
        zone
    }

    /// Limits of the volume.
    pub(crate) const fn limits(&self) -> VolumeLimits {
        VolumeLimits { min: self.min_volume, max: self.max_volume }
    }

    /// Limits of the announcement volume: the zone's limits, widened to include the file's own
    /// announcement volume. Call this on the zone as in the file.
    pub(crate) fn page_limits(&self) -> VolumeLimits {
        let (min, max, page) = (self.min_volume, self.max_volume, self.page_volume);
        let min = if page.factor() < min.factor() { page } else { min };
        VolumeLimits { min, max: max.max(page) }
    }

    /// Writes the zone's settings to its state.
    pub(crate) fn show(&self, state: &mut ZoneState) {
        state.source.clone_from(&self.source);
        state.volume = self.volume.to_string();
        state.page_volume = self.page_volume.to_string();
        state.muted = self.mute;
        state.delay = self.delay.to_string();
        state.equalizer = bands_text(&self.equalizer);
        state.limiter = self.limiter.map_or_else(|| "off".to_owned(), |it| it.to_string());
    }

    /// State before it plays.
    pub(crate) fn first_state(&self, name: &str) -> ZoneState {
        let mut state = ZoneState { zone: name.to_owned(), ..ZoneState::default() };
        self.show(&mut state);
        state
    }

    /// Settings of the zone's output at `rate`.
    pub(crate) fn output(&self, rate: Rate) -> OutputSettings {
        OutputSettings {
            // The bands were checked at the rate.
            equalizer: Equalizer::new(rate.hertz(), &self.equalizer).unwrap_or_default(),
            delay: self.delay,
            limiter: self.limiter,
        }
    }

    /// Volumes of the zone's engine. A mute does not silence emergencies.
    pub(crate) fn volumes(&self) -> ZoneVolumes {
        let unless_muted = |volume| if self.mute { Gain::SILENCE } else { volume };
        ZoneVolumes {
            program: unless_muted(self.volume),
            announcement: unless_muted(self.page_volume),
            emergency: self.emergency_volume.max(self.page_volume),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::HZ_48000;

    #[test]
    fn bands_are_read_and_shown() {
        let text = "peaking 120 -4dB 1.4; high-pass 62.5 0.71";
        let bands = parse_bands(text, RATE).unwrap();
        assert_eq!(bands_text(&bands), text);
        assert_eq!(parse_bands("high-pass 62.5", RATE).unwrap(), bands[1..]);
        assert_eq!((parse_bands("flat", RATE), bands_text(&[])), (Ok(vec![]), "flat".to_owned()));
    }

    #[test]
    fn invalid_bands_are_refused() {
        let beyond = "low-pass 24000";
        let texts = ["", "loud 120", "peaking 120", "peaking 120 -4dB 1 2", "flat;", beyond];
        for text in texts.into_iter().chain(["low-pass 100 inf", "peaking 120 -30dB"]) {
            assert!(parse_bands(text, RATE).is_err(), "{text}");
        }
    }

    #[test]
    fn delay_is_a_time_or_a_distance() {
        assert_eq!(parse_delay("12ms"), Ok(Span::from_millis(12)));
        assert_eq!(parse_delay("34.32m"), Ok(Span::from_millis(100)));
        for text in ["0", "0ms", "0s", "0m"] {
            assert_eq!(parse_delay(text), Ok(Span::ZERO), "{text}");
        }
        for text in ["-1ms", "1", "1.1s", "400m", "far"] {
            assert!(parse_delay(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ceiling_is_at_most_full_scale() {
        assert_eq!(parse_ceiling("off"), Ok(None));
        assert_eq!(parse_ceiling("0dB"), Ok(Some(Gain::UNITY)));
        assert!(parse_ceiling("+1dB").is_err() && parse_ceiling("-inf").is_err());
    }
}
