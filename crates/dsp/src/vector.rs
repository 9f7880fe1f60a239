//! Loops over samples are compiled twice: for every processor, and for those of x86-64-v3, whose
//! vectors are twice as wide and shuffle bytes. Which is run is decided where the program runs.
//!
//! Both ways give the same bits: neither reorders sums nor fuses a product with one
//! (docs/decisions/0034-loops-are-compiled-twice.md).

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Avx2, Level, Simd};
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// The processor's answer, once anybody prepared for it.
#[cfg(target_arch = "x86_64")]
static WIDE: OnceLock<Option<Avx2>> = OnceLock::new();

/// Asks the processor, for all that is run afterwards; what is run before is as for every processor.
/// Not for the device's thread: two that ask at once wait for each other.
pub fn prepare() {
    #[cfg(target_arch = "x86_64")]
    WIDE.get_or_init(|| Level::new().as_avx2());
}

/// Runs `work` as the processor does it best. Mark the closure, and what it calls, as
/// `#[inline(always)]`: what is a function of its own is compiled for every processor only.
#[inline(always)]
pub(crate) fn widest<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if let Some(wide) = WIDE.get().copied().flatten() {
        return wide.vectorize(work);
    }
    work()
}
