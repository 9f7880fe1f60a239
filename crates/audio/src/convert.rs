//! The command that turns a file into one that can be carried.

use std::path::{Path, PathBuf};

use tautline_proto::units::{Channels, Rate};

/// What has to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// The frame rate, to this.
    Rate(Rate),
    /// The number of channels, to this.
    Channels(Channels),
    /// Integers, to 24 bits.
    Bits24,
    /// Floats, to 32 bits.
    Float,
    /// The kind of file, to WAV; ffmpeg would choose 16 bits if nobody said otherwise.
    Container,
    /// Nothing but the promise of more than is there.
    Rest,
}

impl Conversion {
    /// The mend for the file at `path`, ready to be pasted into a shell.
    pub(crate) fn command(self, path: &Path) -> String {
        let (options, suffix) = match self {
            Self::Rate(rate) => {
                (format!("-r {}", rate.hertz()), format!("{}k", f64::from(rate.hertz()) / 1000.0))
            }
            Self::Channels(channels) => (format!("-c {channels}"), format!("{channels}ch")),
            Self::Bits24 => ("-b 24".to_owned(), "24bit".to_owned()),
            Self::Float => ("-e float -b 32".to_owned(), "float".to_owned()),
            Self::Container => {
                let to = quoted(&beside(path, "24bit"));
                let from = quoted(path);
                return format!("convert it first: ffmpeg -i {from} -c:a pcm_s24le {to}");
            }
            Self::Rest => {
                let (from, to) = (quoted(path), quoted(&beside(path, "rest")));
                return format!("copy it again, or keep what is there: sox {from} {to}");
            }
        };
        let to = beside(path, &suffix);
        // The options of what is written stand before its name.
        format!("convert it first: sox {} {options} {}", quoted(path), quoted(&to))
    }
}

/// A WAV file in the same folder that is never the file itself.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{suffix}.wav"))
}

/// `path` as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_pasted() {
        let rate = Conversion::Rate(Rate::HZ_48000);
        assert_eq!(
            rate.command(Path::new("a/song.wav")),
            "convert it first: sox a/song.wav -r 48000 a/song-48k.wav"
        );
        assert_eq!(
            Conversion::Bits24.command(Path::new("it's mine.flac")),
            r"convert it first: sox 'it'\''s mine.flac' -b 24 'it'\''s mine-24bit.wav'"
        );
    }

    #[test]
    fn no_command_writes_over_the_file_it_reads() {
        for name in ["w64.wav", "a/song.flac", "x"] {
            let path = Path::new(name);
            for conversion in [
                Conversion::Rate(Rate::HZ_48000),
                Conversion::Channels(Channels::STEREO),
                Conversion::Bits24,
                Conversion::Float,
                Conversion::Container,
                Conversion::Rest,
            ] {
                let command = conversion.command(path);
                assert_eq!(command.split(' ').filter(|word| *word == name).count(), 1, "{command}");
            }
        }
        assert_eq!(
            Conversion::Container.command(Path::new("w64.wav")),
            "convert it first: ffmpeg -i w64.wav -c:a pcm_s24le w64-24bit.wav"
        );
    }
}
