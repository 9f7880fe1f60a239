//! Denormal handling: offloaded code must compute exactly like its host.

use core::marker::PhantomData;

/// Denormal handling of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FloatMode {
    /// Results become zero (FTZ on x86).
    pub flush_to_zero: bool,
    /// Operands are treated as zero (DAZ). One switch for both on Arm.
    pub denormals_are_zero: bool,
}

impl FloatMode {
    /// IEEE 754: the default.
    pub const EXACT: Self = Self { flush_to_zero: false, denormals_are_zero: false };

    /// The current mode; `None` on unknown processors.
    pub fn current() -> Option<Self> {
        register::read().map(register::decode)
    }

    /// Sets the mode until the guard drops; no effect on unknown processors.
    pub fn set(self) -> FloatModeGuard {
        let before = register::read();
        if let Some(before) = before {
            let wanted = register::encode(before, self);
            if wanted != before {
                register::write(wanted);
            }
        }
        FloatModeGuard { before, _here: PhantomData }
    }
}

/// Restores the previous mode.
#[derive(Debug)]
#[must_use = "the mode ends when this is dropped"]
pub struct FloatModeGuard {
    before: Option<register::Word>,
    _here: PhantomData<*const ()>,
}

impl Drop for FloatModeGuard {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            register::write(before);
        }
    }
}

/// MXCSR (Intel SDM volume 1, 10.2.3): bit 15 FTZ, bit 6 DAZ.
#[cfg(target_arch = "x86_64")]
mod register {
    use super::FloatMode;

    pub(super) type Word = u32;
    const FLUSH_TO_ZERO: Word = 1 << 15;
    const DENORMALS_ARE_ZERO: Word = 1 << 6;

    pub(super) fn read() -> Option<Word> {
        let mut word: Word = 0;
        // SAFETY: stores 32 bits into a variable of that size.
        unsafe {
            core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
        }
        Some(word)
    }

    pub(super) fn write(word: Word) {
        // SAFETY: only two valid bits of a word read before change. Only foreign code, called
        // through a pointer, runs in another mode.
        unsafe {
            core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags));
        }
    }

    pub(super) fn decode(word: Word) -> FloatMode {
        FloatMode {
            flush_to_zero: word & FLUSH_TO_ZERO != 0,
            denormals_are_zero: word & DENORMALS_ARE_ZERO != 0,
        }
    }

    pub(super) fn encode(word: Word, mode: FloatMode) -> Word {
        let bit = |wanted, bit| if wanted { bit } else { 0 };
        word & !(FLUSH_TO_ZERO | DENORMALS_ARE_ZERO)
            | bit(mode.flush_to_zero, FLUSH_TO_ZERO)
            | bit(mode.denormals_are_zero, DENORMALS_ARE_ZERO)
    }
}

/// FPCR (Arm ARM, C5.2.8): bit 24 (FZ) does both.
#[cfg(target_arch = "aarch64")]
mod register {
    use super::FloatMode;

    pub(super) type Word = u64;
    const FLUSH_TO_ZERO: Word = 1 << 24;

    pub(super) fn read() -> Option<Word> {
        let word: Word;
        // SAFETY: only reads a register.
        unsafe { core::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack)) };
        Some(word)
    }

    pub(super) fn write(word: Word) {
        // SAFETY: only one valid bit of a word read before changes. Only foreign code, called
        // through a pointer, runs in another mode.
        unsafe { core::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack)) };
    }

    pub(super) fn decode(word: Word) -> FloatMode {
        let flushes = word & FLUSH_TO_ZERO != 0;
        FloatMode { flush_to_zero: flushes, denormals_are_zero: flushes }
    }

    pub(super) fn encode(word: Word, mode: FloatMode) -> Word {
        let wanted = mode.flush_to_zero || mode.denormals_are_zero;
        word & !FLUSH_TO_ZERO | if wanted { FLUSH_TO_ZERO } else { 0 }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    use super::FloatMode;

    pub(super) type Word = u64;

    pub(super) fn read() -> Option<Word> {
        None
    }

    pub(super) fn write(_: Word) {}

    pub(super) fn decode(_: Word) -> FloatMode {
        FloatMode::EXACT
    }

    pub(super) fn encode(word: Word, _: FloatMode) -> Word {
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hint::black_box;

    const ALL: [FloatMode; 4] = [
        FloatMode::EXACT,
        FloatMode { flush_to_zero: true, denormals_are_zero: false },
        FloatMode { flush_to_zero: false, denormals_are_zero: true },
        FloatMode { flush_to_zero: true, denormals_are_zero: true },
    ];

    #[test]
    fn float_mode_lasts_until_its_guard_drops() {
        let Some(before) = FloatMode::current() else { return };
        for (outer, inner) in ALL.iter().flat_map(|outer| ALL.map(|inner| (*outer, inner))) {
            let both = |mode: FloatMode| mode.flush_to_zero || mode.denormals_are_zero;
            let outer_guard = outer.set();
            let inner_guard = inner.set();
            let found = FloatMode::current().unwrap();
            assert!(found == inner || cfg!(target_arch = "aarch64") && both(found) == both(inner));
            drop(inner_guard);
            assert_eq!(FloatMode::current().map(both), Some(both(outer)));
            drop(outer_guard);
        }
        assert_eq!(FloatMode::current(), Some(before));
    }

    #[test]
    fn denormals_are_zero_only_while_flushed() {
        if FloatMode::current().is_none() {
            return;
        }
        let smaller = || black_box(black_box(f32::MIN_POSITIVE) * black_box(0.5));
        let flushed = {
            let _mode = FloatMode { flush_to_zero: true, denormals_are_zero: false }.set();
            smaller()
        };
        assert_eq!(flushed.to_bits(), 0);
        assert_ne!(smaller().to_bits(), 0);
    }
}
