//! Memory that a plugin has the address of.

use core::ptr::NonNull;

/// Samples at an address that stays, which a plugin reads and writes as it runs. Slices of it are
/// made anew each time: none may be held while the plugin runs, and the borrows below see to it.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<f32>,
    length: usize,
}

// SAFETY: the memory is the buffer's own.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(crate) fn new(length: usize) -> Self {
        let whole = Box::leak(vec![0.0f32; length].into_boxed_slice());
        Self { start: NonNull::from(whole).cast(), length }
    }

    /// What a plugin is told.
    pub(crate) fn address(&self) -> *mut f32 {
        self.start.as_ptr()
    }

    pub(crate) fn samples(&self) -> &[f32] {
        // SAFETY: so many initialized samples lie there until `drop`; a plugin writes only while its
        // instance is borrowed for running, and the instance has the buffers.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    pub(crate) fn samples_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let whole = core::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.length);
        // SAFETY: it came of a box of this length in `new`, and nothing has its address any more: the
        // instance that did was ended before its buffers are dropped.
        drop(unsafe { Box::from_raw(whole) });
    }
}
