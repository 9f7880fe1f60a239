//! Writes sample pages of simulated reports: `cargo run -p tautline-lab --example page --
//! target/lab`.

use std::path::PathBuf;

use tautline_lab::page::page;

#[path = "../tests/page/simulated.rs"]
mod simulated;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "target/lab".into()));
    std::fs::create_dir_all(&folder)?;
    for report in [simulated::ladder(), simulated::stages(), simulated::hostile()] {
        std::fs::write(folder.join(&*report.experiment).with_extension("html"), page(&report))?;
    }
    Ok(())
}
