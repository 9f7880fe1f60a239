//! Both directions of a call in one file (`--record FILE.wav`).

use std::fs::OpenOptions;
use std::io::{BufWriter, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hound::{Error, SampleFormat, WavReader, WavSpec, WavWriter};

/// Full scale of 24-bit samples.
const FULL_SCALE: f32 = 8_388_608.0;

/// Adds two files of equal start and format into a new one, and removes them. The rest of the
/// longer file is copied. The samples are floats, because a sum may exceed full scale. Returns the
/// path of the new file.
pub(super) fn mix(sides: [&Path; 2], into: &Path) -> Result<PathBuf, Error> {
    let [sent, received] = sides;
    let (sent, received) = (WavReader::open(sent)?, WavReader::open(received)?);
    let spec = sent.spec();
    if spec != received.spec() {
        return Err(Error::FormatError("both directions differ in rate or channels"));
    }
    // Under a hidden name, so that an interrupted mix does not look complete.
    let hidden = sides[0].with_extension("mix");
    let _ = std::fs::remove_file(&hidden);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&hidden)?;
    let spec = WavSpec { bits_per_sample: 32, sample_format: SampleFormat::Float, ..spec };
    let mut mixed = WavWriter::new(BufWriter::new(file), spec)?;
    let (mut sent, mut received) = (sent.into_samples::<i32>(), received.into_samples::<i32>());
    loop {
        let sum = match (sent.next().transpose()?, received.next().transpose()?) {
            (None, None) => break,
            (one, other) => one.unwrap_or(0) + other.unwrap_or(0),
        };
        mixed.write_sample(sum as f32 / FULL_SCALE)?;
    }
    mixed.finalize()?;
    // Reserved first: two calls that end together must not take the same name.
    let path = create(into)?;
    std::fs::rename(&hidden, &path)?;
    sides.into_iter().try_for_each(std::fs::remove_file).map_err(Error::IoError)?;
    Ok(path)
}

/// Creates the next free name: `FILE.wav`, `FILE-2.wav`, ….
fn create(path: &Path) -> std::io::Result<PathBuf> {
    loop {
        let path = free_path(path, 0);
        let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        match new {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return created.map(|_| path),
        }
    }
}

/// Next free name after `skipped` free names.
pub(super) fn free_path(path: &Path, skipped: usize) -> PathBuf {
    let names = (1..).map(|number| numbered(path, number));
    let mut free = names.filter(|path| path.symlink_metadata().is_err());
    free.nth(skipped).expect("numbers do not end")
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if number == 1 { path.to_owned() } else { path.with_file_name(format!("{stem}-{number}.wav")) }
}
