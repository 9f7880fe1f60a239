//! What an instance runs its plugin by: the host's thread's end of a stream, and how long that thread may
//! be held up.

use core::time::Duration;
use std::sync::Arc;

use tautline_api::v1::{DescribedOrder, StreamRequest, VERSION};
use tautline_engine::offload::delay::OffloadDelay;
use tautline_engine::offload::host_block::HostBlock as _;
use tautline_engine::offload::offloaded::{Offloaded, OffloadedConfig, Which};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_io::clock::now;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;

use crate::ahead::Ahead;
use crate::block::HostPorts;
use crate::clerk::standing::ClerkStanding;
use crate::clerk::{self, Desk, StreamErrand};
use crate::options::{OffloadOptions, WaitOffline};
use crate::ports::Connections;
use crate::shelf::{self, ShelfOffer};
use crate::twin::Twin;

/// The most frames that go in one block. Hosts that ask for more at once are rare and are served in
/// parts; each block that is kept has room for so many.
const MOST_FRAMES: u32 = 4096;
/// The most bytes of a datagram: with the seal and the heads below it, what Ethernet carries.
const DATAGRAM_BYTES: usize = 1400;
/// How long a render waits for a block, or for its worker, before it goes on without.
const RENDER_WAIT: Span = Span::from_secs(10);
/// What runs the plugin elsewhere.
pub(crate) struct Working {
    pub(crate) offloaded: Offloaded,
    pub(crate) standing: Arc<ClerkStanding>,
    pub(crate) desks: Vec<Arc<Desk>>,
    pub(crate) twin: Option<Twin>,
    pub(crate) ahead: Ahead,
    /// Frames of a millisecond: what comes back after a stand-in is cross-faded for so long.
    fade: u32,
    /// The host is faster than real time, and it was at some time.
    renders: bool,
    pub(crate) rendered: bool,
    /// It waited for its worker in vain.
    gave_up: bool,
    pub(crate) is_active: bool,
}

/// The rate as the machines know it, the nearest that they do: it is how long fades are and how fast
/// real time is.
fn known(hertz: u32) -> Rate {
    let rates = Rate::SUPPORTED.iter().filter_map(|known| Rate::new(*known).ok());
    let nearest = rates.min_by_key(|rate| rate.hertz().abs_diff(hertz));
    nearest.expect("there are rates")
}

pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos().unsigned_abs())
}

impl Working {
    pub(crate) fn new(
        offer: &'static ShelfOffer,
        options: &OffloadOptions,
        rate: u32,
    ) -> Result<Self, String> {
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
            delay: options.delay.map_or(OffloadDelay::Window(options.window), OffloadDelay::Frames),
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
        let standing = Arc::new(ClerkStanding::new(attendant));
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
            let errand =
                StreamErrand::new(which, request.clone(), config.set, Arc::clone(&standing));
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

    pub(crate) fn activate(&mut self) {
        self.offloaded.activate();
        if let Some(twin) = &mut self.twin {
            twin.activate();
        }
        self.ahead.begin();
        (self.is_active, self.renders, self.gave_up) = (true, false, false);
    }

    /// A render waits until its worker is there, and for each block. Whether this host renders is known
    /// a quarter of a second of sound after it began; one that seems to before waits too, for a second in all.
    pub(crate) fn wait_if_it_renders(&mut self, frames: usize, wait_offline: WaitOffline) {
        let may = self.ahead.observe(frames, now());
        let renders = match wait_offline {
            WaitOffline::Never => return,
            WaitOffline::ByPace => self.renders,
            WaitOffline::Always => true,
        };
        if renders && !self.gave_up {
            self.gave_up = !self.standing.await_open(duration(RENDER_WAIT));
        } else if may > Span::ZERO {
            self.standing.await_tried(duration(may));
            self.offloaded.allow_wait(may);
        }
    }

    /// # Safety
    /// As of [`HostPorts::new`].
    pub(crate) unsafe fn run(
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
            let mut ports = unsafe { HostPorts::new(connections, frames, gain, usual, None) };
            for channel in 0..connections.inputs.len() {
                ports.input(channel, 0, &mut twin.input_mut(channel)[..frames]);
            }
            for control in 0..usual.len() {
                twin.set_control(control, ports.control(control));
            }
            twin.run(frames);
        }
        // SAFETY: the caller vouches for it.
        let mut ports =
            unsafe { HostPorts::new(connections, frames, gain, usual, self.twin.as_mut()) };
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
