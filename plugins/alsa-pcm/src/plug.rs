//! ALSA's callbacks. No panic gets out. None runs in a forked process.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_long, c_uint, c_ulong, c_ushort};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use alsa_sys::{
    SND_PCM_ACCESS_MMAP_INTERLEAVED, SND_PCM_ACCESS_MMAP_NONINTERLEAVED,
    SND_PCM_STATE_DISCONNECTED, SND_PCM_STATE_DRAINING, SND_PCM_STATE_PAUSED,
    SND_PCM_STATE_PREPARED, SND_PCM_STATE_RUNNING, SND_PCM_STATE_XRUN, snd_pcm_channel_area_t,
    snd_pcm_hw_params_t, snd_pcm_sw_params_get_avail_min, snd_pcm_sw_params_get_boundary,
    snd_pcm_sw_params_get_stop_threshold, snd_pcm_sw_params_t,
};
use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::Direction;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

use crate::areas::Areas;
use crate::complaint::Complaint;
use crate::conf::complain;
use crate::ffi::{self, Callbacks, Ioplug};
use crate::forked;
use crate::offers::{Hardware, Software};
use crate::pcm::{Draining, Pcm, View};
use crate::samples::SampleCoding;

#[repr(C)]
pub(crate) struct Plug {
    pub(crate) io: UnsafeCell<Ioplug>,
    owner: u32,
    direction: Direction,
    pcm: Mutex<Pcm>,
}

pub(crate) static CALLBACKS: Callbacks = Callbacks {
    start: Some(start),
    stop: Some(stop),
    pointer: Some(pointer),
    transfer: Some(transfer),
    close: Some(close),
    hw_params: Some(hw_params),
    hw_free: None,
    sw_params: Some(sw_params),
    prepare: Some(prepare),
    drain: Some(drain),
    pause: Some(pause),
    resume: Some(resume),
    poll_descriptors_count: Some(poll_descriptors_count),
    poll_descriptors: Some(poll_descriptors),
    poll_revents: Some(poll_revents),
    dump: None,
    delay: Some(delay),
    query_chmaps: None,
    get_chmap: None,
    set_chmap: None,
};

const LOOK: Span = Span::from_millis(20);

impl Plug {
    /// [`close`] frees it.
    pub(crate) fn new(direction: Direction, pcm: Pcm) -> *mut Self {
        let poll_fd = pcm.poll_fd();
        let plug = Box::into_raw(Box::new(Self {
            io: UnsafeCell::new(Ioplug {
                version: ffi::VERSION,
                name: c"Tautline: sound over the network".as_ptr(),
                flags: ffi::FLAG_LISTED | ffi::FLAG_BOUNDARY,
                poll_fd,
                poll_events: libc::POLLIN as c_uint,
                mmap_rw: 0,
                callback: &raw const CALLBACKS,
                private_data: core::ptr::null_mut(),
                pcm: core::ptr::null_mut(),
                stream: 0,
                state: 0,
                appl_ptr: 0,
                hw_ptr: 0,
                nonblock: 0,
                access: 0,
                format: 0,
                channels: 0,
                rate: 0,
                period_size: 0,
                buffer_size: 0,
            }),
            owner: std::process::id(),
            direction,
            pcm: Mutex::new(pcm),
        }));
        // SAFETY: created above and not shared yet.
        unsafe { (*(*plug).io.get()).private_data = plug.cast() };
        plug
    }

    fn pcm(&self) -> MutexGuard<'_, Pcm> {
        self.pcm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ours(&self) -> bool {
        self.owner == std::process::id()
    }
}

/// # Safety
/// `io` comes from ALSA's callback.
unsafe fn look(io: *mut Ioplug) -> (View, Ioplug) {
    // SAFETY: ALSA changes it under a lock held during callbacks, or word by word. No code makes a
    // reference to it.
    let io = unsafe { io.read_volatile() };
    let mapped = [SND_PCM_ACCESS_MMAP_INTERLEAVED, SND_PCM_ACCESS_MMAP_NONINTERLEAVED];
    let mapped = mapped.iter().any(|access| io.access == *access as c_int);
    (View { state: io.state, application: widened(io.appl_ptr), mapped }, io)
}

#[expect(clippy::useless_conversion, reason = "32 bits on some hosts")]
fn widened(value: c_ulong) -> u64 {
    u64::from(value)
}

/// Runs a callback; returns its error as a negative number.
///
/// # Safety
/// `io` comes from ALSA's callback, between `snd_pcm_ioplug_create` and `close`.
unsafe fn enter<T>(
    io: *mut Ioplug,
    act: impl FnOnce(&Plug, &View, &Ioplug) -> Result<T, Complaint>,
) -> Result<T, c_int> {
    // SAFETY: set when the PCM was opened, freed when it is closed.
    let plug = unsafe { &*(&raw const (*io).private_data).read().cast::<Plug>() };
    if !plug.is_ours() {
        // SAFETY: ALSA frees the PCM only after this callback.
        unsafe { forked::disconnect(io) };
        return Err(-libc::ENODEV);
    }
    // SAFETY: `io` comes from ALSA and lives until `close` returns.
    let (view, seen) = unsafe { look(io) };
    let acted = catch_unwind(AssertUnwindSafe(|| {
        let answer = act(plug, &view, &seen);
        // Collected first: the application's message handler may call us.
        let noted = plug.pcm().noted();
        noted.iter().for_each(|note| complain(note));
        answer
    }));
    match acted {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(complaint)) => {
            complain(&complaint.sentence);
            Err(-complaint.errno)
        }
        Err(_) => Err(-libc::EIO),
    }
}

fn done(answer: Result<(), c_int>) -> c_int {
    answer.map_or_else(|error| error, |()| 0)
}

unsafe extern "C" fn start(io: *mut Ioplug) -> c_int {
    // SAFETY: `io` comes from ALSA.
    done(unsafe { enter(io, |plug, view, _| plug.pcm().start(view)) })
}

unsafe extern "C" fn stop(io: *mut Ioplug) -> c_int {
    // SAFETY: `io` comes from ALSA.
    done(unsafe {
        enter(io, |plug, _, _| {
            plug.pcm().stop();
            Ok(())
        })
    })
}

unsafe extern "C" fn pointer(io: *mut Ioplug) -> c_long {
    // SAFETY: ALSA frees the PCM only after this callback.
    let answer = unsafe {
        enter(io, |plug, view, _| {
            let mut pcm = plug.pcm();
            pcm.pointer(view).inspect_err(|complaint| {
                if complaint.errno == libc::ENODEV && pcm.is_served() {
                    forked::disconnect(io);
                }
            })
        })
    };
    match answer {
        Ok(position) => position as c_long,
        // In a fork, or with a removed card. ALSA would treat an error as an xrun. SAFETY: `io`
        // comes from ALSA.
        Err(error) if error == -libc::ENODEV => unsafe {
            let disconnected = SND_PCM_STATE_DISCONNECTED as c_int;
            let state = (&raw const (*io).state).read_volatile();
            if state == disconnected { widened((*io).hw_ptr) as c_long } else { error.into() }
        },
        Err(error) => error.into(),
    }
}

unsafe extern "C" fn transfer(
    io: *mut Ioplug,
    areas: *const snd_pcm_channel_area_t,
    offset: c_ulong,
    size: c_ulong,
) -> c_long {
    // SAFETY: `io` comes from ALSA.
    let answer = unsafe {
        enter(io, |plug, view, io| {
            let samples = SampleCoding::of(io.format).ok_or(Complaint::of(libc::EBADFD))?;
            // SAFETY: ALSA passes one area per channel, with frames from `offset` on.
            let areas = Areas::new(areas, io.channels as usize, offset, samples.bytes());
            plug.pcm().transfer(view, &areas, widened(offset), size as usize)
        })
    };
    answer.map_or_else(c_long::from, |frames| frames as c_long)
}

unsafe extern "C" fn close(io: *mut Ioplug) -> c_int {
    forked::forget(io);
    // SAFETY: `io` comes from ALSA.
    let ended = done(unsafe { enter(io, |plug, _, _| plug.pcm().close()) });
    // SAFETY: set when the PCM was opened; this is the last callback.
    let plug = unsafe { (&raw const (*io).private_data).read().cast::<Plug>() };
    // SAFETY: created as a box, and unused after this call. In a fork it is leaked, as its threads
    // do not exist there.
    unsafe {
        if (*plug).is_ours() {
            drop(Box::from_raw(plug));
        }
    }
    ended
}

unsafe extern "C" fn hw_params(io: *mut Ioplug, _: *mut snd_pcm_hw_params_t) -> c_int {
    // SAFETY: `io` comes from ALSA.
    done(unsafe {
        enter(io, |plug, _, io| {
            let unusable =
                |error: tautline_proto::units::UnitError| Complaint::unusable(error.to_string());
            plug.pcm().set_hardware(Hardware {
                samples: SampleCoding::of(io.format).ok_or(Complaint::of(libc::EINVAL))?,
                rate: Rate::new(io.rate).map_err(unusable)?,
                channels: Channels::new(io.channels).map_err(unusable)?,
                period: Frames::new(io.period_size as i64),
                buffer: Frames::new(io.buffer_size as i64),
            })
        })
    })
}

unsafe extern "C" fn sw_params(io: *mut Ioplug, params: *mut snd_pcm_sw_params_t) -> c_int {
    // SAFETY: `io` and valid parameters come from ALSA.
    done(unsafe {
        enter(io, |plug, _, _| {
            let (mut minimum, mut stop, mut boundary) = (0, 0, 0);
            snd_pcm_sw_params_get_avail_min(params, &raw mut minimum);
            snd_pcm_sw_params_get_stop_threshold(params, &raw mut stop);
            snd_pcm_sw_params_get_boundary(params, &raw mut boundary);
            let frames = |count: c_ulong| i64::try_from(count).unwrap_or(i64::MAX);
            plug.pcm().set_software(Software {
                minimum: Frames::new(frames(minimum).max(1)),
                stop: Frames::new(frames(stop)),
                boundary: Frames::new(frames(boundary).max(1)),
            });
            Ok(())
        })
    })
}

unsafe extern "C" fn prepare(io: *mut Ioplug) -> c_int {
    // SAFETY: `io` comes from ALSA.
    done(unsafe { enter(io, |plug, _, _| plug.pcm().prepare()) })
}

unsafe extern "C" fn drain(io: *mut Ioplug) -> c_int {
    let mut drained = None;
    loop {
        // SAFETY: `io` comes from ALSA, which keeps the PCM until this returns.
        let answer = unsafe {
            enter(io, |plug, view, io| {
                let mut pcm = plug.pcm();
                if *drained.get_or_insert(pcm.stint()) != pcm.stint() {
                    // Another thread wrote again. Without an error, ALSA would drop the new frames.
                    return Err(Complaint::of(libc::EBADFD));
                }
                if view.state != SND_PCM_STATE_DRAINING as c_int {
                    return Ok((Draining::Done, false)); // Another thread dropped it.
                }
                Ok((pcm.drain(view)?, io.nonblock != 0))
            })
        };
        match answer {
            Ok((Draining::Done, _)) => return 0,
            Ok((Draining::Until(_), true)) => return -libc::EAGAIN,
            Ok((Draining::Until(due), false)) => sleep_until(due.min(now() + LOOK)),
            Err(error) => return error,
        }
    }
}

unsafe extern "C" fn pause(io: *mut Ioplug, enable: c_int) -> c_int {
    // SAFETY: `io` comes from ALSA.
    done(unsafe { enter(io, |plug, _, _| plug.pcm().pause(enable != 0)) })
}

unsafe extern "C" fn resume(_: *mut Ioplug) -> c_int {
    0
}

unsafe extern "C" fn poll_descriptors_count(_: *mut Ioplug) -> c_int {
    1
}

unsafe extern "C" fn poll_descriptors(
    io: *mut Ioplug,
    descriptors: *mut libc::pollfd,
    space: c_uint,
) -> c_int {
    // SAFETY: `io` comes from ALSA, with room for `space` descriptors.
    let answer = unsafe {
        enter(io, |plug, view, _| {
            let mut pcm = plug.pcm();
            pcm.watch(view);
            if space == 0 || descriptors.is_null() {
                return Ok(0);
            }
            let events = libc::POLLIN | libc::POLLERR | libc::POLLNVAL;
            descriptors.write(libc::pollfd { fd: pcm.poll_fd(), events, revents: 0 });
            Ok(1)
        })
    };
    answer.unwrap_or_else(|error| error)
}

unsafe extern "C" fn poll_revents(
    io: *mut Ioplug,
    descriptors: *mut libc::pollfd,
    count: c_uint,
    revents: *mut c_ushort,
) -> c_int {
    // SAFETY: `io` comes from ALSA, with `count` descriptors and a place for the events.
    done(unsafe {
        enter(io, |plug, view, _| {
            let woken = count > 0 && !descriptors.is_null() && (*descriptors).revents != 0;
            let mut events = 0;
            if woken && plug.pcm().is_ready(view) {
                events = match plug.direction {
                    Direction::Playback => libc::POLLOUT,
                    Direction::Capture => libc::POLLIN,
                };
                let fine = [
                    SND_PCM_STATE_PREPARED,
                    SND_PCM_STATE_RUNNING,
                    SND_PCM_STATE_DRAINING,
                    SND_PCM_STATE_PAUSED,
                ];
                if !fine.iter().any(|state| view.state == *state as c_int) {
                    events |= libc::POLLERR;
                }
            }
            revents.write(events as c_ushort);
            Ok(())
        })
    })
}

unsafe extern "C" fn delay(io: *mut Ioplug, frames: *mut c_long) -> c_int {
    // SAFETY: `io` comes from ALSA, with a place for the answer.
    done(unsafe {
        enter(io, |plug, view, _| {
            if view.state == SND_PCM_STATE_XRUN as c_int {
                return Err(Complaint::of(libc::EPIPE));
            }
            frames.write(plug.pcm().delay(view).count() as c_long);
            Ok(())
        })
    })
}
