//! `taut join`: the ledgers of a sender and a receiver, packet by packet, by RTP timestamp.
//!
//! Each side's instants are on its own clock, so only lengths of time cross: the sender's stages
//! from its ledger, the receiver's from its own. What lies between them, the wire, is known only
//! where the receiver had mapped the sender's clock.

use std::collections::HashMap;
use std::path::Path;

use crate::failure::Failure;
use crate::flags::Join;
use crate::screen;

pub(crate) fn run(flags: &Join) -> Result<(), Failure> {
    let sent = Ledger::read(&flags.sender)?;
    let heard = Ledger::read(&flags.receiver)?;
    let stages = Stages::of(&sent, &heard)?;
    screen::say(
        "rtp_timestamp,capture_ns,pack_ns,lateness_ns,send_ns,wire_ns,wakeup_ns,buffer_ns,\
                 render_ns,device_ns,measured_ns",
    );
    let mut arrived = HashMap::new();
    for row in &heard.rows {
        arrived.insert(heard.number(row, stages.heard.timestamp), row);
    }
    let mut lost = 0;
    for row in &sent.rows {
        let timestamp = sent.number(row, stages.sent.timestamp);
        match arrived.get(&timestamp) {
            Some(other) => screen::say(&stages.line(&sent, row, &heard, other)),
            None => lost += 1,
        }
    }
    screen::tell(&format!(
        "{} packets sent, {} played, {lost} only sent",
        sent.rows.len(),
        heard.rows.len()
    ));
    Ok(())
}

/// A ledger as text: its head and its lines, in cells.
struct Ledger {
    name: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Ledger {
    fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::open(format!("reading {name}: {error}; check the path")))?;
        let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut lines = text.lines();
        let head = lines.next().map(cells).unwrap_or_default();
        let rows: Vec<_> = lines.map(cells).filter(|row| row.len() == head.len()).collect();
        Ok(Self { name, head, rows })
    }

    fn column(&self, name: &str) -> Result<usize, Failure> {
        self.head.iter().position(|column| column == name).ok_or_else(|| {
            Failure::usage(format!(
                "{} has no column {name}; give the sender's ledger first, then the receiver's, as \
                 taut writes them with --ledger",
                self.name
            ))
        })
    }

    fn number(&self, row: &[String], column: usize) -> Option<i64> {
        row.get(column)?.parse().ok()
    }
}

struct SentColumns {
    timestamp: usize,
    instants: [usize; 4],
    due: usize,
}

struct HeardColumns {
    timestamp: usize,
    instants: [usize; 6],
    measured: usize,
}

/// Where each instant stands in each ledger.
struct Stages {
    sent: SentColumns,
    heard: HeardColumns,
}

impl Stages {
    fn of(sent: &Ledger, heard: &Ledger) -> Result<Self, Failure> {
        Ok(Self {
            sent: SentColumns {
                timestamp: sent.column("rtp_timestamp")?,
                instants: [
                    sent.column("capture")?,
                    sent.column("taken")?,
                    sent.column("packed")?,
                    sent.column("handed")?,
                ],
                due: sent.column("due")?,
            },
            heard: HeardColumns {
                timestamp: heard.column("rtp_timestamp")?,
                instants: [
                    heard.column("handed")?,
                    heard.column("arrival")?,
                    heard.column("read")?,
                    heard.column("taken")?,
                    heard.column("written")?,
                    heard.column("dac")?,
                ],
                measured: heard.column("measured_ns")?,
            },
        })
    }

    /// One packet's line: unknown stages are empty.
    fn line(&self, sent: &Ledger, row: &[String], heard: &Ledger, other: &[String]) -> String {
        let here = self.sent.instants.map(|column| sent.number(row, column));
        let there = self.heard.instants.map(|column| heard.number(other, column));
        let due = sent.number(row, self.sent.due);
        let [capture, pack, send] = [0, 1, 2].map(|i| between(here[i], here[i + 1]));
        let timestamp = sent.number(row, self.sent.timestamp);
        let cells = [timestamp, capture, pack, between(due, here[3]), send]
            .into_iter()
            .chain([0, 1, 2, 3, 4].map(|i| between(there[i], there[i + 1])))
            .chain([heard.number(other, self.heard.measured)]);
        let cells: Vec<String> =
            cells.map(|cell| cell.map_or(String::new(), |number| number.to_string())).collect();
        cells.join(",")
    }
}

fn between(from: Option<i64>, to: Option<i64>) -> Option<i64> {
    Some(to? - from?)
}
