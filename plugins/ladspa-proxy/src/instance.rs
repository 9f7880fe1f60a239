//! One instance of a plugin, as the host has it: made at once, whatever the network does. Until its
//! worker is there, and when that has gone, something stands in.

use core::time::Duration;
use std::sync::Arc;

use tautline_api::v1::{DescribedOrder, StreamRequest, VERSION};
use tautline_engine::offload::delay::Delay;
use tautline_engine::offload::host_block::HostBlock as _;
use tautline_engine::offload::offloaded::{Offloaded, OffloadedConfig, Which};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_host::ladspa::abi::Data;
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

use crate::ahead::Ahead;
use crate::block::Ports;
use crate::clerk::standing::Standing;
use crate::clerk::{self, Desk, Errand};
use crate::forked;
use crate::options::{self, Options, WaitOffline};
use crate::ports::Connections;
use crate::report::Reported;
use crate::shelf::{self, Offer};
use crate::twin::Twin;

/// What a run does with what is in the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    Replacing,
    Adding,
}

/// The most frames that go in one block. Hosts that ask for more at once are rare and are served in
/// parts; each block that is kept has room for so many.
const MOST_FRAMES: u32 = 4096;
/// The most bytes of a datagram: with the seal and the heads below it, what Ethernet carries.
const DATAGRAM_BYTES: usize = 1400;
/// How long a render waits for a block, or for its worker, before it goes on without.
const RENDER_WAIT: Span = Span::from_secs(10);
/// How long after `instantiate` an activation waits for the first attempt at the worker: so a plugin
/// whose worker is there hears everything from the first frame on.
const FIRST_WAIT: Span = Span::from_millis(200);
/// How long `cleanup` waits until the stream is closed.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// An instance, from `instantiate` to `cleanup`.
pub(crate) struct Instance {
    offer: &'static Offer,
    options: Options,
    rate: u32,
    connections: Connections,
    usual: Vec<f32>,
    gain: Data,
    side: Side,
    /// Where it was made: see [`forked`].
    generation: u32,
    made: LocalTime,
}

/// What it does with a run.
enum Side {
    Works(Box<Working>),
    /// A panic happened, or there was nothing to begin with: inputs go on to outputs.
    Broken,
}

/// What runs the plugin elsewhere.
struct Working {
    offloaded: Offloaded,
    standing: Arc<Standing>,
    desks: Vec<Arc<Desk>>,
    twin: Option<Twin>,
    ahead: Ahead,
    /// Frames of a millisecond: what comes back after a stand-in is cross-faded for so long.
    fade: u32,
    /// The host is faster than real time, and it was at some time.
    renders: bool,
    rendered: bool,
    /// It waited for its worker in vain.
    gave_up: bool,
    is_active: bool,
}

/// The rate as the machines know it, the nearest that they do: it is how long fades are and how fast
/// real time is.
fn known(hertz: u32) -> Rate {
    let rates = Rate::SUPPORTED.iter().filter_map(|known| Rate::new(*known).ok());
    let nearest = rates.min_by_key(|rate| rate.hertz().abs_diff(hertz));
    nearest.expect("there are rates")
}

impl Instance {
    /// Makes one without asking anybody.
    pub(crate) fn new(offer: &'static Offer, rate: u32) -> Self {
        // Where it cannot be, a fork is not told, and hosts that fork are rare.
        let _ = forked::watch();
        let (options, complaints) = options::read(&offer.label);
        let side = Working::new(offer, &options, rate);
        let side = match side {
            Ok(working) => {
                complaints.into_iter().for_each(|why| working.standing.say(why));
                Side::Works(Box::new(working))
            }
            Err(why) => {
                crate::say::say(&format!("{}: {why}", offer.label));
                Side::Broken
            }
        };
        Self {
            offer,
            rate,
            connections: Connections::new(&offer.ports),
            usual: offer.ports.usual.iter().map(|hint| hint.first_value(rate)).collect(),
            gain: 1.0,
            side,
            generation: forked::generation(),
            made: now(),
            options,
        }
    }

    /// Whether this process made it.
    pub(crate) fn is_ours(&self) -> bool {
        self.generation == forked::generation()
    }

    /// From now on inputs go on to outputs.
    pub(crate) fn set_broken(&mut self) {
        // Not dropped: nobody knows what holds after a panic.
        core::mem::forget(core::mem::replace(&mut self.side, Side::Broken));
    }

    pub(crate) fn connect(&mut self, port: usize, place: *mut Data) {
        self.connections.connect(port, place);
    }

    pub(crate) fn set_gain(&mut self, gain: Data) {
        self.gain = gain;
    }

    pub(crate) fn activate(&mut self) {
        if !self.is_ours() {
            return;
        }
        let Side::Works(working) = &mut self.side else { return };
        let patience = FIRST_WAIT - (now() - self.made);
        if patience > Span::ZERO {
            working.standing.await_tried(duration(patience));
        }
        working.activate();
    }

    pub(crate) fn deactivate(&mut self) {
        if let Side::Works(working) = &mut self.side {
            working.is_active = false;
        }
    }

    pub(crate) fn run(&mut self, frames: usize, run: Run) {
        let gain = (run == Run::Adding).then_some(self.gain);
        let is_ours = self.is_ours();
        let working = match &mut self.side {
            Side::Works(working) if is_ours => working,
            _ => {
                // SAFETY: the host has connected its ports to memory of so many frames.
                let mut ports =
                    unsafe { Ports::new(&self.connections, frames, gain, &self.usual, None) };
                ports.pass_on();
                self.tell_latency(0);
                return;
            }
        };
        if !working.is_active {
            working.activate();
        }
        if frames > 0 {
            working.standing.begin_run();
            working.wait_as_long_as_may_be(frames, self.options.wait_offline);
            // SAFETY: as above.
            unsafe { working.run(&self.connections, &self.usual, frames, gain) };
            working.standing.end_run();
        }
        let latency = working.offloaded.latency();
        self.tell_latency(latency);
    }

    fn tell_latency(&self, frames: u32) {
        if !self.connections.latency.is_null() {
            // SAFETY: the host connected it to memory for a value.
            unsafe { self.connections.latency.write(frames as Data) };
        }
    }

    /// The host has no more use for it: its streams are closed, and what was seen is written.
    pub(crate) fn end(&mut self) {
        if !self.is_ours() {
            return;
        }
        let Side::Works(working) = &mut self.side else { return };
        working.standing.end();
        working.desks.iter().for_each(|desk| desk.ring());
        working.standing.await_closed(LAST_WAIT);
        let seen = {
            let mut watch = working.standing.watch();
            watch.hear();
            working.offloaded.standing()
        };
        let reported = Reported {
            offer: self.offer,
            options: &self.options,
            rate: self.rate,
            standing: &working.standing,
            seen,
            rendered: working.rendered,
            verdict: working.twin.as_ref().map(Twin::verdict),
        };
        if working.rendered && reported.stood_in() > 0 {
            working.standing.say(format!(
                "{}: {} frames of this render are not the plugin's; see that the worker is there and \
                 render again",
                self.offer.label,
                reported.stood_in()
            ));
        }
        if let Some(path) = &self.options.report
            && let Err(error) = reported.write(path)
        {
            let path = path.display();
            crate::say::say(&format!("writing {path}: {error}; see that the folder is there"));
        }
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos().unsigned_abs())
}

impl Working {
    fn new(offer: &'static Offer, options: &Options, rate: u32) -> Result<Self, String> {
        let ports = &offer.ports;
        let config = OffloadedConfig {
            set: SoundSet {
                inputs: ports.inputs,
                outputs: ports.outputs,
                controls_in: ports.usual.len(),
                controls_out: ports.told,
                most_frames: MOST_FRAMES,
            },
            rate: known(rate),
            delay: options.delay.map_or(Delay::Window(options.window), Delay::Frames),
            wait: if options.wait_offline == WaitOffline::Always {
                RENDER_WAIT
            } else {
                options.wait
            },
            wait_offline: match options.wait_offline {
                WaitOffline::Never => Span::ZERO,
                WaitOffline::ByPace | WaitOffline::Always => RENDER_WAIT,
            },
            stand_in: options.stand_in,
            spare: options.spare.is_some(),
            history: options.history as usize,
            copies: options.copies,
            datagram_bytes: DATAGRAM_BYTES,
        };
        let (offloaded, attendant) = Offloaded::new(config).map_err(|error| error.to_string())?;
        let standing = Arc::new(Standing::new(attendant));
        let request = StreamRequest {
            version: VERSION,
            plugin: offer.plugin.id.clone(),
            hash: Some(offer.plugin.hash.clone()).filter(|hash| !hash.is_empty()),
            rate,
            most_frames: MOST_FRAMES,
            byte_order: DescribedOrder::NATIVE,
            datagram_bytes: DATAGRAM_BYTES as u32,
            period_ns: None,
            history: options.history,
            copies: options.copies,
            memory_frames: None,
            cleartext: options.cleartext,
        };
        let mut desks = Vec::new();
        let spare = options.spare.as_deref();
        let addresses = [
            Some(offer.address.as_str()),
            spare.map(|name| shelf::address_of(name).unwrap_or(name)),
        ];
        for (which, address) in Which::ALL.into_iter().zip(addresses) {
            let Some(address) = address else { continue };
            let errand = Errand::new(which, request.clone(), config.set, Arc::clone(&standing));
            desks.push(clerk::leave(address, errand));
        }
        let twin = options.compare_local.then(|| {
            let plugin = &offer.plugin;
            let behind = config.delay.most(MOST_FRAMES);
            Twin::new((&plugin.file, &plugin.label), rate, (behind, MOST_FRAMES))
        });
        let twin = twin.and_then(|made| made.map_err(|why| standing.say(why)).ok());
        Ok(Self {
            offloaded,
            standing,
            desks,
            twin,
            ahead: Ahead::of(rate),
            fade: rate.div_ceil(1000),
            renders: false,
            rendered: options.wait_offline == WaitOffline::Always,
            gave_up: false,
            is_active: false,
        })
    }

    fn activate(&mut self) {
        self.offloaded.activate();
        if let Some(twin) = &mut self.twin {
            twin.activate();
        }
        self.ahead.begin();
        (self.is_active, self.renders, self.gave_up) = (true, false, false);
    }

    /// A render waits until its worker is there. Whether a host renders is known a quarter of a second
    /// of sound after it began: one that is ahead of time until then waits for as long as it is ahead.
    fn wait_as_long_as_may_be(&mut self, frames: usize, wait_offline: WaitOffline) {
        let ahead = self.ahead.observe(frames, now());
        let may = match wait_offline {
            WaitOffline::Never => return,
            WaitOffline::ByPace if !self.renders => ahead,
            WaitOffline::ByPace | WaitOffline::Always => RENDER_WAIT,
        };
        if may > Span::ZERO && !self.gave_up {
            let is_open = self.standing.await_open(duration(may));
            self.gave_up = !is_open && may == RENDER_WAIT;
            self.offloaded.allow_wait(may);
        }
    }

    /// # Safety
    /// As of [`Ports::new`].
    unsafe fn run(
        &mut self,
        connections: &Connections,
        usual: &[f32],
        frames: usize,
        gain: Option<f32>,
    ) {
        if self.twin.is_some() && frames > MOST_FRAMES as usize {
            self.standing
                .say(format!("runs of {frames} frames are not compared; use shorter ones"));
            self.twin = None;
        }
        if let Some(twin) = &mut self.twin {
            // SAFETY: the caller vouches for it.
            let mut ports = unsafe { Ports::new(connections, frames, gain, usual, None) };
            for channel in 0..connections.inputs.len() {
                ports.input(channel, 0, &mut twin.input_mut(channel)[..frames]);
            }
            for control in 0..usual.len() {
                twin.set_control(control, ports.control(control));
            }
            twin.run(frames);
        }
        // SAFETY: the caller vouches for it.
        let mut ports = unsafe { Ports::new(connections, frames, gain, usual, self.twin.as_mut()) };
        let outcome = self.offloaded.run(&mut ports, now());
        self.renders = outcome.offline;
        self.rendered |= outcome.offline;
        if let Some(twin) = &mut self.twin {
            if outcome.stood_in > 0 {
                twin.spoil(self.fade);
            }
            twin.judge(frames, self.offloaded.standing().delay);
        }
    }
}
