//! Wake-up times of a waiting application.

use core::ffi::c_int;

use alsa_sys::{
    SND_PCM_STATE_DRAINING, SND_PCM_STATE_PAUSED, SND_PCM_STATE_PREPARED, SND_PCM_STATE_RUNNING,
};
use tautline_io::clock::now;
use tautline_io::programs::buffer::Mode;
use tautline_proto::device::Direction;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};

use super::{Pcm, View};
use crate::complaint::Complaint;
use crate::stream::Stream;

pub(crate) enum Draining {
    Done,
    Until(LocalTime),
}

/// Time from a period's end to the wake-up.
const MARGIN: Span = Span::from_micros(50);
/// Retry interval after that.
const AGAIN: Span = Span::from_micros(200);

impl Pcm {
    pub(crate) fn drain(&mut self, view: &View) -> Result<Draining, Complaint> {
        self.follow(view);
        if self.direction == Direction::Capture
            || self.application.position == MediaTime::ZERO
            || self.stopped
        {
            return Ok(Draining::Done);
        }
        self.stream()?;
        if self.order.mode == Mode::Stopped {
            self.set_mode(Mode::Running);
        }
        let taken = self.position() >= self.application.position;
        Ok(match self.far() {
            Some(far) if taken && now() >= far => Draining::Done,
            Some(far) if taken => Draining::Until(far),
            _ => Draining::Until(now() + AGAIN.max(self.until_moved())),
        })
    }

    fn until_moved(&self) -> Span {
        let anchor = self.standing().and_then(|standing| standing.anchor);
        let due = self.stream.as_ref().zip(anchor);
        due.map_or(AGAIN, |(stream, anchor)| {
            stream.reaches(anchor, self.application.position) - now()
        })
    }

    /// Returns whether the PCM is ready or has failed. Otherwise sets the timer.
    pub(crate) fn is_ready(&mut self, view: &View) -> bool {
        self.follow(view);
        if view.state == SND_PCM_STATE_DRAINING as c_int {
            match self.drain(view) {
                Ok(Draining::Until(due)) => self.rouse_at(due + MARGIN),
                _ => return true,
            }
            return false;
        }
        let waits = [SND_PCM_STATE_PREPARED, SND_PCM_STATE_RUNNING, SND_PCM_STATE_PAUSED];
        let waits = waits.iter().any(|state| view.state == *state as c_int);
        let over = self.stream().is_err();
        if !waits || over || self.available() >= self.software.minimum || self.has_failed() {
            return true;
        }
        self.arm();
        false
    }

    pub(super) fn arm(&self) {
        let missing = self.software.minimum - self.available();
        let due = match (self.stream.as_ref(), self.standing().and_then(|s| s.anchor)) {
            _ if missing <= Frames::ZERO => LocalTime::ZERO,
            _ if self.order.mode != Mode::Running => LocalTime::NEVER,
            (Some(stream), Some(anchor)) => {
                let due = stream.reaches(anchor, self.position() + missing) + MARGIN;
                due.max(now() + AGAIN)
            }
            // The card has not started this stint.
            _ => now() + AGAIN,
        };
        self.rouse_at(due);
        self.rouse_when_moved(missing);
    }

    pub(super) fn rouse_at(&self, due: LocalTime) {
        if let Some(attachment) = self.stream.as_ref().and_then(Stream::attachment) {
            attachment.buffer().want(MediaTime::from_frames(i64::MAX));
            attachment.sign().silence();
        }
        self.timer.set(due);
    }

    /// The timer covers a late thread.
    fn rouse_when_moved(&self, missing: Frames) {
        let Some(attachment) = self.stream.as_ref().and_then(Stream::attachment) else { return };
        if missing <= Frames::ZERO || self.order.mode != Mode::Running {
            return;
        }
        attachment.buffer().want(self.position() + missing);
        if self.available() >= self.software.minimum {
            // The card moved the frames before it saw the request.
            self.timer.set(LocalTime::ZERO);
        }
    }

    pub(crate) fn watch(&mut self, view: &View) {
        self.follow(view);
        if self.is_ready(view) {
            self.rouse_at(LocalTime::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::units::{Channels, Rate};

    use super::*;
    use crate::keys::{self, Value};
    use crate::offers::Hardware;
    use crate::samples::SampleCoding;
    use crate::way::SoundWay;
    use crate::wire::reach;

    fn prepared(application: u64) -> (Pcm, View) {
        let keys = [("to".to_owned(), Value::Text("127.0.0.1:9".into()))];
        let wish = keys::read("test", &keys, Direction::Playback).unwrap();
        let reached = reach(wish, Direction::Playback).unwrap();
        let way = SoundWay::Wire(Box::new(reached));
        let mut pcm = Pcm::new(Direction::Playback, way).unwrap();
        let (rate, channels) = (Rate::HZ_48000, Channels::MONO);
        let samples = SampleCoding::S16;
        let (period, buffer) = (Frames::new(480), Frames::new(4800));
        pcm.set_hardware(Hardware { samples, rate, channels, period, buffer }).unwrap();
        pcm.prepare().unwrap();
        let state = SND_PCM_STATE_DRAINING as c_int;
        (pcm, View { state, application, mapped: false })
    }

    #[test]
    fn drain_starts_a_stream_that_was_not_started() {
        let (mut pcm, view) = prepared(480);
        assert!(matches!(pcm.drain(&view), Ok(Draining::Until(_))));
        assert_eq!(pcm.order.mode, Mode::Running);
    }

    /// ALSA's state may be older than a drop by another thread.
    #[test]
    fn drain_after_a_drop_plays_no_dropped_frames() {
        let (mut pcm, view) = prepared(480);
        pcm.drain(&view).unwrap();
        pcm.stop();
        assert!(matches!(pcm.drain(&view), Ok(Draining::Done)));
        assert_eq!(pcm.order.mode, Mode::Stopped);
        pcm.prepare().unwrap();
        assert!(matches!(pcm.drain(&view), Ok(Draining::Until(_))), "another stint plays");
    }
}
