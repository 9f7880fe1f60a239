//! Channel mapping.

use core::fmt;
use core::str::FromStr;

/// Maximum of a stream.
pub const MAX_CHANNELS: usize = 64;

/// Input channel or silence for each output channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelMap {
    sources: Vec<Option<u8>>,
    /// Cached for each block.
    in_order: bool,
}

/// Error for an unusable map, with the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapError {
    /// Neither a channel number nor silence.
    Entry {
        /// Whole map as given.
        given: String,
        /// Invalid entry.
        entry: String,
    },
    /// More than [`MAX_CHANNELS`] outputs.
    TooLong {
        /// Number of outputs.
        outputs: usize,
    },
    /// Input channel that the sound does not have.
    NoSuchInput {
        /// Number of the channel, from 1.
        input: usize,
        /// Number of inputs.
        inputs: usize,
    },
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { given, entry } => write!(
                f,
                "invalid channel '{entry}' in map '{given}'\nhint: give input channels from 1 to {MAX_CHANNELS} in the order \
                 of the outputs, - for silence, such as 2,1 or 1,-"
            ),
            Self::TooLong { outputs } => {
                write!(
                    f,
                    "a map of {outputs} channels is too long\nhint: use at most {MAX_CHANNELS}"
                )
            }
            Self::NoSuchInput { input, inputs } => write!(
                f,
                "the map uses channel {input}, but the sound has {inputs}\nhint: use 1 to {inputs}"
            ),
        }
    }
}

impl std::error::Error for MapError {}

impl ChannelMap {
    /// Maps every channel to itself, up to [`MAX_CHANNELS`].
    pub fn identity(channels: usize) -> Self {
        Self::of((0..channels.min(MAX_CHANNELS) as u8).map(Some).collect())
    }

    /// Maps one channel to all `outputs`.
    pub fn spread(outputs: usize) -> Self {
        Self::of(vec![Some(0); outputs.min(MAX_CHANNELS)])
    }

    fn of(sources: Vec<Option<u8>>) -> Self {
        let in_order = sources.iter().zip(0..).all(|(&source, index)| source == Some(index));
        Self { sources, in_order }
    }

    /// Number of output channels.
    pub fn outputs(&self) -> usize {
        self.sources.len()
    }

    /// Input channel, from 0; `None` for silence.
    pub fn source_of(&self, output: usize) -> Option<usize> {
        self.sources.get(output).copied().flatten().map(usize::from)
    }

    /// Whether sound of `inputs` channels stays unchanged.
    pub fn is_identity(&self, inputs: usize) -> bool {
        self.in_order && inputs == self.outputs()
    }

    /// Checks that all inputs exist; for set-up.
    pub fn check(&self, inputs: usize) -> Result<(), MapError> {
        match self.sources.iter().flatten().max() {
            Some(&highest) if usize::from(highest) >= inputs => {
                Err(MapError::NoSuchInput { input: usize::from(highest) + 1, inputs })
            }
            _ => Ok(()),
        }
    }

    /// Maps as many interleaved frames as both hold. Missing inputs are silence.
    pub fn apply(&self, inputs: usize, input: &[f32], output: &mut [f32]) {
        if self.is_identity(inputs) {
            let len = input.len().min(output.len());
            return output[..len].copy_from_slice(&input[..len]);
        }
        let frames = input.chunks_exact(inputs.max(1));
        for (to, from) in output.chunks_exact_mut(self.outputs().max(1)).zip(frames) {
            for (sample, source) in to.iter_mut().zip(&self.sources) {
                let index = source.map_or(usize::MAX, usize::from);
                *sample = from.get(index).copied().unwrap_or(0.0);
            }
        }
    }
}

impl fmt::Display for ChannelMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, source) in self.sources.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match source {
                Some(source) => write!(f, "{}", source + 1)?,
                None => f.write_str("-")?,
            }
        }
        Ok(())
    }
}

impl FromStr for ChannelMap {
    type Err = MapError;

    /// `2,1`: output 1 has input 2, output 2 has input 1; `0` or `-` is silence.
    fn from_str(given: &str) -> Result<Self, MapError> {
        let sources = given
            .split(',')
            .map(|entry| {
                source(entry.trim()).ok_or_else(|| MapError::Entry {
                    given: given.to_owned(),
                    entry: entry.trim().to_owned(),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if sources.len() > MAX_CHANNELS {
            return Err(MapError::TooLong { outputs: sources.len() });
        }
        Ok(Self::of(sources))
    }
}

fn source(entry: &str) -> Option<Option<u8>> {
    if entry == "-" {
        return Some(None);
    }
    let number: u8 = entry.parse().ok()?;
    (usize::from(number) <= MAX_CHANNELS).then(|| number.checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> ChannelMap {
        text.parse().unwrap()
    }

    #[test]
    fn channels_are_swapped() {
        let mut samples = [0.0; 4];
        map("2,1").apply(2, &[1.0, 2.0, 3.0, 4.0], &mut samples);
        assert_eq!(samples, [2.0, 1.0, 4.0, 3.0]);
    }

    #[test]
    fn one_input_can_feed_several_outputs_and_none_is_silence() {
        let mut output = [9.0; 6];
        map("1,-,0").apply(2, &[1.0, 2.0, 3.0, 4.0], &mut output);
        assert_eq!(output, [1.0, 0.0, 0.0, 3.0, 0.0, 0.0]);
    }

    #[test]
    fn the_identity_leaves_every_bit() {
        let nan = f32::from_bits(0x7fa0_0001);
        let mut output = [0.0; 2];
        map("1,2").apply(2, &[nan, -0.0], &mut output);
        assert_eq!(output.map(f32::to_bits), [nan.to_bits(), (-0.0_f32).to_bits()]);
        assert!(map("1,2").is_identity(2) && ChannelMap::identity(2) == map("1,2"));
        assert!(!map("1,2").is_identity(3) && !map("1,1").is_identity(2));
    }

    #[test]
    fn an_input_that_does_not_exist_is_refused_and_never_read() {
        assert_eq!(map("1,3").check(2), Err(MapError::NoSuchInput { input: 3, inputs: 2 }));
        assert_eq!(map("1,3").check(3), Ok(()));
        let mut output = [9.0; 2];
        map("1,3").apply(2, &[1.0, 2.0], &mut output);
        assert_eq!(output, [1.0, 0.0]);
    }

    #[test]
    fn invalid_channel_map_is_named_in_the_error() {
        for (given, entry) in [("", ""), ("1,,2", ""), ("1;2", "1;2"), ("65", "65"), ("-1", "-1")] {
            let error = given.parse::<ChannelMap>().unwrap_err();
            assert_eq!(error, MapError::Entry { given: given.into(), entry: entry.into() });
        }
        let long = vec!["1"; 65].join(",");
        assert_eq!(long.parse::<ChannelMap>(), Err(MapError::TooLong { outputs: 65 }));
    }

    #[test]
    fn a_map_prints_as_it_is_parsed() {
        assert_eq!(map("2, 0,1").to_string(), "2,-,1");
    }
}
