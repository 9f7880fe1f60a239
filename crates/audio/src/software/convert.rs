use std::path::{Path, PathBuf};

use tautline_proto::device::Settings;
use tautline_proto::units::{Channels, Rate};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    pub rate: Option<Rate>,
    pub channels: Option<Channels>,
}

impl From<&Settings> for Wanted {
    fn from(settings: &Settings) -> Self {
        Self { rate: Some(settings.rate), channels: Some(settings.channels) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Conversion {
    pub(crate) rate: Option<Rate>,
    pub(crate) channels: Option<Channels>,
    pub(crate) narrower: bool,
    pub(crate) float: bool,
}

impl Conversion {
    pub(crate) fn command(self, path: Option<&Path>) -> String {
        let Some(path) = path else { return self.in_the_pipe() };
        let (mut options, mut suffix) = (Vec::new(), Vec::new());
        if let Some(rate) = self.rate {
            options.push(format!("-r {}", rate.hertz()));
            suffix.push(kilohertz(rate));
        }
        if let Some(channels) = self.channels {
            options.push(format!("-c {channels}"));
            suffix.push(format!("{channels}ch"));
        }
        if self.narrower {
            let (option, name) =
                if self.float { ("-e float -b 32", "float") } else { ("-b 24", "24bit") };
            options.push(option.to_owned());
            suffix.push(name.to_owned());
        }
        let to = quoted(&alongside(path, &suffix.join("-")));
        format!("convert it first: sox {} {} {to}", quoted(path), options.join(" "))
    }

    fn in_the_pipe(self) -> String {
        let options = self.options_of_ffmpeg();
        format!("convert it in the pipe: ffmpeg -i - {options} -f wav -")
    }

    /// ffmpeg would choose 16 bits.
    fn options_of_ffmpeg(self) -> String {
        let rate = self.rate.map(|rate| format!("-ar {} ", rate.hertz()));
        let channels = self.channels.map(|channels| format!("-ac {channels} "));
        let coding = if self.float { "pcm_f32le" } else { "pcm_s24le" };
        let [rate, channels] = [rate, channels].map(Option::unwrap_or_default);
        format!("{rate}{channels}-c:a {coding}")
    }
}

pub(crate) fn unpack(path: Option<&Path>, wanted: &Wanted) -> String {
    let rate = wanted.rate.unwrap_or(Rate::HZ_48000);
    let conversion =
        Conversion { rate: Some(rate), channels: wanted.channels, ..Conversion::default() };
    let Some(path) = path else { return conversion.in_the_pipe() };
    let (from, to) = (quoted(path), quoted(&alongside(path, &kilohertz(rate))));
    format!("convert it first: ffmpeg -i {from} {} {to}", conversion.options_of_ffmpeg())
}

fn kilohertz(rate: Rate) -> String {
    format!("{}k", f64::from(rate.hertz()) / 1000.0)
}

fn alongside(path: &Path, suffix: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{suffix}.wav"))
}

pub(crate) fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    const TO_48K: Conversion =
        Conversion { rate: Some(Rate::HZ_48000), channels: None, narrower: false, float: false };

    #[test]
    fn the_command_can_be_pasted() {
        snapshot!(TO_48K.command(Some(Path::new("a/song.wav"))));
        let narrower = Conversion { narrower: true, ..Conversion::default() };
        assert_eq!(
            narrower.command(Some(Path::new("it's mine.flac"))),
            r"convert it first: sox 'it'\''s mine.flac' -b 24 'it'\''s mine-24bit.wav'"
        );
    }

    #[test]
    fn one_command_makes_every_change() {
        let all =
            Conversion { channels: Some(Channels::STEREO), narrower: true, float: true, ..TO_48K };
        snapshot!(all.command(Some(Path::new("x.wav"))));
        snapshot!(all.command(None));
        let wanted = Wanted { rate: Rate::new(44_100).ok(), channels: Some(Channels::STEREO) };
        snapshot!(unpack(Some(Path::new("x.mp3")), &wanted));
    }

    #[test]
    fn no_command_writes_over_the_file_it_reads() {
        let stereo = Conversion { channels: Some(Channels::STEREO), ..Conversion::default() };
        let narrower = Conversion { narrower: true, ..Conversion::default() };
        for name in ["w64.wav", "a/song.flac", "x"] {
            let path = Path::new(name);
            let changes = [TO_48K, stereo, narrower].map(|change| change.command(Some(path)));
            let unpacked = unpack(Some(path), &Wanted::default());
            for command in changes.into_iter().chain([unpacked]) {
                assert_eq!(command.split(' ').filter(|word| *word == name).count(), 1, "{command}");
            }
        }
    }
}
