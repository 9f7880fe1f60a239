use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;

use tautline_audio::{FileCoding, FileReader, holds_nothing};

/// FLAC's maximum per block.
const MAX_FRAMES: usize = 1 << 16;
/// Few bytes of FLAC can encode minutes.
const ENOUGH_FRAMES: u64 = 1 << 22;

thread_local! {
    static FOREIGN: Cell<bool> = const { Cell::new(false) };
}

/// WAV or FLAC: each read returns whole frames within full scale, and the reported flaws match
/// them.
pub fn file(bytes: &[u8]) {
    ignore_foreign_panics();
    let path = std::env::temp_dir().join(format!("taut-fuzz-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder is writable");
    let opened = FileReader::open(&path);
    let is_bare = holds_nothing(&path);
    std::fs::remove_file(&path).expect("the file exists");
    match opened {
        // In `taut` a panic of the decoder ends only its thread.
        Ok(reader) => {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| play(reader, is_bare)))
                && !FOREIGN.get()
            {
                resume_unwind(panic);
            }
        }
        Err(refused) => {
            let sentence = refused.to_string();
            assert_eq!(sentence.lines().count(), 2, "{sentence}");
            assert!(!refused.hint.is_empty(), "{sentence}");
        }
    }
}

/// libfuzzer's hook aborts the process.
fn ignore_foreign_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |info| {
            let foreign = info.location().is_some_and(|at| at.file().contains("symphonia"));
            FOREIGN.set(foreign);
            if !foreign {
                report(info);
            }
        }));
    });
}

fn play(mut reader: FileReader, is_bare: bool) {
    let format = reader.format();
    let channels = format.channels.count();
    assert!(matches!(format.coding, FileCoding::Float | FileCoding::Integer(0..=24)), "{format:?}");
    let (mut given, mut out) = (0, Vec::new());
    while reader.read(&mut out) {
        assert!(!out.is_empty() && out.len().is_multiple_of(channels), "whole frames");
        assert!(out.len() <= MAX_FRAMES * channels, "{} samples in one block", out.len());
        if let FileCoding::Integer(_) = format.coding {
            let loud = out.iter().find(|sample| !(-1.0..=1.0).contains(*sample));
            assert_eq!(loud, None, "of {format:?}");
        }
        given += (out.len() / channels) as u64;
        if given > ENOUGH_FRAMES {
            return;
        }
    }
    assert!(out.is_empty(), "the last read returns no samples");
    // A bare file has no bytes after its header.
    assert!(!is_bare || given <= 68, "{given} frames in a bare file");
    let flaws = reader.flaws();
    assert_eq!(flaws.cut.is_some(), format.frames.is_some_and(|promised| given < promised));
    assert!(!is_bare || format.frames == Some(0), "a bare file promises no frame");
}
