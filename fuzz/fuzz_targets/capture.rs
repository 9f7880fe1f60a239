//! Bytes as a capture, and as a sender's ledger: each is read to an end, every row says something or why
//! not, and nothing is counted that the bytes have no room for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_lab::interval::{of_capture, of_ledger};
use tautline_proto::units::Rate;

fuzz_target!(|bytes: &[u8]| {
    let capture = of_capture(bytes, Rate::HZ_48000);
    let ledger = std::str::from_utf8(bytes).ok().map(|text| of_ledger(text, Rate::HZ_48000));
    for report in ledger.iter().chain([&capture]) {
        assert!(!report.rows.is_empty());
        for row in &report.rows {
            // A line of a ledger takes six bytes at least, a frame in a capture far more.
            let count = row.measured.as_ref().map_or(0, |measured| measured.count as usize);
            assert!(count <= bytes.len() / 6, "{}: {count} of {} bytes", row.name, bytes.len());
            assert!(row.void.is_none() || row.measured.is_none());
        }
        assert!(!report.to_string().is_empty() && report.to_json().is_ok());
    }
});
