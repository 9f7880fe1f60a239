//! Networks of `taut lab impair --preset`, from the simulation.

use core::fmt::Write;

use tautline_proto::time::Span;
use tautline_sim::link::{Bottleneck, Holds, Jitter, Loss, PathModel};
use tautline_sim::preset::Preset;

pub(super) fn table() -> String {
    let mut table = "Presets, the same in both directions:\n".to_owned();
    line(&mut table, ["", "delay", "jitter", "held", "loss", "narrowest"]);
    for preset in Preset::ALL {
        let PathModel { delay, jitter, holds, loss, bottleneck, .. } = preset.path();
        line(
            &mut table,
            [
                preset.name(),
                &delay.to_string(),
                &varies(jitter),
                &held(holds),
                &lost(loss),
                &narrowest(bottleneck),
            ],
        );
    }
    table.pop();
    table
}

fn line(table: &mut String, [name, delay, jitter, holds, loss, narrowest]: [&str; 6]) {
    let line = format!("  {name:<17} {delay:<6} {jitter:<12} {holds:<13} {loss:<13} {narrowest}");
    let _ = writeln!(table, "{}", line.trim_end());
}

fn varies(jitter: Jitter) -> String {
    match jitter {
        Jitter::None => "-".into(),
        Jitter::Uniform(maximum) => format!("to {maximum}"),
        Jitter::HalfNormal(mean) | Jitter::Exponential(mean) => format!("~{mean}"),
        Jitter::Pareto { scale, maximum, .. } => format!("{scale}..{maximum}"),
    }
}

fn held(holds: Option<Holds>) -> String {
    let Some(Holds { every, length }) = holds else { return "-".into() };
    let longest = match length {
        Jitter::None => Span::ZERO,
        Jitter::Uniform(maximum) | Jitter::Pareto { maximum, .. } => maximum,
        Jitter::HalfNormal(mean) | Jitter::Exponential(mean) => mean,
    };
    format!("{longest}/{every}")
}

fn lost(loss: Loss) -> String {
    let share = loss.share() * 100.0;
    if share <= 0.0 {
        return "-".into();
    }
    let percent = format!("{share:.4}");
    let percent = percent.trim_end_matches('0').trim_end_matches('.');
    match loss.into_bad > 0.0 {
        true => format!("{percent}% by {:.0}", 1.0 / loss.into_good),
        false => format!("{percent}%"),
    }
}

fn narrowest(bottleneck: Option<Bottleneck>) -> String {
    bottleneck.map_or("-".into(), |Bottleneck { rate, .. }| format!("{}Mbit", rate / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_a_line_with_its_own_figures() {
        let table = table();
        for preset in Preset::ALL {
            let line =
                table.lines().find(|line| line.split_whitespace().next() == Some(preset.name()));
            let line = line.unwrap_or_else(|| panic!("no {preset} in\n{table}"));
            let model = preset.path();
            assert!(line.contains(&format!(" {} ", model.delay)), "{line}");
            let percent = line.split_whitespace().find_map(|word| word.strip_suffix('%'));
            let share = percent.map_or(0.0, |text| text.parse::<f64>().expect("a figure") / 100.0);
            assert!((share - model.loss.share()).abs() < 1e-9, "{share} in {line}");
        }
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    #[test]
    fn jitter_holds_and_bursts_are_reported() {
        let bad = table();
        let bad = bad.lines().find(|line| line.contains("wifi-bad")).expect("a line");
        let reported: Vec<&str> = bad.split_whitespace().collect();
        assert_eq!(reported, ["wifi-bad", "1ms", "300us..60ms", "140ms/3s", "2%", "by", "3", "-"]);
    }
}
