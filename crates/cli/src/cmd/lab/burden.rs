//! `taut lab burden`

use tautline_lab::burden::Burden;

use super::stop_with_agent;
use crate::failure::Failure;
use crate::flags::Burdening;
use crate::screen;

pub(crate) fn run(flags: &Burdening) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let burden = Burden::from(flags.kind.clone());
    let report =
        burden.run(&stop, flags.longest).map_err(|error| Failure::open(error.to_string()))?;
    let json = serde_json::to_string(&report).map_err(|e| Failure::running(e.to_string()))?;
    screen::print(&(json + "\n"));
    Ok(())
}
