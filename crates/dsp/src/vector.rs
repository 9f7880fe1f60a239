//! Compiles sample loops twice: generic, and for x86-64-v3. The choice is made at run time.
//!
//! Both give the same bits: neither reorders sums nor fuses multiply-adds
//! (docs/internals/decisions/0034-loops-are-compiled-twice.md).

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Level, Simd};
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// Proof of an x86-64-v3 processor.
#[cfg(target_arch = "x86_64")]
pub(crate) use fearless_simd::x86::Avx2 as Wide;
/// Impossible elsewhere.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
pub(crate) enum Wide {}

#[cfg(target_arch = "x86_64")]
static WIDE: OnceLock<Option<Wide>> = OnceLock::new();

/// Checks the processor, for all later runs. Not for device threads: concurrent calls block each
/// other.
pub fn prepare() {
    #[cfg(target_arch = "x86_64")]
    WIDE.get_or_init(|| Level::new().as_avx2());
}

/// Mark the closure and its callees `#[inline(always)]`: separate functions are compiled
/// generically.
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

/// If inlined, this function's stack frame would burden the wide variant.
#[cfg_attr(target_arch = "x86_64", inline(never))]
#[cfg_attr(not(target_arch = "x86_64"), inline(always))]
fn narrow<R>(work: impl FnOnce(Option<Wide>) -> R) -> R {
    work(None)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn wide_vectors_need_a_detected_processor() {
        prepare();
        let wide = Level::new().as_avx2().is_some();
        assert_eq!(widest(|proof| proof.is_some()), wide);
    }
}
