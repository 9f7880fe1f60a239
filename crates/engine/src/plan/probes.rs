//! Selection of the packets that are measured.

tautline_dsp::named_enum! {
    /// Which packets are measured: stages, latency from the sound, ledger lines. Counters take
    /// every packet. So do decisions: arrivals, and the latency that a receiver reports to its
    /// sender.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Probes {
        /// Every packet.
        #[default]
        All = "all",
        /// One packet in 64.
        OneIn64 = "64",
        /// No packet, and no latency from the sound.
        Off = "off",
    }
    unknown: "`{}` is no number of packets; write all, 64 or off"
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
