//! A GPIO line that the kernel reports the edges of.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use gpiocdev_uapi::Error as GpioError;
use gpiocdev_uapi::v2::{
    LineConfig, LineEdgeEvent, LineFlags, LineRequest, LineValues, Name, Offsets, get_line,
    get_line_values,
};
use tautline_proto::time::LocalTime;

use super::Contact;
use super::debounce::Debouncer;

/// The kernel's number of a rising edge, from inactive to active (`linux/gpio.h`).
const RISING: u32 = 1;
/// Maximum edges per read. The kernel keeps as many edges for a line.
const EDGES: usize = 16;
/// Words of 8 bytes of an edge.
const WORDS: usize = size_of::<LineEdgeEvent>() / 8;

/// Error of a line, with its fix.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of {chip}: {error}\nhint: {}", hint(.error))]
pub(crate) struct LineError {
    chip: PathBuf,
    line: u32,
    error: io::Error,
}

/// A watched line.
pub(crate) struct ContactLine {
    /// Readable when there are edges.
    edges: File,
    /// Whether edges may come as text.
    is_pipe: bool,
    debouncer: Debouncer,
}

impl ContactLine {
    /// Requests the line. The chip may also be a named pipe, for a trial without wires: `1` closes the
    /// contact, `0` opens it. Tests write edges as `struct gpio_v2_line_event`.
    pub(crate) fn open(contact: &Contact) -> Result<Self, LineError> {
        let Contact { chip, line, .. } = contact;
        Self::request(contact).map_err(|error| LineError { chip: chip.clone(), line: *line, error })
    }

    fn request(contact: &Contact) -> io::Result<Self> {
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        // Open with write access, so that the pipe never reports its end.
        let chip =
            File::options().read(true).write(true).custom_flags(nonblock).open(&contact.chip)?;
        if chip.metadata()?.file_type().is_fifo() {
            return Ok(Self { edges: chip, is_pipe: true, debouncer: Debouncer::new(false) });
        }
        // A contact without a resistor needs the chip's resistor. The kernel ignores this if the
        // chip has no resistor.
        let active = match contact.active_low {
            true => LineFlags::ACTIVE_LOW | LineFlags::BIAS_PULL_UP,
            false => LineFlags::BIAS_PULL_DOWN,
        };
        let edges = LineFlags::EDGE_RISING | LineFlags::EDGE_FALLING;
        let flags = LineFlags::INPUT | edges | active;
        let request = LineRequest {
            offsets: Offsets::from_slice(&[contact.line]),
            consumer: Name::from_bytes(b"taut"),
            config: LineConfig { flags, ..LineConfig::default() },
            num_lines: 1,
            ..LineRequest::default()
        };
        let edges = get_line(&chip, request).map_err(system)?;
        let mut values = LineValues { bits: 0, mask: 1 };
        get_line_values(&edges, &mut values).map_err(system)?;
        let debouncer = Debouncer::new(values.get(0) == Some(true));
        Ok(Self { edges, is_pipe: false, debouncer })
    }

    /// Reads the edges; call this when edges are available. Returns the changes: closed (`true`) or
    /// open.
    pub(crate) fn read(&mut self, now: LocalTime) -> io::Result<Vec<bool>> {
        let mut bytes = [0; EDGES * size_of::<LineEdgeEvent>()];
        let count = self.edges.read(&mut bytes)?;
        if self.is_pipe && !count.is_multiple_of(size_of::<LineEdgeEvent>()) {
            return self.take_text(&bytes[..count], now);
        }
        let words = bytes[..count].as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let words: Vec<u64> = words.collect();
        let mut changes = Vec::new();
        for edge in words.chunks_exact(WORDS) {
            let edge = LineEdgeEvent::from_slice(edge).map_err(system)?;
            // The kernel's timestamps are from CLOCK_MONOTONIC, as is `now`.
            let at = LocalTime::from_nanos(edge.timestamp_ns.try_into().unwrap_or(i64::MAX));
            changes.extend(self.debouncer.handle_edge(edge.kind == RISING, at.min(now)));
        }
        Ok(changes)
    }

    fn take_text(&mut self, text: &[u8], now: LocalTime) -> io::Result<Vec<bool>> {
        let mut changes = Vec::new();
        for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace()) {
            let is_closed = match byte {
                b'1' => true,
                b'0' => false,
                _ => {
                    let why = "invalid text in the pipe\nhint: write 1 to close the contact, 0 to open it";
                    return Err(io::Error::other(why));
                }
            };
            changes.extend(self.debouncer.handle_edge(is_closed, now));
        }
        Ok(changes)
    }

    /// Returns a change until `now`.
    pub(crate) fn poll(&mut self, now: LocalTime) -> Option<bool> {
        self.debouncer.poll(now)
    }

    /// Time of the next change, if no edge precedes it.
    pub(crate) fn due(&self) -> Option<LocalTime> {
        self.debouncer.due()
    }
}

impl AsFd for ContactLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.edges.as_fd()
    }
}

fn system(error: GpioError) -> io::Error {
    match error {
        GpioError::Os(number) => io::Error::from_raw_os_error(number.0),
        GpioError::UnderRead(error) => io::Error::other(error),
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "give the user of taut node access to the device",
        io::ErrorKind::ResourceBusy => {
            "end the program that uses the line; gpioinfo shows its name"
        }
        io::ErrorKind::InvalidInput => "use a line of gpioinfo",
        _ => "use a chip of gpiodetect",
    }
}
