//! Plays the zones of a building on one card: one [`Output`] per zone, each with an engine of its
//! own.
//!
//! A device-priority thread runs the card with the process of [`outputs`]. An engine's thread only
//! lends its process. An output without an engine is silent.

mod control;
mod playing;
mod strip;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use control::{OutputControl, OutputSettings};
use playing::CardOutputs;
pub use strip::MAX_OUTPUT_DELAY;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{Device, Ended, Process, Settings, Stop, TimestampSource};
use tautline_proto::units::Channels;

use crate::toolbox::part::PartSeat;

/// One output of a card.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OutputConfig {
    /// Channels of the card, from 0. They play left and right in turn. Outputs must not share a
    /// channel: the last one would play there. A channel that the card lacks is ignored.
    pub channels: Vec<u16>,
    /// Whether each channel plays (left + right) ÷ 2, which never exceeds full scale.
    pub mono: bool,
    /// First settings.
    pub settings: OutputSettings,
}

/// One output of a card, as an engine sees it.
pub struct Output {
    card: Arc<CardState>,
    state: Arc<OutputState>,
}

struct CardState {
    /// The card's, in stereo.
    settings: Settings,
    clock: Option<ClockId>,
    timestamp_source: TimestampSource,
    over: AtomicBool,
    /// Device periods so far.
    periods: AtomicU64,
}

struct OutputState {
    seat: PartSeat,
    taken: AtomicBool,
    control: OutputControl,
}

/// Splits a playing device. The process runs on `device`; it does not end by itself. Allocates
/// everything.
pub fn outputs(device: &dyn Device, configs: Vec<OutputConfig>) -> (Box<dyn Process>, Vec<Output>) {
    let settings = device.settings();
    let card = Arc::new(CardState {
        settings: Settings { channels: Channels::STEREO, ..settings },
        clock: device.clock(),
        timestamp_source: device.timestamp_source(),
        over: AtomicBool::new(false),
        periods: AtomicU64::new(0),
    });
    let output = |config: &OutputConfig| Output {
        card: Arc::clone(&card),
        state: Arc::new(OutputState {
            seat: PartSeat::default(),
            taken: AtomicBool::new(false),
            control: OutputControl::new(config.settings),
        }),
    };
    let outputs: Vec<Output> = configs.iter().map(output).collect();
    let states = outputs.iter().map(|output| Arc::clone(&output.state)).zip(configs);
    let process = CardOutputs::new(Arc::clone(&card), settings, states);
    (Box::new(process), outputs)
}

impl Output {
    /// Stereo device of an engine, which ends with the card. `None` while an engine has it.
    pub fn device(&self) -> Option<Box<dyn Device>> {
        if self.state.taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (card, state) = (Arc::clone(&self.card), Arc::clone(&self.state));
        Some(Box::new(OutputDevice { card, state }))
    }

    /// Device periods that the card has played: they stand still if the device hangs.
    pub fn periods(&self) -> u64 {
        self.card.periods.load(Ordering::Relaxed)
    }

    /// Changes the settings from any thread.
    pub fn control(&self) -> OutputControl {
        self.state.control.clone()
    }
}

struct OutputDevice {
    card: Arc<CardState>,
    state: Arc<OutputState>,
}

impl Device for OutputDevice {
    fn settings(&self) -> Settings {
        self.card.settings
    }

    fn clock(&self) -> Option<ClockId> {
        self.card.clock
    }

    fn timestamp_source(&self) -> TimestampSource {
        self.card.timestamp_source
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        self.state.seat.lend(process, stop, &self.card.over)
    }
}

impl Drop for OutputDevice {
    fn drop(&mut self) {
        self.state.taken.store(false, Ordering::Release);
    }
}
