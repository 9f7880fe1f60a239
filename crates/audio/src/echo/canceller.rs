use tautline_dsp::echo::EchoCanceller;
use tautline_proto::units::{Channels, Rate};

/// Maximum channels per side. Each pair has its own filter.
const MAX_CHANNELS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoCanceller {
    #[error(
        "echo cancellation supports 1 or 2 channels, not {}\nhint: use --channels 2 or --echo-cancel off",
        .0.count()
    )]
    Channels(Channels),
    #[error(
        "echo cancellation needs one rate for both devices, not {captured} and {played}\nhint: use --rate or --echo-cancel \
         off"
    )]
    Rates { captured: Rate, played: Rate },
}

#[derive(Debug)]
pub struct Canceller(EchoCanceller);

impl Canceller {
    pub fn new(
        rate: Rate,
        microphones: Channels,
        loudspeakers: Channels,
    ) -> Result<Self, NoCanceller> {
        for channels in [microphones, loudspeakers] {
            if channels.count() > MAX_CHANNELS {
                return Err(NoCanceller::Channels(channels));
            }
        }
        Ok(Self(EchoCanceller::new(rate.hertz(), microphones.count(), loudspeakers.count())))
    }

    /// Removes the echo of `played`; both interleaved, nominally −1…1. Real-time safe.
    pub fn cancel(&mut self, captured: &mut [f32], played: &[f32]) {
        self.0.process(captured, played);
    }
}
