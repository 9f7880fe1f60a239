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

#[cfg(feature = "lab")]
pub(crate) const BETWEEN: &str = r#"How much later the second tap has the sound than the first: two channels of one
recording, such as what goes into a box and what comes out of it:
  taut lab between recording.wav
  # The third channel against the first, up to a quarter of a second apart:
  taut lab between recording.wav --channels 1,3 --most 250ms --report json
  # Two files that begin at one instant, the first channel of each:
  taut lab between before.wav --second after.wav
  # Two channels of a card, as they are for ten seconds, as a page:
  taut lab between --device alsa:hw:0 --channels 1,2 --duration 10s \
      --report-file between.html

Each window gives one delay, by cross-correlation and then by the phase of the
cross spectrum, to a part of a frame. The second number is how far that may be
from the truth, at 95 %. Drift is how the delay grows; steps are frames that
were put in or dropped between the taps, with the frame of the first tap.

Periodic sound, such as a sine, has a delay if both taps have its onset, its
ending or an envelope; windows within it take the delay of the nearest window
that has one of these (carried_windows), and a step between them is known modulo
the period. Without any the delay is ambiguous modulo the period: no delay is
given, but the period and the possible delay nearest to 0.

A window without a delay is void, and each reason is a row: a tap is silent;
both have nothing in common (unlike); several delays are as good (ambiguous,
with up to eight of them), as of an echo or a tone; the best is at the end of
--most; the recording ends before the second tap has it; the delay steps within
it. What both taps share, such as the converter of one card, is not seen.

Exit status: 0 if a delay was found, 1 if in no window, 2 wrong usage."#;
