//! Devices measured at their ports.

use clap::Args;
use tautline_audio::{DeviceSpec, Extras, Opened};
use tautline_io::thread::Scheduler;
use tautline_proto::device::{Directions, Settings};
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};
use tautline_ui::failure::Failure;
use tautline_ui::readers::rate;
use tautline_ui::settled;

/// Rate, period and priority of devices.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct DevicePace {
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Device period: 48 frames are 1ms at 48000 Hz
    #[arg(long, value_name = "FRAMES", default_value_t = 48,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
    /// Periods in the device buffer
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(2..=64), hide_short_help = true)]
    pub(crate) periods: u32,
    /// Priority of the device threads
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", hide_short_help = true)]
    pub(crate) scheduler: Scheduler,
}

impl DevicePace {
    pub(crate) fn settings(&self, channels: Channels) -> Settings {
        Settings {
            rate: self.rate,
            channels,
            period: Frames::new(i64::from(self.period)),
            periods: self.periods,
        }
    }
}

/// Parts of a delay measured at this device's ports.
pub(crate) fn at_ports(spec: &DeviceSpec) -> Option<String> {
    let cycle = match spec {
        DeviceSpec::Jack(_) => "",
        DeviceSpec::PipeWire(_) => {
            "; the PipeWire cycle that taut send and taut recv add for a card at each end is not"
        }
        _ => return None,
    };
    Some(format!(
        "{spec}: measured at its ports, so everything beyond them, including a card, is part of \
         the delay{cycle}"
    ))
}

pub(crate) fn open_measured(
    spec: &DeviceSpec,
    directions: impl Into<Directions>,
    wanted: Settings,
) -> Result<Opened, Failure> {
    let (spec, directions) = (&spec.clone().at_ports(), directions.into());
    let settings = settled(spec, directions, wanted, Some(wanted.rate))?;
    Ok(tautline_audio::open(spec, directions, settings, Extras::default())?)
}
