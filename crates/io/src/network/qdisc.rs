//! Queue disciplines (rtnetlink(7)).

use std::io;

use tautline_proto::time::Span;

use crate::network::netlink::{attribute, each, number, request};

/// A queue discipline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDiscipline {
    /// Index of its interface.
    pub interface: u32,
    /// As in `tc`, such as `fq_codel`.
    pub kind: String,
    /// Where packets enter it.
    pub place: QdiscPlace,
    /// Settings, if it is an `etf`.
    pub etf: Option<EtfSettings>,
}

/// Settings of an `etf` (tc-etf(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtfSettings {
    /// Lead before the launch time at which a packet is dequeued. Later packets are dropped.
    pub delta: Span,
    /// Whether launch times are in TAI.
    pub by_tai: bool,
    /// Whether the card launches packets itself.
    pub offload: bool,
    /// Whether launch times are deadlines: packets may leave earlier.
    pub deadlines: bool,
}

/// Position of a queue discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QdiscPlace {
    /// Packets enter from the protocols.
    Root,
    /// Packets enter from a parent.
    Below,
    /// Packets enter from the wire.
    Ingress,
}

/// `struct tcmsg`: family, padding, interface, handle, parent, information.
const QUEUE: usize = 20;
const ROOT: u32 = 0xffff_ffff;
const INGRESS: u32 = 0xffff_fff1;
/// `TCA_KIND` and `TCA_OPTIONS` (linux/rtnetlink.h).
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// `TCA_ETF_PARMS` (linux/pkt_sched.h): `struct tc_etf_qopt`.
const ETF: u16 = 1;
const DEADLINES: u32 = 1 << 0;
const OFFLOAD: u32 = 1 << 1;

/// Queue disciplines of all interfaces in this network namespace.
pub fn queue_disciplines() -> io::Result<Vec<QueueDiscipline>> {
    let mut found = Vec::new();
    request(libc::RTM_GETQDISC, libc::NLM_F_DUMP, &[0; QUEUE], |answer| read(answer, &mut found))?;
    Ok(found)
}

/// Parses an answer; `true` after the last. Skips malformed parts.
pub fn read(answer: &[u8], found: &mut Vec<QueueDiscipline>) -> io::Result<bool> {
    each(answer, |kind, body| {
        if kind == libc::RTM_NEWQDISC {
            found.extend(queue(body));
        }
    })
}

fn queue(message: &[u8]) -> Option<QueueDiscipline> {
    let place = match number(message, 12)? {
        ROOT => QdiscPlace::Root,
        INGRESS => QdiscPlace::Ingress,
        _ => QdiscPlace::Below,
    };
    let attributes = message.get(QUEUE..)?;
    let text = attribute(attributes, KIND)?.split(|byte| *byte == 0).next()?;
    let kind = String::from_utf8_lossy(text).into_owned();
    let options = attribute(attributes, OPTIONS).filter(|_| kind == "etf");
    let etf = options.and_then(|options| etf(attribute(options, ETF)?));
    Some(QueueDiscipline { interface: number(message, 4)?, kind, place, etf })
}

fn etf(settings: &[u8]) -> Option<EtfSettings> {
    let [delta, clock, flags] = [number(settings, 0)?, number(settings, 4)?, number(settings, 8)?];
    Some(EtfSettings {
        delta: Span::from_nanos(delta.cast_signed().into()),
        by_tai: clock.cast_signed() == libc::CLOCK_TAI,
        offload: flags & OFFLOAD != 0,
        deadlines: flags & DEADLINES != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::netlink::HEADER;

    fn message(interface: u32, parent: u32, kind: &str) -> Vec<u8> {
        message_with(interface, parent, kind, &[])
    }

    fn message_with(interface: u32, parent: u32, kind: &str, settings: &[u8]) -> Vec<u8> {
        let text: Vec<u8> = kind.bytes().chain([0]).collect();
        let mut body = vec![0; 4];
        body.extend([interface, 0x8001_0000, parent, 2].iter().flat_map(|word| word.to_ne_bytes()));
        for (number, value) in [(11_u16, &[0; 1][..]), (KIND, &text), (OPTIONS, settings)] {
            body.extend((4 + value.len() as u16).to_ne_bytes());
            body.extend(number.to_ne_bytes());
            body.extend(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(libc::RTM_NEWQDISC.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(body);
        message
    }

    fn read_all(answer: &[u8]) -> Vec<QueueDiscipline> {
        let mut found = Vec::new();
        let _ = read(answer, &mut found);
        found
    }

    #[test]
    fn each_queue_is_read_with_its_interface_and_place() {
        let parts =
            [message(2, ROOT, "mq"), message(2, 0x0001_0001, "fq_codel"), message(3, INGRESS, "x")];
        let found = read_all(&parts.concat());
        let read: Vec<_> = found.iter().map(|q| (q.interface, q.kind.as_str(), q.place)).collect();
        let wanted = [
            (2, "mq", QdiscPlace::Root),
            (2, "fq_codel", QdiscPlace::Below),
            (3, "x", QdiscPlace::Ingress),
        ];
        assert_eq!(read, wanted);
    }

    #[test]
    fn the_settings_of_an_etf_are_read_from_its_own() {
        let numbers = |flags: u32| {
            let words = [16_u16.to_ne_bytes(), ETF.to_ne_bytes()].concat();
            let settings = [300_000, libc::CLOCK_TAI.cast_unsigned(), flags];
            [words, settings.iter().flat_map(|word| word.to_ne_bytes()).collect()].concat()
        };
        let read = |kind, settings: &[u8]| read_all(&message_with(2, ROOT, kind, settings))[0].etf;
        let delta = Span::from_micros(300);
        let plain = EtfSettings { delta, by_tai: true, offload: false, deadlines: false };
        assert_eq!(read("etf", &numbers(0)), Some(plain));
        assert_eq!(read("etf", &numbers(OFFLOAD)), Some(EtfSettings { offload: true, ..plain }));
        assert_eq!(read("etf", &[]), None);
        assert_eq!(read("fq", &numbers(0)), None);
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_no_panic() {
        let whole = [message(2, ROOT, "fq"), message(3, ROOT, "noqueue")].concat();
        for end in 0..=whole.len() {
            assert!(read_all(&whole[..end]).len() <= 2);
        }
        for at in 0..whole.len() {
            let mut odd = whole.clone();
            odd[at] = !odd[at];
            read_all(&odd);
        }
    }

    #[test]
    fn the_kernel_answers_for_the_loopback_interface() {
        let found = queue_disciplines().expect("everybody may ask");
        let lo = std::fs::read_to_string("/sys/class/net/lo/ifindex").expect("there always");
        let lo: u32 = lo.trim().parse().expect("a number");
        assert!(found.iter().any(|queue| queue.interface == lo), "{found:?}");
    }
}
