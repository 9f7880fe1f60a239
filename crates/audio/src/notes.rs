//! What a device has to tell people while it runs, sentence by sentence.

use std::sync::{Arc, Mutex, PoisonError};

/// Sentences for whoever asks. Clones share them.
///
/// Written by decoder, recorder and opener threads and read by a session; never touched on a
/// device's thread, because it locks.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// Leaves a sentence.
    pub fn add(&self, sentence: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sentence);
    }

    /// Takes the sentences that were left since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
