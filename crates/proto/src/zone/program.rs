//! Which of several programs plays, by presentation time.

use tautline_dsp::gain::Gain;

use super::curve::GainCurve;
use crate::time::{LocalTime, Span};

tautline_dsp::named_enum! {
    /// How several programs share an output, as `recv --select`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum ProgramRule {
        /// All.
        #[default]
        Mix = "mix",
        /// The first active program, in the given order.
        Priority = "priority",
        /// The program that has been active longest, until it stops.
        FirstAlive = "first-alive",
    }
    unknown: "invalid rule '{}': must be mix, priority or first-alive"
}

#[derive(Debug, Clone, Copy)]
struct Program {
    /// Presentation times of the first frame, and after the newest frame.
    sound: Option<(LocalTime, LocalTime)>,
    curve: GainCurve,
}

/// Decides which programs play. Times are presentation times on this host's clock, so receivers with
/// the same streams agree to a period. Nothing allocates after set-up: the device thread calls it.
#[derive(Debug)]
pub struct Programs {
    rule: ProgramRule,
    all: Vec<Program>,
    chosen: Option<usize>,
}

impl Programs {
    /// A program is inactive after ten usual packets, longer than typical host stalls.
    pub const TIMEOUT: Span = Span::from_millis(100);
    const RAMP: Span = Span::from_millis(10);

    const SILENT: Program = Program { sound: None, curve: GainCurve::constant(Gain::SILENCE) };

    /// Room for `count` programs, in order of preference.
    pub fn new(rule: ProgramRule, count: usize) -> Self {
        Self { rule, all: vec![Self::SILENT; count], chosen: None }
    }

    /// Whether all programs play.
    pub fn are_mixed(&self) -> bool {
        self.rule == ProgramRule::Mix
    }

    /// The program that plays, or played last.
    pub const fn chosen(&self) -> Option<usize> {
        self.chosen
    }

    /// Gain of program `index`; `None` if all play, or without room for it.
    pub fn curve(&self, index: usize) -> Option<&GainCurve> {
        self.all.get(index).filter(|_| !self.are_mixed()).map(|program| &program.curve)
    }

    /// Handles sound of program `index`, presented from `from` to `until`.
    pub fn handle_sound(&mut self, index: usize, from: LocalTime, until: LocalTime) {
        let Some(program) = self.all.get_mut(index) else { return };
        match &mut program.sound {
            Some((_, known)) => *known = until.max(*known),
            none => *none = Some((from, until)),
        }
    }

    /// Removes program `index`; the program `last` gets its number.
    pub fn swap_remove(&mut self, index: usize, last: usize) {
        if index.max(last) >= self.all.len() {
            return;
        }
        self.all.swap(index, last);
        self.all[last] = Self::SILENT;
        self.chosen = match self.chosen {
            Some(chosen) if chosen == index => None,
            Some(chosen) if chosen == last => Some(index),
            other => other,
        };
    }

    /// Decides for presentation time `earliest`. Returns whether a curve changed.
    pub fn choose(&mut self, earliest: LocalTime) -> bool {
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
                    programs.handle_sound(index, at(now + 20), at(now + 30));
                }
            }
            programs.choose(at(now + 5));
            if times.contains(&now) {
                let gain = |index| {
                    programs.curve(index).map_or(Gain::UNITY, |it| it.gain_at(at(now))).factor()
                };
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
        programs.handle_sound(1, at(0), at(900));
        programs.choose(at(0));
        programs.handle_sound(0, at(700), at(710));
        assert!(programs.choose(at(650)) && !programs.choose(at(660)));
        let gain = |index: usize, millis| programs.curve(index).unwrap().gain_at(at(millis));
        assert_eq!((gain(0, 700), gain(0, 710)), (Gain::SILENCE, Gain::UNITY));
        assert_eq!((gain(1, 700), gain(1, 710)), (Gain::UNITY, Gain::SILENCE));
        assert!(!programs.choose(at(809)) && programs.choose(at(810)));
        let after = programs.curve(1).map(|curve| curve.gain_at(at(820)));
        assert_eq!((programs.chosen(), after), (Some(1), Some(Gain::UNITY)));
    }

    #[test]
    fn last_program_takes_the_number_of_a_removed_one() {
        let mut programs = Programs::new(ProgramRule::FirstAlive, 3);
        for (index, from) in [(2, 0), (0, 100), (1, 200)] {
            programs.handle_sound(index, at(from), at(900));
        }
        programs.choose(at(300));
        programs.swap_remove(1, 2);
        assert_eq!(programs.chosen(), Some(1));
        assert!(!programs.choose(at(310)), "it plays on");
        programs.swap_remove(1, 1);
        assert!(programs.choose(at(320)));
        assert_eq!(programs.chosen(), Some(0));
        programs.handle_sound(7, at(0), at(1));
        programs.swap_remove(7, 0);
        assert_eq!((programs.chosen(), programs.curve(7)), (Some(0), None));
    }
}
