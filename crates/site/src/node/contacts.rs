//! The contacts of a node.

use std::io::{self, PipeReader, PipeWriter, pipe};
use std::process::{ChildStdin, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tautline_api::v1::FaultKind;
use tautline_io::clock::now;
use tautline_proto::text::on_one_line;
use tautline_proto::time::{LocalTime, Span};

use super::{BuildingNode, NANOS};
use crate::contact::ContactLine;
use crate::{Contact, ContactAction, LocalError};

/// Interval of attempts to open a line.
const RETRY: Span = Span::from_secs(5);
/// Maximum pages of a contact at a time: a page collects its results for up to 3 s after its end.
const PAGES: usize = 4;

/// Watches the contacts until it is dropped, which also ends their pages.
pub struct ContactWatch {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ContactWatch {
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Watched {
    contact: Contact,
    /// Line of the contact; `None` while it cannot be read.
    line: Option<ContactLine>,
    /// Time of the next attempt to open the line.
    opens: LocalTime,
    /// Standard input of the page's process. Its end ends the page.
    page: Option<ChildStdin>,
    /// Each process of the contact holds a clone.
    running: Arc<()>,
}

impl BuildingNode {
    /// Starts the announcements of contacts. Invalid contacts are a fault.
    ///
    /// # Errors
    ///
    /// Error if a thread or pipe cannot be created.
    pub fn watch_contacts(
        self: &Arc<Self>,
        contacts: Result<Vec<Contact>, LocalError>,
    ) -> io::Result<ContactWatch> {
        self.set_fault(FaultKind::Contact, "", contacts.as_ref().err().map(on_one_line));
        let contacts = contacts.unwrap_or_default();
        if contacts.is_empty() {
            return Ok(ContactWatch { stop: None, thread: None });
        }
        let (stopped, stop) = pipe()?;
        let node = Arc::clone(self);
        let watch = move || node.watch_lines(contacts, &stopped);
        let thread = std::thread::Builder::new().name("taut-contacts".to_owned()).spawn(watch)?;
        Ok(ContactWatch { stop: Some(stop), thread: Some(thread) })
    }

    fn watch_lines(&self, contacts: Vec<Contact>, stopped: &PipeReader) {
        let watched = contacts.into_iter().map(|contact| Watched {
            contact,
            line: None,
            opens: LocalTime::ZERO,
            page: None,
            running: Arc::default(),
        });
        let mut watched: Vec<_> = watched.collect();
        loop {
            watched.iter_mut().for_each(|it| it.open(self));
            let Some(ready) = wait(&watched, stopped) else { return };
            for (it, is_ready) in watched.iter_mut().zip(ready) {
                it.look(self, is_ready);
            }
        }
    }
}

impl Watched {
    /// Opens the line if an attempt is due.
    fn open(&mut self, node: &BuildingNode) {
        if self.line.is_some() || now() < self.opens {
            return;
        }
        let (site, _) = node.building();
        let opened = match self.contact.mistake(&site) {
            Some(mistake) => Err(mistake),
            None => ContactLine::open(&self.contact).map_err(on_one_line),
        };
        match opened {
            Ok(line) => {
                self.line = Some(line);
                node.set_fault(FaultKind::Contact, &self.contact.name, None);
            }
            Err(why) => self.fail(node, why),
        }
    }

    /// A contact without a line counts as open.
    fn fail(&mut self, node: &BuildingNode, why: String) {
        (self.line, self.page, self.opens) = (None, None, now() + RETRY);
        node.set_fault(FaultKind::Contact, &self.contact.name, Some(why));
    }

    /// Time at which something is due without an edge.
    fn due(&self) -> Option<LocalTime> {
        self.line.as_ref().map_or(Some(self.opens), ContactLine::due)
    }

    fn look(&mut self, node: &BuildingNode, is_ready: bool) {
        let Some(line) = &mut self.line else { return };
        let now = now();
        let edges = if is_ready { line.read(now) } else { Ok(Vec::new()) };
        match edges.map(|edges| edges.into_iter().chain(line.poll(now)).collect::<Vec<_>>()) {
            Ok(changes) => changes.into_iter().for_each(|is_closed| self.change(node, is_closed)),
            Err(error) => self.fail(node, on_one_line(error)),
        }
    }

    fn change(&mut self, node: &BuildingNode, is_closed: bool) {
        // The end of standard input ends a page or a repeated message. Another message plays to its
        // end.
        self.page = None;
        if !is_closed {
            return;
        }
        let (max, input) = match self.contact.action {
            ContactAction::Page | ContactAction::Repeat(_) => (PAGES, Stdio::piped()),
            // The zones would refuse the same message again.
            ContactAction::Play(_) => (1, Stdio::null()),
        };
        let what = format!("contact {}", self.contact.name);
        if Arc::strong_count(&self.running) > max {
            return node.note(&format!("{what}: closed again before its announcement ended"));
        }
        let mut command = (node.config.contact)(&self.contact);
        command.stdin(input);
        let running = Arc::clone(&self.running);
        let notify = Arc::clone(&node.config.notify);
        let ended = move |failed: Option<String>| {
            drop(running);
            failed.iter().for_each(|why| notify(&format!("{what}: {why}")));
        };
        self.page = node.start_announcement(command, ended);
    }
}

/// Waits until lines have edges or something is due. Returns whether each has edges; `None` to stop.
fn wait(watched: &[Watched], stopped: &PipeReader) -> Option<Vec<bool>> {
    let due = watched.iter().filter_map(Watched::due).min();
    let left = due.map(|due| (due - now()).as_nanos().max(0));
    let left = left.map(|nanos| Timespec { tv_sec: nanos / NANOS, tv_nsec: nanos % NANOS });
    let lines = watched.iter().filter_map(|it| it.line.as_ref());
    let mut polled: Vec<_> = lines.map(|line| PollFd::new(line, PollFlags::IN)).collect();
    polled.push(PollFd::new(stopped, PollFlags::IN));
    // After an error, no line is ready.
    let _ = poll(&mut polled, left.as_ref());
    let mut ready = polled.iter().map(|it| !it.revents().is_empty());
    let ready_lines = watched.iter().map(|it| it.line.is_some() && ready.next() == Some(true));
    let ready_lines = ready_lines.collect();
    (ready.next() != Some(true)).then_some(ready_lines)
}
