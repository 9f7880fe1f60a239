//! A talker restarts repeatedly within the latency. Each run plays to its end.

use super::*;

#[test]
fn runs_within_the_latency_play_fully_at_their_own_times() {
    let part = |parts: i64| RATE.span_of(Frames::new(1)).times(parts).divided(16);
    for (restarts, aside) in [1, 2, 3, 4].into_iter().flat_map(|r| [1, 5, 9, 13].map(|a| (r, a))) {
        let mut road = Road::over(Encapsulation::Ethernet, SampleFormat::L16);
        road.aside = part(aside);
        let mut runs = Vec::new();
        for run in 0..=restarts {
            if run > 0 {
                road.pause(2, true);
            }
            road.within = part(run * 6 % 16);
            let begins = road.blocks * PERIOD.count() + road.alongside;
            let periods = if (1..restarts).contains(&run) { 2 } else { 500 };
            road.play(periods, |_, _| true);
            runs.push((begins..begins + periods * PERIOD.count(), road.within));
        }
        let reported = format!("{restarts} restarts, {aside}/16 aside");
        for (run, (frames, within)) in runs.iter().enumerate() {
            // First packet on probation, then 1 ms of fade-in.
            let begins = if run > 0 { frames.start + 6 + 48 } else { frames.start };
            let last = run as i64 == restarts;
            let ends =
                if last { frames.end - RATE.frames_within(LATENCY).count() } else { frames.end };
            let off = if (restarts, run) == (4, 3) { part(16) } else { part(8) };
            for frame in begins..ends {
                let due = START + LATENCY + RATE.span_of(Frames::new(frame)) + *within;
                assert!(
                    is_received(&road, frame, due, off),
                    "{reported}, {frame} of run {run}, at {due:?}"
                );
            }
        }
        let counters = *road.receiver.counters();
        let counted = (counters.lost, counters.late, counters.resyncs, counters.on_probation);
        // Beyond the limit, the last runs share a line.
        let resyncs = restarts.min(3) as u64;
        assert_eq!(counted, (0, 0, resyncs, restarts as u64), "{reported}: {counters:?}");
    }
}

fn is_received(road: &Road, frame: i64, due: LocalTime, off: Span) -> bool {
    let nearest = RATE.frames_nearest(due - road.received[0].0).count() as usize;
    let mut near = road.received[nearest.saturating_sub(1)..].iter().take(3);
    near.any(|(at, received)| {
        *received == Some(frame.rem_euclid(30_000)) && (*at - due).abs() <= off
    })
}
