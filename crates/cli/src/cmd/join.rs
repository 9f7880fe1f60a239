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
    let joined = Joined::of(&sent, &heard)?;
    joined.lines.iter().for_each(|line| screen::say(line));
    screen::tell(&joined.counted);
    Ok(())
}

/// The columns: each stage, their sum, and what is no part of it.
const COLUMNS: &str = "rtp_timestamp,capture_ns,pack_ns,send_ns,launch_ns,wire_ns,wakeup_ns,buffer_ns,\
                       render_ns,resample_ns,device_ns,total_ns,measured_ns,lateness_ns,late";

/// Two ledgers as one.
struct Joined {
    lines: Vec<String>,
    /// How many packets each had, in a sentence.
    counted: String,
}

impl Joined {
    fn of(sent: &Ledger, heard: &Ledger) -> Result<Self, Failure> {
        let stages = Stages::of(sent, heard)?;
        let mut arrived = HashMap::new();
        for row in &heard.rows {
            arrived.insert(heard.number(row, stages.heard.timestamp), row);
        }
        let is_late = |row: &&Vec<String>| stages.is_late(heard, row);
        let late = heard.rows.iter().filter(is_late).count();
        let (mut lines, mut lost) = (vec![COLUMNS.to_owned()], 0);
        for row in &sent.rows {
            match arrived.get(&sent.number(row, stages.sent.timestamp)) {
                Some(other) => lines.push(stages.line(sent, row, heard, other)),
                None => lost += 1,
            }
        }
        let (sent, played) = (sent.rows.len(), heard.rows.len() - late);
        let counted =
            format!("{sent} packets sent, {played} played, {late} late, {lost} only sent");
        Ok(Self { lines, counted })
    }
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
    launched: Option<usize>,
    due: usize,
}

struct HeardColumns {
    timestamp: usize,
    handed: usize,
    instants: [usize; 5],
    launched: Option<usize>,
    resample: Option<usize>,
    measured: usize,
    late: Option<usize>,
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
                launched: sent.column("launched").ok(),
                due: sent.column("due")?,
            },
            heard: HeardColumns {
                timestamp: heard.column("rtp_timestamp")?,
                handed: heard.column("handed")?,
                instants: [
                    heard.column("arrival")?,
                    heard.column("read")?,
                    heard.column("taken")?,
                    heard.column("written")?,
                    heard.column("dac")?,
                ],
                launched: heard.column("launched").ok(),
                resample: heard.column("resample_ns").ok(),
                measured: heard.column("measured_ns")?,
                late: heard.column("late").ok(),
            },
        })
    }

    fn is_late(&self, heard: &Ledger, row: &[String]) -> bool {
        self.heard.late.and_then(|column| heard.number(row, column)) == Some(1)
    }

    /// One packet's line: unknown stages are empty, and so is their sum.
    fn line(&self, sent: &Ledger, row: &[String], heard: &Ledger, other: &[String]) -> String {
        let here = |column: usize| sent.number(row, column);
        let there = |column: usize| heard.number(other, column);
        let [capture, taken, packed, handed] = self.sent.instants.map(here);
        let launched = self.sent.launched.and_then(here).or(handed);
        let sent_at = self.heard.launched.and_then(there).or(there(self.heard.handed));
        let [arrival, read, played, written, dac] = self.heard.instants.map(there);
        // A stage that does not exist takes nothing.
        let resample = self.heard.resample.map_or(Some(0), there);
        let device = between(written, dac).zip(resample).map(|(all, part)| all - part);
        let stages = [
            between(capture, taken),
            between(taken, packed),
            between(packed, handed),
            between(handed, launched),
            between(sent_at, arrival),
            between(arrival, read),
            between(read, played),
            between(played, written),
            resample,
            device,
        ];
        let total = stages.iter().copied().sum::<Option<i64>>();
        let late = self.heard.late.map_or(Some(0), there);
        let beside =
            [total, there(self.heard.measured), between(here(self.sent.due), handed), late];
        let cells = [here(self.sent.timestamp)].into_iter().chain(stages).chain(beside);
        let cells: Vec<String> =
            cells.map(|cell| cell.map_or(String::new(), |number| number.to_string())).collect();
        cells.join(",")
    }
}

fn between(from: Option<i64>, to: Option<i64>) -> Option<i64> {
    to?.checked_sub(from?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(name: &str, text: &str) -> Ledger {
        let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut lines = text.lines().map(cells);
        Ledger { name: name.to_owned(), head: lines.next().unwrap(), rows: lines.collect() }
    }

    /// Of a packet that the kernel held for 7 ns and that was resampled, one without a known clock, a late one, and
    /// one that was lost. The receiver's clock is 1000 ns ahead.
    fn joined() -> Joined {
        let sent = "rtp_timestamp,capture,taken,packed,due,handed,launched,left,unlaunched\n\
                    1,100,110,130,131,135,142,,0\n2,200,210,230,231,235,235,,0\n3,300,310,330,331,335,335,,0\n\
                    4,400,410,430,431,435,435,,0";
        let heard = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,measured_ns,\
                     stream,late,resample_ns,launched\n\
                     1,1100,1110,1130,1135,1200,1210,1300,1310,1400,301,0,0,20,1142\n\
                     2,,,,,1300,1310,1400,1410,1500,,0,0,0,\n\
                     3,1300,1310,1330,1335,1900,1910,1910,1910,1600,,0,1,0,1335";
        Joined::of(&ledger("sent.csv", sent), &ledger("heard.csv", heard)).unwrap()
    }

    #[test]
    fn stages_add_up_to_capture_to_dac() {
        let joined = joined();
        let head: Vec<&str> = joined.lines[0].split(',').collect();
        let cell = |line: usize, name: &str| {
            let at = head.iter().position(|column| *column == name).unwrap();
            joined.lines[line].split(',').nth(at).unwrap().parse::<i64>().ok()
        };
        let stages = &head[1..head.iter().position(|column| *column == "total_ns").unwrap()];
        assert_eq!(stages.len(), 10);
        for (line, total) in [(1, 300), (3, 300)] {
            let sum: i64 = stages.iter().map(|name| cell(line, name).unwrap()).sum();
            assert_eq!(
                (sum, cell(line, "total_ns")),
                (total, Some(total)),
                "{}",
                joined.lines[line]
            );
        }
        let (launch, resample, device) =
            (cell(1, "launch_ns"), cell(1, "resample_ns"), cell(1, "device_ns"));
        assert_eq!((launch, resample, device), (Some(7), Some(20), Some(70)));
        assert_eq!((cell(2, "wire_ns"), cell(2, "total_ns")), (None, None), "its clock is unknown");
        assert_eq!((cell(1, "measured_ns"), cell(1, "lateness_ns")), (Some(301), Some(4)));
        assert_eq!((cell(1, "late"), cell(3, "late")), (Some(0), Some(1)));
    }

    #[test]
    fn packets_are_counted_as_played_late_or_only_sent() {
        assert_eq!(joined().counted, "4 packets sent, 2 played, 1 late, 1 only sent");
    }
}
