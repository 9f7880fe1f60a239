//! Of the commands that hold files against each other.

pub(crate) const COMPARE: &str = r#"Examples:
  taut compare song.flac heard.wav
  taut compare song.flac heard.wav --report json

It says where the one lies in the other, and what became of it on the way, each
with its place: frames that are missing, dropped, repeated or replaced; from
when on it was resampled, and by how many ppm; gain, polarity, swapped or dead
channels, or how they were mixed; fewer bits, by rounding or with dither. Where
a sine was sent, of any frequency, its THD+N: all that is beside it up to half
the rate, harmonics (THD) and noise apart, levels against a sine of full scale.
Silent ends are left aside, and so is other sound before and after.

Periodic sound, such as a sine, is placed by its onset, its ending or its
envelope. If the recording has none of them, the delay is ambiguous modulo the
period: the possible delay nearest to 0 is reported with the period. Frames are
not reported as repeated or lost if a shift by periods explains them, and
polarity is not reported as inverted unless that explains clearly more.

Two cards that share no clock run some ppm apart, and what the one captures can
only be played on the other by being resampled: that is "all there", though not
"identical". Resampled sound is held against what was sent to -20 dB over 21 ms
and to -10 dB over 32 frames.

For scripts, --report json: verdict is identical, all_there (resampled),
differs, ambiguous or not_found; next to it channels, mix, resampled, rest_db,
residue, tones, dropouts with position and the longest, and changes. If the
delay is ambiguous, ambiguous_modulo_frames is the period; a change that is
known only modulo the period is shifted, with modulo_frames. Frames are those of
what was sent, channels are counted from 0.

Exit status: 0 if every frame that was sent was heard, one after the other: bit
for bit, or resampled; 1 if not; 2 if the files have other rates or channels; 5
if the delay of periodic sound is ambiguous and no frame is known to be lost."#;
