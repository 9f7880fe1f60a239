//! Which of several programs plays, by presentation time.

use tautline_dsp::gain::Gain;

use super::curve::GainCurve;
use crate::time::{LocalTime, Span};

tautline_dsp::named_enum! {
    /// How programs share a zone, as `recv --select`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum ProgramRule {
        /// All.
        #[default]
        Mix = "mix",
        /// The first active one, in the given order.
        Priority = "priority",
        /// The one active longest, until it stops.
        FirstAlive = "first-alive",
    }
}

#[derive(Debug, Clone, Copy)]
struct Program {
    /// Presentation times of the first frame, and after the newest.
    sound: Option<(LocalTime, LocalTime)>,
    curve: GainCurve,
}

#[derive(Debug)]
pub(super) struct Programs {
    rule: ProgramRule,
    all: Vec<Program>,
    chosen: Option<usize>,
}

impl Programs {
    /// A program is inactive after ten usual packets, longer than typical host stalls.
    const TIMEOUT: Span = Span::from_millis(100);
    const RAMP: Span = Span::from_millis(10);

    pub(super) fn new(rule: ProgramRule, count: usize) -> Self {
        let gain = if rule == ProgramRule::Mix { Gain::UNITY } else { Gain::SILENCE };
        let program = Program { sound: None, curve: GainCurve::constant(gain) };
        Self { rule, all: vec![program; count], chosen: None }
    }

    pub(super) fn curve(&self, index: usize) -> Option<GainCurve> {
        self.all.get(index).map(|program| program.curve)
    }

    /// Takes sound from `from` to `until`. Returns whether the program was silent.
    pub(super) fn hear(&mut self, index: usize, from: LocalTime, until: LocalTime) -> bool {
        let Some(program) = self.all.get_mut(index) else { return false };
        match &mut program.sound {
            Some((_, known)) => {
                *known = until.max(*known);
                false
            }
            none => {
                *none = Some((from, until));
                true
            }
        }
    }

    /// Next change of the choice by time alone, at presentation.
    pub(super) fn changes_at(&self) -> Option<LocalTime> {
        self.all.iter().filter_map(|it| it.sound).map(|(_, until)| until + Self::TIMEOUT).min()
    }

    /// Decides for presentation time `earliest`. Returns whether a curve changed.
    pub(super) fn choose(&mut self, earliest: LocalTime) -> bool {
        for program in &mut self.all {
            program.sound = program.sound.filter(|(_, until)| *until + Self::TIMEOUT > earliest);
        }
        if self.rule == ProgramRule::Mix {
            return false;
        }
        let mut active = self.all.iter().enumerate();
        let active =
            active.by_ref().filter_map(|(index, it)| it.sound.map(|(from, _)| (from, index)));
        let chosen = match self.rule {
            ProgramRule::Priority => active.map(|(_, index)| index).min(),
            ProgramRule::Mix | ProgramRule::FirstAlive => active.min().map(|(_, index)| index),
        };
        // A program that stopped keeps its gain, because a pause may be short.
        let Some(next) = chosen.filter(|_| chosen != self.chosen) else { return false };
        let from = self.all[next].sound.map_or(earliest, |(from, _)| from.max(earliest));
        for (index, program) in self.all.iter_mut().enumerate() {
            let gain = if index == next { Gain::UNITY } else { Gain::SILENCE };
            program.curve.ramp(from, Self::RAMP, gain);
        }
        self.chosen = chosen;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    /// Gains of three programs at some presentation times. Each is active from and to the given
    /// times, in packets of 10 ms that arrive 20 ms ahead.
    fn played(rule: ProgramRule, active: [(i64, i64); 3], times: &[i64]) -> Vec<[f32; 3]> {
        let mut programs = Programs::new(rule, 3);
        let mut played = Vec::new();
        for now in (0..2000).step_by(10) {
            for (index, (from, to)) in active.into_iter().enumerate() {
                if (from..to).contains(&(now + 20)) {
                    programs.hear(index, at(now + 20), at(now + 30));
                }
            }
            programs.choose(at(now + 5));
            if times.contains(&now) {
                let gain = |index| programs.curve(index).unwrap().gain_at(at(now)).factor();
                played.push([0, 1, 2].map(gain));
            }
        }
        played
    }

    #[test]
    fn mix_plays_all_programs() {
        let gains = played(ProgramRule::Mix, [(0, 500), (100, 900), (9000, 9000)], &[50, 700]);
        assert_eq!(gains, [[1.0; 3]; 2]);
    }

    #[test]
    fn priority_plays_the_first_active_program() {
        let active = [(500, 1000), (0, 1500), (0, 2000)];
        let gains = played(ProgramRule::Priority, active, &[100, 490, 510, 1050, 1200, 1700]);
        let [first, second, third] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        assert_eq!(gains, [second, second, first, first, second, third]);
    }

    #[test]
    fn first_alive_plays_until_it_is_silent() {
        let active = [(500, 2000), (100, 1000), (200, 2000)];
        let gains = played(ProgramRule::FirstAlive, active, &[150, 600, 1300]);
        assert_eq!(gains, [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
    }

    #[test]
    fn choice_changes_at_the_first_frame_presented() {
        let mut programs = Programs::new(ProgramRule::Priority, 2);
        programs.hear(1, at(0), at(900));
        programs.choose(at(0));
        programs.hear(0, at(700), at(710));
        assert!(programs.choose(at(650)) && !programs.choose(at(660)));
        let gain = |index: usize, millis| programs.curve(index).unwrap().gain_at(at(millis));
        assert_eq!((gain(0, 700), gain(0, 710)), (Gain::SILENCE, Gain::UNITY));
        assert_eq!((gain(1, 700), gain(1, 710)), (Gain::UNITY, Gain::SILENCE));
        assert_eq!(programs.changes_at(), Some(at(810)));
        assert!(!programs.hear(2, at(0), at(1)), "unknown program");
    }
}
