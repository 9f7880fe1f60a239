//! Which of several workers' answers is played, block by block.

use super::datagram::Flags;
use super::master::BlockAnswer;

/// An answer that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenAnswer {
    /// Whose it is.
    pub worker: usize,
    /// Whether that worker's plugin has seen all there was before.
    pub clean: bool,
}

/// Chooses among the answers that workers gave to one block, each with its worker: the first clean one, or where there
/// is none the first whose plugin got the block, or the first. Of two that came at once it is that of the lower worker.
pub fn choose_answer<'a>(
    answers: impl IntoIterator<Item = (usize, BlockAnswer<'a>)>,
) -> Option<ChosenAnswer> {
    let ranked = answers.into_iter().map(|(worker, answer)| {
        let [skipped, dirty] = [Flags::SKIPPED, Flags::DIRTY].map(|flag| answer.flags.has(flag));
        (skipped, dirty, answer.came, worker)
    });
    let (_, dirty, _, worker) = ranked.min()?;
    Some(ChosenAnswer { worker, clean: !dirty })
}
