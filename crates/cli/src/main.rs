//! `taut`.
fn main() {}
