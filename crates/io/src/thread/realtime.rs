//! Marks real-time code for the real-time sanitizer. Both guards cost nothing unless built with
//! `RUSTFLAGS="-Zsanitizer=realtime --cfg tautline_rtsan"`; then an allocation, a lock or a blocking system call inside
//! a [`Scope`] ends the program with a stack trace.

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

/// Permits a call that only looks blocking to the sanitizer, for the `reason` (such as a non-blocking socket).
#[inline]
pub fn permit(reason: &'static str) -> Permit {
    let _ = reason;
    #[cfg(tautline_rtsan)]
    runtime::__rtsan_disable();
    Permit(PhantomData)
}

impl Permit {
    /// Runs our own code, called back from a permitted call, under the sanitizer again. Only within a single permit.
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

/// Calls foreign code that counts as blocking, for the `reason`.
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
