//! Cards with different rates: the simulator's servo results, on real sockets.

use crate::common::host::{mostly, timed};
use crate::common::lab::Lab;
use crate::common::program::{taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, PATIENT, shared};

const CARDS: &str = "--period 48 --periods 24 --latency 60ms";

#[test]
fn cards_too_far_apart_have_no_drift() {
    shared(|| {
        let lab = Lab::straight();
        let recv = lab.recv_to("virtual:?ppm=3000", CARDS);
        // The note comes after 10 s: the rates must be certain for 5 s.
        lab.send(&format!("--input tone:997 --duration 16s {CARDS}")).end().well();
        let received = recv.end().report();
        let reported = received.notes().iter().filter(|note| note.contains("600 ppm")).count();
        assert_eq!(reported, 1, "{:#}", received.0);
        assert!(received.stream("/drift_ppm").is_null(), "{:#}", received.0);
        assert!(received.count("resyncs") > 1, "{:#}", received.0);
    });
}

mod exclusive {
    use super::*;

    #[test]
    fn drifting_card_plays_every_frame() {
        timed(|| {
            let folder = Folder::new();
            Sound::noise(Shape::STEREO_24, 6000, 5).quieter().write(&folder.file("sent.wav"));
            let file = |name: &str| folder.file(name).display().to_string();
            let (lab, patient) = (Lab::straight(), PATIENT.join(" "));
            // A receiver that learns the format may miss the first packets.
            let reported = format!("{patient} --rate 48000 --channels 2");
            let recv =
                lab.recv_to(&format!("virtual:?ppm=100&record={}", file("heard.wav")), &reported);
            lab.send(&format!("--input file:{} {patient}", file("sent.wav"))).end().well();
            let received = recv.end().report();
            let drift = received.stream("/drift_ppm").as_f64().unwrap();
            mostly(|| assert!((drift - 100.0).abs() < 20.0, "{drift}: {:#}", received.0));
            let compare = words("compare sent.wav heard.wav");
            let ended = taut(compare).in_folder(folder.path()).run().well();
            assert!(ended.out.contains("complete: 288017 frames"), "{ended:#?}");
            assert!(ended.out.contains(" ppm slower"), "{ended:#?}");
        });
    }
}
