use ::alsa::ctl::{Ctl, DeviceIter};
use ::alsa::pcm::HwParams;
use ::alsa::{Card, Output, ValueOr};
use tautline_proto::device::Direction;
use tautline_proto::time::Frames;

use super::alsa_direction;
use super::spec::AlsaSpec;
use super::{configured, params};
use crate::toolbox::{DeviceDescription, DeviceSide, Offers};

pub(crate) fn cards() -> Vec<DeviceDescription> {
    // Keeps the library's messages off standard error.
    let _said = Output::local_error_handler();
    let cards = ::alsa::card::Iter::new().flatten();
    let cards = cards.flat_map(|card| devices(card).unwrap_or_default());
    cards.chain(configured::names().into_iter().map(described)).collect()
}

fn described(name: String) -> DeviceDescription {
    let why = "a configured PCM is opened only when it is used".to_owned();
    let offers = Offers::Unknown(why);
    let sides = [Direction::Capture, Direction::Playback]
        .map(|direction| DeviceSide { direction, offers: offers.clone() });
    DeviceDescription {
        name: format!("alsa:{name}"),
        sides: sides.into(),
        says: "from asound.conf or ~/.asoundrc".to_owned(),
    }
}

fn devices(card: Card) -> Option<Vec<DeviceDescription>> {
    let control = Ctl::from_card(&card, true).ok()?;
    let info = control.card_info().ok()?;
    let (id, card_name) = (info.get_id().ok()?, info.get_name().ok()?);
    let numbers = DeviceIter::new(&control).filter_map(|number| u32::try_from(number).ok());
    let described = numbers.filter_map(|number| {
        let spec: AlsaSpec = format!("hw:{id},{number}").parse().ok()?;
        let mut says = None;
        let mut sides = Vec::new();
        for direction in [Direction::Capture, Direction::Playback] {
            let Ok(pcm) = control.pcm_info(number, 0, alsa_direction(direction)) else { continue };
            says = says.or_else(|| pcm.get_name().ok().map(str::to_owned));
            sides.push(DeviceSide { direction, offers: offers(&spec, direction) });
        }
        let says = says.map_or(card_name.to_owned(), |pcm| format!("{card_name}: {pcm}"));
        (!sides.is_empty()).then(|| DeviceDescription { name: spec.to_string(), sides, says })
    });
    Some(described.collect())
}

fn offers(spec: &AlsaSpec, direction: Direction) -> Offers {
    let pcm = match spec.open(direction) {
        Ok(pcm) => pcm,
        Err(error) => return Offers::Unknown(error.answer),
    };
    match params::all(&pcm) {
        Ok((params, _)) => offered(&params),
        Err(error) => Offers::Unknown(format!("ALSA cannot list them: {error}")),
    }
}

fn offered(params: &HwParams<'_>) -> Offers {
    let rates: Vec<u32> = params::rates(params).collect();
    let formats = params::formats(params).map(|format| format.name().to_owned()).collect();
    let (minimum, maximum) = params::channels(params);
    if let Some(&lowest) = rates.first() {
        let _ = params.set_rate(lowest, ValueOr::Nearest);
    }
    let min_period = Frames::new(params.get_period_size_min().unwrap_or(0));
    Offers::These { rates, formats, channels: minimum..=maximum, min_period }
}
