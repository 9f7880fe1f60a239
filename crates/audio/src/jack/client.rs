//! A client of a JACK server: opened, given ports, run and closed, without its dangers.
//!
//! The server's threads call functions of ours: one calls what sits in a [`Seat`], all others only
//! touch atomics ([`Signals`]). Much of what a client asks for waits for the server, without a
//! limit: a client is used on a thread that can be given up (`clerk`).

#![expect(unsafe_code, reason = "a C library is called")]

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tautline_io::clock::now;
use tautline_proto::device::{Direction, Flow};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use super::cycle::{Adaptor, Latency, Ports, Woken};
use super::cycle_clock::{Told, Trouble};
use super::library::{
    AUDIO, CAPTURE_LATENCY, LatencyRange, Library, NO_START_SERVER, PLAYBACK_LATENCY,
    PORT_IS_INPUT, PORT_IS_OUTPUT, PORT_IS_PHYSICAL, RawClient, RawPort, SERVER_NAME,
};
use crate::callback::{Held, Seat};

/// A port of ours, or one that the server knows by its name. Valid as long as its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Port(NonNull<RawPort>);

// SAFETY: the library takes a port on any thread; what it points to is the server's shared memory.
unsafe impl Send for Port {}
// SAFETY: as above.
unsafe impl Sync for Port {}

/// What the server's threads and ours tell each other.
#[derive(Default)]
pub(crate) struct Signals {
    /// The server's threads are to do nothing here any more.
    leave: AtomicBool,
    /// So many of them are here.
    inside: AtomicU32,
    /// What is called in every cycle.
    pub(crate) seat: Seat,
    /// The server did not activate the client.
    pub(crate) refused: AtomicBool,
    /// The process said that it has finished.
    pub(crate) finished: AtomicBool,
    /// The server went, or dropped this client.
    pub(crate) shut_down: AtomicBool,
    pub(crate) freewheels: AtomicBool,
    /// Cycles were not used since the last that was.
    interrupted: AtomicBool,
    /// Frames in a cycle, and in a second, as last told; 0 before.
    pub(crate) buffer: AtomicU32,
    pub(crate) rate: AtomicU32,
    xruns: AtomicU32,
    /// Of our ports: the least in the upper half, the most in the lower.
    latency: AtomicU64,
    /// What the stream takes from converter to converter, in nanoseconds; 0 if nobody knows.
    stream: AtomicI64,
    /// What our ports say of themselves is to be asked for again.
    pub(crate) stale: AtomicBool,
}

impl Signals {
    fn latency(&self) -> Latency {
        let both = self.latency.load(Ordering::Relaxed);
        let frames = |half: u64| Frames::new((half & u64::from(u32::MAX)) as i64);
        Latency { least: frames(both >> 32), most: frames(both) }
    }

    fn set_latency(&self, latency: Latency) {
        let half = |frames: Frames| u64::from(frames.count() as u32);
        let both = half(latency.least) << 32 | half(latency.most);
        if self.latency.swap(both, Ordering::Relaxed) != both {
            self.stale.store(true, Ordering::Relaxed);
        }
    }

    /// One of the server's threads comes in; `None` if it is to do nothing.
    fn enter(&self) -> Option<Inside<'_>> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(self);
        if self.leave.load(Ordering::SeqCst) { None } else { Some(inside) }
    }

    /// Returns when none of the server's threads is here, and none will do anything any more. With
    /// a server that stalls it does not return: one may wait in the library for an answer.
    fn send_away(&self) {
        self.leave.store(true, Ordering::SeqCst);
        while self.inside.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the stream takes from converter to converter, as [`Client::tell`] says it.
    pub(crate) fn stream(&self) -> Span {
        Span::from_nanos(self.stream.load(Ordering::Relaxed))
    }

    pub(crate) fn set_stream(&self, latency: Span) {
        self.stream.store(latency.as_nanos(), Ordering::Relaxed);
    }
}

/// One of the server's threads is in code of ours.
struct Inside<'a>(&'a Signals);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the process thread alone touches while the client is active.
struct Processing {
    library: &'static Library,
    client: NonNull<RawClient>,
    rate: Rate,
    ports: Box<[Port]>,
    adaptor: Adaptor,
    signals: Arc<Signals>,
}

/// What the server's other threads see.
struct Notified {
    library: &'static Library,
    client: NonNull<RawClient>,
    direction: Direction,
    rate: Rate,
    ports: Box<[Port]>,
    signals: Arc<Signals>,
}

/// What the server said when it took nobody in: `jack_status_t`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused(pub(crate) c_int);

/// A client.
pub(crate) struct Client {
    library: &'static Library,
    raw: NonNull<RawClient>,
    direction: Direction,
    ports: Vec<Port>,
    signals: Arc<Signals>,
    /// Given to the library as long as the client is open.
    processing: Option<NonNull<Processing>>,
    notified: Option<NonNull<Notified>>,
}

// SAFETY: the library takes a client on any thread; what the two pointers point to is ours alone
// once the client is closed, and can be sent.
unsafe impl Send for Client {}

/// Of the flow of a direction: JACK's inputs are what a program captures from.
fn port_flag(direction: Direction) -> c_ulong {
    match direction {
        Direction::Capture => PORT_IS_INPUT,
        Direction::Playback => PORT_IS_OUTPUT,
    }
}

/// The latency that leads to, or away from, the converter of a direction.
fn mode(direction: Direction) -> c_int {
    match direction {
        Direction::Capture => CAPTURE_LATENCY,
        Direction::Playback => PLAYBACK_LATENCY,
    }
}

fn other(direction: Direction) -> Direction {
    match direction {
        Direction::Capture => Direction::Playback,
        Direction::Playback => Direction::Capture,
    }
}

impl Client {
    /// Becomes a client of the server of this name, or of the usual one; never starts a server. The
    /// name may come out another where there is one like it.
    pub(crate) fn open(
        library: &'static Library,
        name: &CStr,
        server: Option<&CStr>,
        direction: Direction,
    ) -> Result<Self, Refused> {
        let mut status = 0;
        // SAFETY: the texts end in zeros, the status can be written, and the server's name is the
        // one argument that the option asks for (`jack/jack.h`).
        let raw = unsafe {
            match server {
                None => (library.client_open)(name.as_ptr(), NO_START_SERVER, &mut status),
                Some(server) => {
                    let options = NO_START_SERVER | SERVER_NAME;
                    (library.client_open)(name.as_ptr(), options, &mut status, server.as_ptr())
                }
            }
        };
        let raw = NonNull::new(raw).ok_or(Refused(status))?;
        let signals = Arc::default();
        Ok(Self {
            library,
            raw,
            direction,
            ports: Vec::new(),
            signals,
            processing: None,
            notified: None,
        })
    }

    /// The longest name that the library takes, in bytes.
    pub(crate) fn longest_name(library: &Library) -> usize {
        // SAFETY: it takes nothing and answers a constant, which counts the zero at the end.
        let size = unsafe { (library.client_name_size)() };
        usize::try_from(size).unwrap_or(0).saturating_sub(1)
    }

    /// As the server took it.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the client is open, and the text lasts as long as it.
        let name = unsafe { CStr::from_ptr((self.library.get_client_name)(self.raw.as_ptr())) };
        name.to_string_lossy().into_owned()
    }

    /// In hertz.
    pub(crate) fn rate(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.library.get_sample_rate)(self.raw.as_ptr()) }
    }

    /// Frames in a cycle.
    pub(crate) fn buffer(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.library.get_buffer_size)(self.raw.as_ptr()) }
    }

    /// Signals from and to the server's threads.
    pub(crate) fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    /// What the card takes in this client's direction: the most that any physical port says.
    pub(crate) fn card_latency(&self) -> Frames {
        card_latency(self.library, self.raw, self.direction)
    }

    /// The names of the ports that ours can be connected to: of the card's, or of all.
    pub(crate) fn counterparts(&self, physical: bool) -> Vec<String> {
        counterparts(self.library, self.raw, self.direction, physical)
    }

    /// The names of the card's ports to capture from, or to play to.
    pub(crate) fn physical(&self, direction: Direction) -> Vec<String> {
        counterparts(self.library, self.raw, direction, true)
    }

    /// Adds a port of this client's direction; whether the server took it.
    pub(crate) fn add_port(&mut self, name: &CStr) -> bool {
        let flag = port_flag(self.direction);
        // SAFETY: the client is open and the texts end in zeros.
        let port = unsafe {
            (self.library.port_register)(self.raw.as_ptr(), name.as_ptr(), AUDIO.as_ptr(), flag, 0)
        };
        self.ports.extend(NonNull::new(port).map(Port));
        !port.is_null()
    }

    /// Connects the port of a channel; whether the server did. Only while the client runs.
    pub(crate) fn connect(&self, channel: usize, counterpart: &str) -> bool {
        let Some((port, counterpart)) = self.ports.get(channel).zip(CString::new(counterpart).ok())
        else {
            return false;
        };
        // SAFETY: client and port are open; the texts end in zeros, and ours lasts as long as the
        // port.
        let answer = unsafe {
            let own = (self.library.port_name)(port.0.as_ptr());
            let (from, to) = match self.direction {
                Direction::Capture => (counterpart.as_ptr(), own),
                Direction::Playback => (own, counterpart.as_ptr()),
            };
            (self.library.connect)(self.raw.as_ptr(), from, to)
        };
        answer == 0 || answer == libc::EEXIST
    }

    /// Has other programs ask for the latencies of our ports anew.
    pub(crate) fn tell(&self) {
        // SAFETY: the client is open. What a server that has gone answers changes nothing.
        unsafe { (self.library.recompute_total_latencies)(self.raw.as_ptr()) };
    }

    /// Calls what sits in the seat from now on, in every cycle; whether the server takes this. Once.
    pub(crate) fn run(&mut self, adaptor: Adaptor, rate: Rate) -> bool {
        let (library, raw) = (self.library, self.raw);
        let ports: Box<[Port]> = self.ports.as_slice().into();
        let notified = Notified {
            library,
            client: raw,
            direction: self.direction,
            rate,
            ports: ports.clone(),
            signals: Arc::clone(&self.signals),
        };
        let signals = Arc::clone(&self.signals);
        let processing = Processing { library, client: raw, rate, ports, adaptor, signals };
        let processing = NonNull::from(Box::leak(Box::new(processing)));
        let notified = NonNull::from(Box::leak(Box::new(notified)));
        (self.processing, self.notified) = (Some(processing), Some(notified));
        let (client, context) = (raw.as_ptr(), notified.as_ptr().cast());
        // SAFETY: the client is open and not active; both contexts are taken back only after it is
        // closed (`drop`), and each callback casts to what it is given here.
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
    /// Waits for the server.
    fn drop(&mut self) {
        // JACK2 cancels the threads of a client that it closes, wherever they are
        // (`PTHREAD_CANCEL_ASYNCHRONOUS`): none may be in code of ours then.
        self.signals.send_away();
        // SAFETY: the client is open, and this is its end.
        unsafe { (self.library.client_close)(self.raw.as_ptr()) };
        // SAFETY: the library has ended its threads, so the contexts that `run` leaked are ours.
        unsafe {
            drop(self.notified.take().map(|context| Box::from_raw(context.as_ptr())));
            drop(self.processing.take().map(|context| Box::from_raw(context.as_ptr())));
        }
    }
}

fn range(library: &Library, port: NonNull<RawPort>, mode: c_int) -> LatencyRange {
    let mut range = LatencyRange::default();
    // SAFETY: the port is one of an open client or of its server, and the range can be written.
    unsafe { (library.port_get_latency_range)(port.as_ptr(), mode, &mut range) };
    range
}

fn counterparts(
    library: &Library,
    client: NonNull<RawClient>,
    direction: Direction,
    physical: bool,
) -> Vec<String> {
    let flags = port_flag(other(direction)) | if physical { PORT_IS_PHYSICAL } else { 0 };
    let mut found = Vec::new();
    // SAFETY: the client is open and the texts end in zeros; the answer is null or a list of texts
    // that ends in a null and is ours until it is freed.
    unsafe {
        let list = (library.get_ports)(client.as_ptr(), std::ptr::null(), AUDIO.as_ptr(), flags);
        let mut at = list;
        while !at.is_null() && !(*at).is_null() {
            found.push(CStr::from_ptr(*at).to_string_lossy().into_owned());
            at = at.add(1);
        }
        if !list.is_null() {
            (library.free)(list.cast());
        }
    }
    found
}

fn card_latency(library: &Library, client: NonNull<RawClient>, direction: Direction) -> Frames {
    let names = counterparts(library, client, direction, true);
    let most = names.iter().filter_map(|name| {
        let name = CString::new(name.as_str()).ok()?;
        // SAFETY: the client is open and the text ends in a zero.
        let port = unsafe { (library.port_by_name)(client.as_ptr(), name.as_ptr()) };
        Some(range(library, NonNull::new(port)?, mode(direction)).max)
    });
    Frames::new(i64::from(most.max().unwrap_or(0)))
}

impl Processing {
    /// Real-time.
    fn cycle(&mut self, frames: u32) {
        let signals = &*self.signals;
        let mut buffers = Buffers { library: self.library, ports: &self.ports, frames };
        let mut held = signals.seat.hold();
        let process = held.as_mut().and_then(Held::process);
        let Some(process) = process else { return self.adaptor.silence(&mut buffers, 0) };
        if signals.freewheels.load(Ordering::Relaxed) || signals.finished.load(Ordering::Relaxed) {
            signals.interrupted.store(true, Ordering::Relaxed);
            return self.adaptor.silence(&mut buffers, 0);
        }
        let times = self.read_times();
        let before = |age: Span| times.at - age;
        let xruns = signals.xruns.swap(0, Ordering::Relaxed);
        let interrupted = signals.interrupted.swap(false, Ordering::Relaxed);
        let woken = Woken {
            now: times.at + times.reading,
            told: Told {
                began: before(times.since_begin),
                woke: before(times.since_wake_up),
                count: times.count,
                frames: Frames::new(i64::from(frames)),
                trouble: match (interrupted, xruns) {
                    (true, _) => Trouble::Break,
                    (false, 0) => Trouble::None,
                    (false, _) => Trouble::Xrun,
                },
            },
            // Two readings of whole microseconds.
            uncertainty: times.reading + Span::from_micros(1),
            xruns,
            latency: signals.latency(),
        };
        let flow = self.adaptor.cycle(process, woken, &mut buffers);
        if flow == Flow::Finished {
            signals.finished.store(true, Ordering::Relaxed);
        }
    }

    /// How long ago this cycle began. Lengths of time are asked for and not instants, because JACK's
    /// clock need not be ours: JACK2 reads `CLOCK_MONOTONIC_RAW` or an HPET.
    fn read_times(&self) -> Times {
        let half_frame = self.rate.span_of(Frames::new(1)).half();
        let mut tries = 0;
        loop {
            let read_from = now();
            let before = self.read_cycle();
            // SAFETY: we are in the process callback of an open client.
            let (wake_up, clock) = unsafe {
                let wake_up = (self.library.frames_since_cycle_start)(self.client.as_ptr());
                (wake_up, (self.library.get_time)())
            };
            let (count, began) = self.read_cycle();
            let reading = (now() - read_from).half();
            tries += 1;
            // A reading that was interrupted may belong to two cycles.
            let whole = before.0 == count && reading < Span::from_micros(25);
            if whole || tries == MOST_READINGS {
                return Times {
                    at: read_from + reading,
                    reading,
                    count,
                    since_begin: Span::from_micros(clock.wrapping_sub(began) as i64),
                    // Whole frames, rounded down.
                    since_wake_up: self.rate.span_of(Frames::new(i64::from(wake_up))) + half_frame,
                };
            }
        }
    }

    /// The server's count of frames at the begin of the cycle, and when that was, in microseconds of
    /// its clock.
    fn read_cycle(&self) -> (u32, u64) {
        let (mut count, mut current, mut next, mut period) = (0, 0, 0, 0.0);
        // SAFETY: we are in the process callback of an open client, and the results can be written.
        unsafe {
            let client = self.client.as_ptr();
            let library = self.library;
            (library.get_cycle_times)(client, &mut count, &mut current, &mut next, &mut period);
        }
        // JACK2 puts the instant of an xrun in the place of the begin until the next cycle.
        let period = period as u64;
        let wrong = next.saturating_sub(current).abs_diff(period) > period / 4;
        (count, if wrong { next.saturating_sub(period) } else { current })
    }
}

/// A host may freeze in the middle of one, and hardly in all of so many.
const MOST_READINGS: u32 = 4;

/// When a cycle began, as lengths of time.
struct Times {
    /// Up to now, which was read so far off, either way.
    at: LocalTime,
    reading: Span,
    /// The server's count of frames.
    count: u32,
    /// By the server's loop.
    since_begin: Span,
    /// By the driver's wake-up, to half a frame.
    since_wake_up: Span,
}

/// The buffers of the ports in one cycle.
struct Buffers<'a> {
    library: &'static Library,
    ports: &'a [Port],
    frames: u32,
}

impl Buffers<'_> {
    fn at(&self, channel: usize) -> *mut f32 {
        // SAFETY: the port is one of an open client, in whose process callback we are.
        unsafe { (self.library.port_get_buffer)(self.ports[channel].0.as_ptr(), self.frames) }
    }
}

impl Ports for Buffers<'_> {
    fn heard(&self, channel: usize) -> &[f32] {
        // SAFETY: the buffer of an input port holds so many samples for the length of the callback,
        // and nobody writes to it meanwhile.
        unsafe { std::slice::from_raw_parts(self.at(channel), self.frames as usize) }
    }

    fn played(&mut self, channel: usize) -> &mut [f32] {
        // SAFETY: the buffer of an output port has room for so many samples for the length of the
        // callback, and is this port's alone.
        unsafe { std::slice::from_raw_parts_mut(self.at(channel), self.frames as usize) }
    }
}

impl Notified {
    fn answer_latency(&self, asked: c_int) {
        if asked == mode(self.direction) {
            let connected = self.ports.iter().filter(|port| {
                // SAFETY: the port is one of an open client.
                unsafe { (self.library.port_connected)(port.0.as_ptr()) > 0 }
            });
            let ranges = connected.map(|port| range(self.library, port.0, asked));
            let both =
                ranges.reduce(|a, b| LatencyRange { min: a.min.min(b.min), max: a.max.max(b.max) });
            let LatencyRange { min, max } = both.unwrap_or_default();
            let frames = |count: u32| Frames::new(i64::from(count));
            let card = card_latency(self.library, self.client, self.direction);
            let latency = Latency { least: frames(min), most: frames(max) }.within(card);
            return self.signals.set_latency(latency);
        }
        let stream = self.rate.frames_nearest(self.signals.stream());
        let Latency { least, most } = self.signals.latency();
        let rest = |frames: Frames| (stream - frames).count().clamp(0, i64::from(u32::MAX)) as u32;
        let mut range = LatencyRange { min: rest(most), max: rest(least) };
        for port in &self.ports {
            // SAFETY: the port is one of an open client, and the range can be read.
            unsafe {
                (self.library.port_set_latency_range)(port.0.as_ptr(), asked, &mut range);
            }
        }
    }
}

/// What the context of a callback points to, if there is still something to do.
macro_rules! notified {
    ($context:ident, $inside:ident) => {{
        // SAFETY: `run` gave the context to the library; it lasts until the client is closed.
        let notified = unsafe { &*$context.cast_const().cast::<Notified>() };
        let Some($inside) = notified.signals.enter() else { return Default::default() };
        (notified, $inside)
    }};
}

extern "C" fn called(frames: u32, context: *mut c_void) -> c_int {
    let context = context.cast::<Processing>();
    // SAFETY: `run` gave the context to the library; it lasts until the client is closed, and the
    // field is only ever read.
    let signals = unsafe { &*std::ptr::addr_of!((*context).signals) };
    let Some(_inside) = signals.enter() else { return 0 };
    // SAFETY: this is the one thread that touches the rest of the context before it is closed.
    unsafe { (*context).cycle(frames) };
    0
}

extern "C" fn buffer_changed(frames: u32, context: *mut c_void) -> c_int {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.buffer.store(frames, Ordering::Relaxed);
    notified.signals.interrupted.store(true, Ordering::Relaxed);
    0
}

extern "C" fn rate_changed(hertz: u32, context: *mut c_void) -> c_int {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.rate.store(hertz, Ordering::Relaxed);
    0
}

extern "C" fn starved(context: *mut c_void) -> c_int {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.xruns.fetch_add(1, Ordering::Relaxed);
    0
}

extern "C" fn freewheeled(begins: c_int, context: *mut c_void) {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.freewheels.store(begins != 0, Ordering::Relaxed);
}

extern "C" fn latency_asked(mode: c_int, context: *mut c_void) {
    let (notified, _inside) = notified!(context, inside);
    notified.answer_latency(mode);
}

extern "C" fn shut_down(_: c_int, _: *const c_char, context: *mut c_void) {
    let (notified, _inside) = notified!(context, inside);
    notified.signals.shut_down.store(true, Ordering::Relaxed);
}
