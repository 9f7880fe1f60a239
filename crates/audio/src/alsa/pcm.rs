//! A device thread's calls to a PCM: mapped memory ([`Access::Mapped`]), or reads and writes for
//! plugins without it.
#![expect(unsafe_code, reason = "keeps ALSA from printing")]

use ::alsa::PollDescriptors;
use ::alsa::direct::pcm::Status;
use ::alsa::pcm::{PCM, State};
use ::alsa::poll::{poll, pollfd};
use tautline_dsp::card::{self, CardFormat};
use tautline_io::clock;
use tautline_io::thread::realtime;
use tautline_proto::device::{Direction, Settings};
use tautline_proto::time::{Frames, LocalTime, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Mapped,
    Copied,
}

pub(super) type CardCoding = (CardFormat, Access);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PcmError {
    Stopped,
    Suspended,
    NotReady,
    Unplugged,
    Refused(i32),
}

impl From<::alsa::Error> for PcmError {
    fn from(error: ::alsa::Error) -> Self {
        match error.errno().abs() {
            libc::EPIPE | libc::EBADFD => Self::Stopped,
            libc::ESTRPIPE => Self::Suspended,
            libc::EAGAIN | libc::EINTR => Self::NotReady,
            libc::ENODEV | libc::ENXIO | libc::EBADF => Self::Unplugged,
            errno => Self::Refused(errno),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) now: LocalTime,
    pub(super) avail: Frames,
    pub(super) delay: Frames,
    pub(super) stamp: Option<LocalTime>,
}

/// Reason for the permit: ALSA locks in most calls, but only this thread uses the non-blocking PCM.
const PERMITTED: &str = "ALSA locks what only this thread uses, and the PCM does not block";

fn foreign<T>(call: impl FnOnce() -> T) -> T {
    realtime::permitted(PERMITTED, call)
}

const UNASKED: u32 = 31;

pub(super) struct CardPcm {
    /// Kernel's card state; before `pcm`, which is closed after it.
    shared: Option<Status>,
    unrequested: u32,
    pcm: PCM,
    direction: Direction,
    settings: Settings,
    format: CardFormat,
    access: Access,
    polled: Vec<pollfd>,
    copied: Box<[u8]>,
}

impl CardPcm {
    pub(super) fn new(
        pcm: PCM,
        is_card: bool,
        direction: Direction,
        settings: Settings,
        (format, access): CardCoding,
    ) -> Result<Self, ::alsa::Error> {
        let shared = if is_card { Status::new(&pcm).ok() } else { None };
        let polled = pcm.get()?;
        let samples = settings.channels.samples_in(settings.period);
        let copied = match access {
            Access::Mapped => 0,
            Access::Copied => samples * format.bytes(),
        };
        let copied = vec![0; copied].into();
        let unrequested = 0;
        Ok(Self { shared, unrequested, pcm, direction, settings, format, access, polled, copied })
    }

    pub(super) fn settings(&self) -> Settings {
        self.settings
    }

    pub(super) fn link(&self, other: &Self) -> bool {
        self.pcm.link(&other.pcm).is_ok()
    }

    pub(super) fn stop(&self) -> Result<(), PcmError> {
        if matches!(foreign(|| self.pcm.state_raw()), RUNNING | DRAINING | PAUSED) {
            foreign(|| self.pcm.drop())?;
        }
        Ok(())
    }

    pub(super) fn prepare(&self) -> Result<(), PcmError> {
        Ok(foreign(|| self.pcm.prepare())?)
    }

    pub(super) fn fill(&mut self, block: &mut [f32]) -> Result<(), PcmError> {
        (0..self.settings.periods).try_for_each(|_| self.transfer(block))
    }

    pub(super) fn start(&self) -> Result<(), PcmError> {
        if foreign(|| self.pcm.state_raw()) != RUNNING {
            foreign(|| self.pcm.start())?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn halt(&self) {
        self.pcm.drop().unwrap();
    }

    pub(super) fn resume(&self) -> bool {
        !matches!(foreign(|| self.pcm.resume()).map_err(PcmError::from), Err(PcmError::NotReady))
    }

    /// Waits about `maximum`; returns whether there was an event. Blocks.
    pub(super) fn wait(&mut self, maximum: Span) -> bool {
        let millis = maximum.as_nanos() / Span::from_millis(1).as_nanos() + 1;
        let ready = poll(&mut self.polled, millis.try_into().unwrap_or(i32::MAX));
        let _ = self.pcm.revents(&self.polled);
        ready.is_ok_and(|ready| ready > 0)
    }

    pub(super) fn read(&mut self, woke: bool) -> Result<Reading, PcmError> {
        if woke && self.unrequested > 0 {
            self.unrequested -= 1;
            if let Some(reading) = self.noted() {
                return Ok(reading);
            }
        }
        let reading = self.request()?;
        let simple = reading.stamp.is_some() && reading.delay == self.held(reading.avail);
        self.unrequested = if simple { UNASKED } else { 0 };
        Ok(reading)
    }

    fn held(&self, avail: Frames) -> Frames {
        match self.direction {
            Direction::Capture => avail,
            Direction::Playback => {
                let periods = i64::from(self.settings.periods);
                Frames::new(self.settings.period.count() * periods) - avail
            }
        }
    }

    /// Position at the last interrupt, without a system call. `None` if stopped, or so late that
    /// another interrupt may be writing.
    fn noted(&self) -> Option<Reading> {
        let shared = self.shared.as_ref()?;
        let avail = Frames::new(foreign(|| self.pcm.avail_update()).ok()?);
        let stamp = instant(shared.htstamp());
        let again = Frames::new(foreign(|| self.pcm.avail_update()).ok()?);
        let now = clock::now();
        let period = self.settings.period;
        let whole = avail == again && avail >= period && avail < period + period;
        let runs = foreign(|| self.pcm.state_raw()) == RUNNING;
        let delay = self.held(avail);
        (whole && runs && stamp.is_some()).then_some(Reading { now, avail, delay, stamp })
    }

    fn request(&self) -> Result<Reading, PcmError> {
        let status = foreign(|| self.pcm.status())?;
        let now = clock::now();
        match status.get_state() {
            State::Running | State::Draining => {}
            State::Suspended => return Err(PcmError::Suspended),
            State::Disconnected => return Err(PcmError::Unplugged),
            _ => return Err(PcmError::Stopped),
        }
        Ok(Reading {
            now,
            avail: Frames::new(status.get_avail()),
            delay: Frames::new(status.get_delay()),
            stamp: instant(status.get_htstamp()),
        })
    }

    /// Plugins move frames only when available frames are queried.
    pub(super) fn transfer(&mut self, block: &mut [f32]) -> Result<(), PcmError> {
        foreign(|| self.pcm.avail_update())?;
        let channels = self.settings.channels.count();
        let mut rest = block;
        while !rest.is_empty() {
            let moved = match self.access {
                Access::Mapped => self.map(rest)?,
                Access::Copied => self.copy(rest)?,
            };
            if moved == 0 {
                return Err(PcmError::NotReady);
            }
            rest = &mut rest[moved * channels..];
        }
        Ok(())
    }

    fn map(&self, samples: &mut [f32]) -> Result<usize, PcmError> {
        let channels = self.settings.channels.count();
        let (direction, format) = (self.direction, self.format);
        let permit = realtime::permit(PERMITTED);
        let maximum = samples.len() / channels;
        let mut code = |bytes: &mut [u8]| {
            let room = (bytes.len() / format.bytes()).min(samples.len());
            match direction {
                Direction::Capture => card::decode(format, bytes, &mut samples[..room]),
                Direction::Playback => card::encode(format, &samples[..room], bytes),
            }
            room / channels
        };
        Ok(self.pcm.io_bytes().mmap(maximum, |bytes| permit.lifted(|| code(bytes)))?)
    }

    fn copy(&mut self, samples: &mut [f32]) -> Result<usize, PcmError> {
        let channels = self.settings.channels.count();
        let bytes = &mut self.copied[..samples.len() * self.format.bytes()];
        let io = self.pcm.io_bytes();
        match self.direction {
            Direction::Capture => {
                let moved = foreign(|| io.readi(bytes))?;
                card::decode(self.format, bytes, &mut samples[..moved * channels]);
                Ok(moved)
            }
            Direction::Playback => {
                card::encode(self.format, samples, bytes);
                Ok(foreign(|| io.writei(bytes))?)
            }
        }
    }
}

fn instant(stamp: libc::timespec) -> Option<LocalTime> {
    let stamp = LocalTime::ZERO + Span::from_secs(stamp.tv_sec) + Span::from_nanos(stamp.tv_nsec);
    (stamp > LocalTime::ZERO).then_some(stamp)
}

const RUNNING: i32 = State::Running as i32;
const DRAINING: i32 = State::Draining as i32;
const PAUSED: i32 = State::Paused as i32;

/// Keeps ALSA from printing on this thread.
pub(super) fn hush() {
    // SAFETY: the handler is called on this thread only and does not read its arguments.
    unsafe { alsa_sys::snd_lib_error_set_local(Some(ignore)) };
}

unsafe extern "C" fn ignore(
    _file: *const libc::c_char,
    _line: libc::c_int,
    _function: *const libc::c_char,
    _errno: libc::c_int,
    _format: *const libc::c_char,
    _arguments: *mut alsa_sys::__va_list_tag,
) {
}
