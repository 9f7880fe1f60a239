//! A card for programs that attach through ALSA PCMs of `type tautline` with key `serve`: captures
//! their mix, plays to recorders.

use tautline_io::local::places;
use tautline_io::programs::ProgramsName;
use tautline_io::programs::listening::ProgramsSocket;
use tautline_io::programs::mixing::AttachedPrograms;
use tautline_proto::card_clock::{CardClock, Turn};
use tautline_proto::device::{DeviceError, Direction, Settings};
use tautline_proto::time::{Frames, LocalTime};

pub(crate) struct ProgramsEnd {
    programs: AttachedPrograms,
    channels: usize,
    next: i64,
    skipped: Frames,
    _listening: ProgramsSocket,
}

impl ProgramsEnd {
    pub(crate) fn new(
        name: &ProgramsName,
        direction: Direction,
        settings: &Settings,
    ) -> Result<Self, DeviceError> {
        let folder = places().into_iter().next().unwrap_or_default();
        let theirs = match direction {
            Direction::Capture => Direction::Playback,
            Direction::Playback => Direction::Capture,
        };
        let opened = ProgramsSocket::open(&folder, name, theirs, *settings);
        let (listening, programs) = opened.map_err(|error| {
            let sentence = error.to_string();
            let (answer, hint) =
                sentence.split_once("\nhint: ").unwrap_or((&sentence, "try again"));
            let tried = format!("programs:{name}");
            DeviceError { tried, answer: answer.to_owned(), hint: hint.to_owned() }
        })?;
        let (channels, skipped) = (settings.channels.count(), Frames::ZERO);
        Ok(Self { programs, channels, next: 0, skipped, _listening: listening })
    }

    pub(crate) fn begin(&mut self, clock: &CardClock) {
        (self.next, self.skipped) = (0, Frames::ZERO);
        self.programs.begin(clock.start());
    }

    fn turn(&mut self, samples: usize) -> Turn {
        let (frame, skipped) = (self.next, std::mem::take(&mut self.skipped));
        self.next += (samples / self.channels) as i64;
        // Programs compute their times from the clock.
        Turn { frame, meets: LocalTime::NEVER, skipped }
    }

    pub(crate) fn fill(&mut self, block: &mut [f32]) {
        let turn = self.turn(block.len());
        self.programs.mix(&turn, block);
    }

    pub(crate) fn play(&mut self, block: &[f32]) {
        let turn = self.turn(block.len());
        self.programs.give(&turn, block);
    }

    pub(crate) fn skip(&mut self, frames: Frames) {
        self.next += frames.count();
        self.skipped += frames;
    }
}
