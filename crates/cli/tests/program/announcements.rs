//! Announcements of a building: chime, queue, speech, end.

use serde_json::Value;

use crate::building::{Building, card_process, end, near, results};
use crate::calls_of_several::level;
use crate::common::program::call;
use crate::common::sound::Sound;
use crate::common::{grows, shared, until};

const ALARM: f64 = 1000.0;
/// Frames of the chime `two-tone` at 48 kHz.
const CHIME: usize = 64_800;

fn result(zone: &str, result: &str) -> (String, String) {
    (zone.to_owned(), result.to_owned())
}

#[test]
fn chime_precedes_the_message_in_its_stream() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let line = "play gym alarm --chime two-tone --record sent.wav --report json";
        let played = building.right(line).run().well();
        assert_eq!(results(&played.out), [result("gym", "played")]);
        let sent = Sound::read(&building.folder.file("sent.wav"));
        let alarm = Sound::read(&building.folder.file("alarm.wav"));
        let (chime, message) = sent.samples.split_at(2 * CHIME);
        assert!(message == alarm.samples, "{} samples", message.len());
        assert!(level(&chime[..43_200], 659.26) > -40.0);
        assert!(level(&chime[43_200..], 523.25) > -40.0);
        let again = building.right(line).run();
        assert_eq!(again.status, Some(3), "{again:#?}");
        end(nodes);
    });
}

#[test]
fn page_is_independent_of_the_volume_of_the_music() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        building.right("zone gym volume -40dB").run().well();
        building.right("zone gym page-volume -10dB").run().well();
        let louder = building.right("zone gym page-volume 1dB").run();
        assert_eq!(louder.status, Some(1), "{louder:#?}");
        call("kill", ["-KILL", &card_process(&nodes[1]).unwrap()]).run().well();
        until("the zone does not fail", || building.zone("gym")["state"] == "failed");
        until("the zone does not return", || building.zone("gym")["state"] == "playing");
        assert_eq!(building.zone("gym")["page_volume"], "-10dB");
        grows(&building.folder.file("right.wav"), 1000);
        building.right("play gym page.wav").run().well();
        let played = building.zone("gym")["announcements"][0].clone();
        let (station, priority) = (&played["station"], &played["priority"]);
        assert_eq!((station, priority), (&"desk".into(), &100.into()), "{played}");
        assert_eq!(played["targets"], serde_json::json!(["gym"]));
        assert_eq!(building.zone("hall")["announcements"], serde_json::json!([]));
        building.right("zone gym page-volume 0dB").run().well();
        building.right("play gym alarm").run().well();
        building.right("zone gym mute").run().well();
        let muted = building.right("play gym alarm --report json").run();
        assert_eq!(muted.status, Some(1), "{muted:#?}");
        assert_eq!(results(&muted.out), [result("gym", "muted")]);
        grows(&building.folder.file("right.wav"), 500);
        end(nodes);
        let levels = building.levels("right.wav", 0, [440.0, ALARM]);
        let tenths = |expected| levels.iter().filter(|[_, page]| near(*page, expected)).count();
        assert!((18..=20).contains(&tenths(-22.0)), "{levels:.1?}");
        assert!((8..=10).contains(&tenths(-12.0)), "{levels:.1?}");
        assert!(levels.iter().filter(|[music, _]| near(*music, -52.0)).count() > 5, "{levels:.1?}");
    });
}

#[test]
fn speaker_is_called_and_ends_by_silence() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let line = "page hall,gym --input null: --end-after 2s --chime one-tone --report json";
        let page = building.right(line).listened_to().start().wait_for("ready: speak");
        let page = page.end().well();
        assert_eq!(results(&page.out), [result("gym", "played"), result("hall", "played")]);
        end(nodes);
    });
}

#[test]
fn stopped_announcement_ends_in_its_zones_and_then_at_its_station() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let line = "page hall,gym --input tone:3000 --report json";
        let page = building.right(line).listened_to().start().wait_for("on air in 2 of 2 zones");
        let nothing = building.left("stop bar").run();
        assert_eq!(nothing.status, Some(1), "{nothing:#?}");
        building.left("stop gym").run().well();
        until("the page plays on", || building.zone("gym")["announcement"].is_null());
        let hall = building.zone("hall");
        let id = hall["announcement"].as_str().unwrap_or_else(|| panic!("{hall}")).to_owned();
        building.left("stop").and([id]).run().well();
        let page = page.end();
        assert_eq!(page.status, Some(1), "{page:#?}");
        assert_eq!(results(&page.out), [result("gym", "stopped"), result("hall", "stopped")]);
        end(nodes);
    });
}

#[test]
fn repeated_message_plays_until_it_is_ended() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let line = "play gym alarm --repeat --chime two-tone --report json";
        let alarm = building.right(line).listened_to().start().wait_for("on air in 1 of 1 zones");
        // The chime has 1.35 s, the message 1 s.
        grows(&building.folder.file("right.wav"), 5000);
        alarm.signal("-INT");
        assert_eq!(results(&alarm.end().well().out), [result("gym", "played")]);
        let line = "play gym alarm --repeat --duration 2500ms --report json";
        let limited = building.right(line).run().well();
        assert_eq!(results(&limited.out), [result("gym", "played")]);
        end(nodes);
        let levels = building.levels("right.wav", 0, [659.26, ALARM]);
        let chimes = levels.iter().filter(|[chime, _]| *chime > -40.0).count();
        assert!((5..=13).contains(&chimes), "the chime alone is not repeated: {levels:.1?}");
        let sounds: Vec<bool> = levels.iter().map(|[_, alarm]| near(*alarm, -12.0)).collect();
        let lengths = sounds.chunk_by(|one, other| one == other).filter(|part| part[0]);
        let lengths: Vec<usize> = lengths.map(<[bool]>::len).collect();
        let is_as_long = matches!(lengths[..], [first, 22..=26] if first >= 25);
        assert!(is_as_long, "{lengths:?}");
    });
}

#[test]
fn queued_message_plays_once_the_zones_are_free() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let fire = building.left("page gym --station fire --input tone:3000 --report json");
        let fire = fire.listened_to().start().wait_for("on air in 1 of 1 zones");
        let late = building.right("play hall,gym alarm --queue 500ms --report json").run();
        assert_eq!((late.status, &*late.out), (Some(1), ""), "{late:#?}");
        let queued = building.right("play hall,gym alarm --queue 60s --report json");
        let queued = queued.listened_to().start().wait_for("waiting until");
        fire.signal("-INT");
        fire.end().well();
        let queued = queued.end().well();
        assert_eq!(results(&queued.out), [result("gym", "played"), result("hall", "played")]);
        for (zone, count) in [("gym", 2), ("hall", 1)] {
            let all: Value = building.zone(zone)["announcements"].clone();
            assert_eq!(all.as_array().unwrap().len(), count, "{zone}: {all}");
        }
        end(nodes);
    });
}

#[test]
fn speech_of_another_program_is_announced() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let say = building.right("say gym --report json --record sent.wav");
        let said = say.and(["closing", "--command", "cat alarm.wav"]).run().well();
        assert_eq!(results(&said.out), [result("gym", "played")]);
        let sent = Sound::read(&building.folder.file("sent.wav"));
        assert!(level(&sent.samples[..9600], ALARM) > -20.0);
        let failed = building.right("say gym").and(["closing", "--command", "exit 7"]).run();
        assert_eq!(failed.status, Some(1), "{failed:#?}");
        end(nodes);
    });
}
