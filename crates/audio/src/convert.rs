//! The command that turns a file into one that can be carried.

use std::path::Path;

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
    /// The kind of file, to WAV.
    Container,
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
                let to = quoted(&path.with_extension("wav"));
                return format!("convert it first: ffmpeg -i {} {to}", quoted(path));
            }
        };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let to = path.with_file_name(format!("{stem}-{suffix}.wav"));
        // The options of what is written stand before its name.
        format!("convert it first: sox {} {options} {}", quoted(path), quoted(&to))
    }
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
}
