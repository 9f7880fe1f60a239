//! The serving side of what one `taut` says to another.
