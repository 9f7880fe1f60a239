use tautline_trial::snapshot;

use super::*;

const SENT: &str = "rtp_timestamp,capture,taken,packed,due,handed\n\
    4294967280,1000,2000,2100,1000,2200\n\
    32,1000,3000,3100,2000,3200\n\
    80,1000,4000,4";

const HEARD: &str = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,measured_ns,stream,late,resample_ns\n\
    4294967280,1000,2000,2100,2200,2300,2400,3000,3100,5000,5000,0,0,0\n\
    32,,,,3200,3300,3400,,,,,0,1,0\n";

#[test]
fn packet_log_is_read_by_its_header_without_a_torn_line() {
    let sent = packets::<SentPacket>(SENT);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].timestamp, 32);
    let received = packets::<ReceivedPacket>(HEARD);
    assert_eq!(received[0].measured, Some(5000));
    assert_eq!(received[1].sender, [None, None, None, Some(3200), Some(3200)]);
    assert!(received[1].late && !received[0].late);
    assert_eq!(packets::<ReceivedPacket>("nonsense\n1\n"), []);
    assert_eq!(packets::<ReceivedPacket>(""), []);
}

#[test]
fn omitted_packet_log_lines_are_reported() {
    let read = |text: &'static str, maximum| {
        LedgerLines::of(text.as_bytes()).unwrap().packets::<SentPacket>(maximum)
    };
    let whole = read(SENT, 10).unwrap();
    assert_eq!((whole.torn, whole.more), (Some(4), false));
    let cut = read(SENT, 1).unwrap();
    assert_eq!((cut.packets.len(), cut.torn, cut.more), (1, None, true));
    let other = read(HEARD, 10).unwrap_err().to_string();
    snapshot!(other);
}

#[test]
fn sender_knows_the_first_stages_and_omits_unknown_ones() {
    let sent = packets::<SentPacket>(SENT)[0];
    let all: Vec<_> = lengths(&sent.instants()).collect();
    assert_eq!(all, [("capture", 1000), ("pack", 100), ("send", 100)]);
    let received = packets::<ReceivedPacket>(HEARD)[1];
    let all: Vec<_> = lengths(&received.instants()).collect();
    assert_eq!(all, [("wire", 100), ("wakeup", 100)]);
    assert_eq!(longest(all.into_iter()).unwrap(), "wire 100ns, wakeup 100ns");
    assert_eq!(longest(core::iter::empty()), None);
}

#[test]
fn the_way_of_a_packet_that_is_launched_begins_with_its_launch() {
    let launched = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,launched\n\
        0,1000,2000,2100,2200,2900,2700\n";
    let received = packets::<ReceivedPacket>(launched)[0];
    let all: Vec<_> = lengths(&received.instants()).collect();
    assert_eq!(
        all,
        [("capture", 1000), ("pack", 100), ("send", 100), ("launch", 500), ("wire", 200)]
    );
}

/// Seven packets: before the log; launched 7 ns after hand-over and resampled; without a clock;
/// late; missing in the log; discarded by an underrun; dropped by the queue. The receiver's clock is 1000 ns
/// ahead. The late packet was read before its time at the DAC.
fn joined() -> JoinedLedgers {
    let sent = "rtp_timestamp,capture,taken,packed,due,handed,launched,left,dropped_by_queue\n\
                0,0,10,30,31,35,35,,0\n\
                1,100,110,130,131,135,142,,0\n2,200,210,230,231,235,235,,0\n3,300,310,330,331,335,335,,0\n\
                4,400,410,430,431,435,435,,0\n5,500,510,530,531,535,535,,0\n6,600,610,630,631,635,700,,1\n";
    let received = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,measured_ns,\
                 stream,late,resample_ns,launched\n\
                 1,1100,1110,1130,1135,1200,1210,1300,1310,1400,301,0,0,20,1142\n\
                 2,,,,,1300,1310,1400,1410,1500,,0,0,0,\n\
                 3,1300,1310,1330,1335,1900,1910,1910,1910,1960,,0,1,0,1335\n\
                 5,1500,1510,1530,1535,1600,1610,,,,,0,0,0,1535";
    join(&packets(sent), &packets(received))
}

fn cell<'a>(joined: &'a JoinedLedgers, line: usize, name: &str) -> &'a str {
    let at = joined.lines[0].split(',').position(|column| column == name).unwrap();
    joined.lines[line].split(',').nth(at).unwrap()
}

#[test]
fn stages_add_up_to_capture_to_dac() {
    let joined = joined();
    let number = |line: usize, name: &str| cell(&joined, line, name).parse::<i64>().ok();
    let stages = joined.lines[0].split(',').skip_while(|name| *name != "capture_ns").take(10);
    let sum: i64 = stages.map(|name| number(2, name).unwrap()).sum();
    assert_eq!((sum, number(2, "total_ns")), (300, Some(300)), "{}", joined.lines[2]);
    let (launch, resample, device) =
        (number(2, "launch_ns"), number(2, "resample_ns"), number(2, "device_ns"));
    assert_eq!((launch, resample, device), (Some(7), Some(20), Some(70)));
    assert_eq!((number(3, "wire_ns"), number(3, "total_ns")), (None, None), "its clock is unknown");
    assert_eq!((number(2, "measured_ns"), number(2, "lateness_ns")), (Some(301), Some(4)));
}

#[test]
fn packets_that_were_not_played_have_no_time_at_the_dac() {
    let joined = joined();
    assert_eq!(joined.lines.len(), 8);
    let known =
        |line: usize, names: [&str; 5]| names.map(|name| !cell(&joined, line, name).is_empty());
    let names = ["send_ns", "wakeup_ns", "buffer_ns", "device_ns", "total_ns"];
    for (line, outcome, stages) in [
        (1, "unlogged", [true, false, false, false, false]),
        (2, "played", [true; 5]),
        (4, "late", [true, true, false, false, false]),
        (5, "missing", [true, false, false, false, false]),
        (6, "underrun", [true, true, false, false, false]),
        (7, "dropped", [true, false, false, false, false]),
    ] {
        assert_eq!((cell(&joined, line, "outcome"), known(line, names)), (outcome, stages));
    }
    assert_eq!(cell(&joined, 7, "time_s"), "0.000001");
    assert_eq!(joined.matched, 4);
}

#[test]
fn joined_packets_are_counted_by_their_outcome() {
    snapshot!(joined().counted);
}
