use core::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use alsa_sys::{SND_PCM_STREAM_PLAYBACK, snd_config_t, snd_pcm_stream_t, snd_pcm_t};
use tautline_io::socket::forks::leave_sockets;
use tautline_proto::device::Direction;

use crate::complaint::Complaint;
use crate::conf::{complain, pairs, text};
use crate::ffi::{
    Ioplug, snd_pcm_ioplug_create, snd_pcm_ioplug_delete, snd_pcm_ioplug_set_param_list,
    snd_pcm_ioplug_set_param_minmax,
};
use crate::forked;
use crate::keys::{self, Value};
use crate::offers::{Offer, offers};
use crate::pcm::Pcm;
use crate::plug::Plug;
use crate::way::{AttachedCard, SoundWay};
use crate::wire::reach;

/// Interface version 001 of the entry point (`SND_PCM_PLUGIN_SYMBOL`).
#[unsafe(no_mangle)]
pub static __snd_pcm_tautline_open_dlsym_pcm_001: c_char = 0;

/// Opens a PCM of `type tautline` (`SND_PCM_PLUGIN_DEFINE_FUNC`).
///
/// # Safety
/// Only ALSA may call this, with a valid configuration and handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _snd_pcm_tautline_open(
    pcmp: *mut *mut snd_pcm_t,
    name: *const c_char,
    _root: *mut snd_config_t,
    conf: *mut snd_config_t,
    stream: snd_pcm_stream_t,
    mode: c_int,
) -> c_int {
    let opened = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: ALSA passes a null or NUL-terminated name and the PCM's compound.
        let (called, keys) = unsafe { (named(name), pairs(conf)) };
        let plug = lay_out(&called, &keys, direction(stream))?;
        // SAFETY: the PCM is not shared yet.
        let pcm = unsafe { enroll(plug, name, stream, mode)? };
        // SAFETY: `pcmp` is ALSA's place for the handle in `snd_pcm_open`.
        unsafe { pcmp.write(pcm) };
        Ok(())
    }));
    match opened {
        Ok(Ok(())) => 0,
        Ok(Err(Complaint { errno, sentence })) => {
            complain(&sentence);
            -errno
        }
        Err(_) => -libc::EIO,
    }
}

/// # Safety
/// `name` is null or NUL-terminated.
unsafe fn named(name: *const c_char) -> String {
    // SAFETY: the caller guarantees its terminator.
    if name.is_null() { "tautline".into() } else { unsafe { text(name) } }
}

fn direction(stream: snd_pcm_stream_t) -> Direction {
    if stream == SND_PCM_STREAM_PLAYBACK { Direction::Playback } else { Direction::Capture }
}

struct LaidOut {
    plug: *mut Plug,
    offers: Vec<Offer>,
}

fn lay_out(
    name: &str,
    keys: &[(String, Value)],
    direction: Direction,
) -> Result<LaidOut, Complaint> {
    let served = keys::served(name, keys)?;
    let wish = match served {
        None => Some(keys::read(name, keys, direction)?),
        Some(_) => None,
    };
    let about = |complaint: Complaint| Complaint {
        sentence: format!("pcm.{name}: {}", complaint.sentence),
        ..complaint
    };
    leave_sockets().and_then(|()| forked::watch()).map_err(|error| Complaint {
        errno: error.raw_os_error().unwrap_or(libc::ENOMEM),
        sentence: format!("pcm.{name}: cannot prepare for forks: {error}; stop other programs"),
    })?;
    let way = match (wish, served) {
        (Some(wish), _) => reach(wish, direction).map(|reached| SoundWay::Wire(Box::new(reached))),
        (None, served) => {
            AttachedCard::attach(served.unwrap_or_default(), direction).map(SoundWay::AttachedCard)
        }
    };
    let way = way.map_err(about)?;
    let range = way.range(direction).map_err(about)?;
    let pcm = Pcm::new(direction, way).map_err(|error| Complaint {
        errno: error.raw_os_error().unwrap_or(libc::EIO),
        sentence: format!("pcm.{name}: cannot create a timer: {error}; raise ulimit -n"),
    })?;
    Ok(LaidOut { plug: Plug::new(direction, pcm), offers: offers(&range) })
}

/// # Safety
/// The arguments come from ALSA, and the PCM is not shared.
unsafe fn enroll(
    laid_out: LaidOut,
    name: *const c_char,
    stream: snd_pcm_stream_t,
    mode: c_int,
) -> Result<*mut snd_pcm_t, Complaint> {
    let LaidOut { plug, offers } = laid_out;
    // SAFETY: `plug` is laid out for ALSA. If `snd_pcm_ioplug_create` fails, we free it; otherwise
    // ALSA does via `close`.
    unsafe {
        let io: *mut Ioplug = (*plug).io.get();
        let answer = snd_pcm_ioplug_create(io, name, stream as c_int, mode);
        if answer < 0 {
            drop(Box::from_raw(plug));
            return Err(Complaint::of(-answer));
        }
        for offer in &offers {
            let answer = match offer {
                Offer::List(kind, list) => {
                    snd_pcm_ioplug_set_param_list(io, *kind, list.len() as u32, list.as_ptr())
                }
                Offer::Between(kind, minimum, maximum) => {
                    snd_pcm_ioplug_set_param_minmax(io, *kind, *minimum, *maximum)
                }
            };
            if answer < 0 {
                snd_pcm_ioplug_delete(io);
                return Err(Complaint::of(-answer));
            }
        }
        forked::remember(io);
        Ok((*io).pcm)
    }
}
