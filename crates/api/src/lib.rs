//! What one `taut` says to another: types, identity and trust, seals, and a small blocking client.
