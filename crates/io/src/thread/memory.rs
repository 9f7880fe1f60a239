//! Locked and prefaulted memory.

use core::fmt;
use std::io;
use std::path::Path;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::thread::sentence;

/// Memory could not be locked; `Display` is for the report.
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
            "memory is not locked: {answer}; give the user a memlock limit \
             (/etc/security/limits.d) or the program CAP_IPC_LOCK"
        )
    }
}

impl std::error::Error for LockRefused {}

/// Locks all pages, now and on first touch (`MCL_ONFAULT`): [`prefault`] what real-time code uses.
pub fn lock() -> Result<(), LockRefused> {
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: the call takes no pointers. Locking changes no contents.
    match unsafe { libc::mlockall(flags) } {
        0 => Ok(()),
        _ => {
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM);
            Err(LockRefused { errno })
        }
    }
}

/// Releases free heap and unmodified file pages. Freed blocks from 128 kB then return to the
/// kernel, and threads share one arena. Call before [`lock`], not in a process with foreign code.
pub fn release_start() {
    #[cfg(target_env = "gnu")]
    // SAFETY: affects only free memory and the placement of new blocks.
    unsafe {
        // By default it grows with freed sizes, and the heap keeps an ended call's buffers.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        // By default up to eight per core, each keeping ended threads' memory. Real-time threads do
        // not allocate.
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::malloc_trim(0);
    }
    let (Ok(program), Ok(maps)) =
        (std::fs::read_link("/proc/self/exe"), std::fs::read_to_string("/proc/self/maps"))
    else {
        return;
    };
    for (from, length) in maps.lines().filter_map(|line| never_written(line, &program)) {
        // SAFETY: pages of a private file mapping that were never written: reading them again gives
        // the same contents.
        unsafe {
            let start = core::ptr::with_exposed_provenance_mut(from);
            libc::madvise(start, length, libc::MADV_DONTNEED);
        }
    }
}

/// Address and length of the program's code, or constants without relocations. `line`:
/// /proc/PID/maps (proc(5)).
fn never_written(line: &str, program: &Path) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let path = line.find('/').map(|at| Path::new(&line[at..]))?;
    let constants = rights == "r--p" && offset.bytes().all(|digit| digit == b'0');
    if path != program || !(rights == "r-xp" || constants) {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let [from, to] = [from, to].map(|hex| usize::from_str_radix(hex, 16).ok());
    Some((from?, to?.checked_sub(from?)?))
}

/// A wait-free ring, all pages in memory.
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

/// Pushes without allocating. Returns the value if full.
pub fn push_within<T>(items: &mut Vec<T>, item: T) -> Result<(), T> {
    let Some(free) = items.spare_capacity_mut().first_mut() else { return Err(item) };
    free.write(item);
    // SAFETY: the slot after the last value is within the capacity and was initialised by the line
    // before.
    unsafe { items.set_len(items.len() + 1) };
    Ok(())
}

/// Brings every page into memory, writable.
pub fn prefault<T>(slice: &mut [T]) {
    const PAGE: usize = 4096;
    let bytes = size_of_val(slice);
    let start = slice.as_mut_ptr().cast::<core::mem::MaybeUninit<u8>>();
    for offset in (0..bytes).step_by(PAGE).chain(bytes.checked_sub(1)) {
        // SAFETY: inside the slice, which is borrowed uniquely; the same byte is written back,
        // whether or not it is padding.
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
    fn only_code_and_constants_of_the_program_are_given_back() {
        let program = Path::new("/usr/bin/taut");
        let given = |line: &str| never_written(line, program);
        let code = "5583b4c00000-5583b4c21000 r-xp 00237000 fd:01 123   /usr/bin/taut";
        assert_eq!(given(code), Some((0x5583_b4c0_0000, 0x21000)));
        let constants = "5583b4900000-5583b4901000 r--p 00000000 fd:01 123   /usr/bin/taut";
        assert_eq!(given(constants), Some((0x5583_b490_0000, 0x1000)));
        for kept in [
            "5583b4d00000-5583b4d21000 r--p 00300000 fd:01 123   /usr/bin/taut",
            "5583b4e00000-5583b4e21000 rw-p 00400000 fd:01 123   /usr/bin/taut",
            "7f00b4e00000-7f00b4e21000 r-xp 00026000 fd:01 124   /usr/lib/libc.so.6",
            "7f00b4e00000-7f00b4e21000 rw-p 00000000 00:00 0",
            "7ffdb4e00000-7ffdb4e21000 r-xp 00000000 00:00 0     [vdso]",
            "nonsense",
        ] {
            assert_eq!(given(kept), None, "{kept}");
        }
    }

    #[test]
    fn prefaulting_changes_nothing() {
        let mut numbers: Vec<u32> = (0..10_000).collect();
        prefault(&mut numbers);
        assert!(numbers.iter().enumerate().all(|(index, &n)| index as u32 == n));
        prefault::<u64>(&mut []);
    }

    #[test]
    fn push_within_returns_the_value_without_room() {
        let mut items = Vec::with_capacity(2);
        items.push(String::from("a"));
        let room = items.capacity();
        (1..room).for_each(|n| assert_eq!(push_within(&mut items, n.to_string()), Ok(())));
        assert_eq!(push_within(&mut items, "more".into()), Err("more".to_owned()));
        assert_eq!((items.len(), items.capacity(), &*items[1]), (room, room, "1"));
    }

    #[test]
    fn refusal_has_a_hint() {
        let text = LockRefused { errno: libc::ENOMEM }.to_string();
        snapshot!(text);
    }
}
