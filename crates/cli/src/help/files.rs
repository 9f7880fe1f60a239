pub(crate) const COMPARE: &str = "Examples:
  taut compare song.flac heard.wav
  taut compare song.flac heard.wav --report json

Exit status: 0 if all sent frames were recorded in order, bit for bit or
resampled; 1 if not; 2 if rates or channel counts differ; 5 if the delay of
periodic audio is ambiguous and no frame is known to be lost.

Tolerances and JSON: taut compare --help";

pub(crate) const COMPARE_LONG: &str = r#"Examples:
  taut compare song.flac heard.wav
  taut compare song.flac heard.wav --report json

Reports where the sent audio is in the recording, and every change with its
position: missing, dropped, repeated or replaced frames; resampling in ppm;
gain, polarity; swapped, silent or mixed channels; reduced bit depth, rounded
or with dither. For a sine wave of any frequency also THD+N: everything but the
sine, up to half the sample rate, with harmonics (THD) and noise apart,
relative to a full-scale sine. Silence at the ends and other audio before and
after are ignored.

Periodic audio, such as a sine, is located by its start, end or envelope.
Without them, the delay is ambiguous modulo the period: the delay closest to 0
is reported with the period. Frames that a shift by whole periods explains are
not reported as repeated or lost, and polarity only as inverted if that
explains clearly more.

Cards without a common clock differ by some ppm, so their audio is resampled:
the verdict is "all there" instead of "identical". Resampled audio must match to
-20 dB over 21 ms and to -10 dB over 32 frames.

For scripts, --report json: verdict is identical, all_there (resampled),
differs, ambiguous or not_found; next to it channels, mix, resampled, rest_db,
residue, tones, dropouts with position and the longest, and changes. If the
delay is ambiguous, ambiguous_modulo_frames is the period; a change that is
known only modulo the period is shifted, with modulo_frames. Frame positions
refer to the sent file; channels are counted from 0.

Exit status: 0 if all sent frames were recorded in order, bit for bit or
resampled; 1 if not; 2 if rates or channel counts differ; 5 if the delay of
periodic audio is ambiguous and no frame is known to be lost."#;
