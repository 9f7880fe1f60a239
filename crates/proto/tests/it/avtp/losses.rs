use tautline_dsp::conceal::Concealer;

use super::*;

/// 1 ms.
const FADE: i64 = 48;

#[test]
fn lost_packets_affect_only_their_frames_and_a_fade() {
    assert_eq!(Concealer::new(1, RATE.hertz()).return_frames() as i64, FADE);
    // Times wrap at packet 160, numbers at every 256th.
    for (first, packets) in [(100, 1), (159, 1), (160, 1), (159, 3), (255, 1), (255, 2), (2000, 1)]
    {
        for encapsulation in [Encapsulation::Ethernet, Encapsulation::Udp] {
            let mut road = Road::over(encapsulation, SampleFormat::L16);
            road.play(400, |packet, _| !(first..first + packets).contains(&packet));
            let (reported, lost) = (format!("{packets} from {first}"), 6 * packets);
            let counters = *road.receiver.counters();
            assert_eq!((road.missing, road.concealed), (lost, lost), "{reported}");
            let counted = (counters.missing_frames as i64, counters.concealed_frames as i64);
            assert_eq!(counted, (lost, lost), "{reported}: {counters:?}");
            assert_eq!((counters.lost as i64, counters.resyncs), (packets, 0), "{reported}");
            let (hole, end) = (6 * first, 6 * first + lost);
            let not_received = road.not_received();
            let (concealed, faded) = not_received.split_at(not_received.len().min(lost as usize));
            assert_eq!(concealed, (hole..end).collect::<Vec<_>>(), "{reported}");
            assert!(
                faded.iter().all(|frame| (end..end + FADE).contains(frame)),
                "{reported}: {faded:?}"
            );
        }
    }
}
