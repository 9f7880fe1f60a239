//! Marks real-time code for the real-time sanitizer. Both guards cost nothing unless built with
//! `RUSTFLAGS="-Zsanitizer=realtime --cfg tautline_rtsan"`. Then an allocation, a lock or a
//! blocking system call inside a [`Scope`] aborts the program with a stack trace.

use core::marker::PhantomData;

#[cfg(tautline_rtsan)]
mod runtime {
    // Entry points of LLVM's real-time sanitizer (compiler-rt `rtsan/rtsan.h`).
    unsafe extern "C" {
        pub(super) safe fn __rtsan_realtime_enter();
        pub(super) safe fn __rtsan_realtime_exit();
        pub(super) safe fn __rtsan_disable();
        pub(super) safe fn __rtsan_enable();
    }
}

/// Keeps the current thread in real-time context until dropped. Scopes nest.
#[derive(Debug)]
#[must_use = "the scope ends when this is dropped"]
pub struct Scope(PhantomData<*const ()>);

/// Enters real-time context on the current thread.
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

/// Disables the sanitizer on the current thread until dropped. Permits nest.
#[derive(Debug)]
#[must_use = "the permit ends when this is dropped"]
pub struct Permit(PhantomData<*const ()>);

/// Permits a call that only appears blocking to the sanitizer, for the given `reason` (such as a
/// non-blocking socket).
#[inline]
pub fn permit(reason: &'static str) -> Permit {
    let _ = reason;
    #[cfg(tautline_rtsan)]
    runtime::__rtsan_disable();
    Permit(PhantomData)
}

impl Permit {
    /// Runs tautline's own code under the sanitizer again, when a permitted call calls it back.
    /// Only valid within a single permit.
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

/// Calls foreign code that the sanitizer treats as blocking, for the given `reason`.
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
