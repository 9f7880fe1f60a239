use std::process::Command;

use tautline_dsp::format::SampleFormat;
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

use super::*;

/// Stereo packets of a millisecond, to be heard within so many milliseconds.
pub(crate) fn asked(millis: i64) -> Requirements {
    let format = StreamFormat {
        coder: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample: SampleFormat::L24,
        packet: Frames::new(48),
        payload_type: 97,
    };
    Requirements { latency: Span::from_millis(millis), format }
}

#[test]
fn what_is_found_on_this_machine_is_told_whole() {
    let found = examine(&asked(5));
    assert!(found.len() >= 10, "{found:#?}");
    for finding in &found {
        let Finding { check, verdict, what, why, command } = finding;
        assert!(!what.is_empty() && !what.ends_with('.'), "{check}: {what}");
        assert_eq!(*verdict == Verdict::Fine, why.is_empty(), "{check}: {why}");
        let better = matches!(command, Some(Remedy::Better(_)));
        assert!(command.is_none() || better == (*verdict == Verdict::Fine), "{check}");
        for text in [what, why] {
            assert!(!text.contains('\n') && !text.contains("  "), "{check}: {text:?}");
        }
    }
}

#[test]
fn every_command_can_be_pasted() {
    for finding in examine(&asked(1)) {
        let Some(command) = finding.mend().or(finding.look()).or(finding.better()) else {
            continue;
        };
        let read = Command::new("sh").args(["-n", "-c", command]).output().unwrap();
        let said = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success(), "{}: {command}: {said}", finding.check);
    }
}

#[test]
fn root_is_spared_the_sudo() {
    let mut finding = Finding::of(Verdict::Warns, "x", "y", "z").mended_by("sudo a && sudo b");
    as_root(&mut finding);
    assert_eq!(finding.mend(), Some("a && b"));
}
