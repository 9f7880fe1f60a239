//! The ledger of every packet as lines of text, for those who want more than distributions.
//!
//! A receiver's line and its sender's begin with the same RTP timestamp, so that the two join.
//! Instants are nanoseconds on the writer's own monotonic clock; what is unknown is empty.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tautline_proto::ledger::{Departure, Passage};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wrap;

use crate::watching::run::RunError;

const RECV_HEAD: &str = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,measured_ns,\
     stream,late,resample_ns";
const SEND_HEAD: &str = "rtp_timestamp,capture,taken,packed,due,handed";

/// A ledger being written.
pub(crate) struct LedgerFile {
    path: PathBuf,
    out: BufWriter<File>,
    failed: Option<std::io::Error>,
    headed: bool,
}

impl LedgerFile {
    pub(crate) fn create(path: &Path) -> Result<Self, RunError> {
        let file = File::create(path)
            .map_err(|error| RunError::Ledger { path: path.to_owned(), error })?;
        let out = BufWriter::new(file);
        Ok(Self { path: path.to_owned(), out, failed: None, headed: false })
    }

    fn line(&mut self, head: &str, line: &str) {
        let mut write = || {
            if !self.headed {
                writeln!(self.out, "{head}")?;
            }
            writeln!(self.out, "{line}")
        };
        // The first failure is told: the sound goes on.
        if let (Err(error), None) = (write(), &self.failed) {
            self.failed = Some(error);
        }
        self.headed = true;
    }

    /// A packet that was played, or came too late for that.
    pub(crate) fn passage(&mut self, stream: usize, passage: &Passage, measured: Option<Span>) {
        let nanos =
            |time: Option<LocalTime>| time.map_or(String::new(), |t| t.as_nanos().to_string());
        let sender = passage.origin.and_then(|origin| origin.sender);
        let instants = [
            passage.origin.map(|origin| origin.capture),
            sender.map(|s| s.taken),
            sender.map(|s| s.packed),
            sender.map(|s| s.handed),
            Some(passage.arrival),
            Some(passage.read),
            Some(passage.taken),
            Some(passage.written),
            Some(passage.dac),
        ]
        .map(nanos);
        let timestamp = wrap::rtp_timestamp(passage.media.as_frames());
        let late = u8::from(passage.late);
        let resample = passage.resample.as_nanos();
        let measured = measured.map_or(String::new(), |span| span.as_nanos().to_string());
        self.line(
            RECV_HEAD,
            &format!("{timestamp},{},{measured},{stream},{late},{resample}", instants.join(",")),
        );
    }

    /// A packet that was sent.
    pub(crate) fn sent(&mut self, rtp_timestamp: u32, departure: &Departure) {
        let Departure { capture, taken, packed, due, handed, .. } = *departure;
        let instants = [capture, taken, packed, due, handed].map(|t| t.as_nanos().to_string());
        self.line(SEND_HEAD, &format!("{rtp_timestamp},{}", instants.join(",")));
    }

    /// What could not be written so far, in a sentence.
    pub(crate) fn flaw(&self) -> Option<String> {
        let (path, error) = (self.path.display(), self.failed.as_ref()?);
        Some(format!("the ledger {path} is not whole: {error}; make room, or write it elsewhere"))
    }

    /// Writes what is left. What could not be written is no reason to lose the report: it is a
    /// sentence in it.
    pub(crate) fn finish(mut self) -> Option<String> {
        if let (Err(error), None) = (self.out.flush(), &self.failed) {
            self.failed = Some(error);
        }
        self.flaw()
    }
}
