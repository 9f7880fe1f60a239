//! Texts for notes whose fix needs no option or key: the same for every program.

use tautline_proto::crf_follower::{CrfLack, CrfNote};
use tautline_proto::wire::avtp::crf::CrfInvalid;

use super::Note;

/// Returns the text of a note that is the same for every program.
pub fn alike(note: &Note<'_>) -> Option<String> {
    match note {
        Note::Clock { address, note } => Some(clock(address, note)),
        Note::AddressTaken { address, by } => Some(format!(
            "{address}: {by} has claimed this address too and has more right to it, so that nothing is sent there any \
             more; another is claimed, which takes two seconds"
        )),
        Note::AddressMoved { from, to } => Some(format!(
            "{from}: claimed another group by MAAP, the stream goes to {to} from now on; let listeners listen there"
        )),
        _ => None,
    }
}

/// Returns the text for an address that was claimed for a stream without one.
pub fn claimed(without: &str, address: &str) -> String {
    format!("{without}: claimed a group by MAAP, the stream goes to {address}")
}

fn clock(address: &str, note: &CrfNote) -> String {
    match note {
        CrfNote::Unheard(lack) => format!(
            "{address}: nothing is heard yet of the clock to follow, so that rates are found by the streams' own \
             packets; {}",
            missing(*lack)
        ),
        CrfNote::Heard => format!("{address}: the clock to follow is heard now"),
        CrfNote::Held(false) => format!(
            "{address}: the clock that is followed is silent; its rate is held, and less sure with each second: does \
             its talker run, and is the way to it whole?"
        ),
        CrfNote::Held(true) => format!(
            "{address}: the clock that is followed is told of by times that are not to be relied upon (tu, or they \
             do not fit); its rate is held, and less sure with each second: have the talker's clock kept by PTP"
        ),
        CrfNote::Back => format!("{address}: the clock that is followed is heard again"),
    }
}

fn missing(lack: CrfLack) -> String {
    match lack {
        CrfLack::Nothing => "does its talker run, and send there?".to_owned(),
        CrfLack::Uncertain => "its talker says that its times are not to be relied upon (tu): have the talker's clock \
                               kept by PTP"
            .to_owned(),
        CrfLack::Invalid(CrfInvalid::OtherStream) => {
            "what comes is of another stream: name that one by ?streamid=, or leave it out".to_owned()
        }
        CrfLack::Invalid(CrfInvalid::Subtype) => {
            "what comes is no CRF: name the address of the clock, which the sound does not come by".to_owned()
        }
        CrfLack::Invalid(CrfInvalid::Frequency | CrfInvalid::Pull) => {
            "what comes is told at a frequency that is no multiple or part of the streams' rate: have the talker tell \
             of that"
                .to_owned()
        }
        CrfLack::Invalid(CrfInvalid::Type) => {
            "what comes is no clock of samples: have the talker tell of one (AUDIO_SAMPLE)".to_owned()
        }
        CrfLack::Invalid(other) => {
            let reason = CrfInvalid::NAMES[other.index()];
            format!("what comes cannot be read as CRF ({reason}): is the talker sound?")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_of_a_clock_names_it_and_what_fails_ends_with_the_mend() {
        let address = "avtp://eth0/91:E0:F0:00:FE:08";
        let lacks = CrfInvalid::ALL.map(CrfLack::Invalid);
        let lacks = lacks.into_iter().chain([CrfLack::Nothing, CrfLack::Uncertain]);
        let held = [false, true].map(CrfNote::Held);
        let failed: Vec<_> = lacks.map(CrfNote::Unheard).chain(held).collect();
        for note in failed {
            let told = clock(address, &note);
            assert!(told.starts_with(&format!("{address}: ")), "{told}");
            let mend = told.rsplit([';', ':']).next().unwrap();
            let mends = ["?", "have the talker", "name"];
            assert!(mends.iter().any(|word| mend.contains(word)), "{told}");
        }
        let heard = [CrfNote::Heard, CrfNote::Back].map(|note| clock(address, &note));
        assert!(heard.iter().all(|told| told.contains("is heard")), "{heard:?}");
        assert_ne!(heard[0], heard[1], "what was told is not told again");
    }
}
