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

/// Five packets: launched 7 ns after hand-over and resampled, without a clock, late, lost,
/// discarded by an underrun. The receiver's clock is 1000 ns ahead.
fn joined() -> JoinedLedgers {
    let sent = "rtp_timestamp,capture,taken,packed,due,handed,launched,left,unlaunched\n\
                1,100,110,130,131,135,142,,0\n2,200,210,230,231,235,235,,0\n3,300,310,330,331,335,335,,0\n\
                4,400,410,430,431,435,435,,0\n5,500,510,530,531,535,535,,0";
    let received = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,measured_ns,\
                 stream,late,resample_ns,launched\n\
                 1,1100,1110,1130,1135,1200,1210,1300,1310,1400,301,0,0,20,1142\n\
                 2,,,,,1300,1310,1400,1410,1500,,0,0,0,\n\
                 3,1300,1310,1330,1335,1900,1910,1910,1910,1600,,0,1,0,1335\n\
                 5,1500,1510,1530,1535,1600,,,,,,0,0,0,1535";
    join(&packets(sent), &packets(received))
}

#[test]
fn stages_add_up_to_capture_to_dac() {
    let joined = joined();
    let head: Vec<&str> = joined.lines[0].split(',').collect();
    let cell = |line: usize, name: &str| {
        let at = head.iter().position(|column| *column == name).unwrap();
        joined.lines[line].split(',').nth(at).unwrap().parse::<i64>().ok()
    };
    let stages = &head[1..head.iter().position(|column| *column == "total_ns").unwrap()];
    assert_eq!(stages.len(), 10);
    for (line, total) in [(1, 300), (3, 300)] {
        let sum: i64 = stages.iter().map(|name| cell(line, name).unwrap()).sum();
        assert_eq!((sum, cell(line, "total_ns")), (total, Some(total)), "{}", joined.lines[line]);
    }
    let (launch, resample, device) =
        (cell(1, "launch_ns"), cell(1, "resample_ns"), cell(1, "device_ns"));
    assert_eq!((launch, resample, device), (Some(7), Some(20), Some(70)));
    assert_eq!((cell(2, "wire_ns"), cell(2, "total_ns")), (None, None), "its clock is unknown");
    assert_eq!((cell(1, "measured_ns"), cell(1, "lateness_ns")), (Some(301), Some(4)));
    assert_eq!((cell(1, "late"), cell(3, "late")), (Some(0), Some(1)));
}

#[test]
fn joined_packets_are_counted_by_their_end() {
    snapshot!(joined().counted);
}
