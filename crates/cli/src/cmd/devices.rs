use serde::Serialize;
use tautline_audio::{DeviceDescription, DeviceSide, Offers};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;

use crate::columns::wrapped;
use crate::failure::Failure;
use crate::flags::{Devices, PlainKind};
use crate::screen;

pub(crate) fn run(flags: &Devices) -> Result<(), Failure> {
    let devices = tautline_audio::list();
    match flags.report {
        PlainKind::Text => screen::print(&page(&devices)),
        PlainKind::Json => screen::print(&json(&devices)?),
        PlainKind::None => {}
    }
    Ok(())
}

const KINDS: [(&str, &str); 3] =
    [("alsa", "Sound cards and other PCMs, by ALSA"), ("jack", "JACK"), ("pipewire", "PipeWire")];
const NO_HARDWARE: &str = "Without hardware";
const NO_CARD: &str =
    "No sound card, JACK or PipeWire is here. Use one of the devices above, such as
--input tone:440 or --output file:heard.wav, or make a card that loops back:
  sudo modprobe snd-aloop
";

fn kind(device: &DeviceDescription) -> Option<&'static str> {
    let before = device.name.split(':').next().unwrap_or("");
    KINDS.iter().find(|(name, _)| *name == before).map(|(_, heading)| *heading)
}

/// Device names have their own lines, for copying.
fn page(devices: &[DeviceDescription]) -> String {
    let mut page = String::new();
    let headings = KINDS.iter().map(|(_, heading)| Some(*heading)).chain([None]);
    for heading in headings {
        let group: Vec<_> = devices.iter().filter(|device| kind(device) == heading).collect();
        if group.is_empty() {
            continue;
        }
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(heading.unwrap_or(NO_HARDWARE));
        page.push('\n');
        group.iter().for_each(|device| describe(device, &mut page));
    }
    if devices.iter().all(|device| kind(device).is_none()) {
        page.push('\n');
        page.push_str(NO_CARD);
    }
    page
}

fn describe(device: &DeviceDescription, page: &mut String) {
    let sides = alike(&device.sides);
    if let [(directions, Offers::Anything)] = sides.as_slice() {
        page.push_str(&wrapped(&format!("  {:<10} {directions:<17} ", device.name), &device.says));
        return;
    }
    page.push_str(&format!("  {}\n", device.name));
    if !device.says.is_empty() {
        page.push_str(&wrapped("      ", &device.says));
    }
    for (directions, offers) in sides {
        page.push_str(&wrapped(&format!("      {directions:<9} "), &offered(offers)));
    }
}

fn alike(sides: &[DeviceSide]) -> Vec<(String, &Offers)> {
    let mut reported: Vec<(String, &Offers)> = Vec::new();
    for side in sides {
        match reported.iter_mut().find(|(_, offers)| *offers == &side.offers) {
            Some((directions, _)) => *directions += &format!(", {}", side.direction.name()),
            None => reported.push((side.direction.name().to_owned(), &side.offers)),
        }
    }
    reported
}

fn offered(offers: &Offers) -> String {
    match offers {
        Offers::Anything => "any rate and any channels that a stream can have".to_owned(),
        Offers::Unknown(why) => format!("cannot be asked: {why}"),
        Offers::These { rates, formats, channels, min_period } => {
            let rates: Vec<_> = rates.iter().map(u32::to_string).collect();
            let channels = match (channels.start(), channels.end()) {
                (1, 1) => "1 channel".to_owned(),
                (minimum, maximum) if minimum == maximum => format!("{maximum} channels"),
                (minimum, maximum) => format!("{minimum} to {maximum} channels"),
            };
            format!(
                "{} Hz; {}; {channels}; periods from {} {}{}",
                rates.join(" "),
                formats.join(" "),
                min_period.count(),
                if min_period.count() == 1 { "frame" } else { "frames" },
                period_span(offers).map_or(String::new(), |span| format!(" ({})", rounded(span)))
            )
        }
    }
}

const fn rounded(span: Span) -> Span {
    Span::from_micros((span.as_nanos() + 500) / 1000)
}

/// Shortest period at the lowest rate from 44.1 kHz on, or else at the lowest rate.
fn period_span(offers: &Offers) -> Option<Span> {
    let Offers::These { rates, min_period, .. } = offers else { return None };
    let music = rates.iter().find(|rate| **rate >= Rate::HZ_44100.hertz());
    Some(Rate::new(*music.or(rates.first())?).ok()?.span_of(*min_period))
}

/// `--report json`; scripts rely on the names.
#[derive(Serialize)]
struct Listed<'a> {
    schema: u32,
    devices: Vec<ListedDevice<'a>>,
}

#[derive(Serialize)]
struct ListedDevice<'a> {
    name: &'a str,
    description: &'a str,
    directions: Vec<ListedWay<'a>>,
}

/// `null`: no limit, or unknown if `unknown` is set.
#[derive(Serialize)]
struct ListedWay<'a> {
    direction: &'static str,
    rates: Option<&'a [u32]>,
    formats: Option<&'a [String]>,
    min_channels: Option<u32>,
    max_channels: Option<u32>,
    min_period_frames: Option<i64>,
    min_period_ns: Option<i64>,
    unknown: Option<&'a str>,
}

fn json(devices: &[DeviceDescription]) -> Result<String, Failure> {
    let devices = devices.iter().map(|device| ListedDevice {
        name: &device.name,
        description: &device.says,
        directions: device.sides.iter().map(listed_way).collect(),
    });
    let listed = Listed { schema: 2, devices: devices.collect() };
    let text = serde_json::to_string_pretty(&listed);
    text.map(|text| text + "\n").map_err(|error| Failure::running(error.to_string()))
}

fn listed_way(side: &DeviceSide) -> ListedWay<'_> {
    let mut listed = ListedWay {
        direction: side.direction.name(),
        rates: None,
        formats: None,
        min_channels: None,
        max_channels: None,
        min_period_frames: None,
        min_period_ns: period_span(&side.offers).map(Span::as_nanos),
        unknown: None,
    };
    match &side.offers {
        Offers::Anything => {}
        Offers::Unknown(why) => listed.unknown = Some(why),
        Offers::These { rates, formats, channels, min_period } => {
            listed.rates = Some(rates);
            listed.formats = Some(formats);
            listed.min_channels = Some(*channels.start());
            listed.max_channels = Some(*channels.end());
            listed.min_period_frames = Some(Frames::count(*min_period));
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use tautline_proto::device::Direction;
    use tautline_trial::{assert_shape, snapshot};

    use super::*;
    use crate::columns::COLUMNS;

    fn card(name: &str, capture: Option<Offers>, playback: Offers) -> DeviceDescription {
        let capture = capture.map(|offers| DeviceSide { direction: Direction::Capture, offers });
        let playback = DeviceSide { direction: Direction::Playback, offers: playback };
        DeviceDescription {
            name: name.to_owned(),
            sides: capture.into_iter().chain([playback]).collect(),
            says: "HDA Intel PCH, ALC257 Analog".to_owned(),
        }
    }

    fn offers(rates: &[u32], channels: core::ops::RangeInclusive<u32>, period: i64) -> Offers {
        let formats = ["S16_LE", "S24_3LE", "S32_LE", "FLOAT_LE"].map(str::to_owned).to_vec();
        Offers::These { rates: rates.to_vec(), formats, channels, min_period: Frames::new(period) }
    }

    #[test]
    fn card_fits_80_columns_with_its_name_on_its_own_line() {
        let all = offers(&Rate::SUPPORTED, 2..=8, 32);
        let page = page(&[card("alsa:plughw:CARD=PCH,DEV=0", Some(all.clone()), all)]);
        assert!(page.lines().all(|line| line.chars().count() <= COLUMNS), "{page}");
        assert!(page.contains("\n  alsa:plughw:CARD=PCH,DEV=0\n"), "{page}");
        let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
        snapshot!(flat);
        assert!(!page.contains("No sound card"), "{page}");
    }

    #[test]
    fn access_modes_are_distinguished_and_a_busy_one_reported() {
        let busy = Offers::Unknown("device or resource busy".to_owned());
        let page = page(&[card("alsa:hw:1", Some(busy), offers(&[48_000], 1..=1, 48))]);
        snapshot!(page);
        assert!(page.contains("playback  48000 Hz; S16_LE"), "{page}");
        assert!(page.contains("1 channel;") && page.contains("(1ms)"), "{page}");
    }

    #[test]
    fn device_list_without_cards_has_alternatives() {
        let only_software: Vec<_> =
            tautline_audio::list().into_iter().filter(|device| kind(device).is_none()).collect();
        let page = page(&only_software);
        assert!(page.starts_with("Without hardware\n  virtual: "), "{page}");
        assert!(page.contains("modprobe snd-aloop"), "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= COLUMNS), "{page}");
    }

    #[test]
    fn the_list_for_programs_has_every_figure() {
        let device = card("alsa:hw:0", Some(Offers::Anything), offers(&[48_000], 2..=8, 48));
        let json = json(&[device]).unwrap();
        assert_shape(crate::help::DEVICES, "{ \"schema\"", &json);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["schema"], 2);
        let ways = &value["devices"][0]["directions"];
        assert_eq!((&ways[0]["direction"], &ways[0]["rates"]), (&"capture".into(), &().into()));
        for (name, figure) in [
            ("min_channels", 2),
            ("max_channels", 8),
            ("min_period_frames", 48),
            ("min_period_ns", 1_000_000),
        ] {
            assert_eq!(ways[1][name], figure, "{name}");
        }
        assert_eq!(ways[1]["rates"][0], 48_000);
        assert_eq!(ways[1]["unknown"], serde_json::Value::Null);
    }
}
