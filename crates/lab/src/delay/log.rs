//! Log of played or recorded marks: a JSON line each, in the host's clock.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tautline_dsp::timecode::NUMBERS;
use tautline_proto::device::Settings;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use super::judge::{JudgedMark, Played};
use super::player::DeviceFaults;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LogLine {
    Begun(LogBegin),
    Played(u32, i64, i64, i64),
    Received(JudgedMark),
    Ended(LogEnd),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LogBegin {
    at_ns: i64,
    rate: u32,
    channels: u32,
    period: i64,
    periods: u32,
}

impl LogBegin {
    pub(super) fn of(at: LocalTime, settings: &Settings) -> Self {
        Self {
            at_ns: at.as_nanos(),
            rate: settings.rate.hertz(),
            channels: settings.channels.count() as u32,
            period: settings.period.count(),
            periods: settings.periods,
        }
    }

    fn read(&self) -> Option<(LocalTime, Settings)> {
        let settings = Settings {
            rate: Rate::new(self.rate).ok()?,
            channels: Channels::new(self.channels).ok()?,
            period: Frames::new(self.period),
            periods: self.periods,
        };
        Some((LocalTime::from_nanos(self.at_ns), settings))
    }
}

/// Error for a line that neither player nor recorder writes.
const IMPOSSIBLE: &str = "its log has an impossible mark";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LogEnd {
    pub(super) end_ns: i64,
    pub(super) xruns: u64,
    pub(super) skipped: i64,
    pub(super) unread: i64,
    pub(super) foreign: u64,
    pub(super) best_unclear_db: Option<f64>,
    pub(super) overflowed: u64,
    pub(super) notes: Vec<String>,
}

impl LogEnd {
    pub(super) const fn faults(&self) -> DeviceFaults {
        DeviceFaults { xruns: self.xruns, skipped: self.skipped }
    }
}

impl From<&Played> for LogLine {
    fn from(mark: &Played) -> Self {
        let Played { number, frame, at, uncertainty, .. } = mark;
        Self::Played(*number, *frame, at.as_nanos(), uncertainty.as_nanos())
    }
}

impl From<&JudgedMark> for LogLine {
    fn from(mark: &JudgedMark) -> Self {
        Self::Received(*mark)
    }
}

impl LogLine {
    pub(super) fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *to, self)?;
        to.write_all(b"\n")
    }
}

#[derive(Debug, Clone)]
pub(super) struct DeviceLog {
    pub(super) begun: LocalTime,
    pub(super) settings: Settings,
    pub(super) played: Vec<Played>,
    pub(super) received: Vec<JudgedMark>,
    pub(super) end: LogEnd,
}

impl DeviceLog {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(serde_json::from_str::<LogLine>);
        let begin = match lines.next() {
            Some(Ok(LogLine::Begun(begin))) => begin.read(),
            _ => None,
        };
        let (begun, settings) = begin.ok_or("its log has no beginning")?;
        let (mut played, mut received) = (Vec::new(), Vec::new());
        for line in lines {
            match line.map_err(|error| format!("its log cannot be read: {error}"))? {
                LogLine::Played(number, _, _, uncertainty)
                    if NUMBERS <= number || uncertainty < 0 =>
                {
                    return Err(IMPOSSIBLE.to_owned());
                }
                LogLine::Received(JudgedMark { number, uncertainty, alongside, .. })
                    if NUMBERS <= number || uncertainty < Span::ZERO || alongside < 0.0 =>
                {
                    return Err(IMPOSSIBLE.to_owned());
                }
                LogLine::Played(number, frame, at, uncertainty) => played.push(Played {
                    number,
                    frame,
                    at: LocalTime::from_nanos(at),
                    uncertainty: Span::from_nanos(uncertainty),
                    clock: Span::ZERO,
                }),
                LogLine::Received(mark) => received.push(mark),
                LogLine::Ended(end) => return Ok(Self { begun, settings, played, received, end }),
                LogLine::Begun(_) => return Err("its log begins twice".to_owned()),
            }
        }
        Err("its log has no end".to_owned())
    }
}
