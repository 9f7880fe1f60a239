//! Memory that is there when it is needed.

use core::fmt;
use std::io;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::thread::sentence;

/// Memory that could not be locked. Its `Display` is the sentence for the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRefused {
    /// The system's error number.
    pub errno: i32,
}

impl fmt::Display for LockRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = sentence(self.errno);
        write!(
            f,
            "memory is not locked, as the system refused: {answer}; give the user a memlock limit \
             (/etc/security/limits.d) or the program CAP_IPC_LOCK"
        )
    }
}

impl std::error::Error for LockRefused {}

/// Keeps every page that the process touches from now on, or has touched, in memory until it ends.
///
/// Pages are locked when first touched (`MCL_ONFAULT`), not when mapped: the stacks and heaps that
/// threads reserve and never use cost nothing. What real-time code will touch is therefore to be
/// [prefaulted](prefault).
pub fn lock() -> Result<(), LockRefused> {
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: no pointers; locking changes no contents.
    match unsafe { libc::mlockall(flags) } {
        0 => Ok(()),
        _ => {
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM);
            Err(LockRefused { errno })
        }
    }
}

/// A wait-free ring whose every page is in memory before the first value is pushed.
pub fn ring<T>(slots: usize) -> (Producer<T>, Consumer<T>) {
    let (mut producer, consumer) = RingBuffer::new(slots);
    if let Ok(mut chunk) = producer.write_chunk_uninit(slots) {
        let (head, tail) = chunk.as_mut_slices();
        for part in [head, tail] {
            // SAFETY: the slots are free and may hold any bytes until they are written.
            unsafe { part.as_mut_ptr().write_bytes(0, part.len()) };
        }
    }
    (producer, consumer)
}

/// Adds a value where there is room, and gives it back where there is none: no memory is asked for.
pub fn push_within<T>(items: &mut Vec<T>, item: T) -> Result<(), T> {
    let Some(free) = items.spare_capacity_mut().first_mut() else { return Err(item) };
    free.write(item);
    // SAFETY: the place behind the last value is within the capacity, as it was found there, and holds
    // a value since the line before.
    unsafe { items.set_len(items.len() + 1) };
    Ok(())
}

/// Brings every page of `slice` into memory, writable, by writing back a byte of each.
pub fn prefault<T>(slice: &mut [T]) {
    const PAGE: usize = 4096;
    let bytes = size_of_val(slice);
    let start = slice.as_mut_ptr().cast::<core::mem::MaybeUninit<u8>>();
    for offset in (0..bytes).step_by(PAGE).chain(bytes.checked_sub(1)) {
        // SAFETY: inside the slice, which is borrowed uniquely; the very byte that was there is
        // written back, whether or not it is padding.
        unsafe {
            let place = start.add(offset);
            place.write_volatile(place.read_volatile());
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn a_ring_that_was_touched_is_empty_and_works() {
        let (mut producer, mut consumer) = ring::<u64>(1000);
        assert!(consumer.pop().is_err());
        (0..1000).for_each(|number| producer.push(number).expect("there is room"));
        assert!(producer.push(0).is_err());
        assert!((0..1000).all(|number| consumer.pop() == Ok(number)));
    }

    #[test]
    fn prefaulting_changes_nothing() {
        let mut numbers: Vec<u32> = (0..10_000).collect();
        prefault(&mut numbers);
        assert!(numbers.iter().enumerate().all(|(index, &n)| index as u32 == n));
        prefault::<u64>(&mut []);
    }

    #[test]
    fn a_value_is_added_where_there_is_room_and_given_back_where_there_is_none() {
        let mut items = Vec::with_capacity(2);
        items.push(String::from("a"));
        let room = items.capacity();
        (1..room).for_each(|n| assert_eq!(push_within(&mut items, n.to_string()), Ok(())));
        assert_eq!(push_within(&mut items, "more".into()), Err("more".to_owned()));
        assert_eq!((items.len(), items.capacity(), &*items[1]), (room, room, "1"));
    }

    #[test]
    fn a_refusal_names_the_mend() {
        let text = LockRefused { errno: libc::ENOMEM }.to_string();
        snapshot!(text);
    }
}
