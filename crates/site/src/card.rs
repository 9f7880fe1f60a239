//! The sound process of a card: one engine per zone, one device.

mod played;

use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tautline_api::v1::{ZoneChange, ZoneState};
use tautline_audio::{
    Extras, FADED_WITHIN, Output, OutputConfig, fading, open_supervised, outputs, settle,
};
use tautline_engine::error::RunError;
use tautline_engine::monitor::run::{RunOptions, Running};
use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::{DeviceError, Direction, Settings, Stop};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

use self::played::PlayedZone;
use crate::{Card, Error, Place, Site, Zone};

/// What a process of a node reports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CardNews {
    /// State of a zone, sent when it changes, and every second while the device plays.
    State(Box<ZoneState>),
    /// A message for the log.
    Note(String),
    /// Packets of the source leave. Sent again when `fault` changes.
    Sending {
        /// Faults of its files, such as a skipped one.
        fault: Option<String>,
    },
}

/// Interval of looks at the engines.
const LOOK: Duration = Duration::from_millis(50);
/// Interval of unchanged states.
const EVERY: Span = Span::from_secs(1);

/// Plays all zones of a card until `stop`, with `before` applied first. Fades at the end.
pub fn run_card(
    (site, place): (&Site, &Place),
    card: &str,
    options: &RunOptions,
    before: &[ZoneChange],
    (stop, changes): (&Stop, &Receiver<ZoneChange>),
    notify: &mut dyn FnMut(CardNews),
) -> Result<(), Error> {
    let device = site.nodes.get(&place.name).and_then(|node| node.cards.get(card));
    let device =
        device.ok_or_else(|| Error::Usage(format!("node {} has no card {card}", place.name)))?;
    let zones = zones(site, place, card, before);
    let opened = open_supervised(
        &device.device,
        Direction::Playback,
        settings(site, device)?,
        Extras::default(),
    )?;
    let configs = zones.iter().map(|(_, zone)| config(zone, site.rate)).collect();
    let (process, outputs) = outputs(opened.device.as_ref(), configs);
    let (fades, ends) = <(Stop, Stop)>::default();
    let begin = zones.iter().zip(&outputs).map(|((name, zone), output)| {
        let name: &str = name;
        PlayedZone::begin((site, place), (name, zone), output, options, &ends)
    });
    let mut played = begin.collect::<Result<Vec<_>, _>>()?;
    let fading = fading(opened.device, fades.clone());
    let running = Running::start(fading, process, options.scheduler, &ends)?;
    let (mut next, mut played_periods) = (LocalTime::ZERO, 0);
    while !stop.is_requested() && !running.is_over() && !played.iter().any(PlayedZone::is_over) {
        let change = changes.recv_timeout(LOOK).into_iter().chain(changes.try_iter());
        for change in change {
            if let Some(zone) = played.iter_mut().find(|zone| zone.state().zone == change.zone) {
                zone.change((site, place), &change).unwrap_or_else(|why| {
                    notify(CardNews::Note(format!("zone {}: {why}", change.zone)));
                });
            }
        }
        opened.notes.take().into_iter().for_each(|note| notify(CardNews::Note(note)));
        let periods = outputs.first().map_or(0, Output::periods);
        let is_due = now() >= next && periods != played_periods;
        let fault = opened.supervision.is_away().then(|| format!("{} is gone", device.device));
        for zone in &mut played {
            let changed = zone.look(fault.as_deref());
            zone.notes().into_iter().for_each(|note| notify(CardNews::Note(note)));
            if changed || is_due {
                notify(CardNews::State(Box::new(zone.state().clone())));
            }
        }
        if is_due {
            (next, played_periods) = (now() + EVERY, periods);
        }
    }
    fades.request();
    let faded_by = now() + FADED_WITHIN;
    while !running.is_over() && now() < faded_by {
        sleep_until(now() + Span::from_millis(1));
    }
    ends.request();
    let ended: Result<Vec<()>, Error> = played.into_iter().map(PlayedZone::end).collect();
    running.end()?;
    ended.map(|_| ())
}

/// Zones of the card, as last changed.
fn zones<'a>(
    site: &'a Site,
    place: &Place,
    card: &str,
    before: &[ZoneChange],
) -> Vec<(&'a str, Zone)> {
    let own = site.zones.iter().filter(|(_, zone)| zone.node == place.name && zone.card == card);
    own.map(|(name, zone)| {
        let change = before.iter().find(|change| change.zone == *name);
        let zone = change.map_or_else(|| zone.clone(), |change| zone.changed(site, change));
        (name.as_str(), zone)
    })
    .collect()
}

/// Output of a zone.
pub(crate) fn config(zone: &Zone, rate: Rate) -> OutputConfig {
    let channels = zone.channels.iter().map(|channel| channel - 1).collect();
    OutputConfig { channels, mono: zone.mono, settings: zone.output(rate) }
}

fn settings(site: &Site, card: &Card) -> Result<Settings, Error> {
    let Card { device, channels, period, periods } = card;
    let wanted =
        Settings { rate: site.rate, channels: *channels, period: *period, periods: *periods };
    let settled = settle(device, Direction::Playback, wanted)?;
    if (settled.rate, settled.channels) == (wanted.rate, wanted.channels) {
        return Ok(settled);
    }
    let (rate, channels) = (settled.rate, settled.channels);
    Err(RunError::Device(DeviceError {
        tried: device.to_string(),
        answer: format!(
            "it plays {channels} channels at {rate}, not {} at {}",
            wanted.channels, wanted.rate
        ),
        hint: "change channels of the card, or rate, in the building file".to_owned(),
    })
    .into())
}
