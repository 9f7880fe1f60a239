//! Selection of measured packets.

tautline_dsp::named_enum! {
    /// Packets whose stages, latency in the sound and ledger lines are measured. Counters, arrivals
    /// and the latency for the sender use all packets.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Probes {
        /// Every packet.
        #[default]
        All = "all",
        /// One in 64.
        OneIn64 = "64",
        /// None, and no latency from the sound.
        Off = "off",
    }
    unknown: "invalid number of packets '{}': must be all, 64 or off"
}

impl Probes {
    pub(crate) const fn take(self, before: u64) -> bool {
        match self {
            Self::All => true,
            Self::OneIn64 => before.is_multiple_of(64),
            Self::Off => false,
        }
    }
}
