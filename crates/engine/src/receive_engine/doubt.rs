//! A run that was laid out by what was announced, and what comes instead.

use tautline_proto::wire::rtcp::Announcement;
use tautline_report::Report;

use crate::control::{RecvChange, Requests};

/// What may be wrong with a plan that an announcement laid out. Only until a sender was heard for a
/// second, or a change was asked for: a recording is not thrown away.
pub struct Doubt<'a> {
    /// Nobody's packets had come by then: it may have been anybody's announcement.
    pub hearsay: bool,
    /// Nothing announced it: the plan is what packets proved, which may have been silent.
    pub proven: bool,
    /// Whether what a sender announces could be played here instead. Where not, the run goes on and
    /// refuses it.
    pub playable: &'a dyn Fn(&Announcement) -> bool,
}

/// How a run ended whose plan was in doubt.
pub enum Ran {
    /// As it was asked to.
    Whole(Box<Report>),
    /// Early, as another stream comes than it was laid out for.
    Another(Box<Another>),
}

/// What the next run begins with.
pub struct Another {
    /// What the sender announces whose packets come; `None` if they are of another format than they seemed, or nothing can be read of them.
    pub announcement: Option<Announcement>,
    /// The changes that were listened to.
    pub requests: Option<Requests<RecvChange>>,
}
