//! Settings of an end's two devices: offered and final.

use tautline_audio::{DeviceSpec, FileFormat, Wanted, offered, probe};
use tautline_call::{DeviceChoice, DevicePair};
use tautline_proto::device::{Direction, Settings};
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

use crate::cmd::{device_settings, print_period, settled};
use crate::failure::Failure;
use crate::flags::EndFlags;
use crate::sound_files::{refuse_to_destroy, refuse_to_loop, refuse_to_overwrite};

/// Offered rates: 48 kHz, higher rates for peers without 48 kHz, then lower rates.
const RATES: [u32; 12] = [
    48_000, 96_000, 192_000, 88_200, 176_400, 44_100, 32_000, 24_000, 22_050, 16_000, 11_025, 8_000,
];
/// Channels of cards, preferred first. Channels that the peer does not play would be lost.
const CARD_CHANNELS: [u32; 2] = [2, 1];
const CHANNELS: [u32; 16] = [2, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

pub(in crate::cmd) fn devices(
    flags: &EndFlags,
    input: &DeviceSpec,
    output: &DeviceSpec,
) -> Result<DevicePair, Failure> {
    let file = looked_at(flags, input, output)?;
    settled_for(flags, (input, output), file.as_ref())
}

/// Rejects combinations that would destroy a file. Returns the input file's format, if any.
fn looked_at(
    flags: &EndFlags,
    input: &DeviceSpec,
    output: &DeviceSpec,
) -> Result<Option<FileFormat>, Failure> {
    refuse_to_loop(input, flags.looped)?;
    refuse_to_destroy(input, output)?;
    refuse_to_overwrite(output, flags.overwrite)?;
    Ok(probe(input, Wanted { rate: flags.rate, channels: flags.channels })?)
}

fn settled_for(
    flags: &EndFlags,
    (input, output): (&DeviceSpec, &DeviceSpec),
    file: Option<&FileFormat>,
) -> Result<DevicePair, Failure> {
    let wanted = device_settings(&flags.timing, flags.rate, flags.channels, file);
    let capture = settled(input, Direction::Capture, wanted, Some(wanted.rate))?;
    let wanted = Settings { rate: capture.rate, channels: capture.channels, ..wanted };
    let playback = settled(output, Direction::Playback, wanted, Some(wanted.rate))?;
    for (spec, device) in [(input, &capture), (output, &playback)] {
        print_period(flags.running.voice(), spec, &flags.timing, device);
    }
    Ok(DevicePair { capture, playback })
}

/// Settings that the flags leave open. Only queries each device.
pub(in crate::cmd) fn device_choice(
    flags: &EndFlags,
    input: &DeviceSpec,
    output: &DeviceSpec,
) -> Result<DeviceChoice, Failure> {
    let file = looked_at(flags, input, output)?;
    let usual = || settled_for(flags, (input, output), file.as_ref()).map(DeviceChoice::alone);
    if file.is_some() || (flags.rate.is_some() && flags.channels.is_some()) {
        return usual();
    }
    let wanted = all_wanted(flags, input.is_real() || output.is_real());
    let capture = offered(input, Direction::Capture, &wanted)?;
    let playback = offered(output, Direction::Playback, &wanted)?;
    let of = |capture: &Settings| {
        let is_like = |playback: &&Settings| {
            (playback.rate, playback.channels) == (capture.rate, capture.channels)
        };
        let playback = playback.iter().find(is_like)?;
        Some(DevicePair { capture: *capture, playback: *playback })
    };
    let is_as_said = |devices: &DevicePair| {
        flags.rate.is_none_or(|rate| rate == devices.capture.rate)
            && flags.channels.is_none_or(|channels| channels == devices.capture.channels)
    };
    let mut both = capture.iter().filter_map(of).filter(is_as_said);
    match both.next() {
        // A device announces its latency share once, for all settings.
        Some(first) => {
            let others = both.filter(|one| one.takes_no_more_than(&first)).collect();
            Ok(DeviceChoice { first, others })
        }
        None => usual(),
    }
}

/// Preferred first. Periods have the same duration at every rate.
fn all_wanted(flags: &EndFlags, are_real: bool) -> Vec<Settings> {
    let first = device_settings(&flags.timing, flags.rate, flags.channels, None);
    let rates = match flags.rate {
        Some(rate) => vec![rate],
        None => RATES.into_iter().flat_map(Rate::new).collect(),
    };
    let channels = match flags.channels {
        Some(channels) => vec![channels],
        None if are_real => CARD_CHANNELS.into_iter().flat_map(Channels::new).collect(),
        None => CHANNELS.into_iter().flat_map(Channels::new).collect(),
    };
    let at = |rate: Rate| {
        let frames = first.period.count() * i64::from(rate.hertz());
        // Echo cancellation needs an even number.
        let period = frames / i64::from(first.rate.hertz());
        let period = Frames::new(if period > 1 { period & !1 } else { 1 });
        Settings { rate, period, ..first }
    };
    let with = |channels| rates.iter().map(move |rate| Settings { channels, ..at(*rate) });
    channels.into_iter().flat_map(with).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tautline_proto::call::terms::StreamTerms;
    use tautline_proto::time::Span;

    use super::*;

    /// Reads flags of an end alone.
    #[derive(Debug, Parser)]
    struct EndAlone {
        #[command(flatten)]
        end: EndFlags,
    }

    fn choice(flags: &str, [input, output]: [&str; 2]) -> DeviceChoice {
        let line = std::iter::once("end").chain(flags.split_whitespace());
        let EndAlone { end } = EndAlone::parse_from(line);
        device_choice(&end, &input.parse().unwrap(), &output.parse().unwrap()).unwrap()
    }

    fn hertz(choice: &DeviceChoice) -> Vec<u32> {
        choice.rates().into_iter().map(Rate::hertz).collect()
    }

    fn counts(choice: &DeviceChoice) -> Vec<usize> {
        choice.channels().into_iter().map(Channels::count).collect()
    }

    #[test]
    fn virtual_devices_offer_every_rate_and_48_khz_stereo_first() {
        let all = choice("", ["tone:440", "null:"]);
        assert_eq!(hertz(&all), RATES);
        assert_eq!(counts(&all)[..3], [2, 1, 3]);
        assert_eq!(all.first.capture.period, Frames::new(48));
        assert!(RATES.len() <= tautline_proto::call::terms::MAX_LISTED);
        assert!(counts(&all).len() <= tautline_proto::call::terms::MAX_LISTED);
        let mut supported = Rate::SUPPORTED;
        supported.sort_by_key(|hertz| RATES.iter().position(|one| one == hertz));
        assert_eq!(supported, RATES, "each of them, once");
    }

    #[test]
    fn requested_format_is_the_only_offer() {
        let said = choice("--rate 16000", ["tone:440", "null:"]);
        assert_eq!((hertz(&said), said.first.capture.period), (vec![16_000], Frames::new(48)));
        assert!(counts(&said).len() > 1);
        let said = choice("--channels 1", ["tone:440", "null:"]);
        assert_eq!((hertz(&said).len(), counts(&said)), (12, vec![1]));
        let cable = choice("", ["virtual:?cable=choice", "null:"]);
        assert_eq!((hertz(&cable), counts(&cable)), (vec![48_000], vec![2]));
    }

    #[test]
    fn a_period_lasts_as_long_at_whatever_rate_is_agreed_on() {
        let all = choice("", ["tone:440", "null:"]);
        let at = |hertz, channels| {
            let coding = tautline_proto::stream::Coding::LOSSLESS_16;
            let (rate, channels) = (Rate::new(hertz).unwrap(), Channels::new(channels).unwrap());
            StreamTerms { rate, channels, coding, ptime: Span::from_millis(5) }
        };
        for (hertz, frames) in [(8_000, 8), (44_100, 44), (48_000, 48), (192_000, 192)] {
            let terms = at(hertz, 1);
            let devices = all.at(&terms, &terms).unwrap();
            assert_eq!(devices.playback.period, Frames::new(frames), "{hertz}");
            assert_eq!(devices.shape(), (terms.rate, terms.channels));
            assert!(devices.takes_no_more_than(&all.first));
        }
        let none = at(48_000, 40);
        assert!(all.at(&none, &none).is_err());
    }

    #[test]
    fn settings_that_would_take_more_latency_are_not_offered() {
        let card = choice("", ["tone:440", "virtual:?period=120"]);
        assert_eq!(hertz(&card), [48_000, 96_000, 192_000, 88_200, 176_400]);
    }
}
