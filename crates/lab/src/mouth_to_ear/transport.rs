//! By what a call's sound goes.

/// By what the sound goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallTransport {
    Udp,
    Tcp,
}

impl CallTransport {
    pub const BOTH: [Self; 2] = [Self::Udp, Self::Tcp];

    /// As on the command line of `taut call`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}
