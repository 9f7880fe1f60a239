//! Whether what is asked for finds room: values are kept in memory, which is locked, until the end.

use crate::failure::Failure;

/// Values of one run at most: 16 bytes each, and sorted once more at the end.
const MOST: usize = 20_000_000;

/// Refuses a run of more values.
pub(super) fn check_room(values: usize) -> Result<(), Failure> {
    if values <= MOST {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{values} values are to be kept in memory, and {MOST} is the most; use a shorter --duration, \
         or look less often"
    )))
}
