//! Arrays that the kernel's structures point into.

use core::ptr::NonNull;

use crate::socket::descriptor::Plain;
use crate::thread::memory::prefault;

/// An array that never moves and to which the kernel's structures hold pointers. Unlike a boxed
/// slice it claims no uniqueness, so those pointers stay valid while it is used.
pub(crate) struct Fixed<T: Plain> {
    start: NonNull<T>,
    len: usize,
}

impl<T: Plain> Fixed<T> {
    pub(crate) fn zeroed(len: usize) -> Self {
        // SAFETY: `Plain` promises that all zeros are a valid value.
        let zero: T = unsafe { core::mem::zeroed() };
        let mut boxed = vec![zero; len].into_boxed_slice();
        prefault(&mut boxed);
        Self { start: NonNull::from(Box::leak(boxed)).cast(), len }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The element at `index`, which is checked.
    pub(crate) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.len, "an index of the batch's own making");
        // SAFETY: inside the array.
        unsafe { self.start.as_ptr().add(index) }
    }
}

impl<T: Plain> Drop for Fixed<T> {
    fn drop(&mut self) {
        let slice = core::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
        // SAFETY: leaked from a box of this very length by `zeroed`, and freed once.
        drop(unsafe { Box::from_raw(slice) });
    }
}
