//! Texts without options or keys, equal in every program.

use tautline_proto::crf_follower::{CrfLack, CrfNote};
use tautline_proto::wire::avtp::crf::CrfInvalid;

use super::Note;

/// Text equal in every program.
pub fn alike(note: &Note<'_>) -> Option<String> {
    match note {
        Note::Clock { address, note } => Some(clock(address, note)),
        Note::AddressTaken { address, by } => Some(format!(
            "{address}: {by} has claimed this address too and takes precedence; nothing is sent until another address \
             is claimed, which takes two seconds"
        )),
        Note::AddressMoved { from, to } => Some(format!(
            "{from}: claimed another group via MAAP, the stream goes to {to} now; point its receivers there"
        )),
        _ => None,
    }
}

/// Text of a claimed address.
pub fn claimed(without: &str, address: &str) -> String {
    format!("{without}: claimed a group via MAAP, the stream goes to {address}")
}

fn clock(address: &str, note: &CrfNote) -> String {
    match note {
        CrfNote::NotReceived(lack) => format!(
            "{address}: no clock packets received yet, so rates are measured from the streams' own packets; {}",
            missing(*lack)
        ),
        CrfNote::Received => format!("{address}: clock packets are received now"),
        CrfNote::Held(false) => format!(
            "{address}: the followed clock is silent; its last rate is held and gets less certain each second: is its \
             talker running and reachable?"
        ),
        CrfNote::Held(true) => format!(
            "{address}: the times of the followed clock are unreliable (tu, or inconsistent); its last rate is held and \
             gets less certain each second: have the talker synchronise its clock by PTP"
        ),
        CrfNote::Back => format!("{address}: clock packets are received again"),
    }
}

fn missing(lack: CrfLack) -> String {
    match lack {
        CrfLack::Nothing => "is its talker running and sending there?".to_owned(),
        CrfLack::Uncertain => "its talker marks its times as uncertain (tu): have the talker synchronise its clock by \
                               PTP"
            .to_owned(),
        CrfLack::Invalid(CrfInvalid::OtherStream) => {
            "packets of another stream arrive: name it with ?streamid=, or leave that out".to_owned()
        }
        CrfLack::Invalid(CrfInvalid::Subtype) => {
            "packets arrive that are not CRF: name the address of the clock, not of the audio".to_owned()
        }
        CrfLack::Invalid(CrfInvalid::Frequency | CrfInvalid::Pull) => {
            "the clock's frequency is not a multiple or fraction of the streams' rate: have the talker use such a \
             frequency"
                .to_owned()
        }
        CrfLack::Invalid(CrfInvalid::Type) => {
            "the clock does not count audio samples: have the talker send AUDIO_SAMPLE".to_owned()
        }
        CrfLack::Invalid(other) => {
            let reason = CrfInvalid::NAMES[other.index()];
            format!("invalid CRF packets arrive ({reason}): does the talker work correctly?")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_notes_name_the_clock_and_end_with_the_fix() {
        let address = "avtp://eth0/91:E0:F0:00:FE:08";
        let lacks = CrfInvalid::ALL.map(CrfLack::Invalid);
        let lacks = lacks.into_iter().chain([CrfLack::Nothing, CrfLack::Uncertain]);
        let held = [false, true].map(CrfNote::Held);
        let failed: Vec<_> = lacks.map(CrfNote::NotReceived).chain(held).collect();
        for note in failed {
            let reported = clock(address, &note);
            assert!(reported.starts_with(&format!("{address}: ")), "{reported}");
            let hint = reported.rsplit([';', ':']).next().unwrap();
            let hints = ["?", "have the talker", "name"];
            assert!(hints.iter().any(|word| hint.contains(word)), "{reported}");
        }
        let received = [CrfNote::Received, CrfNote::Back].map(|note| clock(address, &note));
        assert!(received.iter().all(|reported| reported.contains("are received")), "{received:?}");
        assert_ne!(received[0], received[1], "the second note differs from the first");
    }
}
