//! A client of a JACK server. Its threads call the process in a seat (`processing`) or only touch
//! atomics (`notified`, `signals`). Many calls wait without a timeout, so use a thread that can be
//! abandoned (`client_thread`).

#![expect(unsafe_code, reason = "a C library is called")]

use std::ffi::{CStr, CString, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use tautline_proto::device::{Direction, Directions};
use tautline_proto::time::Frames;
use tautline_proto::units::Rate;

use super::cycle::Adaptor;
use super::latency::PortLatency;
use super::library::{AUDIO, Library, NO_START_SERVER, RawClient, SERVER_NAME};
use super::notified::{
    Notified, buffer_changed, freewheeled, latency_asked, rate_changed, shut_down, starved,
};
use super::ports::{Port, card_latency, counterparts, latency_bounds, named, port_flag};
use super::processing::{Processing, called};
use super::signals::{ServerWord, Signals};
use crate::toolbox::Sides;

#[derive(Debug, Clone, Copy)]
pub(crate) struct JackStatus(pub(crate) c_int);

pub(crate) struct Client {
    library: &'static Library,
    raw: NonNull<RawClient>,
    directions: Directions,
    ports: Sides<Vec<Port>>,
    signals: Arc<Signals>,
    word: ServerWord,
    processing: Option<NonNull<Processing>>,
    notified: Option<NonNull<Notified>>,
}

// SAFETY: the library accepts a client on any thread; after closing, the pointers' data is ours
// alone.
unsafe impl Send for Client {}

impl Client {
    pub(crate) fn open(
        library: &'static Library,
        name: &CStr,
        server: Option<&CStr>,
        directions: Directions,
    ) -> Result<Self, JackStatus> {
        let mut status = 0;
        // SAFETY: the texts are NUL-terminated, the status is writable, and the server's name is
        // the only argument of the option (`jack/jack.h`).
        let raw = unsafe {
            match server {
                None => (library.client_open)(name.as_ptr(), NO_START_SERVER, &mut status),
                Some(server) => {
                    let options = NO_START_SERVER | SERVER_NAME;
                    (library.client_open)(name.as_ptr(), options, &mut status, server.as_ptr())
                }
            }
        };
        let raw = NonNull::new(raw).ok_or(JackStatus(status))?;
        let (signals, word) = (Arc::default(), ServerWord::default());
        Ok(Self {
            library,
            raw,
            directions,
            ports: Sides::default(),
            signals,
            word,
            processing: None,
            notified: None,
        })
    }

    pub(crate) fn longest_name(library: &Library) -> usize {
        // SAFETY: it takes no arguments and returns a constant, which includes the final zero.
        let size = unsafe { (library.client_name_size)() };
        usize::try_from(size).unwrap_or(0).saturating_sub(1)
    }

    pub(crate) fn name(&self) -> String {
        // SAFETY: the client is open, and the text lives as long as it.
        let name = unsafe { CStr::from_ptr((self.library.get_client_name)(self.raw.as_ptr())) };
        name.to_string_lossy().into_owned()
    }

    pub(crate) fn rate(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.library.get_sample_rate)(self.raw.as_ptr()) }
    }

    pub(crate) fn buffer(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.library.get_buffer_size)(self.raw.as_ptr()) }
    }

    /// Priority of this client's thread; `None` if the server has no real-time threads.
    pub(crate) fn priority(&self) -> Option<u64> {
        // SAFETY: the client is open.
        let priority = unsafe { (self.library.client_real_time_priority)(self.raw.as_ptr()) };
        u64::try_from(priority).ok().filter(|priority| *priority > 0)
    }

    pub(crate) fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    pub(crate) fn send_to(&mut self, word: ServerWord) {
        self.word = word;
    }

    pub(crate) fn directions(&self) -> Directions {
        self.directions
    }

    pub(crate) fn card_latency(&self, direction: Direction) -> Frames {
        card_latency(self.library, self.raw, direction)
    }

    pub(crate) fn latency_to(&self, direction: Direction, counterparts: &[String]) -> PortLatency {
        let ports = named(self.library, self.raw, counterparts);
        PortLatency::to_be(
            latency_bounds(self.library, ports, direction),
            self.card_latency(direction),
        )
    }

    pub(crate) fn counterparts(&self, direction: Direction, physical: bool) -> Vec<String> {
        counterparts(self.library, self.raw, direction, physical)
    }

    pub(crate) fn add_port(&mut self, direction: Direction, name: &CStr) -> bool {
        let flag = port_flag(direction);
        // SAFETY: the client is open and the texts are NUL-terminated.
        let port = unsafe {
            (self.library.port_register)(self.raw.as_ptr(), name.as_ptr(), AUDIO.as_ptr(), flag, 0)
        };
        self.ports.of_mut(direction).extend(NonNull::new(port).map(Port));
        !port.is_null()
    }

    pub(crate) fn connect(&self, direction: Direction, channel: usize, counterpart: &str) -> bool {
        let counterpart = CString::new(counterpart).ok();
        let Some((port, counterpart)) = self.ports.of(direction).get(channel).zip(counterpart)
        else {
            return false;
        };
        // SAFETY: client and port are open; texts are NUL-terminated, and ours lives as long as
        // the port.
        let answer = unsafe {
            let own = (self.library.port_name)(port.0.as_ptr());
            if own.is_null() {
                return false;
            }
            let (from, to) = match direction {
                Direction::Capture => (counterpart.as_ptr(), own),
                Direction::Playback => (own, counterpart.as_ptr()),
            };
            (self.library.connect)(self.raw.as_ptr(), from, to)
        };
        answer == 0 || answer == libc::EEXIST
    }

    pub(crate) fn notify(&self) {
        // SAFETY: the client is open. The answer of a dead server has no effect.
        unsafe { (self.library.recompute_total_latencies)(self.raw.as_ptr()) };
    }

    /// Lets the server call the process; returns whether it agrees. First times assume connections
    /// to these ports.
    pub(crate) fn run(
        &mut self,
        adaptor: Adaptor,
        rate: Rate,
        counterparts: &Sides<Vec<String>>,
    ) -> bool {
        let (library, raw) = (self.library, self.raw);
        for direction in self.directions.each() {
            let latency = self.latency_to(direction, counterparts.of(direction));
            self.signals.begin(direction, latency, self.card_latency(direction));
        }
        let ports = Sides::<Box<[Port]>>::each(|way| self.ports.of(way).as_slice().into());
        let notified = Notified {
            library,
            client: raw,
            directions: self.directions,
            rate,
            ports: ports.clone(),
            signals: Arc::clone(&self.signals),
            word: self.word.clone(),
        };
        let signals = Arc::clone(&self.signals);
        let woke_ns = Arc::clone(&self.word.woke_ns);
        let processing =
            Processing { library, client: raw, rate, ports, adaptor, signals, woke_ns };
        let processing = NonNull::from(Box::leak(Box::new(processing)));
        let notified = NonNull::from(Box::leak(Box::new(notified)));
        (self.processing, self.notified) = (Some(processing), Some(notified));
        let (client, context) = (raw.as_ptr(), notified.as_ptr().cast());
        // SAFETY: the client is open and inactive; contexts live until it is closed (`drop`), and
        // each callback casts to its type.
        let refused = unsafe {
            (library.on_info_shutdown)(client, shut_down, context);
            (library.set_process_callback)(client, called, processing.as_ptr().cast())
                | (library.set_buffer_size_callback)(client, buffer_changed, context)
                | (library.set_sample_rate_callback)(client, rate_changed, context)
                | (library.set_xrun_callback)(client, starved, context)
                | (library.set_freewheel_callback)(client, freewheeled, context)
                | (library.set_latency_callback)(client, latency_asked, context)
                | (library.activate)(client)
        };
        refused == 0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // JACK2 cancels a closing client's threads anywhere (`PTHREAD_CANCEL_ASYNCHRONOUS`): none
        // may be in our code.
        self.signals.send_away();
        // SAFETY: the client is open, and this is its last use.
        unsafe { (self.library.client_close)(self.raw.as_ptr()) };
        // SAFETY: the library has ended its threads, so we own the contexts that `run` leaked.
        unsafe {
            drop(self.notified.take().map(|context| Box::from_raw(context.as_ptr())));
            drop(self.processing.take().map(|context| Box::from_raw(context.as_ptr())));
        }
    }
}
