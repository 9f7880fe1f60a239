//! Finds workers.

use std::path::Path;

use thiserror::Error;
use toml::{Table, Value};

use crate::client::{NoWorkerAddress, WorkerAddress};

/// A way to find workers.
pub trait WorkerFinder {
    /// Known workers, in order of preference.
    fn workers(&self) -> Result<Vec<WorkerAddress>, FindError>;
}

/// Why no workers were found.
#[derive(Debug, Error)]
pub enum FindError {
    /// The value is not a list of addresses.
    #[error(
        "in {place}: workers is not a list of addresses\nhint: write workers = [\"10.0.0.2\", \"studio=10.0.0.3\"]"
    )]
    NoList {
        /// Path of the file.
        place: String,
    },
    /// An entry is not a valid address.
    #[error("in {place}: {error}")]
    Address {
        /// Path of the file.
        place: String,
        /// What is wrong with it.
        error: NoWorkerAddress,
    },
}

/// Workers of `tautline.toml`: `workers = ["10.0.0.2", "studio=10.0.0.3:17230"]`.
#[derive(Debug, Clone)]
pub struct NamedWorkers {
    place: String,
    listed: Option<Value>,
}

impl NamedWorkers {
    /// Workers in this parsed file.
    pub fn of(path: &Path, file: &Table) -> Self {
        let listed = file.get("workers").cloned();
        Self { place: path.display().to_string(), listed }
    }
}

impl WorkerFinder for NamedWorkers {
    fn workers(&self) -> Result<Vec<WorkerAddress>, FindError> {
        let place = || self.place.clone();
        let Some(listed) = &self.listed else { return Ok(Vec::new()) };
        let no_list = || FindError::NoList { place: place() };
        let read = |worker: &Value| {
            let text = worker.as_str().ok_or_else(no_list)?;
            text.parse().map_err(|error| FindError::Address { place: place(), error })
        };
        listed.as_array().ok_or_else(no_list)?.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str) -> Result<Vec<String>, String> {
        let workers = NamedWorkers::of(Path::new("tautline.toml"), &file.parse().unwrap());
        let found = workers.workers().map_err(|error| error.to_string())?;
        Ok(found.iter().map(WorkerAddress::to_string).collect())
    }

    #[test]
    fn the_file_names_workers_in_the_order_of_preference() {
        let file = "workers = [\"studio=10.0.0.3:9000\", \"10.0.0.2\"]\nlatency = \"5ms\"";
        let expected = ["studio=10.0.0.3:9000", "10.0.0.2:17230"].map(str::to_owned).to_vec();
        assert_eq!(found(file), Ok(expected));
        assert_eq!(found("latency = \"5ms\""), Ok(Vec::new()));
    }

    #[test]
    fn invalid_list_is_reported_with_place_and_hint() {
        for file in
            ["workers = \"10.0.0.2\"", "workers = [1]", "workers = [\"a:b:c\"]", "workers = 1"]
        {
            let error = found(file).expect_err(file);
            assert!(error.starts_with("in tautline.toml: ") && error.contains("write "), "{error}");
        }
    }
}
