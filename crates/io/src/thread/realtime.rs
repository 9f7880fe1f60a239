//! Marks code for the real-time sanitizer. Free unless built with `RUSTFLAGS="-Zsanitizer=realtime
//! --cfg tautline_rtsan"`: then allocations, locks and blocking calls in a [`Scope`] abort with a
//! stack trace.

use core::marker::PhantomData;

#[cfg(tautline_rtsan)]
mod runtime {
    // LLVM's real-time sanitizer (compiler-rt `rtsan/rtsan.h`).
    unsafe extern "C" {
        pub(super) safe fn __rtsan_realtime_enter();
        pub(super) safe fn __rtsan_realtime_exit();
        pub(super) safe fn __rtsan_disable();
        pub(super) safe fn __rtsan_enable();
    }
}

/// Real-time context until dropped; nests.
#[derive(Debug)]
#[must_use = "the scope ends when this is dropped"]
pub struct Scope(PhantomData<*const ()>);

/// Enters real-time context.
#[inline]
pub fn scope() -> Scope {
    #[cfg(tautline_rtsan)]
    runtime::__rtsan_realtime_enter();
    Scope(PhantomData)
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        #[cfg(tautline_rtsan)]
        runtime::__rtsan_realtime_exit();
    }
}

/// Disables the sanitizer until dropped; nests.
#[derive(Debug)]
#[must_use = "the permit ends when this is dropped"]
pub struct Permit(PhantomData<*const ()>);

/// Permits a call that only appears blocking, for `reason`.
#[inline]
pub fn permit(reason: &'static str) -> Permit {
    let _ = reason;
    #[cfg(tautline_rtsan)]
    runtime::__rtsan_disable();
    Permit(PhantomData)
}

impl Permit {
    /// Runs tautline's code under the sanitizer again, inside a single permit.
    #[inline]
    pub fn lifted<T>(&self, ours: impl FnOnce() -> T) -> T {
        #[cfg(tautline_rtsan)]
        runtime::__rtsan_enable();
        let result = ours();
        #[cfg(tautline_rtsan)]
        runtime::__rtsan_disable();
        result
    }
}

/// Calls foreign code that the sanitizer treats as blocking, for `reason`.
#[inline]
pub fn permitted<T>(reason: &'static str, foreign: impl FnOnce() -> T) -> T {
    let _permit = permit(reason);
    foreign()
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        #[cfg(tautline_rtsan)]
        runtime::__rtsan_enable();
    }
}
