//! Configures a PCM exactly as requested, or fails with the supported values.

use ::alsa::ValueOr;
use ::alsa::pcm::{Access as AlsaAccess, Format, HwParams, PCM, TstampType};
use tautline_dsp::card::CardFormat;
use tautline_proto::device::{DeviceError, Settings};
use tautline_proto::units::{Channels, Rate};

use super::pcm::{Access, CardCoding};
use super::refuse::{CONFIGURED, refusal, sentence};
use super::spec::AlsaSpec;

const fn alsa_format(format: CardFormat) -> Format {
    match format {
        CardFormat::S32 => Format::s32(),
        CardFormat::F32 => Format::float(),
        CardFormat::S24 => Format::s24(),
        CardFormat::S24In3 if cfg!(target_endian = "little") => Format::S243LE,
        CardFormat::S24In3 => Format::S243BE,
        CardFormat::S16 => Format::s16(),
    }
}

pub(super) fn formats(params: &HwParams<'_>) -> impl Iterator<Item = CardFormat> {
    let has = |format: &CardFormat| params.test_format(alsa_format(*format)).is_ok();
    CardFormat::BEST_FIRST.into_iter().filter(has)
}

pub(super) fn rates(params: &HwParams<'_>) -> impl Iterator<Item = u32> {
    Rate::SUPPORTED.into_iter().filter(|&rate| params.test_rate(rate).is_ok())
}

struct Narrowing<'a> {
    spec: &'a AlsaSpec,
    params: HwParams<'a>,
    wanted: Settings,
}

pub(super) fn all(pcm: &PCM) -> Result<(HwParams<'_>, Access), ::alsa::Error> {
    let params = HwParams::any(pcm)?;
    let access = match params.set_access(AlsaAccess::MMapInterleaved) {
        Ok(()) => Access::Mapped,
        Err(_) => {
            params.set_access(AlsaAccess::RWInterleaved)?;
            Access::Copied
        }
    };
    Ok((params, access))
}

pub(super) fn narrow<'a>(
    spec: &'a AlsaSpec,
    pcm: &'a PCM,
    wanted: Settings,
) -> Result<(HwParams<'a>, CardCoding), DeviceError> {
    let (params, access) = all(pcm).map_err(|error| no_access(spec, error))?;
    let narrowing = Narrowing { spec, params, wanted };
    narrowing.channels()?;
    narrowing.rate()?;
    let format = narrowing.format()?;
    narrowing.period()?;
    narrowing.buffer()?;
    Ok((narrowing.params, (format, access)))
}

pub(super) fn apply(
    spec: &AlsaSpec,
    pcm: &PCM,
    params: &HwParams<'_>,
    wanted: Settings,
) -> Result<(), DeviceError> {
    let set = || {
        pcm.hw_params(params)?;
        let running = pcm.sw_params_current()?;
        running.set_start_threshold(running.get_boundary()?)?;
        running.set_avail_min(wanted.period.count())?;
        running.set_stop_threshold(params.get_buffer_size()?)?;
        let _ = running.set_tstamp_mode(true).and(running.set_tstamp_type(TstampType::Monotonic));
        pcm.sw_params(&running)
    };
    set().map_err(|error: ::alsa::Error| unusable(spec, error))
}

fn no_access(spec: &AlsaSpec, error: ::alsa::Error) -> DeviceError {
    if error.func() != "snd_pcm_hw_params_set_access" {
        return unusable(spec, error);
    }
    let hint = "use a PCM of type plug, which converts".to_owned();
    refusal(spec, "it does not support interleaved access".to_owned(), hint)
}

pub(super) fn unusable(spec: &AlsaSpec, error: ::alsa::Error) -> DeviceError {
    let answer = format!("ALSA cannot configure it: {}: {}", error.func(), sentence(error.errno()));
    let hint = match spec.plugged() {
        Some(plugged) => format!("try {plugged}, or see `dmesg`"),
        None => CONFIGURED.to_owned(),
    };
    refusal(spec, answer, hint)
}

impl Narrowing<'_> {
    fn refuse(&self, answer: String, option: &str) -> DeviceError {
        let hint = match self.spec.plugged() {
            Some(plugged) => format!("add {option}, or use {plugged}, which converts"),
            None => format!("add {option}"),
        };
        refusal(self.spec, answer, hint)
    }

    fn channels(&self) -> Result<(), DeviceError> {
        let wanted = self.wanted.channels.count() as u32;
        if self.params.set_channels(wanted).is_ok() {
            return Ok(());
        }
        let (minimum, maximum) = channels(&self.params);
        let answer = format!("it has {}, not {wanted}", counted(minimum, maximum, "channel"));
        let nearest = wanted.clamp(minimum, maximum.max(minimum));
        Err(self.refuse(answer, &format!("--channels {nearest}")))
    }

    fn rate(&self) -> Result<(), DeviceError> {
        let wanted = self.wanted.rate;
        if self.params.set_rate(wanted.hertz(), ValueOr::Nearest).is_ok() {
            return Ok(());
        }
        let ours: Vec<u32> = rates(&self.params).collect();
        let nearest = ours.iter().min_by_key(|rate| rate.abs_diff(wanted.hertz()));
        let Some(nearest) = nearest else {
            let minimum = self.params.get_rate_min().unwrap_or(0);
            let maximum = self.params.get_rate_max().unwrap_or(0);
            let hint = match self.spec.plugged() {
                Some(plugged) => format!("use {plugged}, which converts"),
                None => "use another PCM".to_owned(),
            };
            let answer =
                format!("it runs at {} Hz, which no stream supports", range(minimum, maximum));
            return Err(refusal(self.spec, answer, hint));
        };
        let listed: Vec<String> = ours.iter().map(u32::to_string).collect();
        let only = if ours.len() == 1 { "only " } else { "" };
        let answer = format!("it runs {only}at {} Hz, not at {wanted}", listed.join(", "));
        Err(self.refuse(answer, &format!("--rate {nearest}")))
    }

    fn format(&self) -> Result<CardFormat, DeviceError> {
        let ours = || formats(&self.params);
        let found = match self.spec.format {
            Some(format) => ours().find(|&has| has == format),
            None => ours().next(),
        };
        if let Some(format) = found {
            let set = self.params.set_format(alsa_format(format));
            return set.map(|()| format).map_err(|error| unusable(self.spec, error));
        }
        let listed: Vec<&str> = ours().map(CardFormat::name).collect();
        Err(match (self.spec.format, listed.is_empty()) {
            (Some(format), false) => {
                let answer = format!("it does not support {format}");
                refusal(self.spec, answer, format!("use format={}", listed.join(" or format=")))
            }
            _ => {
                let hint = match self.spec.plugged() {
                    Some(plugged) => format!("use {plugged}, which converts"),
                    None => "use a PCM of type plug, which converts".to_owned(),
                };
                let names = CardFormat::BEST_FIRST.map(CardFormat::name).join(", ");
                refusal(self.spec, format!("it supports none of {names}"), hint)
            }
        })
    }

    fn period(&self) -> Result<(), DeviceError> {
        let wanted = self.wanted.period.count();
        if self.params.set_period_size(wanted, ValueOr::Nearest).is_ok() {
            return Ok(());
        }
        let minimum = self.params.get_period_size_min().unwrap_or(0);
        let maximum = self.params.get_period_size_max().unwrap_or(i64::MAX);
        let answer = format!(
            "at {} its periods are {} long, not {wanted}",
            self.wanted.rate,
            counted(minimum, maximum, "frame")
        );
        // Values in between may be forbidden too.
        let near = self.params.clone();
        let nearest = near.set_period_size_near(wanted, ValueOr::Nearest).unwrap_or(minimum);
        Err(refusal(self.spec, answer, format!("add --period {nearest}")))
    }

    fn buffer(&self) -> Result<(), DeviceError> {
        let (period, periods) = (self.wanted.period.count(), self.wanted.periods);
        if self.params.set_buffer_size(period * i64::from(periods)).is_ok() {
            return Ok(());
        }
        let minimum = self.params.get_buffer_size_min().unwrap_or(0);
        let maximum = self.params.get_buffer_size_max().unwrap_or(i64::MAX);
        let (fewest, greatest) = ((minimum + period - 1) / period.max(1), maximum / period.max(1));
        let answer = format!(
            "its buffer holds {}: {} of {period}, not {periods}",
            counted(minimum, maximum, "frame"),
            counted(fewest, greatest.max(fewest), "period")
        );
        let nearest = i64::from(periods).clamp(fewest, greatest.max(fewest));
        let hint = if nearest == i64::from(periods) {
            let near = self.params.clone();
            let near = near.set_buffer_size_near(period * nearest).unwrap_or(minimum);
            format!("add --period {}", near / i64::from(periods.max(1)))
        } else {
            format!("add --periods {nearest}")
        };
        Err(refusal(self.spec, answer, hint))
    }
}

pub(super) fn channels(params: &HwParams<'_>) -> (u32, u32) {
    let minimum = params.get_channels_min().unwrap_or(1).max(1);
    let maximum = params.get_channels_max().unwrap_or(minimum).min(Channels::MAX.into());
    (minimum, maximum.max(minimum))
}

fn range<N: PartialEq + std::fmt::Display>(minimum: N, maximum: N) -> String {
    if minimum == maximum { minimum.to_string() } else { format!("{minimum} to {maximum}") }
}

fn counted<N: PartialEq + From<u8> + std::fmt::Display>(
    minimum: N,
    maximum: N,
    what: &str,
) -> String {
    let plural = if maximum == N::from(1) { "" } else { "s" };
    format!("{} {what}{plural}", range(minimum, maximum))
}
