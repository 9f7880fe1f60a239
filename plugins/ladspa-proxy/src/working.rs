//! The host thread's end of a stream, and the limits of its waiting.

use core::time::Duration;
use std::sync::Arc;

use tautline_api::pipeline::{counts, passing};
use tautline_api::v1::{MAX_KEPT_BYTES, PipelinePlace, Plugin, StreamRequest};
use tautline_engine::offload::delay::OffloadDelay;
use tautline_engine::offload::host_block::HostBlock as _;
use tautline_engine::offload::offloaded::{Offloaded, OffloadedConfig, Which};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_io::clock::now;
use tautline_io::thread::Scheduler;
use tautline_proto::offload::pace::HeldUp;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

use crate::ahead::Ahead;
use crate::block::HostPorts;
use crate::client_thread::standing::ClientStanding;
use crate::client_thread::{self, Desk, StreamErrand};
use crate::client_thread::{OrderBehind, StreamOrder};
use crate::options::{OffloadOptions, WaitOffline};
use crate::ports::Connections;
use crate::shelf::{self, ShelfOffer};
use crate::twin::Twin;

const MAX_FRAMES: u32 = 4096;
/// Bytes of a datagram, which fits Ethernet.
const DATAGRAM_BYTES: usize = 1400;
/// Maximum wait for a block or its worker.
const RENDER_WAIT: Span = Span::from_secs(10);
pub(crate) struct Working {
    pub(crate) offloaded: Offloaded,
    pub(crate) standing: Arc<ClientStanding>,
    pub(crate) desks: Vec<Arc<Desk>>,
    pub(crate) twin: Option<Twin>,
    pub(crate) ahead: Ahead,
    /// 1 ms.
    fade: u32,
    is_window: bool,
    patient_until: LocalTime,
    /// Frames in total; faster than real time; of those on a real-time thread.
    frames: u64,
    hurried: u64,
    hurried_in_vain: u64,
    wait_offline: WaitOffline,
    may_wait: bool,
    gave_up: bool,
    pub(crate) is_active: bool,
}

fn known(hertz: u32) -> Rate {
    let rates = Rate::SUPPORTED.iter().filter_map(|known| Rate::new(*known).ok());
    let nearest = rates.min_by_key(|rate| rate.hertz().abs_diff(hertz));
    nearest.expect("there are rates")
}

fn period_ns(frames: u32, rate: u32) -> u64 {
    u64::from(frames) * 1_000_000_000 / u64::from(rate.max(1))
}

/// Maximum blocks that a worker keeps.
fn max_history(plugin: &Plugin, stages: &[Plugin]) -> u32 {
    let all = || stages.iter().chain(core::iter::once(plugin)).map(counts);
    // In a pipeline, controls pass through the other plugins.
    let controls: usize = all().map(|[_, _, set, reported]| set + reported).sum();
    let sound = all().map(|[inputs, outputs, ..]| inputs + outputs).max().unwrap_or(0);
    let bytes = size_of::<f32>() * (sound * MAX_FRAMES as usize + controls);
    (MAX_KEPT_BYTES / bytes.max(1)).max(1) as u32
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
        let stages: Vec<Plugin> = offer.stages.iter().map(|stage| stage.plugin.clone()).collect();
        let history = options.history.min(max_history(&offer.plugin, &stages));
        let config = OffloadedConfig {
            set: SoundSet {
                inputs: ports.inputs,
                outputs: ports.outputs,
                controls_in: ports.usual.len(),
                controls_out: ports.reported,
                max_frames: MAX_FRAMES,
                ..SoundSet::default()
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
            replacement: options.replacement,
            spare: options.spare.is_some() && offer.stages.is_empty(),
            history: history as usize,
            copies: options.copies,
            datagram_bytes: DATAGRAM_BYTES,
        };
        let (offloaded, attendant) = Offloaded::new(config).map_err(|error| error.to_string())?;
        let standing = Arc::new(ClientStanding::new(attendant));
        if history < options.history && options.history > OffloadOptions::default().history {
            standing.emit(format!(
                "a worker keeps at most {history} blocks of this plugin, fewer than the history of {} requested",
                options.history
            ));
        }
        let request = StreamRequest {
            hash: Some(offer.plugin.hash.clone()).filter(|hash| !hash.is_empty()),
            datagram_bytes: DATAGRAM_BYTES as u32,
            period_ns: options.block.map(|frames| period_ns(frames, rate)),
            history,
            copies: options.copies,
            cleartext: options.cleartext,
            ..StreamRequest::of(&offer.plugin.id, rate, MAX_FRAMES)
        };
        let staged = |place: usize| {
            let (plugin, (onward, earlier)) = (&stages[place], passing(&stages, place));
            let place = PipelinePlace {
                fed: place > 0,
                onward: onward as u32,
                earlier: earlier as u32,
                feeds: None,
            };
            let request = StreamRequest {
                plugin: plugin.id.clone(),
                hash: Some(plugin.hash.clone()).filter(|hash| !hash.is_empty()),
                pipeline: Some(place),
                ..request.clone()
            };
            (request, counts(plugin))
        };
        let order = if stages.is_empty() {
            StreamOrder { request, ports: counts(&offer.plugin), behind: Vec::new() }
        } else {
            let (request, ports) = staged(0);
            let behind = (1..stages.len()).map(|place| {
                let (request, ports) = staged(place);
                OrderBehind { address: offer.stages[place].address.clone(), request, ports }
            });
            StreamOrder { request, ports, behind: behind.collect() }
        };
        let mut desks = Vec::new();
        let spare = options.spare.as_deref().filter(|_| {
            let has_one = offer.stages.is_empty();
            if !has_one {
                standing.emit("a pipeline has no spare; remove it for this one".to_owned());
            }
            has_one
        });
        let addresses = [
            Some(offer.address.as_str()),
            spare.map(|name| shelf::address_of(name).unwrap_or(name)),
        ];
        for (which, address) in Which::ALL.into_iter().zip(addresses) {
            let Some(address) = address else { continue };
            let errand = StreamErrand::new(which, order.clone(), Arc::clone(&standing));
            desks.push(client_thread::leave(address, errand));
        }
        let twin = options.compare_local.then(|| {
            let plugin = &offer.plugin;
            let behind = config.delay.maximum(MAX_FRAMES);
            Twin::new(plugin, rate, (behind, MAX_FRAMES))
        });
        let twin = twin.and_then(|made| made.map_err(|why| standing.emit(why)).ok());
        let twin = twin.map(|(twin, spans)| {
            standing.watch().spans = Some(spans);
            twin
        });
        Ok(Self {
            offloaded,
            standing,
            desks,
            twin,
            ahead: Ahead::of(rate),
            fade: rate.div_ceil(1000),
            is_window: options.delay.is_none() && options.window > 0,
            patient_until: LocalTime::ZERO,
            frames: 0,
            hurried: 0,
            hurried_in_vain: 0,
            wait_offline: options.wait_offline,
            may_wait: options.wait > Span::ZERO,
            gave_up: false,
            is_active: false,
        })
    }

    /// Whether the host ran faster than real time for most of its sound.
    pub(crate) const fn rendered(&self) -> bool {
        matches!(self.wait_offline, WaitOffline::Always) || 2 * self.hurried > self.frames
    }

    pub(crate) const fn rendered_in_vain(&self) -> bool {
        2 * self.hurried_in_vain > self.frames
    }

    pub(crate) fn activate(&mut self) {
        self.offloaded.activate();
        if let Some(twin) = &mut self.twin {
            twin.activate();
        }
        self.ahead.begin();
        (self.is_active, self.gave_up, self.patient_until) = (true, false, LocalTime::ZERO);
    }

    /// Until a render is certain, a host waits for up to 1 s in total. A real-time thread never
    /// waits.
    pub(crate) fn wait_if_it_renders(&mut self, frames: usize, began: LocalTime) {
        if self.wait_offline == WaitOffline::Never {
            return;
        }
        let is_due = frames > self.offloaded.delay() as usize && !self.is_window;
        let early = self.ahead.observe(frames, is_due, began);
        let always = self.wait_offline == WaitOffline::Always;
        let timeout = if always { RENDER_WAIT } else { self.patient_until - began };
        let (is_late, is_early) = (timeout > Span::ZERO && !self.gave_up, early > Span::ZERO);
        if !is_late && !is_early || !always && Scheduler::current() != Scheduler::Other {
            return;
        }
        if is_late {
            self.gave_up = !self.standing.await_open(duration(timeout));
            let span = now() - began;
            let in_vain = if self.gave_up { span } else { Span::ZERO };
            self.offloaded.was_held_up(HeldUp { span, in_vain });
        } else {
            self.standing.await_tried(duration(early));
            self.offloaded.allow_wait(early);
        }
    }

    /// # Safety
    /// As for [`HostPorts::new`].
    pub(crate) unsafe fn run(
        &mut self,
        connections: &Connections,
        usual: &[f32],
        frames: usize,
        gain: Option<f32>,
    ) {
        if self.twin.is_some() && frames > MAX_FRAMES as usize {
            self.standing
                .emit(format!("runs of {frames} frames are not compared; use shorter ones"));
            self.twin = None;
        }
        if let Some(twin) = &mut self.twin {
            // SAFETY: the caller guarantees this.
            let mut ports = unsafe { HostPorts::new(connections, frames, gain, usual, None) };
            for channel in 0..connections.inputs.len() {
                ports.input(channel, 0, &mut twin.input_mut(channel)[..frames]);
            }
            for control in 0..usual.len() {
                twin.set_control(control, ports.control(control));
            }
            twin.run(frames);
        }
        // SAFETY: the caller guarantees this.
        let mut ports =
            unsafe { HostPorts::new(connections, frames, gain, usual, self.twin.as_mut()) };
        let began = now();
        let outcome = self.offloaded.run(&mut ports, began);
        self.patient_until = began + outcome.timeout;
        self.frames += frames as u64;
        self.hurried += if outcome.offline { frames as u64 } else { 0 };
        self.hurried_in_vain += if outcome.hurries_in_vain { frames as u64 } else { 0 };
        let delay = self.offloaded.delay() as usize;
        let waits = self.may_wait || outcome.waited;
        if outcome.concealed > 0 && !waits && frames > delay && !self.is_window {
            self.standing.tell_short(frames as u64);
        }
        if let Some(twin) = &mut self.twin {
            if outcome.concealed > 0 {
                twin.spoil(self.fade);
            }
            let known = twin.verdict().first_difference;
            twin.judge(frames, self.offloaded.delay());
            if let (None, Some(frame)) = (known, twin.verdict().first_difference) {
                self.standing.tell_difference(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_api::v1::PluginPort;
    use tautline_proto::offload::block::BlockLeg;

    use super::*;

    fn plugin(inputs: usize, outputs: usize, controls: usize) -> Plugin {
        let kinds = [(1 | 8, inputs), (2 | 8, outputs), (1 | 4, controls)];
        let port = |descriptor| PluginPort {
            name: String::new(),
            descriptor,
            hints: 0,
            lower: 0.0,
            upper: 0.0,
        };
        let ports = kinds.into_iter().flat_map(|(kind, count)| vec![port(kind); count]).collect();
        let text = r#"{"id":"a:b","file":"a.so","label":"b","unique_id":1,"name":"","maker":"","copyright":"",
            "properties":0,"ports":[],"hash":"","cost":null}"#;
        Plugin { ports, ..serde_json::from_str(text).unwrap() }
    }

    #[test]
    fn worker_learns_the_hosts_block_length() {
        assert_eq!((period_ns(48, 48_000), period_ns(1024, 96_000)), (1_000_000, 10_666_666));
    }

    #[test]
    fn as_many_blocks_are_kept_as_a_worker_grants_and_not_one_fewer() {
        for (inputs, outputs, controls) in [(2, 2, 5), (1, 1, 0), (60, 40, 7), (0, 254, 1)] {
            let plugin = plugin(inputs, outputs, controls);
            let set = SoundSet {
                inputs,
                outputs,
                controls_in: controls,
                max_frames: MAX_FRAMES,
                ..SoundSet::default()
            };
            let set = set.block_set().unwrap();
            let bytes = |leg| set.bytes(leg, MAX_FRAMES);
            let each = bytes(BlockLeg::There) + bytes(BlockLeg::Back);
            let maximum = max_history(&plugin, &[]) as usize;
            assert!(each * maximum <= MAX_KEPT_BYTES && each * (maximum + 1) > MAX_KEPT_BYTES);
        }
    }
}
