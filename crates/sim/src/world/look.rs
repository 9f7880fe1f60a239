//! What a receiver believes, held against the truth that only the simulator knows.

use tautline_proto::placement::Basis;
use tautline_proto::time::{MediaPoint, Span};

use super::{IDENTITY, World};

/// What a receiver says is due now, by the sender's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// How much later than it should be what is due comes: its age by the sender's clock, less
    /// the link offset.
    pub error: Span,
    /// How great that may be, by the receiver's word.
    pub uncertainty: Span,
    /// How far what is due may still move, by the receiver's word.
    pub precision: Option<Span>,
    /// What the receiver relies on.
    pub basis: Basis,
    /// How often it saw the sender's clock stepped.
    pub steps: u32,
    /// How often it saw the path become another.
    pub path_changes: u32,
    /// How many answers about that clock it did not believe.
    pub refused: u32,
}

impl World {
    /// How the `number`-th receiver stands; `None` before its first packet.
    pub fn look(&mut self, number: usize) -> Option<Look> {
        let listener = &mut self.listeners[number];
        let local = listener.host.local(self.now);
        let placement = listener.receiver.placement();
        let due = placement.due(local)?;
        let index = due.point.frame.as_frames() - i64::from(IDENTITY.timestamp);
        let part = due.point - MediaPoint::from(due.point.frame);
        let part = self.scenario.format.rate.span_of_fine(part);
        let captured = self.host.card.met(index, self.now).after(part);
        // By the sender's clock, as its promise is.
        let age = self.host.local(self.now) - self.host.local(captured);
        let session = &listener.host.session;
        Some(Look {
            error: age - placement.link_offset(),
            uncertainty: due.uncertainty,
            precision: due.precision,
            basis: due.basis,
            steps: session.clock_steps(IDENTITY.stream.ssrc()),
            path_changes: session.path_changes(IDENTITY.stream.ssrc()),
            refused: session.refused_exchanges(IDENTITY.stream.ssrc()),
        })
    }
}
