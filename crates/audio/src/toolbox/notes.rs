use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Sentences for the user; clones share them. It locks, so a device's thread uses a `PreparedNote`.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<Sentences>>);

#[derive(Debug, Default)]
struct Sentences {
    left: Vec<String>,
    prepared: Vec<(Arc<AtomicBool>, String)>,
    failed: Vec<String>,
}

/// By which a device's thread leaves a sentence that was prepared. Wait-free.
#[derive(Debug)]
pub struct PreparedNote(Arc<AtomicBool>);

impl PreparedNote {
    pub fn arises(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Notes {
    fn sentences(&self) -> std::sync::MutexGuard<'_, Sentences> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, sentence: String) {
        self.sentences().left.push(sentence);
    }

    /// Leaves a sentence that says what was asked for and is not done.
    pub fn fail(&self, sentence: String) {
        let mut sentences = self.sentences();
        sentences.failed.push(sentence.clone());
        sentences.left.push(sentence);
    }

    pub fn failed(&self) -> Vec<String> {
        self.sentences().failed.clone()
    }

    /// Prepares a sentence, to be left once when its occasion arises. The same again takes its place.
    pub fn prepare(&self, sentence: String) -> PreparedNote {
        let occasion = Arc::new(AtomicBool::new(false));
        let mut sentences = self.sentences();
        sentences.prepared.retain(|(_, other)| *other != sentence);
        sentences.prepared.push((Arc::clone(&occasion), sentence));
        PreparedNote(occasion)
    }

    pub fn take(&self) -> Vec<String> {
        let mut sentences = self.sentences();
        let arose = sentences.prepared.extract_if(.., |(flag, _)| flag.load(Ordering::Relaxed));
        let arose: Vec<String> = arose.map(|(_, sentence)| sentence).collect();
        sentences.left.extend(arose);
        std::mem::take(&mut sentences.left)
    }
}
