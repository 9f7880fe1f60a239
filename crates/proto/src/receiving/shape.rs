//! Whether a stream is of the shape that was expected, by what its sender says and by its payload
//! types.

use super::note::{Refusal, WrongType};
use super::{ReceiveNote, ReceivePolicy};
use crate::packet::Unpack;
use crate::receiver::{OtherType, StreamStatus};
use crate::stream::StreamFormat;

/// Packets of another payload type after which it is told: more than strays.
const FEW: u64 = 10;

/// Why the stream that a sender announces cannot be played where `ours` is expected; `None` if it can.
/// Another rate changes its pitch, other channels mix it up, and another coding is noise at full scale.
pub(super) fn refusal(
    theirs: &StreamFormat,
    ours: &StreamFormat,
    wire: &dyn Unpack,
) -> Option<Refusal> {
    // What is not taken for its payload type is not decoded either, and told of as that.
    let coding = wire.coding(theirs.payload_type, ours);
    let coding = coding.filter(|coding| *coding != theirs.coding()).map(|coding| coding.sample);
    let refusal = Refusal { theirs: *theirs, ours: *ours, coding, codings: wire.codings() };
    (refusal.is_of_another_shape() || coding.is_some()).then_some(refusal)
}

impl ReceivePolicy {
    /// What comes with another payload type, if it is more than strays.
    pub(super) fn wrong_type_of(&self, status: &StreamStatus) -> Option<WrongType> {
        let came = status.other_type.filter(|came: &OtherType| came.packets >= FEW)?;
        Some(WrongType { came, codings: self.wire.codings(), format: self.format })
    }

    /// Says once what comes instead of the stream.
    pub(super) fn note_other_type(&mut self, status: &StreamStatus) {
        let Some(wrong) = self.wrong_type_of(status).filter(|_| !self.recent.is_lively()) else {
            return;
        };
        if self.other_type_told != Some(wrong.came.payload_type) {
            self.other_type_told = Some(wrong.came.payload_type);
            self.notes.note(ReceiveNote::WrongType(wrong));
        }
    }
}
