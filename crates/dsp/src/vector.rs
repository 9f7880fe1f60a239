//! Loops over samples are compiled twice: for every processor, and for those of x86-64-v3, whose
//! vectors are twice as wide and shuffle bytes. Which is run is decided where the program runs.
//!
//! Both ways give the same bits: neither reorders sums nor fuses a product with one
//! (docs/decisions/0034-loops-are-compiled-twice.md).

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Level, Simd};
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// The proof that the processor is one of x86-64-v3.
#[cfg(target_arch = "x86_64")]
pub(crate) use fearless_simd::x86::Avx2 as Wide;
/// Nothing proves it elsewhere.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
pub(crate) enum Wide {}

/// The processor's answer, once anybody prepared for it.
#[cfg(target_arch = "x86_64")]
static WIDE: OnceLock<Option<Wide>> = OnceLock::new();

/// Asks the processor, for all that is run afterwards; what is run before is as for every processor.
/// Not for the device's thread: two that ask at once wait for each other.
pub fn prepare() {
    #[cfg(target_arch = "x86_64")]
    WIDE.get_or_init(|| Level::new().as_avx2());
}

/// Runs `work` as the processor does it best; it is given the proof that it is compiled so, where it is.
/// Mark the closure, and what it calls, as `#[inline(always)]`: what is a function of its own is
/// compiled for every processor only.
#[inline(always)]
pub(crate) fn widest<R>(work: impl FnOnce(Option<Wide>) -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if let Some(wide) = WIDE.get().copied().flatten() {
        return wide.vectorize(
            #[inline(always)]
            move || work(Some(wide)),
        );
    }
    narrow(work)
}

/// A function of its own where there is a wide way: laid in, its stack would be laid for that, too.
#[cfg_attr(target_arch = "x86_64", inline(never))]
#[cfg_attr(not(target_arch = "x86_64"), inline(always))]
fn narrow<R>(work: impl FnOnce(Option<Wide>) -> R) -> R {
    work(None)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn who_prepared_gets_the_proof_where_the_processor_is_wide() {
        prepare();
        let wide = Level::new().as_avx2().is_some();
        assert_eq!(widest(|proof| proof.is_some()), wide);
    }
}
