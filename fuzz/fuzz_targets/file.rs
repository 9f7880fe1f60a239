//! Bytes as a WAV or FLAC file: whatever its header claims, what is read of it is bounded, and what
//! is said of it holds.
#![no_main]

use std::cell::RefCell;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use tautline_audio::{FileCoding, FileReader, holds_nothing};

/// The most frames of one piece: FLAC counts a block's in 16 bits.
const MOST_FRAMES: usize = 1 << 16;
/// A few bytes of FLAC stand for minutes of silence; so much of it tells nothing new.
const ENOUGH: u64 = 1 << 22;

thread_local! {
    static PATH: RefCell<PathBuf> = RefCell::default();
}

fuzz_target!(
    init: {
        // A foreign decoder may panic: the program catches that, or loses a thread of its own. The
        // fuzzer's hook ends the process over any panic; left to it are ours.
        let end = take_hook();
        set_hook(Box::new(move |info| {
            let foreign = info.location().is_some_and(|at| at.file().contains("symphonia"));
            if !foreign {
                end(info);
            }
        }));
        let name = format!("taut-fuzz-{}", std::process::id());
        PATH.set(std::env::temp_dir().join(name));
    },
    |bytes: &[u8]| PATH.with_borrow(|path| {
        std::fs::write(path, bytes).expect("the folder for temporary files can be written to");
        let opened = FileReader::open(path);
        let is_bare = holds_nothing(path);
        std::fs::remove_file(path).expect("it was just written");
        match opened {
            Ok(reader) => {
                // What panics ends the decoder's thread and what was given stays given.
                let _ = catch_unwind(std::panic::AssertUnwindSafe(|| play(reader, is_bare)));
            }
            Err(refused) => {
                let sentence = refused.to_string();
                assert!(!sentence.contains('\n') && !refused.mend.is_empty(), "{sentence}");
            }
        }
    })
);

fn play(mut reader: FileReader, is_bare: bool) {
    let format = reader.format();
    let channels = format.channels.count();
    assert!(matches!(format.coding, FileCoding::Float | FileCoding::Integer(0..=24)), "{format:?}");
    let (mut given, mut out) = (0, Vec::new());
    while reader.read(&mut out) {
        assert!(!out.is_empty() && out.len().is_multiple_of(channels), "whole frames");
        assert!(out.len() <= MOST_FRAMES * channels, "{} samples at once", out.len());
        if let FileCoding::Integer(_) = format.coding {
            let loud = out.iter().find(|sample| !(-1.0..=1.0).contains(*sample));
            assert_eq!(loud, None, "of {format:?}");
        }
        given += (out.len() / channels) as u64;
        if given > ENOUGH {
            return;
        }
    }
    assert!(out.is_empty(), "nothing comes with the end");
    // A header may lie about the bytes of a frame; what such a file holds, a header has room for.
    assert!(!is_bare || given <= 68, "it holds nothing, and {given} frames were read");
    let flaws = reader.flaws();
    assert_eq!(flaws.cut.is_some(), format.frames.is_some_and(|promised| given < promised));
}
