//! Definitions of a packet's stages, in short. See `docs/reference/stages.md`.

macro_rules! stages {
    () => {
        r#"Stages, in the order of travel. Each begins where the one before ends; together
they are the time from a packet's first frame at the ADC to that at the DAC.
  capture   first frame at the ADC to its block in the program: a card delivers
            whole periods (send --period)
  pack      to the complete, encoded packet: it waits until blocks fill it
            (send --ptime, --format)
  send      to its hand-over to the kernel: packets of a period leave one after
            the other (send --io-thread, --pacing, --scheduler)
  launch    to the launch time at which the kernel's queue releases it, if
            it has such a queue (send --pacing)
  wire      to the kernel's timestamp of its arrival: both drivers and the
            network, across two clocks (send --dscp)
  sender    replaces all of the above if the sender reports only its capture:
            first frame at the ADC to arrival (without --no-header-extensions)
  wakeup    to its reading by the program: the device thread wakes once per
            period (recv --period, --scheduler, --io-thread)
  buffer    to its turn: the part of the latency that remains (--latency)
  render    to the mix in the device's buffer: decoding, gain, mixing (recv
            --from for each stream, send --format)
  resample  the delay of the resampler's kernel, if frames are resampled
            (recv --resampler)
  device    from that buffer to the DAC: the periods before it (recv --period,
            --periods)"#
    };
}
pub(crate) use stages;

#[cfg(test)]
mod tests {
    use tautline_proto::ledger::{SENDER_STAGE, Stage};

    const STAGES: &str = stages!();
    const PAGE: &str = include_str!("../../../../docs/reference/stages.md");

    fn entry(stage: &str) -> String {
        let begins = |line: &&str| line.starts_with(&format!("  {stage} "));
        let mut lines = STAGES.lines().skip_while(|line| !begins(line));
        let first = lines.next().unwrap_or_else(|| panic!("{stage} is not in the help"));
        let more = lines.take_while(|line| line.starts_with("            "));
        core::iter::once(first).chain(more).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_stage_that_a_report_can_have_is_defined() {
        for stage in Stage::ALL.map(Stage::name).into_iter().chain([SENDER_STAGE]) {
            let entry = entry(stage);
            assert!(
                entry.ends_with(')') && entry.contains(" to ") || stage == "resample",
                "{entry}"
            );
            let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{stage}` |")));
            let row =
                row.unwrap_or_else(|| panic!("docs/reference/stages.md has no row of {stage}"));
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            assert!(cells.len() == 5 && cells.iter().all(|cell| !cell.is_empty()), "{row}");
        }
    }

    #[test]
    fn help_of_each_command_with_stages_defines_them() {
        use clap::CommandFactory;
        let mut taut = crate::flags::Taut::command();
        for name in ["send", "recv", "join", "top"] {
            let command = taut.find_subcommand_mut(name).unwrap();
            assert!(command.render_long_help().to_string().contains(STAGES), "{name}");
        }
    }
}
