use tautline_lab::interval::{of_capture, of_ledger};
use tautline_lab::network;
use tautline_proto::units::Rate;

/// A packet capture and a sender's ledger. Every row has a result or a reason, and counts no more
/// packets than the bytes can hold.
pub fn capture(bytes: &[u8]) {
    let capture = of_capture(bytes, Rate::HZ_48000);
    let ledger =
        std::str::from_utf8(bytes).ok().map(|text| of_ledger("sent.csv", text, Rate::HZ_48000));
    let network = network::of_capture(bytes);
    for report in ledger.iter().chain([&capture, &network]) {
        assert!(!report.rows.is_empty());
        for row in &report.rows {
            // A ledger line has at least six bytes.
            let count = row.measured.as_ref().map_or(0, |measured| measured.count as usize);
            assert!(count <= bytes.len() / 6, "{}: {count} of {} bytes", row.name, bytes.len());
            assert!(row.invalid.is_none() || row.measured.is_none());
        }
        assert!(!report.to_string().is_empty() && report.to_json().is_ok());
    }
}
