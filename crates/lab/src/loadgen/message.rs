//! Announcements like multicast DNS (RFC 6762), for a reader to parse.

const HEAD: usize = 12;
/// Authoritative response (RFC 6762 §18).
const RESPONSE: u16 = 0x8400;
/// PTR record (RFC 1035 §3.3.12), class IN.
const POINTER: [u8; 4] = [0, 12, 0, 1];
/// TTL in seconds (RFC 6762 §10).
const LIVES: u32 = 4500;
/// Maximum label length (RFC 1035 §2.3.4).
const LONGEST_LABEL: u8 = 63;

/// Like the thesis's small packets.
pub(super) const LENGTHS: core::ops::RangeInclusive<usize> = 60..=300;

pub(super) fn write(random: &mut fastrand::Rng) -> Vec<u8> {
    let wanted = random.usize(LENGTHS);
    let mut message = vec![0; HEAD];
    let mut records: u16 = 0;
    while records == 0 || message.len() < wanted {
        let mut record = name(random, &["_tcp", "local"]);
        record.extend(POINTER);
        record.extend(LIVES.to_be_bytes());
        let data = name(random, &[]);
        record.extend((data.len() as u16).to_be_bytes());
        record.extend(data);
        if message.len() + record.len() > *LENGTHS.end() {
            break;
        }
        message.extend(record);
        records += 1;
    }
    message[2..4].copy_from_slice(&RESPONSE.to_be_bytes());
    message[6..8].copy_from_slice(&records.to_be_bytes());
    message
}

fn name(random: &mut fastrand::Rng, rest: &[&str]) -> Vec<u8> {
    let length = random.u8(22..=40);
    let mut name = vec![length];
    name.extend((0..length).map(|_| random.lowercase() as u8));
    for label in rest {
        name.push(label.len() as u8);
        name.extend(label.bytes());
    }
    name.push(0);
    name
}

/// Number of records; `None` for other or truncated messages.
pub(super) fn read(message: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let records = (word(2)? == RESPONSE).then(|| word(6))??;
    let mut at = HEAD;
    for _ in 0..records {
        at = after_name(message, at)?;
        (message.get(at..at + 4)? == POINTER).then_some(())?;
        let data = at + 10;
        let length = usize::from(word(at + 8)?);
        (after_name(message, data)? == data + length).then_some(())?;
        at = data + length;
    }
    (at == message.len()).then_some(records)
}

fn after_name(message: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            // Compression pointers are not written here.
            length if length > LONGEST_LABEL => return None,
            length => at += 1 + usize::from(length),
        }
    }
}
