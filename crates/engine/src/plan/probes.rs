//! Selection of the packets that are measured.

tautline_dsp::named_enum! {
    /// Which packets are measured: their stages, their latency in the sound, and ledger lines.
    /// Counters include every packet, as do decisions about arrivals and about the latency that a
    /// receiver reports to its sender.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Probes {
        /// Every packet.
        #[default]
        All = "all",
        /// One packet in 64.
        OneIn64 = "64",
        /// No packet, and no latency measured in the sound.
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
