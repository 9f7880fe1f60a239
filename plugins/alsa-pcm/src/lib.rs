//! An ALSA PCM, `type tautline`: any ALSA program plays to the network or records from it.
