//! A running plugin: it copies, and wastes the rest of its time.

use core::ffi::{CStr, c_ulong};
use core::ptr::{copy, null_mut};

use tautline_host::ladspa::abi::{Data, Descriptor, Handle};
use tautline_io::clock::{now, sleep_until};
use tautline_proto::time::{LocalTime, Span};

use crate::kinds::{
    BURST, EVERY, IN, KIBIBYTES, MAX_KIBIBYTES, MICROSECONDS, OUT, PER_FRAME, SPREAD, VIRTUAL,
    WasteKind,
};

const PORTS: usize = 6;
const WORDS: usize = 128;
/// Steps between looks at the clock: some microseconds of work.
const STEPS: usize = 64;

struct Waste {
    kind: WasteKind,
    ports: [*mut Data; PORTS],
    runs: u64,
    /// Knuth's MMIX constants.
    chance: u64,
    memory: Vec<u64>,
}

impl Waste {
    fn new(kind: WasteKind) -> Self {
        let words = if kind == WasteKind::Cache { MAX_KIBIBYTES * WORDS } else { 0 };
        Self { kind, ports: [null_mut(); PORTS], runs: 0, chance: 1, memory: vec![0; words] }
    }

    /// Clamped to 0..=1e6; 0 if it is not finite or not connected.
    fn value(&self, port: usize) -> f64 {
        // SAFETY: the pointer is null, or the host's place for this control's value.
        let value = unsafe { self.ports[port].as_ref() }.map_or(0.0, |value| f64::from(*value));
        if value.is_finite() { value.clamp(0.0, 1e6) } else { 0.0 }
    }

    fn next_chance(&mut self) -> u64 {
        self.chance =
            self.chance.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        self.chance >> 32
    }

    fn time(&mut self, frames: usize) -> f64 {
        let alongside = match self.kind {
            WasteKind::Fixed => self.value(PER_FRAME) * frames as f64,
            WasteKind::Random => {
                let share = self.next_chance() as f64 / 2f64.powi(32);
                self.value(SPREAD) * 1000.0 * share
            }
            WasteKind::Burst if self.runs.is_multiple_of((self.value(EVERY) as u64).max(1)) => {
                self.value(BURST) * 1000.0
            }
            WasteKind::Burst | WasteKind::Cache => 0.0,
        };
        self.value(MICROSECONDS) * 1000.0 + alongside
    }

    fn work(&mut self, until: LocalTime) {
        let words = ((self.value(KIBIBYTES) as usize).max(1) * WORDS).min(self.memory.len());
        while now() < until {
            for _ in 0..STEPS {
                if words == 0 {
                    core::hint::spin_loop();
                } else {
                    let place = self.next_chance() as usize % words;
                    self.memory[place] = self.memory[place].wrapping_add(1);
                }
            }
        }
    }

    fn run(&mut self, frames: usize) {
        let begun = now();
        self.runs += 1;
        let (from, to) = (self.ports[IN], self.ports[OUT]);
        if !from.is_null() && !to.is_null() {
            // SAFETY: the host provides `frames` samples at both; they may overlap completely.
            unsafe { copy(from, to, frames) };
        }
        let until = begun + Span::from_nanos(self.time(frames) as i64);
        if self.value(VIRTUAL) > 0.0 { sleep_until(until) } else { self.work(until) }
    }
}

/// # Safety
/// As in the header: the descriptor belongs to this library.
pub(crate) unsafe extern "C" fn instantiate(of: *const Descriptor, _rate: c_ulong) -> Handle {
    // SAFETY: a descriptor of this library, whose label is a static text.
    let label = unsafe { CStr::from_ptr((*of).label) };
    match WasteKind::ALL.into_iter().find(|kind| kind.label() == label) {
        Some(kind) => Box::into_raw(Box::new(Waste::new(kind))).cast(),
        None => null_mut(),
    }
}

/// # Safety
/// As in the header: a live instance of this library without other users.
unsafe fn instance<'a>(handle: Handle) -> &'a mut Waste {
    // SAFETY: made by `instantiate`, and used only here at this moment.
    unsafe { &mut *handle.cast::<Waste>() }
}

/// # Safety
/// As for [`instance`]; the address is null or has room for the port's data.
pub(crate) unsafe extern "C" fn connect_port(handle: Handle, port: c_ulong, at: *mut Data) {
    // SAFETY: the caller guarantees this.
    let waste = unsafe { instance(handle) };
    if let Some(place) = usize::try_from(port).ok().and_then(|port| waste.ports.get_mut(port)) {
        *place = at;
    }
}

/// # Safety
/// As for [`instance`].
pub(crate) unsafe extern "C" fn activate(handle: Handle) {
    // SAFETY: the caller guarantees this.
    let waste = unsafe { instance(handle) };
    (waste.runs, waste.chance) = (0, 1);
    // Maps the memory before its use.
    waste.memory.fill(1);
}

/// # Safety
/// As for [`instance`]; each port has room for `frames` samples.
pub(crate) unsafe extern "C" fn run(handle: Handle, frames: c_ulong) {
    // SAFETY: the caller guarantees this.
    unsafe { instance(handle) }.run(frames as usize);
}

/// # Safety
/// As for [`instance`], which ends here.
pub(crate) unsafe extern "C" fn cleanup(handle: Handle) {
    // SAFETY: `instantiate` made the handle from a box. The host passes each handle to `cleanup`
    // once.
    drop(unsafe { Box::from_raw(handle.cast::<Waste>()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of 48 frames, in ns.
    fn times(kind: WasteKind, controls: &[f32], runs: usize) -> Vec<f64> {
        let mut waste = Waste::new(kind);
        let mut values = controls.to_vec();
        for (port, value) in values.iter_mut().enumerate() {
            waste.ports[MICROSECONDS + port] = value;
        }
        let one = |_| {
            waste.runs += 1;
            waste.time(48)
        };
        (0..runs).map(one).collect()
    }

    #[test]
    fn fixed_time_has_a_part_per_run_and_a_part_per_frame() {
        assert_eq!(times(WasteKind::Fixed, &[100.0, 0.0, 50.0], 3), [102_400.0; 3]);
    }

    #[test]
    fn one_run_in_so_many_is_one_of_a_burst() {
        let all = times(WasteKind::Burst, &[10.0, 0.0, 500.0, 4.0], 12);
        let bursts: Vec<_> = (0..12).filter(|run| all[*run] == 510_000.0).collect();
        assert_eq!(bursts, [3, 7, 11]);
        assert!(all.iter().filter(|time| **time == 10_000.0).count() == 9, "{all:?}");
    }

    #[test]
    fn random_times_cover_their_spread() {
        let all = times(WasteKind::Random, &[10.0, 0.0, 100.0], 1000);
        assert!(all.iter().all(|time| (10_000.0..110_000.0).contains(time)), "{all:?}");
        let mean = all.iter().sum::<f64>() / 1000.0;
        assert!((mean - 60_000.0).abs() < 5000.0, "{mean}");
        let tenth =
            |of: usize| (of as f64 * 10_000.0 + 10_000.0)..(of as f64 * 10_000.0 + 20_000.0);
        assert!((0..10).all(|of| all.iter().any(|time| tenth(of).contains(time))));
    }
}
