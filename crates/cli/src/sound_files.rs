use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_report::StreamReport;

use crate::failure::Failure;

/// Rejects an output that is a recording or cannot be written. Runs first, because the device may
/// open much later. Empty files and WAVs without frames count as absent; pipes and devices are not
/// overwritten.
pub(crate) fn refuse_to_overwrite(spec: &DeviceSpec, overwrite: bool) -> Result<(), Failure> {
    if matches!(spec, DeviceSpec::Software(SoftwareSpec::Standard(_)))
        && std::io::stdout().is_terminal()
    {
        return Err(Failure::open(
            "file:-: standard output is a terminal\nhint: pipe it into a program that plays a WAV: \
             taut recv --from … --output file:- | aplay",
        ));
    }
    let Some(path) = recorded_to(spec) else { return Ok(()) };
    refuse_existing(path, overwrite)
}

fn refuse_existing(path: &Path, overwrite: bool) -> Result<(), Failure> {
    tautline_audio::check_take(path)?;
    let holds = path.metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
        && !tautline_audio::holds_nothing(path);
    if holds && !overwrite {
        let path = path.display();
        return Err(Failure::open(format!(
            "{path} exists already\nhint: name another file or add --overwrite"
        )));
    }
    Ok(())
}

/// Removes or rejects an existing file. For a file written at the end.
pub(crate) fn make_room(path: &Path, overwrite: bool) -> Result<(), Failure> {
    refuse_existing(path, overwrite)?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::open(format!("{}: {error}\nhint: name another file", path.display())))
        }
        _ => Ok(()),
    }
}

/// Rejects recording to the played file, under any name. Runs before any file is opened for
/// writing, and thus emptied.
pub(crate) fn refuse_to_destroy(played: &DeviceSpec, output: &DeviceSpec) -> Result<(), Failure> {
    let source = match played {
        DeviceSpec::Software(SoftwareSpec::File(path)) => Some(&**path),
        DeviceSpec::Software(SoftwareSpec::Virtual(options)) => options.source.as_deref(),
        _ => None,
    };
    let which = |path: &Path| {
        let found = path.metadata().ok().filter(|found| found.is_file())?;
        Some((found.dev(), found.ino()))
    };
    let take = recorded_to(output);
    let (Some(source), Some(take)) = (source, take) else { return Ok(()) };
    match which(source).is_some_and(|file| Some(file) == which(take)) {
        true => Err(Failure::usage(format!(
            "{} is the input file, and recording to it would destroy it\nhint: name another file with --output",
            take.display()
        ))),
        false => Ok(()),
    }
}

/// Whether another program writes the input or reads the output during the run: `file:-` or a pipe.
pub(crate) fn is_streamed(device: &DeviceSpec) -> bool {
    matches!(device, DeviceSpec::Software(SoftwareSpec::Standard(_)))
        || recorded_to(device).is_some_and(is_pipe)
}

pub(crate) fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_fifo())
}

/// Rejects `--loop` for inputs that are endless or cannot be read twice.
pub(crate) fn refuse_to_loop(input: &DeviceSpec, looped: bool) -> Result<(), Failure> {
    let is_file = match input {
        DeviceSpec::Software(SoftwareSpec::File(_)) => true,
        DeviceSpec::Software(SoftwareSpec::Virtual(options)) => options.source.is_some(),
        _ => false,
    };
    if looped && !is_file {
        return Err(Failure::usage(format!(
            "--loop repeats a file, but --input is {input}\nhint: use --input file:PATH, or leave --loop out"
        )));
    }
    Ok(())
}

/// `heard.labels.txt` next to `heard.wav`, if wanted.
pub(crate) fn labels(
    spec: &DeviceSpec,
    wanted: bool,
    overwrite: bool,
) -> Result<Option<PathBuf>, Failure> {
    if !wanted {
        return Ok(None);
    }
    let DeviceSpec::Software(SoftwareSpec::File(path)) = spec else {
        return Err(Failure::usage(format!(
            "--labels describes a recording, but --output {spec} makes none\nhint: use --output \
             file:heard.wav, or leave --labels out"
        )));
    };
    let path = path.with_extension("labels.txt");
    if path.metadata().is_ok_and(|found| found.len() > 0) && !overwrite {
        let path = path.display();
        return Err(Failure::open(format!(
            "{path} exists already\nhint: record to another file or add --overwrite"
        )));
    }
    Ok(Some(path))
}

/// Removes a recording without sound, which would block the next run. Returns the text to report.
pub(crate) fn take_back(
    spec: &DeviceSpec,
    labels: Option<&Path>,
    streams: &[StreamReport],
) -> Option<String> {
    let received = |stream: &StreamReport| stream.counters.received > 0 && stream.played;
    let path = recorded_to(spec).filter(|_| !streams.iter().any(received))?;
    // The run creates only regular files, no links.
    let made = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let taken = made && std::fs::remove_file(path).is_ok();
    if let Some(labels) = labels.filter(|_| taken) {
        let _ = std::fs::remove_file(labels);
    }
    taken.then(|| format!("nothing was received, so {} was not kept", path.display()))
}

fn recorded_to(spec: &DeviceSpec) -> Option<&Path> {
    match spec {
        DeviceSpec::Software(SoftwareSpec::File(path)) => Some(path),
        DeviceSpec::Software(SoftwareSpec::Virtual(options)) => options.record.as_deref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    fn refused(spec: &str, overwrite: bool) -> Option<(String, u8)> {
        let spec = spec.parse().unwrap_or_else(|error| panic!("{spec}: {error}"));
        let refused = refuse_to_overwrite(&spec, overwrite).err();
        refused.map(|failure| (failure.to_string(), failure.status))
    }

    #[test]
    fn recording_is_overwritten_only_on_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let (take, empty) = (folder.path().join("take.wav"), folder.path().join("empty.wav"));
        std::fs::write(&take, "sound").expect("a file");
        std::fs::write(&empty, "").expect("a file");
        let (take, empty) = (take.display(), empty.display());
        for spec in [format!("file:{take}"), format!("virtual:?record={take}")] {
            let (sentence, status) = refused(&spec, false).expect("a refusal");
            snapshot!(sentence);
            assert!(sentence.ends_with("add --overwrite"), "{sentence}");
            assert_eq!(status, 3);
            assert_eq!(refused(&spec, true), None);
        }
        let others = [&format!("file:{empty}"), "file:/dev/null", "null:", "virtual:"];
        for spec in others {
            assert_eq!(refused(spec, false), None, "{spec}");
        }
    }

    #[test]
    fn recording_over_the_played_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let [song, link, hard, other] =
            ["song.wav", "link.wav", "hard.wav", "other.wav"].map(|name| folder.path().join(name));
        std::fs::write(&song, "sound").expect("a file");
        std::fs::write(&other, "sound").expect("a file");
        std::os::unix::fs::symlink(&song, &link).expect("a link");
        std::fs::hard_link(&song, &hard).expect("a link");
        let refused = |input: &str, output: &str| {
            let [input, output] = [input, output].map(|spec| spec.parse().expect(spec));
            refuse_to_destroy(&input, &output).err().map(|failure| failure.to_string())
        };
        for (one, same) in [(&song, &song), (&song, &link), (&link, &hard)] {
            let (one, same) = (one.display(), same.display());
            for output in [format!("file:{same}"), format!("virtual:?record={same}")] {
                for input in [format!("file:{one}"), format!("virtual:?source={one}")] {
                    let sentence = refused(&input, &output).expect("a refusal");
                    snapshot!(sentence);
                    assert!(
                        sentence.ends_with("\nhint: name another file with --output"),
                        "{sentence}"
                    );
                }
            }
        }
        let song = format!("file:{}", song.display());
        let new = format!("file:{}", folder.path().join("new.wav").display());
        for output in [format!("file:{}", other.display()), new, "null:".to_owned()] {
            assert_eq!(refused(&song, &output), None, "{output}");
        }
        assert_eq!(refused("file:/dev/null", "file:/dev/null"), None, "it is no recording");
    }

    #[test]
    fn file_name_that_contradicts_the_format_is_refused() {
        for form in ["mp3", "ogg", "flac", "aac", "m4a", "OPUS"] {
            let (sentence, status) = refused(&format!("file:heard.{form}"), true).expect(form);
            snapshot!(sentence);
            assert_eq!(status, 3);
        }
    }
}
