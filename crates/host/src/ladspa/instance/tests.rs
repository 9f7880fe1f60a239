use tautline_trial::snapshot;

use std::path::Path;

use tautline_trial::{Lack, skipped};

use super::*;
use crate::ladspa::library::LoadError;

fn library(file: &str) -> Option<Arc<PluginLibrary>> {
    let path = Path::new("/usr/lib/ladspa").join(file);
    match PluginLibrary::load(&path) {
        Ok(library) => Some(Arc::new(library)),
        Err(error) => {
            skipped(Lack::Package, &error.to_string());
            None
        }
    }
}

#[test]
fn a_plugin_runs_on_blocks_of_any_length() {
    let Some(library) = library("amp.so") else { return };
    let mut amp = PluginInstance::new(&library, "amp_stereo", 48_000, 64).unwrap();
    assert_eq!(
        (amp.inputs(), amp.outputs(), amp.controls(), amp.reported_controls()),
        (2, 2, 1, 0)
    );
    assert_eq!(amp.control(0), 1.0, "its default");
    amp.set_control(0, 0.5);
    for frames in [64, 1, 17, 64, 0] {
        for channel in 0..2 {
            amp.input_mut(channel).fill(channel as f32 + 1.0);
        }
        amp.run(frames);
        for channel in 0..2 {
            let received = &amp.output(channel)[..frames];
            assert!(
                received.iter().all(|sample| *sample == 0.5 * (channel as f32 + 1.0)),
                "{received:?}"
            );
        }
    }
    amp.run(65);
}

#[test]
fn activation_clears_earlier_input() {
    let Some(library) = library("delay.so") else { return };
    let mut delay = PluginInstance::new(&library, "delay_5s", 8000, 80).unwrap();
    delay.set_control(0, 0.01);
    delay.set_control(1, 1.0);
    let received = |delay: &mut PluginInstance, sample: f32| {
        delay.input_mut(0).fill(sample);
        delay.run(80);
        delay.output(0).to_vec()
    };
    delay.activate();
    assert!(received(&mut delay, 1.0).iter().all(|sample| *sample == 0.0));
    assert!(received(&mut delay, 1.0).iter().all(|sample| *sample == 1.0));
    delay.activate();
    assert!(received(&mut delay, 0.5).iter().all(|sample| *sample == 0.0));
}

#[test]
fn a_plugin_that_is_not_there_is_named() {
    let Some(library) = library("amp.so") else { return };
    let sentence = PluginInstance::new(&library, "ampere", 48_000, 64).unwrap_err().to_string();
    snapshot!(sentence);
}

#[test]
fn non_plugin_library_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "not ELF").unwrap();
    let answer = match PluginLibrary::load(&text) {
        Err(LoadError::Load { answer, .. }) => answer,
        other => panic!("{other:?}"),
    };
    snapshot!(answer);
    let other = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6"];
    let Some(other) = other.iter().map(Path::new).find(|path| path.exists()) else { return };
    let sentence = PluginLibrary::load(other).unwrap_err().to_string();
    assert!(sentence.contains("no function ladspa_descriptor"), "{sentence}");
}
