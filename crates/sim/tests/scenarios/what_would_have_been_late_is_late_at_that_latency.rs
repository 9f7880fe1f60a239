//! Under test: the curve of loss against latency that every receiver reports. A run at an ample
//! latency says what would have been late at others; runs at those lose that, less what the phase
//! between packets and periods spares.

use tautline_proto::time::Span;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn what_would_have_been_late_is_late_at_that_latency() {
    let (seed, span) = (16, Span::from_secs(120));
    let at = |millis| {
        let mut scenario = Scenario::on(Preset::Wifi5Ghz, seed);
        scenario.latency = Span::from_millis(millis);
        play(scenario, span).remove(0)
    };
    let ample = at(40);
    assert_eq!(ample.counters.late, 0, "wifi-5ghz, seed {seed}: {ample}");
    let said = |millis| {
        let point = ample.curve.iter().find(|point| point.latency == Span::from_millis(millis));
        point.unwrap().late
    };
    for millis in [5, 6, 8, 11] {
        let heard = at(millis);
        let told = format!("{millis} ms, wifi-5ghz, seed {seed}: {heard}");
        let late = heard.counters.late;
        // Of what happens so seldom, chance has some; clocks are known to half a millisecond there.
        let (least, most) = (said(millis + 2) / 2, said(millis) * 3 / 2 + 20);
        assert!((least..=most).contains(&late), "said {}, {least} to {most}; {told}", said(millis));
    }
    let advised = ample.advised.unwrap();
    let mut scenario = Scenario::on(Preset::Wifi5Ghz, seed);
    scenario.latency = advised;
    let late = play(scenario, span).remove(0).counters.late;
    assert!(late <= 12, "at {advised}, wifi-5ghz, seed {seed}: {late} of 120 000");
}
