//! Peer of a PCM: a stream of its own, or the card of a `taut serve`.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use tautline_dsp::format::SampleFormat;
use tautline_engine::monitor::observers::places;
use tautline_io::programs::ProgramsName;
use tautline_io::programs::attaching::{AttachError, Attachment};
use tautline_proto::device::{Direction, Settings};
use tautline_proto::time::Frames;

use crate::complaint::Complaint;
use crate::keys::PERIODS;
use crate::offers::Hardware;
use crate::stream::{Stream, StreamShape};
use crate::wire::{CARD_PERIODS, Range, Reached, carries, longest_period};

pub(crate) enum SoundWay {
    Wire(Box<Reached>),
    AttachedCard(AttachedCard),
}

pub(crate) struct AttachedCard {
    name: ProgramsName,
    folders: Vec<PathBuf>,
    settings: Settings,
    frames: usize,
    attachment: Option<Attachment>,
}

impl AttachedCard {
    pub(crate) fn attach(name: ProgramsName, direction: Direction) -> Result<Self, Complaint> {
        let folders = places();
        let attachment = attached(&folders, &name, direction)?;
        let (settings, frames) = (attachment.settings(), attachment.buffer().frames());
        Ok(Self { name, folders, settings, frames, attachment: Some(attachment) })
    }

    fn range(&self) -> Range {
        let Settings { rate, channels, period, .. } = self.settings;
        // Limits are in bytes, for 16-bit and 32-bit samples.
        let buffer = Some(Frames::from_len(self.frames / 2));
        Range { rates: vec![rate], channels: (channels, channels), shortest: period, buffer }
    }

    fn start(&mut self, direction: Direction, shape: StreamShape) -> Result<Stream, Complaint> {
        let attachment = match self.attachment.take().filter(|attachment| !attachment.is_over()) {
            Some(attachment) => attachment,
            None => attached(&self.folders, &self.name, direction)?,
        };
        if attachment.settings() != self.settings || attachment.buffer().frames() != self.frames {
            return Err(Complaint {
                errno: libc::ENODEV,
                sentence: format!(
                    "serve {}: its card's settings have changed since this PCM was opened; open it again",
                    self.name
                ),
            });
        }
        Ok(Stream::served(attachment, direction, shape))
    }
}

fn attached(
    folders: &[PathBuf],
    name: &ProgramsName,
    direction: Direction,
) -> Result<Attachment, Complaint> {
    let folders = folders.iter().map(PathBuf::as_path);
    Attachment::open(folders, name, direction).map_err(|error| {
        let errno = match &error {
            AttachError::Nobody => libc::ENODEV,
            AttachError::Refused(_) => libc::EBUSY,
            AttachError::Foreign => libc::EACCES,
            AttachError::Strange(_) => libc::EPROTO,
            AttachError::System(error) => error.raw_os_error().unwrap_or(libc::EIO),
        };
        let flag = match direction {
            Direction::Playback => "--input",
            Direction::Capture => "--output",
        };
        let sentence = match error {
            AttachError::Nobody => {
                format!("serve {name}: no taut serve has this name; run taut serve {flag} programs:{name}")
            }
            error => format!("serve {name}: {error}"),
        };
        Complaint { errno, sentence }
    })
}

impl SoundWay {
    pub(crate) fn code_as(&mut self, program: SampleFormat) -> bool {
        match self {
            Self::Wire(reached) => reached.wish.code_as(program),
            Self::AttachedCard(_) => false,
        }
    }

    pub(crate) fn shortest(&self) -> Frames {
        match self {
            Self::Wire(_) => Frames::new(PERIODS.0),
            Self::AttachedCard(served) => served.settings.period,
        }
    }

    pub(crate) fn range(&self, direction: Direction) -> Result<Range, Complaint> {
        match self {
            Self::Wire(reached) => carries(reached, direction),
            Self::AttachedCard(served) => Ok(served.range()),
        }
    }

    /// The period is at most the program's, and short enough for the latency.
    pub(crate) fn card(
        &self,
        direction: Direction,
        hardware: &Hardware,
    ) -> Result<Settings, Complaint> {
        let reached = match self {
            Self::Wire(reached) => reached,
            Self::AttachedCard(served) => return Ok(served.settings),
        };
        let half = Frames::new(hardware.buffer.count() / 2);
        let wanted = reached.wish.keys.period.min(hardware.period).min(half);
        let mut device = Settings {
            rate: hardware.rate,
            channels: hardware.channels,
            period: wanted.max(Frames::new(PERIODS.0)),
            periods: CARD_PERIODS,
        };
        device.period = longest_period(reached, direction, &device)?;
        Ok(device)
    }

    pub(crate) fn start(
        &mut self,
        direction: Direction,
        shape: StreamShape,
        notes: Sender<String>,
    ) -> Result<Stream, Complaint> {
        match self {
            Self::Wire(reached) => Stream::start(reached, direction, shape, notes),
            Self::AttachedCard(served) => served.start(direction, shape),
        }
    }
}
