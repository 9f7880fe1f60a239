//! Parses network counters (proc_pid_net(5)).

use std::collections::BTreeMap;

use super::TrafficInterface;

/// `/proc/net/dev`: two header lines; name and sixteen numbers, eight received first.
pub(super) fn interfaces(text: &str) -> BTreeMap<String, TrafficInterface> {
    let each = text.lines().filter_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Result<Vec<u64>, _> = numbers.split_whitespace().map(str::parse).collect();
        let numbers = numbers.ok()?;
        let way = |at: usize| Some([*numbers.get(at)?, *numbers.get(at + 1)?]);
        Some((
            name.trim().to_owned(),
            TrafficInterface { mtu: 0, received: way(0)?, sent: way(8)? },
        ))
    });
    each.collect()
}

/// `/proc/net/snmp` and `netstat`: a line of names, one of numbers, after the protocol.
pub(super) fn protocols(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<_> = text.lines().filter_map(|line| line.split_once(':')).collect();
    let mut all = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let [(protocol, names), (other, numbers)] = pair else { continue };
        if protocol != other {
            continue;
        }
        for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()) {
            if let Ok(number) = number.parse() {
                all.insert(format!("{protocol}{name}"), number);
            }
        }
    }
    all
}

/// `/proc/net/snmp6`: name and number per line.
pub(super) fn protocols_v6(text: &str) -> BTreeMap<String, u64> {
    let each = text.lines().filter_map(|line| {
        let (name, number) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_with_their_traffic() {
        let text = "Inter-|   Receive            |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n\
                 lo: 10 2 0 0 0 0 0 0 30 4 0 0 0 0 0 0\n\
             eth0:12345 6 0 7 0 0 0 8 99 10 0 11 0 0 0 0\n\
             torn: 1 2 3\n";
        let read = interfaces(text);
        assert_eq!(read.len(), 2, "{read:?}");
        assert_eq!(read["lo"], TrafficInterface { mtu: 0, received: [10, 2], sent: [30, 4] });
        assert_eq!(
            read["eth0"],
            TrafficInterface { mtu: 0, received: [12_345, 6], sent: [99, 10] }
        );
    }

    #[test]
    fn protocols_are_read_by_the_names_above_their_numbers() {
        let text = "Tcp: RtoMax MaxConn InSegs\nTcp: 120000 -1 77\n\
                    Udp: InDatagrams NoPorts\nUdp: 5 6\nUdp: torn\n";
        let read = protocols(text);
        assert_eq!(read.get("TcpInSegs"), Some(&77));
        assert_eq!(read.get("TcpMaxConn"), None);
        assert_eq!((read["UdpInDatagrams"], read["UdpNoPorts"]), (5, 6));
        assert_eq!(protocols("nonsense\n"), BTreeMap::new());
        let v6 = protocols_v6("Udp6InDatagrams                 \t27453\nnonsense\nIp6 x\n");
        assert_eq!(v6, [("Udp6InDatagrams".to_owned(), 27_453)].into());
    }
}
