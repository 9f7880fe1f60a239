//! Marks real-time code for the real-time sanitizer.
//!
//! Both guards are empty and cost nothing unless the program is built with
//! `RUSTFLAGS="-Zsanitizer=realtime --cfg tautline_rtsan"`. Then an allocation, a lock or a blocking
//! system call inside a [`Scope`] ends the program with a stack trace.

use core::marker::PhantomData;

#[cfg(tautline_rtsan)]
mod runtime {
    // The entry points of LLVM's real-time sanitizer (compiler-rt `rtsan/rtsan.h`).
    unsafe extern "C" {
        pub(super) safe fn __rtsan_realtime_enter();
        pub(super) safe fn __rtsan_realtime_exit();
        pub(super) safe fn __rtsan_disable();
        pub(super) safe fn __rtsan_enable();
    }
}

/// The current thread is in real-time context until this is dropped. Scopes nest.
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

/// The sanitizer looks away on the current thread until this is dropped. Permits nest.
#[derive(Debug)]
#[must_use = "the permit ends when this is dropped"]
pub struct Permit(PhantomData<*const ()>);

/// Permits what the sanitizer holds to be blocking and is not, for the `reason` that a reader finds
/// at the call (a system call on a non-blocking socket, for instance).
#[inline]
pub fn permit(reason: &'static str) -> Permit {
    let _ = reason;
    #[cfg(tautline_rtsan)]
    runtime::__rtsan_disable();
    Permit(PhantomData)
}

impl Permit {
    /// Runs what is ours within the call that is permitted under the sanitizer's eyes again: it may
    /// be called back from there. Only where no other permit is around this one.
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

/// Calls what is not ours and is held to be blocking, for the `reason` that a reader finds there.
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
