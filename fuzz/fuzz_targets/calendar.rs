#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tautline_fuzzed::calendar(bytes));
