//! How many packets are measured.

tautline_dsp::named_enum! {
    /// How many packets are measured: their stages, their latency from the sound, their lines in the ledger.
    /// What decides about a stream (arrivals, and the latency that a receiver tells its sender) and what is
    /// counted takes every packet all the same.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Probes {
        /// Each.
        #[default]
        All = "all",
        /// One in 64.
        OneIn64 = "64",
        /// None: no sound is listened to either.
        Off = "off",
    }
    unknown: "`{}` is no number of packets; write all, 64 or off"
}

impl Probes {
    /// Whether the packet is measured before which so many came.
    pub(crate) const fn take(self, before: u64) -> bool {
        match self {
            Self::All => true,
            Self::OneIn64 => before.is_multiple_of(64),
            Self::Off => false,
        }
    }
}
