//! What each stage of a packet's way is. `docs/reference/stages.md` has the same with more detail.

macro_rules! stages {
    () => {
        r#"Stages, in the order of travel. Each begins where the one before ends; together
they are the time from a packet's first frame at the ADC to that at the DAC.
  capture   first frame at the ADC to its block in the program: the card hands
            over whole periods (send --period)
  pack      to the packet that is complete: it waits for the blocks that fill it
            and is encoded (send --ptime, --format)
  send      to its hand-over to the kernel: packets of a period leave one after
            the other (send --io-thread, --pacing, --scheduler)
  launch    to the launch time at which the kernel's queue lets it go; only with
            such a queue (send --pacing)
  wire      to the kernel's stamp of its arrival at the receiver: both drivers
            and the network, across two clocks (no option; the network)
  sender    instead of all these, of a sender that reports its capture alone:
            first frame at the ADC to arrival (without --no-header-extensions)
  wakeup    to its reading by the program: the device's thread wakes once a
            period (recv --period, --scheduler, --io-thread)
  buffer    to its turn: what the other stages leave of the latency (--latency)
  render    to the mix in the device's buffer: decoding, gain, mixing (recv
            --from for each stream, send --format)
  resample  the delay of the resampler's kernel; only where frames are resampled
            (recv --resampler)
  device    from that buffer to the DAC: the periods that lie before it (recv
            --period, --periods)"#
    };
}
pub(crate) use stages;

#[cfg(test)]
mod tests {
    use tautline_proto::ledger::{SENDER_STAGE, Stage};

    const STAGES: &str = stages!();
    const PAGE: &str = include_str!("../../../../docs/reference/stages.md");

    /// The lines of a stage.
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
            // What changes it stands in parentheses.
            assert!(
                entry.ends_with(')') && entry.contains(" to ") || stage == "resample",
                "{entry}"
            );
            // From, to, cause, and what changes it.
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
