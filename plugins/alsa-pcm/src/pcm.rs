//! The application's side of a PCM. Positions are media times since the last `prepare` (a "stint").
//! The device's thread reports the card's position; ALSA's pointer is the application's.

mod transfer;
mod waiting;

use core::ffi::c_int;
use std::io;
use std::os::fd::RawFd;
use std::sync::mpsc::{Receiver, Sender, channel};

use alsa_sys::{SND_PCM_STATE_DRAINING, SND_PCM_STATE_RUNNING};
use tautline_io::clock::Timer;
use tautline_io::clock::{now, sleep_until};
use tautline_io::control::Waiter;
use tautline_io::programs::buffer::{DeviceProgress, Mode, Order};
use tautline_proto::device::Direction;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};

use crate::complaint::Complaint;
use crate::offers::{Hardware, Software};
use crate::stream::{SoundEnd, Stream, StreamShape};
use crate::way::SoundWay;

#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) state: c_int,
    pub(crate) application: u64,
    /// Whether ALSA holds the samples.
    pub(crate) mapped: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Application {
    position: MediaTime,
    pointer: u64,
}

const ENDLESS: Frames = Frames::new(i64::MAX);

/// Timeout of an order, which takes a period.
const TIMEOUT: Span = Span::from_secs(2);
const LOOK: Span = Span::from_micros(500);
/// Key of the timer in the waiter.
const TIMER: u64 = u64::MAX;

pub(crate) use waiting::Draining;

// ALSA calls from any thread, one at a time (`Plug::pcm`).
const _: () = {
    const fn goes_between_threads<T: Send>() {}
    goes_between_threads::<Pcm>();
};

pub(crate) struct Pcm {
    direction: Direction,
    way: SoundWay,
    timer: Timer,
    waiter: Option<Waiter>,
    hardware: Option<Hardware>,
    software: Software,
    stream: Option<Stream>,
    /// The application's handler expects them on its own thread.
    notes: (Sender<String>, Receiver<String>),
    order: Order,
    stopped: bool,
    application: Application,
    moved: MediaTime,
    ever: u64,
    reported: MediaTime,
    bytes: Box<[u8]>,
    samples: Box<[f32]>,
    /// Kept for repeated reading.
    read: Box<[f32]>,
}

impl Pcm {
    pub(crate) fn new(direction: Direction, way: SoundWay) -> io::Result<Self> {
        let timer = Timer::new()?;
        let waiter = match &way {
            SoundWay::Wire(_) => None,
            SoundWay::AttachedCard(_) => {
                let waiter = Waiter::new()?;
                waiter.add(&timer, TIMER)?;
                Some(waiter)
            }
        };
        Ok(Self {
            direction,
            way,
            timer,
            waiter,
            hardware: None,
            software: Software { minimum: Frames::new(1), stop: ENDLESS, boundary: ENDLESS },
            stream: None,
            notes: channel(),
            order: Order { stint: 0, mode: Mode::Stopped },
            stopped: false,
            application: Application::default(),
            moved: MediaTime::ZERO,
            ever: 0,
            reported: MediaTime::ZERO,
            bytes: Box::default(),
            samples: Box::default(),
            read: Box::default(),
        })
    }

    /// Whether the card belongs to another process.
    pub(crate) const fn is_served(&self) -> bool {
        matches!(self.way, SoundWay::AttachedCard(_))
    }

    pub(crate) fn poll_fd(&self) -> RawFd {
        self.waiter.as_ref().map_or_else(|| self.timer.fd(), Waiter::fd)
    }

    pub(crate) fn set_hardware(&mut self, hardware: Hardware) -> Result<(), Complaint> {
        let minimum = 2 * self.way.shortest().count();
        if hardware.buffer.count() < minimum {
            return Err(Complaint::unusable(format!(
                "a buffer of {} frames is too short; use {} or more",
                hardware.buffer, minimum
            )));
        }
        let samples = transfer::CHUNK * hardware.channels.count();
        self.bytes = vec![0; samples * hardware.samples.bytes()].into();
        self.samples = vec![0.0; samples].into();
        if self.direction == Direction::Capture {
            self.read = vec![0.0; hardware.channels.samples_in(hardware.buffer)].into();
        }
        self.hardware = Some(hardware);
        if self.way.code_as(hardware.samples.on_wire()) {
            // The running stream uses the previous format.
            self.close()?;
        }
        Ok(())
    }

    pub(crate) fn set_software(&mut self, software: Software) {
        self.software = software;
    }

    fn shape(&self, hardware: &Hardware) -> Result<StreamShape, Complaint> {
        let device = self.way.card(self.direction, hardware)?;
        Ok(StreamShape { device, room: (hardware.buffer + device.period).as_len() })
    }

    pub(crate) fn prepare(&mut self) -> Result<(), Complaint> {
        let hardware = self.hardware.ok_or(Complaint::of(libc::EBADFD))?;
        let shape = self.shape(&hardware)?;
        let fits = |stream: &Stream| {
            stream.shape.device == shape.device
                && stream.shape.room >= shape.room
                && !stream.is_over()
        };
        if !self.stream.as_ref().is_some_and(fits) {
            self.close()?;
            let stream = self.way.start(self.direction, shape, self.notes.0.clone())?;
            if let Some((attachment, waiter)) = stream.attachment().zip(self.waiter.as_ref()) {
                attachment.watched_by(waiter).map_err(|error| Complaint {
                    errno: error.raw_os_error().unwrap_or(libc::EIO),
                    sentence: format!("cannot wait for taut serve: {error}; stop other programs"),
                })?;
            }
            self.stream = Some(stream);
            (self.ever, self.order.stint) = (0, 0);
        }
        if let Some(stream) = &self.stream {
            stream.shared.set_room(shape.room);
        }
        self.application = Application::default();
        (self.moved, self.reported) = (MediaTime::ZERO, MediaTime::ZERO);
        self.set_end(MediaTime::ZERO);
        self.give(Order { stint: self.order.stint + 1, mode: Mode::Stopped });
        self.stopped = false;
        self.await_stint()?;
        self.drop_older();
        Ok(())
    }

    fn await_stint(&mut self) -> Result<(), Complaint> {
        let until = now() + TIMEOUT;
        while self.standing().is_none() {
            self.stream()?;
            if now() > until {
                return Err(Complaint {
                    errno: libc::EIO,
                    sentence: "the stream's thread does not run; the machine is too busy".into(),
                });
            }
            sleep_until(now() + LOOK);
        }
        Ok(())
    }

    fn give(&mut self, order: Order) {
        self.order = order;
        if let Some(stream) = &self.stream {
            stream.shared.order(order);
        }
    }

    fn set_mode(&mut self, mode: Mode) {
        self.give(Order { mode, ..self.order });
    }

    fn set_end(&self, end: MediaTime) {
        if let Some(Stream { held: SoundEnd::Playing(track), .. }) = &self.stream {
            track.set_end(end);
        }
    }

    fn standing(&self) -> Option<DeviceProgress> {
        let standing = self.stream.as_ref()?.shared.standing();
        (standing.stint == self.order.stint).then_some(standing)
    }

    fn position(&self) -> MediaTime {
        self.standing().map_or(MediaTime::ZERO, |standing| standing.position)
    }

    fn stream(&self) -> Result<&Stream, Complaint> {
        let stream = self.stream.as_ref().ok_or(Complaint::of(libc::EBADFD))?;
        if stream.is_over() { Err(Complaint::of(libc::ENODEV)) } else { Ok(stream) }
    }

    pub(crate) fn start(&mut self, view: &View) -> Result<(), Complaint> {
        self.follow(view);
        self.stream()?;
        self.set_mode(Mode::Running);
        self.arm();
        Ok(())
    }

    pub(crate) fn stint(&self) -> u64 {
        self.order.stint
    }

    pub(crate) fn stop(&mut self) {
        self.set_mode(Mode::Stopped);
        self.stopped = true;
        self.rouse_at(LocalTime::ZERO);
    }

    pub(crate) fn pause(&mut self, on: bool) -> Result<(), Complaint> {
        self.stream()?;
        self.set_mode(if on { Mode::Paused } else { Mode::Running });
        self.arm();
        Ok(())
    }

    fn follow(&mut self, view: &View) {
        let Application { position, pointer } = self.application;
        let boundary = self.software.boundary.count();
        let mut step = view.application as i64 - pointer as i64;
        if step > boundary / 2 {
            step -= boundary;
        } else if step < -(boundary / 2) {
            step += boundary;
        }
        let position = position + Frames::new(step);
        self.application = Application { position, pointer: view.application };
        if step != 0 {
            // Skipped frames arrive with the next write.
            self.set_end(position.min(self.moved));
        }
    }

    fn available(&self) -> Frames {
        let buffer = self.hardware.map_or(Frames::ZERO, |hardware| hardware.buffer);
        let room = match self.direction {
            Direction::Playback => buffer,
            Direction::Capture => Frames::ZERO,
        };
        self.position() + room - self.application.position
    }

    fn has_failed(&self) -> bool {
        self.software.stop < self.software.boundary && self.available() >= self.software.stop
    }

    /// An error after an xrun or the stream's end.
    pub(crate) fn pointer(&mut self, view: &View) -> Result<u64, Complaint> {
        self.follow(view);
        let mut position = self.position();
        if view.state == SND_PCM_STATE_RUNNING as c_int {
            self.stream()?;
            if self.has_failed() {
                self.stop();
                return Err(Complaint::of(libc::EPIPE));
            }
        }
        if view.state == SND_PCM_STATE_DRAINING as c_int && self.direction == Direction::Playback {
            // ALSA counts frames at the card's position as played.
            let end = self.application.position;
            position = match self.drain(view)? {
                Draining::Done => end,
                Draining::Until(_) => position.min(end - Frames::new(1)),
            };
        }
        self.reported = self.reported.max(position);
        Ok((self.reported.as_frames() % self.software.boundary.count()) as u64)
    }

    /// Latency from the card's clock to the far DAC, or from the far ADC.
    fn latency(&self) -> Span {
        self.stream.as_ref().map_or(Span::ZERO, |stream| stream.shared.latency())
    }

    /// Time of the application's position.
    fn far(&self) -> Option<LocalTime> {
        let stream = self.stream.as_ref()?;
        let anchor = self.standing().and_then(|standing| standing.anchor)?;
        let here =
            stream.clock().instant_of(anchor.saturating_add(self.application.position.as_frames()));
        Some(match self.direction {
            Direction::Playback => here + self.latency(),
            Direction::Capture => here - self.latency(),
        })
    }

    /// Frames until the far end plays the next written frame, or since the next frame to read was
    /// captured. Zero if that time has passed.
    pub(crate) fn delay(&mut self, view: &View) -> Frames {
        self.follow(view);
        let Some(hardware) = self.hardware else { return Frames::ZERO };
        let far = self.far().filter(|_| self.order.mode == Mode::Running);
        let frames = |span: Span| hardware.rate.frames_nearest(span);
        let delay = match (far, self.direction) {
            (Some(far), Direction::Playback) => frames(far - now()),
            (Some(far), Direction::Capture) => frames(now() - far),
            // The PCM is stopped: frames in the ring plus the latency.
            (None, Direction::Playback) => {
                self.application.position - self.position() + frames(self.latency())
            }
            (None, Direction::Capture) => {
                self.position() - self.application.position + frames(self.latency())
            }
        };
        delay.max(Frames::ZERO)
    }

    pub(crate) fn noted(&self) -> Vec<String> {
        self.notes.1.try_iter().collect()
    }

    pub(crate) fn close(&mut self) -> Result<(), Complaint> {
        self.stream.take().map_or(Ok(()), Stream::end)
    }
}
